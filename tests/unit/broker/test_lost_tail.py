"""A broker whose disk has lost the last inputs comes back to its neighbours and clients, by itself."""

import pytest

from godwit.broker import lost_tail
from godwit.broker.effects import Arrived, Effect, Restarted, StartTimer, TailLost, Tell, TimerDue, Trace
from godwit.broker.gossip import LOSSES, Gossip
from godwit.broker.gossip_messages import Fact, LostInputs
from godwit.broker.limits import Limits
from godwit.broker.lost_tail import LOSSES_TIMER, LOST_TAIL, WRONG, LostTail
from godwit.broker.messages import Attach, Hello, Receipt, ReceiptUpdate
from godwit.broker.session import Session
from godwit.testing.machine_network import Machines, machines
from godwit.trace import Record
from tests.snapshots import reborn

SETTLES_S = 120.0
REDIALLED_S = 10.0


def chain(family: str) -> Machines:
    """a - b - c, with a subscriber at each end and a publisher at each broker."""
    net = machines("a-b b-c", family=family)
    net.pass_time(SETTLES_S)
    for name, at in (("sa", "a"), ("sb", "b"), ("sc", "c")):
        net.ask(name, net.attach(name, at).subscribe("all", "n >= 0", net.now))
    for name, at in (("pa", "a"), ("pb", "b"), ("pc", "c")):
        net.attach(name, at)
    return net


def publish(net: Machines, numbers: range) -> None:
    for number in numbers:
        for name in ("pa", "pb", "pc"):
            net.ask(name, net.clients[name].publish({"n": number}, net.now))


def come_back(net: Machines, name: str) -> None:
    """The links of a broker are there again, and so are its clients."""
    for _ in range(3):  # a link that was closed is dialled again
        for a, b in (("a", "b"), ("b", "c")):
            net.join(a, b)
        net.run()
        net.pass_time(REDIALLED_S)
    for client, machine in net.clients.items():
        if not machine.is_attached:
            net.attach(client, net.home_of[client])  # type: ignore[attr-defined]
    net.pass_time(SETTLES_S)


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("family", ["tree", "graph"])
@pytest.mark.parametrize("loses", [1, 4, 17, 40])
def test_a_broker_that_lost_its_last_inputs_rejoins(family: str, loses: int, is_told: bool) -> None:
    net = chain(family)
    net.home_of = dict(net.at)  # type: ignore[attr-defined]
    publish(net, range(1, 6))
    net.crash("b", loses=loses)
    publish(net, range(6, 8))
    net.restart("b")
    if is_told:
        net.put("b", TailLost(1_000_000, 5.0))
    come_back(net, "b")
    began = net.recorded("tail_lost")
    assert len(began) == (1 if is_told else len(began))
    before = len(net.notifications)
    publish(net, range(100, 105))
    net.pass_time(SETTLES_S)
    got = {
        name: [each.event for each in net.notifications[before:] if each.client == name] for name in ("sa", "sb", "sc")
    }
    for name, events in got.items():
        for publisher in ("pa", "pb", "pc"):
            values = [event.attributes["n"] for event in events if event.publisher == publisher]
            assert values == list(range(100, 105)), (name, publisher)
    for name in ("sa", "sb", "sc"):  # nothing doubled, and in order
        for publisher in ("pa", "pb", "pc"):
            numbers = [sequence for who, sequence in net.notified(name) if who == publisher]
            assert numbers == sorted(set(numbers)), (name, publisher)
    if began and loses < 40:  # else the session is lost, too
        assert net.clients["sb"].receipts[-1].lost_since == (5.0 if is_told else 0.0)
    if began:
        assert net.clients["sb"].receipts[-1].session_lost


def test_every_connection_is_closed_with_the_reason() -> None:
    net = chain("tree")
    effects = net.give("b", TailLost(7_000, 1.0))
    closed = {effect.peer: effect.reason for effect in effects if type(effect).__name__ == "Close"}
    assert set(closed) == {"a", "c", "sb", "pb"}
    assert set(closed.values()) == {LOST_TAIL}


LIES = {  # what a says to b that b never sent, never received, or never was
    "it has received": lambda link: Hello(link.peer_incarnation, link.incarnation, 10**6, 1, heard=True),
    "it was acknowledged": lambda link: Hello(link.peer_incarnation, link.incarnation, 0, 1, True, 10**6),
    "it has met": lambda link: Hello(link.peer_incarnation, link.incarnation + 1, 0, 1, heard=True),
}


def lie(net: Machines, how: str) -> dict[str, str]:
    """a tells b a lie; which connections b closes, and why."""
    effects = net.give("b", Arrived("a", LIES[how](net.machine("b").links["a"])))
    return {effect.peer: effect.reason for effect in effects if type(effect).__name__ == "Close"}


@pytest.mark.parametrize("how", LIES)
@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_neighbour_that_lies_loses_its_link_and_nobody_else_waits(family: str, how: str) -> None:
    net = chain(family)
    assert lie(net, how) == {"a": WRONG}
    assert net.recorded("tail_lost") == []


@pytest.mark.parametrize("how", LIES)
@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_broker_that_was_started_again_must_believe_a_neighbour_before_it_has_agreed_with_it(
    family: str, how: str
) -> None:
    net = chain(family)
    net.put("b", Restarted())
    assert lie(net, how) == {"a": LOST_TAIL, "c": LOST_TAIL, "sb": LOST_TAIL, "pb": LOST_TAIL}
    assert len(net.recorded("tail_lost")) == 1


@pytest.mark.parametrize("how", LIES)
def test_events_of_others_are_not_held_back_for_a_neighbour_that_lies(how: str) -> None:
    net = chain("tree")
    lie(net, how)
    before = net.now
    net.ask("pb", net.clients["pb"].publish({"n": 1}, net.now))
    net.run()
    assert net.notified("sb") == net.notified("sc") == [("pb", 1)]
    assert net.now == before


def test_a_broker_begins_one_life_for_each_start_by_what_neighbours_say() -> None:
    net = chain("tree")
    net.put("b", Restarted())
    assert LOST_TAIL in lie(net, "it has received").values()
    net.run()
    for peer in ("a", "c"):
        net.join("b", peer)
    net.run()
    net.brokers["b"] = reborn(net.machine("b"))  # a snapshot keeps what is known since the start
    assert lie(net, "it has received") == {"a": WRONG}
    assert len(net.recorded("tail_lost")) == 1


def line(family: str) -> Machines:
    """a - b - c - d: a publisher at one end, and a subscriber at the other and beside b."""
    net = machines("a-b b-c c-d", family=family)
    net.pass_time(SETTLES_S)
    for name, at in (("sc", "c"), ("sd", "d")):
        net.ask(name, net.attach(name, at).subscribe("all", "n >= 0", net.now))
    net.attach("pa", "a")
    net.pass_time(SETTLES_S)
    return net


def lose_in_transit(net: Machines) -> None:
    """An event is lost at b: a was acknowledged, and c has not got it."""
    net.cut("b", "c")
    net.ask("pa", net.clients["pa"].publish({"n": 1}, net.now))
    net.pass_time(1.0)
    assert not net.machine("a").links["b"].outbox
    net.crash("b", loses=3)
    net.restart("b")
    net.put("b", TailLost(1_000_000, 5.0))
    for _ in range(2):
        for a, b in (("a", "b"), ("b", "c")):
            net.join(a, b)
        net.pass_time(REDIALLED_S)
    net.pass_time(SETTLES_S)


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_clients_behind_a_broker_that_lost_events_on_their_way_are_told_once(family: str) -> None:
    net = line(family)
    lose_in_transit(net)
    if family == "tree":  # in a graph, the event's source sends it again
        assert net.notified("sc") == net.notified("sd") == []
    for name, at in (("sc", "c"), ("sd", "d")):
        receipt = net.clients[name].receipts[-1]  # it is connected, and was told at once
        assert (receipt.lost_since, receipt.session_lost) == (5.0, False)
        net.detach(name)
        assert net.attach(name, at).receipts[-1].lost_since is None
    assert net.attach("late", "d").receipts[-1].lost_since is None


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_client_that_is_away_is_told_when_it_comes_back_and_once(family: str) -> None:
    net = line(family)
    net.detach("sd")
    lose_in_transit(net)
    receipt = net.attach("sd", "d").receipts[-1]
    assert (receipt.lost_since, receipt.session_lost) == (5.0, False)
    net.detach("sd")
    assert net.attach("sd", "d").receipts[-1].lost_since is None


def test_a_receipt_that_did_not_come_is_told_again() -> None:
    net = line("tree")
    machine = net.machine("d")
    session = machine.sessions.session("sd")
    fact = Fact(LOSSES, ("x",), 1, "x", LostInputs(5.0))
    effects: list[Effect] = []
    machine.component(LostTail).on_fact(fact, effects, net.now)
    [timer] = effects
    assert isinstance(timer, StartTimer)
    [told] = [each for each in machine.handle(TimerDue(timer.key), net.now) if isinstance(each, Tell)]
    assert told.message == ReceiptUpdate(Receipt(number=2, lost_since=5.0))  # and is lost on its way
    assert session is not None
    net.detach("sd")
    assert net.attach("sd", "d").receipts[-1].lost_since == 5.0


def test_connected_clients_are_told_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_tail, "TOLD_AT_ONCE", 2)
    net = machines("a-b")
    names = [f"c{number}" for number in range(5)]
    for name in names:
        net.attach(name, "a")
    net.pass_time(SETTLES_S)
    machine = net.machine("a")
    effects: list[Effect] = []
    for since in (7.0, 5.0):  # the second one is heard of before anybody was told
        fact = Fact(LOSSES, (str(since),), 1, "x", LostInputs(since))
        machine.component(LostTail).on_fact(fact, effects, net.now)
    assert effects == [StartTimer((LOSSES_TIMER,), net.now)]
    told: list[str] = []
    counts: list[int] = []
    while effects:
        machine = reborn(machine)  # what is still to be told outlives a snapshot
        said = machine.handle(TimerDue((LOSSES_TIMER,)), net.now)
        updates = [each for each in said if isinstance(each, Tell)]
        assert all(each.message.receipt.lost_since == 5.0 for each in updates)
        told += [machine.sessions.client_of(each.connection) for each in updates]
        counts.append(len(updates))
        effects = [each for each in said if isinstance(each, StartTimer)]
    assert (told, counts) == (names, [2, 2, 1])


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_session_that_moves_before_its_client_is_told_takes_the_loss_along(family: str) -> None:
    net = line(family)
    net.detach("sd")
    lose_in_transit(net)
    net.attach("sd", "c")
    net.pass_time(SETTLES_S)
    assert net.clients["sd"].receipts[-1].lost_since == 5.0


@pytest.mark.parametrize("mode", ["relocate", "junction"])
def test_a_session_that_got_another_name_before_its_client_heard_of_it_goes_on(mode: str) -> None:
    net = machines("a-b b-c", family="tree")
    net.pass_time(SETTLES_S)
    net.ask("sub", net.attach("sub", "c", mode=mode).subscribe("all", "n >= 0", net.now))
    net.attach("pa", "a")
    net.pass_time(SETTLES_S)
    net.detach("sub")
    net.blocked.add(("b", "sub"))
    net.attach("sub", "b")  # its session comes here, and it does not hear so
    net.pass_time(SETTLES_S)
    net.detach("sub")
    net.blocked.clear()
    net.ask("pa", net.clients["pa"].publish({"n": 1}, net.now))
    net.pass_time(SETTLES_S)
    net.put("b", TailLost(1_000_000, 5.0))
    for a, b in (("a", "b"), ("b", "c")):
        net.join(a, b)
    net.pass_time(SETTLES_S)
    net.attach("sub", "b")
    net.pass_time(SETTLES_S)
    assert net.notified("sub") == [("pa", 1)]
    assert net.clients["sub"].receipts[-1].session_lost


def test_a_session_from_before_its_client_was_elsewhere_is_not_the_one_it_means() -> None:
    session = Session("sub", "b/1/1", Limits())
    session.attempt = 3
    assert session.is_meant_by(Attach("sub", session="b/1/1", attempt=9, since=8))  # by its name
    assert not session.is_meant_by(Attach("sub", session="c/1/1", attempt=5, since=4))  # it was at c since
    assert session.is_meant_by(Attach("sub", session="c/1/1", attempt=5, since=2))  # nowhere since
    assert session.is_meant_by(Attach("sub", session="c/1/1", attempt=4, since=2, tried=("d",)))  # not at d since
    assert not session.is_meant_by(Attach("sub", session="c/1/1", attempt=5, since=2, tried=("d",)))  # perhaps at d


def test_a_loss_that_cannot_be_told_to_others_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    net = chain("tree")
    monkeypatch.setattr(Gossip, "put", lambda self, table, key, value, now: "the table is full")
    effects = net.give("b", TailLost(7_000, 1.0))
    assert Trace(Record("lost", detail="the table is full")) in effects


@pytest.mark.parametrize("sender", ["pb", "late"])
def test_an_event_sent_hop_by_hop_before_a_broker_finds_its_loss_arrives(sender: str) -> None:
    net = machines("a-b", family="graph", matching="hops")
    net.pass_time(SETTLES_S)
    net.ask("sa", net.attach("sa", "a").subscribe("all", "n >= 0", net.now))
    net.attach("pb", "b")
    net.attach("late", "b")
    net.pass_time(SETTLES_S)
    for number in (1, 2):  # b sends them hop by hop, and its disk loses them
        net.ask("pb", net.clients["pb"].publish({"n": number}, net.now))
    before = len(net.notified("sa"))
    net.pass_time(0.1)
    net.crash("b", loses=4)
    net.restart("b")
    net.attach(sender, "b")
    net.ask(sender, net.clients[sender].publish({"n": 3}, net.now))  # no link is open yet
    for _ in range(2):
        net.join("a", "b")
        net.pass_time(REDIALLED_S)
    assert [record.peer for record in net.recorded("tail_lost")] == ["a"]
    assert before == 2
    event = net.notifications[-1].event
    assert (event.publisher, event.attributes["n"]) == (sender, 3)
