"""Sessions that are compared with rights a part at a time: nothing is sent before all is compared."""

from typing import Any

import pytest

from godwit.broker.authorisation import Authorisation, RightsChanged, RightsGranted
from godwit.broker.client_rights import ClientRights, left_of
from godwit.broker.effects import TimerDue
from godwit.broker.messages import (
    Attach,
    Attached,
    Delivery,
    FetchedEvents,
    FetchEvents,
    Publish,
    Request,
    Revoked,
    Subscribe,
)
from godwit.broker.rights_reviews import REVIEWING
from godwit.broker.withdrawals import PAUSE_S
from godwit.filters.effort import Effort
from godwit.filters.events import event
from godwit.filters.filters import TRUE, any_of
from godwit.filters.language import parse
from tests.snapshots import reborn
from tests.unit.broker.test_authorisation import FAMILIES, Net, rights

COUNT, LITERALS = 8, 300
LARGE = [parse(" OR ".join(f"a{n} > {n + number}" for n in range(LITERALS))) for number in range(COUNT)]
GRANTS = any_of(*(parse(f"a{n} > 0") for n in range(LITERALS)))
COVERING = ClientRights("ann", TRUE, GRANTS)
STEPS_AT_ONCE = 6_000


class Counted:
    """The steps of comparisons with rights in each input of a broker."""

    def __init__(self, net: Net, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = [0]
        self.largest = 0
        machine = net.machine(at)
        handle = machine.handle

        def counting(input: Any, now: float) -> list[Any]:
            self.steps.append(0)
            effects: list[Any] = handle(input, now)
            return effects

        def left(filter: Any, right: Any, beyond_grants: Any, effort: Effort) -> Any:
            found = left_of(filter, right, beyond_grants, effort)
            self.steps[-1] += effort.spent
            self.largest = max(self.largest, effort.spent)
            return found

        monkeypatch.setattr(machine, "handle", counting)
        monkeypatch.setattr("godwit.broker.rights_reviews.left_of", left)

    def assert_slices(self) -> None:
        assert 0 < self.largest < sum(self.steps)
        assert max(self.steps) <= STEPS_AT_ONCE + self.largest


def with_large(net: Net, client: str = "ann", connection: str = "x", **attach: Any) -> None:
    """A client with every right and large subscriptions, at c."""
    net.come("c", connection, client, rights("TRUE", user=client.partition("/")[0]), **attach)
    for number, filter in enumerate(LARGE):
        net.request("c", connection, Subscribe((client, f"s{number}"), filter))
    net.pass_time(10.0)


def names(net: Net, at: str = "c", client: str = "ann") -> list[str]:
    session = net.session(at, client)
    return [] if session is None else list(session.subscriptions)


def is_held(net: Net, at: str = "c", client: str = "ann") -> bool:
    return bool(net.session(at, client).queue.is_held)


def publish_now(net: Net, **attributes: Any) -> None:
    """An event that reaches every broker before any timer is due."""
    net.sequence += 1
    net.requests["p"] = number = net.requests.get("p", 0) + 1
    net.say("a", "p", Request(number, Publish(event(attributes, publisher="pub", sequence=net.sequence))))
    net.run()


def test_a_session_whose_user_gets_other_rights_is_compared_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    with_large(net)
    counted = Counted(net, "c", monkeypatch)
    net.give("c", RightsChanged("ann", COVERING))
    assert is_held(net)
    net.pass_time(10.0)
    assert not is_held(net)
    assert names(net) == [f"s{n}" for n in range(COUNT)]
    counted.assert_slices()


def test_a_session_that_moves_is_compared_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    with_large(net, mode="relocate")
    [attached] = net.hears("x", Attached)
    net.hang_up("c", "x")
    counted = Counted(net, "b", monkeypatch)
    net.give("b", RightsGranted("ann", COVERING))
    net.say("b", "y", Attach("ann", session=attached.session, home="c", attempt=2))
    net.pass_time(30.0)
    assert names(net, "b") == [f"s{n}" for n in range(COUNT)]
    assert not is_held(net, "b")
    counted.assert_slices()


def test_a_client_that_comes_back_with_other_rights_is_compared_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    with_large(net)
    net.hang_up("c", "x")
    counted = Counted(net, "c", monkeypatch)
    net.give("c", RightsGranted("ann", COVERING))
    net.say("c", "y", Attach("ann", mode="named"))
    net.run()
    assert len(net.hears("y", Attached)) == 1  # it does not wait for that
    assert is_held(net)
    net.pass_time(10.0)
    assert not is_held(net)
    counted.assert_slices()


def test_many_sessions_of_a_user_are_compared_in_slices_together(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    clients = [f"ann/{number}" for number in range(5)]
    for client in clients:
        net.come("c", client, client, rights("TRUE"))
        for number in range(2):
            net.request("c", client, Subscribe((client, f"s{number}"), LARGE[number]))
    net.pass_time(10.0)
    counted = Counted(net, "c", monkeypatch)
    net.give("c", RightsChanged("ann", COVERING))
    assert all(is_held(net, client=client) for client in clients[1:])
    net.pass_time(10.0)
    assert not any(is_held(net, client=client) for client in clients)
    counted.assert_slices()


# ---------------------------------------------------------------- one thing in each slice

SOME = rights("kind = 'news'")


def small(net: Net, count: int = 4) -> None:
    net.come("c", "x", "ann", rights("TRUE"))
    for number in range(count):
        net.request("c", "x", Subscribe(("ann", f"s{number}"), parse(f"n > {number - count}")))
    net.request("c", "x", Subscribe(("ann", "news"), parse("kind = 'news'")))


@pytest.fixture
def in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.broker.authorisation.STEPS_AT_ONCE", 1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usefixtures("in_slices")
def test_what_comes_while_a_session_is_compared_waits_and_is_sent_if_it_is_covered(family: str) -> None:
    net = Net(family)
    small(net)
    net.give("c", RightsChanged("ann", SOME))
    assert len(names(net)) == 4  # the first has ended
    publish_now(net, n=1, kind="fire")
    publish_now(net, n=2, kind="news")
    assert net.got("x") == []
    net.pass_time(10.0)
    assert net.got("x") == [2]
    assert names(net) == ["news"]
    assert net.session("c", "ann").queue.purged == {"rights": 1}
    assert sorted(name for told in net.hears("x", Revoked) for name in told.ended) == ["s0", "s1", "s2", "s3"]


@pytest.mark.usefixtures("in_slices")
def test_rights_that_come_back_meanwhile_let_all_pass_that_waited() -> None:
    net = Net()
    small(net)
    net.give("c", RightsChanged("ann", SOME))
    publish_now(net, n=1, kind="fire")
    net.give("c", RightsChanged("ann", rights("TRUE")))
    net.pass_time(1.0)
    assert net.got("x") == [1]
    assert names(net) == ["s1", "s2", "s3", "news"]


@pytest.mark.usefixtures("in_slices")
def test_rights_that_change_again_meanwhile_are_compared_from_the_beginning() -> None:
    net = Net()
    small(net)
    net.give("c", RightsChanged("ann", rights("n > -4 OR kind = 'news'")))
    net.pass_time(0.05)  # some are compared, and covered
    assert len(names(net)) == 5
    net.give("c", RightsChanged("ann", SOME))
    publish_now(net, n=1, kind="fire")
    net.pass_time(10.0)
    assert names(net) == ["news"]
    assert net.got("x") == []


@pytest.mark.usefixtures("in_slices")
def test_what_was_sent_is_compared_when_the_client_comes_back_meanwhile() -> None:
    net = Net()
    small(net)
    publish_now(net, n=1, kind="fire")  # sent, and not confirmed
    net.give("c", RightsChanged("ann", SOME))
    net.hang_up("c", "x")
    net.give("c", RightsGranted("ann", SOME))
    net.say("c", "y", Attach("ann", mode="named"))
    net.run()
    assert is_held(net)
    net.pass_time(10.0)
    assert net.got("y") == []
    assert not is_held(net)
    told = [name for connection in "xy" for said in net.hears(connection, Revoked) for name in said.ended]
    assert told == ["s0", "s1", "s2", "s3"]


@pytest.mark.usefixtures("in_slices")
def test_events_that_wait_are_compared_in_slices_too() -> None:
    net = Net()
    small(net, 1)
    net.hang_up("c", "x")
    for number in range(1, 7):
        publish_now(net, n=number, kind="news" if number % 2 else "fire")
    net.give("c", RightsChanged("ann", SOME))
    net.pass_time(0.05)
    assert is_held(net)
    assert 0 < net.session("c", "ann").queue.purged.get("rights", 0) + len(names(net)) < 5
    net.pass_time(1.0)
    assert net.session("c", "ann").queue.purged == {"rights": 3}
    net.come("c", "y", "ann", SOME)
    assert net.got("y") == [1, 3, 5]


@pytest.mark.usefixtures("in_slices")
def test_events_that_come_faster_than_they_can_be_compared_are_sent_in_the_end() -> None:
    net = Net()
    small(net, 1)
    net.give("c", RightsChanged("ann", SOME))
    for number in range(1, 41):  # two in the time of a slice, which compares one
        publish_now(net, n=number, kind="news")
        if number % 2 == 0:
            net.pass_time(PAUSE_S)
    assert not is_held(net)
    assert net.got("x") == list(range(1, 41))


@pytest.mark.usefixtures("in_slices")
def test_sessions_that_hold_nothing_are_compared_in_slices_too() -> None:
    net = Net()
    clients = [f"ann/{number}" for number in range(4)]
    for client in clients:
        net.come("c", client, client, SOME)
    net.give("c", RightsChanged("ann", rights("TRUE")))
    assert [is_held(net, client=client) for client in clients] == [False, True, True, True]
    net.pass_time(1.0)
    assert not any(is_held(net, client=client) for client in clients)


@pytest.mark.usefixtures("in_slices")
def test_who_asks_for_events_meanwhile_gets_those_that_are_covered_a_slice_at_a_time() -> None:
    net = Net()
    net.come("c", "x", "ann", rights("TRUE"), mode="relocate", replicated=True)
    net.request("c", "x", Subscribe(("ann", "s"), parse("n > 0")))
    net.request("c", "x", Subscribe(("ann", "t"), parse("n > 1")))
    net.give("c", RightsChanged("ann", SOME))
    publish_now(net, n=2, kind="fire")
    publish_now(net, n=3, kind="news")
    publish_now(net, n=4, kind="fire")
    asked = 0
    while asked < 3:  # an answer compares no more events than a slice does
        net.say("c", "x", FetchEvents("pub", asked, 3))
        net.run()
        asked = net.hears("x", FetchedEvents)[-1].through
    answers = [(said.through, [item.event.sequence for item in said.items]) for said in net.hears("x", FetchedEvents)]
    assert answers == [(1, []), (2, [2]), (3, [])]


@pytest.mark.usefixtures("in_slices")
def test_shared_subscriptions_are_compared_first() -> None:
    net = Net()
    small(net)
    net.request("c", "x", Subscribe(("ann", "shared"), parse("n > 0"), share="g"))
    net.give("c", RightsChanged("ann", SOME))
    assert names(net) == ["s0", "s1", "s2", "s3", "news"]


@pytest.mark.usefixtures("in_slices")
def test_a_session_that_ends_or_leaves_is_compared_no_further() -> None:
    net = Net()
    small(net)
    net.give("c", RightsChanged("ann", SOME))
    net.give("c", RightsChanged("ann", None))
    assert net.session("c", "ann") is None
    assert net.machine("c").component(Authorisation).snapshot().reviews == {}
    net.pass_time(1.0)
    assert ("c", (REVIEWING, "ann")) not in net.timers


@pytest.mark.usefixtures("in_slices")
def test_a_session_that_moves_on_meanwhile_is_compared_where_it_comes() -> None:
    net = Net()
    net.come("c", "x", "ann", rights("TRUE"), mode="relocate")
    for number in range(4):
        net.request("c", "x", Subscribe(("ann", f"s{number}"), parse(f"n > {number}")))
    [attached] = net.hears("x", Attached)
    net.give("c", RightsChanged("ann", SOME))
    publish_now(net, n=9, kind="fire")
    publish_now(net, n=9, kind="news")
    net.hang_up("c", "x")
    net.come("b", "y", "ann", SOME, mode="relocate", session=attached.session, home="c", attempt=2)
    net.pass_time(10.0)
    assert net.session("c", "ann") is None
    assert net.got("y") == [2]
    assert names(net, "b") == []
    assert net.machine("c").component(Authorisation).snapshot().reviews == {}


@pytest.mark.usefixtures("in_slices")
def test_a_broker_that_starts_again_goes_on_comparing_and_sends_nothing_before() -> None:
    net = Net()
    small(net)
    net.give("c", RightsChanged("ann", SOME))
    publish_now(net, n=1, kind="fire")
    again = reborn(net.machine("c"))
    assert again.snapshot() == net.machine("c").snapshot()
    assert again.sessions.session("ann").queue.is_held
    told = []
    for step in range(12):
        told += again.handle(TimerDue((REVIEWING, "ann")), net.now + step)
    assert list(again.sessions.session("ann").subscriptions) == ["news"]
    assert not again.sessions.session("ann").queue.is_held
    assert not [effect for effect in told if type(getattr(effect, "message", None)) is Delivery]


@pytest.mark.usefixtures("in_slices")
def test_a_client_that_gets_every_right_without_a_user_gets_what_waited() -> None:
    net = Net()
    small(net)
    net.give("c", RightsChanged("ann", SOME))
    publish_now(net, n=1, kind="fire")
    net.give("c", RightsGranted("ann", ClientRights()))
    assert net.got("x") == [1]
    assert not is_held(net)
