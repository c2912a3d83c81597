"""`godwit serve` as people run it: real processes, told what to do by a file, variables, flags and signals."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from godwit.matching import kernel_cache
from godwit.runtime import NetworkClient, Subscription, connect
from tests.network.fleet import hasten
from tests.network.serving import ANY_PORT, PROGRAM, fails, free_address, serving
from tests.network.waiting import run
from tests.seeds import few

LIMIT_S = 300.0


async def reached(publisher: NetworkClient, wanted: Subscription) -> None:
    """Until what one publishes reaches the other: brokers may still be telling each other who wants what."""
    while not wanted.changed.is_set():
        publisher.publish({"n": 0})
        await publisher.drain()
    publisher.publish({"n": 1})
    async for event in wanted:
        if event.attributes["n"] == 1:
            return


def test_a_broker_serves_and_says_where(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*ANY_PORT, "--name", "here", folder=tmp_path, cold=True) as broker:
            assert broker.said["broker"] == "here"
            assert broker.said["durability"] == "relaxed"
            assert broker.said["journal"] == "godwit-data/here"
            async with connect(broker.native, name="ann") as ann, connect(broker.native, name="van") as van:
                wanted = await ann.subscribe("cost < 3")
                van.publish({"cost": 2})
                assert (await wanted.next()).attributes["cost"] == 2
            assert await broker.stop() == 0
            assert [line["event"] for line in broker.logged if line["event"] in ("stopping", "stopped")] == [
                "stopping",
                "stopped",
            ]

    run(scene())


@pytest.mark.skipif(not kernel_cache.COMPILED, reason="without Numba nothing is loaded later")
def test_a_broker_loads_numba_when_it_has_work_to_do_and_loses_nothing_meanwhile(tmp_path: Path) -> None:
    async def scene() -> None:
        settings = (*ANY_PORT, "--durability", "memory")
        async with serving(*settings, folder=tmp_path, environment={"GODWIT_NUMBA": ""}, cold=True) as broker:
            assert (await broker.log("matcher"))["kernels"].startswith("NumPy at first")
            async with connect(broker.native, name="ann") as ann:
                mine, number = await ann.subscribe("n >= 0"), 0
                loaded = asyncio.create_task(broker.log("matcher", kernels="compiled by Numba"))
                while not loaded.done():
                    ann.publish({"n": number})
                    assert (await mine.next()).attributes["n"] == number
                    number += 1
                await loaded
            assert await broker.stop() == 0

    run(scene())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_stops_a_broker_loses_nothing_and_clients_are_told(tmp_path: Path, number: int) -> None:
    async def scene() -> None:
        async with serving(*ANY_PORT, "--durability", "full", folder=tmp_path) as broker:
            async with connect(broker.native, name="ann") as ann, connect(broker.native, name="van") as van:
                wanted = await ann.subscribe("n >= 0")
                await ann.move(broker.native)  # it goes, and its session stays
                await ann.attached()
                van.publish({"n": 1})
                await van.drain()
                assert (await wanted.next()).attributes["n"] == 1
                assert await broker.stop(number) == 0
                while ann.machine.is_attached:
                    ann._changed.clear()
                    await ann._changed.wait()
            assert ann.machine.closed_because == "the broker stops"

    run(scene())


def test_a_broker_that_was_killed_or_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(serving(*ANY_PORT, folder=tmp_path))
            ann = await stack.enter_async_context(connect(broker.native, name="ann"))
            van = await stack.enter_async_context(connect(broker.native, name="van"))
            wanted = await ann.subscribe("n >= 0")
            for n, number in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
                van.publish({"n": n})
                await van.drain()
                await broker.stop(number)
                again = serving("--native", str(broker.native), *ANY_PORT[2:], folder=tmp_path)
                broker = await stack.enter_async_context(again)
                assert (await wanted.next()).attributes["n"] == n
            assert not any(receipt.session_lost for receipt in ann.receipts)
            assert await broker.stop() == 0

    run(scene())


def test_a_second_signal_while_it_stops_does_no_harm(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*ANY_PORT, folder=tmp_path) as broker:
            broker.process.send_signal(signal.SIGSTOP)  # so that both signals are there before it looks
            broker.process.send_signal(signal.SIGINT)
            broker.process.send_signal(signal.SIGTERM)
            broker.process.send_signal(signal.SIGCONT)
            assert await broker.stop(signal.SIGCONT) in (0, 130)

    run(scene())


def test_brokers_join_by_naming_their_neighbours(tmp_path: Path) -> None:
    """Two by flags and the environment, one by a file: events cross three brokers, and a client roams over them."""

    async def scene() -> None:
        async with serving(*ANY_PORT, "--name", "b1", "--neighbour", "b2", folder=tmp_path) as b1:
            (tmp_path / "b2.toml").write_text(
                f"[broker]\nname = 'b2'\n[listen]\nnative = '127.0.0.1:0'\nmqtt = ''\nhttp = ''\n"
                f"[neighbours]\nb1 = '{b1.native}'\nb3 = ''\n"
            )
            async with serving("b2.toml", folder=tmp_path) as b2:
                environment = {"GODWIT_BROKER__NAME": "b3", "GODWIT_NEIGHBOURS__b2": str(b2.native)}
                async with serving(*ANY_PORT, folder=tmp_path, environment=environment) as b3:
                    await b1.log("link up", peer="b2")
                    await b2.log("link up", peer="b3")
                    async with connect(b1.native, name="ann") as ann, connect(b3.native, name="van") as van:
                        wanted = await ann.subscribe("n >= 0")
                        await reached(van, wanted)
                        await ann.move(b3.native)
                        van.publish({"n": 2})
                        assert (await wanted.next()).attributes["n"] == 2
                    assert await b3.stop() == 0
                    await b2.log("link down", peer="b3")

    run(scene())


def test_a_neighbour_that_lost_its_memory_is_a_new_life(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*ANY_PORT, "--neighbour", "b2", folder=tmp_path) as b1:
            words = (*ANY_PORT, "--name", "b2", "--neighbour", f"b1={b1.native}", "--durability", "memory")
            for n in range(2):
                async with serving(*words, folder=tmp_path) as b2:
                    assert b2.said["journal"] is None
                    await b1.log("link up", peer="b2")
                    async with connect(b1.native, name=f"ann {n}") as ann, connect(b2.native, name=f"van {n}") as van:
                        await reached(van, await ann.subscribe("n >= 0"))
                    await b2.stop(signal.SIGKILL)

    run(scene())


# ---------------------------------------------------------------- what is in its way


def test_an_address_in_use_is_one_clear_line(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*ANY_PORT, folder=tmp_path) as broker:
            status, errors = await fails(
                *("serve", *ANY_PORT, "--name", "other", "--native", str(broker.native)), folder=tmp_path
            )
            assert status == 2
            assert errors.splitlines()[-1] == (
                f"error: --native: listen.native: {broker.native} is in use by another program; choose another port, "
                "or 0 for any"
            )

    run(scene())


def test_a_journal_in_use_is_one_clear_line(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*ANY_PORT, folder=tmp_path) as broker:
            status, errors = await fails("serve", *ANY_PORT, folder=tmp_path)
            assert (status, errors) == (
                2,
                f"error: godwit-data/b1 is in use by another broker (process {broker.process.pid})\n",
            )

    run(scene())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    status, errors = asyncio.run(fails("serve", *ANY_PORT, folder=tmp_path))
    tmp_path.chmod(0o700)
    assert (status, errors) == (2, "error: godwit-data/b1 cannot be written: Permission denied\n")


def test_a_folder_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "godwit-data").touch()
    status, errors = asyncio.run(fails("serve", *ANY_PORT, folder=tmp_path))
    assert (status, errors) == (2, "error: godwit-data/b1 cannot be written: Not a directory\n")


def test_a_journal_that_is_none_is_one_clear_line(tmp_path: Path) -> None:
    folder = tmp_path / "godwit-data" / "b1"
    folder.mkdir(parents=True)
    (folder / "journal.sqlite").write_bytes(b"no database" * 1_000)
    status, errors = asyncio.run(fails("serve", *ANY_PORT, folder=tmp_path))
    why = (
        "is not a journal, or its first page is damaged: its table about cannot be read (file is not a database); "
        "restore it from a copy, or start with an empty one"
    )
    assert (status, errors) == (
        2,
        f"error: godwit-data/b1/journal.sqlite {why}: set another journal.folder\n",
    )


def test_a_journal_that_has_lost_something_is_refused_until_the_loss_is_accepted(tmp_path: Path) -> None:
    async def scene() -> None:
        words = (*ANY_PORT, "--durability", "full")
        async with serving(*words, folder=tmp_path) as broker, connect(broker.native, name="ann") as ann:
            await ann.subscribe("n >= 0")
            for n in range(5):
                ann.publish({"n": n})
                await ann.drain()
            await broker.stop(signal.SIGKILL)
        folder = tmp_path / "godwit-data" / "b1"
        wal = folder / "journal.sqlite-wal"
        damaged = bytearray(wal.read_bytes())
        damaged[-5_000] ^= 1  # in one of the last batches: SQLite drops it, and what follows
        wal.write_bytes(damaged)
        status, errors = await fails("serve", *words, folder=tmp_path)
        assert status == 2
        assert errors.startswith("error: godwit-data/b1/journal.sqlite: batch")
        assert "missing at the end of the journal, written after 20" in errors
        assert "continue without the missing data with godwit serve --accept-loss" in errors
        assert wal.read_bytes() == damaged
        async with serving(*words, "--accept-loss", folder=tmp_path) as broker:
            loss = await broker.log("journal loss")
            assert "missing at the end of the journal" in loss["reason"]
            assert loss["batches"] >= 1
            async with connect(broker.native, name="bob") as bob:
                wanted = await bob.subscribe("n = 7")
                bob.publish({"n": 7})
                assert (await wanted.next()).attributes["n"] == 7
            assert await broker.stop() == 0
        (kept,) = folder.glob("lost-*")
        assert (kept / wal.name).read_bytes() == damaged
        async with serving(*words, folder=tmp_path) as broker:  # told once, and gone on without
            assert await broker.stop() == 0
            assert not [line for line in broker.logged if line["event"] == "journal loss"]

    run(scene())


def test_faults_of_the_configuration_are_told_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[broker]\nfamily = 'tre'\n")
    status, errors = asyncio.run(fails("serve", "bad.toml", "--durability", "no", folder=tmp_path, cold=True))
    assert status == 2
    assert errors.splitlines() == [
        "error: 2 faults in the configuration",
        "  bad.toml:2: broker.family is 'tre': allowed is 'tree', 'graph' (did you mean tree?)",
        "  --durability: journal.durability is 'no': allowed is 'memory', 'relaxed', 'full'",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_a_broker_takes_as_many_connections_as_it_says_whatever_it_was_started_with(tmp_path: Path) -> None:
    async def scene() -> None:
        native = free_address()
        words = ("serve", "--native", str(native), "--mqtt", "", "--http", "", "--durability", "memory")
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh", *PROGRAM, *words, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(connect(native)) for _ in range(80)]
                await asyncio.gather(*(client.attached() for client in clients))
        finally:
            process.kill()
            await process.communicate()

    run(scene())


@pytest.mark.parametrize("streams", few(["<&- >&- 2>&-", "2>/dev/full", ">/dev/full", ">&-"], 2))
def test_a_broker_whose_words_nobody_hears_serves_on(tmp_path: Path, streams: str) -> None:
    async def scene() -> None:
        native = free_address()
        words = ("serve", "--native", str(native), "--mqtt", "", "--http", "", "--durability", "memory")
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", f'exec "$@" {streams}', "sh", *PROGRAM, *words, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            async with connect(native, name="ann") as ann:
                await ann.subscribe("n >= 0")
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()

    run(scene())
