"""A response of server-sent events: a stream that ends when its client or its broker goes.

*Rules.*
1. What a client does not read is not made: the next part is asked for when the one before it has been written.
2. A client that reads nothing for `STALL_S` is let go.
3. `KEEP_ALIVE_S` without anything: a comment, so that what stands between sees that the connection lives.
"""

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send

__all__ = ["ServerSentEvents"]

KEEP_ALIVE_S = 15.0
STALL_S = 60.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class ServerSentEvents:
    """An ASGI application for one request. What there is to write, subclasses say."""

    def __init__(self) -> None:
        self._came = asyncio.Event()
        self._is_over = False
        self._is_idle = False

    # ------------------------------------------------------------ what subclasses say

    def greeting(self) -> bytes:
        """What the stream begins with."""
        return b":\n\n"

    def taken(self) -> bytes:
        """What is to be written now; empty: nothing."""
        raise NotImplementedError

    def on_written(self) -> None:
        """What was taken has been written."""

    def on_gone(self) -> None:
        """The stream is over."""

    def notice(self) -> None:
        """There is something to write."""
        self._came.set()

    def end(self) -> None:
        """The broker stops: write what there is, and let the client go."""
        self._is_over = True
        self._came.set()

    # ------------------------------------------------------------ the response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write until the client or the broker goes."""
        gone = asyncio.create_task(self._until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._write(send, self.greeting())
            while not gone.done():
                if data := self.taken():
                    await self._write(send, data)
                    self.on_written()
                elif self._is_over:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    break
                elif not await self._wait():
                    await self._write(send, b":\n\n")
        except TimeoutError:
            pass  # rule 2
        finally:
            gone.cancel()
            self.on_gone()

    async def _until_gone(self, receive: Receive) -> None:
        message: Any = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await receive()
        self._came.set()

    async def _wait(self) -> bool:
        """Until something has come; False: for so long that a sign of life is due."""
        self._came.clear()
        self._is_idle = False
        beat = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._beat)
        try:
            await self._came.wait()
        finally:
            beat.cancel()
        return not self._is_idle

    def _beat(self) -> None:
        self._is_idle = True
        self._came.set()

    async def _write(self, send: Send, data: bytes) -> None:
        async with asyncio.timeout(STALL_S):
            await send({"type": "http.response.body", "body": data, "more_body": True})
