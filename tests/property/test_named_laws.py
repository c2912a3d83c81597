"""A client that has nothing but its name, roams at random and hears everything once and in order.

It confirms some deliveries and not others; what it has not confirmed may come again, and nothing else. Links are cut
and mended, brokers stop and come back from their disks, connections break without a word.
"""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from godwit.broker.gossip import Gossip
from godwit.broker.messages import Attach, Attached, Delivery, Publish, Received, Request, Subscribe
from godwit.broker.queues import Queue
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.mobility.relocation import Relocation
from godwit.mobility.whereabouts import Whereabouts
from tests.property.roaming_line import NAMES, RoamingLine

TRIES_MAX = 20


class Wanderer:
    """The client `ann`, whose device forgets everything when it is switched off; she remembers what was shown."""

    def __init__(self, family: str) -> None:
        self.net = RoamingLine(family=family)
        self.net.say("b", "p", Attach("pub", mode="named"))
        self.published = 0
        self.connections = 0
        self.at: tuple[str, str] | None = None
        self.looked = 0
        self.shown: list[int] = []
        self.confirmed = 0
        self.expected = 1
        self.has_session = False
        self.come("a")
        self.net.say("a", "k1", Request(1, Subscribe(("ann", "s"), parse("x > 0"))))
        self.net.pass_time(5.0)  # from here on every broker knows of the session

    def come(self, to: str, *, leaves: bool = True) -> None:
        if self.at is not None and leaves:
            self.net.hang_up(*self.at)
        self.connections += 1
        self.last_number = self.got = 0  # on this connection
        self.at = (to, f"k{self.connections}")
        self.net.say(*self.at, Attach("ann", mode="named"))
        self.look()

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.published += 1
            happened = event({"x": self.published}, publisher="pub", sequence=self.published)
            self.net.say("b", "p", Request(self.published, Publish(happened)))
        self.look()

    def look(self) -> None:
        """Take notice of what has come."""
        while self.looked < len(self.net.told):
            where, over, said = self.net.told[self.looked]
            self.looked += 1
            if (where, over) != self.at:
                continue
            if isinstance(said, Attached):
                assert said.fresh != self.has_session
                assert not said.receipt.session_lost
                self.has_session = True
                self.expected = self.confirmed + 1
            elif isinstance(said, Delivery):
                number = said.event.sequence
                assert number == self.expected, "on each connection, all that was not confirmed, in order"
                self.expected += 1
                if number > len(self.shown):
                    self.shown.append(number)
                self.last_number = said.number
                self.got = number

    def confirm(self) -> None:
        self.look()
        if self.at is not None and self.at in self.net.open and self.got > self.confirmed:
            self.confirmed = self.got
            self.net.say(*self.at, Received(self.last_number))
            self.look()

    def crash(self, name: str) -> None:
        """A broker stops and comes back from its disk; its connections are gone."""
        self.net.start_again(name, keeps_disk=True)
        if name == "b":
            self.net.say("b", "p", Attach("pub", mode="named"))
        self.look()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("come"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("publish"), st.integers(1, 3)),
        st.tuples(st.just("confirm")),
        st.tuples(st.sampled_from(["cut", "mend"]), st.sampled_from(["ab", "bc"])),
        st.tuples(st.just("crash"), st.sampled_from(NAMES)),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 3.0, 11.0, 130.0])),
    ),
    max_size=25,
)


def take(ann: Wanderer, step: tuple[Any, ...]) -> None:
    match step:
        case ("come", to, leaves):
            ann.come(to, leaves=leaves)
        case ("publish", count):
            ann.publish(count)
        case ("confirm",):
            ann.confirm()
        case ("cut", link):
            ann.net.blocked |= {(link[0], link[1]), (link[1], link[0])}
        case ("mend", link):
            ann.net.blocked -= {(link[0], link[1]), (link[1], link[0])}
        case ("crash", name):
            ann.crash(name)
        case ("wait", seconds):
            ann.net.pass_time(seconds)
    ann.look()


@given(st.sampled_from(["tree", "graph"]), steps)
@example(
    "tree", [("cut", "ab"), ("come", "b", True), ("come", "c", True), ("publish", 2), ("wait", 130.0), ("mend", "ab")]
)
@example(
    "graph", [("cut", "ab"), ("come", "b", True), ("wait", 11.0), ("come", "a", True), ("publish", 1), ("mend", "ab")]
)
def test_a_client_with_nothing_but_its_name_hears_everything_once_and_in_order(family, steps):
    ann = Wanderer(family)
    for step in steps:
        take(ann, step)
    ann.net.block()
    ann.net.pass_time(60.0)
    for _ in range(TRIES_MAX):
        ann.come("c")
        ann.net.pass_time(30.0)
        ann.look()
        if ann.net.is_attached(*ann.at):  # type: ignore[misc]
            break
    assert ann.shown == list(range(1, ann.published + 1))
    assert ann.expected == ann.published + 1, "what was not confirmed has come again"
    ann.net.pass_time(200.0)  # who was superseded waits for a while for what may still come
    homes = [name for name, broker in ann.net.brokers.items() if broker.sessions.session("ann") is not None]
    assert homes == ["c"]
    assert not any(broker.component(Relocation).arrivals for broker in ann.net.brokers.values())
    assert {broker.component(Gossip).value("whereabouts", "ann").home for broker in ann.net.brokers.values()} == {"c"}


# ------------------------------------------------------------ planted faults are caught


def forgets_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queue, "confirmed_up_to", lambda queue: queue.sent_up_to)


def begins_anew_when_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Whereabouts, "_send_away", lambda self, arrival, now, **_: self.relocation.finish(arrival, now))


def announces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Whereabouts, "_announce", lambda *_: None)


WALK = [("publish", 2), ("come", "c", True), ("cut", "ab"), ("cut", "bc"), ("come", "a", True), ("wait", 11.0)]


@pytest.mark.parametrize("plant", [forgets_what_was_sent, begins_anew_when_nobody_answers, announces_nothing])
def test_a_planted_fault_is_caught(plant, monkeypatch):
    law = test_a_client_with_nothing_but_its_name_hears_everything_once_and_in_order
    law.hypothesis.inner_test("tree", WALK)  # type: ignore[attr-defined]
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        law.hypothesis.inner_test("tree", WALK)  # type: ignore[attr-defined]
