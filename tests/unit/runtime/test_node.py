"""A node: what it lets its machine hear."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened
from godwit.broker.messages import Attach, Received, Request, SetSessionExpiry
from godwit.broker.reductions import NothingState
from godwit.mobility import mobile_broker
from godwit.runtime import node as node_module
from godwit.runtime.journal import Journal
from godwit.runtime.node import Node
from godwit.runtime.wire import NATIVE
from godwit.trace import Record
from tests.network.waiting import a_turn


@pytest.mark.parametrize("keeps_journal", [False, True])
def test_what_was_under_way_when_a_client_came_over_another_connection_is_no_fault_of_it(
    tmp_path: Path, keeps_journal: bool
) -> None:
    records: list[Record] = []

    async def scene() -> None:
        node = Node(
            lambda: mobile_broker("b1", {}, BrokerConfig()),
            Journal(tmp_path, "b1", "relaxed") if keeps_journal else None,
            on_record=lambda record, now: records.append(record),
        )

        def say(connection: str, message: Any) -> None:
            node.tell(Heard(connection, message), NATIVE.encode(message))

        node.tell(Opened("old"))
        say("old", Attach("ann"))
        node.tell(Opened("new"))
        say("new", Attach("ann"))
        say("old", Request(1, SetSessionExpiry(1.0)))  # in the same turn
        if keeps_journal:
            await a_turn()
            say("old", Received(0))  # before the disk has answered
        await node.quiet()
        await node.close()

    asyncio.run(scene())
    assert [record.detail for record in records if record.kind == "fault"] == []


def test_a_client_that_never_says_who_it_is_is_still_at_fault() -> None:
    records: list[Record] = []

    async def scene() -> None:
        node = Node(
            lambda: mobile_broker("b1", {}, BrokerConfig()), on_record=lambda record, now: records.append(record)
        )
        node.tell(Opened("x"))
        node.tell(Heard("x", Received(0)), NATIVE.encode(Received(0)))
        await node.quiet()
        await node.close()

    asyncio.run(scene())
    assert [record.detail for record in records] == ["the first message on a connection must be Attach"]


class Steps:
    """A clock that goes on by a millisecond whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class Turns:
    """Sees what a node does; a machine that takes a millisecond for everything, and says what it handled."""

    def __init__(self) -> None:
        self.turns: list[list[str]] = []

    def handle(self, input: Any, now: float) -> list[Any]:
        return []

    def snapshot(self) -> NothingState:
        return NothingState()

    def restore(self, state: NothingState) -> None: ...

    def on_turn(self, inputs: list[tuple[Any, bytes]], took_s: float, now: float) -> None:
        self.turns.append([input.connection for input, _ in inputs])

    def on_effects(self, effects: list[Any], now: float) -> None: ...

    def on_written(self, took_s: float, size: int) -> None: ...


@pytest.mark.parametrize(
    ("asks", "longest"),
    [(None, 8), (Received(1), 8), (Request(1, SetSessionExpiry(1.0)), 3)],
    ids=["nobody", "who confirms", "who asks"],
)
def test_a_backlog_gets_less_of_a_turn_while_somebody_waits_who_asks_for_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: Any, longest: int
) -> None:
    monkeypatch.setattr(node_module, "perf_counter", Steps())

    async def scene() -> None:
        seen = Turns()
        node = Node(lambda: seen, Journal(tmp_path, "b1", "relaxed"))
        node.watch = seen
        busy = Request(1, SetSessionExpiry(1.0))
        for _ in range(100):
            node.tell(Heard("busy", busy), NATIVE.encode(busy))
        await a_turn()
        assert len(seen.turns[0]) == 8
        while node.unhandled:
            if asks is not None:
                node.tell(Heard(f"new{len(seen.turns)}", asks), NATIVE.encode(asks))
            await a_turn()
        lengths = [len(turn) for turn in seen.turns[2:-1]]
        assert max(lengths) in (longest, longest + 1)  # a slice may have begun before
        await node.quiet()
        await node.close()

    asyncio.run(scene())
