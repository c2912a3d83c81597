"""The remote of a bridge: an MQTT broker, over a socket, with the driver of `mqtt/client_end.py`.

*Theory.* One task reads. The events and notes of a piece of the stream are written to the journal in one batch; then
the answers are sent. Another task takes deliveries from the local session and sends them; they are confirmed when the
server has acknowledged them.

*Rules.*
1. A packet is acknowledged when its event is in the journal of this broker.
2. An event does not enter a network twice: MQTT 5 carries its path in user properties. The server is asked not to send
   back messages of this connection (`no_local`).
3. Retained messages are taken once, with a new subscription, and not with every connection (`retain_handling`).
4. Silence of `keep_alive_s` ends the connection.
5. A note that the server has a delivery is removed after the delivery is confirmed, together with the next write; if
   there is none, the next connection removes it.
"""

import asyncio
import ssl
from collections.abc import Iterable
from pathlib import Path

from godwit.broker.messages import Note
from godwit.errors import MqttFault
from godwit.mqtt.client_end import (
    ClientEnd,
    Done,
    Effect,
    SendPacket,
    SubscribeAnswered,
    TakeMessage,
    connect_packet,
    note_of,
)
from godwit.mqtt.mqtt_effects import StoreNote
from godwit.mqtt.packet_decoder import Decoder
from godwit.mqtt.packet_encoder import encode
from godwit.mqtt.packets import FROM_SERVER, Connack, Disconnect, Packet, Pingreq, Subscription
from godwit.runtime.addresses import address_of
from godwit.runtime.bridges.bridge import Bridge, RemoteGone
from godwit.runtime.bridges.crossing import brought_in, taken_out
from godwit.runtime.bridges.local_side import Incoming, LocalSide

__all__ = ["MqttRemote", "client_tls"]

READ_BYTES = 65_536
LEVELS = {"5": 5, "3.1.1": 4}
SUBSCRIBED = "sub/"  # note prefix, before a topic filter: a subscription at the remote, with its QoS
MET = "met"  # a note: the remote session began after this one
STARTS_AFRESH = "the session here is new: that of the other side is ended"


class MqttRemote:
    """One connection to an MQTT broker."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._section = bridge.section
        self._level = LEVELS[bridge.section.level]
        self._end: ClientEnd
        self._connack: Connack
        self._decoder = Decoder(self._level, FROM_SERVER, bridge.section.packet_bytes_max)
        self._early: list[Packet] = []  # packets that came with CONNACK
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._heard_at = 0.0
        self._local: LocalSide
        self._noted: set[str] = set()  # keys of notes that there are
        self._ended_notes: list[Note] = []  # of confirmed deliveries: removed together with the next notes (rule 5)

    # ------------------------------------------------------------ the connection

    async def open(self) -> None:
        """Connect and authenticate."""
        section, address = self._section, address_of(self._section.address)
        tls = client_tls(section.authorities, section.certificate, section.key) if section.tls else None
        try:
            self._reader, self._writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
        except ssl.SSLError as error:
            raise RemoteGone(f"TLS: {error.reason or error}") from None
        password = Path(section.password).read_bytes().rstrip(b"\r\n") if section.password else None
        packet = connect_packet(
            self._level,
            section.client_id or f"godwit-{self._bridge.broker}-{section.name}",
            section.keep_alive_s,
            section.session_expiry_s,
            section.user,
            password,
            section.packet_bytes_max,
            is_clean=self._bridge.starts_afresh,
        )
        self._bridge.starts_afresh = False
        self._writer.write(encode(packet, self._level))
        packets: list[Packet] = []
        while not packets:
            packets = await self._read()
        first, *self._early = packets
        if not isinstance(first, Connack):
            raise RemoteGone(f"the server answers CONNECT with {type(first).__name__.upper()}")
        self._connack = first
        ClientEnd(self._level, {}).on_connack(first)  # MqttFault: the server refuses the connection

    async def close(self) -> None:
        """Send DISCONNECT, and close the connection."""
        if self._writer is not None:
            if not self._writer.is_closing():
                self._writer.write(encode(Disconnect(), self._level))
            self._writer.close()

    async def _read(self) -> list[Packet]:
        data = await self._reader.read(READ_BYTES)
        if not data:
            raise RemoteGone("the server has closed the connection")
        self._heard_at = asyncio.get_running_loop().time()
        return self._decoder.feed(data)

    async def run(self, local: LocalSide) -> None:
        """Carry events in both directions until the connection ends."""
        self._local = local
        if MET not in local.notes and self._connack.session_present:  # whose identifiers mean other messages
            self._bridge.starts_afresh = True
            raise RemoteGone(STARTS_AFRESH)
        self._end, self._noted = ClientEnd(self._level, local.notes), set(local.notes)
        begun = self._end.on_connack(self._connack)
        await self._carry_out([StoreNote(MET, b""), *begun, *self._subscriptions()])
        tasks = {asyncio.create_task(each) for each in (self._take_in(), self._take_out(), self._keep_alive())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_alive(self) -> None:
        """(rule 4)"""
        loop, keep_alive_s = asyncio.get_running_loop(), self._section.keep_alive_s
        while True:
            await asyncio.sleep(keep_alive_s / 2)
            if loop.time() - self._heard_at > keep_alive_s:
                raise RemoteGone(f"the server was silent for {keep_alive_s} s")
            self._send([Pingreq()])

    def _send(self, packets: Iterable[Packet]) -> None:
        data = b"".join(encode(packet, self._level) for packet in packets)
        if data and self._writer is not None:
            self._writer.write(data)

    # ------------------------------------------------------------ subscriptions at the remote

    def _subscriptions(self) -> list[Effect]:
        """The changes to the remote's subscriptions. (rule 3)"""
        is_new = not self._end.is_present
        noted = _subscribed(self._local.notes)
        known = {} if is_new else noted
        wanted = {route.remote_filter: route for route in self._bridge.incoming}
        missing = [route for text, route in wanted.items() if known.get(text) != str(route.qos).encode()]
        ended = [text for text in known if text not in wanted]
        forgotten = [
            StoreNote(SUBSCRIBED + text, None) for text in _subscribed(self._local.notes) if text in ended or is_new
        ]
        asked = [
            Subscription(route.remote_filter, route.qos, no_local=True, retain_as_published=True, retain_handling=1)
            for route in missing
        ]
        return [*forgotten, *self._end.subscribe(asked, ended)]

    def _on_subscribed(self, refused: dict[str, str]) -> list[Note]:
        for text, reason in refused.items():
            self._bridge.warn(f"the other side refuses the subscription {text!r}: {reason}")
        granted = [route for route in self._bridge.incoming if route.remote_filter not in refused]
        return [Note(SUBSCRIBED + route.remote_filter, str(route.qos).encode()) for route in granted]

    # ------------------------------------------------------------ in

    async def _take_in(self) -> None:
        packets, self._early = self._early, []
        while True:
            fault: MqttFault | None = None
            effects: list[Effect] = []
            try:
                for packet in packets:
                    effects += self._end.on_packet(packet)
            except MqttFault as error:
                fault = error
            await self._carry_out(effects)
            if fault is not None:
                raise fault
            packets = await self._read()

    async def _carry_out(self, effects: list[Effect]) -> None:
        """Write to the journal first, then send. (rule 1)"""
        items: list[Incoming | Note] = []
        packets: list[Packet] = []
        done: list[int] = []
        for effect in effects:
            match effect:
                case SendPacket(packet=packet):
                    packets.append(packet)
                case StoreNote(key=key, value=value):
                    items.append(Note(key, value))
                    (self._noted.discard if value is None else self._noted.add)(key)
                case TakeMessage(message=message):
                    if (event := brought_in(self._bridge, message)) is not None:
                        items.append(event)
                case Done(number=number, refused=refused):
                    done.append(number)
                    self._tally_sent(refused)
                case SubscribeAnswered(refused=texts):
                    items += self._on_subscribed(texts)
        if items:
            ended, self._ended_notes = self._ended_notes, []
            self._tally_stored([*ended, *items], await self._local.bring([*ended, *items]))
        self._send(packets)
        if done:
            self._ended_notes += [Note(key, None) for key in map(note_of, self._local.done(done)) if key in self._noted]
            self._noted.difference_update(note.key for note in self._ended_notes)

    def _tally_stored(self, items: list[Incoming | Note], answers: list[str | None]) -> None:
        for item, reason in zip(items, answers, strict=True):
            if isinstance(item, Note):
                if reason is not None:  # without it QoS 2 is not kept
                    raise RemoteGone(f"a note cannot be kept: {reason}")
            elif reason is None:
                self._bridge.tally.add("in", "carried")
            else:
                self._bridge.tally.refuse("in", reason)

    # ------------------------------------------------------------ out

    async def _take_out(self) -> None:
        while True:
            delivery = await self._local.next_delivery()
            outgoing = taken_out(self._bridge, delivery, self._level)
            if outgoing is None:
                self._local.done([delivery.number])
                continue
            await self._carry_out(self._end.publish(outgoing))
            assert self._writer is not None
            await self._writer.drain()

    def _tally_sent(self, refused: str) -> None:
        if refused:
            self._bridge.tally.refuse("out", refused)
        else:
            self._bridge.tally.add("out", "carried")


# ---------------------------------------------------------------- parts


def client_tls(authorities: str, certificate: str, key: str) -> ssl.SSLContext:
    """The TLS settings of a bridge. OSError, ssl.SSLError: a file cannot be used."""
    context = ssl.create_default_context(cafile=authorities or None)
    if certificate:
        context.load_cert_chain(certificate, key or None)
    return context


def _subscribed(notes: dict[str, bytes]) -> dict[str, bytes]:
    return {key.removeprefix(SUBSCRIBED): value for key, value in notes.items() if key.startswith(SUBSCRIBED)}
