"""The clock: what is due happens in the order of its time; of equal times, what was asked for first."""

from godwit.simulator.simulated_clock import SimulatedClock


def test_entries_happen_in_the_order_of_their_times_and_then_of_their_making() -> None:
    clock, seen = SimulatedClock(), []
    for at, name in ((2.0, "late"), (1.0, "first"), (1.0, "second"), (0.5, "early")):
        clock.call_at(at, lambda name: seen.append((clock.now, name)), name)
    clock.run(1.5)
    assert seen == [(0.5, "early"), (1.0, "first"), (1.0, "second")]
    assert clock.now == 1.5
    clock.run(2.0)
    assert seen[-1] == (2.0, "late")


def test_what_is_asked_for_meanwhile_happens_in_the_same_run_if_it_is_due() -> None:
    clock, seen = SimulatedClock(), []

    def again(left: int) -> None:
        seen.append(clock.now)
        if left:
            clock.call_at(clock.now + 1.0, again, left - 1)

    clock.call_at(1.0, again, 5)
    clock.run(3.0)
    assert seen == [1.0, 2.0, 3.0]


def test_time_never_goes_back() -> None:
    clock = SimulatedClock()
    clock.run(3.0)
    clock.run(1.0)
    assert clock.now == 3.0
