"""One user cannot take the room of others: sessions, bytes of queues and notes, retained events."""

from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Close, Closed, Effect, Heard, Opened, StartTimer, Tell, TimerDue, TimerKey, Trace
from godwit.broker.held_filters import entry_size
from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Accepted,
    Advertise,
    Attach,
    Attached,
    Bye,
    Note,
    Publish,
    Refused,
    Request,
    Retain,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.user_quotas import user_of
from godwit.filters import TRUE, parse
from godwit.filters.events import Event, event
from godwit.mobility import mobile_broker
from tests.snapshots import reborn


class Edge:
    """One broker, and clients that come and go."""

    def __init__(self, **limits: Any) -> None:
        self.broker: Broker = mobile_broker("b", {}, BrokerConfig(limits=Limits(**limits)))
        self.now = 0.0
        self.requests: dict[str, int] = {}
        self.traces: list[Any] = []
        self.timers: set[TimerKey] = set()

    def tell(self, input: Any) -> list[Effect]:
        self.now += 1.0
        effects = self.broker.handle(input, self.now)
        self.traces += [effect.record for effect in effects if isinstance(effect, Trace)]
        self.timers |= {effect.key for effect in effects if isinstance(effect, StartTimer)}
        return effects

    def fire(self, key: TimerKey) -> bool:
        """A timer is due, if it runs."""
        if key not in self.timers:
            return False
        self.timers.remove(key)
        self.tell(TimerDue(key))
        return True

    def come(self, client: str) -> str:
        """A client comes: why it was turned away, or ""."""
        self.tell(Opened(client))
        effects = self.tell(Heard(client, Attach(client, mode="named")))
        said = [effect.message for effect in effects if isinstance(effect, Tell) and effect.connection == client]
        self.requests[client] = 0
        if any(isinstance(message, Attached) for message in said):
            return ""
        [bye] = [message for message in said if isinstance(message, Bye)]
        assert any(isinstance(effect, Close) and effect.peer == client for effect in effects)
        return str(bye.reason)

    def go(self, client: str) -> None:
        self.tell(Closed(client))

    def ask(self, client: str, wish: Any) -> str:
        """A request: why it was refused, or ""."""
        self.requests[client] += 1
        effects = self.tell(Heard(client, Request(self.requests[client], wish)))
        [answer] = [
            effect.message
            for effect in effects
            if isinstance(effect, Tell) and isinstance(effect.message, Accepted | Refused)
        ]
        return answer.reason if isinstance(answer, Refused) else ""

    @property
    def clients(self) -> list[str]:
        return sorted(session.client for session in self.broker.sessions)

    @property
    def ended(self) -> list[str]:
        """Clients whose session has ended, the first before the others."""
        return [record.peer for record in self.traces if record.kind == "session_ended"]

    def held(self, user: str) -> int:
        return sum(each.queue.bytes for each in self.broker.sessions if user_of(each.client) == user)


def test_one_user_cannot_fill_all_sessions() -> None:
    edge = Edge(sessions_max=10, user_share=0.5)
    for n in range(5):
        assert edge.come(f"eve/{n}") == ""
    reason = edge.come("eve/5")
    assert "limits.user_share" in reason
    assert "'eve'" in reason
    assert "5" in reason
    for n in range(5):
        assert edge.come(f"ann/{n}") == ""
    assert len(edge.clients) == 10


def test_the_oldest_idle_session_of_the_same_user_makes_room() -> None:
    edge = Edge(sessions_max=4, user_share=0.5)
    edge.come("ann/old")
    edge.go("ann/old")
    edge.come("eve/1")
    edge.come("eve/2")
    edge.ask("eve/2", Subscribe(("eve/2", "s"), TRUE))
    edge.go("eve/2")
    edge.go("eve/1")
    assert edge.come("eve/3") == ""
    assert edge.clients == ["ann/old", "eve/1", "eve/3"]
    assert edge.come("eve/1") == ""  # its own session is there still
    assert len(edge.broker.routing.matcher) == 0  # type: ignore[attr-defined]
    assert [(record.peer, record.detail) for record in edge.traces if record.kind == "session_ended"] == [
        ("eve/2", "its user has begun another session (limits.user_share)")
    ]


def test_at_a_full_broker_a_user_makes_room_by_itself_and_never_by_others() -> None:
    edge = Edge(sessions_max=4, user_share=0.75)
    for client in ("ann/1", "ann/2", "bob/1", "eve/1"):
        edge.come(client)
        edge.go(client)
    assert edge.come("bob/2") == ""
    assert edge.clients == ["ann/1", "ann/2", "bob/2", "eve/1"]
    assert "sessions" in edge.come("new")


def test_without_a_share_nothing_changes() -> None:
    edge = Edge(sessions_max=3)
    for n in range(3):
        edge.come(f"eve/{n}")
        edge.go(f"eve/{n}")
    assert edge.come("eve/3") == "this broker has no room for more than 3 sessions"
    assert len(edge.clients) == 3


def test_who_was_given_another_name_counts_by_it() -> None:
    assert user_of("ann") == user_of("ann/phone") == user_of("ann/a/b") == "ann"
    assert user_of("gateway-7") == "gateway-7"


BIG = 1_000


def large(n: int) -> Event:
    return event({"n": n}, publisher="p", sequence=n, payload=bytes(BIG))


def with_queues(budget: int, **limits: Any) -> Edge:
    """Two users with two clients each, all away but eve/here, and a publisher."""
    edge = Edge(user_bytes_max=budget, **limits)
    edge.come("p")
    for client in ("eve/1", "eve/2", "eve/here", "ann/1"):
        edge.come(client)
        edge.ask(client, Subscribe((client, "s"), TRUE))
        if client != "eve/here":
            edge.go(client)
    return edge


def test_queues_of_one_user_have_one_budget_and_those_of_others_are_not_touched() -> None:
    budget = 40 * BIG
    edge = with_queues(budget)
    for n in range(1, 31):
        edge.ask("p", Publish(large(n)))
        assert edge.held("eve") <= budget
    assert edge.held("eve") > budget / 2
    kept = {session.client: len(session.queue) for session in edge.broker.sessions}
    assert kept["ann/1"] == kept["eve/here"] == 30  # one is another's, and one is connected
    assert kept["eve/1"] < kept["eve/2"]  # the oldest idle one goes first
    lost = [record.detail for record in edge.traces if record.kind == "lost"]
    assert len(lost) == 60 - kept["eve/1"] - kept["eve/2"]
    assert set(lost) == {"user_bytes"}


def test_a_restored_broker_takes_the_same_events() -> None:
    edge, twin = with_queues(40 * BIG), with_queues(40 * BIG)
    for n in range(1, 31):
        edge.ask("p", Publish(large(n)))
        twin.ask("p", Publish(large(n)))
        twin.broker = reborn(twin.broker)
        assert repr(twin.broker.snapshot()) == repr(edge.broker.snapshot())


def test_notes_are_bounded_together_for_a_client_and_for_a_user() -> None:
    edge = Edge(note_bytes_max=100, notes_bytes_max=1_000, user_bytes_max=1_500)
    edge.come("eve/1")
    edge.come("eve/2")
    answers = [edge.ask("eve/1", Note(f"key-{n:02}", bytes(90))) for n in range(12)]
    assert answers[:10] == [""] * 10
    assert all("limits.notes_bytes_max" in answer for answer in answers[10:])
    answers = [edge.ask("eve/2", Note(f"key-{n:02}", bytes(90))) for n in range(8)]
    assert answers[:5] == [""] * 5
    assert all("limits.user_bytes_max" in answer for answer in answers[5:])
    assert edge.ask("eve/1", Note("key-00", None)) == ""
    assert edge.ask("eve/2", Note("key-99", bytes(60))) == ""


@pytest.mark.parametrize("by_bytes", [False, True])
def test_retained_events_of_one_user_leave_room_for_others(by_bytes: bool) -> None:
    room = {"retained_bytes_max": 12 * BIG} if by_bytes else {"retained_max": 10}
    edge = Edge(user_share=0.5, **room)
    edge.come("eve/1")
    edge.come("eve/2")
    edge.come("ann/1")

    def retain(client: str, key: str, *, clear: bool = False) -> str:
        number = edge.requests[client] + 1
        made = event({"topic": key}, publisher=client, sequence=number, payload=bytes(BIG))
        return edge.ask(client, Retain(made, key, clear=clear))

    answers = [retain(f"eve/{1 + n % 2}", f"t{n}") for n in range(8)]
    assert answers[:5] == [""] * 5
    assert all("limits.user_share" in answer and "'eve'" in answer for answer in answers[5:])
    assert retain("eve/1", "t0") == ""  # in the place of its own
    assert retain("ann/1", "a") == ""
    assert retain("eve/1", "t0", clear=True) == ""
    assert retain("eve/2", "new") == ""


# ---------------------------------------------------------------- filters

WIDE = parse(" OR ".join(f"a{i} = {i}" for i in range(20)))
WIDE_BYTES = entry_size("s", WIDE)


def wide(client: str, name: str = "s") -> Subscribe:
    return Subscribe((client, name), WIDE)


def test_filters_of_one_user_are_bounded_in_bytes_over_all_its_sessions() -> None:
    edge = Edge(user_filter_bytes_max=3 * WIDE_BYTES)
    for client in ("eve/1", "eve/2", "ann/1"):
        edge.come(client)
    assert edge.ask("eve/1", wide("eve/1")) == ""
    assert edge.ask("eve/1", wide("eve/1", "t")) == ""
    assert edge.ask("eve/2", Advertise(("eve/2", "s"), WIDE)) == ""
    reason = edge.ask("eve/2", wide("eve/2"))
    assert reason == (
        f"subscriptions and advertisements of user 'eve' would take {4 * WIDE_BYTES} bytes at this broker, in all "
        f"sessions: at most {3 * WIDE_BYTES} are allowed (limits.user_filter_bytes_max)"
    )
    assert "would take" in edge.ask("eve/2", Advertise(("eve/2", "t"), WIDE))
    assert edge.ask("eve/1", Subscribe(("eve/1", "s"), parse("a = 1"))) == ""  # smaller than what it replaces
    assert edge.ask("ann/1", wide("ann/1")) == ""
    assert edge.ask("eve/1", Unsubscribe(("eve/1", "t"))) == ""
    assert edge.ask("eve/2", wide("eve/2")) == ""
    assert edge.ask("eve/2", Unadvertise(("eve/2", "s"))) == ""
    assert edge.ask("eve/2", Unsubscribe(("eve/2", "s"))) == ""
    quotas = edge.broker.sessions.quotas
    assert quotas.filters.bytes == entry_size("s", parse("a = 1")) + WIDE_BYTES
    edge.tell(Heard("eve/1", Bye()))
    assert quotas.filters.bytes == WIDE_BYTES


def test_idle_sessions_of_the_same_user_end_for_the_room_of_a_filter() -> None:
    edge = Edge(user_filter_bytes_max=4 * WIDE_BYTES)
    for client in ("eve/1", "eve/2", "eve/3", "eve/4", "ann/1"):
        edge.come(client)
        if client != "eve/3":
            assert edge.ask(client, wide(client)) == ""
    for client in ("ann/1", "eve/3", "eve/2", "eve/1"):
        edge.go(client)
    assert edge.ask("eve/4", wide("eve/4", "t")) == ""
    assert edge.clients == ["ann/1", "eve/1", "eve/2", "eve/3", "eve/4"]
    assert edge.ask("eve/4", wide("eve/4", "u")) == ""
    assert edge.clients == ["ann/1", "eve/1", "eve/3", "eve/4"]  # eve/3 holds no filter
    assert edge.ask("eve/4", wide("eve/4", "v")) == ""
    assert edge.clients == ["ann/1", "eve/3", "eve/4"]
    assert "limits.user_filter_bytes_max" in edge.ask("eve/4", wide("eve/4", "w"))
    assert edge.clients == ["ann/1", "eve/3", "eve/4"]  # what would not help does not end
    assert len(edge.broker.routing.matcher) == 5  # type: ignore[attr-defined]
    assert edge.ended == ["eve/2", "eve/1"]


def test_only_a_few_sessions_end_for_one_filter() -> None:
    edge = Edge(user_filter_bytes_max=2 * WIDE_BYTES)
    small = parse("a = 1")
    for n in range(2 * WIDE_BYTES // entry_size("s", small)):
        edge.come(f"eve/{n}")
        assert edge.ask(f"eve/{n}", Subscribe((f"eve/{n}", "s"), small)) == ""
        edge.go(f"eve/{n}")
    before = len(edge.clients)
    edge.come("eve/new")
    assert edge.ask("eve/new", wide("eve/new")) != ""
    assert len(edge.clients) == before + 1


NARROW = parse(" OR ".join(f"a{i} = {i}" for i in range(5)))
NARROW_BYTES = entry_size("s", NARROW)
ROOM = ("room for filters", "eve")


def with_idle_sessions() -> Edge:
    """Eight idle sessions of eve hold all that she may have, and a connected one nothing."""
    edge = Edge(user_filter_bytes_max=8 * NARROW_BYTES)
    for n in range(8):
        edge.come(f"eve/{n}")
        assert edge.ask(f"eve/{n}", Subscribe((f"eve/{n}", "s"), NARROW)) == ""
        edge.go(f"eve/{n}")
    edge.come("eve/new")
    return edge


def test_sessions_that_make_room_for_a_filter_end_one_by_one_with_time_for_others_between_them() -> None:
    edge = with_idle_sessions()
    assert 3 * NARROW_BYTES < WIDE_BYTES <= 4 * NARROW_BYTES
    assert edge.ask("eve/new", wide("eve/new")) == ""
    ended = [len(edge.ended)]
    while edge.fire(ROOM):
        ended.append(len(edge.ended))
    assert ended == [1, 2, 3, 4, 4]
    assert edge.ended == ["eve/0", "eve/1", "eve/2", "eve/3"]
    assert edge.broker.sessions.quotas.filters.bytes == 4 * NARROW_BYTES + WIDE_BYTES


def test_while_sessions_end_for_a_filter_what_they_hold_is_not_free_for_another() -> None:
    edge = with_idle_sessions()
    assert [edge.ask("eve/new", wide("eve/new", name)) for name in "st"] == ["", ""]
    assert "limits.user_filter_bytes_max" in edge.ask("eve/new", wide("eve/new", "u"))
    while edge.fire(ROOM):
        pass
    assert edge.broker.sessions.quotas.filters.bytes <= 8 * NARROW_BYTES
    assert "limits.user_filter_bytes_max" in edge.ask("eve/new", wide("eve/new", "u"))


def test_a_session_whose_client_comes_back_before_its_turn_stays_and_another_ends() -> None:
    edge = with_idle_sessions()
    assert edge.ask("eve/new", wide("eve/new")) == ""
    assert edge.come("eve/2") == ""
    while edge.fire(ROOM):
        pass
    assert edge.ended == ["eve/0", "eve/1", "eve/3", "eve/4"]


def test_a_user_whose_filters_exceed_the_budget_begins_no_session_without_room() -> None:
    edge = Edge(user_filter_bytes_max=2 * WIDE_BYTES)
    for client in ("eve/1", "eve/2"):
        edge.come(client)
        assert edge.ask(client, wide(client)) == ""
    limits = Limits(user_filter_bytes_max=WIDE_BYTES)
    edge.broker.reconfigure({}, limits, edge.now)
    assert "limits.user_filter_bytes_max" in edge.come("eve/3")
    assert edge.come("ann/1") == ""
    edge.go("eve/2")
    assert edge.come("eve/4") == ""
    assert edge.clients == ["ann/1", "eve/1", "eve/4"]


def test_a_restored_broker_counts_the_same_filters() -> None:
    edge = Edge(user_filter_bytes_max=3 * WIDE_BYTES)
    edge.come("eve/1")
    assert edge.ask("eve/1", wide("eve/1")) == ""
    assert edge.ask("eve/1", Advertise(("eve/1", "s"), WIDE)) == ""
    before = edge.broker.sessions.quotas.filters.bytes
    edge.broker = reborn(edge.broker)
    assert edge.broker.sessions.quotas.filters.bytes == before == 2 * WIDE_BYTES
    assert edge.ask("eve/1", wide("eve/1", "t")) == ""
    assert edge.ask("eve/1", wide("eve/1", "u")) != ""
