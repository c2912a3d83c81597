"""A broker whose disk is full, read-only, torn or rotten says so, takes nothing in, and keeps what it acknowledged."""

import asyncio
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.effects import Effect, Input, Opened, StartTimer, TimerDue
from godwit.broker.reductions import NothingState
from godwit.codec import unpack
from godwit.errors import JournalError
from godwit.runtime import Journal, Node, connect
from godwit.runtime import node as node_module
from godwit.runtime.journal import FILE
from godwit.runtime.network_client import NetworkClient
from tests.network.fleet import Book, Fleet, fleet, hasten
from tests.network.mortal import Mortal, nursery
from tests.network.waiting import run, until

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
ONE = [("b0", "b1")]


async def come(stack: AsyncExitStack, broker: Mortal, book: Book) -> tuple[NetworkClient, NetworkClient]:
    """A publisher and a subscriber at the broker."""
    p = await stack.enter_async_context(connect(broker.address, name="p"))
    s = await stack.enter_async_context(connect(broker.address, name="s"))
    await book.listen(s, "n >= -1")
    book.settled()
    return p, s


def fill(broker: Mortal) -> None:
    """Let the broker's disk be full: no file of it may grow, and a new one has no room for a snapshot."""
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_full_disk(tmp_path: Path, is_killed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            book = Book()
            broker = Mortal(await stack.enter_async_context(nursery()), tmp_path, "full")
            await broker.start()
            stack.push_async_callback(broker.kill)
            p, s = await come(stack, broker, book)
            for n in range(50):
                book.publish(p, {"n": n})
            await p.drain()
            fill(broker)
            for n in range(50, 100):
                book.publish(p, {"n": n})
            said = await broker.line("that its disk is full")
            assert said.startswith("trouble: ")
            assert FILE in said
            assert p.machine.unanswered()
            stranger = await stack.enter_async_context(connect(broker.address, name="x"))
            if is_killed:
                await broker.kill()
                await broker.start()
            else:
                resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, UNLIMITED)
                assert await broker.line("that it goes on") == "relief"
            await book.finished([p], 1)
            book.check()
            await stranger.attached()
            assert not any(receipt.session_lost for receipt in s.receipts)
            await book.close()

    run(scene)


def test_nothing_is_acknowledged_or_delivered_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            book = Book()
            broker = Mortal(await stack.enter_async_context(nursery()), tmp_path, "relaxed")
            await broker.start()
            stack.push_async_callback(broker.kill)
            p, _ = await come(stack, broker, book)
            await p.drain()
            fill(broker)
            for n in range(10):
                book.publish(p, {"n": n})
            await broker.line("that its disk is full")
            before = book.count("s")
            stranger = await stack.enter_async_context(connect(broker.address, name="x"))
            await until(lambda: stranger.machine.connection is not None, "another client has said that it is there")
            assert not stranger.machine.is_attached
            assert len(p.machine.unanswered()) == 10
            assert book.count("s") == before == 0
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, UNLIMITED)
            await book.finished([p], 1)
            book.check()
            await stranger.attached()
            await book.close()

    run(scene)


async def people(every: Fleet) -> tuple[NetworkClient, NetworkClient]:
    s = await every.come("s", "b0")
    await every.book.listen(s, "n >= -1")
    p = await every.come("p", "b1")
    await every.settled()
    return p, s


def read_only(number: int, data: bytes) -> None:
    raise JournalError("attempt to write a readonly database")


def test_a_disk_that_is_read_only_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    monkeypatch.setattr(node_module, "RETRY_S", 0.05)

    async def scene() -> None:
        async with fleet(ONE, tmp_path) as every:
            p, s = await people(every)
            station, book = every.stations["b0"], every.book
            await station.node.quiet()
            journal = station.node.journal
            assert isinstance(journal, Journal)
            disk, snapshot = journal._disk, journal.snapshot
            disk.execute("PRAGMA query_only = 1")
            monkeypatch.setattr(journal, "snapshot", read_only)  # which is another file
            for n in range(200):
                book.publish(p, {"n": n})
            await until(lambda: station.troubles != [], "the broker says that it cannot write")
            assert "readonly" in station.troubles[0]
            assert station.node.trouble
            await p.drain()  # the other broker goes on
            assert book.count("s") == 0
            disk.execute("PRAGMA query_only = 0")
            monkeypatch.setattr(journal, "snapshot", snapshot)
            await book.finished([p], 1)
            book.check()
            assert not station.node.trouble
            assert not any(receipt.session_lost for receipt in s.receipts)

    run(scene)


def test_a_broker_stops_though_its_disk_fails(tmp_path: Path) -> None:
    async def scene() -> None:
        async with fleet(ONE, tmp_path) as every:
            p, _ = await people(every)
            station = every.stations["b0"]
            await station.node.quiet()
            station.node.journal._disk.execute("PRAGMA query_only = 1")  # type: ignore[union-attr]
            every.book.publish(p, {"n": 1})
            await station.stop()  # before it knows
            await p.drain()

    run(scene)


def test_a_snapshot_that_fails_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    monkeypatch.setattr(node_module, "SNAPSHOT_BYTES", 2_000)

    def fails(journal: Journal, number: int, data: bytes) -> Iterator[None]:
        yield
        raise JournalError("there is no room")

    async def scene() -> None:
        async with fleet(ONE, tmp_path) as every:
            p, s = await people(every)
            book = every.book
            with monkeypatch.context() as planted:
                planted.setattr(Journal, "snapshot_steps", fails)
                for n in range(300):
                    book.publish(p, {"n": n})
                    if n % 20 == 0:
                        await p.drain()
                await p.drain()
                station = every.stations["b0"]
                await until(lambda: station.troubles != [], "the broker says that it has no snapshot")
                assert "snapshot" in station.troubles[0]
                await station.stop()
            await station.start()
            for n in range(300, 400):
                book.publish(p, {"n": n})
            await book.finished([p], 1)
            book.check()
            assert not any(receipt.session_lost for receipt in s.receipts)

    run(scene)


class Alarmed:
    """A machine that wants to be woken when somebody comes."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        return [StartTimer(("wake",), now + 3_600)] if isinstance(input, Opened) else []

    def snapshot(self) -> NothingState:
        return NothingState()

    def restore(self, state: NothingState) -> None:
        pass


def test_a_timer_that_is_due_while_a_snapshot_is_written_is_not_forgotten(tmp_path: Path) -> None:
    async def scene() -> None:
        node = Node(Alarmed, journal := Journal(tmp_path, "b1", "relaxed"))
        node.tell(Opened("c"))
        await node.quiet()
        node._timers.forget(("wake",))
        node.tell(TimerDue(("wake",)))
        node._snapshot()
        await until(lambda: not node._is_saving, "the snapshot is written")
        snapshot = journal.last_snapshot()
        assert snapshot is not None
        assert ("wake",) in unpack(snapshot[1], Alarmed()).timers
        await node.close()

    run(scene)


# ---------------------------------------------------------------- files that are not as they were


async def written(folder: Path) -> None:
    """A journal with a few batches in it, as a broker that was killed leaves it."""
    async with AsyncExitStack() as stack:
        book = Book()
        broker = Mortal(await stack.enter_async_context(nursery()), folder, "full", snapshot_bytes=2_000)
        await broker.start()
        p, _ = await come(stack, broker, book)
        for n in range(100):
            book.publish(p, {"n": n, "text": "x" * 200})
            if n % 5 == 0:
                await p.drain()
        await p.drain()
        await broker.kill()
        await book.close()
    Journal(folder / "b1", "b1").close()  # what was in the write-ahead file is in the other now


def opened(folder: Path) -> list[Any]:
    """All that a broker reads of its journal when it starts."""
    journal = Journal(folder / "b1", "b1")
    try:
        snapshot = journal.last_snapshot()
        return [snapshot, *journal.batches(0 if snapshot is None else snapshot[0])]
    finally:
        journal.close()


@pytest.fixture(scope="module")
def journal_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    for _ in range(10):
        folder = tmp_path_factory.mktemp("written")
        asyncio.run(asyncio.wait_for(written(folder), 100))
        if len(opened(folder)) > 1:  # not if it was killed just when it had written a snapshot
            return (folder / "b1" / FILE).read_bytes()
    raise AssertionError("no broker has left batches behind its snapshot")


def damaged(folder: Path, data: bytes) -> Path:
    (folder / "b1").mkdir()
    file = folder / "b1" / FILE
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_torn_file_is_refused_and_left_as_it_is(tmp_path: Path, journal_file: bytes, share: float) -> None:
    torn = journal_file[: int(len(journal_file) * share)]
    file = damaged(tmp_path, torn)
    with pytest.raises(JournalError, match=FILE):
        opened(tmp_path)
    assert file.read_bytes()[: len(torn)][100:] == torn[100:]  # the first 100 bytes are the database's own counters


def test_a_file_that_is_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = damaged(tmp_path, b"not a journal\n" * 100)
    with pytest.raises(JournalError, match=FILE):
        opened(tmp_path)
    assert file.read_bytes() == b"not a journal\n" * 100


def test_a_rotten_batch_is_noticed(tmp_path: Path, journal_file: bytes) -> None:
    file = damaged(tmp_path, journal_file)
    with closing(sqlite3.connect(file, isolation_level=None)) as disk:
        number, data = disk.execute("SELECT number, data FROM batches ORDER BY number DESC LIMIT 1").fetchone()
        at = len(data) // 2  # whatever it holds: the last batch may be of an event, or of confirmations only
        rotten = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        disk.execute("UPDATE batches SET data = ? WHERE number = ?", (rotten, number))
    with pytest.raises(JournalError, match="is not as it was written"):
        opened(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "b1", Path("/proc/godwit")):
        with pytest.raises(JournalError, match="cannot be written"):
            Journal(folder, "b1")
