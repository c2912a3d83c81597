"""Queries and documents of clients that use the JSON form over WebSocket.

*Theory.* A client in a browser numbers its requests and confirms its deliveries itself, and these messages go to the
machine unchanged, with three exceptions. A `Subscribe` with a `language` or a `sender` becomes one with the routable
filter and the query. Deliveries pass the tests of such queries. And a document that is published as a payload is read.

*Rules.*
1. One message of the client is one message to the machine: the client's numbers are kept.
2. An invalid query or document is refused (`Denied`, and so `Refused`) and changes nothing.
3. A delivery that no query matches counts as received when all before it are: the client never sees its number.
4. A replicated client must get every event of its session, so it tests its own queries: here they are refused.
5. A greeting of more than `SMALL_BYTES` is decoded one filter at a time, with turns of others between them, and so it
   is compared with rights (`slow_messages.granting`).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from godwit.broker.messages import (
    Accepted,
    Attach,
    Attached,
    Delivery,
    Denied,
    Publish,
    Received,
    Refused,
    Request,
    Retain,
    Subscribe,
    SubscribeQuery,
    Suspended,
    Unsubscribe,
)
from godwit.client.own_context import asked as asked_of
from godwit.errors import BadEvent, FilterError, PeerFault
from godwit.filters.events import Event
from godwit.filters.language import from_json, to_text
from godwit.languages import NATIVE, Query
from godwit.languages.cloud_events import HTTP
from godwit.languages.event_documents import checked_attributes, mode_of
from godwit.runtime.edge_tests import EdgeTests, TestLine
from godwit.runtime.message_items import SMALL_BYTES, refused_text, separators
from godwit.runtime.socket_messages import message_of
from godwit.runtime.wire import JSON

__all__ = ["SocketQueries"]

REASON_CHARS_MAX = 1_000
REPLICATED = "a replicated client tests its own queries: subscribe by a filter"
SHARED = "a shared subscription is routed by filters alone: it cannot have a query with an exact test"
BATCH = "a batch of CloudEvents: publish each one separately"


class Confirmations:
    """The deliveries that a client has received, when some are not sent to it. (rule 3)"""

    def __init__(self) -> None:
        self._sent: deque[int] = deque()  # to the client, and not confirmed by it
        self._highest = 0  # of all, those that were not sent too
        self._confirmed = 0

    def on_sent(self, number: int) -> None:
        """A delivery was sent."""
        self._sent.append(number)
        self._highest = number

    def on_dropped(self, number: int) -> None:
        """A delivery was not sent, because no query matches it."""
        self._highest = number

    def on_received(self, number: int) -> None:
        """The client has received every delivery up to a number."""
        while self._sent and self._sent[0] <= number:
            self._sent.popleft()
        self._highest = max(self._highest, number)

    def taken(self) -> int:
        """The number up to which all deliveries are confirmed, if it has changed; else 0."""
        number = self._sent[0] - 1 if self._sent else self._highest
        if number <= self._confirmed:
            return 0
        self._confirmed = number
        return number


class SocketQueries:
    """One client, of a user. `say` sends to the machine, `write` to the client; `may_have`: whether its rights cover an
    event."""

    def __init__(
        self,
        tests: EdgeTests,
        say: Callable[[Any], Any],
        write: Callable[[Any], None],
        may_have: Callable[[Event], bool] = lambda event: True,
        user: Callable[[], str] = str,
    ) -> None:
        self._tests = tests
        self._say, self._write, self._may_have, self._user = say, write, may_have, user
        self._line: TestLine | None = None
        self._is_replicated = False
        self._client = ""
        self._asked: deque[tuple[int, str]] = deque()  # subscriptions without an answer: number and name
        self._confirmations = Confirmations()

    def close(self) -> None:
        """The client has disconnected."""
        if self._line is not None:
            self._line.close()

    # ------------------------------------------------------------ from the client

    @property
    def _party(self) -> str:
        """Who waits for itself: the user with all its clients; without users, the client."""
        return self._user() or self._client

    async def read(self, data: bytes) -> Any:
        """The client's message, as the machine gets it."""
        refused = await self._too_large(data)
        if refused is not None:
            return refused
        wanted = wishes_in(data) if len(data) > SMALL_BYTES else None
        if wanted is not None:
            message: Any = await self._greeting(data, wanted)
        else:
            message = await self._parsed(data) if b'"filter"' in data else message_of(data)
        kind = type(message)
        if kind is Request and type(message.wish) in (Publish, Retain):
            return await self._published(message)
        if kind is Attach:
            self._client, self._is_replicated = message.client, message.replicated
        elif kind is Request:
            self._note(message)
        elif kind is Received:
            self._confirmations.on_received(message.number)
            return Received(max(self._confirmations.taken(), message.number))
        return message

    async def _too_large(self, data: bytes) -> Request | None:
        """What is to be taken for a message of too many values. `PeerFault`: it is not a request."""
        count = 0
        if len(data) <= SMALL_BYTES:
            return None
        async with self._tests.helper.long_work.task(self._party) as step:
            for so_far in separators(data):
                count = so_far
                await step()
        return refused_text(data, count)

    async def _parsed(self, data: bytes) -> Any:
        """A message with filters that are texts in some language. (rule 2)"""
        try:
            said = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return message_of(data)  # which reports the error
        kind = said.get("type") if isinstance(said, dict) else None
        asked = [said.get("wish")] if kind == "Request" else said.get("wanted") if kind == "Attach" else None
        queries = [await self._taken_query(each) for each in asked] if isinstance(asked, list) else []
        if not any(queries):
            return message_of(data)
        message = message_of(msgspec.json.encode(said))
        if type(message) is Attach:
            return _with_filters(message, queries)
        [query] = queries
        assert query is not None
        if type(message.wish) is not Subscribe:  # it is refused for another reason
            return message
        if isinstance(query, FilterError):
            return Request(message.number, Denied(str(query)[:REASON_CHARS_MAX]))
        subscribe = structs.replace(message.wish, filter=query.routable)
        if query.test is None:
            return Request(message.number, subscribe)
        if self._is_replicated or subscribe.share:
            return Request(message.number, Denied(REPLICATED if self._is_replicated else SHARED))
        return Request(message.number, SubscribeQuery(subscribe, ((query.language, query.text),)))

    async def _greeting(self, data: bytes, wanted: list[msgspec.Raw]) -> Any:
        """A long greeting: one filter at a time, with turns of others between them. (rule 5)"""
        work, queries = self._tests.helper.long_work, list[Query | FilterError | None]()
        without: list[Any] = []  # the same subscriptions, without the queries
        while len(queries) < len(wanted):
            slow: tuple[str, str] | None = None
            async with work.task(self._party) as step:
                while slow is None and len(queries) < len(wanted):
                    said = _wish(wanted[len(queries)])
                    slow = self._slow_query(said)
                    if slow is None:
                        queries.append(await self._taken_query(said))
                        without.append(wanted[len(without)] if queries[-1] is None else said)
                    await step()
            if slow is not None:  # while others have their turns here
                await self._tests.prepare(*slow, self._party)
                said = _wish(wanted[len(queries)])
                queries.append(await self._taken_query(said))
                without.append(said)
        if any(queries):
            data = msgspec.json.encode({**_TOP.decode(data), "wanted": without})
        message = await work.all_of(self._party, JSON.decoding(data))
        return _with_filters(message, queries) if any(queries) else message

    def _slow_query(self, said: Any) -> tuple[str, str] | None:
        """The text of a query that a thread has to parse, and its language; None: it takes little, or is none."""
        if not isinstance(said, dict) or said.get("type") != "Subscribe":
            return None
        filter, language = said.get("filter"), said.get("language", NATIVE)
        if not isinstance(language, str) or (language == NATIVE and not isinstance(filter, str)):
            return None
        text = _text_of(filter)
        return None if self._tests.is_quick(text, language) else (text, language)

    async def _taken_query(self, said: Any) -> Query | FilterError | None:
        """The query of a subscription, which is replaced by its routable filter in the data; None if it has none."""
        is_subscription = isinstance(said, dict) and said.get("type") == "Subscribe"
        if not is_subscription or not ("language" in said or "sender" in said or isinstance(said.get("filter"), str)):
            return None
        language, sender, filter = said.pop("language", NATIVE), said.pop("sender", None), said.get("filter")
        said["filter"] = "TRUE"
        try:
            if not isinstance(language, str):
                raise FilterError("language is a text, such as 'xpath'")
            query = await self._query(filter, language)
            if sender is None:
                return query
            wanted = asked_of(query.routable, sender if isinstance(sender, str) else from_json(sender))
            return replace(query, routable=wanted)
        except FilterError as error:
            return error

    async def _query(self, filter: Any, language: str) -> Query:
        """Parse the query of a filter: a text, or Godwit's filter language in its JSON form."""
        if language == NATIVE and not isinstance(filter, str):
            routable = from_json(filter)
            return Query(NATIVE, to_text(routable), routable)
        text = _text_of(filter)
        if not self._tests.is_quick(text, language):
            await self._tests.prepare(text, language, self._party)
        return self._tests.parse(text, language)

    def _note(self, message: Request) -> None:
        """Apply a request to the tests."""
        wish, line = message.wish, self._line
        if line is None:
            return
        if isinstance(wish, SubscribeQuery):
            self._asked.append((message.number, wish.subscribe.id[1]))
            line.ask(wish.subscribe.id[1], wish.queries)
        elif isinstance(wish, Subscribe) and line.is_needed:
            self._asked.append((message.number, wish.id[1]))
            line.ask(wish.id[1], ())
        elif isinstance(wish, Unsubscribe):
            line.end(wish.id[1])

    async def _published(self, message: Request) -> Request:
        """A request to publish, with the document in it read."""
        wish: Any = message.wish
        event: Event = wish.event
        mode = mode_of(event.content_type, (), HTTP)
        if not mode or not event.payload:
            return message
        payload, no_headers = event.payload, dict[str, str]()
        how = (mode, payload, event.content_type, no_headers, "http")
        try:
            if mode == "batch":
                raise BadEvent(BATCH)
            [document] = await self._tests.helper.read(self._party, *how)
            attributes = checked_attributes({**event.attributes, **document.attributes})
        except BadEvent as error:
            return Request(message.number, Denied(str(error)[:REASON_CHARS_MAX]))
        event = replace(event, attributes=attributes, payload=document.payload, content_type=document.content_type)
        return Request(message.number, structs.replace(wish, event=event))

    # ------------------------------------------------------------ to the client

    def tell(self, messages: list[Any]) -> None:
        """Pass messages of the machine to the client; deliveries after their tests."""
        for message in messages:
            kind = type(message)
            if kind is Delivery and self._line is not None and self._line.is_needed:
                self._line.put([message])
                continue
            if kind is Attached:
                self._begin(message)
            elif kind is Accepted:
                self._answer(message.number, is_granted=True)
            elif kind is Refused:
                self._answer(message.number - 1, is_granted=True)
                self._answer(message.number, is_granted=False)
            elif kind is Delivery:
                self._confirmations.on_sent(message.number)
            self._write(message)

    def _begin(self, attached: Attached) -> None:
        if self._line is not None:
            self._line.close()
        self._line = self._tests.open(self._client, self._on_tested, self._on_suspended)
        if not self._is_replicated:
            self._line.adopt(attached.notes)

    def _answer(self, number: int, *, is_granted: bool) -> None:
        while self._line is not None and self._asked and self._asked[0][0] <= number:
            self._line.on_answer(self._asked.popleft()[1], is_granted)

    def _on_tested(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.subscriptions and self._may_have(delivery.event):  # its rights may have ended meanwhile
                self._confirmations.on_sent(delivery.number)
                self._write(delivery)
            else:
                self._confirmations.on_dropped(delivery.number)
        if number := self._confirmations.taken():
            self._say(Received(number))

    def _on_suspended(self, name: str, reason: str) -> None:
        self._write(Suspended(name, reason))


def _text_of(filter: Any) -> str:
    """A filter as the text that its language parses."""
    return filter if isinstance(filter, str) else msgspec.json.encode(filter).decode()


class _Head(msgspec.Struct):
    """As much of a message as tells what a greeting wants."""

    type: str = ""
    wanted: list[msgspec.Raw] = []


_TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])
_HEAD = msgspec.json.Decoder(_Head)


def wishes_in(data: bytes) -> list[msgspec.Raw] | None:
    """What a greeting wants, as it is written; None: this is something else, or wrong."""
    try:
        head = _HEAD.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return head.wanted if head.type == "Attach" else None


def _wish(data: msgspec.Raw) -> Any:
    """One of the wishes of a greeting. PeerFault: it has a number that is out of range."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise PeerFault(f"Attach.wanted: {error}") from None


def _with_filters(attach: Attach, queries: list[Query | FilterError | None]) -> Attach:
    """A greeting whose subscriptions have the filters of these queries, one by one; None: unchanged."""
    wanted: list[Any] = []
    for wish, query in zip(attach.wanted, queries, strict=True):
        if isinstance(query, FilterError):
            raise PeerFault(f"Attach.wanted: {query}")
        wanted.append(wish if query is None else structs.replace(wish, filter=query.routable))
    return structs.replace(attach, wanted=tuple(wanted))
