"""A snapshot is packed and written while its machine goes on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened
from godwit.broker.messages import Attach
from godwit.mobility import mobile_broker
from godwit.runtime import node as node_module
from godwit.runtime import snapshot_writer
from godwit.runtime.journal import Journal
from godwit.runtime.node import Node
from godwit.runtime.wire import NATIVE
from tests.network.waiting import a_turn, run, until

COUNT = 200


def come(node: Node, first: int, count: int) -> None:
    """So many clients come."""
    for number in range(first, first + count):
        attach = Attach(f"c{number}")
        node.tell(Opened(f"l{number}"))
        node.tell(Heard(f"l{number}", attach), NATIVE.encode(attach))


def node_of(folder: Path) -> Node:
    return Node(lambda: mobile_broker("b1", {}, BrokerConfig()), Journal(folder, "b1", "relaxed"))


def clients(node: Node) -> list[str]:
    machine: Any = node.machine
    return [session.client for session in machine.sessions]


def test_inputs_are_handled_while_a_snapshot_is_packed_and_all_is_there_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "SLICE_S", 0.0)  # a step in each turn of the loop

    async def scene() -> None:
        node = node_of(tmp_path)
        come(node, 0, COUNT)
        await node.quiet()
        number = node.journal.number if node.journal is not None else 0
        saving = asyncio.create_task(node.save())
        await a_turn()
        come(node, COUNT, 10)
        await until(lambda: len(clients(node)) == COUNT + 10)
        assert not saving.done()  # the others were handled meanwhile
        assert not node.is_held
        await saving
        assert node.journal is not None
        found = node.journal.last_snapshot()
        assert found is not None
        assert found[0] == number  # it is of the state before they came
        assert len(list(node.journal.batches(number))) == node.journal.number - number > 0
        await node.quiet()
        node.abandon()
        node.journal.close()
        again = node_of(tmp_path)
        assert set(clients(again)) == {f"c{each}" for each in range(COUNT + 10)}
        await again.close()

    run(scene)


@pytest.mark.parametrize("why", ["it has doubled", "the disk is nearly full"])
def test_inputs_wait_for_the_snapshot_when_the_journal_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(snapshot_writer, "SLICE_S", 0.0)

    async def scene() -> None:
        node = node_of(tmp_path)
        come(node, 0, COUNT)
        await node.quiet()
        journal = node.journal
        assert journal is not None
        saving = asyncio.create_task(node.save())
        await a_turn()
        if why == "it has doubled":
            journal.bytes_since_snapshot = 2 * node_module.SNAPSHOT_BYTES + 1
        else:
            journal.is_cramped = True
        assert node.holds()
        come(node, COUNT, 10)

        def is_free() -> bool:  # looked at in every turn
            assert not node.is_held or len(clients(node)) == COUNT
            return not node.is_held

        await until(is_free)
        await saving
        assert journal.last_snapshot() is not None
        await node.quiet()
        assert not node.is_held
        assert len(clients(node)) == COUNT + 10
        await node.close()

    run(scene)


def test_a_snapshot_that_is_dropped_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "SLICE_S", 0.0)

    async def scene() -> None:
        node = node_of(tmp_path)
        come(node, 0, COUNT)
        await node.quiet()
        saving = asyncio.create_task(node.save())
        await a_turn()
        node.abandon()
        await saving
        assert node.journal is not None
        assert node.journal.last_snapshot() is None
        node.journal.close()

    run(scene)
