"""Events over HTTP: `POST /events` publishes, `GET /events` listens, with server-sent events that can be resumed.

*Theory.* A post needs no session: all posts of one user go through one publisher, which answers when the event is in
the journal. A listener has a session, which keeps events while the connection is broken. Each event has an id that
names the client, the session and the number of the delivery; a browser sends the last one back when it reconnects
(`Last-Event-ID`), here or at another broker, and the stream continues after it.

*Rules.*
1. A post with an invalid event publishes nothing, and the answer names the line. 202 means: all are in the journal. An
   event that the machine refuses (a grant, a limit) is named with its line; the others are published.
2. HTTP has no acknowledgement of an event. A delivery is confirmed when its id was sent back, or when half a window of
   later ones, or a quarter of a queue's bytes, have been written. So a resumed stream has no gaps and no duplicates, as
   long as no more than that were in transit when the connection broke.
3. A slow reader gets events only as fast as it reads: its session keeps the rest, within its limits.
4. Events that the query of a listener does not match are not written, and count as written (`edge_tests.py`).
5. So do events that its rights do not cover any more when they are about to be written.
"""

import asyncio
import base64
import binascii
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any

import msgspec

from godwit.broker.messages import Advertise, Delivery, Publish, Retain, Revoked, SetSessionExpiry
from godwit.broker.sessions import Wish
from godwit.client.own_context import written
from godwit.errors import BadEvent, FilterTooBig, GodwitError
from godwit.filters.contexts import checked_context
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX, ParsedTexts, from_json
from godwit.runtime.authentication import Principal
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.http_listening import Listener, Listening, WrittenDeliveries
from godwit.runtime.in_process_client import InProcessClient
from godwit.runtime.message_items import SMALL_BYTES, separators
from godwit.runtime.node import Node
from godwit.runtime.rate_limits import FILTER_WORK, LITERAL_WORK
from godwit.runtime.server_sent_events import ServerSentEvents
from godwit.runtime.wire import JSON

__all__ = [
    "EVENTS_MAX",
    "BadBody",
    "EventStream",
    "Publishers",
    "checked_separators",
    "events_in",
    "steps_through",
    "work_of_events",
]

EVENTS_MAX = 10_000  # in one post
SEPARATORS_MAX = 250_000  # in its JSON: it is decoded at once
LINE_ENDS_MAX = 4 * EVENTS_MAX  # of two characters each, and as many empty lines
TO_TEXTS_BYTES_MAX = 2**20  # of a post, parsed once each
AT_ONCE_MAX = 256  # events of a post: other posts of the user go between
TOO_MANY_VALUES = (
    f"a body of more than {SEPARATORS_MAX} commas, colons and brackets outside of texts: post fewer events at once"
)
PUBLISHERS_MAX = 256
PUBLISHER_SESSION_EXPIRY_S = 60.0
RETRY_MS = 1_000

FIELDS = ("attributes", "payload", "payload_base64", "content_type", "to", "expires_in", "context")


class BadBody(GodwitError):
    """The body is not a valid event."""

    def __init__(self, line: int, reason: str, column: int | None = None) -> None:
        super().__init__(reason)
        self.line = line
        self.where = {"line": line} if column is None else {"line": line, "column": column}


# ---------------------------------------------------------------- what is posted


def events_in(body: bytes, now: float) -> list[Event]:
    """The events in a body: one JSON object, an array of them, or one on each line. They have no publisher yet."""
    return [event for event in steps_through(body, now) if event is not None]


def steps_through(body: bytes, now: float) -> Iterator[Event | None]:
    """The events in a body, one at a time; or None after a step without one. In a long body, others may go between."""
    if len(body) > SMALL_BYTES:
        yield from checked_separators(body)
    known = ParsedTexts(CLIENT_TEXT_BYTES_MAX, TO_TEXTS_BYTES_MAX)
    try:
        whole: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if body.count(b"\n") + body.count(b"\r") > LINE_ENDS_MAX:
            raise BadBody(1, f"neither JSON ({error}) nor JSON lines: more than {LINE_ENDS_MAX} line ends") from None
        lines = [(number, line) for number, line in enumerate(body.splitlines(), start=1) if line.strip()]
        if len(lines) < 2:
            raise BadBody(1, f"not valid JSON: {error}") from None
        _check_count(len(lines))
        for number, line in lines:
            yield _on_line(number, line, now, known)
        return
    objects = whole if isinstance(whole, list) else [whole]
    _check_count(len(objects))
    for number, data in enumerate(objects, start=1):
        yield _event(number, data, now, known)


def checked_separators(body: bytes) -> Iterator[None]:
    """Count the values of a body in JSON, in steps. `BadBody`: they are too many to be decoded at once."""
    for count in separators(body, SEPARATORS_MAX):
        if count > SEPARATORS_MAX:
            raise BadBody(1, TOO_MANY_VALUES)
        yield None


def work_of_events(events: Iterable[Event]) -> int:
    """The cost of filters in the events of a post: each `to` that had to be read."""
    read = {id(event.to): event.to for event in events if event.to is not None}
    return sum(FILTER_WORK + LITERAL_WORK * filter.size for filter in read.values())


def _check_count(count: int) -> None:
    if count > EVENTS_MAX:
        raise BadBody(EVENTS_MAX + 1, f"{count} events: at most {EVENTS_MAX} go in one request")


def _on_line(number: int, line: bytes, now: float, known: ParsedTexts) -> Event:
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(number, f"not valid JSON: {error}") from None
    return _event(number, data, now, known)


def _event(number: int, data: Any, now: float, known: ParsedTexts) -> Event:
    """An event from its JSON object: attributes alone, or `attributes` and further fields."""
    try:
        if not isinstance(data, dict):
            raise BadEvent("an event is a JSON object")
        if not isinstance(data.get("attributes"), dict):
            return written(data, {}, None, published_at=now)
        strange = [name for name in data if name not in FIELDS]
        if strange:
            raise BadEvent(f"{strange[0]!r} is not a field of events; allowed are {', '.join(FIELDS)}")
        payload, content_type = _payload(data)
        context = checked_context(data.get("context") or {})
        details = {"payload": payload, "content_type": content_type, "published_at": now}
        return written(
            data["attributes"],
            context,
            _to(data.get("to"), known),
            expires_at=_expires(data.get("expires_in"), now),
            **details,
        )
    except (GodwitError, RecursionError) as error:
        raise BadBody(number, str(error)) from None


def _payload(data: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    payload, encoded, kind = data.get("payload"), data.get("payload_base64"), data.get("content_type")
    if kind is not None and not isinstance(kind, str):
        raise BadEvent("content_type must be a text")
    if encoded is not None:
        if payload is not None or not isinstance(encoded, str):
            raise BadEvent("payload_base64 must be a text, and cannot be used together with payload")
        try:
            return base64.b64decode(encoded, validate=True), kind
        except (binascii.Error, ValueError):
            raise BadEvent("payload_base64 is not valid base64") from None
    if payload is None:
        return None, kind
    if isinstance(payload, str):
        return payload.encode(), kind or "text/plain; charset=utf-8"
    return msgspec.json.encode(payload), kind or "application/json"


def _to(said: Any, known: ParsedTexts) -> Filter | None:
    if said is None:
        return None
    try:
        if isinstance(said, str):
            return known.filter(said)
        if len(msgspec.json.encode(said)) > CLIENT_TEXT_BYTES_MAX:
            raise FilterTooBig(f"a filter of more than {CLIENT_TEXT_BYTES_MAX} bytes, which are the most allowed")
        return from_json(said)
    except GodwitError as error:
        raise BadEvent(f"to: {error}") from None


def _expires(seconds: Any, now: float) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e10:
        raise BadEvent("expires_in must be a number of seconds above 0")
    return now + seconds


class Publisher:
    """Publishes the events posted by one user."""

    def __init__(self, node: Node, principal: Principal, name: str) -> None:
        self.name = name
        self._advertises = node.machine.config.advertisements == "required"  # type: ignore[attr-defined]
        self._granted = principal.grants.publish
        self.talk = InProcessClient(node, principal, name)
        self._sequence = 0
        self._attached: asyncio.Task[None] = asyncio.create_task(self._attach())

    async def _attach(self) -> None:
        await self.talk.attach()
        wishes: list[Wish] = [SetSessionExpiry(PUBLISHER_SESSION_EXPIRY_S)]  # no client resumes it after a crash
        if self._advertises:
            wishes.append(Advertise((self.name, "all"), self._granted))  # more would be refused
        await self.talk.ask(wishes)

    @property
    def is_of_use(self) -> bool:
        """Whether it is connected, or connecting."""
        failed = self._attached.done() and (self._attached.cancelled() or self._attached.exception() is not None)
        return not failed and not self.talk.closed_because

    async def publish(
        self, events: list[Event], principal: Principal, retain: str | None, *, clear: bool
    ) -> list[tuple[str, str | None]]:
        """The id of each event, and why it was refused."""
        await asyncio.shield(self._attached)
        outcomes: list[tuple[str, str | None]] = []
        for first in range(0, len(events), AT_ONCE_MAX):
            wishes: list[Publish | Retain] = []
            for event in events[first : first + AT_ONCE_MAX]:
                self._sequence += 1
                event = replace(event, publisher=self.name, sequence=self._sequence)
                wishes.append(Publish(event) if retain is None else Retain(event, retain, clear))
            ids = [f"{wish.event.publisher}:{wish.event.sequence}" for wish in wishes]
            self.talk.inner.principal = principal  # with the present principal
            outcomes += zip(ids, await self.talk.ask(wishes), strict=True)
        return outcomes


class Publishers:
    """The publishers of users: made at the first post; the least recently used one is removed first."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._life = token_hex(6)  # numbers of events must not repeat after a restart
        self._known: dict[Any, Publisher] = {}
        self._made = 0

    def of(self, principal: Principal) -> Publisher:
        """The publisher of a user."""
        key = (principal.user, repr(sorted(principal.asserted.items())), principal.grants.publish)
        publisher = self._known.pop(key, None)
        if publisher is None or not publisher.is_of_use:
            self._made += 1
            name = principal.name_of(f"http-{self._life}-{self._made}")
            publisher = Publisher(self._node, principal, name)
        self._known[key] = publisher
        while len(self._known) > PUBLISHERS_MAX:
            self._known.pop(next(iter(self._known))).talk.leave()
        return publisher

    def close(self) -> None:
        """End their sessions."""
        for publisher in self._known.values():
            publisher.talk.leave()
        self._known.clear()


# ---------------------------------------------------------------- who listens


class EventStream:
    """The source of a response: the events of one session, once it is `open`."""

    def __init__(
        self,
        node: Node,
        principal: Principal,
        listening: Listening,
        *,
        tests: EdgeTests,
        on_end: Callable[["EventStream"], None],
        write_event: Callable[[Event], bytes] = JSON.event,
    ) -> None:
        self.response = ServerSentEvents(self)
        self._on_end = on_end
        self._principal = principal
        self._write_event = write_event
        self._waiting: deque[Delivery] = deque()
        self._written = WrittenDeliveries(node)
        self._listener = Listener(
            node,
            principal,
            listening,
            tests=tests,
            on_tested=self._on_tested,
            on_suspended=self._on_suspended,
            on_closed=self._on_closed,
            on_revoked=self._on_revoked,
            on_loss=self.response.notice,
        )
        self._ended = b""  # messages to the client: the reason why its stream ends, or changed rights

    async def open(self) -> ServerSentEvents:
        """Subscribe; returns the first part of the stream. Problem if it was refused."""
        await self._listener.open()
        return self.response

    def _on_tested(self, deliveries: list[Delivery]) -> None:
        self._waiting.extend(deliveries)
        self.response.notice()

    def _on_suspended(self, reason: str) -> None:
        """The query of the listener has used up its time budget: the stream ends. A new request starts again."""
        self._ended = _named("suspended", {"ended": True, "reason": reason})
        self.end()

    def _on_revoked(self, revoked: Revoked) -> None:
        """The rights of the client have changed: it is told, and its stream ends if nothing is left of it."""
        if not self._listener.is_open:  # it is about to subscribe again
            return
        self._ended = _named("rights", {"ended": bool(revoked.ended), "reason": revoked.reason})
        self.response.notice()
        if revoked.ended:
            self.end()

    def _on_closed(self, reason: str) -> None:
        if self._principal.ended_because:
            self._ended = _named("rights", {"ended": True, "reason": reason})
        self.end()

    def end(self) -> None:
        """End the response: the session has ended, or the broker stops."""
        self.response.end()

    # ------------------------------------------------------------ the response

    def greeting(self) -> bytes:
        """The client name and the retry time, so that the client can resume."""
        listener = self._listener
        told = msgspec.json.encode({"client": listener.client, "session": listener.session})
        greeting = b"retry: %d\nid: %s\nevent: session\ndata: %s\n\n" % (RETRY_MS, self._id(listener.seen), told)
        if listener.receipt is None:
            return greeting
        return greeting + b"event: receipt\ndata: %s\n\n" % msgspec.json.encode(listener.receipt)

    def next_part(self) -> bytes:
        """The events since the last part."""
        deliveries, self._waiting = self._waiting, deque()
        parts: list[bytes] = []
        for delivery in deliveries:
            if delivery.subscriptions and self._principal.may_have(delivery.event):  # rules 4, 5
                parts += (b"id: ", self._id(delivery.number), b"\ndata: ", self._write_event(delivery.event), b"\n\n")
            self._written.add(delivery)
        if (since := self._listener.taken_loss()) is not None:
            parts.append(_named("losses", {"lost_since": since}))
        parts.append(self._ended)
        self._ended = b""
        data = b"".join(parts)
        if not data and deliveries:
            self.on_written()
        return data

    def on_written(self) -> None:
        """Confirm deliveries that were written long enough ago. (rule 2)"""
        if number := self._written.confirmed():
            self._listener.confirm(number)

    def on_gone(self) -> None:
        """Detach; the session stays until it expires."""
        self._listener.close()
        self._on_end(self)

    def _id(self, number: int) -> bytes:
        return self._listener.id_of(number).encode()


def _named(name: str, told: dict[str, Any]) -> bytes:
    """A server-sent event that is not an event of the network."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(told))
