"""A snapshot is written piece by piece, what it replaces goes piece by piece, and batches come between the pieces."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened
from godwit.broker.messages import Attach
from godwit.codec.batch_chains import MARK
from godwit.codec.journal_entries import JournalEntry
from godwit.codec.snapshots import DriverState, pack
from godwit.errors import JournalError
from godwit.mobility import mobile_broker
from godwit.runtime.journal import FILE, FORMAT, Journal, about
from godwit.runtime.journal_checks import about_checksum
from godwit.runtime.journal_files import inspected, why_damaged
from godwit.runtime.journal_snapshots import PIECE_BYTES
from godwit.runtime.node import Node
from godwit.runtime.wire import NATIVE
from tests.network.waiting import run, until

BATCH = bytes(PIECE_BYTES // 4)
MACHINE = bytes(range(256)) * (PIECE_BYTES // 256) * 3 + b"end"  # four pieces


def batch_of(data: bytes) -> bytes:
    return msgspec.msgpack.encode([JournalEntry(0.0, "heard", "c1", data)])


def written(folder: Path, batches: int = 10) -> Journal:
    journal = Journal(folder, "b1", "relaxed")
    for number in range(batches):
        journal.append(batch_of(b"%d" % number + BATCH))
    return journal


def rows(journal: Journal, table: str) -> int:
    return int(journal._disk.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_large_snapshot_is_written_in_pieces_and_batches_come_between_them(tmp_path: Path) -> None:
    journal = written(tmp_path)
    parts = []
    for _ in journal.snapshot_steps(10, MACHINE):
        parts.append((rows(journal, "snapshot_parts"), rows(journal, "snapshots"), rows(journal, "batches")))
        journal.append(b"behind")
    assert [each[:2] for each in parts[:3]] == [(1, 0), (2, 0), (3, 0)]
    assert all(each[:2] == (3, 1) for each in parts[3:])
    gone = [before[2] + 1 - after[2] for before, after in pairwise(parts[2:])]
    assert gone == [3, 3, 3, 1]  # batches, of a quarter of a piece and a byte or two each
    assert journal.last_snapshot() == (10, MACHINE)
    assert journal.bytes_since_snapshot == len(b"behind") * len(parts)
    assert list(journal.batches(10)) == [b"behind"] * len(parts)
    journal.close()


@pytest.mark.parametrize("step", range(8))
def test_no_end_between_two_pieces_loses_anything(tmp_path: Path, step: int) -> None:
    child = os.fork()
    if not child:
        try:
            journal = written(tmp_path)
            steps = journal.snapshot_steps(10, MACHINE)
            for _ in range(step):
                next(steps, None)
            journal.append(batch_of(b"last"))
        finally:
            os._exit(9)
    os.waitpid(child, 0)
    counts = step > 3
    assert why_damaged(tmp_path) == ""
    told = inspected(tmp_path)
    assert told["snapshot"] is None if not counts else told["snapshot"]["bytes"] == len(MACHINE)
    assert told["batches"]["first"] == (11 if counts else 1)
    journal = Journal(tmp_path, "b1", "relaxed")
    assert (journal.loss, journal.number) == (None, 11)
    assert journal.last_snapshot() == ((10, MACHINE) if counts else None)
    assert list(journal.batches(10)) == [batch_of(b"last")]
    journal.snapshot(11, b"small")  # what was left behind goes
    assert (rows(journal, "snapshot_parts"), rows(journal, "snapshots"), rows(journal, "batches")) == (0, 1, 0)
    journal.close()


def test_a_snapshot_replaces_a_larger_one(tmp_path: Path) -> None:
    journal = written(tmp_path)
    journal.snapshot(10, MACHINE)
    journal.append(b"more")
    journal.snapshot(11, MACHINE[:-3])
    assert (journal.last_snapshot(), rows(journal, "snapshot_parts")) == ((11, MACHINE[:-3]), 2)
    journal.snapshot(11, b"the same batch, once more")
    assert (journal.last_snapshot(), rows(journal, "snapshot_parts")) == ((11, b"the same batch, once more"), 0)
    journal.close()


def test_a_part_that_is_damaged_or_missing_is_noticed(tmp_path: Path) -> None:
    journal = written(tmp_path)
    journal.snapshot(10, MACHINE)
    journal.close()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as disk:
        disk.execute("DELETE FROM snapshot_parts WHERE part = 1")
    assert "snapshot 10 is not as it was written" in why_damaged(tmp_path)
    with pytest.raises(JournalError, match="snapshot 10 is not as it was written"):
        Journal(tmp_path, "b1", "relaxed")


def test_without_room_for_the_pieces_a_journal_of_the_snapshot_alone_takes_the_place(tmp_path: Path) -> None:
    journal = written(tmp_path)
    steps = journal.snapshot_steps(10, MACHINE)
    next(steps)
    pages = journal._disk.execute("PRAGMA page_count").fetchone()[0]
    journal._disk.execute(f"PRAGMA max_page_count = {pages}")
    assert list(steps) == []
    assert (journal.last_snapshot(), rows(journal, "snapshot_parts"), rows(journal, "batches")) == ((10, MACHINE), 0, 0)
    journal.close()


def test_a_damaged_tail_keeps_a_snapshot_in_parts(tmp_path: Path) -> None:
    journal = written(tmp_path)
    journal.snapshot(10, MACHINE)
    for data in (b"good", b"spoilt", b"behind"):
        journal.append(data)
    journal.close()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as disk:
        disk.execute("UPDATE batches SET data = x'00' WHERE number = 12")
    again = Journal(tmp_path, "b1", "relaxed", accept_loss=True)
    assert again.last_snapshot() == (10, MACHINE)
    assert list(again.batches(10)) == [b"good"]
    again.close()


def of_format_4(folder: Path, snapshot: bytes = MACHINE) -> None:
    """A journal as the version before wrote it: 10 batches, and a snapshot of them in one row."""
    journal = written(folder)
    journal.is_cramped = True  # so that the snapshot stands in its row
    journal.snapshot(10, snapshot)
    journal.close()
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as disk:
        disk.execute("DROP TABLE snapshot_parts")
        disk.execute("UPDATE about SET value = 4, checksum = ? WHERE name = 'format'", (about_checksum("format", 4),))


def test_a_journal_of_format_4_becomes_one_of_this_format_with_its_next_snapshot(tmp_path: Path) -> None:
    of_format_4(tmp_path)
    assert why_damaged(tmp_path) == ""
    assert inspected(tmp_path)["snapshot"]["bytes"] == len(MACHINE)
    again = Journal(tmp_path, "b1", "relaxed")
    assert (again.loss, again.last_snapshot()) == (None, (10, MACHINE))
    again.append(b"more")
    again.close()
    assert about(tmp_path / FILE)["format"] == 4
    again = Journal(tmp_path, "b1", "relaxed")
    next(again.snapshot_steps(11, MACHINE))  # before there is a part, or a snapshot that counts
    assert rows(again, "snapshot_parts") == 1
    assert again.recall("format") == str(FORMAT)
    again.snapshot(11, MACHINE)
    again.close()
    assert about(tmp_path / FILE)["format"] == FORMAT
    assert why_damaged(tmp_path) == ""


def test_a_journal_of_format_4_without_room_for_pieces_stays_one_that_its_version_can_read(tmp_path: Path) -> None:
    of_format_4(tmp_path)
    journal = Journal(tmp_path, "b1", "relaxed")
    journal.append(b"more")
    journal.is_cramped = True
    journal.snapshot(11, MACHINE)
    assert (journal.last_snapshot(), rows(journal, "snapshot_parts")) == ((11, MACHINE), 0)
    journal.append(b"and more")
    journal.snapshot(12, MACHINE)
    assert (journal.recall("format"), rows(journal, "snapshot_parts")) == (str(FORMAT), 3)
    journal.close()


def test_a_journal_of_format_4_whose_snapshot_is_refused_is_left_as_it_was(tmp_path: Path) -> None:
    state = msgspec.msgpack.decode(pack(mobile_broker("b1", {}, BrokerConfig()), DriverState({}, (), 0.0)))
    state["kinds"]["BrokerState"] = 0
    of_format_4(tmp_path, msgspec.msgpack.encode(state))
    before = {name: (tmp_path / name).read_bytes() for name in (FILE, MARK)}

    async def scene() -> None:
        journal = Journal(tmp_path, "b1", "relaxed")
        try:
            Node(lambda: mobile_broker("b1", {}, BrokerConfig()), journal)
        finally:
            journal.close()

    advice = "Either start the version of Godwit that wrote it to drain it, or move the folder away"
    with pytest.raises(JournalError, match=rf"snapshot 10: .* a BrokerState of version 0: .*\. {advice}"):
        run(scene)
    assert about(tmp_path / FILE)["format"] == 4
    assert {name: (tmp_path / name).read_bytes() for name in (FILE, MARK)} == before


class Slow(Journal):
    """A journal that notes what it is asked for."""

    def noted(self) -> list[str]:
        if not hasattr(self, "notes"):
            self.notes: list[str] = []
        return self.notes

    def append(self, data: bytes) -> int:
        self.noted().append("batch")
        return super().append(data)

    def snapshot_steps(self, number: int, data: bytes) -> Iterator[None]:
        for _ in super().snapshot_steps(number, data + bytes(20 * PIECE_BYTES)):
            self.noted().append("piece")
            yield


def test_a_batch_waits_for_one_piece_of_a_snapshot_and_no_longer(tmp_path: Path) -> None:
    async def scene() -> None:
        journal = Slow(tmp_path, "b1", "relaxed")
        node = Node(lambda: mobile_broker("b1", {}, BrokerConfig()), journal)

        def come(name: str) -> None:
            node.tell(Opened(name))
            node.tell(Heard(name, Attach(name)), NATIVE.encode(Attach(name)))

        def has_written(pieces: int) -> bool:
            return journal.noted().count("piece") >= pieces

        def has_appended(before: int) -> bool:
            return "batch" in journal.noted()[before:]

        come("c1")
        await node.quiet()
        saving = asyncio.create_task(node.save())
        for number in range(2, 6):
            await until(partial(has_written, 3 * number))
            before = len(journal.noted())
            come(f"c{number}")
            await until(partial(has_appended, before))
            assert journal.noted()[before:].index("batch") <= 2  # the piece that was under way, and one that was next
        await saving
        assert journal.noted().count("piece") >= 20
        await node.close()

    run(scene)
