"""`godwit sub --log` and `godwit pub --log`: killed at any moment, each event is there once."""

import asyncio
import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random
from time import time
from typing import Any

import pytest
from click.testing import CliRunner

from godwit.cli import event_logs
from godwit.cli.event_logs import LogCapture
from godwit.cli.main import app
from godwit.event_log import EventLog, Retention, lines_from, segments
from godwit.filters.events import Event
from godwit.runtime import Address, connect
from tests.network import warm
from tests.network.cli_broker import godwit
from tests.network.mortal import Mortal, nursery
from tests.network.test_native import start
from tests.network.waiting import a_turn, run, until

LIMIT_S = 300.0
EVENTS = 40  # in a round


def held(folder: Path) -> list[int]:
    """The events in a log, by their number `n`."""
    if not (folder / "_log.json").exists():
        return []
    return [json.loads(line)["attributes"]["n"] for line, _ in lines_from(folder)]


# ---------------------------------------------------------------- into a log, with real processes


async def captured(folder: Path, rounds: int, seed: int) -> None:
    rng, log, n, zeros = Random(seed), folder / "log", 0, 0
    async with nursery() as place:
        broker = Mortal(place, folder, "relaxed")
        address = await broker.start()
        words = ("sub", "n IS NOT NULL", "--log", str(log), "--broker", str(address))
        capture = await warm.start(*words, folder=folder, environment={})
        try:
            async with connect(address, name="p") as p:
                while not held(log):  # until somebody listens, nothing is kept
                    zeros += 1
                    await p.publish({"n": -zeros})
                for _ in range(rounds):
                    dies, broker_dies = rng.randrange(EVENTS), rng.randrange(2 * EVENTS)
                    for k in range(EVENTS):
                        n += 1
                        p.publish({"n": n})
                        if k == dies:
                            capture.kill()
                            await capture.wait()
                            capture = await warm.start(*words, folder=folder, environment={})
                        if k == broker_dies:
                            await broker.kill()
                            await broker.start()
                        if rng.random() < 0.3:
                            await p.drain()
                await p.drain()
            capture.kill()
            await capture.wait()
            expected = [*range(held(log)[0], -zeros - 1, -1), *range(1, n + 1)]
            if missing := len(expected) - len(held(log)):  # a command that ends by itself when it has written them
                capture = await warm.start(*words, "--count", str(missing), folder=folder, environment={})
                assert await capture.wait() == 0
        finally:
            capture.kill()
            await capture.wait()
            await broker.kill()
    assert held(log) == expected


def test_a_capture_that_is_killed_and_a_broker_that_is_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    run(captured(tmp_path, rounds=3, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 5))
def test_twenty_rounds_of_that(tmp_path: Path, seed: int) -> None:
    run(captured(tmp_path, rounds=20, seed=seed))


def test_a_session_that_brokers_have_forgotten_is_said_whenever_that_is(tmp_path: Path) -> None:
    async def scene() -> None:
        async with nursery() as place:
            broker = Mortal(place, tmp_path, "memory")
            address = await broker.start()
            words = ("sub", "n >= 0", "--log", str(tmp_path / "log"), "--broker", str(address))
            capture = await warm.start(*words, folder=tmp_path, environment={})
            async with connect(address, name="p") as p:
                while not held(tmp_path / "log"):
                    await p.publish({"n": 0})
                await broker.kill()
                await broker.start()
                warned = (await capture.stderr.readline()).decode()
            capture.kill()
            await capture.wait()
            await broker.kill()
        assert "any more: what was published since is not in the log" in warned

    run(scene())


def test_what_is_too_old_goes_while_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_logs, "TIDY_EVERY_S", 0.0)
    later = [0.0]
    log = EventLog(tmp_path, keep=Retention(seconds=60.0), now=lambda: time() + later[0])
    log.append([Event({"n": 1}, "p", 1)])

    class Silent:
        async def waiting(self, _: int) -> list[Event]:
            later[0] = 3_600.0
            await until(lambda: segments(tmp_path) == [2])
            return []

    silent: Any = Silent()
    run(LogCapture(log, is_known=True).take_all(silent, silent, None))
    log.close()
    assert held(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sub", "--keep-days", "3"], "--keep-bytes and --keep-days need --log"),
        (["sub", "--log", "x", "--keep-bytes", "7"], "1048576"),
        (["sub", "--log", "x", "--keep-days", "0"], "--keep-days is 0: it must be 0.01 to 36500"),
        (["pub", "a=1", "--skip-removed"], "--skip-removed needs --log"),
    ],
)
def test_what_cannot_be_kept_is_said(words: list[str], said: str) -> None:
    ran = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert ran.exit_code == 2
    assert said in ran.output


# ---------------------------------------------------------------- the same, with every moment chosen and faults planted


class Killed(BaseException):
    """The process has ended here."""


class MortalLog(EventLog):
    """A log whose process is killed before, within or after its next write."""

    dies = ""

    def append(self, events: Iterable[Event]) -> list[Event]:
        if self.dies == "before":
            raise Killed
        written = super().append(events)
        if self.dies == "within":
            with (self.folder / "00000001.jsonl").open("r+b") as file:
                file.truncate(self._bytes - 3)
        if self.dies:
            raise Killed
        return written


class Lazy(MortalLog):
    """A planted fault: it says of events that they are on the disk, and writes them ten at a time."""

    unwritten: tuple[Event, ...] = ()

    def append(self, events: Iterable[Event]) -> list[Event]:
        self.unwritten += tuple(events)
        if len(self.unwritten) >= 10 or self.dies:
            unwritten, self.unwritten = self.unwritten, ()
            return super().append(unwritten)
        return list(self.unwritten)


class Forgetful(MortalLog):
    """A planted fault: it does not know what it has."""

    def append(self, events: Iterable[Event]) -> list[Event]:
        self._seen = type(self._seen)()
        return super().append(events)


async def life(make: type[MortalLog], folder: Path, address: Address, dies: str, count: int) -> None:
    """One life of a capture: it takes so many events, and dies with the next one."""
    log = make(folder)
    log.name = "cap"
    client = connect(address, name="cap", mode="named", confirm="read")
    async with connect(address, name="p") as p:
        await client.__aenter__()
        subscription = await client.subscribe("n >= 0", name="sub")
        for n in range(count):
            p.publish({"n": n + p_count(folder)})
        await p.drain()
        capture = LogCapture(log, is_known=True)
        taking = asyncio.create_task(capture.take_all(client, subscription, None))
        await until(lambda: not len(subscription))
        await client.drain()
        log.dies = dies
        p.publish({"n": count + p_count(folder)})
        await p.drain()
        if dies:
            with pytest.raises(Killed):
                await taking
            if client.connection.wire is not None:
                client._unsent.clear()
                client.inbox.confirms_read = False
                client.connection.wire.abort()
        else:
            await until(lambda: not len(subscription))
            taking.cancel()
        await client.close()
        log.close()
    (folder / "published").write_text(str(p_count(folder) + count + 1))


def p_count(folder: Path) -> int:
    file = folder / "published"
    return int(file.read_text()) if file.exists() else 0


async def lives(make: type[MortalLog], folder: Path) -> None:
    broker = await start("b1", {}, folder)
    log = folder / "log"
    try:
        for dies in ("after", "before", "within", "after", ""):
            await life(make, log, broker.address, dies, 3)
    finally:
        await broker.stop()
    assert held(log) == list(range(p_count(log)))


def test_whenever_it_dies_each_event_is_in_the_log_once(tmp_path: Path) -> None:
    run(lives(MortalLog, tmp_path))


@pytest.mark.parametrize("make", [Lazy, Forgetful])
def test_a_log_that_is_lazy_or_forgetful_is_caught(tmp_path: Path, make: type[MortalLog]) -> None:
    with pytest.raises(AssertionError):
        run(lives(make, tmp_path))


@pytest.mark.parametrize("mode", ["named", "relocate"])
def test_what_was_not_read_comes_again_though_the_connection_was_lost_before_the_process(mode: str) -> None:
    async def scene() -> None:
        broker = await start("b1", {})
        p, reader = connect(broker.address, name="p"), connect(broker.address, name="r", mode=mode, confirm="read")
        async with p, reader:
            subscription = await reader.subscribe("n >= 0", name="sub")
            for n in range(5):
                p.publish({"n": n})
            await p.drain()
            await until(lambda: len(subscription) == 5)
            subscription.take(2)
            await a_turn()
            assert reader.connection.wire is not None
            reader.connection.wire.abort()
            await until(lambda: reader.state.kind == "away")
            await reader.attached()
            subscription.take(1)
            p.publish({"n": 5})
            await p.drain()
            await until(lambda: len(subscription) == 3)
            assert reader.machine.duplicates == 3
        async with connect(broker.address, name="r", mode=mode, confirm="read") as again:
            subscription = await again.subscribe("n >= 0", name="sub")
            events = [await subscription.next() for _ in range(3)]
        assert [event.attributes["n"] for event in events] == [3, 4, 5]
        await broker.stop()

    run(scene())


# ---------------------------------------------------------------- out of a log


def filled(folder: Path, count: int, publisher: str = "p") -> Path:
    log = EventLog(folder, segment_bytes=5_000)
    for n in range(count):
        log.append([Event({"n": n}, publisher, n + 1, b"x", "text/plain", 1.0)])
    log.close()
    return folder


async def published(folder: Path, count: int, seed: int, *, forgets: bool = False) -> None:
    """Publish a log with kills in between, of the command and of the broker."""
    rng, log = Random(seed), filled(folder / "log", count)
    async with nursery() as place:
        broker = Mortal(place, folder, "relaxed")
        address = await broker.start()
        words = ("pub", "--log", str(log), "--name", "archive", "--broker", str(address))
        async with connect(address, name="s") as s:
            subscription = await s.subscribe("n >= 0")
            for _ in range(3):
                command = await warm.start(*words, folder=folder, environment={})
                for _ in range(rng.randrange(1, 200)):
                    await command.stdout.readline()
                command.kill()
                await command.wait()
                if forgets:
                    (log / "_published.json").unlink()
            await broker.kill()
            await broker.start()
            command = await warm.start(*words, folder=folder, environment={})
            _, errors = await command.communicate()
            assert command.returncode == 0, errors
            came = [await subscription.next(30) for _ in range(count)]
            await s.drain()
            assert [event.attributes["n"] for event in came] == list(range(count))
            async with connect(address, name="last") as last:
                await last.publish({"n": count})
            assert (await subscription.next(30)).attributes["n"] == count
        await broker.kill()
    assert {event.publisher for event in came} == {"archive"}
    assert all(b.sequence == a.sequence + 1 for a, b in pairwise(came))


def test_a_log_is_published_once_though_the_command_and_the_broker_are_killed(tmp_path: Path) -> None:
    run(published(tmp_path, 1_500, seed=1))


def test_a_publisher_that_forgets_its_numbers_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run(published(tmp_path, 1_500, seed=1, forgets=True))


def test_events_under_their_own_name_keep_their_numbers(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await start("b1", {})
        log = filled(tmp_path / "log", 3, "cab")
        async with connect(broker.address, name="s") as s:
            subscription = await s.subscribe("n >= 0")
            command = await warm.start(
                *("pub", "--log", str(log), "--name", "cab", "--broker", str(broker.address)),
                folder=tmp_path,
                environment={},
            )
            printed, _ = await command.communicate()
            came = [await subscription.next(30) for _ in range(3)]
        assert [(event.publisher, event.sequence, event.payload) for event in came] == [
            ("cab", n, b"x") for n in (1, 2, 3)
        ]
        assert printed.decode().splitlines()[0] == '{"event": "cab:1"}'
        await broker.stop()

    run(scene())


def test_who_publishes_a_log_ends_with_its_input_and_another_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await start("b1", {})
        log = filled(tmp_path / "log", 3, "cab")
        words = ("pub", "--log", str(log), "--name", "cab", "--broker", str(broker.address))
        async with connect(broker.address, name="s") as s:
            subscription = await s.subscribe("n >= 0")
            ended = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "godwit", *words, "--until-eof"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            _, errors = await ended.communicate()
            assert b"standard input has ended, and not all events are published" in errors
            command = await warm.start(*words, folder=tmp_path, environment={})
            await command.communicate()
            came = [await subscription.next(30) for _ in range(3)]
        assert [event.sequence for event in came] == [1, 2, 3]
        await broker.stop()

    run(scene())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pub", "--until-eof", "n=1"], "--until-eof needs --log"),
        (["sub", "--log", "LOG", "--retained"], "--retained cannot be used with --log"),
        (["pub", "--log", "LOG", "n=1"], "use only one of"),
        (["pub", "--log", "LOG", "--expires", "3"], "cannot be used with --log"),
        (["pub", "--log", "nowhere"], "nowhere is not an event log"),
        (["pub", "--log", "LOG", "--name", "b"], "is published as 'a' already"),
        (["sub", "--log", "LOG", "--name", "b"], "is the log of client 'c'"),
    ],
)
def test_what_does_not_go_together_is_said(words: list[str], said: str, tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 1)
    (log / "_log.json").write_text('{"format": 1, "name": "c"}')
    state = {"publisher": "a", "first": 1, "keeps": False, "events": 0, "segment": 1, "bytes": 0}
    (log / "_published.json").write_text(json.dumps(state))
    ran = godwit(*[str(log) if word == "LOG" else word for word in words])
    assert ran.exit_code == 2
    assert said in " ".join(ran.stderr.replace("│", " ").split())
