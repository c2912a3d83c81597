"""What an MQTT client asks of Godwit, in Godwit's words: events, subscriptions, context, and the notes beside them.

*Rules.*
1. A wish and the notes that belong to it are said in one turn, so that both are in the journal, or neither is.
2. An event's number is the number of its request, counted from when its session began, in microseconds since 1970: so
   numbers of one client grow from session to session, as long as the clocks of brokers agree better than the time
   between them.
3. A topic that begins with `$` is not for clients, but for `$ctx`: what is published there is the client's context. It
   is kept as a note, for events bear it.
4. What cannot be published is refused with a reason; nothing of it is done.
5. Documents (XML, CloudEvents) are read before they are published, large ones by another process, and queries in other
   languages by a thread before they are subscribed to: `is_reading` until then. A large document in a will is not read:
   the event has the attributes of its topic and properties alone.
6. The queries of a subscription are asked for with it, in one request (`SubscribeQuery`).
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from godwit.broker import messages as said
from godwit.broker.client_rights import NOT_ALLOWED
from godwit.errors import BadEvent, GodwitError, PeerFault
from godwit.filters.events import Attributes, Event
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX
from godwit.languages.cloud_events import MQTT
from godwit.languages.event_documents import Document, mode_of, read_document
from godwit.mqtt import mqtt_effects
from godwit.mqtt.mqtt_effects import NEVER, PersistentState
from godwit.mqtt.packets import Publish, Subscribe, Will
from godwit.mqtt.reason_codes import ReasonCode
from godwit.mqtt.session_notes import SUB, grant_note
from godwit.mqtt.subscribe_requests import queries_in
from godwit.runtime.authentication import Credentials
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.edge_tests import TestLine
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

__all__ = ["MqttTranslator", "credentials_of"]

FILTER_BYTES_MAX = 4_000  # of a topic filter: it must fit into a note
LIGHT_TOPIC_MAX = 1_024  # characters
SEQUENCE, CTX = "seq", "ctx"  # notes of ours
TO = "$to"


class MqttTranslator:
    """The wishes of one client, while it is attached. `tell` has its MQTT session hear of answers."""

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
    ) -> None:
        self.requests = Requests(inner, attached.accepted, self._on_all_published, self._on_unpublished)
        self._gateway, self._client, self._user = gateway, client, inner.principal.user
        self._kept, self._line, self._tell = kept, line, tell
        self._break_off, self._on_read = break_off, on_read
        self.is_reading = False  # a document, or a query
        self._expiry_s: float | None = -1.0
        self._work = 0
        self._base = _whole(attached.notes.get(SEQUENCE))
        self._know_context(_context(attached.notes))
        if gateway.node.machine.config.advertisements == "required":  # type: ignore[attr-defined]
            self._ask(said.Advertise((client, "all"), inner.principal.grants.publish))  # MQTT has no word for it
        if not self._base:
            self._base = int(gateway.now() * 1e6)
            self.keep(SEQUENCE, msgspec.msgpack.encode(self._base))

    def _ask(self, wish: Any, on_answer: OnAnswer | int | None = None, bulk: bytes | None = None) -> None:
        try:
            self.requests.ask(wish, on_answer, bulk)
        except PeerFault as fault:
            self._break_off(str(fault))

    def taken_work(self) -> int:
        """What filters and contexts cost, since this was last asked. (`rate_limits.work_of`)"""
        work, self._work = self._work, 0
        return work

    def keep(self, key: str, value: bytes | None) -> None:
        """Write something down with the session; None: it is over."""
        self._ask(said.Note(key, value))

    def set_session_expiry(self, seconds: int) -> None:
        """When the client is away, let its session stay for so long."""
        expiry_s = None if seconds >= NEVER else float(seconds)
        if expiry_s != self._expiry_s:
            self._expiry_s = expiry_s
            self._ask(said.SetSessionExpiry(expiry_s))

    def set_context(self, context: Attributes, on_answer: OnAnswer | None = None) -> None:
        """Say that the client's context is this from now on."""
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
        """Publish this, or say why not, if it has a number."""
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
            return
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
        """What the payload is as a document; None: it is none, or is being read. (rule 5)"""
        properties, payload = wanted.properties, wanted.payload
        content_type, headers = properties.get("content_type"), cloud_headers(properties)
        mode = mode_of(content_type, headers, MQTT)
        if not mode or not payload:
            return None
        if mode == "batch":
            raise BadEvent("a batch of CloudEvents: over MQTT each CloudEvent is a message of its own")
        if len(payload) <= SMALL_BYTES:
            return read_document(mode, payload, content_type, headers, MQTT)[0]
        if isinstance(wanted, Will):  # whose connection is closed before anybody else could read it
            return None
        self.is_reading = True
        helper = self._gateway.tests.helper
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
        """What a client publishes to `$ctx` is its context; other topics that begin with `$` are not for clients."""
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
        """Whether a thread has to parse a query of this packet first: the packet is to come again. (rule 5)"""
        texts, language = queries_in(packet)
        slow = [text for text in texts if not self._gateway.tests.is_quick(text, language)]
        if not slow or sum(map(len, texts)) > CLIENT_TEXT_BYTES_MAX:
            return False
        self.is_reading = True
        self._gateway.tests.prepare(slow[0], language).add_done_callback(self._on_prepared)
        return True

    def _on_prepared(self, done: "asyncio.Future[None]") -> None:
        self.is_reading = False
        if not done.cancelled():
            self._on_read()

    def subscribe(self, effect: mqtt_effects.AddSubscriptions) -> None:
        """Let these subscriptions stand."""
        codes: list[int | None] = [None] * len(effect.wishes)
        reasons: list[str] = []
        for place, wish in enumerate(effect.wishes):
            text = wish.subscription.filter
            if len(text.encode()) > FILTER_BYTES_MAX:
                reasons.append(f"a topic filter of more than {FILTER_BYTES_MAX} bytes")
                codes[place] = ReasonCode.QUOTA_EXCEEDED
                continue
            filter, sys = wish.topics.filter, self._gateway.sys
            if is_sys(wish.topics.levels):
                if not sys.is_on:
                    reasons.append(OFF)
                    codes[place] = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
                    continue
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
        self._answer_subscribe(effect, codes, reasons)

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
            if code >= 0x80:  # what stood before stands again
                text = wish.subscription.filter
                granted = standing.get(text)
                self.keep(SUB + text, None if granted is None else grant_note(granted))

    def unsubscribe(self, effect: mqtt_effects.EndSubscriptions) -> None:
        """Let these stand no more."""
        for text in effect.filters:
            self._ask(said.Unsubscribe((self._client, text)))
            self.on_ended(text)

    def on_ended(self, text: str) -> None:
        """A subscription stands no more."""
        self._line.end(text)
        self.keep(SUB + text, None)


def credentials_of(effect: mqtt_effects.Attach, host: str, certificate: str) -> Credentials:
    """What a client that connects from a host says of who it is: without a user name, its password is a token."""
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
