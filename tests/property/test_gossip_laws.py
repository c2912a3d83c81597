"""Tables that every broker has agree when all is quiet, whatever was said where, in whatever order it came."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.gossip import GROUPS, RETAINED, WHEREABOUTS, Gossip, TableLimit
from godwit.broker.gossip_messages import Fact, RetainedEvent, SessionLocation
from godwit.broker.member_tree import MemberTree
from godwit.broker.messages import Attach, Delivery, Publish, Request, Retain, Subscribe
from godwit.broker.retained import Retained
from godwit.filters.events import event
from godwit.filters.language import parse
from tests.property.roaming_line import NAMES, RoamingLine

FAMILIES = st.sampled_from(["tree", "graph"])
BOUNDS = dict.fromkeys((WHEREABOUTS, RETAINED, GROUPS), TableLimit(100, 100_000))

facts = st.builds(
    Fact,
    st.just(WHEREABOUTS),
    st.sampled_from([("ann",), ("bob",)]),
    st.integers(0, 3),
    st.sampled_from(NAMES),
    st.none() | st.builds(SessionLocation, st.sampled_from(NAMES), st.just("s"), st.integers(0, 2)),
)


def versions(found: list[Fact]) -> list[Fact]:
    """Of each stamp and broker one value: no broker says two things under one stamp."""
    return list({(fact.key, fact.stamp, fact.by): fact for fact in found}.values())


@given(st.lists(facts, max_size=12).map(versions), st.randoms(use_true_random=False))
def test_in_whatever_order_and_however_often_versions_come_the_same_is_known(found, rng):
    known = []
    for _ in range(2):
        heard = found + rng.sample(found, len(found) // 2)
        rng.shuffle(heard)
        table = Gossip("z", BOUNDS)
        for fact in heard:
            table.learn(rng.choice("xy"), fact)
        known.append(sorted(table, key=lambda fact: fact.key))
    assert known[0] == known[1]
    for fact in found:
        mine = next(each for each in known[0] if each.key == fact.key)
        assert (mine.stamp, mine.by) >= (fact.stamp, fact.by)


# ------------------------------------------------------------ over links that break, and disks that are lost


class Net(RoamingLine):
    """Publishers that come over a connection each, one at every broker."""

    def __init__(self, family: str) -> None:
        super().__init__(family=family)
        self.sequence: dict[str, int] = {}
        self.visits = 0

    def visit(self, at: str, *wishes: Any) -> str:
        """A client of its own comes and says something."""
        self.visits += 1
        name = f"v{self.visits}"
        self.say(at, name, Attach(name, mode="named"))
        for number, wish in enumerate(wishes, 1):
            self.say(at, name, Request(number, wish(name)))
        return name

    def retain(self, at: str, key: str, clear: bool) -> None:
        self.visit(at, lambda name: Retain(event({"topic": key}, publisher=name, sequence=1), key, clear))

    def lose_disk(self, name: str) -> None:
        self.pass_time(0.001)  # nobody is back at once: no stamp is used twice
        self.crash(name, keeps_disk=False)
        self.run()
        self.restart(name)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("retain"), st.sampled_from(NAMES), st.sampled_from("kl"), st.booleans()),
        st.tuples(st.sampled_from(["cut", "mend", "break", "join"]), st.sampled_from(["ab", "bc"])),
        st.tuples(st.just("lose"), st.sampled_from(NAMES)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 1.0, 20.0])),
    ),
    max_size=25,
)


@given(FAMILIES, steps)
def test_when_all_is_quiet_every_broker_knows_the_same(family, steps):
    net = Net(family)
    for step in steps:
        match step:
            case ("retain", at, key, clear):
                net.retain(at, key, clear)
            case ("cut", link):
                net.blocked |= {(link[0], link[1]), (link[1], link[0])}
            case ("mend", link):
                net.blocked -= {(link[0], link[1]), (link[1], link[0])}
            case ("break", link):
                net.cut(*link)
                net.run()
            case ("join", link):
                net.join(*link)
                net.run()
            case ("lose", name):
                net.lose_disk(name)
            case ("wait", seconds):
                net.pass_time(seconds)
    net.block()
    for link in ("ab", "bc"):
        net.join(*link)
        net.run()
    net.pass_time(100.0)
    tables = [
        sorted(broker.component(Gossip), key=lambda fact: (fact.table, fact.key)) for broker in net.brokers.values()
    ]
    assert tables[0] == tables[1] == tables[2]
    for broker in net.brokers.values():
        kept = {
            fact.key[0]: fact.value.event for fact in broker.component(Gossip) if isinstance(fact.value, RetainedEvent)
        }
        assert {
            key: broker.component(Retained).event(key) for key in "kl" if broker.component(Retained).event(key)
        } == kept


@given(FAMILIES, st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from("kl"), st.booleans()), max_size=10))
def test_what_the_last_publisher_said_is_retained_at_every_broker(family, said):
    net = Net(family)
    last: dict[str, str | None] = {}
    for at, key, clear in said:
        name = net.visit(at, lambda name, k=key, c=clear: Retain(event({"t": k}, publisher=name, sequence=1), k, c))
        last[key] = None if clear else name
        net.pass_time(1.0)
    for broker in net.brokers.values():
        held = {key: broker.component(Retained).event(key) for key in last}
        assert {key: None if each is None else each.publisher for key, each in held.items()} == last


memberships = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from("gh"), st.booleans()), min_size=1, max_size=6)


@given(FAMILIES, memberships, st.sampled_from(NAMES))
def test_while_nobody_comes_or_goes_exactly_one_member_gets_each_event(family, memberships, at):
    net = Net(family)
    groups: dict[str, list[str]] = {}
    for where, share, stays in memberships:
        name = net.visit(where, lambda name, share=share: Subscribe((name, "s"), parse("x > 0"), share=share))
        groups.setdefault(share, []).append(name)
        if not stays:
            net.hang_up(where, name)
    net.pass_time(2.0)
    net.visit(at, *(lambda name, n=n: Publish(event({"x": n}, publisher=name, sequence=n)) for n in range(1, 21)))
    net.pass_time(2.0)
    for members in groups.values():
        got = [said.event.sequence for _, over, said in net.told if over in members and isinstance(said, Delivery)]
        sessions = [broker.sessions.session(name) for broker in net.brokers.values() for name in members]
        away = [each for each in sessions if each is not None and each.connection is None]
        got += [each.sequence for session in away for each in session.queue.events()]
        assert sorted(got) == list(range(1, 21))


# ------------------------------------------------------------ planted faults are caught


def quiet_after_a_change() -> list[list[Fact]]:
    """What brokers know of an entry that was said while a link was broken."""
    net = Net("tree")
    net.cut("a", "b")
    net.run()
    net.retain("a", "k", False)
    net.join("a", "b")
    net.run()
    net.pass_time(10.0)
    return [[fact for fact in broker.component(Gossip) if fact.table == RETAINED] for broker in net.brokers.values()]


def test_the_law_would_see_a_broker_that_does_not_tell_what_it_has_not_told(monkeypatch):
    known = quiet_after_a_change()
    assert known[0] == known[1] == known[2] != []
    monkeypatch.setattr(Gossip, "_tell", lambda *_: None)
    known = quiet_after_a_change()
    assert known[0] != known[1]


def test_the_law_would_see_members_that_all_take_what_they_share(monkeypatch):
    monkeypatch.setattr(MemberTree, "chosen", lambda *_: ("", "", ""))  # as if there were no group
    with pytest.raises(AssertionError):
        test_while_nobody_comes_or_goes_exactly_one_member_gets_each_event.hypothesis.inner_test(  # type: ignore[attr-defined]
            "tree", [("a", "g", True), ("c", "g", True)], "b"
        )
