"""Timers of a machine on one timer of the clock."""

from collections.abc import Callable
from typing import Any

from godwit.broker.effects import Effect, StartTimer, StopTimer, TimerKey
from godwit.runtime.node_timers import NodeTimers


class Clock:
    """A clock that a test sets, with the calls that were asked for: when, and whether they still count."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[tuple[float, Callable[..., object]]] = []

    def time(self) -> float:
        return self.now

    def work(self) -> float:
        return self.now

    def call_soon(self, do: Callable[..., object], *args: Any) -> None:
        raise AssertionError("nobody asks for that")

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> "Call":
        self.asked.append((self.now + delay_s, do))
        return Call(self, self.asked[-1])

    def set(self, now: float) -> None:
        """Let the time come, and what is due then."""
        self.now = now
        for due in [each for each in self.asked if each[0] <= now]:
            if due in self.asked:
                self.asked.remove(due)
                due[1]()


class Call:
    def __init__(self, clock: Clock, asked: tuple[float, Callable[..., object]]) -> None:
        self._clock, self._asked = clock, asked

    def cancel(self) -> None:
        if self._asked in self._clock.asked:
            self._clock.asked.remove(self._asked)


def made() -> tuple[NodeTimers, Clock, list[TimerKey]]:
    clock, due = Clock(), list[TimerKey]()
    return NodeTimers(clock, lambda key, at: due.append(key)), clock, due


def start(timers: NodeTimers, **at: float) -> None:
    for name, when in at.items():
        timers.note(StartTimer((name,), when))
    timers.run()


def test_each_is_due_at_its_time_and_the_clock_is_asked_for_the_first_alone() -> None:
    timers, clock, due = made()
    start(timers, c=30.0, a=10.0, b=20.0)
    assert [at for at, _ in clock.asked] == [10.0]
    clock.set(10.0)
    assert due == [("a",)]
    clock.set(35.0)
    assert due == [("a",), ("b",), ("c",)]
    assert (timers.times(), clock.asked) == ({}, [])


def test_one_that_is_earlier_than_all_others_is_not_missed() -> None:
    timers, clock, due = made()
    start(timers, b=20.0)
    start(timers, a=5.0)
    assert [at for at, _ in clock.asked] == [5.0]
    clock.set(5.0)
    assert due == [("a",)]


def test_what_is_stopped_or_started_again_is_not_due_at_its_old_time() -> None:
    timers, clock, due = made()
    start(timers, a=10.0, b=10.0)
    timers.note(StopTimer(("a",)))
    start(timers, b=15.0)
    clock.set(10.0)
    assert due == []
    clock.set(15.0)
    assert due == [("b",)]


def test_what_is_put_in_their_place_runs_when_it_is_said() -> None:
    timers, clock, due = made()
    start(timers, a=10.0)
    timers.replace({("b",): 12.0})
    assert clock.asked == []
    timers.run()
    clock.set(12.0)
    assert due == [("b",)]


def test_a_loop_that_calls_much_too_early_is_asked_again() -> None:
    timers, clock, due = made()
    start(timers, a=10.0)
    clock.now = 9.5
    (_, call), clock.asked = clock.asked[0], []
    call()
    assert due == []
    assert [at for at, _ in clock.asked] == [10.0]


def test_a_timer_that_the_loop_calls_a_little_too_early_is_due_at_the_time_it_was_set_for() -> None:
    clock, due = Clock(), list[tuple[TimerKey, float]]()
    timers = NodeTimers(clock, lambda key, at: due.append((key, at)))
    start(timers, a=10.0)
    clock.now = 9.9995
    (_, call), clock.asked = clock.asked[0], []
    call()
    assert due == [(("a",), 10.0)]


def test_times_after_effects_are_those_that_will_run_and_nothing_has_changed() -> None:
    timers, clock, _ = made()
    start(timers, a=10.0, b=20.0)
    effects: list[Effect] = [StartTimer(("c",), 5.0), StopTimer(("a",)), StopTimer(("z",)), StartTimer(("b",), 25.0)]
    assert timers.times_after(effects) == {("b",): 25.0, ("c",): 5.0}
    assert (timers.times(), [at for at, _ in clock.asked]) == ({("a",): 10.0, ("b",): 20.0}, [10.0])
