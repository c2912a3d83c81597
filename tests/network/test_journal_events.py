"""The events in a broker's journal, also while the broker runs."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from godwit.errors import JournalError
from godwit.event_log import lines_from
from godwit.runtime import connect
from godwit.runtime.journal_events import events_in, log_of
from tests.network.test_native import linked, two_brokers
from tests.network.waiting import run, until


def test_what_clients_and_neighbours_have_said_is_in_the_journal_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with two_brokers(tmp_path) as (b1, b2):
            await linked(b1, b2)
            async with connect(b1.address, name="s") as s, connect(b2.address, name="p") as p:
                subscription = await s.subscribe("n >= 0")
                await s.drain()
                await p.attached()
                await until(lambda: b2.node.machine.routing.in_subs["b1"], "the subscription is there")  # type: ignore[attr-defined]
                for n in range(5):
                    await p.publish({"n": n}, retain="k" if n == 3 else None)
                for _ in range(5):
                    await subscription.next(30)
            for name in ("b1", "b2"):
                log = tmp_path / f"{name}.log"
                assert await asyncio.to_thread(log_of, tmp_path / name, log) == 5
                found = [json.loads(line) for line, _ in lines_from(log)]
                assert [(line["publisher"], line["attributes"]["n"]) for line in found] == [("p", n) for n in range(5)]

    run(scene)


def test_what_waits_for_a_client_is_there_after_a_snapshot(tmp_path: Path) -> None:
    async def scene() -> None:
        async with two_brokers(tmp_path) as (b1, _):
            async with connect(b1.address, name="s") as s:
                await s.subscribe("n >= 0")
                await s.drain()
            async with connect(b1.address, name="p") as p:
                for n in range(3):
                    await p.publish({"n": n})
            await b1.node.save()
            async with connect(b1.address, name="p") as p:
                await p.publish({"n": 3})
            found = [
                event.attributes["n"] for event in await asyncio.to_thread(lambda: list(events_in(tmp_path / "b1")))
            ]
            assert found == [0, 1, 2, 3]

    run(scene)


def test_what_is_no_journal_is_said(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal in"):
        list(events_in(tmp_path))
    (tmp_path / "journal.sqlite").write_bytes(b"nothing of the kind")
    with pytest.raises(JournalError, match="file is not a database"):
        list(events_in(tmp_path))
    (tmp_path / "journal.sqlite").unlink()
    disk = sqlite3.connect(tmp_path / "journal.sqlite")
    disk.execute("CREATE TABLE about (name, value)")
    disk.commit()
    disk.close()
    with pytest.raises(JournalError, match="is not a journal: it has no format number"):
        list(events_in(tmp_path))
