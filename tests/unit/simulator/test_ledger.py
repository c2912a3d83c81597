"""The ledger on hand-made histories: what is owed, what is merely allowed, what must not come.

A history is told by its times alone: when a filter was asked for and had settled, when an event was published and
entered, and which events were in flight at a change.
"""

from collections.abc import Iterable

from godwit.filters.events import Attributes, event
from godwit.filters.filters import Filter, missing, some
from godwit.filters.sets import at_least, between, less_than
from godwit.simulator.ledger import NEVER, DeclaredContext, EventHistory, EventId, Ledger, RequestHistory

CHEAP, DEAR, MIDDLE = some("price", less_than(50)), some("price", at_least(50)), some("price", between(40, 60))
ALL = (CHEAP, DEAR, MIDDLE)
ID: EventId = ("p", 1)


def subscription(
    *versions: tuple[Filter | None, float, float], in_flight: Iterable[EventId] = ()
) -> RequestHistory[Filter]:
    """A subscription by its versions: filter, when it was asked for, when it had settled.

    `in_flight` is what was under way when the last one was asked for.
    """
    ledger = Ledger()
    for filter, asked_at, _ in versions:
        last = asked_at == versions[-1][1]
        ledger.asked("subscription", "s", "x", filter, asked_at, in_flight if last else ())
    [standing] = ledger.subscriptions.values()
    for version, (_, _, settled_at) in zip(standing.versions, versions, strict=True):
        version.settled_at = settled_at
    return standing


def fact(price: int, published_at: float, entered_at: float) -> EventHistory:
    found = EventHistory(event({"price": price}, publisher="p", sequence=1), published_at)
    found.entered_at = entered_at
    return found


def matching(price: int) -> set[Filter]:
    return {filter for filter in ALL if filter.holds({"price": price})}


def owes(standing: RequestHistory[Filter], price: int, at: float) -> bool:
    return standing.owes(fact(price, at, at), matching(price))


def permits(standing: RequestHistory[Filter], price: int, at: float, delivered_at: float) -> bool:
    return standing.permits(fact(price, at, at), delivered_at, matching(price))


# ---------------------------------------------------------------- owed


def test_what_a_settled_filter_matches_is_owed() -> None:
    standing = subscription((CHEAP, 1.0, 2.0))
    assert owes(standing, 10, 2.0)
    assert not owes(standing, 90, 2.0)


def test_before_it_has_settled_a_filter_is_owed_nothing_and_allowed_all_it_matches() -> None:
    standing = subscription((CHEAP, 1.0, 2.0))
    assert not owes(standing, 10, 1.5)
    assert permits(standing, 10, 1.5, 1.6)
    assert not permits(standing, 90, 1.5, 1.6)


def test_a_filter_that_never_settles_is_owed_nothing() -> None:
    assert not owes(subscription((CHEAP, 1.0, NEVER)), 10, 100.0)


def test_an_event_that_entered_before_the_filter_settled_is_not_owed_even_if_it_was_published_long_before() -> None:
    standing = subscription((CHEAP, 1.0, 5.0))
    assert not standing.owes(fact(10, 0.5, 4.9), matching(10))
    assert standing.owes(fact(10, 0.5, 5.0), matching(10))  # it waited at its publisher


def test_after_the_end_of_a_subscription_was_asked_for_nothing_is_owed() -> None:
    standing = subscription((CHEAP, 1.0, 2.0), (None, 5.0, 6.0))
    assert owes(standing, 10, 4.0)
    assert not owes(standing, 10, 5.0)
    assert not owes(standing, 10, 7.0)


def test_an_event_in_flight_when_the_subscription_ended_is_not_owed() -> None:
    standing = subscription((CHEAP, 1.0, 2.0), (None, 5.0, 6.0), in_flight=[ID])
    assert not owes(standing, 10, 4.0)
    assert permits(standing, 10, 4.0, 5.5)


def test_a_replaced_filter_has_no_gap() -> None:
    """What both filters match is owed before, while and after they change."""
    standing = subscription((CHEAP, 1.0, 2.0), (MIDDLE, 5.0, 6.0), in_flight=[ID])
    for at in (3.0, 4.99, 5.0, 5.5, 6.0, 7.0):
        assert owes(standing, 45, at)


def test_while_a_filter_is_replaced_what_only_one_of_the_two_matches_is_allowed_and_not_owed() -> None:
    standing = subscription((CHEAP, 1.0, 2.0), (MIDDLE, 5.0, 6.0))
    for price in (10, 55):
        assert not owes(standing, price, 5.5)
        assert permits(standing, price, 5.5, 5.6)
    assert owes(standing, 55, 6.0)
    assert owes(standing, 10, 4.9)


def test_three_filters_in_a_row_owe_what_all_of_them_match() -> None:
    standing = subscription((CHEAP, 1.0, 2.0), (DEAR, 3.0, 9.0), (CHEAP, 4.0, 9.0))
    assert not owes(standing, 10, 5.0)  # in between it was not wanted
    assert owes(standing, 10, 9.0)


# ---------------------------------------------------------------- permitted


def test_what_the_filter_of_another_time_matches_must_not_come() -> None:
    standing = subscription((CHEAP, 1.0, 2.0), (DEAR, 5.0, 6.0))
    assert not permits(standing, 10, 6.1, 6.2)  # the old filter was over
    assert not permits(standing, 90, 3.0, 3.1)  # the new one was not yet asked for
    assert not permits(standing, 20, 0.5, 0.6)


def test_a_late_filter_lets_an_event_come_only_if_it_was_still_in_flight() -> None:
    assert not permits(subscription((DEAR, 1.0, 2.0), (CHEAP, 5.0, 6.0)), 10, 4.0, 5.5)
    assert permits(subscription((DEAR, 1.0, 2.0), (CHEAP, 5.0, 6.0), in_flight=[ID]), 10, 4.0, 5.5)


def test_what_an_ended_subscription_let_in_may_come_after_its_end() -> None:
    """The client was away: its queue held what it had wanted."""
    standing = subscription((CHEAP, 1.0, 2.0), (None, 5.0, 6.0), in_flight=[ID])
    assert permits(standing, 10, 4.0, 100.0)
    assert not permits(standing, 10, 7.0, 100.0)


def test_a_subscription_that_expires_is_over_at_once_for_what_is_published_later() -> None:
    """Its border broker looks at its clock: nothing has to settle."""
    ledger = Ledger()
    ledger.asked("subscription", "s", "x", CHEAP, 1.0, ())
    ledger.settled(2.0, lambda client: True)
    ledger.asked("subscription", "s", "x", None, 5.0, [ID], over_at=5.01)
    [standing] = ledger.subscriptions.values()
    assert not owes(standing, 10, 4.9)  # it was in flight at the end
    assert permits(standing, 10, 4.9, 8.0)
    assert not permits(standing, 10, 5.02, 8.0)


def test_an_event_that_its_publisher_had_to_say_again_may_go_to_whoever_asked_meanwhile() -> None:
    """Its broker lost its disk before it had answered the publisher."""
    standing = subscription((CHEAP, 5.0, 6.0))
    said = fact(10, 4.0, 4.0)
    assert not standing.permits(said, 9.0, matching(10))
    said.entered_again_at = 7.0
    assert standing.permits(said, 9.0, matching(10))


# ---------------------------------------------------------------- the ledger


def test_a_change_settles_when_its_client_is_answered() -> None:
    ledger = Ledger()
    ledger.asked("subscription", "s", "x", CHEAP, 1.0, ())
    ledger.asked("subscription", "t", "x", DEAR, 1.0, ())
    ledger.settled(2.0, lambda client: client == "s")
    [first] = ledger.subscriptions["s", "x"].versions
    [second] = ledger.subscriptions["t", "x"].versions
    assert (first.settled_at, second.settled_at) == (2.0, NEVER)
    ledger.settled(3.0, lambda client: True)
    assert (first.settled_at, second.settled_at, ledger.unsettled) == (2.0, 3.0, [])


def test_a_home_that_loses_its_disk_ends_what_its_clients_had_asked_for_until_they_ask_again() -> None:
    ledger = Ledger()
    ledger.asked("subscription", "s", "x", CHEAP, 1.0, ())
    ledger.asked("subscription", "t", "x", CHEAP, 1.0, ())
    ledger.asked("advertisement", "s", "ad", DEAR, 1.0, ())
    ledger.settled(2.0, lambda client: True)
    ledger.home_lost("s", 5.0, ())
    ledger.home_lost("s", 5.5, ())  # and once more before the client was back
    lost, spared = ledger.subscriptions["s", "x"], ledger.subscriptions["t", "x"]
    assert (lost.is_down, spared.is_down) == (True, False)
    assert lost.filter == CHEAP  # as far as the client knows
    assert not owes(lost, 10, 6.0)
    assert owes(spared, 10, 6.0)
    assert owes(lost, 10, 4.0)
    ledger.home_renewed("s", 7.0, ())
    assert not owes(lost, 10, 7.5)
    ledger.settled(8.0, lambda client: True)
    assert owes(lost, 10, 8.0)
    assert ledger.advertisements["s", "ad"].versions[-1].filter == DEAR


def test_what_nobody_asks_for_any_more_is_not_lost_with_a_disk() -> None:
    ledger = Ledger()
    ledger.asked("subscription", "s", "x", CHEAP, 1.0, ())
    ledger.asked("subscription", "s", "x", None, 2.0, ())
    ledger.home_lost("s", 5.0, ())
    ledger.home_renewed("s", 6.0, ())
    assert [version.filter for version in ledger.subscriptions["s", "x"].versions] == [CHEAP, None]


def test_an_event_enters_once_however_often_brokers_take_it() -> None:
    ledger = Ledger()
    ledger.published(event({"price": 1}, publisher="p", sequence=1), 1.0)
    ledger.entered(ID, 3.0)
    ledger.entered(ID, 4.0)  # sent again after its broker lost its disk
    assert (ledger.facts[ID].published_at, ledger.facts[ID].entered_at) == (1.0, 3.0)


# ---------------------------------------------------------------- contexts

HERE = {"floor": 1}
THERE = {"floor": 2}
ON_ONE = some("floor", between(1, 1))
NOWHERE = missing("floor")


def receiver(*said: tuple[Attributes, float, float], in_flight: Iterable[EventId] = ()) -> Ledger:
    """A ledger with one client `s`, by what it said of its context, when, and when that had settled."""
    ledger = Ledger()
    for context, asked_at, settled_at in said:
        ledger.context_declared("s", context, asked_at, in_flight if asked_at == said[-1][1] else ())
        ledger.contexts["s"].versions[-1].settled_at = settled_at
    return ledger


def to(filter: Filter, at: float) -> EventHistory:
    found = EventHistory(event({}, publisher="p", sequence=1, to=filter), at)
    found.entered_at = at
    return found


def meant_by(filter: Filter, ledger: Ledger) -> set[DeclaredContext]:
    situations = [v.filter for standing in ledger.contexts.values() for v in standing.versions if v.filter is not None]
    return {situation for situation in situations if filter.holds(situation.context)}


def means(ledger: Ledger, filter: Filter, at: float) -> bool:
    return ledger.means(to(filter, at), "s", meant_by(filter, ledger))


def may_mean(ledger: Ledger, filter: Filter, at: float, delivered_at: float) -> bool:
    return ledger.may_mean(to(filter, at), "s", delivered_at, meant_by(filter, ledger))


def test_an_event_is_owed_to_whom_it_means_once_that_context_has_settled() -> None:
    ledger = receiver((HERE, 1.0, 2.0))
    assert means(ledger, ON_ONE, 2.0)
    assert not means(ledger, ON_ONE, 1.5)
    assert may_mean(ledger, ON_ONE, 1.5, 1.6)
    assert not means(ledger, NOWHERE, 2.0)


def test_before_its_broker_has_heard_of_a_context_a_client_has_none() -> None:
    ledger = receiver((HERE, 1.0, 2.0))
    assert may_mean(ledger, NOWHERE, 1.5, 1.6)
    assert not may_mean(ledger, NOWHERE, 2.0, 2.1)


def test_an_event_is_not_owed_when_its_receiver_went_elsewhere_before_it_can_have_come() -> None:
    ledger = receiver((HERE, 1.0, 2.0), (THERE, 5.0, 6.0), in_flight=[ID])
    assert not means(ledger, ON_ONE, 4.0)  # it was in flight
    assert may_mean(ledger, ON_ONE, 4.0, 7.0)
    assert not means(ledger, ON_ONE, 5.5)
    assert may_mean(ledger, ON_ONE, 5.5, 5.6)
    assert not may_mean(ledger, ON_ONE, 6.0, 6.1)
    assert means(receiver((HERE, 1.0, 2.0), (THERE, 5.0, 6.0)), ON_ONE, 4.0)  # it had come


def test_an_event_for_everybody_asks_for_no_context_and_who_never_said_one_has_none() -> None:
    ledger = Ledger()
    assert ledger.means(fact(10, 1.0, 1.0), "s", ())
    assert means(ledger, NOWHERE, 1.0)
    assert not means(ledger, ON_ONE, 1.0)


def test_what_the_server_says_counts_whatever_the_client_says() -> None:
    ledger = Ledger()
    ledger.asserted["s"] = {"floor": 1}
    ledger.context_declared("s", THERE, 1.0, ())
    ledger.settled(2.0, lambda client: True)
    assert means(ledger, ON_ONE, 2.0)
    assert not may_mean(ledger, NOWHERE, 1.5, 1.6)


def test_a_context_that_was_lost_with_a_disk_is_none_until_it_is_said_again() -> None:
    ledger = receiver((HERE, 1.0, 2.0))
    ledger.home_lost("s", 5.0, ())
    ledger.home_lost("s", 5.5, ())
    assert not means(ledger, ON_ONE, 6.0)
    assert may_mean(ledger, ON_ONE, 6.0, 6.1)
    assert may_mean(ledger, NOWHERE, 6.0, 6.1)
    ledger.home_renewed("s", 7.0, ())
    ledger.settled(8.0, lambda client: True)
    assert means(ledger, ON_ONE, 8.0)
    assert not may_mean(ledger, NOWHERE, 8.0, 8.1)


# ---------------------------------------------------------------- disks that are rolled back


def rolled_back(since: float) -> tuple[Ledger, RequestHistory[Filter]]:
    """CHEAP was replaced by DEAR at 10, which had settled at 11; at 20 the broker loses what it heard since a time."""
    ledger = Ledger()
    for filter, at in ((CHEAP, 1.0), (DEAR, 10.0)):
        ledger.asked("subscription", "s", "x", filter, at, ())
        ledger.settled(at + 1, lambda client: True)
    ledger.home_rolled_back("s", since, 20.0, ())
    return ledger, ledger.subscriptions["s", "x"]


def test_a_filter_that_was_replaced_in_lost_inputs_may_be_in_force_again_until_the_client_has_said_its_own() -> None:
    ledger, standing = rolled_back(since=9.0)
    assert standing.filter == DEAR, "as far as the client knows"
    assert permits(standing, 10, 21.0, 22.0)
    assert permits(standing, 70, 21.0, 22.0)
    assert not owes(standing, 10, 21.0)
    assert not owes(standing, 70, 21.0)
    ledger.home_renewed("s", 25.0, ())
    ledger.settled(26.0, lambda client: True)
    assert not permits(standing, 10, 27.0, 28.0)
    assert owes(standing, 70, 27.0)


def test_a_filter_that_had_settled_before_the_lost_inputs_is_the_only_one_that_can_be_in_force() -> None:
    _, standing = rolled_back(since=15.0)
    assert not permits(standing, 10, 21.0, 22.0)
    assert permits(standing, 70, 21.0, 22.0)


def test_a_context_that_was_replaced_in_lost_inputs_may_be_the_clients_again() -> None:
    ledger = Ledger()
    for floor, at in ((1, 1.0), (2, 10.0)):
        ledger.context_declared("s", {"floor": floor}, at, ())
        ledger.settled(at + 1, lambda client: True)
    ledger.home_rolled_back("s", 9.0, 20.0, ())
    contexts = ledger.contexts["s"]
    first = {
        version.filter for version in contexts.versions if version.filter and version.filter.context == {"floor": 1}
    }
    assert contexts.filter is not None
    assert contexts.filter.context == {"floor": 2}
    assert contexts.permits(fact(10, 21.0, 21.0), 22.0, first)
