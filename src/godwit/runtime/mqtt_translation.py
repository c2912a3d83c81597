"""Translation of MQTT requests to Godwit's: events, subscriptions, context, and their notes.

*Rules.*
1. A request and its notes are sent in one turn, so that both are in the journal, or neither is.
2. An event's number is the number of its request, counted from when its session began, in microseconds since 1970: so
   numbers of one client grow from session to session, as long as the clocks of brokers differ by less than the time
   between sessions.
3. Clients cannot publish to topics that begin with `$`, except `$ctx`, which sets the client's context. It is stored as
   a note, because events contain it.
4. An event that cannot be published is refused with a reason, and has no effect.
5. Documents (XML, CloudEvents) are read before they are published, large ones by another process, and queries in other
   languages by a thread before they are subscribed to: `is_reading` until then. A large document in a will is not read:
   the event has the attributes of its topic and properties alone. Small documents are read at once, if there is time
   for them in this turn of the event loop (`document_helper.py`).
6. The queries of a subscription are asked for with it, in one request (`SubscribeQuery`).
7. A SUBSCRIBE with much to parse and to ask for is handled piece by piece, so that others do not wait for all of it:
   about `PIECE_BYTES` of text are parsed at a time, then subscriptions are asked for that cost `COSTLY_WORK` together.
   Between two pieces the client rests, as after other costly filters (`client_rates.py`), and nothing that came behind
   the packet is looked at (`is_reading`). Its one SUBACK is sent when all is answered.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from godwit.broker import messages as said
from godwit.broker.client_rights import NOT_ALLOWED
from godwit.errors import BadEvent, FilterError, GodwitError, PeerFault
from godwit.filters.events import Attributes, Event
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX
from godwit.languages import NATIVE as OWN_LANGUAGE
from godwit.languages import Query
from godwit.languages.cloud_events import MQTT
from godwit.languages.event_documents import Document, mode_of, read_document
from godwit.mqtt import mqtt_effects
from godwit.mqtt.mqtt_effects import NEVER, PersistentState
from godwit.mqtt.packets import Publish, Subscribe, Will
from godwit.mqtt.reason_codes import ReasonCode
from godwit.mqtt.session_notes import SUB, grant_note
from godwit.mqtt.subscribe_requests import contents_in, queries_in
from godwit.runtime.authentication import Credentials
from godwit.runtime.client_rates import COSTLY_WORK, ClientRate
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.edge_tests import EdgeTests, TestLine
from godwit.runtime.in_process_connection import InProcessConnection
from godwit.runtime.mqtt_events import (
    CONTEXT,
    attributes_of,
    attributes_of_document,
    cloud_headers,
    context_of_payload,
    context_of_properties,
    stamps_of,
)
from godwit.runtime.mqtt_requests import OnAnswer, Requests
from godwit.runtime.rate_limits import work_of
from godwit.runtime.sys_topics import OFF, is_sys
from godwit.runtime.wire import NATIVE

if TYPE_CHECKING:
    from godwit.runtime.mqtt_gateway import MqttGateway

__all__ = ["MqttTranslator", "ParsedFilters", "credentials_of"]

PIECE_BYTES = 4_000  # of filters: about 4 ms
PIECE_REST_S = 0.005
LIGHT_TOPIC_MAX = 1_024  # characters
SEQUENCE, CTX = "seq", "ctx"  # notes of ours
TO = "$to"


class ParsedFilters:
    """The filters of a large SUBSCRIBE that are parsed already. (rule 7)"""

    def __init__(self, tests: EdgeTests) -> None:
        self._tests = tests
        self.found: dict[str, Query | FilterError] = {}

    def parse(self, text: str, language: str) -> Query:
        """Parse the query of a client, or return what was parsed before. `FilterError` if it is invalid."""
        found = self.found.get(text) if language == OWN_LANGUAGE else None
        if isinstance(found, FilterError):
            raise found.with_traceback(None)
        return self._tests.parse(text, language) if found is None else found


class MqttTranslator:
    """The requests of one client, while it is attached. `tell` passes answers to its MQTT session."""

    def __init__(
        self,
        gateway: "MqttGateway",
        inner: InProcessConnection,
        client: str,
        attached: said.Attached,
        kept: Callable[[], PersistentState],
        line: TestLine,
        tell: Callable[[mqtt_effects.Input], None],
        break_off: Callable[[str], None],
        on_read: Callable[[], None],
        rate: ClientRate | None,
        parsed: "ParsedFilters",
    ) -> None:
        self.requests = Requests(inner, attached.accepted, self._on_all_published, self._on_unpublished)
        self._gateway, self._client, self._user = gateway, client, inner.principal.user
        self._kept, self._line, self._tell = kept, line, tell
        self._break_off, self._on_read = break_off, on_read
        self._rate = rate
        self.is_reading = False  # a document, a query, or a large SUBSCRIBE
        self._is_over = False
        self._reading: Subscribe | None = None  # rule 7
        self._parsed = parsed  # of it
        self._unparsed: list[str] = []
        self._expiry_s: float | None = -1.0
        self._work = 0
        self._base = _whole(attached.notes.get(SEQUENCE))
        self._know_context(_context(attached.notes))
        if gateway.node.machine.config.advertisements == "required":  # type: ignore[attr-defined]
            self._ask(said.Advertise((client, "all"), inner.principal.grants.publish))  # MQTT has no equivalent
        if not self._base:
            self._base = int(gateway.now() * 1e6)
            self.keep(SEQUENCE, msgspec.msgpack.encode(self._base))

    def _ask(self, wish: Any, on_answer: OnAnswer | int | None = None, bulk: bytes | None = None) -> None:
        try:
            self.requests.ask(wish, on_answer, bulk)
        except PeerFault as fault:
            self._break_off(str(fault))

    def end(self) -> int:
        """Ask for nothing more. Returns the number of the last accepted request."""
        self._is_over = True
        return self.requests.end()

    def taken_work(self) -> int:
        """The cost of filters and contexts since the last call. (`rate_limits.work_of`)"""
        work, self._work = self._work, 0
        return work

    def keep(self, key: str, value: bytes | None) -> None:
        """Store a note of the session; None removes it."""
        self._ask(said.Note(key, value))

    def set_session_expiry(self, seconds: int) -> None:
        """Set how long the session is kept while the client is away."""
        expiry_s = None if seconds >= NEVER else float(seconds)
        if expiry_s != self._expiry_s:
            self._expiry_s = expiry_s
            self._ask(said.SetSessionExpiry(expiry_s))

    def set_context(self, context: Attributes, on_answer: OnAnswer | None = None) -> None:
        """Set the client's context."""
        before = self._context

        def answered(reason: str | None, is_denied: bool) -> None:
            if reason is not None and self._context is context:
                self._know_context(before)
                self.keep(CTX, msgspec.msgpack.encode(before))
            if on_answer is not None:
                on_answer(reason, is_denied)

        self._know_context(context)
        wish = said.Context(dict(context))
        self._work += work_of(wish)
        self._ask(wish, answered)
        self.keep(CTX, msgspec.msgpack.encode(context))

    def _know_context(self, context: Attributes) -> None:
        self._context, self._stamps = context, stamps_of(context)

    # ------------------------------------------------------------ events

    def publish(self, wanted: mqtt_effects.PublishEvent | Publish | Will, number: int, now: float) -> None:
        """Publish a message, or report why not, if it has a number."""
        topic = wanted.topic
        on_answer = number or None
        try:
            if topic[0] == "$":
                self._publish_specially(wanted, number)
                return
            document = None if not wanted.properties else self._document(wanted, number, now)
            if self.is_reading:
                return
            event = self._event(wanted, self.requests.said + 1, now, document)
        except GodwitError as error:
            self._on_bad(number, error)
        else:
            self._ask_to_publish(event, wanted, on_answer)

    def _on_bad(self, number: int, error: GodwitError) -> None:
        self._gateway.counts["refused"] += 1
        if number:
            code = ReasonCode.PAYLOAD_FORMAT_INVALID if isinstance(error, BadEvent) else None
            self._on_unpublished(number, str(error), False, code)

    def _ask_to_publish(
        self, event: Event, wanted: mqtt_effects.PublishEvent | Publish | Will, on_answer: int | None
    ) -> None:
        topic = wanted.topic
        self._gateway.counts["published"] += 1
        if wanted.retain:
            self._ask(said.Retain(event, topic, clear=not wanted.payload), on_answer)
        else:
            is_light = not wanted.properties and len(topic) < LIGHT_TOPIC_MAX
            self._ask(said.Publish(event), on_answer, event.payload if is_light else None)

    def _document(self, wanted: mqtt_effects.PublishEvent | Publish | Will, number: int, now: float) -> Document | None:
        """The payload as a document; None if it is not one, or is being read. (rule 5)"""
        properties, payload = wanted.properties, wanted.payload
        content_type, headers = properties.get("content_type"), cloud_headers(properties)
        mode = mode_of(content_type, headers, MQTT)
        if not mode or not payload:
            return None
        if mode == "batch":
            raise BadEvent("a batch of CloudEvents: over MQTT send each CloudEvent as a separate message")
        if isinstance(wanted, Will):  # whose connection is closed before another process could read it
            return read_document(mode, payload, content_type, headers, MQTT)[0] if len(payload) <= SMALL_BYTES else None
        helper = self._gateway.tests.helper
        found = helper.read_at_once(mode, payload, content_type, headers, "mqtt")
        if found is not None:
            return found[0]
        self.is_reading = True
        reading = asyncio.create_task(helper.read(self._user, mode, payload, content_type, headers, "mqtt"))
        reading.add_done_callback(lambda done: self._on_document(done, wanted, number, now))
        return None

    def _on_document(
        self,
        done: "asyncio.Future[list[Document]]",
        wanted: mqtt_effects.PublishEvent | Publish | Will,
        number: int,
        now: float,
    ) -> None:
        self.is_reading = False
        if done.cancelled():  # the broker stops
            return
        error = done.exception()
        try:
            if error is not None:
                raise error if isinstance(error, GodwitError) else BadEvent(f"the document cannot be read: {error}")
            event = self._event(wanted, self.requests.said + 1, now, done.result()[0])
        except GodwitError as fault:
            self._on_bad(number, fault)
        else:
            self._ask_to_publish(event, wanted, number or None)
        self._on_read()

    def _publish_specially(self, wanted: mqtt_effects.PublishEvent | Publish | Will, number: int) -> None:
        """A message to `$ctx` sets the client's context; other topics that begin with `$` are refused."""
        topic = wanted.topic
        if topic != CONTEXT and not topic.startswith(f"{CONTEXT}/"):
            raise PeerFault(f"{topic}: of topics that begin with $, clients may publish to {CONTEXT} alone")
        told = context_of_properties(wanted.properties)
        if told is not None and not wanted.payload and topic == CONTEXT:
            context: Attributes = told
        else:
            context = context_of_payload(topic, wanted.payload, self._context)
        self.set_context(context, partial(self._on_published, number) if number else None)

    def _event(
        self,
        wanted: mqtt_effects.PublishEvent | Publish | Will,
        number: int,
        now: float,
        document: Document | None = None,
    ) -> Event:
        properties, payload, content_type = wanted.properties, wanted.payload, wanted.properties.get("content_type")
        said = (wanted.topic, payload, wanted.qos, wanted.retain, properties, self._stamps)
        if document is None:
            attributes = attributes_of(*said)
        else:
            attributes = attributes_of_document(document, *said)
            payload, content_type = document.payload or b"", document.content_type
        if not properties:
            return Event(attributes, self._client, self._base + number, payload, None, now)
        expiry_s = properties.get("message_expiry_interval")
        to = [value for name, value in properties.get("user_property", ()) if name == TO]
        return Event(
            attributes,
            self._client,
            self._base + number,
            payload,
            content_type,
            now,
            None if expiry_s is None else now + expiry_s,
            self._gateway.filter_on_context(to[-1]) if to else None,
        )

    def _on_published(self, number: int, reason: str | None, is_denied: bool) -> None:
        if reason is None:
            self._tell(mqtt_effects.Accepted(number))
        else:
            self._on_unpublished(number, reason, is_denied)

    def _on_all_published(self, numbers: list[int]) -> None:
        self._tell(mqtt_effects.AllAccepted(numbers))

    def _on_unpublished(self, number: int, reason: str, is_denied: bool, code: int | None = None) -> None:
        is_denied = is_denied or reason.startswith(NOT_ALLOWED)  # by the machine
        code = code or (ReasonCode.NOT_AUTHORIZED if is_denied else ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
        if reason.startswith("$"):
            code = ReasonCode.TOPIC_NAME_INVALID
        self._tell(mqtt_effects.Accepted(number, code, reason))

    def prepare(self, packet: Subscribe) -> bool:
        """Whether something of this packet has to be parsed first: the packet is to come again. (rules 5, 7)"""
        texts, language = queries_in(packet)
        slow = [text for text in texts if not self._gateway.tests.is_quick(text, language)]
        if slow and sum(map(len, texts)) <= CLIENT_TEXT_BYTES_MAX:
            self.is_reading = True
            self._gateway.tests.prepare(slow[0], language, self._user).add_done_callback(self._on_prepared)
            return True
        if packet is not self._reading:
            self._reading = packet
            self._parsed.found.clear()
            self._unparsed = list(dict.fromkeys(contents_in(packet)))
        self._parse_some()
        if not self._unparsed:
            return False
        self._go_on_after(PIECE_REST_S, lambda: None)
        return True

    def _parse_some(self) -> None:
        """Parse a piece of the packet's content filters."""
        size = 0
        while self._unparsed and size < PIECE_BYTES:
            text = self._unparsed.pop()
            size += len(text)
            try:
                self._parsed.found[text] = self._gateway.tests.parse(text)
            except FilterError as error:
                self._parsed.found[text] = error

    def _on_prepared(self, done: "asyncio.Future[None]") -> None:
        self.is_reading = False
        if not done.cancelled():
            self._on_read()

    def _go_on_after(self, rest_s: float, go_on: Callable[[], None]) -> None:
        """Let others have their turn, and then go on. (rule 7)"""

        def again() -> None:
            self.is_reading = False
            if not self._is_over:
                go_on()
            if not self.is_reading:
                self._on_read()

        self.is_reading = True
        asyncio.get_running_loop().call_later(rest_s, again)

    def subscribe(self, effect: mqtt_effects.AddSubscriptions) -> None:
        """Let these subscriptions stand."""
        self._reading = None
        self._parsed.found.clear()
        self._subscribe_some(effect, [None] * len(effect.wishes), [], iter(range(len(effect.wishes))))

    def _subscribe_some(
        self, effect: mqtt_effects.AddSubscriptions, codes: list[int | None], reasons: list[str], places: Iterator[int]
    ) -> None:
        """Ask for a piece of these subscriptions, and for the next one later. (rule 7)"""
        for place in places:
            self._subscribe_one(effect, codes, reasons, place)
            if self._work >= COSTLY_WORK and place + 1 < len(codes):
                more = partial(self._subscribe_some, effect, codes, reasons, places)
                self._go_on_after(self._rest_s(self.taken_work()), more)
                return
        self._answer_subscribe(effect, codes, reasons)

    def _rest_s(self, work: int) -> float:
        """For how long the client rests after so much work."""
        return 0.0 if self._rate is None else self._rate.take(0, 0, work, asyncio.get_running_loop().time())

    def _subscribe_one(
        self, effect: mqtt_effects.AddSubscriptions, codes: list[int | None], reasons: list[str], place: int
    ) -> None:
        wish = effect.wishes[place]
        text, filter, sys = wish.subscription.filter, wish.topics.filter, self._gateway.sys
        if is_sys(wish.topics.levels):
            if not sys.is_on:
                reasons.append(OFF)
                codes[place] = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
                return
            filter = sys.narrowed(filter)
        subscribe = said.Subscribe(
            (self._client, text),
            filter,
            None if wish.expires_in_s is None else self._gateway.now() + wish.expires_in_s,
            wish.queue,
            share=wish.topics.share or "",
            retained=wish.wants_retained,
        )
        queries = tuple((query.language, query.text) for query in wish.topics.queries)
        asked = said.SubscribeQuery(subscribe, queries) if queries else subscribe
        self._work += work_of(asked)
        self._line.ask(text, queries)
        self._ask(asked, partial(self._on_subscribed, effect, codes, reasons, place))
        granted = self._kept().subscriptions.get(text)
        if granted is not None:
            self.keep(SUB + text, grant_note(granted))

    def _on_subscribed(
        self,
        effect: mqtt_effects.AddSubscriptions,
        codes: list[int | None],
        reasons: list[str],
        place: int,
        reason: str | None,
        is_denied: bool,
    ) -> None:
        self._line.on_answer(effect.wishes[place].subscription.filter, reason is None)
        if reason is None:
            codes[place] = effect.wishes[place].subscription.qos
            if is_sys(effect.wishes[place].topics.levels):
                self._gateway.sys.ask()
        else:
            reasons.append(reason)
            codes[place] = ReasonCode.NOT_AUTHORIZED if is_denied else ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        self._answer_subscribe(effect, codes, reasons)

    def _answer_subscribe(
        self, effect: mqtt_effects.AddSubscriptions, codes: list[int | None], reasons: list[str]
    ) -> None:
        known = tuple(code for code in codes if code is not None)
        if len(known) < len(codes):
            return
        standing = self._kept().subscriptions
        self._tell(mqtt_effects.Subscribed(effect.request, known, "; ".join(reasons)))
        for wish, code in zip(effect.wishes, known, strict=True):
            if code >= 0x80:  # the subscription before is in force again
                text = wish.subscription.filter
                granted = standing.get(text)
                self.keep(SUB + text, None if granted is None else grant_note(granted))

    def unsubscribe(self, effect: mqtt_effects.EndSubscriptions) -> None:
        """End these subscriptions."""
        for text in effect.filters:
            self._ask(said.Unsubscribe((self._client, text)))
            self.on_ended(text)

    def on_ended(self, text: str) -> None:
        """A subscription has ended."""
        self._line.end(text)
        self.keep(SUB + text, None)


def credentials_of(effect: mqtt_effects.Attach, host: str, certificate: str) -> Credentials:
    """The credentials of CONNECT: without a user name, the password is a token."""
    connect = effect.connect
    password = (connect.password or b"").decode(errors="replace")
    return Credentials(
        host=host,
        client=effect.client_id,
        user=connect.user_name or "",
        password=password if connect.user_name else "",
        token="" if connect.user_name else password,
        certificate=certificate,
    )


def _whole(note: bytes | None) -> int:
    try:
        return msgspec.msgpack.decode(note, type=int) if note else 0
    except msgspec.MsgspecError:
        return 0


def _context(notes: Mapping[str, bytes]) -> Attributes:
    note = notes.get(CTX)
    try:
        return NATIVE.attributes(msgspec.msgpack.decode(note, type=dict[str, Any])) if note else {}
    except (msgspec.MsgspecError, ValueError):
        return {}
