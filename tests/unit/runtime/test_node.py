"""A node: what it lets its machine hear."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened
from godwit.broker.messages import Attach, Received, Request, SetSessionExpiry
from godwit.mobility import mobile_broker
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
