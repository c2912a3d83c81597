"""Relocation of a roaming client in an overlay with cycles, where no single way divides events. [rebeca §3.2, §4]

The paper has trees alone; its guarantees are held here in the graph family. Fig. 5 with two short cuts: B6 is the old
location, B1 the new one, the producer is at B7.
"""

from typing import Any

import pytest

from godwit.broker.effects import Send
from godwit.broker.links import LinkConfig
from godwit.broker.messages import Frame, Packet
from godwit.mobility import relocation, transfer_barrier
from godwit.mobility.move_messages import Relocate, SessionElsewhere, Superseded
from godwit.mobility.relocation import Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from tests.paper.roaming_world import Roaming, check_that_a_lost_trail_is_found

FIG_5_WITH_CYCLES = "B1-B2 B2-B3 B3-B4 B4-B5 B5-B6 B4-B7 B1-B7 B2-B5"
BROKERS = [f"B{n}" for n in range(1, 8)]


def graph(edges: str = FIG_5_WITH_CYCLES) -> Roaming:
    return Roaming(edges, family="graph", advertisements="off", link=LinkConfig(dead_after_s=2.0))


@pytest.fixture
def roam() -> Roaming:
    roam = graph()
    roam.come("P", "B7")
    roam.come("C", "B6")
    roam.subscribe("C")
    roam.settle()
    return roam


def slow_down(roam: Roaming, *links: tuple[str, str], latency_s: float = 0.3) -> None:
    """Let messages take long on these links, one way."""
    for a, b in links:
        roam.latencies[a, b] = latency_s


def test_the_client_gets_every_event_once_and_in_order_whatever_happens_while_it_moves(roam):
    roam.publish("P", 1, 2)
    roam.settle()
    roam.leave("C")
    roam.publish("P", *range(100))  # more than one part of a replay
    roam.settle()
    roam.come("C", "B1")
    for _ in range(40):  # while the relocation is under way
        roam.publish("P", 5)
        roam.pass_time(0.005)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 143))


def test_what_a_producer_has_sent_to_the_old_place_is_waited_for(roam):
    """B7 reaches B6 late and B1 soon: the session goes only when B7 has flushed its channel to B6."""
    slow_down(roam, ("B4", "B5"))
    roam.publish("P", 1, 2, 3)
    roam.come("C", "B1")
    roam.pass_time(0.2)
    assert [leaving.to for leaving in roam.broker("B6").component(GraphBarrier).departing.values()] == ["B1"]
    roam.publish("P", 4)
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2, 3, 4]


def test_several_producers_anywhere_lose_nothing_and_overtake_nothing():
    roam = graph()
    for number in range(1, 8):
        roam.come(f"P{number}", f"B{number}")
    roam.come("C", "B6")
    roam.subscribe("C")
    roam.settle()
    for home in ("B1", "B3", "B6", "B1"):
        roam.come("C", home)
        for _ in range(10):
            for number in range(1, 8):
                roam.publish(f"P{number}", 1)
            roam.pass_time(0.004)
    roam.settle()
    for number in range(1, 8):
        assert roam.numbers("C", f"P{number}") == list(range(1, 41))


def test_a_producer_that_moves_loses_nothing_and_overtakes_nothing(roam):
    for home in ("B1", "B6", "B3", "B7"):
        roam.publish("P", 1, 2)
        roam.come("P", home)
        roam.publish("P", 3)
        roam.pass_time(0.03)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 13))


def test_a_producer_comes_in_when_what_it_said_before_has_come_everywhere(roam):
    """From B7 to B6 is slow, from B5 to B6 is not: what it says at B5 must not overtake."""
    slow_down(roam, ("B4", "B5"), latency_s=1.0)
    roam.publish("P", 1, 2)
    roam.come("P", "B5")
    roam.publish("P", 3)
    roam.pass_time(0.7)
    assert not roam.client("P").is_attached
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2, 3]


def test_a_client_that_has_not_published_waits_for_half_as_much(roam):
    def flushes() -> int:
        return sum(count for kind, count in roam.packets.items() if kind.__name__ == "Flushed")

    roam.come("C", "B1")
    roam.settle()
    for_a_consumer = flushes()
    roam.come("P", "B6")
    roam.settle()
    roam.publish("P", 1)
    roam.settle()
    before = flushes()
    roam.come("P", "B1")  # the same way as C
    roam.settle()
    assert for_a_consumer > 0
    assert flushes() - before > 1.5 * for_a_consumer


def test_the_old_location_collects_its_garbage(roam):
    roam.come("C", "B1")
    roam.pass_time(transfer_barrier.FLUSH_S + 1)
    assert [broker for broker in BROKERS if not roam.holds_nothing_of(broker, "C")] == ["B1"]
    for broker in BROKERS[1:]:
        assert set(roam.broker(broker).routing.remote.get("B6", {})) == set()


def test_a_client_that_moves_on_before_it_has_arrived_misses_nothing(roam):
    for number, home in enumerate(("B1", "B3", "B7", "B6", "B2", "B1")):
        roam.come("C", home)
        roam.publish("P", number)
        roam.pass_time(0.013)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 7))
    roam.pass_time(transfer_barrier.FLUSH_S)
    assert [broker for broker in BROKERS if not roam.holds_nothing_of(broker, "C")] == ["B1"]


def test_a_client_that_comes_back_before_it_was_missed_goes_on_where_it_was(roam):
    roam.come("C", "B1")
    roam.pass_time(0.005)  # B1 has not heard of it yet
    roam.come("C", "B6")
    roam.publish("P", 1)
    roam.settle()
    assert roam.numbers("C", "P") == [1]
    assert roam.holds_nothing_of("B1", "C")


def test_a_client_that_comes_back_while_its_session_is_about_to_leave_stays(roam):
    slow_down(roam, ("B4", "B5"))
    roam.come("C", "B1")
    roam.pass_time(0.1)
    assert "C" in roam.broker("B6").component(GraphBarrier).departing
    roam.publish("P", 1)
    roam.come("C", "B6")
    roam.settle()
    assert roam.numbers("C", "P") == [1]
    assert roam.broker("B6").component(GraphBarrier).departing == {}
    roam.pass_time(transfer_barrier.FLUSH_S)
    assert roam.holds_nothing_of("B1", "C")


def test_of_two_devices_that_claim_one_session_the_one_that_came_last_has_it(roam):
    roam.client("C").attempt = 5
    roam.come("C", "B1")
    roam.settle()
    late = Relocate("C", "B1", "B6", 3)  # another device of an older greeting asks for the session
    effects = roam.broker("B1").component(Relocation).on_relocate("B6", late, 0.0)
    [answer] = [effect for effect in effects if isinstance(effect, Send)]
    assert isinstance(answer.frame, Frame)
    assert isinstance(answer.frame.message, Packet)
    assert isinstance(answer.frame.message.message, Superseded)
    assert roam.broker("B1").sessions.session("C") is not None


def test_who_asks_where_the_session_was_is_told_where_it_is(roam):
    roam.come("C", "B1")
    roam.settle()
    later = Relocate("C", "B6", "B3", 9)
    effects = roam.broker("B6").component(Relocation).on_relocate("B3", later, 0.0)
    [answer] = [effect for effect in effects if isinstance(effect, Send)]
    assert isinstance(answer.frame, Frame)
    assert isinstance(answer.frame.message, Packet)
    carried: Any = answer.frame.message.message
    assert carried == SessionElsewhere("C", "B3", 9, "B1", followed=2)


def test_an_old_broker_that_has_crashed_answers_from_its_journal(roam):
    roam.leave("C")
    roam.publish("P", 1, 2)
    roam.settle()
    roam.crash("B6", keeps_disk=True)
    roam.come("C", "B1")
    roam.settle()
    assert roam.numbers("C", "P") == []
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.publish("P", 3)
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2, 3]


def test_an_old_broker_that_crashes_while_it_waits_for_the_others_goes_on_from_its_journal(roam):
    slow_down(roam, ("B4", "B5"))
    roam.publish("P", 1, 2)
    roam.come("C", "B1")
    roam.pass_time(0.1)
    assert "C" in roam.broker("B6").component(GraphBarrier).departing
    roam.crash("B6", keeps_disk=True)
    roam.pass_time(1.0)
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.publish("P", 3)
    roam.pass_time(relocation.ASK_AGAIN_S)
    assert roam.numbers("C", "P") == [1, 2, 3]


def test_an_old_broker_that_has_lost_its_disk_says_so_at_once(roam):
    roam.leave("C")
    roam.publish("P", 1, 2)
    roam.settle()
    roam.crash("B6", keeps_disk=False)
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.settle()
    roam.come("C", "B1")
    roam.settle()
    roam.publish("P", 3)
    roam.settle()
    assert roam.numbers("C", "P") == [3]
    assert roam.client("C").receipts[-1].session_lost


def test_an_old_broker_that_is_gone_for_good_is_given_up_and_the_receipt_says_so(roam):
    roam.leave("C")
    roam.publish("P", 1, 2)
    roam.settle()
    roam.crash("B6", keeps_disk=False)
    roam.come("C", "B1")
    roam.pass_time(relocation.RELOCATE_S / 2)
    roam.publish("P", 3)
    roam.pass_time(relocation.RELOCATE_S)
    assert roam.numbers("C", "P") == [3]  # what came since is there; what died with B6 is not
    assert roam.client("C").receipts[-1].session_lost


def test_a_broker_elsewhere_that_is_gone_for_good_delays_one_relocation_and_no_other(roam):
    roam.crash("B3", keeps_disk=False)
    roam.settle()
    roam.come("C", "B1")
    roam.pass_time(transfer_barrier.FLUSH_S / 2)
    assert not roam.client("C").is_attached
    roam.pass_time(transfer_barrier.FLUSH_S)
    assert roam.client("C").is_attached
    roam.come("C", "B6")
    roam.pass_time(transfer_barrier.FLUSH_S + 1)
    roam.come("C", "B1")
    roam.publish("P", 1)
    roam.settle()
    assert roam.numbers("C", "P") == [1]


def test_a_session_that_nobody_can_find_any_more_is_found_by_the_trail_of_its_client(roam):
    check_that_a_lost_trail_is_found(roam)


@pytest.mark.parametrize("brokers", [8, 16])
def test_what_a_relocation_costs_grows_no_faster_than_the_network(brokers):
    """One multicast, an answer of each: a constant number of packets for each broker, as for a subscription."""
    roam = graph(" ".join(f"B0-B{n}" for n in range(1, brokers)))
    roam.come("C", "B1")
    roam.subscribe("C")
    roam.settle()
    before = sum(roam.packets.values())
    roam.come("C", "B2")
    roam.settle()
    assert sum(roam.packets.values()) - before < 6 * brokers
