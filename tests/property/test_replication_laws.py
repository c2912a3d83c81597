"""The laws of replication: the checkers say what their definitions say, and the fourth filter keeps its rules.

Several `Sessions` and one `ReplicatedClient` are joined by connections that are first in, first out, and break at any
moment with all that is under way on them. Each event is taken in by some of the sessions. Time passes when it may.
"""

from collections import Counter, deque
from copy import deepcopy
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from godwit.broker.effects import Close, Closed, Heard, Notify, Opened, StartTimer, StopTimer, Tell, TimerDue, Trace
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, FetchEvents, Received, Request
from godwit.broker.predecessor_chain import PredecessorChain
from godwit.broker.sessions import Sessions
from godwit.client import ClientConfig, MergeBounds, ReplicaConfig, ReplicatedClient
from godwit.client.complete_merge import CompleteMerge
from godwit.filters.events import event
from godwit.filters.filters import TRUE
from godwit.simulator.replication_checkers import EventId, History, complete, consistent, ordered

# ------------------------------------------------------------ the checkers, against their definitions

IDS: list[EventId] = [(source, number) for source in "st" for number in (1, 2, 3)]
SETS = st.frozensets(st.sampled_from(IDS), max_size=5)
HISTORIES = st.builds(
    History,
    SETS,
    st.fixed_dictionaries({"eb1": SETS, "eb2": SETS}),
    st.lists(st.sampled_from(IDS), max_size=6).map(tuple),
)


def subsets(ids: frozenset[EventId]) -> Any:
    listed = sorted(ids)
    return chain.from_iterable(combinations(listed, size) for size in range(len(listed) + 1))


def single(history: History, received: Any) -> Counter[EventId]:
    """What a system with one broker displays that has received this."""
    return Counter(id for id in received if id in history.matching)


@given(HISTORIES)
def test_ordered_is_that_no_two_events_of_a_source_are_the_wrong_way_round(history: History) -> None:
    pairs = combinations(history.displayed, 2)
    assert ordered(history) == all(a[0] != b[0] or a[1] <= b[1] for a, b in pairs)


@given(HISTORIES)
def test_consistent_is_that_some_single_broker_displays_the_same(history: History) -> None:
    anything = history.received["eb1"] | history.received["eb2"]
    possible = [single(history, received) for received in subsets(anything)]
    assert consistent(history) == (Counter(history.displayed) in possible)


@given(HISTORIES)
def test_complete_is_that_nothing_is_missing_of_what_the_single_broker_with_all_events_displays(
    history: History,
) -> None:
    anything = history.received["eb1"] | history.received["eb2"]
    assert complete(history) == all(id in history.displayed for id in single(history, anything))


# ------------------------------------------------------------ the fourth filter

BOUNDS = MergeBounds(ask_after_s=1.0, give_up_s=5.0, held_max=8, publishers_max=4)
SOURCES = ("s", "t")


class Network:
    """`count` replicas and one client."""

    def __init__(self, count: int, queue_events_max: int = 1_000, bounds: MergeBounds = BOUNDS) -> None:
        self.now = 0.0
        self.names = tuple(f"r{number}" for number in range(count))
        config = ReplicaConfig(bounds=bounds, client=ClientConfig(confirm_every=2, confirm_after_s=0.5))
        self.client = ReplicatedClient("ann", self.names, config)
        limits = Limits(window=2, queue_events_max=queue_events_max, session_expiry_s=None)
        self.sessions = {name: Sessions(limits, name) for name in self.names}
        self.there: dict[str, deque[Any]] = {name: deque() for name in self.names}  # on the way to the replica
        self.back: dict[str, deque[Any]] = {name: deque() for name in self.names}
        self.open: dict[str, str | None] = dict.fromkeys(self.names)
        self.connections = 0
        self.timers: dict[tuple[str, ...], float] = {}
        self.numbers = dict.fromkeys(SOURCES, 0)
        self.received: dict[str, set[EventId]] = {name: set() for name in self.names}
        self.displayed: list[EventId] = []
        self.kinds: dict[str, set[EventId]] = {}  # what was recorded of which event
        self.take(self.client.subscribe("x", TRUE, 0.0))
        for name in self.names:
            self.connect(name)
        self.flush()

    def history(self) -> History:
        received = {name: frozenset(ids) for name, ids in self.received.items()}
        return History(frozenset().union(*received.values()), received, tuple(self.displayed))

    # -------------------------------------------------------- effects

    def take(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Tell(connection=name, message=message):
                    if self.open[name] is not None:
                        self.there[name].append(message)
                case Notify(event=one):
                    self.displayed.append(one.id)
                case StartTimer(key=key, at=at):
                    self.timers[key] = at
                case StopTimer(key=key):
                    self.timers.pop(key, None)
                case Trace(record=record):
                    self.kinds.setdefault(record.kind, set()).add((record.publisher, record.sequence))
                case Close(reason=reason):
                    raise AssertionError(reason)

    def answer(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Tell(connection=connection, message=message) if connection == self.open[name]:
                    self.back[name].append(message)
                case Trace(record=record):
                    self.kinds.setdefault(record.kind, set()).add((record.publisher, record.sequence))

    # -------------------------------------------------------- what may happen

    def publish(self, source: str, missed_by: int) -> None:
        """The source's next event; the bits of `missed_by` say which replicas it does not reach."""
        self.numbers[source] += 1
        one = event({}, publisher=source, sequence=self.numbers[source])
        for bit, name in enumerate(self.names):
            if not missed_by >> bit & 1:
                self.received[name].add(one.id)
                self.answer(name, self.sessions[name].deliver(one, [("ann", "x")], self.now))

    def connect(self, name: str) -> None:
        if self.open[name] is None:
            self.connections += 1
            self.open[name] = f"ann#{self.connections}"
            self.take(self.client.handle(Opened(name), self.now))

    def cut(self, name: str) -> None:
        connection = self.open[name]
        if connection is not None:
            self.open[name] = None
            self.there[name].clear()
            self.back[name].clear()
            self.sessions[name].detach(connection, self.now)
            self.take(self.client.handle(Closed(name), self.now))

    def carry(self, name: str, back: bool) -> bool:
        """Let one message arrive."""
        if back and self.back[name]:
            self.take(self.client.handle(Heard(name, self.back[name].popleft()), self.now))
            return True
        if not back and self.there[name]:
            message, connection = self.there[name].popleft(), self.open[name]
            assert connection is not None
            sessions = self.sessions[name]
            match message:
                case Attach():
                    self.answer(name, sessions.attach(connection, message, self.now))
                case Request():
                    self.answer(name, sessions.admit(connection, message, self.now)[1])
                case Received():
                    self.answer(name, sessions.received(connection, message, self.now))
                case FetchEvents():
                    self.answer(name, sessions.between(connection, message, self.now))
            return True
        return False

    def flush(self) -> None:
        while any(self.carry(name, back) for name in self.names for back in (False, True)):
            pass

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.timers and min(self.timers.values()) <= until:
            key = min(self.timers, key=lambda each: self.timers[each])
            self.now = max(self.now, self.timers.pop(key))
            self.take(self.client.handle(TimerDue(key), self.now))
        self.now = until

    def settle(self) -> None:
        """Everybody is there, and nothing is under way any more."""
        for name in self.names:
            self.connect(name)
        for _ in range(20):
            self.flush()
            self.wait(1.0)
        self.flush()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(SOURCES), st.integers(0, 7)),
        st.tuples(st.just("carry"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("carry"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("cut"), st.integers(0, 2), st.none()),
        st.tuples(st.just("connect"), st.integers(0, 2), st.none()),
        st.tuples(st.just("wait"), st.sampled_from([0.3, 1.0, 2.0, 6.0]), st.none()),
        st.tuples(st.just("copy"), st.none(), st.none()),
    ),
    max_size=60,
)


def play(network: Network, steps: list[tuple[str, Any, Any]]) -> None:
    names = network.names
    for what, one, other in steps:
        if what == "publish":
            network.publish(one, other)
        elif what == "carry":
            network.carry(names[one % len(names)], other)
        elif what == "cut":
            network.cut(names[one % len(names)])
        elif what == "connect":
            network.connect(names[one % len(names)])
        elif what == "copy":
            network.client = deepcopy(network.client)
        else:
            network.wait(one)
    network.settle()


def broken_laws(network: Network) -> list[str]:
    """What does not hold of all that the filter promises."""
    history, kinds = network.history(), network.kinds
    merge = network.client.merge
    assert merge is not None
    laws = {
        "ordered": ordered(history),
        "consistent": consistent(history),
        "complete": complete(history) or bool(kinds.get("unawaited") or kinds.get("lost")),
        "on record": history.wanted
        <= set(network.displayed).union(*(kinds.get(kind, ()) for kind in ("overtaken", "gap", "lost"))),
        "nothing held for ever": merge.held == 0 and not any(merge.asked.values()),
    }
    return [law for law, holds in laws.items() if not holds]


@given(st.integers(1, 3), STEPS)
def test_the_fourth_filter_is_ordered_and_consistent_and_within_its_bounds_complete(
    count: int, steps: list[tuple[str, Any, Any]]
) -> None:
    network = Network(count)
    play(network, steps)
    assert broken_laws(network) == []


@given(st.integers(1, 3), STEPS)
def test_what_a_full_queue_loses_is_on_record(count: int, steps: list[tuple[str, Any, Any]]) -> None:
    network = Network(count, queue_events_max=3)
    play(network, steps)
    assert broken_laws(network) == []


# ------------------------------------------------------------ faults that must be seen

LATE = [
    ("publish", "s", 0),
    *[("carry", 0, True), ("carry", 1, True)] * 3,
    ("publish", "s", 1),  # event 2: r0 misses it
    ("publish", "s", 0),
    *[("carry", 0, True)] * 4,  # r0 brings 3 first
]


def test_the_story_of_the_paper_holds() -> None:
    network = Network(2)
    play(network, LATE)
    assert (broken_laws(network), network.displayed) == ([], [("s", 1), ("s", 2), ("s", 3)])


def test_a_filter_that_does_not_wait_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompleteMerge, "on_attached", lambda *_, **__: [])  # nobody is ever awaited
    network = Network(2)
    play(network, LATE)
    assert broken_laws(network) == ["complete"]
    assert network.kinds["overtaken"] == {("s", 2)}


def test_a_filter_that_displays_by_arrival_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.client.complete_merge.insort", lambda numbers, number: numbers.append(number))
    network = Network(2)
    for _ in range(3):
        network.publish("s", 0)
        network.publish("s", 1)
    for _ in range(6):
        network.carry("r0", back=True)
    network.settle()
    assert "ordered" in broken_laws(network)


def test_a_filter_that_never_asks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompleteMerge, "_ask", lambda *_: [])
    network = Network(2)
    play(network, [("publish", "s", 1)])
    assert broken_laws(network) == ["complete", "on record", "nothing held for ever"]


def test_an_answer_without_what_waits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    between = Sessions.between

    def silent(self: Sessions, connection: str, message: FetchEvents, now: float) -> list[Any]:
        [tell] = between(self, connection, message, now)
        assert isinstance(tell, Tell)
        return [Tell(tell.connection, structs.replace(tell.message, items=(), through=message.through))]

    def backlog() -> Network:
        network = Network(2)
        for _ in range(4):  # r1's window of two is full of another publisher's events
            network.publish("t", 0)
        network.publish("s", 1)  # only r1 has this, behind its backlog
        network.publish("s", 2)  # and only r0 this
        while network.carry("r0", back=True) or network.carry("r0", back=False):
            pass
        network.wait(1.0)
        network.carry("r1", back=False)  # the question
        network.settle()
        return network

    assert broken_laws(backlog()) == []
    monkeypatch.setattr(Sessions, "between", silent)
    assert broken_laws(backlog()) == ["complete"]


def test_a_chain_that_hides_what_was_lost_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow() -> Network:
        network = Network(1, queue_events_max=3)
        network.cut("r0")
        for _ in range(6):
            network.publish("s", 0)
        network.settle()
        return network

    seen = overflow()
    assert seen.displayed == [("s", 4), ("s", 5), ("s", 6)]
    assert seen.kinds["gap"] == {("s", 3)}  # the one that is named; the session's receipt names all three
    assert seen.kinds["lost"] == {("s", 1), ("s", 2), ("s", 3)}
    monkeypatch.setattr(PredecessorChain, "link", lambda self, number, event: self._before.update({number: 0}))
    assert "gap" not in overflow().kinds
