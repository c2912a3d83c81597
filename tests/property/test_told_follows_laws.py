"""Laws of united open filters: a neighbour allows for every client, at every number of steps, and for nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.tree import TreeRouting
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.mobility import Movements, grid
from godwit.mobility.followed_entry import Followed
from godwit.mobility.location_tree import FollowedFilters
from godwit.mobility.move_messages import FollowPlaces, FollowUpdate
from godwit.mobility.told_follows import FollowGroup

GROUND = grid(5, 4)
MOVEMENTS = Movements({"location": GROUND})
FILTERS = [
    parse(text)
    for text in ("at = myloc", "x = 1 AND at WITHIN myloc(1)", "at = myloc AND was = myloc", "at = my.other")
]
PLACES = GROUND.places
NAMES = "abcdef"

wishes = st.tuples(
    st.sampled_from(NAMES),
    st.integers(0, len(FILTERS) - 1),
    st.sampled_from(PLACES),
    st.sampled_from([0.3, 0.3, 0.35, 2.0, None]),
)
leaving = st.tuples(st.sampled_from(NAMES))
measured = st.tuples(st.sampled_from([0.01, 0.1, 0.9]), st.sampled_from([0.01, 0.2]))
actions = st.lists(st.one_of(wishes, wishes, leaving, measured), max_size=14)


class Line:
    """Brokers in a row, of which the first has clients: what each tells the next is handed over at once."""

    def __init__(self, length: int, *, unites: bool) -> None:
        self.names = [f"b{number}" for number in range(length)]
        self.parts = [FollowedFilters(MOVEMENTS, unites=unites) for _ in self.names]
        self.told: list[Any] = []
        for number, part in enumerate(self.parts):
            beside = self.names[max(0, number - 1) : number] + self.names[number + 1 : number + 2]
            TreeRouting(self.names[number], beside, advertised=False, further=part)

    def carry(self, number: int, answers: list[Any]) -> None:
        """Hand over what a broker tells."""
        for answer in answers:
            self.told.append(answer.message)
            to = self.names.index(answer.peer)
            self.carry(to, self.parts[to].on_message(self.names[number], answer.message))

    def do(self, action: tuple[Any, ...]) -> None:
        """A client wants something or nothing, or links take another time."""
        match action:
            case (str(name),) if self.parts[0].has((name, "F")):
                self.carry(0, self.parts[0].remove((name, "F"), ""))
            case (str(name), int(filter), place, dwell_s):
                state = {"location": place, "other": place}
                self.carry(0, self.parts[0].follow((name, "F"), FILTERS[filter], state, dwell_s))
            case (float(first), float(second)):
                for number, seconds in enumerate((first, second)):
                    self.carry(number, self.parts[number].measure(self.names[number + 1], seconds))
                    self.carry(number + 1, self.parts[number + 1].measure(self.names[number], seconds))

    def entries(self, number: int) -> list[Followed]:
        """What a broker follows, as told by the one before."""
        return list(self.parts[number].followed[self.names[number - 1]].values())


EVENTS = [event({"at": place, "was": was, "x": x}) for place in PLACES for was in ("0,0", "2,2") for x in (0, 1)]


def let_through(entries: list[Followed]) -> set[int]:
    return {number for number, each in enumerate(EVENTS) if any(entry.loosened.matches(each) for entry in entries)}


def check(alone: Line, united: Line) -> None:
    for number in (1, 2):
        want, get = let_through(alone.entries(number)), let_through(united.entries(number))
        assert want <= get
        assert len(united.entries(number)) <= len(alone.entries(number))


def run(plan: list[tuple[Any, ...]]) -> tuple[Line, Line]:
    alone, united = Line(3, unites=False), Line(3, unites=True)
    for action in plan:
        alone.do(action)
        united.do(action)
        check(alone, united)
    return alone, united


@given(actions)
def test_united_filters_let_through_whatever_each_alone_would(plan: list[tuple[Any, ...]]) -> None:
    """(rule 1) after every change, and at every hop."""
    run(plan)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.just(0), st.sampled_from(PLACES), st.just(0.3)), max_size=20))
def test_of_clients_that_stay_equally_long_nothing_more_is_let_through(plan: list[tuple[Any, ...]]) -> None:
    alone, united = run([(0.1, 0.2), *plan])
    for number in (1, 2):
        assert let_through(alone.entries(number)) == let_through(united.entries(number))
        assert len(united.entries(number)) <= 1


@given(actions)
def test_a_snapshot_goes_on_as_what_it_was_taken_of(plan: list[tuple[Any, ...]]) -> None:
    _, united = run(plan)
    again = Line(3, unites=True)
    for part, copy in zip(united.parts, again.parts, strict=True):
        copy.restore(part.snapshot())
    for action in (("a", 0, "1,1", 0.3), ("b", 0, "1,2", 0.3), ("a",), (0.9, 0.9)):
        united.told.clear()
        again.told.clear()
        united.do(action)
        again.do(action)
        assert united.told == again.told


def test_when_all_have_gone_nothing_is_left() -> None:
    _, united = run([("a", 0, "1,1", 0.3), ("b", 0, "1,2", 0.3), ("c", 3, "1,2", 2.0), ("a",), ("b",), ("c",)])
    assert [part.sizes() for part in united.parts] == [{"followed": 0, "told_follows": 0}] * 3


# ------------------------------------------------------------ what is told, and what is not


def test_a_step_within_the_union_is_told_to_nobody() -> None:
    """[rebeca §5.4]: it has no effect on the routing table "if there already exists a filter that covers"."""
    _, united = run(
        [(0.1, 0.1), *((name, 0, place, 0.3) for name, place in zip("abc", ("0,0", "1,0", "0,1"), strict=True))]
    )
    united.told.clear()
    united.do(("d", 0, "0,0", 0.3))
    united.do(("d", 0, "1,0", 0.3))
    united.do(("d", 0, "0,0", 0.3))
    assert united.told == []


def test_of_a_step_that_changes_the_union_the_places_to_add_and_to_remove_are_told() -> None:
    _, united = run([(0.1, 0.1), *((name, 0, f"{number},0", 0.3) for number, name in enumerate("abcd"))])
    united.told.clear()
    united.do(("d", 0, "4,0", 0.3))
    assert [type(message) for message in united.told] == [FollowPlaces] * 2
    assert {(message.added, message.removed) for message in united.told} == {(("4,0",), ("3,0",))}


def test_one_who_hurries_does_not_widen_the_places_of_those_who_stroll() -> None:
    alone, united = run([(0.9, 0.2), ("a", 0, "0,0", 60.0), ("b", 0, "4,3", 0.3)])
    assert let_through(alone.entries(1)) == let_through(united.entries(1))
    assert len(united.entries(1)) == 2


def test_more_places_than_are_united_are_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.mobility.told_follows.PLACES_UNITED_MAX", 2)
    plan = [(0.1, 0.1), *((name, 0, f"{number},0", 0.3) for number, name in enumerate("abc"))]
    _, united = run(plan)
    assert let_through(united.entries(1)) == set(range(len(EVENTS)))
    united.told.clear()
    united.do(("a", 0, "0,1", 0.3))
    assert united.told == []
    united.do(("a",))
    assert type(united.told[0]) is FollowUpdate
    assert len(let_through(united.entries(1))) < len(EVENTS)


# ------------------------------------------------------------ faults that must be seen


@pytest.mark.parametrize("fault", ["a place is forgotten", "the longest stay", "no news of joining"])
def test_planted_faults_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = FollowGroup._now

    def forgotten(group: FollowGroup) -> Any:
        values, times, possible = now(group)
        places = values.get("location")
        fewer = {"location": places[:-1] if len(places) > 2 else places[0]} if isinstance(places, tuple) else values
        return fewer, times, possible

    def longest(group: FollowGroup) -> Any:
        values, times, possible = now(group)
        dwell_s = times[0] and times[0] * (2 if len(group.members) > 1 else 1)
        return values, (dwell_s, times[1]), possible

    match fault:
        case "a place is forgotten":
            monkeypatch.setattr(FollowGroup, "_now", forgotten)
        case "the longest stay":
            monkeypatch.setattr(FollowGroup, "_now", longest)
        case "no news of joining":
            monkeypatch.setattr(FollowGroup, "news", lambda *_: [])
    with pytest.raises(AssertionError):
        run([(0.9, 0.2), *((name, 0, f"{number},0", 0.3) for number, name in enumerate("abcde"))])
