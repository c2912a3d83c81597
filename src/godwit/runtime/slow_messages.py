"""Frames whose messages take long to decode: one filter at a time, with turns of others between them.

*Theory.* A client that moves brings all its filters with one greeting, and its session comes with one message between
brokers: to decode 50 filters of 900 comparisons takes 0.4 s. A message of more than `SMALL_BYTES` with several filters
is decoded in steps, by a task of its own (`LongWork`). Its connection is not read meanwhile. In the same task the
filters of a greeting are compared with the rights of its user, which takes up to 9 ms for each. If less is granted than
the client wants, that is encoded for the journal. A long greeting over WebSocket is handled alike (`granting`,
`socket_queries.py`).

*Rules.*
1. Messages of a connection come in the order of their frames. What is read while one is decoded is kept for later.
2. Of all connections one decodes at a time, for a slice each, and their parties take turns.
3. A connection that is closed stops its task.
4. A message counts as incomplete (`pending`) until it is decoded: it occupies memory.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator
from typing import Any

from godwit.broker.messages import Attach
from godwit.errors import PeerFault
from godwit.runtime.authentication import Principal
from godwit.runtime.long_work import LongWork
from godwit.runtime.wire import NATIVE, Frames, SlowMessage

__all__ = ["SlowFrames", "granting"]


class SlowFrames:
    """`Frames` of one connection. `pause` is called when a task begins, `go_on` when there is more to `feed`."""

    def __init__(
        self,
        frames: Frames,
        work: LongWork,
        pause: Callable[[], None],
        go_on: Callable[[], None],
        party: Callable[[], str],
        principal: Callable[[], Principal | None] = lambda: None,  # of a client
    ) -> None:
        self._frames, self._work, self._pause, self._go_on, self._party = frames, work, pause, go_on, party
        self._principal = principal
        self._decoding = 0  # bytes of the message that is being decoded
        self._task: asyncio.Task[None] | None = None
        self._done: list[tuple[Any, bytes]] = []  # the message that was decoded last
        self._fault: PeerFault | None = None  # why there is none

    @property
    def is_busy(self) -> bool:
        """Whether a message is being decoded."""
        return self._task is not None

    @property
    def has_more(self) -> bool:
        """Whether `feed` has more to give without further data."""
        return self._task is None and (self._frames.has_more or bool(self._done) or self._fault is not None)

    @property
    def pending(self) -> int:
        """The number of bytes of an incomplete frame, and of a message that is being decoded. (rule 4)"""
        return self._frames.pending + self._decoding

    def feed(self, data: bytes, count_max: int, *, counts_items: bool) -> list[tuple[Any, bytes]]:
        """As `Frames.feed`; nothing while a message is being decoded."""
        if self._fault is not None:
            raise self._fault
        if self._task is not None or self._done:
            self._frames.keep(data)
            done, self._done = self._done, []
            return done
        came = self._frames.feed(data, count_max, counts_items=counts_items)
        if came and type(came[0][0]) is SlowMessage:
            self._pause()
            self._decoding = len(came[0][1])
            self._task = asyncio.create_task(self._decode(*came[0]))
            return []
        return came

    async def _decode(self, slow: SlowMessage, packed: bytes) -> None:
        done: list[tuple[Any, bytes]] = []
        try:
            async with self._work.task(self._party()) as step:
                for each in _steps(slow, packed, self._principal()):
                    done = [] if each is None else [each]
                    await step()
        except PeerFault as fault:
            self._fault = fault
        except Exception as error:  # of this program
            self._fault = PeerFault(f"this message cannot be decoded: {error}")
            self._end([])
            raise
        self._end(done)

    def _end(self, done: list[tuple[Any, bytes]]) -> None:
        self._task, self._done, self._decoding = None, done, 0
        self._go_on()

    def stop(self) -> None:
        """The connection is closed. (rule 3)"""
        self._pause, self._go_on, self._party = _nothing, _nothing, str  # breaks a reference cycle
        self._principal = _nothing
        if self._task is not None:
            self._task.cancel()
            self._task = None


def _steps(slow: SlowMessage, packed: bytes, principal: Principal | None) -> Iterator[tuple[Any, bytes] | None]:
    """The steps of a message: None after each of them, and then the message and its bytes, as far as it is granted."""
    message = yield from _last_of(slow.steps)
    if type(message) is Attach and principal is not None:
        granted = yield from _last_of(principal.checking(message))
        if granted is not message:
            message, packed = granted, (yield from _last_of(NATIVE.encoding(granted)))
    yield message, packed


def granting(attach: Attach, principal: Principal) -> Iterator[tuple[Attach, bytes] | None]:
    """The steps of a long greeting that came in another form: None after each of them, and then what is granted of it,
    and the bytes of that in the native form.
    """
    granted = yield from _last_of(principal.checking(attach))
    yield granted, (yield from _last_of(NATIVE.encoding(granted)))


def _last_of(steps: Iterator[Any]) -> Generator[None, None, Any]:
    """Take these steps; returns what the last of them gives."""
    last: Any = None
    for each in steps:
        last = each
        yield None
    return last


def _nothing() -> None:
    """For a connection that is closed."""
