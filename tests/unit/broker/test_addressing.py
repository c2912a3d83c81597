"""The `to` of events is tested within a bound of steps for each user, and what is left out is counted."""

from typing import Any

import pytest

from godwit.broker import addressing, retained
from godwit.broker.messages import Attach, Attached, Context, Delivery, Publish, Request, Retain, Subscribe
from godwit.broker.session import Session, steps_of
from godwit.filters import TRUE, parse
from godwit.filters.events import Event, event
from tests.property.roaming_line import RoamingLine

TO = parse("team = 'red' OR team = 'blue'")


class Net(RoamingLine):
    """Clients at a with contexts of their own, and a publisher there."""

    def __init__(self) -> None:
        super().__init__(family="tree")
        self.say("a", "p", Attach("pub", mode="named"))
        self.sequence = 0

    def member(self, client: str, mode: str = "named", **context: Any) -> None:
        self.say("a", client, Attach(client, mode=mode, attempt=int(mode != "named")))
        self.say("a", client, Request(1, Context(context)))
        self.say("a", client, Request(2, Subscribe((client, "s"), TRUE)))

    def happens(self) -> Event:
        self.sequence += 1
        return event({"n": self.sequence}, publisher="pub", sequence=self.sequence, to=TO)

    def publish(self) -> None:
        self.say("a", "p", Request(self.sequence + 1, Publish(self.happens())))

    def who_got(self, sequence: int) -> list[str]:
        """Connections over which an event came, in that order."""
        deliveries = [(over, said.event) for _, over, said in self.told if isinstance(said, Delivery)]
        return [over for over, each in deliveries if each.sequence == sequence]

    def lost_more(self, at: str, connection: str) -> int:
        """What the receipt says that a client gets there."""
        [receipt] = [
            said.receipt
            for where, over, said in self.told
            if (where, over) == (at, connection) and isinstance(said, Attached)
        ]
        return int(receipt.lost_more)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two contexts with one team are tested for each user: two steps for the literals, four for what is compared."""
    monkeypatch.setattr(addressing, "STEPS_MAX", 7)
    monkeypatch.setattr(addressing, "EARLIER_STEPS_MAX", 7)


def test_steps_count_values_and_long_texts() -> None:
    assert [steps_of(1), steps_of("red"), steps_of("x" * 64), steps_of("x" * 640)] == [1, 1, 2, 11]
    assert steps_of((1, 2, 3)) == 3
    assert steps_of(("x" * 40, "y" * 40)) == 3


@pytest.mark.usefixtures("few_steps")
def test_tests_of_one_event_are_bounded_for_each_user_and_receipts_count_what_was_not_tested() -> None:
    net = Net()
    for number in range(4):
        net.member(f"eve/{number}", team="red", number=number)
    net.member("ann", team="red", number=9)
    net.publish()
    assert sorted(net.who_got(1)) == ["ann", "eve/0", "eve/1"]
    for number in range(4):
        net.say("a", f"again{number}", Attach(f"eve/{number}", mode="named"))
    assert [net.lost_more("a", f"again{number}") for number in range(4)] == [0, 0, 1, 1]


@pytest.mark.usefixtures("few_steps")
def test_sessions_in_one_context_share_a_test() -> None:
    net = Net()
    for number in range(3):
        net.member(f"eve/{number}", team="red")
    net.publish()
    assert sorted(net.who_got(1)) == ["eve/0", "eve/1", "eve/2"]


def test_a_context_of_many_values_takes_as_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    tested: list[str] = []
    is_addressed = Session.is_addressed

    def counting(session: Session, event: Event) -> bool:
        tested.append(session.client)
        return is_addressed(session, event)

    monkeypatch.setattr(addressing, "STEPS_MAX", 1_000)
    monkeypatch.setattr(Session, "is_addressed", counting)
    net = Net()
    for number in range(20):
        net.member(f"eve/{number}", team=tuple(f"{number}-{n}" for n in range(100)))
    net.publish()
    assert len(tested) == 3  # of 400 steps each


@pytest.mark.usefixtures("few_steps")
def test_a_restored_broker_leaves_out_the_same() -> None:
    net = Net()
    for number in range(4):
        net.member(f"eve/{number}", team="red", number=number)
    net.publish()
    net.start_again("a", keeps_disk=True)
    for number in range(4):
        net.say("a", f"again{number}", Attach(f"eve/{number}", mode="named"))
    net.say("a", "q", Attach("pub", mode="named"))
    net.say("a", "q", Request(2, Publish(net.happens())))
    assert sorted(net.who_got(2)) == ["again0", "again1"]


@pytest.mark.usefixtures("few_steps")
def test_tests_of_what_came_before_a_session_are_bounded_too() -> None:
    net = Net()
    net.member("ann", "relocate", team="red")
    net.block("ab")
    wish = Subscribe(("ann", "s"), TRUE)
    session = net.sessions_told()[-1]
    net.say("b", "ann2", Attach("ann", attempt=2, since=1, home="a", session=session, wanted=(wish,)))
    net.say("b", "q", Attach("q", mode="named"))
    for number in range(1, 7):
        said = event({"n": number}, publisher="q", sequence=number, to=TO)
        net.say("b", "q", Request(number, Publish(said)))
    net.block()
    net.pass_time(60.0)
    came = [said.event.sequence for _, over, said in net.told if over == "ann2" and isinstance(said, Delivery)]
    assert came == [1, 2, 3, 4]
    assert net.lost_more("b", "ann2") == 2


def test_retained_events_with_a_to_count_by_the_context_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "STEPS_AT_ONCE", 500)
    net = Net()
    for number in range(4):
        net.say("a", "p", Request(number + 1, Retain(net.happens(), f"k{number}")))
    for client, values in (("ann", "red"), ("bob", ("red", *(f"{n}" for n in range(99))))):
        net.say("a", client, Attach(client, mode="named"))
        net.say("a", client, Request(1, Context({"team": values})))
        net.say("a", client, Request(2, Subscribe((client, "s"), TRUE, retained=True)))
    assert len([said for _, over, said in net.told if over == "ann" and isinstance(said, Delivery)]) == 4
    assert len([said for _, over, said in net.told if over == "bob" and isinstance(said, Delivery)]) == 2


def delivered(monkeypatch: pytest.MonkeyPatch, few: int, **bounds: int) -> tuple[list[str], list[str]]:
    """Who gets an event, of forty clients with contexts of their own, and whose it is lost."""
    monkeypatch.setattr(addressing, "FEW", few)
    for name, value in bounds.items():
        monkeypatch.setattr(addressing, name, value)
    net = Net()
    for number in range(40):
        team: Any = ("red", "green")[number % 2]
        net.member(f"u{number % 4}/{number}", team=team if number < 20 else (team, "blue", *map(str, range(number))))
    net.publish()
    got = net.who_got(1)
    for number in range(40):
        net.say("a", f"again{number}", Attach(f"u{number % 4}/{number}", mode="named"))
    return got, [f"u{number % 4}/{number}" for number in range(40) if net.lost_more("a", f"again{number}")]


def test_many_sessions_are_tested_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    meant = [f"u{number % 4}/{number}" for number in range(40) if number >= 20 or number % 2 == 0]
    one_by_one, lost = delivered(monkeypatch, 1_000)
    assert (sorted(one_by_one), lost) == (sorted(meant), [])
    assert delivered(monkeypatch, 0) == (one_by_one, [])
    assert delivered(monkeypatch, 0, STEPS_MAX=1, ALL_STEPS_MAX=1) == (one_by_one, [])


def test_without_room_for_columns_all_users_share_a_bound_and_small_contexts_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    got, lost = delivered(monkeypatch, 0, COLUMN_STEPS_MAX=0, STEPS_MAX=2_000, ALL_STEPS_MAX=1_000)
    assert {client for client in got if int(client.partition("/")[2]) < 20} == {
        f"u{number % 4}/{number}" for number in range(0, 20, 2)
    }
    assert lost == [f"u{number % 4}/{number}" for number in range(40 - len(lost), 40)]
    assert 0 < len(lost) < 20
