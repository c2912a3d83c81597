"""A TCP proxy that does to connections what networks do to them, on command.

| command | what the two ends see |
|---|---|
| `cut()` | the connection ends, in good order |
| `reset()` | the connection is reset |
| `half_open("near" or "far")` | that end sees nothing: its connection stands, and nothing comes over it any more |
| `stall()` … `go_on()` | nothing passes meanwhile, and all of it afterwards; nobody is told |
| `close()` … `open()` | a partition: connections end, and new ones end at once |
| `delay_s` | each piece passes that much later |
| `tamper` | whole frames go through this function: what a network never does, for faults that tests plant |

The near end is who dials the proxy, the far end whom it stands for.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Literal

from godwit.runtime.tcp import Address

__all__ = ["End", "Proxy"]

End = Literal["near", "far"]
LENGTH_BYTES = 4


class _Side(asyncio.Protocol):
    """One of the two connections that a pair is made of."""

    def __init__(self, pair: "_Pair", end: End) -> None:
        self.pair, self.end = pair, end
        self.transport: asyncio.Transport | None = None
        self.is_deaf = False  # what comes is thrown away
        self._rest = b""
        self._late: deque[tuple[float, bytes]] = deque()  # with when each is due

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.pair.is_over:
            self.drop(reset=True)
        self.pair.set_flow()

    def data_received(self, data: bytes) -> None:
        if self.is_deaf:
            return
        proxy = self.pair.proxy
        pieces = [data] if proxy.tamper is None else proxy.tamper(self.end, self._frames(data))
        if not proxy.delay_s and not self._late:
            self.pair.other(self).write(b"".join(pieces))
            return
        loop = asyncio.get_running_loop()
        self._late.append((loop.time() + proxy.delay_s, b"".join(pieces)))
        if len(self._late) == 1:
            loop.call_at(self._late[0][0], self._pass_late)

    def _pass_late(self) -> None:
        """Pass what is due, in its order."""
        loop = asyncio.get_running_loop()
        self.pair.other(self).write(self._late.popleft()[1])
        if self._late:
            loop.call_at(self._late[0][0], self._pass_late)

    def _frames(self, data: bytes) -> list[bytes]:
        frames, data = [], self._rest + data
        while len(data) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            if len(data) < end:
                break
            frames.append(data[:end])
            data = data[end:]
        self._rest = data
        return frames

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.is_deaf and not self.transport.is_closing():
            self.transport.write(data)

    def pause_writing(self) -> None:
        other = self.pair.other(self).transport
        if other is not None:
            other.pause_reading()

    def resume_writing(self) -> None:
        self.pair.set_flow()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_deaf:
            self.pair.end(by=self)

    def drop(self, *, reset: bool) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if reset:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()


class _Pair:
    """A connection through the proxy: from the near end to the proxy, and from there to the far end."""

    def __init__(self, proxy: "Proxy") -> None:
        self.proxy = proxy
        self.near, self.far = _Side(self, "near"), _Side(self, "far")
        self.is_over = False
        proxy.pairs[self] = None

    def other(self, side: _Side) -> _Side:
        return self.far if side is self.near else self.near

    async def dial(self) -> None:
        target = self.proxy.target
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.far, target.host, target.port)
        except OSError:
            self.end()

    def set_flow(self) -> None:
        """Read what may pass: nothing while there are not two ends, or all stands still."""
        is_whole = self.near.transport is not None and self.far.transport is not None
        for side in (self.near, self.far):
            if side.transport is not None:
                if is_whole and not self.proxy.is_stalled:
                    side.transport.resume_reading()
                else:
                    side.transport.pause_reading()

    def end(self, *, by: _Side | None = None, reset: bool = False) -> None:
        self.proxy.pairs.pop(self, None)
        self.is_over = True
        for side in (self.near, self.far):
            if side is not by and not side.is_deaf:
                side.drop(reset=reset)

    def half_open(self, kept: End) -> None:
        """Let one end go; the other hears nothing of it."""
        self.proxy.pairs.pop(self, None)
        deaf, gone = (self.near, self.far) if kept == "near" else (self.far, self.near)
        deaf.is_deaf = True
        self.proxy.deaf.append(deaf)
        gone.drop(reset=False)


class Proxy:
    """Stands for `target`. `address` is where it is to be dialled."""

    def __init__(self, target: Address) -> None:
        self.target = target
        self.address = target
        self.delay_s = 0.0
        self.tamper: Callable[[End, list[bytes]], list[bytes]] | None = None
        self.is_stalled = False
        self.is_closed = False
        self.pairs: dict[_Pair, None] = {}
        self.deaf: list[_Side] = []
        self.taken = 0  # connections so far
        self._dialling: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> Address:
        self._server = await asyncio.get_running_loop().create_server(self._take, "127.0.0.1", 0)
        self.address = Address(*self._server.sockets[0].getsockname()[:2])
        return self.address

    def _take(self) -> _Side:
        pair = _Pair(self)
        self.taken += 1
        task = asyncio.create_task(self._dial(pair))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return pair.near

    async def _dial(self, pair: _Pair) -> None:
        if self.is_closed:
            pair.end(reset=True)
        else:
            await pair.dial()

    def cut(self) -> None:
        for pair in list(self.pairs):
            pair.end()

    def reset(self) -> None:
        for pair in list(self.pairs):
            pair.end(reset=True)

    def half_open(self, kept: End) -> None:
        for pair in list(self.pairs):
            pair.half_open(kept)

    def stall(self) -> None:
        self.is_stalled = True
        self._set_flow()

    def go_on(self) -> None:
        self.is_stalled = False
        self._set_flow()

    def _set_flow(self) -> None:
        for pair in self.pairs:
            pair.set_flow()

    def close(self) -> None:
        self.is_closed = True
        self.reset()

    def open(self) -> None:
        self.is_closed = False

    def heal(self) -> None:
        """Be a good network again."""
        self.delay_s, self.tamper = 0.0, None
        self.open()
        self.go_on()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.is_closed = True
        for task in list(self._dialling):
            task.cancel()
        self.reset()
        for side in self.deaf:
            side.drop(reset=True)
        await asyncio.gather(*self._dialling, return_exceptions=True)
