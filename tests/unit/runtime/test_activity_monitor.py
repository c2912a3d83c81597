"""What is kept of a broker's last turns: what somebody can ask for, and no more."""

from sys import getrefcount
from types import SimpleNamespace
from typing import Any

from godwit.broker.effects import Heard, Tell, TimerDue, Trace
from godwit.broker.messages import Accepted, Attach, Delivery, Publish, Refused, Request, Subscribe
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.runtime.activity_monitor import KEPT_BYTES, KEPT_RECORDS, ActivityMonitor
from godwit.trace import Record

EVENT = Event({"x": 1}, "p", 1)
WISH = Heard("c1", Request(1, Subscribe(("a", "s"), TRUE)))
PUBLICATION = Heard("c2", Request(1, Publish(EVENT)))


def monitor() -> ActivityMonitor:
    node: Any = SimpleNamespace(watch=None)
    return ActivityMonitor(node)


def test_turns_in_which_nothing_can_be_asked_for_are_counted_and_not_kept() -> None:
    watch = monitor()
    watch.on_turn([(WISH, b"wish"), (TimerDue(("ack", "b")), b"")], 0.1, 1.0)
    assert list(watch.kept()) == []
    assert (watch.inputs, watch.came) == (2, 4)


def test_events_and_greetings_are_kept() -> None:
    watch, greeting = monitor(), Heard("c1", Attach("a"))
    watch.on_turn([(WISH, b""), (PUBLICATION, b"")], 0.1, 1.0)
    watch.on_turn([(greeting, b"")], 0.1, 2.0)
    assert list(watch.kept()) == [WISH, PUBLICATION, greeting]
    assert [(at, source) for at, source, _ in watch.arrivals(EVENT.id)] == [(1.0, "c2")]


def test_deliveries_and_refusals_are_kept_and_acknowledgements_are_not() -> None:
    watch = monitor()
    watch.on_effects([Tell("c1", Accepted(1))], 1.0)
    watch.on_effects([Tell("c1", Refused(2, "no"))], 2.0)
    watch.on_effects([Tell("c1", Delivery(1, EVENT, ("s",)))], 3.0)
    assert list(watch.told(Accepted)) == []
    assert list(watch.told(Refused)) == [("c1", Refused(2, "no"))]
    assert [at for at, _, _ in watch.sent(EVENT.id)] == [3.0]
    assert (watch.refusals, watch.deliveries) == (1, 1)


def test_the_last_records_are_kept_with_their_times() -> None:
    watch = monitor()
    for number in range(KEPT_RECORDS + 1):
        watch.on_effects([Trace(Record("published", "p", "", "p", number))], float(number))
    records = list(watch.records)
    assert len(records) == KEPT_RECORDS
    assert all(at == record.sequence for at, record in records)
    assert [at for at, _ in watch.records_of(("p", KEPT_RECORDS))] == [float(KEPT_RECORDS)]


def test_encoded_messages_of_kept_turns_are_counted_and_not_kept() -> None:
    watch, packed = monitor(), bytes(100_000)
    before = getrefcount(packed)
    watch.on_turn([(PUBLICATION, packed)], 0.1, 1.0)
    watch.on_turn([(PUBLICATION, packed), (WISH, packed)], 0.1, 2.0)
    assert getrefcount(packed) == before
    assert watch.came == 300_000
    for at in range(KEPT_BYTES // len(packed)):
        watch.on_turn([(PUBLICATION, packed)], 0.1, 3.0 + at)
    assert len(list(watch.kept())) == KEPT_BYTES // len(packed)
