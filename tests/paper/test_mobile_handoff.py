"""Hand-off of a displayer (ED) between event brokers (EB), sentence by sentence. [mobile §4.3; claim H4]

Two ways: the new EB asks the old one for everything; or the ED carries its subscriptions and a log of its connections.
"""

from functools import partial
from typing import Any

import pytest

from godwit.broker.effects import Effect, Tell, Trace
from godwit.broker.limits import Limits
from godwit.broker.messages import PastConnection, QueuedEvent
from godwit.broker.predecessor_chain import UNKNOWN, PredecessorChain
from godwit.client.client import Client
from godwit.client.connection_log import ConnectionLog
from godwit.filters.events import Event
from godwit.mobility import Movements, line
from godwit.mobility.attach_policies.carry import COLLECT_AGAIN_S, CarryPolicy
from godwit.mobility.modes import LOG_MAX
from godwit.mobility.move_messages import AskInterests, Collect, Interests, Relocate
from godwit.mobility.relocation import Relocation
from tests.paper.roaming_world import LATENCY_S, Roaming

NETWORK = "B1-B2 B2-B3 B3-B4 B4-B5 B5-B6 B4-B7"
WAYS = ("ask", "carry")
REDUCTIONS = ("flooding", "simple", "identity", "covering", "merging")


def at_b6(mode: str, reduction: str = "covering", **config: Any) -> Roaming:
    roam = Roaming(NETWORK, reduction=reduction, **config)
    roam.come("P", "B7")
    roam.come("C", "B6", mode)
    roam.subscribe("C")
    roam.settle()
    return roam


def everyone_else_is_clean(roam: Roaming, client: str, here: str) -> bool:
    return all(
        roam.holds_nothing_of(name, client) for name in ("B1", "B2", "B3", "B4", "B5", "B6", "B7") if name != here
    )


# ------------------------------------------------------------ both ways: nothing lost, nothing twice (H4)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("mode", WAYS)
def test_no_event_from_any_source_is_lost_or_delivered_twice(mode, reduction):
    """'as the new routing information slowly percolates up the forwarding tree, no event … is lost'"""
    roam = at_b6(mode, reduction)
    roam.publish("P", 1, 2)
    roam.settle()
    roam.leave("C")
    roam.publish("P", 3, 4)
    roam.settle()
    roam.come("C", "B1")
    for _ in range(40):  # while the hand-off is under way
        roam.publish("P", 5)
        roam.pass_time(0.005)
    roam.settle()
    numbers = roam.numbers("C", "P")
    assert sorted(numbers) == list(range(1, 45))
    assert mode == "carry" or numbers == sorted(numbers)
    assert everyone_else_is_clean(roam, "C", "B1")


@pytest.mark.parametrize("mode", WAYS)
def test_several_sources_at_the_ends_of_the_way_and_beside_it(mode):
    roam = at_b6(mode)
    sources = {"P1": "B1", "P2": "B2", "P5": "B5", "P6": "B6"}
    for name, home in sources.items():
        roam.come(name, home)
    roam.settle()
    roam.come("C", "B1")
    for _ in range(30):
        for name in sources:
            roam.publish(name, 1)
        roam.pass_time(0.004)
    roam.settle()
    for name in sources:
        assert sorted(roam.numbers("C", name)) == list(range(1, 31))


@pytest.mark.parametrize("mode", WAYS)
def test_a_client_that_moves_on_before_it_is_handed_off_and_comes_back_misses_nothing(mode):
    roam = at_b6(mode)
    for number, home in enumerate(("B1", "B3", "B7", "B6", "B2", "B6", "B1")):
        roam.come("C", home)
        roam.publish("P", number)
        roam.pass_time(0.013)
    roam.settle()
    assert sorted(roam.numbers("C", "P")) == list(range(1, 8))
    assert everyone_else_is_clean(roam, "C", "B1")


@pytest.mark.parametrize("mode", WAYS)
def test_an_old_eb_that_has_crashed_answers_from_its_journal(mode):
    roam = at_b6(mode)
    roam.leave("C")
    roam.publish("P", 1, 2)
    roam.settle()
    roam.crash("B6", keeps_disk=True)
    roam.come("C", "B1")
    roam.settle()
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.publish("P", 3)
    roam.settle()
    assert sorted(roam.numbers("C", "P")) == [1, 2, 3]
    assert everyone_else_is_clean(roam, "C", "B1")


@pytest.mark.parametrize("mode", WAYS)
def test_of_two_devices_with_one_name_the_one_that_came_last_goes_on(mode):
    roam = at_b6(mode)
    roam.come("C", "B1")
    roam.settle()
    latest = roam.client("C").attempt
    message = AskInterests("C", "B1", "B6", 1) if mode == "ask" else Collect("C", "B1", "B6", 1)  # an older greeting
    broker = roam.broker("B1")
    broker.relayed[type(message)].handler("B2", message, roam.now)
    session = broker.sessions.session("C")
    assert session is not None
    assert session.attempt == latest
    assert session.connection is not None


# ------------------------------------------------------------ the new EB asks the old one


def test_the_new_eb_contacts_the_old_one_to_obtain_the_subscriptions_and_then_the_events():
    """'For both tasks, the new EB may contact the EB previously in charge of the user's subscription'"""
    roam = at_b6("ask")
    roam.leave("C")
    roam.publish("P", 1)
    roam.settle()
    before = dict(roam.handled)
    roam.come("C", "B1")
    roam.pass_time(LATENCY_S * 6.5)  # the question has arrived, and the answer not yet
    assert roam.broker("B1").component(Relocation).arrivals["C"].subscriptions == {}  # the client has brought none
    roam.settle()
    hops = {kind: roam.handled.get(kind, 0) - before.get(kind, 0) for kind in (AskInterests, Interests, Relocate)}
    assert hops == {AskInterests: 5, Interests: 5, Relocate: 5}
    assert roam.numbers("C", "P") == [1]


def first_event_after(mode: str) -> float:
    """From coming to the first event, in hops."""
    roam = at_b6(mode)
    roam.come("P6", "B6")
    roam.settle()
    roam.leave("C")
    roam.publish("P6", 1)
    roam.settle()
    came_at = roam.now
    roam.come("C", "B1")
    roam.settle()
    return (roam.times("C")[0][1] - came_at) / LATENCY_S


def test_asking_first_costs_one_round_trip_more_than_relocating():
    assert first_event_after("relocate") == pytest.approx(12, abs=0.1)  # 1 to B1, 5 there, 5 back, 1 to the client
    assert first_event_after("ask") == pytest.approx(22, abs=0.1)
    assert first_event_after("carry") == pytest.approx(12, abs=0.1)


# ------------------------------------------------------------ the ED carries subscriptions and log


def test_the_ed_receives_new_events_even_if_the_old_eb_is_down():
    """'the ED can still receive new events even if the old EB is temporarily down or partitioned'"""
    down = {}
    for mode in ("relocate", "ask", "carry"):
        roam = at_b6(mode)
        roam.leave("C")
        roam.publish("P", 1)
        roam.settle()
        roam.crash("B6", keeps_disk=True)
        roam.come("C", "B1")
        roam.settle()
        roam.publish("P", 2)
        roam.settle()
        down[mode] = roam.numbers("C", "P")
    assert down == {"relocate": [], "ask": [], "carry": [2]}


def test_the_new_eb_contacts_the_old_one_until_the_old_subscriptions_are_cancelled():
    """'the new EB still needs to attempt contact with the old EB periodically to cancel the old subscriptions'"""
    roam = at_b6("carry")
    roam.crash("B6", keeps_disk=True)
    roam.come("C", "B1")
    roam.pass_time(COLLECT_AGAIN_S + 1)
    asked = [message for message in roam.broker("B5").links["B6"].outbox if isinstance(message, Collect)]
    assert len(asked) == 2  # both wait there; a broker on the way might have lost the first
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.settle()
    assert everyone_else_is_clean(roam, "C", "B1")


def test_events_that_both_ebs_have_are_delivered_once():
    """'the ED may end up with more than one EBs monitoring the same subscription for it'"""
    roam = at_b6("carry")
    roam.come("W", "B1")  # wants the same: so the event comes to B1 though nobody has heard of C there
    roam.subscribe("W")
    roam.settle()
    roam.publish("P", 1)
    roam.pass_time(3.5 * LATENCY_S)
    roam.come("C", "B1")  # the event is on its way to B1 and to B6
    roam.settle()
    assert roam.numbers("C", "P") == [1]
    assert any(record.kind == "suppressed" and record.peer == "C" for _, node, record in roam.trace if node == "B1")


def test_what_one_eb_has_delivered_is_not_delivered_by_the_next_though_a_third_still_keeps_it():
    """The client itself remembers: the EB in the middle may be down when the first one answers."""
    roam = at_b6("carry")
    roam.cut("B5", "B6")
    roam.come("C", "B7")
    roam.settle()
    roam.publish("P", 1, 2)
    roam.settle()
    roam.crash("B7", keeps_disk=True)
    roam.come("C", "B1")
    roam.settle()
    roam.join("B5", "B6")
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2]
    roam.restart("B7")
    roam.join("B4", "B7")
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2]
    assert everyone_else_is_clean(roam, "C", "B1")


def test_late_events_come_late_and_out_of_order():
    roam = at_b6("carry")
    roam.leave("C")
    roam.publish("P", 1, 2)
    roam.settle()
    roam.crash("B6", keeps_disk=True)
    roam.come("C", "B1")
    roam.settle()
    roam.publish("P", 3)
    roam.settle()
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.settle()
    assert roam.numbers("C", "P") == [3, 1, 2]


def test_what_is_on_its_way_to_an_eb_that_the_client_has_left_is_sent_after_it():
    roam = at_b6("carry")
    roam.leave("C")
    roam.publish("P", *range(200))  # several parts
    roam.settle()
    roam.come("C", "B1")
    roam.pass_time(LATENCY_S * 6.5)  # B6 has answered
    roam.come("C", "B3")
    roam.settle()
    assert sorted(roam.numbers("C", "P")) == list(range(1, 201))
    assert everyone_else_is_clean(roam, "C", "B3")


def test_an_eb_that_has_answered_is_struck_from_the_log():
    """'requires the ED to keep a log of its past connections, which includes a timestamp and the id of the EB'"""
    roam = at_b6("carry")
    for home in ("B1", "B3", "B7"):
        roam.come("C", home)
        roam.settle()
    assert len(roam.client("C")._log) == 1  # where it is


def test_an_eb_that_was_left_long_enough_ago_is_not_asked():
    """'the log shows that the last connection to that EB happened "long enough" ago'"""
    roam = at_b6("carry", limits=Limits(session_expiry_s=30.0))
    roam.crash("B6", keeps_disk=True)
    roam.come("C", "B1")
    roam.settle()
    roam.come("C", "B2")
    roam.pass_time(70.0)
    assert len(roam.client("C")._log) == 2
    before = roam.handled.get(Collect, 0)
    roam.come("C", "B3")
    roam.pass_time(1.0)
    assert len(roam.client("C")._log) == 1  # B2 has answered, and B6 was struck unasked
    assert roam.handled[Collect] - before == 1
    assert roam.broker("B3").component(CarryPolicy).collecting == {}


def test_the_log_is_bounded_and_what_falls_out_of_it_is_on_record():
    log = ConnectionLog()
    for number in range(LOG_MAX + 1):
        _, effects = log.greet(f"b{number}", number, float(number))
        assert effects == []
    told, [effect] = log.greet("elsewhere", 99, 99.0)
    assert isinstance(effect, Trace)
    assert (effect.record.kind, effect.record.peer) == ("lost", "b0")
    assert len(told) == LOG_MAX
    assert told[-1] == PastConnection(f"b{LOG_MAX}", LOG_MAX, 99.0)


def test_what_the_client_unsubscribed_meanwhile_does_not_come_late():
    roam = at_b6("carry")
    roam.subscribe("C", "x >= 100", name="G")
    roam.settle()
    roam.leave("C")
    roam.publish("P", 1, 200)
    roam.settle()
    roam.crash("B6", keeps_disk=True)
    roam.come("C", "B1")
    roam.command("C", lambda machine, now: machine.unsubscribe("F", now))
    roam.settle()
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.settle()
    assert roam.numbers("C", "P") == [2]
    dropped = [record for _, _, record in roam.trace if record.kind == "suppressed" and record.detail]
    assert [(record.publisher, record.sequence) for record in dropped] == [("P", 1)]
    session = roam.broker("B1").sessions.session("C")
    assert session is not None
    assert session.suppressed == 1


def test_a_session_that_is_one_of_several_names_predecessors_of_what_it_has_collected():
    """What comes late has none, and what comes next names the last before it, collected or not."""
    roam = at_b6("carry")
    roam.publish("P", 1)
    roam.settle()
    broker = roam.broker("B6")
    session = broker.sessions.session("C")
    assert session is not None
    session.chain = PredecessorChain(8, is_whole=False)
    found = []
    for sequence in (7, 9, 8):
        item = QueuedEvent(sequence, Event({"x": 1}, "P", sequence), ("F",), 0.0)
        found += [
            effect.message
            for effect in broker.component(CarryPolicy)._take_in(session, [item], 9.0)
            if isinstance(effect, Tell)
        ]
    assert [(each.event.sequence, each.predecessor) for each in found] == [(7, UNKNOWN), (9, 7), (8, UNKNOWN)]


def said(attributes: dict[str, Any], machine: Client, now: float) -> list[Effect]:
    return machine.publish(attributes, now)


@pytest.mark.parametrize("mode", WAYS)
def test_what_waited_for_a_filter_on_the_clients_place_comes_though_it_has_walked_on_since(mode):
    roam = Roaming(NETWORK, Movements({"location": line(30)}))
    roam.come("P", "B7")
    roam.come("C", "B6", mode)
    roam.command("C", lambda machine, now: machine.move_to("3", now, dwell_s=1.0))
    roam.subscribe("C", "place = myloc")
    roam.subscribe("C", "place = myloc and x > 100", name="G")
    roam.settle()
    roam.leave("C")
    for place, x in (("3", 1), ("4", 2), ("3", 200)):
        roam.command("P", partial(said, {"place": place, "x": x}))
    roam.settle()
    roam.crash("B6", keeps_disk=True)
    roam.come("C", "B1")
    roam.pass_time(1.0)
    if mode == "carry":
        roam.command("C", lambda machine, now: machine.move_to("4", now, dwell_s=1.0))
        roam.command("C", lambda machine, now: machine.unsubscribe("F", now))
        roam.subscribe("C", "place = myloc and x < 100", name="F")
        roam.settle()
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.pass_time(60.0)
    assert roam.numbers("C", "P") == [1, 3]
