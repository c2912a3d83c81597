"""A client with several sessions: each by itself, four filters, publishing, and what a replica may not do."""

from copy import deepcopy
from typing import Any

import pytest

from godwit.broker.effects import (
    Close,
    Closed,
    Effect,
    Heard,
    Notify,
    Opened,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.messages import (
    Accepted,
    Attach,
    Attached,
    Bye,
    Delivery,
    FetchedEvents,
    FetchEvents,
    Publish,
    Quench,
    QueuedEvent,
    Receipt,
    Received,
    Refused,
    Request,
    Subscribe,
    Unsubscribe,
)
from godwit.broker.predecessor_chain import ITEMS_MAX
from godwit.client import ClientConfig, MergeBounds, MissingEvent, ReplicaConfig, ReplicatedClient
from godwit.client.merge_receipt import NAMED_MAX, ReceiptKeeper
from godwit.errors import SubscriptionError
from godwit.filters import TRUE, event, parse
from godwit.languages.query import parse_query
from godwit.trace import Record
from tests.raw_messages import read_all

BOUNDS = MergeBounds(ask_after_s=1.0, give_up_s=5.0)


def made(sequence: int, publisher: str = "p") -> Any:
    return event({}, publisher=publisher, sequence=sequence)


class Ann:
    """A client with replicas a and b, and what comes of what it hears."""

    def __init__(self, replicas: str = "ab", **config: Any) -> None:
        self.machine = ReplicatedClient("ann", tuple(replicas), ReplicaConfig(**{"bounds": BOUNDS, **config}))
        self.numbers = dict.fromkeys(replicas, 0)
        for replica in replicas:
            self.attach(replica)

    def attach(self, replica: str, *, session: str = "1", accepted: int = 0, fresh: bool = True) -> list[Effect]:
        effects = self.machine.handle(Opened(replica), 0.0)
        return effects + self.hear(replica, Attached(accepted, fresh, Receipt(number=1), session, replica))

    def hear(self, replica: str, message: Any, now: float = 0.0) -> list[Effect]:
        return self.machine.handle(Heard(replica, message), now)

    def deliver(
        self, replica: str, sequence: int, predecessor: int, now: float = 0.0, names: tuple[str, ...] = ("x",)
    ) -> list[Effect]:
        self.numbers[replica] += 1
        return self.hear(replica, Delivery(self.numbers[replica], made(sequence), names, predecessor), now)

    def due(self, *key: str, now: float) -> list[Effect]:
        return self.machine.handle(TimerDue(key), now)


def shown(effects: list[Effect]) -> list[int]:
    return [each.event.sequence for each in effects if isinstance(each, Notify)]


def told(effects: list[Effect], replica: str) -> list[Any]:
    return [each.message for each in effects if isinstance(each, Tell) and each.connection == replica]


def recorded(effects: list[Effect]) -> list[tuple[str, str, int]]:
    return [(e.record.kind, e.record.peer, e.record.sequence) for e in effects if isinstance(e, Trace)]


# ------------------------------------------------------------ every replica by itself


def test_what_is_asked_for_goes_to_every_replica() -> None:
    ann = Ann()
    effects = ann.machine.subscribe("x", TRUE, 0.0)
    assert told(effects, "a") == told(effects, "b") == [Request(1, Subscribe(("ann", "x"), TRUE))]
    effects = ann.machine.unsubscribe("x", 0.0)
    assert told(effects, "a") == told(effects, "b") == [Request(2, Unsubscribe(("ann", "x")))]


def test_only_a_client_that_needs_predecessors_asks_for_them() -> None:
    for filter, replicated in (("none", False), ("unique", False), ("ordered", False), ("complete", True)):
        client = ReplicatedClient("ann", ("a",), ReplicaConfig(filter=filter))  # type: ignore[arg-type]
        [tell] = client.handle(Opened("a"), 0.0)
        assert isinstance(tell, Tell)
        assert isinstance(tell.message, Attach)
        assert tell.message.replicated is replicated


def test_each_replica_confirms_and_counts_for_itself() -> None:
    ann = Ann(filter="none", client=ClientConfig(confirm_every=2))
    started = [e for e in ann.deliver("a", 1, 0) if isinstance(e, StartTimer)]
    assert started == [StartTimer(("replica", "a", "confirm"), 0.05)]
    assert told(ann.deliver("b", 1, 0), "b") == []
    assert told(ann.deliver("a", 2, 1), "a") == [Received(2)]
    assert told(ann.due("replica", "b", "confirm", now=0.05), "b") == [Received(1)]


def test_a_subscription_that_one_replica_refused_ends_at_the_others() -> None:
    ann = Ann()
    ann.machine.subscribe("x", TRUE, 0.0)
    ann.hear("a", Refused(1, "no room"))
    effects = ann.machine.unsubscribe("x", 0.0)
    assert (len(told(effects, "a")), len(told(effects, "b"))) == (0, 1)
    with pytest.raises(SubscriptionError, match="there is no subscription 'x'"):
        ann.machine.unsubscribe("x", 0.0)
    with pytest.raises(SubscriptionError, match="there is no advertisement 'x'"):
        ann.machine.unadvertise("x", 0.0)


def test_a_broker_that_is_no_replica_is_not_spoken_to() -> None:
    ann = Ann()
    assert ann.machine.handle(Opened("c"), 0.0) == [Close("c", "c is not a replica of ann")]
    assert ann.machine.handle(Heard("c", Accepted(1)), 0.0) == []
    assert ann.machine.handle(Closed("c"), 0.0) == []


def test_it_leaves_every_replica_and_forgets_what_it_held() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0)
    effects = ann.machine.leave(1.0)
    assert [type(message) for replica in "ab" for message in told(effects, replica)] == [Bye, Bye]
    assert StopTimer(("ask", "p")) in effects
    assert ann.machine.merge is not None
    assert ann.machine.merge.held == 0


def test_it_can_be_copied() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0)
    ann.machine = deepcopy(ann.machine)
    assert shown(ann.deliver("b", 1, 0)) == [1]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"filter": "best"}, "filter is 'best'"),
        ({"publish": "two"}, "publish is 'two'"),
        ({"unique_window": 0}, "unique_window"),
        ({"publishers_max": 1}, "publishers_max"),
        ({"again_max": -1}, "again_max"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ReplicaConfig(**config)


@pytest.mark.parametrize("bound", ["ask_after_s", "give_up_s", "held_max", "publishers_max", "seen_window"])
def test_a_bound_of_nothing_is_refused(bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound} is 0"):
        MergeBounds(**{bound: 0})


def test_replicas_are_at_least_one_and_none_twice() -> None:
    for replicas in ((), ("a", "a")):
        with pytest.raises(ValueError, match="at least one is needed"):
            ReplicatedClient("ann", replicas)


# ------------------------------------------------------------ the fourth filter


def test_an_event_is_displayed_when_all_replicas_have_passed_it() -> None:
    ann = Ann("abc")
    assert shown(ann.deliver("a", 1, 0)) == []
    assert shown(ann.deliver("b", 1, 0)) == []
    assert shown(ann.deliver("c", 3, 0)) == [1]  # c has missed it, and passed it


def test_a_replica_that_missed_an_event_is_asked_and_its_answer_counts_as_passing() -> None:
    ann = Ann()
    [*_, timer] = ann.deliver("a", 4, 0, now=2.0)
    assert timer == StartTimer(("ask", "p"), 3.0)
    effects = ann.due("ask", "p", now=3.0)
    assert told(effects, "b") == [FetchEvents("p", 0, 4)]
    assert StartTimer(("answer", "b"), 8.0) in effects
    assert told(effects, "a") == []
    effects = ann.hear("b", FetchedEvents("p", 0, 4), 3.2)
    assert (shown(effects), StopTimer(("answer", "b")) in effects) == ([4], True)


def test_a_gap_is_fetched_from_the_other_replica_ahead_of_its_queue() -> None:
    ann = Ann()
    ann.deliver("a", 4, 0)
    ann.due("ask", "p", now=1.0)
    items = (QueuedEvent(70, made(2), ("x",), 0.0), QueuedEvent(71, made(3), ("x",), 0.0))
    assert shown(ann.hear("b", FetchedEvents("p", 0, 4, items), 1.1)) == [2, 3, 4]
    assert recorded(ann.deliver("b", 2, 0, now=1.2)) == [("suppressed", "b", 2)]  # later, in its turn


def test_an_answer_that_does_not_reach_far_enough_is_followed_by_another_question() -> None:
    ann = Ann()
    ann.deliver("a", 400, 0)
    ann.due("ask", "p", now=1.0)
    effects = ann.hear("b", FetchedEvents("p", 0, 100, (QueuedEvent(5, made(100), ("x",), 0.0),)), 1.1)
    assert shown(effects) == [100]  # a has passed it, and so has b
    assert told(effects, "b") == [FetchEvents("p", 100, 400)]


def test_only_what_has_waited_long_enough_is_asked_about() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0, now=0.0)
    ann.deliver("a", 2, 1, now=0.9)
    effects = ann.due("ask", "p", now=1.0)
    assert told(effects, "b") == [FetchEvents("p", 0, 1)]
    assert StartTimer(("ask", "p"), 1.9) in effects
    assert shown(ann.hear("b", FetchedEvents("p", 0, 1), 1.2)) == [1]
    assert told(ann.due("ask", "p", now=1.9), "b") == [FetchEvents("p", 1, 2)]


def test_an_event_for_two_subscriptions_is_displayed_for_both() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0, names=("x",))
    [notify] = [e for e in ann.deliver("b", 1, 0, names=("y", "x")) if isinstance(e, Notify)]
    assert notify.subscriptions == ("x", "y")


def test_a_replica_out_of_reach_is_waited_for_until_the_bound_and_that_is_on_record() -> None:
    ann = Ann()
    effects = ann.machine.handle(Closed("b"), 10.0)
    assert StartTimer(("gone", "b"), 15.0) in effects
    assert shown(ann.deliver("a", 1, 0, now=11.0)) == []
    effects = ann.due("gone", "b", now=15.0)
    assert (shown(effects), recorded(effects)) == ([1], [("unawaited", "b", -1)])
    assert shown(ann.deliver("a", 2, 1, now=16.0)) == [2]


def test_a_replica_out_of_reach_is_waited_for_ten_seconds_unless_another_bound_is_set() -> None:
    assert StartTimer(("gone", "b"), 20.0) in Ann(bounds=MergeBounds()).machine.handle(Closed("b"), 10.0)


def test_a_replica_that_is_back_in_time_is_waited_for_again() -> None:
    ann = Ann()
    ann.machine.handle(Closed("b"), 10.0)
    ann.deliver("a", 2, 0, now=11.0)
    effects = ann.attach("b", fresh=False)
    assert StopTimer(("gone", "b")) in effects
    assert shown(ann.due("gone", "b", now=15.0)) == []  # too late to matter
    assert shown(ann.deliver("b", 1, 0, now=16.0)) == [1]
    assert shown(ann.deliver("b", 2, 1, now=16.0)) == [2]


def test_what_comes_after_the_bound_is_dropped_and_on_record() -> None:
    ann = Ann()
    ann.machine.handle(Closed("b"), 0.0)
    ann.due("gone", "b", now=5.0)
    assert shown(ann.deliver("a", 3, 0, now=6.0)) == [3]
    ann.attach("b", fresh=False)
    assert recorded(ann.deliver("b", 2, 0, now=7.0)) == [("overtaken", "b", 2)]
    assert recorded(ann.deliver("b", 3, 2, now=7.0)) == [("suppressed", "b", 3)]


def test_a_replica_that_does_not_answer_is_waited_for_until_the_bound_and_again_when_it_has() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0)
    ann.due("ask", "p", now=1.0)
    effects = ann.due("answer", "b", now=6.0)
    assert (shown(effects), recorded(effects)) == ([1], [("unawaited", "b", -1)])
    assert shown(ann.deliver("a", 2, 1, now=7.0)) == [2]
    ann.hear("b", FetchedEvents("p", 0, 1), 8.0)
    assert shown(ann.deliver("a", 3, 2, now=9.0)) == []


def test_a_predecessor_that_nobody_brings_is_a_gap_on_record() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0)
    ann.deliver("b", 1, 0)
    assert recorded(ann.deliver("a", 5, 3)) == []  # b may bring 3
    effects = ann.deliver("b", 5, 1)
    assert (shown(effects), recorded(effects)) == ([5], [("suppressed", "b", 5), ("gap", "a", 3)])


def test_a_predecessor_that_another_replica_brings_is_none() -> None:
    ann = Ann()
    ann.deliver("a", 5, 3)
    assert shown(ann.deliver("b", 3, 0)) == [3]
    effects = ann.deliver("b", 5, 3)
    assert (shown(effects), recorded(effects)) == ([5], [("suppressed", "b", 5)])


def test_a_new_session_of_a_replica_starts_from_nothing() -> None:
    ann = Ann()
    for replica in "ab":
        ann.deliver(replica, 1, 0)
    ann.machine.handle(Closed("b"), 1.0)
    ann.numbers["b"] = 0
    ann.attach("b", session="2")
    assert shown(ann.deliver("a", 2, 1)) == []
    assert shown(ann.deliver("b", 2, 0)) == [2]  # no gap: what it had before is for others to bring


def test_what_is_held_is_bounded() -> None:
    ann = Ann(bounds=MergeBounds(held_max=2))
    assert shown(ann.deliver("a", 1, 0)) == shown(ann.deliver("a", 2, 1)) == []
    effects = ann.deliver("a", 3, 2)
    assert (shown(effects), recorded(effects)) == ([1], [("unawaited", "", 1)])


def test_publishers_are_bounded_and_one_that_was_forgotten_makes_no_gap() -> None:
    ann = Ann("a", bounds=MergeBounds(publishers_max=2))
    for number, (publisher, sequence, before) in enumerate([("p", 1, 0), ("q", 1, 0), ("r", 1, 0), ("p", 3, 1)], 1):
        effects = ann.hear("a", Delivery(number, made(sequence, publisher), ("x",), before))
        assert (shown(effects), recorded(effects)) == ([sequence], [])


# ------------------------------------------------------------ what a replica may not do


def asked() -> Ann:
    """b has been asked what it has from 1 to 4."""
    ann = Ann()
    ann.deliver("a", 4, 0)
    ann.due("ask", "p", now=1.0)
    return ann


def waiting(sequence: Any, publisher: str = "p") -> QueuedEvent:
    return QueuedEvent(1, made(sequence, publisher), ("x",), 0.0)


BAD: list[Any] = [
    Delivery(1, made(3), ("x",), 3),
    Delivery(1, made(3), ("x",), 4),
    Delivery(1, made(3), ("x",), -2),
    Delivery(1, made(3), ("x",), "2"),  # type: ignore[arg-type]
    Delivery(1, made(3), None, 2),  # type: ignore[arg-type]
    Delivery(None, made(3), ("x",), 2),  # type: ignore[arg-type]
    Delivery(1, "an event", ("x",), 2),  # type: ignore[arg-type]
    FetchedEvents([], 0, 4),  # type: ignore[arg-type]
    FetchedEvents({}, 0, 4),  # type: ignore[arg-type]
    Delivery(1, made(3), ([],), 2),  # type: ignore[arg-type]
    FetchedEvents("q", 0, 4),
    FetchedEvents("p", 1, 4),
    FetchedEvents("p", 0, 5),
    FetchedEvents("p", 0, 0),
    FetchedEvents("p", 0, None),  # type: ignore[arg-type]
    FetchedEvents("p", 0, 4, tuple(waiting(1) for _ in range(ITEMS_MAX + 1))),
    FetchedEvents("p", 0, 4, (waiting(2), waiting(1))),
    FetchedEvents("p", 0, 4, (waiting(1), waiting(1))),
    FetchedEvents("p", 0, 3, (waiting(4),)),
    FetchedEvents("p", 0, 4, (waiting(1, "q"),)),
    FetchedEvents("p", 0, 4, (QueuedEvent(1, made(1), None, 0.0),)),  # type: ignore[arg-type]
    FetchedEvents("p", 0, 4, (QueuedEvent(1, None, ("x",), 0.0),)),  # type: ignore[arg-type]
    FetchedEvents("p", 0, 4, ("an event",)),  # type: ignore[arg-type]
    Publish(made(1)),
]


@pytest.mark.parametrize("message", read_all(BAD), ids=lambda message: repr(message)[:60])
def test_a_fault_of_a_replica_closes_its_connection_and_no_other(message: Any) -> None:
    ann = asked()
    effects = ann.hear("b", message, 1.1)
    assert [each.peer for each in effects if isinstance(each, Close)] == ["b"]
    assert ("fault", "b", -1) in recorded(effects)
    assert shown(effects) == []
    assert StartTimer(("gone", "b"), 6.1) in effects
    assert ann.machine.clients["a"].is_attached
    assert shown(ann.due("gone", "b", now=6.1)) == [4]


def test_an_answer_to_nothing_asked_is_a_fault() -> None:
    ann = Ann()
    effects = ann.hear("b", FetchedEvents("p", 0, 4))
    assert [each.peer for each in effects if isinstance(each, Close)] == ["b"]
    assert ann.hear("b", FetchedEvents("p", 0, 4)) == []  # and then nothing more is heard


def test_an_answer_for_another_filter_is_a_fault() -> None:
    ann = Ann(filter="unique")
    assert [each.peer for each in ann.hear("b", FetchedEvents("p", 0, 4)) if isinstance(each, Close)] == ["b"]


@pytest.mark.parametrize("message", [FetchedEvents("p", 0, 4), Delivery(1, made(1), ("x",), 0)])
def test_nothing_comes_before_attached(message: Any) -> None:
    client = ReplicatedClient("ann", ("a", "b"))
    client.handle(Opened("a"), 0.0)
    assert [each.peer for each in client.handle(Heard("a", message), 0.0) if isinstance(each, Close)] == ["a"]


# ------------------------------------------------------------ publishing


def published(effects: list[Effect], replica: str) -> list[int]:
    wishes = [message.wish for message in told(effects, replica) if isinstance(message, Request)]
    return [wish.event.sequence for wish in wishes if isinstance(wish, Publish)]


def test_an_event_goes_to_all_replicas_under_one_number() -> None:
    ann = Ann(publish="all")
    for number in (1, 2):
        effects = ann.machine.publish({"v": 1}, 0.0)
        assert published(effects, "a") == published(effects, "b") == [number]


def test_an_event_goes_through_one_replica_and_another_takes_over_with_what_was_not_acknowledged() -> None:
    ann = Ann(publish="one", again_max=0)
    for number in (1, 2):
        effects = ann.machine.publish({"v": 1}, 0.0)
        assert (published(effects, "a"), published(effects, "b")) == ([number], [])
    ann.hear("a", Accepted(1))
    assert published(ann.machine.handle(Closed("a"), 1.0), "b") == [2]
    effects = ann.machine.publish({"v": 1}, 2.0)
    assert (published(effects, "a"), published(effects, "b")) == ([], [3])


def test_the_next_replica_gets_the_last_events_once_more_so_that_new_ones_do_not_overtake_them() -> None:
    ann = Ann(publish="one", again_max=2)
    for _ in range(4):
        ann.machine.publish({"v": 1}, 0.0)
    ann.hear("a", Accepted(4))
    assert published(ann.machine.handle(Closed("a"), 1.0), "b") == [3, 4]
    assert published(ann.machine.publish({"v": 1}, 2.0), "b") == [5]


def test_with_no_replica_in_reach_events_wait_for_the_first_that_comes() -> None:
    ann = Ann(publish="one")
    for replica in "ab":
        ann.machine.handle(Closed(replica), 0.0)
    ann.machine.publish({"v": 1}, 1.0)
    ann.machine.publish(event({"v": 2}), 1.0)
    assert published(ann.attach("b", fresh=False), "b") == [1, 2]
    assert ann.machine.sequence == 2


def test_what_an_advertisement_says_goes_to_every_replica_and_is_answered_by_each() -> None:
    ann = Ann()
    effects = ann.machine.advertise("ad", parse("v > 1"), 0.0)
    assert (len(told(effects, "a")), len(told(effects, "b"))) == (1, 1)
    ann.hear("a", Accepted(1))
    assert ann.machine.has_unanswered_changes()
    ann.hear("b", Accepted(1))
    assert not ann.machine.has_unanswered_changes()
    assert len(told(ann.machine.unadvertise("ad", 0.0), "b")) == 1
    assert [len(receipts) for receipts in ann.machine.receipts.values()] == [1, 1]


def test_the_next_replica_quenches_nothing_that_was_published_in_another_context() -> None:
    ann = Ann(filter="unique", publish="one", client=ClientConfig(quench=True))
    either, one = parse("topic = 'x' OR topic = 'y'"), parse("topic = 'x'")
    for number, (place, wanted) in enumerate((("hall", either), ("yard", one)), 1):
        ann.machine.set_context({"place": place}, 0.0)
        for replica in "ab":
            ann.hear(replica, Accepted(number + (number > 1 and replica == "a")))
            ann.hear(replica, Quench(wanted))
        if number == 1:
            ann.machine.publish({"topic": "y"}, 0.0)
    again = [
        message.wish for message in told(ann.machine.handle(Closed("a"), 1.0), "b") if isinstance(message, Request)
    ]
    assert [wish.event.attributes["sender.place"] for wish in again if isinstance(wish, Publish)] == ["hall"]


# ------------------------------------------------------------ receipts, queries, sessions of another process


def test_a_receipt_counts_what_is_displayed_and_names_what_is_missing_within_a_bound() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0)
    ann.deliver("b", 1, 0)
    ann.deliver("a", 3, 2)  # it had 2, and never sent it
    ann.deliver("b", 3, 1)
    receipt = ann.machine.receipt
    assert (receipt.displayed, receipt.suppressed) == (2, 2)
    assert receipt.missing == (MissingEvent("p", 2, "a", "gap"),)
    keeper = ReceiptKeeper()
    keeper.count(Trace(Record("gap", "a", "", "p", n)) for n in range(NAMED_MAX + 5))
    assert (len(keeper.receipt.missing), keeper.receipt.missing_more) == (NAMED_MAX, 5)


def test_what_a_former_process_has_displayed_is_no_gap_and_what_is_lost_afterwards_is_one() -> None:
    machine = ReplicatedClient("ann", ("a",), ReplicaConfig(bounds=BOUNDS))
    machine.handle(Opened("a"), 0.0)
    machine.handle(Heard("a", Attached(0, False, Receipt(number=1), "1", "a")), 0.0)
    machine.handle(Heard("a", Delivery(8, made(8), ("x",), 7)), 0.0)
    assert list(machine.receipt.missing) == []
    machine.handle(Heard("a", Delivery(10, made(10), ("x",), 9)), 0.0)
    assert machine.receipt.missing == (MissingEvent("p", 9, "a", "gap"),)


def test_an_exact_test_also_decides_on_events_that_were_fetched() -> None:
    ann = Ann()
    ann.machine.subscribe("x", parse_query("/alarm[level > 2]", "xpath"), 0.0)
    ann.machine.subscribe("y", TRUE, 0.0)
    ann.deliver("a", 2, 0, names=("y",))
    assert told(ann.due("ask", "p", now=1.0), "b") == [FetchEvents("p", 0, 2)]
    effects = ann.hear("b", FetchedEvents("p", 0, 2, (QueuedEvent(70, made(1), ("x",), 0.0),)), 1.1)
    assert (shown(effects), recorded(effects)[0][0]) == ([2], "residue")


@pytest.mark.parametrize(
    ("settings", "is_allowed"),
    [
        ({"publishers_max": 2, "unique_window": 1, "again_max": 0}, True),
        ({"publishers_max": 1}, False),
        ({"unique_window": 0}, False),
        ({"again_max": -1}, False),
    ],
)
def test_bounds_of_settings(settings: dict[str, int], is_allowed: bool) -> None:
    if is_allowed:
        ReplicaConfig(**settings)  # type: ignore[arg-type]
    else:
        with pytest.raises(ValueError, match="unique_window must be 1 or more"):
            ReplicaConfig(**settings)  # type: ignore[arg-type]


def test_a_replica_out_of_reach_is_not_asked() -> None:
    ann = Ann()
    ann.machine.handle(Closed("b"), 0.0)
    effects = ann.deliver("a", 1, 0, now=0.0)
    assert not [each for each in effects if isinstance(each, StartTimer) and each.key == ("ask", "p")]
    assert told(ann.due("ask", "p", now=1.0), "b") == []


def test_what_was_displayed_is_not_missing_when_a_replica_that_was_away_names_it() -> None:
    ann = Ann()
    ann.deliver("a", 1, 0)
    assert shown(ann.deliver("b", 1, 0)) == [1]
    ann.machine.handle(Closed("b"), 1.0)
    ann.due("gone", "b", now=6.0)
    assert shown(ann.deliver("a", 2, 1, now=7.0)) == [2]
    ann.attach("b", fresh=False)
    effects = ann.deliver("b", 3, 2, now=8.0) + ann.deliver("a", 3, 2, now=8.0)
    assert shown(effects) == [3]
    assert recorded(effects) == [("suppressed", "a", 3)]  # and nothing is named as missing
