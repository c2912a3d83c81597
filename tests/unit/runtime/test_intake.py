"""One client's backlog does not hold up the others: lines take turns, in slices that are counted here."""

from random import Random
from typing import Any

import pytest

from godwit.broker.effects import Effect, Heard, Input, TimerDue
from godwit.broker.messages import Note, Request, SetSessionExpiry
from godwit.runtime.clock import SystemClock
from godwit.runtime.intake import COUNT_MAX, EARLY_S, Intake, Line
from godwit.runtime.node import LINE_S, TURN_S, Node
from godwit.runtime.node_inputs import client_line, is_note
from tests.network.waiting import a_turn, run, until

INPUT_S = 0.001  # that the machine takes for one input, by the clock of these tests


class Machine:
    """Notes whose inputs it handles; each takes so long."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.at = 0.0

    def handle(self, input: Input, now: float) -> list[Effect]:
        self.heard.append(input.connection if isinstance(input, Heard) else "timer")
        self.at += INPUT_S
        return []

    def snapshot(self) -> Any:
        raise AssertionError

    def restore(self, state: Any) -> None:
        raise AssertionError


def said(who: str) -> Heard:
    return Heard(who, None)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(SystemClock, "work", lambda clock: made.at)
    return made


async def all_handled(node: Node) -> None:
    await node.quiet()
    await node.close()


def test_who_says_little_waits_for_one_turn_and_not_for_the_backlog_of_another(machine: Machine) -> None:
    async def scene() -> None:
        node = Node(lambda: machine)
        for _ in range(5_000):
            node.tell(said("eve"))
        await a_turn()
        before = len(machine.heard)
        node.tell(said("ann"))
        await all_handled(node)
        assert 0 < before < 5_000
        assert machine.heard.index("ann") - before <= (TURN_S + LINE_S) / INPUT_S + 2
        assert machine.heard.count("eve") == 5_000

    run(scene)


def test_a_turn_ends_though_more_waits(machine: Machine) -> None:
    async def scene() -> None:
        node = Node(lambda: machine)
        turns: list[int] = []

        class Watch:
            def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
                turns.append(len(inputs))

            def on_effects(self, effects: list[Effect], now: float) -> None:
                return

            def on_written(self, took_s: float, size: int) -> None:
                return

        node.watch = Watch()
        for n in range(1_000):
            node.tell(said(f"client {n % 50}"))
        await all_handled(node)
        assert sum(turns) == 1_000
        assert max(turns) <= (TURN_S + LINE_S) / INPUT_S + 2
        # a round of fifty lines has two of each
        assert all(machine.heard[:100].count(f"client {n}") <= 3 for n in range(50))

    run(scene)


def test_a_hundred_backlogs_do_not_hold_up_a_line_that_was_empty(machine: Machine) -> None:
    async def scene() -> None:
        node = Node(lambda: machine)
        for n in range(10_000):
            node.tell(said(f"eve {n % 100}"))
        await until(lambda: len(machine.heard) >= 300)  # each of them has had a slice
        before = len(machine.heard)
        node.tell(said("ann"))
        node.tell(TimerDue(("t",)))
        await all_handled(node)
        assert machine.heard.index("ann") - before <= (TURN_S + LINE_S) / INPUT_S + 2
        assert machine.heard.index("timer") - before <= (TURN_S + LINE_S) / INPUT_S + 4

    run(scene)


def test_a_user_with_many_clients_has_no_more_than_one_with_a_single_client() -> None:
    intake, served = Intake(), list[str]()
    for n in range(100):
        for _ in range(4):
            intake.put(client_line(f"eve/{n}"), said("eve"), b"")
    for _ in range(4):
        intake.put(client_line("ann/1"), said("ann"), b"")
        intake.put("neighbour", said("neighbour"), b"")
    while (line := intake.next()) is not None:
        line.inputs.pop(0)
        served.append(line.name)
        intake.put_back(line)
    first = served[:12]
    assert first.count("@ann/1") == first.count("neighbour") == 4
    assert len(served) == 408
    # and each of the user's clients has its turn
    assert sorted(served[12:112], key=served.index) == sorted(set(served[12:112]), key=served.index)
    assert (len(intake), intake.size, bool(intake)) == (0, 0, False)


def test_a_client_that_sends_again_waits_for_one_slice_of_a_user_with_many_busy_clients() -> None:
    intake = Intake()
    for n in range(50):
        for _ in range(50):
            intake.put(client_line(f"eve/{n}"), said("eve"), b"")
    for _ in range(20):
        intake.put(client_line("ann/1"), said("ann"), b"")
        waited = 0
        while (line := intake.next()) is not None and line.name != "@ann/1":
            line.inputs.pop(0)
            intake.put_back(line)
            waited += 1
        assert line is not None
        assert waited <= 1
        line.inputs.pop(0)
        intake.put_back(line)


def test_a_line_whose_inputs_were_dropped_is_passed_over() -> None:
    intake = Intake()
    for who in ("a", "b"):
        intake.put(who, said(who), b"x")
    intake.drop("a")
    served = []
    while (line := intake.next()) is not None:
        served += [(line.name, len(line.inputs))]
        line.inputs.clear()
        intake.put_back(line)
    assert served == [("a", 0), ("b", 1)]
    assert intake.line("a") is None


def test_a_line_that_is_new_again_and_again_does_not_hold_up_a_busy_one() -> None:
    intake, served = Intake(), list[str]()
    for _ in range(10):
        intake.put("busy", said("busy"), b"")
    for _ in range(10):
        waiting = intake.line("sparse")
        if served and (waiting is None or not waiting.inputs):  # one at a time, as soon as the last one is handled
            intake.put("sparse", said("sparse"), b"")
        line = intake.next()
        assert line is not None
        line.inputs.pop(0)
        served.append(line.name)
        intake.put_back(line)
    assert served.count("busy") >= 4


def served_next(intake: Intake, takes_s: float, *, is_late: bool = False) -> str | None:
    """Serve one input of the next line, which takes so long; returns its name."""
    line = intake.next(is_late=is_late)
    if line is None:
        return None
    line.inputs.pop(0)
    intake.put_back(line, takes_s)
    return line.name


def test_late_in_a_turn_one_without_a_backlog_is_served_out_of_turn_for_as_long_as_a_slice() -> None:
    intake, step_s = Intake(), EARLY_S / 4
    for number in range(3):
        for _ in range(100):
            intake.put(f"busy {number}", said("busy"), b"")
    served: list[str | None] = [served_next(intake, step_s)]
    intake.put("sparse", said("sparse"), b"")
    served += [served_next(intake, step_s) for _ in range(3)]  # it was new
    assert sorted(map(str, served)) == ["busy 0", "busy 1", "busy 2", "sparse"]
    assert not intake.has_light
    early = 0
    while True:
        intake.put("sparse", said("sparse"), b"")
        if served_next(intake, step_s, is_late=True) is None:
            break
        early += 1
    assert early == 4
    assert not intake.has_light  # its time is used up: it waits for its place, which it has kept
    assert [served_next(intake, step_s) for _ in range(5)].count("sparse") == 1


def test_all_inputs_are_served_in_order_however_late_it_is() -> None:
    rng, intake = Random(5), Intake()
    given: dict[str, list[Input]] = {}
    served: dict[str, list[Input]] = {}

    def serve(line: Line | None) -> bool:
        if line is None:
            return False
        for _ in range(min(len(line.inputs), 4)):
            served.setdefault(line.name, []).append(line.inputs.pop(0)[0])
        intake.put_back(line, rng.random() * EARLY_S)
        return True

    for number in range(20_000):
        if rng.random() < 0.5:
            name = rng.choice(["@eve/1", "@eve/2", "@ann/1", "b1", "", f"@guest{rng.randrange(50)}/1"])
            for each in range(rng.choice([1, 1, 1, 6])):
                input = TimerDue((f"{number}.{each}",))
                given.setdefault(name, []).append(input)
                intake.put(name, input, b"")
        serve(intake.next(is_late=rng.random() < 0.6))
    while serve(intake.next()):
        pass
    assert served == given
    assert (len(intake), bool(intake), intake.has_light) == (0, False, False)


def test_inputs_of_a_line_stay_in_order_and_a_long_line_is_known() -> None:
    intake, told = Intake(), list[str]()
    assert [intake.put("a", TimerDue((str(n),)), b"") for n in range(COUNT_MAX + 1)] == [False] * COUNT_MAX + [True]
    line = intake.line("a")
    assert line is not None
    assert line.is_long
    line.on_short += (lambda: told.append("short"),)
    order: list[str] = []
    while (line := intake.next()) is not None:
        input = line.inputs.pop(0)[0]
        assert isinstance(input, TimerDue)
        order.append(input.key[0])
        assert told == [] or len(line.inputs) <= COUNT_MAX // 2
        intake.put_back(line)
    assert order == [str(n) for n in range(COUNT_MAX + 1)]
    assert told == ["short"]


def test_a_line_is_long_by_bytes_too() -> None:
    intake = Intake()
    assert intake.put("a", said("a"), bytes(2**20 + 1))
    line = intake.line("a")
    assert line is not None
    assert line.is_long


class TurnKinds:
    """For each turn, which of its inputs were notes."""

    def __init__(self) -> None:
        self.turns: list[list[bool]] = []

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        self.turns.append([is_note(input) for input, _ in inputs])

    def on_effects(self, effects: list[Effect], now: float) -> None:
        return

    def on_written(self, took_s: float, size: int) -> None:
        return


def test_a_note_and_the_request_after_it_are_handled_in_one_turn(machine: Machine) -> None:
    async def scene() -> None:
        node = Node(lambda: machine)
        node.watch = kinds = TurnKinds()
        for number in range(1, 300, 3):  # a slice has two inputs, so some end with a note
            for request in (
                Request(number, Note(f"in/{number}", b"")),
                Request(number + 1, SetSessionExpiry(1.0)),
                Request(number + 2, SetSessionExpiry(2.0)),
            ):
                node.tell(Heard("phone", request), line="@phone")
        await all_handled(node)
        assert len(kinds.turns) > 5
        assert not any(turn[-1] for turn in kinds.turns if turn)

    run(scene)


def test_notes_alone_do_not_make_a_turn_longer(machine: Machine) -> None:
    async def scene() -> None:
        node = Node(lambda: machine)
        node.watch = kinds = TurnKinds()
        for number in range(1, 1_000):
            node.tell(Heard("eve", Request(number, Note("n", b""))), line="@eve")
        await all_handled(node)
        assert max(map(len, kinds.turns)) <= 1.5 * (TURN_S + LINE_S) / INPUT_S + 2  # one more in each slice of two

    run(scene)
