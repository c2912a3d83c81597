"""A response of server-sent events: a stream that ends when its client disconnects or its broker stops.

*Rules.*
1. The source is asked for the next part only when the last one has been written, so a slow client costs no memory.
2. A client that reads nothing for `STALL_S` is disconnected.
3. After `KEEP_ALIVE_S` without a part a comment is written, so that proxies keep the connection open.
"""

import asyncio
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

__all__ = ["PLAIN_GREETING", "ServerSentEvents", "Source"]

KEEP_ALIVE_S = 15.0
STALL_S = 60.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


COMMENT = b":\n\n"
PLAIN_GREETING = COMMENT


class Source(Protocol):
    """What a response writes."""

    def greeting(self) -> bytes:
        """The start of the stream."""

    def next_part(self) -> bytes:
        """The bytes to write now; empty if there are none."""

    def on_written(self) -> None:
        """The last part has been written."""

    def on_gone(self) -> None:
        """The response has ended."""


class ServerSentEvents:
    """An ASGI application for one request. It writes the parts of `source`, which calls `notice` when it has one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._wake = asyncio.Event()
        self._is_over = False
        self._is_idle = False

    def notice(self) -> None:
        """The source has something to write."""
        self._wake.set()

    def end(self) -> None:
        """Write what the source still has, then end the response."""
        self._is_over = True
        self._wake.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write until the client disconnects or `end` is called."""
        gone = asyncio.create_task(self._until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._write(send, self._source.greeting())
            while not gone.done():
                if data := self._source.next_part():
                    await self._write(send, data)
                    self._source.on_written()
                elif self._is_over:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    break
                elif not await self._wait():
                    await self._write(send, COMMENT)
        except TimeoutError:
            pass  # rule 2
        finally:
            gone.cancel()
            self._source.on_gone()

    async def _until_gone(self, receive: Receive) -> None:
        message: Any = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await receive()
        self._wake.set()

    async def _wait(self) -> bool:
        """Wait for the source; False if nothing came for `KEEP_ALIVE_S`. (rule 3)"""
        self._wake.clear()
        self._is_idle = False
        beat = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._beat)
        try:
            await self._wake.wait()
        finally:
            beat.cancel()
        return not self._is_idle

    def _beat(self) -> None:
        self._is_idle = True
        self._wake.set()

    async def _write(self, send: Send, data: bytes) -> None:
        async with asyncio.timeout(STALL_S):
            await send({"type": "http.response.body", "body": data, "more_body": True})
