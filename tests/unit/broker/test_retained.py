"""Retained events: of each key the last one, for whoever subscribes later, at every broker."""

from typing import Any

import pytest
from msgspec import structs

from godwit.broker import retained
from godwit.broker.early_copies import EARLY_S
from godwit.broker.effects import Heard
from godwit.broker.gossip import RETAINED, Gossip, TableLimit
from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Accepted,
    Attach,
    Context,
    Delivery,
    PastConnection,
    Publish,
    Refused,
    Request,
    Retain,
    Subscribe,
    Unsubscribe,
)
from godwit.broker.queues import event_size
from godwit.broker.retained import Retained
from godwit.filters.events import ATTRIBUTES_MAX, Event, event
from godwit.filters.language import parse
from godwit.mobility.move_messages import MoveOut
from godwit.testing import machines
from tests.property.roaming_line import RoamingLine
from tests.snapshots import restored

FAMILIES = ("tree", "graph")


class Net(RoamingLine):
    """A publisher at a, and subscribers that come later."""

    def __init__(self, family: str = "tree", **config: Any) -> None:
        super().__init__(family=family, **config)
        self.requests: dict[tuple[str, str], int] = {}
        self.sequence = 0
        self.say("a", "p", Attach("pub", mode="named"))

    def request(self, at: str, connection: str, wish: Any) -> Any:
        self.requests[at, connection] = number = self.requests.get((at, connection), 0) + 1
        self.say(at, connection, Request(number, wish))
        answers = [said for _, over, said in self.told if over == connection and isinstance(said, Accepted | Refused)]
        return answers[-1]

    def happens(self, topic: str, **details: Any) -> Event:
        self.sequence += 1
        attributes = {"topic": topic, "n": self.sequence}
        return event(attributes, publisher="pub", sequence=self.sequence, **details)

    def retain(self, topic: str, *, clear: bool = False, **details: Any) -> Any:
        answer = self.request("a", "p", Retain(self.happens(topic, **details), topic, clear))
        self.pass_time(1.0)
        return answer

    def subscribe(self, at: str, connection: str, filter: str, name: str = "s", *, retained: bool = True) -> None:
        if (at, connection) not in self.requests:
            self.say(at, connection, Attach(connection, mode="named"))
        self.request(at, connection, Subscribe((connection, name), parse(filter), retained=retained))
        self.pass_time(1.0)

    def got(self, connection: str) -> list[tuple[int, bool]]:
        """Numbers of the events that came, and whether they are marked as retained."""
        found = [said.event for _, over, said in self.told if over == connection and isinstance(said, Delivery)]
        return [(each.sequence, each.attributes.get("retained") is True) for each in found]


@pytest.mark.parametrize("family", FAMILIES)
def test_who_subscribes_later_gets_the_last_event_of_each_key_at_every_broker(family):
    net = Net(family)
    for topic in ("t/1", "t/2", "t/1", "u/1"):
        net.retain(topic)
    for at in ("a", "b", "c"):
        net.subscribe(at, f"s{at}", "topic LIKE 't/%'")
        assert sorted(net.got(f"s{at}")) == [(2, True), (3, True)]


def test_who_does_not_ask_for_them_gets_none():
    net = Net()
    net.retain("t")
    net.subscribe("c", "ann", "topic = 't'", retained=False)
    assert net.got("ann") == []


def test_live_copies_are_not_marked_and_do_not_come_twice():
    net = Net()
    net.subscribe("c", "ann", "topic = 't'")
    net.retain("t")
    assert net.got("ann") == [(1, False)]
    net.subscribe("c", "ann", "n >= 1", "other")  # asked for again: it comes again
    assert net.got("ann") == [(1, False), (1, True)]
    net.subscribe("c", "ann", "topic = 't'")  # the same name, made anew
    assert net.got("ann") == [(1, False), (1, True), (1, True)]


def test_an_event_that_is_still_on_its_way_does_not_come_a_second_time():
    net = Net()
    net.subscribe("c", "ann", "topic = 'other'")
    net.retain("t")
    net.subscribe("c", "ann", "topic = 't'")
    session = net.brokers["c"].sessions.session("ann")
    late = net.brokers["c"].component(Retained).event("t")
    assert session is not None
    assert late is not None
    net.brokers["c"].sessions.deliver(late, [("ann", "s")], net.now)
    assert net.got("ann") == [(1, True)]
    assert session.suppressed == 1


@pytest.mark.parametrize("starts_again", [False, True])
def test_an_event_that_is_still_on_its_way_comes_for_the_other_subscriptions_of_the_session(starts_again):
    net = Net()
    net.retain("t")  # nobody at c wants it, so what c learns is that it is retained
    late = net.brokers["c"].component(Retained).event("t")
    net.subscribe("c", "ann", "n > 0", "all", retained=False)
    net.subscribe("c", "ann", "topic = 't'", "first")
    net.subscribe("c", "ann", "topic = 't' AND n < 9", "second")
    net.subscribe("c", "ann", "topic = 'other'", "other")
    if starts_again:
        net.crash("c", keeps_disk=True)
        net.restart("c", rejoins=True)
        net.run()
        net.say("c", "ann", Attach("ann", mode="named"))
        net.pass_time(1.0)
    for _ in range(2):
        net.forge("b", "c", Publish(late))
    came = {said.number: said for _, over, said in net.told if over == "ann" and isinstance(said, Delivery)}
    assert [("retained" in said.event.attributes, said.subscriptions) for said in came.values()] == [
        (True, ("first",)),
        (True, ("second",)),
        (False, ("all",)),
    ]
    session = net.brokers["c"].sessions.session("ann")
    assert session is not None
    assert session.suppressed == 1
    assert net.brokers["c"].component(Retained).snapshot() is None


def test_an_event_that_comes_behind_what_is_known_of_it_comes_for_subscriptions_that_were_there_before():
    net = machines("a-b b-c a-c", family="graph")
    net.pass_time(5.0)
    net.say("a", "p", Attach("pub", mode="named"))
    net.say("c", "ann", Attach("ann", mode="named"))
    net.say("c", "ann", Request(1, Subscribe(("ann", "plain"), parse("topic = 't'"))))
    net.pass_time(1.0)
    net.set_latency("a", "c", 2.0)  # the event comes over this link, and what is known of it over b
    net.give("a", Heard("p", Request(1, Retain(event({"topic": "t"}, publisher="pub", sequence=1), "t"))))
    net.pass_time(1.0)
    net.give(
        "c", Heard("ann", Request(2, Subscribe(("ann", "asks"), parse("topic = 't' OR topic = 'u'"), retained=True)))
    )
    net.pass_time(5.0)
    came = [said for _, over, said in net.told if over == "ann" and isinstance(said, Delivery)]
    assert [("retained" in said.event.attributes, said.subscriptions) for said in came] == [
        (True, ("asks",)),
        (False, ("plain",)),
    ]


def test_an_event_that_was_retained_long_ago_is_not_waited_for():
    net = Net()
    net.retain("t")
    net.pass_time(2 * EARLY_S)
    net.subscribe("c", "ann", "n > 0", "all", retained=False)
    net.subscribe("c", "ann", "topic = 't'")
    assert net.got("ann") == [(1, True)]
    assert net.brokers["c"].component(Retained).snapshot() is None


def test_what_is_cleared_is_gone_everywhere_and_the_clearing_is_published():
    net = Net()
    net.subscribe("c", "bob", "n >= 1")
    net.retain("t")
    net.retain("t", clear=True)
    net.subscribe("c", "ann", "topic = 't'")
    assert net.got("ann") == []
    assert net.got("bob") == [(1, False), (2, False)]
    assert [len(broker.component(Retained)) for broker in net.brokers.values()] == [0, 0, 0]


def test_what_was_cleared_before_anybody_knew_of_it_stays_away():
    net = Net()
    net.block("ab")
    net.retain("t")
    net.say("c", "q", Attach("q", mode="named"))
    net.request("c", "q", Retain(event({"topic": "t"}, publisher="q", sequence=1), "t", clear=True))
    net.block()
    net.pass_time(60.0)
    assert [broker.component(Retained).event("t") for broker in net.brokers.values()] == [None] * 3


def test_an_event_whose_time_is_over_is_gone():
    net = Net()
    net.retain("t", expires_at=net.now + 10.0)
    net.retain("u", expires_at=net.now + 100.0)
    net.pass_time(20.0)
    net.subscribe("c", "ann", "n >= 1")
    assert net.got("ann") == [(2, True)]
    assert len(net.brokers["c"].component(Retained)) == 1


def test_to_and_filters_on_the_own_context_count():
    net = Net()
    net.retain("t", to=parse("role = 'medic'"))
    net.retain("u")
    net.say("c", "ann", Attach("ann", mode="named"))
    net.request("c", "ann", Context({"role": "cook", "topic": "t"}))
    net.subscribe("c", "ann", "n >= 1")
    assert net.got("ann") == [(2, True)]
    net.request("c", "ann", Context({"role": "medic", "topic": "t"}))
    net.subscribe("c", "ann", "topic = my.topic", "mine")
    assert net.got("ann") == [(2, True), (1, True)]


def test_beyond_the_bounds_an_event_is_refused_and_not_published():
    net = Net(limits=Limits(retained_max=2, retained_bytes_max=2_000))
    net.subscribe("c", "ann", "n >= 1")
    net.retain("t1", expires_at=net.now + 5.0)
    net.retain("t2")
    refused = net.retain("t3")
    assert isinstance(refused, Refused)
    assert refused.reason == "the table of retained has room for 2"
    assert isinstance(net.retain("t2"), Accepted)
    net.pass_time(5.0)
    assert isinstance(net.retain("t3"), Accepted)  # the time of the first is over
    assert [number for number, _ in net.got("ann")] == [1, 2, 4, 5]
    refused = net.retain("t2", payload=bytes(3_000))
    assert isinstance(refused, Refused)
    assert refused.reason == "the table of retained has room for 2000 bytes"
    assert isinstance(net.retain("t4", clear=True), Accepted)


def test_a_subscription_that_moves_with_its_session_does_not_begin_again():
    net = Net()
    net.retain("t")
    net.subscribe("c", "ann", "topic = 't'")
    net.say("b", "ann2", Attach("ann", mode="named"))
    net.pass_time(2.0)
    assert net.brokers["b"].sessions.session("ann") is not None
    assert net.got("ann2") == [(1, True)]  # not confirmed at c
    net.request("a", "p", Publish(net.happens("t")))
    assert net.got("ann2") == [(1, True), (2, False)]


def test_an_event_with_no_room_for_the_mark_goes_without_it():
    net = Net()
    full = event({f"a{i}": i for i in range(ATTRIBUTES_MAX)}, publisher="pub", sequence=1)
    net.request("a", "p", Retain(full, "full"))
    net.pass_time(1.0)
    net.subscribe("c", "ann", "a1 = 1")
    assert net.got("ann") == [(1, False)]


# ------------------------------------------------------------ the table alone


def kept(*topics: Any) -> Retained:
    retained = Retained(Gossip("a", {RETAINED: TableLimit(100, 100_000)}))
    for number, topic in enumerate(topics):
        retained.put(f"k{number}", event({"topic": topic, "n": number}, publisher="p", sequence=number + 1), 1.0)
    return retained


@pytest.mark.parametrize(
    "text",
    [
        "topic = 't'",
        "topic IN ('t', 'u', 'x')",
        "topic = 't' AND n > 0",
        "topic = 't' OR n = 2",
        "topic LIKE 'u%'",
        "NOT topic = 't'",
        "n >= 0",
    ],
)
def test_a_filter_that_names_its_topics_finds_what_a_look_at_all_finds(text):
    retained, filter = kept("t", "u", "uv", ("t", "u"), 5, "t"), parse(text)
    found = [each.sequence for each in retained.matching(filter)]
    assert sorted(found) == [n + 1 for n in range(6) if filter.matches(retained.event(f"k{n}"))]  # type: ignore[arg-type]


def test_a_filter_that_names_its_topics_looks_at_no_others():
    retained = kept(*(f"t{n}" for n in range(50)))
    retained._events = {key: each for key, each in retained._events.items() if key == "k7"}  # any other is an error
    assert [each.sequence for each in retained.matching(parse("topic = 't7' AND n >= 0"))] == [8]


def test_it_can_be_put_away():
    retained = kept("t", "u")
    again = Retained(restored(retained._gossip, Gossip("a", {RETAINED: TableLimit(100, 100_000)})))
    again.restore(None)
    assert list(again.matching(parse("topic = 'u'"))) == list(retained.matching(parse("topic = 'u'")))


# ---------------------------------------------------------------- in slices


@pytest.fixture
def in_slices(monkeypatch):
    """Three events at a time, for a filter of two literals."""
    monkeypatch.setattr(retained, "STEPS_AT_ONCE", 3 * (retained.STEPS_EACH + 2))


WANTED = "n >= 2 AND n <= 9"


def retaining(count: int = 10) -> Net:
    net = Net()
    for number in range(count):
        net.retain(f"t/{number}")
    return net


def asks(net: Net, connection: str, filter: str = WANTED, name: str = "s", *, retained: bool = True) -> None:
    """Subscribe, and let no time pass."""
    if ("c", connection) not in net.requests:
        net.say("c", connection, Attach(connection, mode="named"))
    net.request("c", connection, Subscribe((connection, name), parse(filter), retained=retained))


@pytest.mark.usefixtures("in_slices")
def test_what_takes_long_comes_in_slices_once_and_in_order_with_time_for_others_between_them():
    net = retaining()
    asks(net, "ann")
    assert net.got("ann") == [(2, True), (3, True)]  # of three looked at
    asks(net, "bob")
    assert net.got("bob") == [(2, True), (3, True)]
    lengths = set()
    while (retained.RETAINED_TIMER) in [key for who, key in net.timers if who == "c"]:
        net.fire("c", retained.RETAINED_TIMER)
        net.run()
        lengths.add((len(net.got("ann")), len(net.got("bob"))))
    assert {(5, 2), (5, 5), (8, 5)} <= lengths  # by turns
    assert net.got("ann") == net.got("bob") == [(number, True) for number in range(2, 10)]


@pytest.mark.usefixtures("in_slices")
def test_a_key_with_another_event_since_is_left_out_because_that_event_comes_as_any_does():
    net = retaining()
    asks(net, "ann")
    net.request("a", "p", Retain(event({"topic": "t/6", "n": 7}, publisher="pub", sequence=11), "t/6"))
    net.sequence = 11
    net.request("a", "p", Retain(net.happens("t/7"), "t/7", clear=True))
    net.pass_time(1.0)
    assert sorted(net.got("ann")) == [*((number, True) for number in (2, 3, 4, 5, 6, 9)), (11, False)]


@pytest.mark.usefixtures("in_slices")
@pytest.mark.parametrize("how", ["ends", "goes on without"])
def test_no_more_comes_for_a_subscription_that_does_not_ask_for_it_any_more(how):
    net = retaining()
    asks(net, "ann")
    if how == "ends":
        net.request("c", "ann", Unsubscribe(("ann", "s")))
    else:
        asks(net, "ann", retained=False)
    net.pass_time(1.0)
    assert net.got("ann") == [(2, True), (3, True)]


MODES_THAT_KEEP = ("relocate", "named", "ask", "explicit", "presubscribe")


def moves(net: Net, mode: str) -> None:
    """A client asks at c for retained events, and goes to b, and to a, before they have come."""
    wish = Subscribe(("ann", "s"), parse(WANTED), retained=True)
    net.say("c", "ann", Attach("ann", mode=mode, attempt=1))
    net.request("c", "ann", wish)
    home, log = "c", [PastConnection("c", 1, net.now)]
    for attempt, at in ((2, "b"), (3, "a")):
        if mode == "explicit":
            net.say(home, "ann" if attempt == 2 else "ann2", MoveOut())
        session = net.sessions_told()[-1]
        greeting = Attach("ann", mode=mode, attempt=attempt, since=attempt - 1)
        if mode not in ("named", "ask"):
            greeting = structs.replace(greeting, session=session, wanted=(wish,))
        if mode == "carry":
            greeting = structs.replace(greeting, log=tuple(log))
        elif mode not in ("named", "junction"):
            greeting = structs.replace(greeting, session=session, home=home)
        net.say(at, f"ann{attempt}", greeting)
        assert net.is_attached(at, f"ann{attempt}")
        home, log = at, [*log, PastConnection(at, attempt, net.now)]


@pytest.mark.usefixtures("in_slices")
@pytest.mark.parametrize(
    ("mode", "family"),
    [*((mode, family) for mode in MODES_THAT_KEEP for family in FAMILIES), ("carry", "tree"), ("junction", "tree")],
)
def test_a_session_that_moves_between_slices_gets_the_rest_at_its_new_broker(mode, family):
    net = Net(family)
    for number in range(10):
        net.retain(f"t/{number}")
    moves(net, mode)
    net.pass_time(1.0)
    assert set(net.got("ann3")) == {(number, True) for number in range(2, 10)}


@pytest.mark.usefixtures("in_slices")
def test_of_a_long_key_a_part_moves_so_that_an_event_may_come_twice_and_none_is_left_out():
    net = Net()
    stem = "k" * retained.AFTER_CHARS_MAX
    for number in range(5):
        net.retain(f"{stem}{number}")
    asks(net, "ann", "n >= 0 AND n <= 9")
    net.say("b", "ann2", Attach("ann", mode="named"))
    net.pass_time(1.0)
    assert [number for number, _ in net.got("ann2")] == [1, 2, 3, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("in_slices")
def test_a_broker_that_starts_again_goes_on_where_it_was():
    net = retaining()
    asks(net, "ann")
    net.start_again("c", keeps_disk=True)
    net.pass_time(1.0)
    net.say("c", "ann again", Attach("ann", mode="named"))
    net.pass_time(1.0)
    assert net.got("ann again") == [(number, True) for number in range(2, 10)]


def test_how_far_a_subscription_has_come_is_written_down_only_while_there_is_a_rest(in_slices):
    net = retaining()
    part = net.brokers["c"].component(Retained)
    assert part.snapshot() is None
    asks(net, "ann")
    state = part.snapshot()
    assert state is not None
    assert [(client, rest.name, rest.after) for client, rest in state.rests] == [("ann", "s", "t/2")]
    net.pass_time(1.0)
    assert part.snapshot() is None


def test_slices_count_in_the_budget_of_a_user(in_slices):
    """As a broker that starts again would count, which counts everything anew."""
    size = event_size(event({"topic": "t/1", "n": 1, "retained": True}))
    net = Net(limits=Limits(user_bytes_max=5 * size))
    for number in range(10):
        net.retain(f"t/{number}")
    asks(net, "ann", "n >= 2 AND n <= 12")
    net.hang_up("c", "ann")
    net.request("a", "p", Publish(net.happens("live")))  # all that waits is counted
    net.pass_time(1.0)
    session = net.brokers["c"].sessions.session("ann")
    assert session.queue.bytes > 5 * size
    net.request("a", "p", Publish(net.happens("live")))
    net.run()
    assert session.queue.bytes <= 5 * size
