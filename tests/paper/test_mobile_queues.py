"""[mobile §3.1, §3.2, §4.3]: what the paper says of queues and of quenching, sentence by sentence. Claims H2 and H5.

Each test quotes the sentence that it holds the code to.
"""

from typing import Any

from godwit.broker.effects import Closed, Effect, Heard, Opened, Tell, Trace
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Attached, Delivery, Publish, Quench, QueueRules, Receipt, Request, Subscribe
from godwit.broker.quenching import Quenching
from godwit.broker.sessions import Sessions
from godwit.client import Client, ClientConfig
from godwit.filters import Filter, event, parse

C1, C2 = parse("value > 10"), parse("value > 20")  # footnote 1


def displayer(rules: QueueRules | None = None) -> Sessions:
    """An Event Broker with one Event Displayer, ann, which has subscribed and is now out of reach."""
    sessions = Sessions(Limits(), "eb")
    sessions.attach("c1", Attach("ann"), 0.0)
    sessions.admit("c1", Request(1, Subscribe(("ann", "x"), C1, queue=rules)), 0.0)
    sessions.detach("c1", 0.0)
    return sessions


def happen(sessions: Sessions, *values: int, now: float = 0.0, **more: Any) -> None:
    session = sessions.session("ann")
    assert session is not None
    for value in values:
        number = session.queue.taken + 1
        sessions.deliver(event({"value": value, **more}, publisher="es", sequence=number), [("ann", "x")], now)


def back_online(sessions: Sessions, now: float = 0.0) -> tuple[Receipt, list[Any]]:
    """The receipt, and the values of the events that the displayer gets when it comes back."""
    attach = Attach("ann", session="eb/1/1", receipt=1)
    messages = [each.message for each in sessions.attach("c2", attach, now) if isinstance(each, Tell)]
    [receipt] = [message.receipt for message in messages if isinstance(message, Attached)]
    return receipt, [m.event.attributes["value"] for m in messages if isinstance(m, Delivery)]


def source(c_all: Filter, room: int = 100) -> Client:
    """An Event Source that is connected and has been given c_all."""
    client = Client("es", ClientConfig(quench=True, buffer_events_max=room))
    reconnect(client, c_all)
    return client


def reconnect(client: Client, c_all: Filter) -> list[Effect]:
    client.handle(Opened("eb"), 0.0)
    effects = client.handle(Heard("eb", Quench(c_all)), 0.0)
    fresh = client.session == ""
    return effects + client.handle(Heard("eb", Attached(0, fresh, Receipt(), "eb/1/1")), 0.0)


def generate(client: Client, *values: int) -> list[Effect]:
    return [effect for value in values for effect in client.publish({"value": value}, 0.0)]


def forwarded(effects: list[Effect]) -> list[Any]:
    wishes = [each.message.wish for each in effects if isinstance(each, Tell) and isinstance(each.message, Request)]
    return [wish.event.attributes["value"] for wish in wishes if isinstance(wish, Publish)]


def of_kind(effects: list[Effect], kind: str) -> int:
    return sum(isinstance(each, Trace) and each.record.kind == kind for each in effects)


# ------------------------------------------------------------ §3.1


def test_the_broker_logs_and_queues_events_of_a_user_who_is_out_of_reach() -> None:
    """ "it is reasonable to expect the EBS to log and queue the user's events so that they can be delivered later when
    the user comes back online" """
    sessions = displayer()
    happen(sessions, 11, 12, 13)
    assert back_online(sessions) == (Receipt(replayed=3, number=2), [11, 12, 13])


def test_the_source_queues_all_events_that_are_generated_when_it_is_not_connected() -> None:
    """ "One option of course is to have the ES queue all the events that are generated when it is not connected." """
    client = source(C1)
    client.handle(Closed("eb"), 0.0)
    generate(client, 11, 12)
    assert forwarded(reconnect(client, C1)) == [11, 12]


def test_the_source_discards_older_events_once_the_buffer_fills_up() -> None:
    """ "the ES may have to discard older events once the buffer fills up" """
    client = source(C1, room=2)
    client.handle(Closed("eb"), 0.0)
    assert of_kind(generate(client, 11, 12, 13, 14), "lost") == 2
    assert forwarded(reconnect(client, C1)) == [13, 14]


# ------------------------------------------------------------ §3.2 (H2)


def test_the_source_is_given_the_or_of_all_active_subscriptions() -> None:
    """ "An Event Source is given a 'combined active subscription expression' (c_all), which represents the logical OR
    of all the currently active subscriptions on the Event Broker." """
    others = [parse("kind = 'alarm'"), parse("value < 3"), C2]
    [tell] = Quenching().attach("c1", lambda: others)
    assert isinstance(tell, Tell)
    for said in ({"kind": "alarm"}, {"value": 1}, {"value": 21}, {"value": 15}, {"kind": "news"}, {}):
        one = event(said)
        assert tell.message.filter.matches(one) == any(each.matches(one) for each in others)


def test_an_event_that_no_subscription_matches_is_discarded_at_the_source() -> None:
    """ "If c_all(e) = false … the event is discarded (quenched) at the source." """
    client = source(C1)
    effects = generate(client, 5)
    assert (forwarded(effects), of_kind(effects, "quenched")) == ([], 1)


def test_an_event_that_some_subscription_matches_is_forwarded_as_usual() -> None:
    """ "If e matches c_all, then at least one subscription will match, and the event is forwarded to the EB as
    usual." """
    assert forwarded(generate(source(C1), 11)) == [11]


def test_of_two_subscriptions_only_the_wider_is_tested() -> None:
    """ "To figure out whether an event matches either c1 or c2, it is sufficient to only test whether its 'value' is
    larger than 10." (footnote 1)"""
    quenching = Quenching()
    quenching.attach("c1", lambda: [C2, C1])
    assert quenching.held == C1


def test_a_subscription_that_changes_nothing_for_the_source_costs_no_bandwidth() -> None:
    """ "informing the sensor of newly added or deleted subscription could consume valuable wireless bandwidth" """
    quenching = Quenching()
    quenching.attach("c1", lambda: [C1])
    assert quenching.on_added(C2) == []
    quenching.on_removed(0.0)
    assert quenching.on_timer_due(lambda: [C1]) == []


def test_quenching_lets_a_disconnected_source_do_with_a_smaller_queue() -> None:
    """ "it allows the ES to discard certain events on the fly, thus reducing the potential size needed for the event
    queue" """
    client = source(C1, room=2)
    client.handle(Closed("eb"), 0.0)
    effects = generate(client, 1, 11, 2, 3, 12, 4)
    assert of_kind(effects, "lost") == 0
    assert forwarded(reconnect(client, C1)) == [11, 12]


def test_at_the_beginning_of_a_disconnection_all_events_are_saved_for_a_subscription_not_known_yet() -> None:
    """ "save all events in the buffer at the beginning of a disconnection in case a new subscription not known to the
    ES matches them" """
    client = source(C2, room=3)
    client.handle(Closed("eb"), 0.0)
    generate(client, 11, 25, 12)
    assert forwarded(reconnect(client, C1)) == [11, 25, 12]


def test_when_the_buffer_overflows_older_events_are_discarded_by_the_criteria_the_source_has() -> None:
    """ "When the buffer overflows, however, the ES can then start to discard older events according to the quenching
    criteria it has." """
    client = source(C2, room=3)
    client.handle(Closed("eb"), 0.0)
    effects = generate(client, 25, 11, 12, 26)
    assert (of_kind(effects, "quenched"), of_kind(effects, "lost")) == (1, 0)
    assert forwarded(reconnect(client, C1)) == [25, 12, 26]


# ------------------------------------------------------------ §4.3 (H5)


def test_a_broker_purges_old_events_when_the_subscription_is_time_sensitive() -> None:
    """ "an EB can purge old events from the queue if it knows that the subscription is time-sensitive" """
    sessions = displayer(QueueRules(age_s_max=60))
    happen(sessions, 11, now=0.0)
    happen(sessions, 12, now=50.0)
    assert back_online(sessions, now=100.0) == (Receipt(replayed=1, purged={"age": 1}, number=2), [12])


def test_a_broker_keeps_only_the_current_high_water_mark_when_the_client_wants_only_maximums() -> None:
    """ "Or it may keep only the more 'important' events (e.g. the current high water mark if the client is interested
    in only maximums)." """
    sessions = displayer(QueueRules(high_water="value"))
    happen(sessions, 15, 40, 20, 30)
    assert back_online(sessions) == (Receipt(replayed=1, purged={"high_water": 3}, number=2), [40])


def test_a_broker_keeps_only_the_more_important_events() -> None:
    """ "it may keep only the more 'important' events" """
    sessions = displayer(QueueRules(count_max=2, importance="value"))
    happen(sessions, 30, 11, 20, 12)
    assert back_online(sessions) == (Receipt(replayed=2, purged={"count": 2}, number=2), [30, 20])


def test_knowledge_of_the_semantics_of_a_subscription_keeps_the_latest_per_key() -> None:
    """ "knowledge about the semantics of a subscription often helps": where only the present value counts, the latest
    of each key is enough (H5)."""
    sessions = displayer(QueueRules(newest_per="tank"))
    happen(sessions, 11, 12, tank="a")
    happen(sessions, 13, tank="b")
    happen(sessions, 14, tank="a")
    assert back_online(sessions) == (Receipt(replayed=2, purged={"newest_per": 2}, number=2), [13, 14])


def test_a_long_absence_does_not_make_the_client_receive_more_than_its_rules_allow() -> None:
    """ "the sheer amount of time and precious wireless bandwidth required to transmit all of the queued events to the
    ED when it reconnects might be unreasonable" """
    sessions = displayer(QueueRules(count_max=5))
    happen(sessions, *range(11, 2_011))
    receipt, values = back_online(sessions)
    assert (receipt.replayed, receipt.purged, values) == (5, {"count": 1_995}, [2006, 2007, 2008, 2009, 2010])
