"""Quenching: brokers keep the combined filter of all subscriptions, sources drop what it does not match."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Effect, Heard, Opened, StartTimer, StopTimer, Tell, Trace
from godwit.broker.messages import Accepted, Attached, Publish, Quench, Receipt, Refused, Request
from godwit.broker.quenching import MISSED_MAX, QUENCH_TIMER, Quenching
from godwit.client import Client, ClientConfig
from godwit.filters import FALSE, TRUE, Filter, event, parse
from godwit.testing import Machines, broker, machines
from tests.property.strategies import attributes, filters
from tests.snapshots import restored

LOW, HIGH, ALL = parse("value > 10"), parse("value > 20"), parse("value > 0")


def wanting(*filters: Filter) -> Callable[[], list[Filter]]:
    return lambda: list(filters)


def holding(*filters: Filter, size_max: int = 256, delay_s: float = 1.0) -> Quenching:
    """A broker's side that has told the source c1."""
    quenching = Quenching(size_max, delay_s)
    quenching.attach("c1", wanting(*filters))
    return quenching


# ------------------------------------------------------------ the broker's side


def test_a_source_that_asks_is_told_the_combined_filter() -> None:
    assert Quenching().attach("c1", wanting(HIGH, LOW)) == [Tell("c1", Quench(LOW))]
    assert Quenching().attach("c1", wanting()) == [Tell("c1", Quench(FALSE))]


def test_a_subscription_that_the_sources_filter_covers_is_not_told() -> None:
    assert holding(LOW).on_added(HIGH) == []


def test_a_subscription_that_is_not_covered_is_told_to_all_sources_at_once() -> None:
    quenching = holding(HIGH)
    quenching.attach("c2", wanting())
    effects = quenching.on_added(LOW)
    assert [effect.connection for effect in effects if isinstance(effect, Tell)] == ["c1", "c2"]
    assert quenching.held is not None
    assert quenching.held.covers(LOW)


def test_removals_are_gathered_by_a_timer_and_then_told_once() -> None:
    quenching = holding(LOW, HIGH, delay_s=2.0)
    assert quenching.on_removed(5.0) == [StartTimer(QUENCH_TIMER, 7.0)]
    assert quenching.on_removed(6.0) == []
    assert quenching.on_timer_due(wanting(HIGH)) == [Tell("c1", Quench(HIGH))]
    assert quenching.on_timer_due(wanting()) == []  # it was not running


def test_a_removal_that_changes_nothing_is_not_told() -> None:
    quenching = holding(LOW, HIGH)
    quenching.on_removed(0.0)
    assert quenching.on_timer_due(wanting(LOW)) == []


def test_the_more_there_is_to_merge_the_longer_removals_are_gathered() -> None:
    quenching = holding(*(parse(f"value = {n}") for n in range(3_000)), delay_s=2.0)
    assert quenching.on_removed(0.0) == [StartTimer(QUENCH_TIMER, 6.0)]


def test_while_nobody_asks_nothing_is_worked_out_and_nothing_is_missed() -> None:
    quenching = Quenching()
    assert quenching.on_added(LOW) == []
    assert quenching.on_removed(0.0) == []
    quenching.attach("c1", wanting(HIGH))
    quenching.detach("c1")
    assert quenching.on_added(LOW) == []
    [told] = quenching.attach("c2", wanting())
    assert isinstance(told, Tell)
    assert told.message.filter.covers(LOW)
    assert told.message.filter.covers(HIGH)
    assert quenching.snapshot().missed == ()  # it is in the filter now


def test_what_comes_while_nobody_asks_is_bounded() -> None:
    quenching = holding(HIGH)
    quenching.detach("c1")
    for n in range(MISSED_MAX + 1):
        quenching.on_added(parse(f"other = {n}"))
    assert quenching.held is None
    assert quenching.attach("c1", wanting(LOW)) == [Tell("c1", Quench(LOW))]


def test_the_timer_stops_with_the_last_source() -> None:
    quenching = holding(LOW)
    quenching.on_removed(0.0)
    assert quenching.detach("c1") == [StopTimer(QUENCH_TIMER)]
    assert quenching.detach("c9") == []
    assert quenching.attach("c1", wanting(HIGH)) == [Tell("c1", Quench(HIGH))]


@given(st.lists(filters(), max_size=12), st.lists(filters(), max_size=12), attributes(), st.integers(1, 12))
def test_the_filter_is_bounded_and_matches_whatever_a_subscription_matches(
    first: list[Filter], later: list[Filter], said: dict[str, Any], size_max: int
) -> None:
    quenching = holding(*first, size_max=size_max)
    for each in later:
        quenching.on_added(each)
    one = event(said)
    assert quenching.held is not None
    assert quenching.held.size <= size_max
    assert quenching.held.matches(one) or not any(each.matches(one) for each in (*first, *later))


def test_all_sources_are_told_when_one_attaches_while_it_is_not_known_what_is_wanted() -> None:
    quenching = holding(HIGH)
    assert quenching.attach("c2", wanting(TRUE)) == [Tell("c1", Quench(TRUE)), Tell("c2", Quench(TRUE))]


STEPS = st.one_of(
    st.tuples(st.sampled_from(["attach", "detach", "context", "dismiss"]), st.sampled_from(["c1", "c2", "c3"])),
    st.tuples(st.sampled_from(["subscribe", "unsubscribe"]), st.integers(1, 6)),
    st.tuples(st.sampled_from(["unsure", "sure", "due"]), st.just(0)),
)


@given(st.lists(STEPS, max_size=30), st.integers(1, 8))
def test_every_source_has_heard_a_filter_that_matches_whatever_is_wanted(
    steps: list[tuple[str, Any]], size_max: int
) -> None:
    """Rule 1, with several sources that come and go, and while routing is not sure what is wanted."""
    quenching, subscribed, heard, is_unsure = Quenching(size_max), set[int](), dict[str, Filter](), False

    def wanted() -> list[Filter]:
        return [TRUE] if is_unsure else [parse(f"value = {n}") for n in subscribed]

    for do, what in steps:
        effects: list[Effect] = []
        match do:
            case "attach":
                effects = quenching.attach(what, wanted)
            case "detach":
                heard.pop(what, None)
                effects = quenching.detach(what)
            case "context":
                effects = quenching.on_context(what, wanted, 0.0)
            case "dismiss":
                effects = quenching.dismiss(what)
            case "subscribe":
                subscribed.add(what)
                effects = quenching.on_added(parse(f"value = {what}")) + quenching.on_removed(0.0)
            case "unsubscribe":
                subscribed.discard(what)
                effects = quenching.on_removed(0.0)
            case "due":
                effects = quenching.on_timer_due(wanted)
            case _:
                is_unsure = do == "unsure"
        told = [effect for effect in effects if isinstance(effect, Tell)]
        heard |= {tell.connection: tell.message.filter for tell in told}
        for source, filter in heard.items():
            missing = [n for n in subscribed if not filter.matches(event({"value": n}))]
            assert not missing, (source, filter)


def test_the_brokers_side_survives_a_snapshot() -> None:
    quenching = holding(LOW)
    quenching.on_removed(0.0)
    copy = restored(quenching, Quenching())
    assert copy.on_timer_due(wanting(HIGH)) == quenching.on_timer_due(wanting(HIGH))


# ------------------------------------------------------------ the source's side


def source(filter: Filter | None, **config: Any) -> Client:
    """A source that is attached and has been told the combined filter."""
    client = Client("sensor", ClientConfig(**{"quench": True, **config}))
    meet(client, filter)
    return client


def meet(client: Client, filter: Filter | None, *, accepted: int = 0) -> list[Effect]:
    """Connect: the filter comes before `Attached`."""
    client.handle(Opened("b"), 0.0)
    effects: list[Effect] = []
    if filter is not None:
        effects += client.handle(Heard("b", Quench(filter)), 0.0)
    fresh = client.session == ""
    return effects + client.handle(Heard("b", Attached(accepted, fresh, Receipt(), "b/1/1")), 0.0)


def sent(effects: list[Effect]) -> list[Any]:
    requests = [each.message for each in effects if isinstance(each, Tell) and isinstance(each.message, Request)]
    return [request.wish.event.attributes["value"] for request in requests if isinstance(request.wish, Publish)]


def say(client: Client, *values: int) -> list[Effect]:
    return [effect for value in values for effect in client.publish({"value": value}, 0.0)]


def kinds(effects: list[Effect]) -> list[str]:
    return [each.record.kind for each in effects if isinstance(each, Trace)]


def test_a_connected_source_sends_what_the_filter_matches_and_counts_the_rest() -> None:
    client = source(LOW)
    effects = say(client, 5, 15, 7, 25)
    assert sent(effects) == [15, 25]
    assert kinds(effects) == ["quenched", "quenched"]
    assert (client.outbox.quenched, client.outbox.lost) == (2, 0)


def test_a_source_that_does_not_ask_quenches_nothing() -> None:
    assert sent(say(source(None, quench=False), 5, 15)) == [5, 15]


def test_a_source_that_was_not_told_today_quenches_nothing() -> None:
    client = source(LOW)
    client.handle(Closed("b"), 0.0)
    meet(client, None)
    assert sent(say(client, 5, 15)) == [5, 15]


def test_a_new_filter_takes_effect_at_once() -> None:
    client = source(HIGH)
    assert sent(say(client, 15)) == []
    client.handle(Heard("b", Quench(LOW)), 0.0)
    assert sent(say(client, 15)) == [15]


def test_while_disconnected_everything_is_kept_as_long_as_there_is_room() -> None:
    client = source(HIGH, buffer_events_max=4)
    client.handle(Closed("b"), 0.0)
    assert say(client, 1, 2, 30, 4) == []
    assert sent(meet(client, ALL)) == [1, 2, 30, 4]


def test_when_the_buffer_overflows_the_oldest_that_nobody_wanted_goes_first() -> None:
    client = source(HIGH, buffer_events_max=3)
    client.handle(Closed("b"), 0.0)
    assert kinds(say(client, 30, 1, 2, 40, 50)) == ["quenched", "quenched"]
    assert sent(meet(client, ALL)) == [30, 40, 50]
    assert (client.outbox.quenched, client.outbox.lost) == (2, 0)


def test_when_all_are_wanted_the_oldest_is_lost_and_recorded() -> None:
    client = source(HIGH, buffer_events_max=2)
    client.handle(Closed("b"), 0.0)
    assert kinds(say(client, 30, 40, 50)) == ["lost"]
    assert (client.outbox.quenched, client.outbox.lost) == (0, 1)
    assert sent(meet(client, ALL)) == [40, 50]


def test_without_a_filter_the_oldest_is_lost() -> None:
    client = Client("sensor", ClientConfig(buffer_events_max=2))
    assert kinds(say(client, 1, 2, 3)) == ["lost"]
    assert sent(meet(client, None)) == [2, 3]


def test_what_is_buffered_is_quenched_by_the_filter_of_today_before_it_is_sent() -> None:
    client = source(ALL)
    client.handle(Closed("b"), 0.0)
    say(client, 5, 15, 25)
    effects = meet(client, HIGH)
    assert sent(effects) == [25]
    assert kinds(effects) == ["quenched", "quenched"]


def test_what_was_under_way_is_sent_again_whatever_the_filter_says() -> None:
    client = source(ALL)
    say(client, 5)
    client.handle(Closed("b"), 0.0)
    assert sent(meet(client, HIGH)) == [5]


def test_subscriptions_and_advertisements_never_have_to_go_for_room() -> None:
    client = Client("sensor", ClientConfig(buffer_events_max=1))
    client.advertise("all", ALL, 0.0)
    say(client, 1, 2, 3)
    client.subscribe("x", ALL, 0.0)
    effects = meet(client, None)
    requests = [each.message.wish for each in effects if isinstance(each, Tell) and isinstance(each.message, Request)]
    assert [type(wish).__name__ for wish in requests] == ["Advertise", "Publish", "Subscribe"]


def test_who_has_just_advertised_quenches_nothing_until_it_hears_a_filter_made_knowing_that() -> None:
    client = source(HIGH)
    client.advertise("low", LOW, 0.0)
    assert sent(say(client, 15)) == [15]  # the broker may not have asked others yet
    client.handle(Heard("b", Accepted(2)), 0.0)
    assert sent(say(client, 15)) == [15]
    client.handle(Heard("b", Quench(HIGH)), 0.0)
    assert sent(say(client, 15)) == []


def test_a_refused_advertisement_leaves_the_filter_as_it_was() -> None:
    client = source(HIGH)
    client.advertise("low", LOW, 0.0)
    client.handle(Heard("b", Refused(1, "no right")), 0.0)
    assert sent(say(client, 15)) == []


def test_what_was_buffered_waits_for_the_advertisement_that_a_new_session_lacks() -> None:
    client = source(None)
    client.advertise("all", ALL, 0.0)
    client.handle(Heard("b", Accepted(1)), 0.0)
    client.handle(Closed("b"), 0.0)
    say(client, 15)
    client.handle(Opened("b"), 0.0)
    client.handle(Heard("b", Quench(FALSE)), 0.0)  # it asks for nothing that nobody here publishes
    effects = client.handle(Heard("b", Attached(0, True, Receipt(), "b/2/1")), 0.0)
    assert sent(effects) == [15]


# ------------------------------------------------------------ both sides, in a network


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("advertisements", ["required", "optional"])
def test_an_event_right_after_its_advertisement_is_not_quenched(advertisements: str, pause_s: float) -> None:
    """Rule 3 of `advertised.py`: no gap. The broker hears of the subscription after 0.6 s."""
    net = machines("a-b", family="graph", strategy="advertised", advertisements=advertisements)
    net.set_latency("a", "b", 0.3)
    net.set_latency("p", "a", 0.01)
    subscriber = net.attach("s", "b")
    net.ask("s", subscriber.subscribe("x", LOW, 0.0))
    net.pass_time(100.0)
    net.arrive("p", "a", quench=True)
    net.pass_time(0.03)
    net.command("p", lambda client, now: client.advertise("all", ALL, now))
    net.pass_time(pause_s)
    net.command("p", lambda client, now: client.publish({"value": 15}, now))
    net.pass_time(10.0)
    assert net.notified("s") == [("p", 1)]


def test_a_source_of_a_graph_hears_what_is_wanted_when_its_broker_is_grown_up() -> None:
    """A newborn broker does not know yet which brokers there are."""
    net = machines("a-b", family="graph")
    subscriber, source = net.attach("s", "b"), net.attach("p", "a", quench=True)
    net.ask("s", subscriber.subscribe("x", HIGH, 0.0))
    net.pass_time(5.0)
    assert sent(say(source, 15)) == [15]
    net.pass_time(100.0)
    assert kinds(say(source, 15)) == ["quenched"]


def test_a_source_of_a_tree_hears_what_is_wanted_when_its_broker_waits_for_a_neighbour_no_longer() -> None:
    net = Machines()
    net.add_broker("a", lambda incarnation: broker("a", {"b": 1.0}, BrokerConfig(), incarnation))
    source = net.attach("p", "a", quench=True)
    net.ask("p", source.publish({"value": 15}, 0.0))  # b has not come, and may want it
    net.pass_time(5.0)
    assert sent(say(source, 15)) == [15]
    net.pass_time(300.0)
    assert kinds(say(source, 15)) == ["quenched"]
