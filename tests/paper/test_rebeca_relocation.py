"""Relocation of a roaming client, sentence by sentence. [rebeca §3.2, §4; claim R2]

The network of Fig. 5: B6 is the old location and B1 the new one; they meet at B4, behind which the producer is.
"""

import pytest

from godwit.broker.effects import Send
from godwit.broker.messages import Frame
from godwit.mobility import relocation
from godwit.mobility.move_messages import Relocate, Superseded
from godwit.mobility.relocation import Relocation
from tests.paper.roaming_world import Roaming, check_that_a_lost_trail_is_found

FIG_5 = "B1-B2 B2-B3 B3-B4 B4-B5 B5-B6 B4-B7"
REDUCTIONS = ("flooding", "simple", "identity", "covering", "merging")


@pytest.fixture(params=REDUCTIONS)
def roam(request: pytest.FixtureRequest) -> Roaming:
    roam = Roaming(FIG_5, reduction=request.param)
    roam.come("P", "B7")
    roam.come("C", "B6")
    roam.subscribe("C")
    roam.settle()
    return roam


def test_the_client_gets_every_event_once_and_in_order_whatever_happens_while_it_moves(roam):
    roam.publish("P", 1, 2)
    roam.settle()
    roam.leave("C")
    roam.publish("P", 3, 4)
    roam.settle()
    roam.come("C", "B1")
    for _ in range(40):  # while the relocation is under way
        roam.publish("P", 5)
        roam.pass_time(0.005)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 45))


def test_no_move_out_is_needed(roam):
    """'no explicit MoveOut or un-subscribe at the old location should be needed' [§4.1]"""
    roam.publish("P", 1)
    roam.settle()
    old = roam.broker("B6").sessions.session("C")
    assert old is not None
    roam.come("C", "B1")  # B6 hears only that a connection broke
    roam.publish("P", 2)
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2]


def test_the_counterpart_collects_until_a_broker_elsewhere_claims_the_client(roam):
    """'maintain a 'virtual counterpart' of a roaming client at the last known location' [§4.1]"""
    roam.leave("C")
    roam.publish("P", 1, 2, 3)
    roam.settle()
    session = roam.broker("B6").sessions.session("C")
    assert session is not None
    assert len(session.queue) == 3
    assert roam.numbers("C", "P") == []


def test_the_client_comes_with_the_last_number_it_has_seen(roam):
    """'re-issues a subscription together with the last received sequence number' [§4.1]"""
    roam.publish("P", 1, 2)
    roam.settle()
    roam.come("C", "B1")
    roam.pass_time(0.001)
    assert roam.client("C").session.startswith("B6/")
    roam.settle()
    [receipt] = list(roam.client("C").receipts)[1:]
    assert not receipt.session_lost
    assert receipt.replayed == 0  # it had seen both


def test_the_new_broker_keeps_new_events_until_the_old_ones_are_delivered(roam):
    """'B1 has buffered all notifications that have arrived … and delivers the old messages from B6 first' [§4.1]"""
    roam.leave("C")
    roam.publish("P", *range(200))  # more than one part of a replay
    roam.settle()
    roam.come("C", "B1")
    roam.pass_time(0.045)  # the subscription has passed the junction, the replay is not back yet
    roam.publish("P", 1000, 1001)
    roam.pass_time(0.055)
    assert [event.sequence for event, _ in roam.broker("B1").component(Relocation).arrivals["C"].buffer] == [201, 202]
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 203))


def test_the_old_location_collects_its_garbage(roam):
    """'Broker B6 at the old location can garbage collect all resources formerly associated with C, and so can B5'"""
    roam.come("C", "B1")
    roam.settle()
    assert roam.holds_nothing_of("B6", "C")
    assert roam.broker("B6").routing.in_subs["B5"] == roam.broker("B5").routing.out_subs["B6"].told
    assert roam.broker("B4").routing.in_subs["B5"] == {}
    assert roam.broker("B5").routing.in_subs["B6"] == {}


def test_several_producers_have_several_junctions():
    """Fig. 5, right: producers that hang on different brokers of the way, at its ends and beside it."""
    roam = Roaming(f"{FIG_5} B2-B8 B5-B9")
    homes = {"P1": "B7", "P2": "B8", "P3": "B9", "P4": "B1", "P5": "B6"}
    for producer, home in homes.items():
        roam.come(producer, home)
    roam.come("C", "B6")
    roam.subscribe("C")
    roam.settle()
    roam.come("C", "B1")
    for _ in range(30):
        for producer in homes:
            roam.publish(producer, 1)
        roam.pass_time(0.004)
    roam.settle()
    for producer in homes:
        assert roam.numbers("C", producer) == list(range(1, 31))


@pytest.mark.parametrize("reduction", ["covering", "merging"])
def test_covering_and_merging_can_be_exploited_too(reduction):
    """§4.2: another subscriber's filter covers that of C on both ways, so no broker has an entry of C's own."""
    roam = Roaming(FIG_5, reduction=reduction)
    roam.come("P", "B7")
    for name, home in (("W1", "B1"), ("W6", "B6")):
        roam.come(name, home)
        roam.subscribe(name, "x >= -100")
    roam.come("C", "B6")
    roam.subscribe("C", "x >= 0")
    roam.settle()
    roam.come("C", "B1")
    for _ in range(30):
        roam.publish("P", 1)
        roam.pass_time(0.004)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 31))


def test_a_producer_that_moves_loses_nothing_and_overtakes_nothing(roam):
    """Sender order holds over the move [§3.2]: what it said at the old broker comes before what it says at the new."""
    for home in ("B1", "B6", "B3", "B7"):
        roam.publish("P", 1, 2)
        roam.come("P", home)
        roam.publish("P", 3)
        roam.pass_time(0.03)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 13))


def test_a_client_that_moves_on_before_it_has_arrived_misses_nothing(roam):
    for number, home in enumerate(("B1", "B3", "B7", "B6", "B2", "B1")):
        roam.come("C", home)
        roam.publish("P", number)
        roam.pass_time(0.013)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 7))
    assert [b for b in ("B2", "B3", "B4", "B5", "B6", "B7") if not roam.holds_nothing_of(b, "C")] == []


def test_a_client_that_comes_back_before_it_was_missed_goes_on_where_it_was(roam):
    roam.come("C", "B1")
    roam.pass_time(0.005)  # B1 has not heard of it yet
    roam.come("C", "B6")
    roam.publish("P", 1)
    roam.settle()
    assert roam.numbers("C", "P") == [1]
    assert roam.holds_nothing_of("B1", "C")


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
    assert roam.holds_nothing_of("B6", "C")


def test_a_session_whose_trail_died_with_a_disk_is_found_where_the_client_has_been(roam):
    check_that_a_lost_trail_is_found(roam)


def test_no_session_is_begun_for_a_client_that_has_gone_again(roam):
    roam.crash("B6", keeps_disk=False)
    roam.come("C", "B1")
    roam.settle()
    roam.leave("C")
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.pass_time(20.0)
    assert roam.holds_nothing_of("B1", "C")
    roam.come("C", "B3")
    roam.settle()
    assert roam.client("C").receipts[-1].session_lost
    assert roam.broker("B3").sessions.session("C") is not None


def test_a_replay_that_comes_to_the_next_life_of_a_broker_counts_by_no_old_numbers():
    """B1 went on with the session, lost its disk, and is sent the replay once more, which B2 had still in hand."""
    roam = Roaming(FIG_5, reduction="flooding")
    roam.come("P", "B7")
    roam.come("C", "B6")
    roam.subscribe("C")
    roam.settle()
    roam.publish("P", 1, 2)
    roam.settle()
    roam.come("C", "B1")
    roam.pass_time(0.08)
    roam.publish("P", 3)
    roam.pass_time(0.065)
    assert roam.numbers("C", "P") == [1, 2, 3]
    assert [type(message).__name__ for message in roam.broker("B2").links["B1"].outbox][:1] == ["Replay"]
    roam.crash("B1", keeps_disk=False)
    roam.restart("B1")
    roam.join("B1", "B2")
    roam.settle()
    roam.come("C", "B1")
    roam.settle()
    roam.publish("P", 4)
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2, 3, 4]
    assert roam.client("C").receipts[-1].session_lost


def test_of_two_devices_that_claim_one_session_the_one_that_came_last_has_it():
    roam = Roaming(FIG_5)
    roam.come("C", "B6")
    roam.settle()
    roam.client("C").attempt = 5
    roam.come("C", "B1")
    roam.settle()
    late = Relocate("C", "B1", "B6", 3)  # another device of an older greeting asks for the session
    [answer] = [
        e for e in roam.broker("B1").component(Relocation).on_relocate("B2", late, roam.now) if isinstance(e, Send)
    ]
    assert isinstance(answer.frame, Frame)
    assert isinstance(answer.frame.message, Superseded)
    assert roam.broker("B1").sessions.session("C") is not None


def test_what_a_relocation_costs_grows_with_the_distance_and_not_with_the_network():
    def messages(length: int, distance: int) -> int:
        roam = Roaming(" ".join(f"B{n}-B{n + 1}" for n in range(length)))
        roam.come("P", "B0")
        roam.come("C", f"B{length // 2}")
        roam.subscribe("C")
        roam.settle()
        before = dict(roam.handled)
        roam.come("C", f"B{length // 2 + distance}")
        roam.settle()
        kinds = {kind: count - before.get(kind, 0) for kind, count in roam.handled.items()}
        return sum(count for kind, count in kinds.items() if kind.__name__ not in ("Ack", "Hello"))

    assert messages(20, 1) == messages(10, 1)
    assert messages(20, 2) < messages(20, 4) < messages(20, 8)
