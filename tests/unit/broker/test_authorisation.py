"""Rights in the machine: what clients hold, and what happens to it when their rights change."""

from typing import Any

import pytest

from godwit.broker.authorisation import GREETS_WITHIN_S, RightsChanged, RightsGranted
from godwit.broker.client_rights import BeyondGrants, ClientRights
from godwit.broker.effects import Opened
from godwit.broker.messages import (
    Accepted,
    Attach,
    Attached,
    Bye,
    Delivery,
    Publish,
    Quench,
    Received,
    Refused,
    Request,
    Retain,
    Revoked,
    Subscribe,
)
from godwit.filters.events import event
from godwit.filters.filters import FALSE, TRUE
from godwit.filters.language import parse, to_text
from tests.property.roaming_line import RoamingLine
from tests.snapshots import reborn

FAMILIES = ("tree", "graph")


def rights(
    subscribe: str, publish: str = "TRUE", user: str = "ann", beyond_grants: BeyondGrants = "refuse"
) -> ClientRights:
    return ClientRights(user, parse(publish), parse(subscribe), beyond_grants)


class Net(RoamingLine):
    """Three brokers; a publisher with every right at a."""

    def __init__(self, family: str = "tree", **config: Any) -> None:
        super().__init__(family=family, **config)
        self.requests: dict[str, int] = {}
        self.sequence = 0
        self.say("a", "p", Attach("pub", mode="named"))
        self.run()

    def come(self, at: str, connection: str, client: str, granted: ClientRights | None, **attach: Any) -> None:
        if granted is not None:
            self.give(at, RightsGranted(client, granted))
        self.say(at, connection, Attach(client, **{"mode": "named", **attach}))
        self.pass_time(1.0)
        [attached] = [said for said in self.hears(connection) if isinstance(said, Attached)]
        self.requests[connection] = attached.accepted

    def request(self, at: str, connection: str, wish: Any) -> Any:
        self.requests[connection] = number = self.requests.get(connection, 0) + 1
        self.say(at, connection, Request(number, wish))
        self.pass_time(1.0)
        return [said for said in self.hears(connection) if isinstance(said, Accepted | Refused)][-1]

    def change(self, at: str, granted: ClientRights | None, user: str = "ann", clients: tuple[str, ...] = ()) -> None:
        self.give(at, RightsChanged(user, granted, clients))
        self.pass_time(1.0)

    def publish(self, **attributes: Any) -> None:
        self.sequence += 1
        said = event(attributes, publisher="pub", sequence=self.sequence)
        self.request("a", "p", Publish(said))

    def hears(self, connection: str, kind: type = object) -> list[Any]:
        return [said for _, over, said in self.told if over == connection and isinstance(said, kind)]

    def got(self, connection: str) -> list[int]:
        return [said.event.sequence for said in self.hears(connection, Delivery)]

    def session(self, at: str, client: str) -> Any:
        return self.machine(at).sessions.session(client)


# ---------------------------------------------------------------- retained events


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_retained_event_that_is_there_must_be_granted_too_wherever_it_was_published(
    family: str, clear: bool
) -> None:
    net = Net(family)
    net.come("c", "x", "ann", rights("TRUE", "kind = 'parking'"))
    alarm = event({"kind": "alarm"}, publisher="pub", sequence=1)
    parking = event({"kind": "parking"}, publisher="ann", sequence=1)
    assert isinstance(net.request("c", "x", Retain(parking, "hall")), Accepted)
    assert isinstance(net.request("a", "p", Retain(alarm, "hall")), Accepted)
    refused = net.request("c", "x", Retain(parking, "hall", clear))
    assert isinstance(refused, Refused)
    assert "replace or clear the event that is retained by the key 'hall'" in refused.reason
    for name in ("a", "b", "c"):
        assert net.machine(name).components["retained"].event("hall").attributes["kind"] == "alarm"


def test_what_a_client_without_rights_known_here_retains_is_its_own_affair() -> None:
    net = Net()
    net.come("c", "x", "ann", None)
    alarm = event({"kind": "alarm"}, publisher="pub", sequence=1)
    net.request("a", "p", Retain(alarm, "hall"))
    assert isinstance(
        net.request("c", "x", Retain(event({}, publisher="ann", sequence=1), "hall", clear=True)), Accepted
    )


def test_of_several_values_each_must_be_granted_in_what_is_replaced() -> None:
    net = Net()
    net.come("c", "x", "ann", rights("TRUE", "topic = 'a'"))
    both = event({"topic": ["a", "b"]}, publisher="pub", sequence=1)
    net.request("a", "p", Retain(both, "a"))
    mine = event({"topic": "a"}, publisher="ann", sequence=1)
    assert isinstance(net.request("c", "x", Retain(mine, "a")), Refused)


def test_of_several_values_that_the_server_asserts_one_is_enough_as_when_the_event_was_published() -> None:
    net = Net(asserted=("groups",))
    net.give("c", Opened("x", {"groups": ("east", "west")}))
    net.come("c", "x", "ann", rights("TRUE", "sender.groups = 'west'"))
    for sequence in (1, 2):
        mine = event({"n": sequence}, publisher="ann", sequence=sequence)
        assert isinstance(net.request("c", "x", Retain(mine, "hall")), Accepted)
    held = net.machine("c").components["retained"].event("hall")
    assert held.attributes == {"n": 2, "sender.groups": ("east", "west")}


# ---------------------------------------------------------------- rights that end


@pytest.mark.parametrize("family", FAMILIES)
def test_a_subscription_that_is_not_covered_any_more_ends_and_the_client_is_told(family: str) -> None:
    net = Net(family)
    net.come("c", "x", "ann", rights("TRUE"))
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.request("c", "x", Subscribe(("ann", "news"), parse("kind = 'news' AND n > 0")))
    net.publish(n=1, kind="fire")
    net.change("c", rights("kind = 'news'"))
    [revoked] = net.hears("x", Revoked)
    assert revoked.ended == ("all",)
    assert revoked.narrowed == ()
    assert "only to what matches: kind = 'news'" in revoked.reason
    net.publish(n=2, kind="fire")
    net.publish(n=3, kind="news")
    assert net.got("x") == [1, 3]
    assert list(net.session("c", "ann").subscriptions) == ["news"]
    net.change("c", rights("kind = 'news'"))  # nothing new
    assert len(net.hears("x", Revoked)) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_subscription_is_narrowed_if_the_rights_say_so(family: str) -> None:
    net = Net(family)
    net.come("c", "x", "ann", rights("TRUE"))
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.change("c", rights("kind = 'news'", beyond_grants="narrow"))
    assert [said.narrowed for said in net.hears("x", Revoked)] == [("all",)]
    assert to_text(net.session("c", "ann").subscriptions["all"].filter) == "n > 0 AND kind = 'news'"
    net.publish(n=1, kind="fire")
    net.publish(n=2, kind="news")
    assert net.got("x") == [2]


def test_a_subscription_that_was_narrowed_and_ends_is_told_again() -> None:
    net = Net()
    net.come("c", "x", "ann", rights("TRUE"), mode="relocate")
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.change("c", rights("kind = 'news'", beyond_grants="narrow"))
    net.change("c", rights("kind = 'fire'"))
    assert [(said.narrowed, said.ended) for said in net.hears("x", Revoked)] == [(("all",), ()), ((), ("all",))]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_waits_and_is_not_covered_any_more_is_not_delivered_and_counted_in_the_receipt(family: str) -> None:
    net = Net(family)
    net.come("c", "x", "ann", rights("TRUE"))
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.publish(n=1, kind="fire")  # sent, and not confirmed
    net.hang_up("c", "x")
    net.publish(n=2, kind="fire")
    net.publish(n=3, kind="news")
    net.change("c", rights("kind = 'news'"))
    assert net.session("c", "ann").queue.purged == {"rights": 1}
    net.come("c", "y", "ann", rights("kind = 'news'"))
    assert net.got("y") == [3]
    [attached] = net.hears("y", Attached)
    assert attached.receipt.purged == {"rights": 2}
    assert [said.ended for said in net.hears("y", Revoked)] == [("all",)]
    net.hang_up("c", "y")
    net.come("c", "z", "ann", rights("kind = 'news'"))
    assert net.hears("z", Revoked) == []  # it was told


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_that_comes_with_fewer_rights_gets_less(family: str) -> None:
    net = Net(family)
    net.come("c", "x", "ann", rights("TRUE"))
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.hang_up("c", "x")
    net.publish(n=1, kind="fire")
    net.publish(n=2, kind="news")
    net.come("c", "y", "ann", rights("kind = 'news'"))
    assert net.got("y") == [2]
    assert [said.ended for said in net.hears("y", Revoked)] == [("all",)]


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_sessions_of_a_user_that_is_gone_end(family: str, present: bool) -> None:
    net = Net(family)
    for client in ("ann", "ann/phone", "bob"):
        net.come("c", f"{client} c", client, rights("TRUE", user=client.partition("/")[0]))
        net.request("c", f"{client} c", Subscribe((client, "all"), parse("n > 0")))
    if not present:
        net.hang_up("c", "ann/phone c")
    net.change("c", None)
    assert [session.client for session in net.machine("c").sessions] == ["bob"]
    assert [said.reason for said in net.hears("ann c", Bye)] == ["the user was removed"]
    net.publish(n=1)
    assert net.got("ann c") == []
    assert net.got("ann/phone c") == []
    assert net.got("bob c") == [1]


def test_a_user_that_is_gone_before_its_client_greets_has_no_rights_and_later_ones_count() -> None:
    net = Net()
    net.come("c", "first", "ann", rights("TRUE"))
    net.request("c", "first", Subscribe(("ann", "all"), parse("n > 0")))
    net.hang_up("c", "first")
    net.give("c", RightsGranted("ann", rights("TRUE")))  # it has connected again, and is let in
    net.change("c", None)
    net.come("c", "second", "ann", None)  # its greeting was under way
    assert net.machine("c").sessions.authority.rights_of("ann") == rights("TRUE").without_any()
    net.change("c", rights("n > 5"))
    net.request("c", "second", Subscribe(("ann", "some"), parse("n > 6")))
    net.change("c", rights("n > 8"))
    assert [said.ended for said in net.hears("second", Revoked)] == [("some",)]


def test_a_client_whose_name_is_no_longer_its_users_goes() -> None:
    net = Net()
    net.come("c", "x", "robot", rights("TRUE"))
    net.change("c", rights("TRUE"), clients=("robot",))
    assert net.session("c", "robot") is not None
    net.change("c", rights("TRUE"), clients=("other",))
    assert net.session("c", "robot") is None
    assert [said.reason for said in net.hears("x", Bye)] == ["the name is no longer this user's"]


def test_a_token_with_rights_of_its_own_is_not_changed_by_the_user_file() -> None:
    net = Net()
    own = ClientRights("ann", TRUE, TRUE, from_token=True)
    net.come("c", "x", "ann", own)
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.change("c", None)
    net.publish(n=1)
    assert net.got("x") == [1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mode", ["named", "relocate"])
def test_a_session_that_moves_is_examined_by_the_rights_that_it_has_there(family: str, mode: str) -> None:
    net = Net(family)
    net.come("c", "x", "ann", rights("TRUE"), mode=mode)
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.request("c", "x", Subscribe(("ann", "news"), parse("kind = 'news'")))
    [attached] = net.hears("x", Attached)
    net.hang_up("c", "x")
    net.publish(n=1, kind="fire")
    net.publish(n=2, kind="news")
    known = {"session": attached.session, "home": "c", "attempt": 2} if mode == "relocate" else {}
    net.come("b", "y", "ann", rights("kind = 'news'"), mode=mode, **known)
    assert net.got("y") == [2]
    assert [said.ended for said in net.hears("y", Revoked)] == [("all",)]
    net.publish(n=3, kind="fire")
    net.publish(n=4, kind="news")
    assert net.got("y") == [2, 4]


@pytest.mark.parametrize("family", FAMILIES)
def test_rights_that_end_while_a_session_is_on_its_way_have_ended_when_it_comes(family: str) -> None:
    net = Net(family)
    net.come("c", "x", "ann", rights("TRUE"), mode="relocate")
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    [attached] = net.hears("x", Attached)
    net.hang_up("c", "x")
    net.publish(n=1, kind="fire")
    net.block("bc")
    net.give("b", RightsGranted("ann", rights("TRUE")))
    wanted = (Subscribe(("ann", "all"), parse("n > 0")),)
    net.say("b", "y", Attach("ann", session=attached.session, home="c", attempt=2, wanted=wanted))
    net.run()
    net.publish(n=2, kind="fire")
    net.change("b", rights("kind = 'news'"))
    net.block()
    net.pass_time(30.0)
    assert len(net.hears("y", Attached)) == 1
    assert net.got("y") == []
    assert [said.ended for said in net.hears("y", Revoked)] == [("all",)]


def test_a_shared_subscription_that_ends_leaves_its_group() -> None:
    net = Net()
    for client, user in (("ann", "ann"), ("bob", "bob")):
        net.come("c", client, client, rights("TRUE", user=user))
        net.request("c", client, Subscribe((client, "all"), parse("n > 0"), share="g"))
    net.change("c", rights("FALSE"))
    for n in range(1, 9):
        net.publish(n=n)
    assert net.got("ann") == []
    assert len(net.got("bob")) == 8


def test_who_may_not_publish_everything_any_more_hears_no_more_what_others_want() -> None:
    net = Net()
    net.come("c", "x", "ann", rights("TRUE"), quench=True)
    net.change("c", rights("TRUE", "n = 1"))
    assert net.hears("x", Quench)[-1] == Quench(TRUE)
    told = len(net.hears("x", Quench))
    net.come("b", "y", "bob", None)
    net.request("b", "y", Subscribe(("bob", "s"), parse("z = 1")))
    net.pass_time(60.0)
    assert len(net.hears("x", Quench)) == told


def test_a_right_that_comes_back_brings_nothing_back_until_the_client_asks_again() -> None:
    net = Net()
    net.come("c", "x", "ann", rights("TRUE"), mode="relocate")
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.change("c", ClientRights("ann", FALSE, FALSE))
    net.change("c", rights("TRUE"))
    net.publish(n=1)
    assert net.got("x") == []
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.publish(n=2)
    assert net.got("x") == [2]
    [attached] = net.hears("x", Attached)
    net.say("c", "x", Received(1))
    net.hang_up("c", "x")
    net.come(
        "c", "y", "ann", rights("TRUE"), mode="relocate", session=attached.session, home="c", receipt=1, received=1
    )
    assert net.hears("y", Revoked) == []  # it is outdated


def test_rights_of_clients_without_a_session_are_forgotten_in_time() -> None:
    net = Net()
    net.come("c", "x", "ann", rights("kind = 'news'"))
    for number in range(5_000):
        net.give("c", RightsGranted(f"bob/{number}", rights("TRUE", user="bob")))
        net.now += 1.0
    authorisation = net.machine("c").components["authorisation"]
    assert len(authorisation.snapshot().entries) <= 1_025
    assert authorisation.rights_of("ann") == rights("kind = 'news'")


def test_clients_without_a_session_are_looked_for_at_powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.broker.authorisation.ENTRIES_MIN", 4)
    net, known = Net(), []
    for number in range(8):
        net.give("c", RightsGranted(f"bob/{number}", rights("TRUE", user="bob")))
        known.append(len(net.machine("c").components["authorisation"].snapshot().entries))
        net.pass_time(GREETS_WITHIN_S + 1)
    assert known == [1, 2, 3, 1, 2, 3, 1, 2]


def test_a_client_whose_greeting_comes_after_those_of_many_others_has_no_right_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("godwit.broker.authorisation.ENTRIES_MIN", 4)
    net = Net()
    net.give("c", RightsGranted("ann", rights("kind = 'news'")))
    net.give("c", RightsGranted("eve", rights("TRUE", user="eve")))
    net.change("c", None, "eve")  # the user is removed before its client greets
    for number in range(30):
        net.give("c", RightsGranted(f"bob/{number}", rights("TRUE", user="bob")))
    authorisation = net.machine("c").components["authorisation"]
    assert authorisation.rights_of("ann") == rights("kind = 'news'")
    assert authorisation.rights_of("eve").subscribe == FALSE


def test_rights_are_in_snapshots() -> None:
    net = Net()
    assert "authorisation" not in net.machine("c").snapshot().components
    net.come("c", "x", "ann", rights("TRUE"))
    net.request("c", "x", Subscribe(("ann", "all"), parse("n > 0")))
    net.publish(n=1, kind="fire")
    net.hang_up("c", "x")
    net.change("c", rights("kind = 'news'"))
    again = reborn(net.machine("c"))
    assert again.snapshot() == net.machine("c").snapshot()
    assert again.components["authorisation"].rights_of("ann") == rights("kind = 'news'")
