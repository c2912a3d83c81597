"""The phases of an arrival: its table decides what can be done with it, and agrees with what the arrival holds."""

import pytest

from godwit.broker.limits import Limits
from godwit.broker.messages import Attach
from godwit.broker.queues import event_size
from godwit.broker.session import Session
from godwit.filters.events import Event
from godwit.mobility import arrival as arrival_module
from godwit.mobility.arrival import TRANSITIONS, Arrival, Phase, Step
from godwit.mobility.move_messages import Relocate, Replay
from tests.snapshots import read_again

KEY = ("ann", 2, "old")
SESSION = Session("ann", "old/1/1", Limits())


def part(*, is_first: bool, is_last: bool = False) -> Replay:
    return Replay("ann", "new", 2, SESSION.state() if is_first else None, (), is_last)


def arrival(*steps: Step) -> Arrival:
    made = Arrival(Attach("ann", home="old", attempt=2), "c")
    for step in steps:
        take(made, step)
    return made


def take(made: Arrival, step: Step) -> None:
    match step:
        case Step.PART:
            made.take(part(is_first=not made.is_coming), Limits())
        case Step.WHOLE:
            made.flush(KEY, 30.0)
        case _:
            made.step(step)


def reached(made: Arrival, left: int) -> list[Arrival]:
    """Every arrival that so many steps lead to, without those after its end."""
    found = [made]
    for step in TRANSITIONS[made.phase] if left else ():
        copy = Arrival.restored(read_again(made.snapshot()))
        take(copy, step)
        found += reached(copy, left - 1)
    return found


def test_the_phase_says_whether_a_session_is_coming_and_whether_others_must_flush() -> None:
    every = [each for each in reached(arrival(), 5) if TRANSITIONS[each.phase]]
    phases = {Phase.SUBSCRIBING, Phase.ASKING_SESSION, Phase.RECEIVING, Phase.FLUSHING}
    assert {each.phase for each in every} == phases
    for each in every:
        assert each.is_coming == bool(each.parts)
        assert (each.phase is Phase.FLUSHING) == (each.flushes is not None)


def test_a_client_is_let_in_with_its_session_or_without_and_never_both() -> None:
    assert all(Step.FINISH not in steps or Step.GIVE_UP not in steps for steps in TRANSITIONS.values())
    assert all(Step.FORGET in steps for steps in TRANSITIONS.values() if steps)


@pytest.mark.parametrize("step", [Step.FINISH, Step.WHOLE, Step.WISHES])
def test_a_step_that_the_phase_does_not_allow_is_refused(step: Step) -> None:
    made = arrival()
    assert not made.may(step)
    with pytest.raises(AssertionError, match="subscribing"):
        made.step(step)


def test_a_client_that_comes_again_is_not_superseded_any_more() -> None:
    made = arrival(Step.PART)
    made.supersede("other")
    made.send_on(Relocate("ann", "new", "other", 3))
    made.come_again(Attach("ann", home="old", attempt=4), "d", {})
    assert (made.superseded_by, made.next) == (None, None)
    assert made.phase is Phase.RECEIVING


def test_what_comes_for_an_arrival_meanwhile_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = [Event({"x": number}, "p", number, payload=bytes(1_000)) for number in range(3)]
    monkeypatch.setattr(arrival_module, "BUFFER_BYTES_MAX", 2 * event_size(happened[0]))
    made = arrival()
    assert [made.keep(each, ("s",)) for each in happened] == [True, True, False]
    assert made.buffer_bytes == 2 * event_size(happened[0])
    assert Arrival.restored(read_again(made.snapshot())).buffer_bytes == made.buffer_bytes
