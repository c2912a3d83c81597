"""One client's backlog does not hold up the others: lines take turns, in slices that are counted here."""

from typing import Any

import pytest

from godwit.broker.effects import Effect, Heard, Input, TimerDue
from godwit.broker.messages import Note, Request, SetSessionExpiry
from godwit.runtime.clock import SystemClock
from godwit.runtime.intake import COUNT_MAX, Intake
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
