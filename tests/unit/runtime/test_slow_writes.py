"""Messages with many filters are encoded one filter at a time, and are written in the order in which they were sent."""

import asyncio
from collections.abc import Generator
from typing import Any, cast

import pytest

from godwit.broker.messages import Ack, Frame, Subscribe, Unsubscribe
from godwit.filters import parse
from godwit.mobility.move_messages import Interests
from godwit.runtime.long_work import LongWork
from godwit.runtime.slow_writes import LITERALS_MAX, SlowWrites
from godwit.runtime.wire import NATIVE, Frames

WISHES = tuple(
    Subscribe(("ann", f"s{n}"), parse(" OR ".join(f"a{i} = {i + n}" for i in range(300)))) for n in range(12)
)
SESSION = Frame(1, 1, cast(Any, Interests("ann", "b", 2, WISHES)))
SINGLE = [Frame(2 + n, 1, wish) for n, wish in enumerate(WISHES)]
AFTER = [Frame(99, 1, Unsubscribe(("ann", "x"))), Ack(7)]


class Turn:
    """One turn of the event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Connection:
    """What is sent is written as `NativeConnection` does it."""

    def __init__(self) -> None:
        self.writes = SlowWrites(LongWork(), self.flush, lambda: "n")
        self.unsent: list[Any] = []
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True

    def flush(self) -> None:
        if not self.writes.is_busy and self.unsent:
            now, self.unsent = self.writes.split(self.unsent, cast(asyncio.Transport, self))
            if now:
                self.write(Frames.packed(now))

    async def settled(self) -> None:
        while self.writes.is_busy or self.unsent:
            await Turn()


@pytest.mark.parametrize("message", [SESSION, SINGLE[0], *AFTER])
def test_a_message_that_is_encoded_in_steps_has_the_same_bytes(message: Any) -> None:
    *steps, data = NATIVE.encoding(message)
    assert data == NATIVE.encode(message)
    assert steps == [None] * (12 if message is SESSION else 1 if message is SINGLE[0] else 0)


def test_a_filter_that_a_message_has_twice_is_encoded_once() -> None:
    *steps, data = NATIVE.encoding(Interests("ann", "b", 2, (WISHES[0], WISHES[0])))
    assert len(steps) == 1
    assert data == NATIVE.encode(Interests("ann", "b", 2, (WISHES[0], WISHES[0])))


@pytest.mark.anyio
async def test_messages_are_written_in_their_order_with_few_filters_at_once() -> None:
    connection = Connection()
    sent = [*SINGLE, SESSION, *AFTER]
    connection.unsent = list(sent)
    connection.flush()
    assert connection.written == [Frames.packed(SINGLE[: LITERALS_MAX // 300])]
    await connection.settled()
    assert b"".join(connection.written) == Frames.packed(sent)
    assert len(connection.written) == 6


@pytest.mark.anyio
async def test_what_is_sent_while_a_message_is_encoded_waits_for_it() -> None:
    connection = Connection()
    connection.unsent = [SESSION]
    connection.flush()
    assert (connection.writes.is_busy, connection.written) == (True, [])
    connection.unsent += AFTER
    connection.flush()
    await connection.settled()
    assert b"".join(connection.written) == Frames.packed([SESSION, *AFTER])


@pytest.mark.anyio
async def test_nothing_is_written_to_a_connection_that_is_closed_meanwhile() -> None:
    connection = Connection()
    connection.unsent = [SESSION]
    connection.flush()
    connection.writes.stop()
    assert not connection.writes.is_busy
    for _ in range(30):
        await Turn()
    assert connection.written == []


@pytest.mark.anyio
async def test_an_error_of_the_program_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object, message: Any) -> Generator[None, None, None]:
        yield
        raise AssertionError("planted")

    monkeypatch.setattr(type(NATIVE), "encoding", failing)
    connection = Connection()
    connection.unsent = [SESSION]
    connection.flush()
    task = connection.writes._task
    assert task is not None
    for _ in range(5):
        await Turn()
    assert (connection.is_closed, connection.written) == (True, [])
    assert isinstance(task.exception(), AssertionError)  # which asyncio reports
