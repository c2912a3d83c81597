"""The entries of a client with large filters are placed and withdrawn in slices, each of few steps."""

from typing import Any

import pytest
from msgspec import structs

from godwit.broker import withdrawals
from godwit.broker.effects import Heard, Opened, TimerDue
from godwit.broker.messages import Attach, Attached, Bye, Request, Subscribe
from godwit.broker.routing import steps_taken
from godwit.broker.withdrawals import WITHDRAWING
from godwit.filters.language import parse
from godwit.mobility import arrival_entries
from godwit.mobility.arrival import Arrival, Phase
from godwit.mobility.arrival_entries import PLACING
from godwit.mobility.move_messages import Relocate, Superseded
from godwit.mobility.relocation import Relocation
from godwit.testing import Machines, machines

COUNT, LITERALS = 8, 400
ONE_ENTRY = 16_000  # the most that it takes to compare one entry with others, for one neighbour
FAMILIES: dict[str, dict[str, Any]] = {
    "covering": {"reduction": "covering", "advertisements": "off"},
    "merging": {"reduction": "merging", "advertisements": "optional"},
    "graph": {"family": "graph"},
}


def wishes(count: int = COUNT, literals: int = LITERALS) -> tuple[Subscribe, ...]:
    """Filters that cover each other: when the first goes, the next is told."""
    texts = (" AND ".join(f"a{n} > {n + number}" for n in range(literals)) for number in range(count))
    return tuple(Subscribe(("ann", f"s{number}"), parse(text)) for number, text in enumerate(texts))


LARGE, SMALL = wishes(), wishes(literals=3)


class Watched:
    """A line of brokers, and the steps that each of their inputs took."""

    def __init__(self, wanted: tuple[Subscribe, ...] = LARGE, **settings: Any) -> None:
        self.net: Machines = machines("a-b b-c", **settings)
        self.net.pass_time(1.0)
        self.net.say("a", "old", Attach("ann", attempt=1))
        for number, wish in enumerate(wanted, 1):
            self.net.say("a", "old", Request(number, wish))
        [self.session] = [each.message.session for each in self.net.told if type(each.message) is Attached]
        self.net.hang_up("a", "old")
        self.largest = 0

    def greet(self, at: str = "c", attempt: int = 2, wanted: tuple[Subscribe, ...] = LARGE) -> None:
        """The client comes to another broker."""
        attach = Attach("ann", attempt=attempt, home="a", since=1, session=self.session, wanted=wanted)
        self.net.open[at, f"{at}{attempt}"] = None
        self.net.give(at, Opened(f"{at}{attempt}"))
        self.net.give(at, Heard(f"{at}{attempt}", attach))
        self.net.run()

    def pass_time(self, seconds: float) -> None:
        """Advance the clock; how many steps of routing the largest timer took."""
        until = self.net.now + seconds
        while True:
            before = {name: steps_taken(broker.routing) for name, broker in self.net.brokers.items()}
            if not self.net.fire_next(until):
                self.net.run(until)
                return
            name, input = self.net.log[-1].node, self.net.log[-1].input
            if type(input) is TimerDue and input.key[0] in (PLACING, *WITHDRAWING):
                self.largest = max(self.largest, steps_taken(self.net.brokers[name].routing) - before[name])
            self.net.run()

    def arrival(self, at: str = "c") -> Arrival | None:
        found: Arrival | None = self.net.brokers[at].component(Relocation).arrivals.get("ann")
        return found

    def held(self, at: str) -> int:
        session = self.net.brokers[at].sessions.session("ann")
        return 0 if session is None else len(session.subscriptions)

    def slices(self, kind: str) -> int:
        inputs = [each.input for each in self.net.log]
        return sum(type(each) is TimerDue and each.key[0] == kind for each in inputs)

    def entries(self) -> int:
        """How many entries all brokers have, but for sessions."""
        return sum(sum(broker.routing.sizes().values()) for broker in self.net.brokers.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_large_filters_are_placed_in_slices_before_the_session_is_asked_for(family: str) -> None:
    watched = Watched(**FAMILIES[family])
    watched.greet()
    arrival = watched.arrival()
    assert arrival is not None
    assert (arrival.phase, arrival.asks) == (Phase.SUBSCRIBING, 0)
    assert 0 < len(arrival.unplaced) < COUNT
    assert not watched.net.messages(Relocate)
    watched.pass_time(5.0)
    assert (watched.held("a"), watched.held("c"), watched.arrival()) == (0, COUNT, None)
    assert watched.slices(PLACING) >= 2


def test_small_filters_are_placed_at_once() -> None:
    watched = Watched(SMALL, advertisements="off")
    watched.greet(wanted=SMALL)
    assert (watched.held("a"), watched.held("c")) == (0, COUNT)
    assert watched.slices(PLACING) == watched.slices(WITHDRAWING[0]) == 0


def test_a_slice_takes_no_more_than_its_steps_and_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def largest() -> tuple[int, int]:
        watched = Watched(**FAMILIES["covering"])
        watched.greet()
        watched.pass_time(5.0)
        watched.net.say("c", "c2", Bye("she leaves"))
        watched.pass_time(5.0)
        assert watched.entries() == 0
        return watched.largest, watched.slices(WITHDRAWING[0])

    steps, slices = largest()
    assert 0 < steps <= withdrawals.STEPS_AT_ONCE + ONE_ENTRY
    assert slices > 1
    for module in (arrival_entries, withdrawals):  # the planted fault: no bound, and all is done in one input
        monkeypatch.setattr(module, "STEPS_AT_ONCE", 10**9)
    assert largest() == (0, 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_session_with_large_filters_that_were_not_brought_is_placed_in_slices_before_its_client_is_told(
    family: str,
) -> None:
    watched = Watched(**FAMILIES[family])
    watched.greet(wanted=())
    arrival = watched.arrival()
    assert arrival is not None
    assert arrival.is_coming
    assert arrival.unplaced
    told = len(watched.net.told)
    watched.pass_time(5.0)
    assert [type(each.message) for each in watched.net.told[told:]] == [Attached]
    assert watched.held("c") == COUNT
    watched.net.say("c", "c2", Bye("she leaves"))
    watched.pass_time(5.0)
    assert watched.entries() == 0


def test_what_was_brought_and_is_not_in_the_session_leaves_in_slices() -> None:
    watched = Watched(SMALL[:1], **FAMILIES["covering"])
    watched.greet(wanted=LARGE)
    watched.pass_time(5.0)
    assert watched.held("c") == 1
    watched.net.say("c", "c2", Bye("she leaves"))
    watched.pass_time(5.0)
    assert watched.entries() == 0


def test_a_client_that_comes_again_between_two_slices_is_attached_once_with_all() -> None:
    watched = Watched(**FAMILIES["covering"])
    watched.greet()
    watched.pass_time(0.03)
    watched.greet(attempt=3)
    watched.pass_time(5.0)
    assert watched.held("c") == COUNT
    attached = [each.client for each in watched.net.told if type(each.message) is Attached]
    assert attached == ["old", "c3"]


def test_a_client_that_is_elsewhere_between_two_slices_leaves_nothing() -> None:
    watched = Watched(**FAMILIES["covering"])
    watched.greet()
    watched.net.forge("b", "c", Superseded("ann", "c", 2, 5, "b"))
    watched.net.run()
    assert watched.arrival() is None
    watched.pass_time(5.0)
    assert watched.slices(PLACING) == 0
    assert watched.net.brokers["c"].routing.local_filter(("ann", "s0")) is None


def test_a_client_that_comes_back_before_all_is_withdrawn_keeps_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(withdrawals, "STEPS_AT_ONCE", 1)
    watched = Watched(**FAMILIES["covering"])
    watched.greet()
    for _ in range(100):
        watched.pass_time(0.01)
        if len(watched.net.brokers["a"].withdrawals):
            break
    assert 0 < len(watched.net.brokers["a"].withdrawals) < COUNT
    wanted = tuple(structs.replace(wish) for wish in LARGE)
    attach = Attach("ann", attempt=9, home="c", since=2, session=watched.session, wanted=wanted)
    watched.net.say("a", "back", attach)
    watched.pass_time(5.0)
    assert (watched.held("a"), watched.held("c")) == (COUNT, 0)
    routing = watched.net.brokers["a"].routing
    assert all(routing.local_filter(wish.id) == wish.filter for wish in LARGE)
