"""Packets of an MQTT client, decoded a few in each turn of the event loop.

*Theory.* One read brings up to 256 KiB: a hundred thousand of the shortest packets, which take 250 ms. So
`PACKETS_AT_ONCE_MAX` are decoded and handled, then others have their turn, and the rest follows.

*Rules.*
1. Packets stay in order, also when more bytes come meanwhile. The end of the connection waits for them
   (`mqtt_connection.py`, rule 5).
2. `has_more`: packets will follow without further bytes. Until then the client is not read.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from godwit.errors import MqttFault
from godwit.mqtt import Decoder

__all__ = ["PACKETS_AT_ONCE_MAX", "PacketSlices"]

PACKETS_AT_ONCE_MAX = 256


class PacketSlices:
    """The decoder of one connection. It calls `take` with packets, the fault after them, and how many bytes came."""

    def __init__(
        self, size_max: int, first_size_max: int, take: Callable[[list[Any], MqttFault | None, int], None]
    ) -> None:
        self._decoder = Decoder(size_max=size_max, first_size_max=first_size_max)
        self._take: Callable[[list[Any], MqttFault | None, int], None] | None = take
        self._loop = asyncio.get_running_loop()
        self._turn: asyncio.Handle | None = None

    @property
    def has_more(self) -> bool:
        """(rule 2)"""
        return self._turn is not None

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete packet are kept."""
        return self._decoder.pending

    def feed(self, data: bytes) -> None:
        """Bytes have come."""
        if self._take is None:
            return
        fault: MqttFault | None = None
        try:
            packets = self._decoder.feed(data, PACKETS_AT_ONCE_MAX)
        except MqttFault as caught:
            fault, packets = caught, caught.packets
        if self._decoder.has_more:
            self._turn = self._turn or self._loop.call_soon(self._next)
        else:
            self.stop()
        self._take(packets, fault, len(data))

    def stop(self) -> None:
        """Decode no more until bytes come."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def close(self) -> None:
        """Take nothing more, and release the connection: a reference back to it would keep both in memory."""
        self.stop()
        self._take = None

    def _next(self) -> None:
        self._turn = None
        self.feed(b"")
