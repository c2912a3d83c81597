"""Packets of an MQTT client, decoded a few in each turn of the event loop.

*Theory.* One read brings up to 256 KiB: a hundred thousand of the shortest packets, which take 250 ms. So
`PACKETS_AT_ONCE_MAX` are decoded and handled, then others have their turn, and the rest follows. If many connections
send at the same time, they take turns (`party_turns.py`); while these are short, it is `SHORT_PACKETS` at a time.

*Rules.*
1. Packets stay in order, also when more bytes come meanwhile. The end of the connection waits for them
   (`mqtt_connection.py`, rule 5).
2. `has_more`: packets will follow without further bytes. Until then the client is not read.
3. The connections of one user wait for each other, and not those of other users for all of them.
4. Nothing is decoded while the connection handles what came before, from `hold` until `wake`: else thousands of packets
   would pile up behind a large document, to be handled at once.
5. When an error of this program ends the handling of packets, the connection is closed (`fail`): between turns of the
   loop nobody else does it.

*Speed.* Most reads are one small packet, and nobody waits: these are handled at once, with as few steps as possible.
"""

from collections.abc import Callable
from typing import Any

from godwit.errors import MqttFault
from godwit.mqtt import Decoder
from godwit.runtime.party_turns import PartyTurns

__all__ = ["PACKETS_AT_ONCE_MAX", "SHORT_PACKETS", "Backlog", "PacketSlices"]

PACKETS_AT_ONCE_MAX = 256  # up to 5 ms
SHORT_PACKETS = 64

Take = Callable[[list[Any], MqttFault | None, int], None]


class Backlog:
    """What waits of several connections."""

    def __init__(self) -> None:
        self.size = 0  # bytes that came and are not decoded yet


class PacketSlices:
    """The decoder of one connection. It calls `take` with packets, the fault after them, and how many bytes came."""

    def __init__(
        self,
        size_max: int,
        first_size_max: int,
        take: Take,
        turns: PartyTurns | None = None,
        party: Callable[[], str] = str,
        fail: Callable[[], None] = lambda: None,
        backlog: Backlog | None = None,
    ) -> None:
        self._decoder = Decoder(size_max=size_max, first_size_max=first_size_max)
        self._take = take
        self._turns = PartyTurns() if turns is None else turns
        self._party, self._fail = party, fail
        self._backlog, self._counted = backlog or Backlog(), 0  # of which so many bytes are of this connection
        self._is_held = self._is_asleep = False  # until `wake`; and its turn has come meanwhile (rule 4)
        self._is_closed = False  # then it is held, too
        self._received: list[bytes] = []  # and not decoded
        self.has_more = False  # (rule 2)

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete packet are kept."""
        return self._decoder.pending

    def _count(self) -> None:
        """Count what waits, beside an incomplete packet."""
        size = self._decoder.undecoded + sum(map(len, self._received)) if self.has_more else 0
        self._backlog.size += size - self._counted
        self._counted = size

    def feed(self, data: bytes) -> bool:
        """Bytes have come: they are decoded now, or in one of the next turns. Returns `has_more`."""
        turns = self._turns
        if self._is_held or self.has_more or not turns.is_free:
            self._wait(data)
        else:
            began = turns.clock()
            self._handle(data)
            turns.spend(began)
        return self.has_more

    def _wait(self, data: bytes) -> None:
        """Decode these bytes in one of the next turns."""
        if self._is_closed:
            return
        self._received.append(data)
        if not self.has_more:
            self.has_more = True
            self._turns.call(self._party, self._next)
        self._count()

    def hold(self) -> None:
        """Decode nothing until `wake`. (rule 4)"""
        self._is_held = True

    def wake(self) -> None:
        """Continue, after `hold`. (rule 4)"""
        self._is_held = self._is_closed
        if self._is_asleep:
            self._is_asleep = False
            self._turns.soon(self._party(), self._next)

    def close(self) -> None:
        """Take nothing more, and release the connection: a reference back to it would keep both in memory."""
        self._take, self._party, self._fail = _take_nothing, str, _nothing
        self._is_held = self._is_closed = True
        self._is_asleep = self.has_more = False
        self._received.clear()
        self._count()

    def _next(self) -> None:
        if self._is_held:
            self._is_asleep = not self._is_closed
            return
        data = b"".join(self._received)
        self._received.clear()
        self._handle(data, SHORT_PACKETS if self._turns.is_short else PACKETS_AT_ONCE_MAX)

    def _handle(self, data: bytes, count_max: int = PACKETS_AT_ONCE_MAX) -> None:
        """Decode and handle some packets; if there are more, these follow in one of the next turns."""
        fault: MqttFault | None = None
        try:
            packets = self._decoder.feed(data, count_max)
        except MqttFault as caught:
            fault, packets = caught, caught.packets
        if self.has_more or self._decoder.has_more:
            self._look_for_more()
        try:
            self._take(packets, fault, len(data))
        except BaseException:  # rule 5
            fail = self._fail
            self.close()
            fail()
            raise

    def _look_for_more(self) -> None:
        """What waited is decoded, or other packets wait now."""
        self.has_more = self._decoder.has_more
        if self.has_more:
            self._turns.soon(self._party(), self._next)
        self._count()


def _take_nothing(packets: list[Any], fault: MqttFault | None, size: int) -> None:
    """For a connection that is closed."""


def _nothing() -> None:
    """For a connection that is closed."""
