"""One MQTT connection: bytes in, effects of its session carried out, bytes out.

*Theory.* A connection has an MQTT session machine (`MqttSession`), made from the notes of the client's Godwit session,
and an `InProcessConnection` that attaches it. Of two connections of a client the newer takes over; the older is told.

    CONNECT ─▶ authenticator ─▶ Attach ─▶ Attached, with notes ─▶ CONNACK ─▶ packets ⇄ requests and deliveries ─▶ end

When the connection ends its will is published over the `InProcessConnection`, which is still open; with a will delay it
stays open for that time. If the client reconnects meanwhile, here or elsewhere, the will is cancelled.

*Rules.*
1. A packet that tells of something done leaves after what it tells of is in the journal (`Gate`).
2. Deliveries are confirmed once in a turn, and not while the client does not read: so what it has not read waits in its
   Godwit session, within the bounds of that. But a note that says that a client has something goes only once it is
   confirmed.
3. A client with more than `UNANSWERED_MAX` requests open is not read, at any level; nor is any while the disk fails.
4. Deliveries go out as the client reads: its session hears (`Drained`) when what was sent has left, and sends no more
   than `MqttSettings.unread_bytes_max` before that, whatever waits for the client.
5. While a large document that the client publishes, a query or a large SUBSCRIBE is handled, the client is not read.
   What has come behind it waits, the end of the connection too: so events of a client stay in order, none is lost.

*Departures.* If another broker takes over a client, its will without delay is not published: its session is there.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from godwit.broker import messages as said
from godwit.broker.effects import StartTimer, StopTimer, TimerDue, TimerKey
from godwit.errors import GodwitError, MqttFault, PeerFault
from godwit.mqtt import Connect, MqttSession, answer_to_fault, mqtt_effects, refusing_connack
from godwit.mqtt.packets import Puback, Publish, Subscribe
from godwit.mqtt.reason_codes import ReasonCode
from godwit.mqtt.session_notes import LOST, OUT, kept_of, lost_note, lost_since, out_note
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.client_rates import ClientRate
from godwit.runtime.in_process_connection import InProcessConnection
from godwit.runtime.loop_timers import LoopTimers
from godwit.runtime.mqtt_admission import why_refused
from godwit.runtime.mqtt_deliveries import MqttDeliveries
from godwit.runtime.mqtt_events import NAMED, context_of_properties, mode_of, receipt_for
from godwit.runtime.mqtt_reading import GRACE_S, Reading
from godwit.runtime.mqtt_requests import Gate, code_of_end
from godwit.runtime.mqtt_translation import MqttTranslator, ParsedFilters, credentials_of
from godwit.runtime.node import client_line
from godwit.runtime.packet_slices import PacketSlices

if TYPE_CHECKING:
    from godwit.runtime.mqtt_gateway import MqttGateway

__all__ = ["MqttConnection"]

UNANSWERED_MAX = 1_024
TOPICS_SHOWN = 200  # characters
CONNECT_S = 10.0
KEEP_ALIVE = ("keep alive",)
KEEPING = (("will",), KEEP_ALIVE)  # timers of this module; Godwit's session has its own expiry
BYE_FIRST_BYTE = 0xE0  # of DISCONNECT
CONNECT_BYTES_MAX = 256 * 2**10  # of the first packet, before authentication


class MqttConnection:
    """A client's connection over any transport."""

    def __init__(
        self,
        gateway: "MqttGateway",
        write: Callable[[bytes], None],
        close: Callable[[], None],
        pause: Callable[[bool], None],
        host: str,
        certificate: str = "",
    ) -> None:
        self.gateway, self.name = gateway, gateway.new_name()
        self.user: str | None = None  # once it is authenticated
        self.client = ""  # its name in Godwit, once it is authenticated
        self.closed_because = ""
        self._write, self._close = write, close
        self.host, self._certificate = host, certificate
        self._packets = PacketSlices(
            *(gateway.settings.maximum_packet_size, CONNECT_BYTES_MAX, self._on_packets, gateway.turns),
            *(lambda: self.party, close, gateway.backlog),
        )
        self._parsed = ParsedFilters(gateway.tests)
        self._session = MqttSession(gateway.settings, parse=self._parsed.parse)
        self._is_open = True  # the client is there
        self._has_said_connect = self._is_attached = False
        self._is_over = self._is_forgotten = False  # the MQTT session is; its will may be pending
        self._inner: InProcessConnection | None = None
        self._wishes: MqttTranslator | None = None
        self._accepted = 0  # requests that are sent after all others
        self._gate, self._loop = Gate(), asyncio.get_running_loop()
        self._timers = LoopTimers(self._loop)
        self._reading = Reading(pause, self._timers, self._loop.time)
        self._greeting_timer = self._loop.call_later(CONNECT_S, self._drop, "no CONNECT came")
        self._attach: mqtt_effects.Attach | None = None
        self._admitting: asyncio.Task[None] | None = None
        self._deliveries: MqttDeliveries | None = None  # while it is attached
        self._later: tuple[list[Any], MqttFault | None] | None = None  # received after a document being read
        self._is_lost = self._has_partial = False  # it is, with such a document to publish; a packet is not complete
        self._confirm = self._confirmed = 0  # deliveries up to here are done; and confirmed
        self._is_full = False  # the client does not read
        self.rate: ClientRate | None = None  # once it is authenticated

    # ------------------------------------------------------------ from the carrier

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.gateway.counts["bytes received"] += len(data)
        if self._packets.feed(data):
            self._reading.hold_back(True)

    def _on_packets(self, packets: list[Any], fault: MqttFault | None, size: int) -> None:
        partial = self._packets.pending
        if partial or self._has_partial:
            self._has_partial = partial > 0
            self.gateway.memory.on_partial(self, partial, is_new=bool(packets))
            if not self._is_open:
                return
        self._take(packets, fault)
        if (rate := self.rate) is not None:
            work = 0 if (wishes := self._wishes) is None else wishes.taken_work()
            if (wait_s := rate.take(len(packets), size, work, self._loop.time())) > 0:
                self._reading.rest(wait_s, self.read_on)
        self._go_on()

    def _take(self, packets: list[Any], fault: MqttFault | None) -> None:
        """Handle received packets, up to a document that must be read first."""
        acknowledged: list[int] = []  # in a row
        session, wishes, now = self._session, self._wishes, self.gateway.now()
        for at, packet in enumerate(packets, start=1):
            kind = type(packet)
            if kind is Puback and self._has_said_connect:
                acknowledged.append(packet.packet_id)
                continue
            if acknowledged:
                self._tell(mqtt_effects.Acknowledged(self.name, acknowledged))
                acknowledged = []
            if not self._is_open:
                return
            if kind is Subscribe and wishes is not None and wishes.prepare(packet):
                at -= 1  # it comes again
            elif kind is Publish and wishes is not None and (number := session.quick(packet, now)) is not None:
                wishes.publish(packet, number, now)
            elif self._has_said_connect:
                self._tell(mqtt_effects.Heard(self.name, packet))
            else:
                self._on_connect(packet)
            if wishes is not None and wishes.is_reading:
                self._later, fault = (packets[at:], fault), None
                self._packets.hold()
                break
        if acknowledged:
            self._tell(mqtt_effects.Acknowledged(self.name, acknowledged))
        if wishes is not None and (self.gateway.node.holds() or self._is_behind(wishes, UNANSWERED_MAX)):
            self._reading.hold_back(True)
        if fault is not None and self._is_open:
            self._on_fault(fault)

    def _on_read(self) -> None:
        """A document is published, or refused: continue with the packets after it. (rule 5)"""
        later, self._later = self._later, None
        if later is not None:
            self._take(*later)
        if self._later is None:
            self._packets.wake()
        self._go_on()

    def _go_on(self) -> None:
        """Continue with what had to wait."""
        if self._is_lost and self._later is None:
            self.connection_lost()
        if self._reading.is_paused:
            self.read_on()
        self._flush()

    def connection_lost(self) -> None:
        """The client has disconnected."""
        if self.is_handling:
            self._is_lost = True
        elif self._is_open:
            self._is_open = False
            self._reading.end()
            self._greeting_timer.cancel()
            self.gateway.leave(self)
            self._tell(mqtt_effects.Closed(self.name))
            if not self._is_attached:
                self._let_go()

    def pause_writing(self) -> None:
        """The client does not read what is sent to it."""
        self._is_full = True

    def resume_writing(self) -> None:
        """It does again."""
        self._is_full = False
        self._flush()

    def stop(self, reason_code: int, reason: str) -> None:
        """Close the connection with a reason of the server."""
        if self._is_attached:
            self._tell(mqtt_effects.Stop(reason_code, reason))
            self._flush()
        else:
            self._drop(reason)

    @property
    def is_handling(self) -> bool:
        """Whether something that the client has sent is not handled yet."""
        return self._later is not None or self._packets.has_more

    @property
    def party(self) -> str:
        """The user, or the host before authentication."""
        return self.host if self.user is None else self.user

    @property
    def is_admitted(self) -> bool:
        """Whether the client is authenticated."""
        return self.user is not None

    def let_go(self, reason: str) -> None:
        """Close the connection because of its memory use."""
        self.stop(ReasonCode.QUOTA_EXCEEDED, reason)

    def read_on(self) -> None:
        """Resume reading, if nothing prevents it. (rule 3)"""
        if self._reading.is_paused and not self._packets.has_more:
            if (wishes := self._wishes) is None:
                self._reading.hold_back(self._attach is not None)  # it is being authenticated
            elif not self._is_behind(wishes, UNANSWERED_MAX // 2 - 1):
                self._reading.hold_back(self.gateway.node.holds())

    def _is_behind(self, wishes: MqttTranslator, unanswered_max: int) -> bool:
        """Whether too many packets of this client wait at the broker."""
        is_long = (inner := self._inner) is not None and inner.node.is_long(inner.line)
        return wishes.is_reading or wishes.requests.unanswered > unanswered_max or is_long

    # ------------------------------------------------------------ coming in

    def _on_connect(self, packet: Any) -> None:
        assert isinstance(packet, Connect), "the decoder accepts no other first packet"
        self._has_said_connect = True
        self._greeting_timer.cancel()
        refusal = refusing_connack(packet)
        if refusal is not None:
            self._gate.put_at_once(refusal)
            self._drop("its CONNECT was refused")
            return
        client_id = packet.client_id or self.gateway.new_client_id()
        self._tell(mqtt_effects.Opened(self.name, packet, client_id))

    def _on_fault(self, fault: MqttFault) -> None:
        self.gateway.on_fault(self, str(fault))
        if self._has_said_connect:
            self._tell(mqtt_effects.Faulted(self.name, fault.reason_code, fault.text))
        else:
            self._gate.put_at_once(answer_to_fault(fault))
            self._drop(str(fault))

    def _on_attach(self, effect: mqtt_effects.Attach) -> None:
        """Authenticate the client."""
        self._attach = effect
        credentials = credentials_of(effect, self.host, self._certificate)
        self._reading.hold_back(True)
        self._admitting = self._loop.create_task(self._admit(effect, credentials))

    async def _admit(self, attach: mqtt_effects.Attach, credentials: Credentials) -> None:
        try:
            principal = await self.gateway.admit(self, credentials)
            if self._is_open:
                self.user = await self.gateway.enter(self, principal, attach.client_id)
        except PeerFault as fault:
            self._refuse(ReasonCode.NOT_AUTHORIZED, str(fault))
        except Exception:
            self._refuse(ReasonCode.SERVER_UNAVAILABLE, "authentication is not possible at present")
            raise
        else:
            self._admitting = None
            self._let_in(principal)
        self._reading.hold_back(self._packets.has_more)
        self._flush()

    def _refuse(self, reason_code: int, reason: str) -> None:
        self._tell(mqtt_effects.Refused(self.name, reason_code, reason))

    def _let_in(self, principal: Principal) -> None:
        attach = self._attach
        if not self._is_open or attach is None:
            return
        name = principal.name_of(attach.client_id)
        if (refusal := why_refused(name, attach)) is not None:
            self._refuse(*refusal)
            return
        if (older := self.gateway.clients.get(name)) is not None:
            older.taken_over(attach.is_clean)
        self.client = name
        self.gateway.clients[name] = self
        self.rate = self.gateway.rates.enter(principal.user, self._loop.time())
        self._inner = InProcessConnection(
            *(self.gateway.node, self.name, principal, self._on_messages, self._on_inner_closed),
            on_end=self._on_principal_ended,
            line=client_line(name),
        )
        self._say(self.gateway.attach(name, is_clean=attach.is_clean, mode=mode_of(attach.connect)))

    def _on_attached(self, message: said.Attached) -> None:
        """The session is attached: restore the MQTT state from its notes, and answer CONNECT."""
        attach, inner = self._attach, self._inner
        assert attach is not None
        assert inner is not None
        notes, is_present = message.notes, not message.fresh
        try:
            context = context_of_properties(attach.connect.properties)
        except GodwitError as error:
            self._refuse(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error))
            self._let_go()
            return
        self._is_attached = True
        line = self.gateway.tests.open(self.client, self._on_tested, self._on_suspended)
        line.adopt(notes)
        self._deliveries = MqttDeliveries(
            *(self.gateway, self._session, line, inner.principal, self._put_out, self._tell, self._flush)
        )
        wishes = self._wishes = MqttTranslator(
            *(self.gateway, inner, self.client, message, lambda: self._session.kept, line),
            *(self._tell, self._break_off, self._on_read, self.rate, self._parsed),
        )
        for key in (key for key in (OUT, LOST) if key in notes):
            wishes.keep(key, None)
        wishes.set_session_expiry(attach.expiry_s)
        if context is not None:
            wishes.set_context(context)
        doubtful = message.receipt.replayed if is_present and OUT not in notes else 0
        since, receipt = lost_since(notes, message.receipt.lost_since), receipt_for(attach.connect, message.receipt)
        self._tell(mqtt_effects.Attached(self.name, is_present, kept_of(notes), doubtful, since, receipt))

    def taken_over(self, is_clean: bool) -> None:
        """The client has reconnected over another connection."""
        if self._is_attached and not self._is_over:
            self._tell(mqtt_effects.Stop(ReasonCode.SESSION_TAKEN_OVER, "the client has connected again"))
            self._flush()
        elif not self._is_over:
            self._drop("the client has connected again")
        if is_clean:
            self._on_timer(("will",))

    # ------------------------------------------------------------ from the machine

    def _on_messages(self, messages: list[Any]) -> None:
        at, last = 0, len(messages)
        accepted = 0  # the last of some in a row
        while at < last:
            message = messages[at]
            kind = type(message)
            at += 1
            if kind is said.Accepted:
                accepted = message.number
                continue
            if accepted and self._wishes is not None:
                self._wishes.requests.on_accepted(accepted)
            accepted = 0
            if kind is said.Delivery:
                if self._deliveries is not None:
                    at = self._deliveries.take(messages, at - 1)
            elif kind is said.Refused and self._wishes is not None:
                self._wishes.requests.on_refused(message.number, message.reason)
            elif kind is said.Attached:
                self._on_attached(message)
            elif kind is said.Revoked:
                self._on_revoked(message)
            elif kind is said.ReceiptUpdate and self._wishes is not None and message.receipt.lost_since is not None:
                self._wishes.keep(LOST, lost_note(message.receipt.lost_since))  # until the next CONNACK
                self.gateway.sys.ask()
        if accepted and self._wishes is not None:
            self._wishes.requests.on_accepted(accepted)
        self._confirm = max(self._confirm, self._session.kept.confirmed)
        self._go_on()

    def _on_principal_ended(self, reason: str) -> None:
        """The principal has ended: its token has expired, or its user was removed."""
        if self._is_attached and not self._is_over:
            self.stop(code_of_end(reason, ReasonCode.NOT_AUTHORIZED), reason)
        elif not self._is_attached:
            self._refuse(ReasonCode.NOT_AUTHORIZED, reason)

    def _on_revoked(self, message: said.Revoked) -> None:
        """Subscriptions have ended. MQTT can only report it by closing the connection; the session stays."""
        if message.ended and self._wishes is not None and not self._is_over:
            for text in message.ended:
                self._session.kept.subscriptions.pop(text, None)
                self._wishes.on_ended(text)
            self.stop(ReasonCode.NOT_AUTHORIZED, f"{', '.join(message.ended)[:TOPICS_SHOWN]}: {message.reason}")

    def _on_inner_closed(self, reason: str) -> None:
        """The machine has closed the session's connection."""
        if not self._is_attached:
            self._refuse(ReasonCode.SERVER_UNAVAILABLE, reason)
        elif not self._is_over:
            is_stopping = self.gateway.is_closing or "the broker" in reason
            code = ReasonCode.SERVER_SHUTTING_DOWN if is_stopping else ReasonCode.SESSION_TAKEN_OVER
            self._tell(mqtt_effects.Stop(code_of_end(reason, code), reason))
        self._let_go()
        self._flush()

    def _put_out(self, parts: list[bytes]) -> None:
        if self._wishes is not None:
            self._gate.put_all(parts, self._wishes.requests.said, self._wishes.requests.accepted)

    def _on_tested(self, deliveries: list[said.Delivery]) -> None:
        """Deliveries after the tests of the client's queries; those that failed have no subscriptions."""
        if self._deliveries is not None:
            self._deliveries.on_tested(deliveries)
            self._confirm = max(self._confirm, self._session.kept.confirmed)
            self._flush()

    def _on_suspended(self, name: str, reason: str) -> None:
        """A subscription is suspended: reported like its end, by closing the connection. The session stays."""
        if not self._is_over:
            self.stop(ReasonCode.QUOTA_EXCEEDED, f"{name[:TOPICS_SHOWN]} is suspended: {reason}")

    # ------------------------------------------------------------ effects

    def _tell(self, input: mqtt_effects.Input) -> None:
        """Pass an input to the session, and carry out its effects."""
        for effect in self._session.handle(input, self.gateway.now()):
            kind = type(effect)
            if kind is mqtt_effects.Send:
                self._send(effect.data)  # type: ignore[union-attr]
            elif kind is mqtt_effects.Confirm:
                self._confirm = max(self._confirm, effect.number)  # type: ignore[union-attr]
            else:
                _EFFECTS[kind](self, effect)
        if self._is_attached and not self._is_over and self._session.connection is None:
            self._on_end()

    def _send(self, data: bytes) -> None:
        wishes = self._wishes
        if wishes is None or data[0] == BYE_FIRST_BYTE:
            self._gate.put_at_once(data)
        else:
            self._gate.put(data, wishes.requests.said, wishes.requests.accepted)

    def _taken(self) -> bytes:
        """The packets that may be sent now."""
        return self._gate.taken(self._accepted if self._wishes is None else self._wishes.requests.accepted)

    def _flush(self) -> None:
        """Write all packets that may be sent, and confirm finished deliveries."""
        data = self._taken()
        if data and self._is_open:
            self.gateway.counts["bytes sent"] += len(data)
            self._write(data)
        while self._is_open and not self._is_full and self.unread and self._gate.is_empty:  # rule 4
            self._tell(mqtt_effects.Drained(self.name))
            if data := self._taken():
                self.gateway.counts["bytes sent"] += len(data)
                self._write(data)
        self._say_confirmed()

    @property
    def unread(self) -> int:
        """Bytes of deliveries that were sent and may be unread."""
        outgoing = self._session.outgoing
        return 0 if outgoing is None else outgoing.unread

    def _say_confirmed(self, *, even_if_full: bool = False) -> None:
        if self._confirm > self._confirmed and (even_if_full or not self._is_full) and not self._is_over:
            self._confirmed = self._confirm
            self._say(said.Received(self._confirm))

    def _on_close(self, effect: mqtt_effects.Close) -> None:
        self._drop(effect.reason)

    def _drop(self, reason: str) -> None:
        """Close the client's connection after the sent data."""
        if self._is_open:
            if data := self._taken():
                self._write(data)
            self._is_open = False
            self._reading.end()
            self._packets.close()
            self._greeting_timer.cancel()
            self.closed_because = reason
            self.gateway.leave(self)
            self._close()
            if not self._is_attached:
                self._let_go()

    def _on_publish_event(self, effect: mqtt_effects.PublishEvent) -> None:
        if self._wishes is not None:
            self._wishes.publish(effect, effect.number, self.gateway.now())

    def _on_publish_will(self, effect: mqtt_effects.PublishWill) -> None:
        if self._wishes is not None:
            self._wishes.publish(effect.will, 0, self.gateway.now())

    def _on_add(self, effect: mqtt_effects.AddSubscriptions) -> None:
        if self._wishes is not None and self._deliveries is not None:
            self._deliveries.on_subscriptions_changed()
            self._wishes.subscribe(effect)

    def _on_end_subscriptions(self, effect: mqtt_effects.EndSubscriptions) -> None:
        if self._wishes is not None and self._deliveries is not None:
            self._deliveries.on_subscriptions_changed()
            self._wishes.unsubscribe(effect)

    def _on_keep(self, effect: mqtt_effects.StoreNote) -> None:
        if effect.value is None:  # its delivery is confirmed by now
            self._say_confirmed(even_if_full=True)
        if self._wishes is not None:
            self._wishes.keep(effect.key, effect.value)

    def _on_forget(self, effect: mqtt_effects.DiscardSession) -> None:
        self._is_forgotten = True

    def _on_start_timer(self, effect: StartTimer) -> None:
        if effect.key in KEEPING:
            self._timers.start(effect.key, effect.at - self.gateway.now(), lambda: self._on_timer(effect.key))

    def _on_stop_timer(self, effect: StopTimer) -> None:
        self._timers.stop(effect.key)

    def _on_timer(self, key: TimerKey) -> None:
        if key == KEEP_ALIVE and not self._reading.is_silent():  # look again in a while
            self._timers.start(key, GRACE_S, lambda: self._on_timer(key))
            return
        self._tell(TimerDue(key))
        if self._is_over:  # the will is published: the session continues without this connection
            self._let_go()
        self._flush()

    # ------------------------------------------------------------ requests

    def _say(self, message: Any) -> None:
        if self._inner is not None:
            try:
                self._inner.say(message)
            except PeerFault as fault:
                self._break_off(str(fault))

    def _break_off(self, reason: str) -> None:
        """The request itself is not allowed."""
        if self._is_open:
            self._tell(mqtt_effects.Stop(ReasonCode.NOT_AUTHORIZED, reason))
            self._drop(reason)

    # ------------------------------------------------------------ the end

    def _on_end(self) -> None:
        """The MQTT connection has ended: finish the session; with a delayed will, later."""
        if self._is_forgotten:
            self._is_over = True
            if self._attach is None or mode_of(self._attach.connect) == NAMED:  # publishers may reconnect
                self._say(said.Bye("the session has ended with its connection"))
            self._let_go()
            return
        self._say_confirmed()
        self._is_over = True
        if self._wishes is not None:
            self._wishes.set_session_expiry(self._session.expiry_s)
            self._wishes.keep(OUT, out_note(self._session.kept))
        if ("will",) not in self._timers:
            self._let_go()

    def _let_go(self) -> None:
        """Nothing is left to do for this client."""
        self._timers.clear()
        self._packets.close()
        if self._admitting is not None:
            self._admitting.cancel()
        if self._inner is not None:
            attach = self._attach
            if not self._is_attached and attach is not None and attach.is_clean and not attach.expiry_s:
                self._say(said.Bye("the client disconnected before it was attached"))  # it has set no session expiry
            self._inner.hang_up()
        if self._wishes is not None:
            self._accepted = self._wishes.end()
        if self._deliveries is not None:
            self._deliveries.close()
        self._inner = self._wishes = self._deliveries = self._admitting = None  # breaks reference cycles
        if self.gateway.clients.get(self.client) is self:
            del self.gateway.clients[self.client]


_EFFECTS: dict[type, Callable[[MqttConnection, Any], None]] = {
    mqtt_effects.Close: MqttConnection._on_close,
    mqtt_effects.Attach: MqttConnection._on_attach,
    mqtt_effects.PublishEvent: MqttConnection._on_publish_event,
    mqtt_effects.PublishWill: MqttConnection._on_publish_will,
    mqtt_effects.AddSubscriptions: MqttConnection._on_add,
    mqtt_effects.EndSubscriptions: MqttConnection._on_end_subscriptions,
    mqtt_effects.DropDelivery: lambda connection, effect: connection.gateway.counts.update(("given up",)),
    mqtt_effects.StoreNote: MqttConnection._on_keep,
    mqtt_effects.DiscardSession: MqttConnection._on_forget,
    StartTimer: MqttConnection._on_start_timer,
    StopTimer: MqttConnection._on_stop_timer,
}
