"""Writing to clients while a node has much to do: when a stream is put off, and for how long at most."""

import asyncio
import itertools
from typing import Any

import pytest

from godwit.broker.effects import Effect, Heard, Input, Send, Tell
from godwit.broker.messages import Accepted, Frame, Received, Unsubscribe
from godwit.runtime.node import Node
from godwit.runtime.write_pacing import PIECE, STREAM_MIN, WINDOW_S, WRITE_S, WritePacing
from godwit.testing.virtual_clock import VirtualClock


class Written:
    """A port that keeps how many messages each of its writes had."""

    def __init__(self) -> None:
        self.writes: list[int] = []
        self._unsent = 0

    def send(self, message: Any) -> None:
        self._unsent += 1

    def flush(self) -> None:
        if self._unsent:
            self.writes.append(self._unsent)
        self._unsent = 0

    def close(self, reason: str) -> None:
        self.flush()


def turn(pacing: WritePacing, counts: dict[Written, int], *, turn_follows: bool = True) -> None:
    """A turn in which so many messages are sent through each port."""
    sent: list[Any] = []
    for port, count in counts.items():
        for _ in range(count):
            port.send(None)
            sent.append(port)
    pacing.flush(sent, turn_follows=turn_follows)


def streaming(pacing: WritePacing, clock: VirtualClock, *ports: Written) -> None:
    """Let these ports get a stream: much in two windows, one after the other."""
    for _ in range(2):
        turn(pacing, dict.fromkeys(ports, 2 * STREAM_MIN))
        assert clock.move(clock.time() + WINDOW_S)
    for port in ports:
        assert port.writes == [2 * STREAM_MIN] * 2
        port.writes.clear()


def test_stream_is_put_off_while_turns_follow_and_written_when_the_window_ends() -> None:
    clock, port = VirtualClock(), Written()
    pacing = WritePacing(clock)
    streaming(pacing, clock, port)
    for _ in range(5):
        turn(pacing, {port: 1})  # short turns make short writes, and it is a stream all the same
    assert port.writes == []
    assert clock.move(clock.time() + WINDOW_S)
    assert port.writes == [5]
    turn(pacing, {port: 5})
    assert port.writes == [5]  # it is still a stream
    clock.move(clock.time() + WINDOW_S)
    assert port.writes == [5, 5]


def test_fewer_streams_are_written_to_more_often() -> None:
    for count in (1, 4):
        clock, ports = VirtualClock(), [Written() for _ in range(count)]
        pacing = WritePacing(clock)
        streaming(pacing, clock, *ports)
        for _ in range(2):
            turn(pacing, dict.fromkeys(ports, 1))
            clock.move(clock.time() + 0.9 * WRITE_S * count)
            turn(pacing, dict.fromkeys(ports, 1))
            assert ports[0].writes == []
            clock.move(clock.time() + 0.2 * WRITE_S * count)
            turn(pacing, dict.fromkeys(ports, 1))
            assert [port.writes for port in ports] == [[3]] * count
            for port in ports:
                port.writes.clear()


def test_many_streams_wait_for_the_end_of_the_window() -> None:
    clock, ports = VirtualClock(), [Written() for _ in range(20)]
    pacing = WritePacing(clock)
    streaming(pacing, clock, *ports)
    for _ in range(4):
        turn(pacing, dict.fromkeys(ports, 1))
        clock.move(clock.time() + 0.2 * WINDOW_S)
    assert ports[0].writes == []
    clock.move(clock.time() + WINDOW_S)
    assert [port.writes for port in ports] == [[4]] * 20


def test_piece_of_a_stream_is_written_at_once() -> None:
    clock, port = VirtualClock(), Written()
    pacing = WritePacing(clock)
    streaming(pacing, clock, port)
    turn(pacing, {port: PIECE - 1})
    turn(pacing, {port: 1})
    turn(pacing, {port: PIECE})
    assert port.writes == [PIECE, PIECE]


def test_client_that_gets_a_message_now_and_then_is_written_to_after_every_turn() -> None:
    clock, quiet, busy = VirtualClock(), Written(), Written()
    pacing = WritePacing(clock)
    streaming(pacing, clock, busy)
    for _ in range(3):
        turn(pacing, {busy: 2, quiet: 1})
    assert busy.writes == []
    assert quiet.writes == [1] * 3
    clock.move(clock.time() + WINDOW_S)
    turn(pacing, {busy: 2, quiet: 1})
    assert quiet.writes == [1] * 4


def test_one_window_with_much_is_no_stream() -> None:
    clock, port = VirtualClock(), Written()
    pacing = WritePacing(clock)
    for count in (3 * STREAM_MIN, 1, 3 * STREAM_MIN, 1):
        turn(pacing, {port: count})
        clock.move(clock.time() + WINDOW_S)
        turn(pacing, {port: 1})
        assert port.writes[-2:] == [count, 1]


def test_stream_that_dries_up_is_one_no_more() -> None:
    clock, port = VirtualClock(), Written()
    pacing = WritePacing(clock)
    streaming(pacing, clock, port)
    turn(pacing, {port: 1})
    clock.move(clock.time() + WINDOW_S)
    turn(pacing, {port: 1})
    assert port.writes == [1, 1]
    clock.move(clock.time() + WINDOW_S)
    assert not clock.move(clock.time() + WINDOW_S)  # and no window follows


def test_nothing_is_put_off_when_no_turn_follows() -> None:
    clock, port = VirtualClock(), Written()
    pacing = WritePacing(clock)
    streaming(pacing, clock, port)
    turn(pacing, {port: 5})
    turn(pacing, {}, turn_follows=False)
    assert port.writes == [5]
    turn(pacing, {port: 5}, turn_follows=False)
    assert port.writes == [5, 5]
    turn(pacing, {port: 1})  # a moment of rest has not ended the stream
    assert port.writes == [5, 5]


def test_a_few_messages_begin_no_window() -> None:
    clock, port = VirtualClock(), Written()
    pacing = WritePacing(clock)
    for _ in range(3):
        turn(pacing, {port: STREAM_MIN - 1}, turn_follows=False)
    assert not clock.move(clock.time() + WINDOW_S)
    assert port.writes == [STREAM_MIN - 1] * 3


def test_pacing_that_was_stopped_writes_nothing() -> None:
    clock, port = VirtualClock(), Written()
    pacing = WritePacing(clock)
    streaming(pacing, clock, port)
    turn(pacing, {port: 5})
    pacing.stop()
    assert not clock.move(clock.time() + WINDOW_S)
    assert port.writes == []


# ---------------------------------------------------------------- in a node


class Chatty:
    """A machine that answers each input with messages to a client and a frame to a neighbour."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        told: list[Effect] = [Tell("client", Accepted(number)) for number in range(STREAM_MIN)]
        return [*told, Send("neighbour", Frame(1, 0, Unsubscribe(("n", "s"))))]

    def snapshot(self) -> Any:
        raise AssertionError("without a journal there is none")

    def restore(self, state: Any) -> None:
        raise AssertionError("without a journal there is none")


def test_busy_node_puts_off_clients_and_no_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    client, neighbour, clock = Written(), Written(), VirtualClock()
    monkeypatch.setattr(clock, "work", lambda: float(next(ticks)))  # a turn is over after one input

    async def scene() -> None:
        node = Node(Chatty, clock=clock)
        node.ports.update(client=client, neighbour=neighbour)
        for inputs in (1, 1, 4):
            for _ in range(inputs):
                node.tell(Heard("client", Received(1)))
            await node.quiet()
            clock.move(clock.time() + WINDOW_S)
        assert sum(client.writes) == 6 * STREAM_MIN  # before anything is closed
        await node.close()

    asyncio.run(scene())
    assert neighbour.writes == [1] * 6
    assert client.writes == [STREAM_MIN, STREAM_MIN, 4 * STREAM_MIN]
