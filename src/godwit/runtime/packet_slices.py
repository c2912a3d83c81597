"""Packets of an MQTT client, decoded a few in each turn of the event loop.

*Theory.* One read brings up to 256 KiB: a hundred thousand of the shortest packets, which take 250 ms. So
`PACKETS_AT_ONCE_MAX` are decoded and handled, then others have their turn, and the rest follows. If many connections
send at the same time, they take turns (`party_turns.py`).

*Rules.*
1. Packets stay in order, also when more bytes come meanwhile. The end of the connection waits for them
   (`mqtt_connection.py`, rule 5).
2. `has_more`: packets will follow without further bytes. Until then the client is not read.
3. The connections of one user wait for each other, and not those of other users for all of them.
4. Nothing is decoded while the connection handles what came before (`is_held`), until `wake` is called: else thousands
   of packets would pile up behind a large document, to be handled at once.
5. When an error of this program ends the handling of packets, the connection is closed (`fail`): between turns of the
   loop nobody else does it.
"""

from collections.abc import Callable
from typing import Any

from godwit.errors import MqttFault
from godwit.mqtt import Decoder
from godwit.runtime.party_turns import PartyTurns

__all__ = ["PACKETS_AT_ONCE_MAX", "Backlog", "PacketSlices"]

PACKETS_AT_ONCE_MAX = 256


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
        take: Callable[[list[Any], MqttFault | None, int], None],
        turns: PartyTurns | None = None,
        party: Callable[[], str] = str,
        is_held: Callable[[], bool] = bool,
        fail: Callable[[], None] = lambda: None,
        backlog: Backlog | None = None,
    ) -> None:
        self._decoder = Decoder(size_max=size_max, first_size_max=first_size_max)
        self._take: Callable[[list[Any], MqttFault | None, int], None] | None = take
        self._turns = PartyTurns() if turns is None else turns
        self._party, self._is_held, self._fail = party, is_held, fail
        self._backlog, self._counted = backlog or Backlog(), 0  # of which so many bytes are of this connection
        self._is_asleep = False  # until `wake` (rule 4)
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

    def feed(self, data: bytes) -> None:
        """Bytes have come: they are decoded now, or in one of the next turns."""
        if self._take is None:
            return
        self._received.append(data)
        if not self.has_more:
            self.has_more = True
            self._turns.call(self._party, self._next)
        if self.has_more:
            self._count()

    def wake(self) -> None:
        """Continue, after `is_held`. (rule 4)"""
        if self._is_asleep:
            self._is_asleep = False
            self._turns.soon(self._party(), self._next)

    def close(self) -> None:
        """Take nothing more, and release the connection: a reference back to it would keep both in memory."""
        self._take, self._party, self._is_held, self._fail, self.has_more = None, str, bool, _nothing, False
        self._received.clear()
        self._count()

    def _next(self) -> None:
        take = self._take
        if take is None:
            return
        if self._is_held():
            self._is_asleep = True
            return
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        self._received.clear()
        fault: MqttFault | None = None
        try:
            packets = self._decoder.feed(data, PACKETS_AT_ONCE_MAX)
        except MqttFault as caught:
            fault, packets = caught, caught.packets
        self.has_more = self._decoder.has_more
        if self.has_more:
            self._turns.soon(self._party(), self._next)
        if self.has_more or self._counted:
            self._count()
        try:
            take(packets, fault, len(data))
        except BaseException:  # rule 5
            fail = self._fail
            self.close()
            fail()
            raise


def _nothing() -> None:
    """For a connection that is closed."""
