"""Messages to a neighbour that take long to encode: a part at a time, with turns of others between them.

*Theory.* A session on its way to its client goes in one message, and to encode 50 filters of 900 comparisons takes
0.1 s. So a message with more than `LITERALS_MAX` in its filters is encoded one filter at a time, by a task of its own
(`LongWork`); what is sent behind it waits. Of several messages with filters, no more than that are written at once.

*Rules.*
1. Messages are written in the order in which they were sent.
2. A connection that is closed stops its task. The link still has what was not acknowledged.
3. An error of the program closes the connection: nothing may be left out.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from godwit.broker.messages import Frame, Packet, Publish
from godwit.codec.message_codec import filters_in
from godwit.runtime.long_work import LongWork
from godwit.runtime.wire import NATIVE, Frames

__all__ = ["SlowWrites"]

LITERALS_MAX = 1_000  # that are encoded at once: 2 ms


class SlowWrites:
    """The slow messages of one connection. `go_on` is called when there is more to be written."""

    def __init__(self, work: LongWork, go_on: Callable[[], None], party: Callable[[], str]) -> None:
        self._work, self._go_on, self._party = work, go_on, party
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a message is being encoded."""
        return self._task is not None

    def split(self, messages: list[Any], transport: asyncio.Transport) -> tuple[list[Any], list[Any]]:
        """Those of these messages that are to be written now, and those for later. If the first is slow, it is begun,
        and is among neither.
        """
        literals = 0
        for place, message in enumerate(messages):
            literals += _literals_of(message)
            if literals > LITERALS_MAX:
                if not place:
                    self._task = asyncio.create_task(self._encode(message, transport))
                    return [], messages[1:]
                asyncio.get_running_loop().call_soon(self._on_turn)
                return messages[:place], messages[place:]
        return messages, []

    def _on_turn(self) -> None:
        self._go_on()

    async def _encode(self, message: Any, transport: asyncio.Transport) -> None:
        data = b""
        try:
            async with self._work.task(self._party()) as step:
                for part in NATIVE.encoding(message):
                    data = part or b""
                    await step()
        except Exception:  # of this program
            transport.abort()
            raise
        self._task = None
        if not transport.is_closing():
            transport.write(Frames.packed_data(data))
            self._go_on()

    def stop(self) -> None:
        """The connection is closed. (rule 2)"""
        self._go_on, self._party = _nothing, str  # breaks the reference cycle with the connection
        if self._task is not None:
            self._task.cancel()
            self._task = None


def _literals_of(message: Any) -> int:
    """The literals in the filters of a frame."""
    inner: Any = message.message if type(message) is Frame else None
    while type(inner) is Packet:
        inner = inner.message
    return 0 if inner is None or type(inner) is Publish else sum(filter.size for filter in filters_in(inner))


def _nothing() -> None:
    """For a connection that is closed."""
