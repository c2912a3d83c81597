"""A node: what it lets its machine hear."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Heard, Opened, Restarted, StartTimer, TimerDue, Trace
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Received, Request, SetSessionExpiry
from godwit.broker.reductions import NothingState
from godwit.codec.journal_entries import ENTRIES, JournalEntry
from godwit.codec.snapshots import unpack_parts
from godwit.errors import JournalError
from godwit.mobility import mobile_broker
from godwit.runtime.clock import SystemClock
from godwit.runtime.journal import Journal
from godwit.runtime.node import Node
from godwit.runtime.urgency import BACKLOG_REST_S
from godwit.runtime.wire import NATIVE
from godwit.testing.virtual_clock import VirtualClock, VirtualTimer
from godwit.trace import Record
from tests.network.waiting import a_turn, run, until


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
    steps = Steps()
    monkeypatch.setattr(SystemClock, "work", lambda clock: steps())

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


class Echo(Turns):
    """Records what it hears; its recorder writes a change for `write`, and nothing for others."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def handle(self, input: Any, now: float) -> list[Any]:
        self.heard.append(input.connection)
        return [Trace(Record("heard", input.connection))]


class SlowDisk(Executor):
    """Does nothing until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.waiting.append(lambda: done.set_result(fn(*args, **kwargs)))
        return done

    def work(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


def test_a_request_behind_a_confirmation_is_one_that_a_client_waits_for(tmp_path: Path) -> None:
    async def scene() -> None:
        disk, found = SlowDisk(), list[bool]()
        node = Node(Turns, Journal(tmp_path, "b1", "relaxed"), writer=disk)

        async def settled() -> None:
            while not node.is_quiet:
                disk.work()
                await a_turn()

        for message in (Received(1), Received(2), Request(1, SetSessionExpiry(1.0))):
            node.tell(Heard("ann", message), NATIVE.encode(message))
        await a_turn()
        found.append(node.urgency.is_on)
        await settled()
        for number in range(3, 9):
            node.tell(Heard("ann", Received(number)), NATIVE.encode(Received(number)))
        await a_turn()
        found.append(node.urgency.is_on)
        await settled()
        assert found == [True, False]
        await node.close()

    asyncio.run(scene())


def test_a_backlog_has_one_share_after_each_rest_while_somebody_waits_who_asks_for_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps()
    monkeypatch.setattr(VirtualClock, "work", lambda clock: steps())

    async def scene() -> None:
        seen, disk, clock = Turns(), SlowDisk(), VirtualClock()
        node = Node(lambda: seen, Journal(tmp_path, "b1", "relaxed"), writer=disk, clock=clock)
        node.watch = seen
        asked = Request(1, SetSessionExpiry(1.0))

        def ask(connection: str) -> None:
            node.tell(Heard(connection, asked), NATIVE.encode(asked))

        async def handled(turns: int = 10) -> list[str]:
            before = len(seen.turns)
            for _ in range(turns):
                await a_turn()
            return [connection for turn in seen.turns[before:] for connection in turn]

        for _ in range(400):
            ask("busy")
        assert len(await handled()) > 20  # while the disk writes the first batch
        ask("ann")
        found = await handled()
        assert found.count("ann") == 1
        assert found.count("busy") <= 3  # in all of these turns
        ask("bob")
        assert await handled() == ["bob"]  # who waits for the same batch
        for _ in range(3):  # the disk takes long
            before = node.unhandled
            clock.move(clock.time() + BACKLOG_REST_S)
            await handled()
            assert 1 <= before - node.unhandled <= 3
        disk.work()
        assert len(await handled()) > 10  # for the next batch: the one of Ann is being written
        assert node.urgency.is_written
        while not node.is_quiet:
            disk.work()
            await a_turn()
        assert not node.urgency.is_on
        assert sum(map(len, seen.turns)) == 402
        await node.close()

    asyncio.run(scene())


def test_a_client_that_asks_again_does_not_wait_behind_all_that_have_a_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not forgotten since its last request: its place is behind theirs."""
    steps = Steps()
    monkeypatch.setattr(VirtualClock, "work", lambda clock: steps())

    async def scene() -> None:
        seen, disk = Turns(), SlowDisk()
        node = Node(lambda: seen, Journal(tmp_path, "b1", "relaxed"), writer=disk, clock=VirtualClock())
        node.watch = seen
        asked = Request(1, SetSessionExpiry(1.0))
        for number in range(50 * 20):
            node.tell(Heard(f"busy{number % 50}", asked), NATIVE.encode(asked))
        node.tell(Heard("ann", asked), NATIVE.encode(asked))
        await until(lambda: any("ann" in turn for turn in seen.turns))
        seen.turns.clear()
        node.tell(Heard("ann", asked), NATIVE.encode(asked))
        await a_turn()
        await a_turn()
        assert "ann" in [connection for turn in seen.turns for connection in turn]
        while not node.is_quiet:
            disk.work()
            await a_turn()
        await node.close()

    run(scene)


def test_nobody_waits_when_there_was_nothing_to_write(tmp_path: Path) -> None:
    async def scene() -> None:
        node = Node(Echo, Journal(tmp_path, "b1", "relaxed"), recorder=Recorder())
        node.tell(Heard("ann", Request(1, SetSessionExpiry(1.0))))
        await node.quiet()
        assert not node.urgency.is_on
        await node.close()

    asyncio.run(scene())


def test_nobody_waits_when_nothing_was_left_to_write_behind_a_batch(tmp_path: Path) -> None:
    async def scene() -> None:
        recorder, disk = Recorder(), SlowDisk()
        node = Node(Turns, Journal(tmp_path, "b1", "relaxed"), writer=disk, recorder=recorder)
        recorder.new = ["a"]
        node.tell(Opened("a"))
        await a_turn()
        node.tell(Heard("ann", Request(1, SetSessionExpiry(1.0))))
        await a_turn()
        found = [node.urgency.is_on]
        disk.work()
        await node.quiet()
        found.append(node.urgency.is_on)
        assert found == [True, False]
        await node.close()

    asyncio.run(scene())


def test_nobody_waits_when_a_snapshot_was_written_in_place_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(journal: Journal, data: bytes) -> int:
        raise JournalError("full")

    async def scene() -> None:
        node = Node(Turns, Journal(tmp_path, "b1", "relaxed"))
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", full)
            asked = Request(1, SetSessionExpiry(1.0))
            node.tell(Heard("ann", asked), NATIVE.encode(asked))
            await node.quiet()
        assert not node.urgency.is_on
        await node.close()

    asyncio.run(scene())


class Recorder:
    """Writes down who wrote, and nothing else."""

    def __init__(self) -> None:
        self.new: list[str] = []

    def of_turn(self, now: float) -> list[JournalEntry]:
        found, self.new = [JournalEntry(now, "wrote", name, b"") for name in self.new], []
        return found

    def read(self, batch: bytes) -> Iterator[tuple[Any, float]]:
        for entry in ENTRIES.decode(batch):
            yield Opened(entry.name), entry.at


def test_what_a_recorder_says_is_written_and_read_and_other_effects_leave_too(tmp_path: Path) -> None:
    """Also those of a turn in which nothing is to be written, while the disk works on the turn before."""
    told: list[str] = []

    async def scene() -> None:
        recorder, disk = Recorder(), SlowDisk()
        node = Node(
            Echo,
            Journal(tmp_path, "b1", "relaxed"),
            on_record=lambda record, now: told.append(record.peer),
            writer=disk,
            recorder=recorder,
        )
        recorder.new = ["a"]
        node.tell(Opened("a"))
        await a_turn()
        node.tell(Opened("b"))
        await a_turn()
        assert told == []
        disk.work()
        async with asyncio.timeout(60):
            await node.quiet()
        assert told == ["a", "b"]
        await node.close()
        again = Node(Echo, Journal(tmp_path, "b1", "relaxed"), recorder=Recorder())
        assert isinstance(again.machine, Echo)
        assert again.machine.heard == ["a"]
        await again.close()

    asyncio.run(scene())


class Faulty(Echo):
    """Raises an exception when it hears `bad`; starts a timer of the name of what else it hears."""

    def handle(self, input: Any, now: float) -> list[Any]:
        if input == Opened("bad"):
            raise ValueError("a bug")
        return [StartTimer((input.connection,), now + 3600.0), *super().handle(input, now)]


class TurnRecorder(Recorder):
    """Records which turns it was asked about, by what the machine had heard then."""

    def __init__(self) -> None:
        super().__init__()
        self.node: Node | None = None
        self.asked: list[list[str]] = []

    def of_turn(self, now: float) -> list[JournalEntry]:
        assert self.node is not None
        assert isinstance(self.node.machine, Echo)
        self.asked.append(list(self.node.machine.heard))
        return super().of_turn(now)

    def read(self, batch: bytes) -> Iterator[tuple[Any, float]]:
        for entry in ENTRIES.decode(batch):
            yield Closed(entry.name), entry.at  # nothing is open because of it


def recorded(folder: Path, told: list[str], writer: Executor | None = None) -> tuple[Node, TurnRecorder]:
    """A node whose machine may fail, and its recorder; `told`: the effects that leave."""
    recorder = TurnRecorder()
    recorder.node = Node(
        Faulty,
        Journal(folder, "b1", "relaxed"),
        on_record=lambda record, now: told.append(record.peer),
        writer=writer,
        recorder=recorder,
    )
    return recorder.node, recorder


def test_a_recorder_is_not_asked_about_a_machine_that_a_fault_has_replaced(tmp_path: Path) -> None:
    """The new machine does not hold anything yet: all that the journal has would be taken for gone."""
    told: list[str] = []

    async def scene() -> None:
        node, recorder = recorded(tmp_path, told)
        for name in ("a", "bad"):
            node.tell(Opened(name))
        async with asyncio.timeout(60):
            await node.quiet()
        assert recorder.asked == []
        node.tell(Opened("b"))
        async with asyncio.timeout(60):
            await node.quiet()
        assert recorder.asked == [["b"]]
        await node.close()

    asyncio.run(scene())
    assert told == ["b"]


class TellingPort:
    """A connection whose end is told when it is closed."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def send(self, message: Any) -> None: ...

    def flush(self) -> None: ...

    def close(self, reason: str) -> None:
        self._node.tell(Closed("x"))


def test_a_recorder_is_not_asked_about_a_turn_whose_inputs_a_restart_has_dropped(tmp_path: Path) -> None:
    async def scene() -> None:
        disk = SlowDisk()
        node, recorder = recorded(tmp_path, [], disk)
        node.ports["x"] = TellingPort(node)
        recorder.new = ["a"]
        node.tell(Opened("a"))
        await a_turn()
        node.tell(Opened("bad"))
        await a_turn()
        assert node.is_held  # until the disk has the first turn
        disk.work()
        async with asyncio.timeout(60):
            await node.quiet()
        node.tell(Opened("b"))
        async with asyncio.timeout(60):
            await node.quiet()
        assert recorder.asked == [["a"], ["a", "b"]]
        await node.close()

    asyncio.run(scene())


def test_no_effects_of_a_turn_with_a_fault_leave_while_a_snapshot_is_written(tmp_path: Path) -> None:
    told: list[str] = []

    async def scene() -> None:
        disk = SlowDisk()
        node, recorder = recorded(tmp_path, told, disk)
        recorder.new = ["a"]
        node.tell(Opened("a"))
        await a_turn()
        disk.work()
        await node.quiet()
        saving = asyncio.create_task(node.save())
        await a_turn()
        assert disk.waiting  # the snapshot
        for name in ("b", "bad"):
            node.tell(Opened(name))
        await a_turn()
        assert told == ["a"]
        while not saving.done():
            disk.work()
            await a_turn()
        assert told == ["a"]
        await node.close()

    asyncio.run(scene())


def test_timers_and_connections_of_a_life_before_are_not_restored_with_a_recorder(tmp_path: Path) -> None:
    async def life(name: str) -> tuple[list[str], Any]:
        node, recorder = recorded(tmp_path, [])
        async with asyncio.timeout(60):
            await node.quiet()
        assert isinstance(node.machine, Echo)
        heard = list(node.machine.heard)
        recorder.new = ["c"]
        node.tell(Opened(name))
        await node.quiet()
        await node.save()
        assert node.journal is not None
        snapshot = node.journal.last_snapshot()
        assert snapshot is not None
        await node.close()
        return heard, unpack_parts(snapshot[1])["driver"].timers

    assert asyncio.run(life("first"))[1].keys() == {("first",)}
    assert asyncio.run(life("second"))[0] == []
    assert asyncio.run(life("third"))[1].keys() == {("third",)}


def test_a_node_is_not_quiet_after_a_turn_that_leaves_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nothing of that turn is to be written."""
    steps = Steps()
    monkeypatch.setattr(SystemClock, "work", lambda clock: steps())

    async def scene() -> None:
        recorder = Recorder()
        node = Node(Echo, Journal(tmp_path, "b1", "relaxed"), recorder=recorder)
        for number in range(100):
            node.tell(Opened(f"c{number}"))
        await a_turn()
        assert node.unhandled
        assert not node.is_quiet
        recorder.new = ["a"]
        async with asyncio.timeout(60):
            await node.quiet()
        assert node.unhandled == 0
        assert node.journal is not None
        assert node.journal.number == 1
        await node.close()

    asyncio.run(scene())


def test_a_node_is_not_quiet_while_an_effect_has_given_it_more_to_do(tmp_path: Path) -> None:
    """The effect of a batch that is safe now; of the turn after it, nothing is to be written."""

    async def scene() -> None:
        recorder, disk = Recorder(), SlowDisk()

        def on_record(record: Record, now: float) -> None:
            if record.peer == "a":
                node.tell(Opened("c"))

        node = Node(Echo, Journal(tmp_path, "b1", "relaxed"), on_record=on_record, writer=disk, recorder=recorder)
        recorder.new = ["a"]
        node.tell(Opened("a"))
        await a_turn()
        node.tell(Opened("b"))
        await a_turn()
        recorder.new = ["c"]
        disk.work()
        waiting = asyncio.create_task(node.quiet())
        await until(lambda: disk.waiting or waiting.done())
        assert disk.waiting  # what is to be written of c
        assert not waiting.done()
        disk.work()
        async with asyncio.timeout(60):
            await waiting
        await node.close()

    run(scene)


class Heedful(Turns):
    """A machine that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def handle(self, input: Any, now: float) -> list[Any]:
        self.told.append(input)
        return []


def test_a_machine_made_from_a_journal_is_told_that_it_was(tmp_path: Path) -> None:
    async def life() -> list[Any]:
        machine = Heedful()
        node = Node(lambda: machine, Journal(tmp_path, "b1", "relaxed"))
        await node.quiet()
        told = list(machine.told)
        node.tell(Opened("c"))
        await node.quiet()
        await node.close()
        return told

    assert asyncio.run(life()) == []  # it is new
    assert asyncio.run(life()) == [Opened("c"), Restarted(), Closed("c")]


class EarlyClock(VirtualClock):
    """Calls what is asked for half a millisecond too early, as an event loop may."""

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> VirtualTimer:
        return super().call_later(max(0.0, delay_s - 0.0005), do, *args)


class Sleeper(Turns):
    """Is woken ten seconds after each client has come, and records when that was and what it heard then."""

    def __init__(self) -> None:
        super().__init__()
        self.handled: list[tuple[Any, float]] = []

    def handle(self, input: Any, now: float) -> list[Any]:
        self.handled.append((input, now))
        return [StartTimer(("wake",), now + 10.0)] if isinstance(input, Opened) else []


def test_a_machine_sees_no_timer_early_and_its_journal_has_the_time_it_saw(tmp_path: Path) -> None:
    clock = EarlyClock()

    async def scene() -> None:
        node = Node(Sleeper, Journal(tmp_path, "b1", "relaxed"), clock=clock)
        first = node.machine
        assert isinstance(first, Sleeper)
        node.tell(Opened("c"))
        await node.quiet()
        began = clock.time()
        assert clock.move(began + 60.0)
        assert clock.time() < began + 10.0
        await node.quiet()
        await node.close()
        again = Node(Sleeper, Journal(tmp_path, "b1", "relaxed"), clock=clock)
        second = again.machine
        assert isinstance(second, Sleeper)
        replayed = list(second.handled)
        await again.close()
        assert first.handled == [(Opened("c"), began), (TimerDue(("wake",)), began + 10.0)]
        assert replayed == first.handled

    asyncio.run(scene())


@pytest.mark.parametrize("keeps_journal", [False, True])
def test_a_session_ends_when_its_timer_comes_a_little_too_early(tmp_path: Path, keeps_journal: bool) -> None:
    clock = EarlyClock()

    async def scene() -> None:
        config = BrokerConfig(limits=Limits(session_expiry_s=60.0))
        journal = Journal(tmp_path, "b1", "relaxed") if keeps_journal else None
        node = Node(lambda: mobile_broker("b1", {}, config), journal, clock=clock)
        node.tell(Opened("x"))
        node.tell(Heard("x", Attach("ann")), NATIVE.encode(Attach("ann")))
        node.tell(Closed("x"))
        await node.quiet()
        assert isinstance(node.machine, Broker)
        assert [session.client for session in node.machine.sessions] == ["ann"]
        for _ in range(5):
            clock.move(clock.time() + 61.0)
            await node.quiet()
        assert len(node.machine.sessions) == 0
        await node.close()

    asyncio.run(scene())
