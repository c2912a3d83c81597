"""The naive solutions lose, duplicate and starve, sentence by sentence. [rebeca §1, §3.2, §3.3, Fig. 2, 3; claim R3]

A checker that these modes did not fail would see nothing: the same histories are complete when the client relocates.
"""

import pytest

from godwit.broker.limits import Limits
from tests.paper.roaming_world import LATENCY_S, Roaming

LINE = "B1-B2 B2-B3 B3-B4"


def moved_while_on_the_way(mode: str, reduction: str) -> Roaming:
    """Fig. 2: an event has reached neither broker when the client goes, or has passed the new one before it comes."""
    roam = Roaming(LINE, reduction=reduction, advertisements="off")
    roam.come("P", "B1")
    roam.come("C", "B4", mode)
    roam.come("W", "B1")  # wants the same, so that every broker gets every event even without flooding
    roam.come("V", "B4")
    for client in ("C", "W", "V"):
        roam.subscribe(client)
    roam.settle()
    roam.publish("P", 1)
    roam.pass_time(1.5 * LATENCY_S)  # B1 has it, and B4 will have it in three hops
    roam.come("C", "B1")  # at once
    roam.settle()
    return roam


@pytest.mark.parametrize("reduction", ["flooding", "simple", "covering"])
def test_notifications_are_missed_even_if_flooded_and_the_change_is_instantaneous(reduction):
    """'the client might miss several notifications … even if notifications are flooded …' [§3.2, Fig. 2]"""
    assert moved_while_on_the_way("naive", reduction).numbers("C", "P") == []
    assert moved_while_on_the_way("relocate", reduction).numbers("C", "P") == [1]


def moved_ahead(mode: str, reduction: str) -> Roaming:
    """The other way about: the client runs ahead of an event that it has got already."""
    roam = Roaming(LINE, reduction=reduction, advertisements="off")
    roam.come("P", "B1")
    roam.come("C", "B1", mode)
    roam.come("V", "B4")
    for client in ("C", "V"):
        roam.subscribe(client)
    roam.settle()
    roam.publish("P", 1)
    roam.pass_time(2.1 * LATENCY_S)  # it has come to C, and is on its way to B4
    assert roam.numbers("C", "P") == [1]
    roam.set_latency("C", "B4", LATENCY_S / 20)
    roam.come("C", "B4")
    roam.settle()
    return roam


@pytest.mark.parametrize("reduction", ["flooding", "simple", "covering"])
def test_notifications_come_twice_even_if_the_change_is_instantaneous(reduction):
    """'… or get duplicates' [§3.2, Fig. 2]"""
    assert moved_ahead("naive", reduction).numbers("C", "P") == [1, 1]
    assert moved_ahead("relocate", reduction).numbers("C", "P") == [1]


@pytest.mark.parametrize(("mode", "expected"), [("naive", [1, 2, 4, 2, 3, 4]), ("relocate", [1, 2, 3, 4])])
def test_a_client_that_cannot_unsubscribe_leaves_a_session_behind_that_it_finds_again(mode, expected):
    """'a client may not detect leaving the range of a broker and is … not able to unsubscribe' [§3.2]"""
    roam = Roaming(LINE, advertisements="off")
    roam.come("P", "B1")
    roam.come("C", "B4", mode)
    roam.subscribe("C")
    roam.settle()
    roam.publish("P", 1)
    roam.settle()
    roam.come("C", "B2")
    roam.settle()
    roam.publish("P", 2)
    roam.settle()
    roam.leave("C")
    roam.publish("P", 3)
    roam.settle()
    roam.come("C", "B1")  # where it has never been
    roam.settle()
    roam.publish("P", 4)
    roam.settle()
    roam.come("C", "B4")  # what it has left there was collected all the time
    roam.settle()
    assert roam.numbers("C", "P") == expected


def test_who_unsubscribes_before_it_goes_gets_nothing_twice_and_still_misses_events():
    """sub-unsub-sub as it is meant: 'it simply unsubscribes at B1 and (re-)subscribes at B2' [§3.2]"""
    roam = Roaming(LINE, advertisements="off")
    roam.come("P", "B1")
    roam.come("C", "B4", "naive")
    roam.subscribe("C")
    roam.settle()
    roam.say_move_out("C")
    roam.settle()
    assert roam.holds_nothing_of("B4", "C")
    roam.publish("P", 1)
    roam.settle()
    roam.come("C", "B2")
    roam.settle()
    roam.publish("P", 2)
    roam.settle()
    roam.say_move_out("C")
    roam.come("C", "B4")
    roam.settle()
    assert roam.numbers("C", "P") == [2]


def test_what_a_naive_client_leaves_behind_is_gone_when_its_time_is_over():
    roam = Roaming(LINE, advertisements="off", limits=Limits(session_expiry_s=60.0))
    roam.come("C", "B4", "naive")
    roam.subscribe("C")
    roam.settle()
    roam.come("C", "B2")
    roam.settle()
    assert not roam.holds_nothing_of("B4", "C")
    roam.pass_time(60.0)
    assert roam.holds_nothing_of("B4", "C")
    assert not roam.holds_nothing_of("B2", "C")


def test_after_subscribing_there_is_a_blackout_of_twice_the_delay_to_the_source():
    """'it takes some time td until the subscription is propagated … another td …' [§3.3, Fig. 3a]"""
    brokers = 8
    roam = Roaming(" ".join(f"B{n}-B{n + 1}" for n in range(brokers)), reduction="simple", advertisements="off")
    roam.come("P", "B0")
    roam.come("C", "B0", "naive")
    roam.subscribe("C")
    roam.settle()
    roam.come("C", f"B{brokers}")
    roam.pass_time(3 * LATENCY_S)  # it is greeted, and says what it wants: the subscription is at its broker now
    subscribed_at = roam.now
    roam.notifications.clear()
    while not roam.times("C"):
        roam.publish("P", 1)
        roam.pass_time(LATENCY_S / 10)
    published_at, delivered_at = roam.times("C")[0]
    delay = brokers * LATENCY_S  # td, between the two border brokers
    hop = LATENCY_S  # between a client and its broker
    assert published_at - subscribed_at == pytest.approx(delay - hop, abs=LATENCY_S / 5)
    assert delivered_at - subscribed_at == pytest.approx(2 * delay + hop, abs=LATENCY_S / 5)


def test_a_client_that_stays_nowhere_longer_than_that_starves():
    """'If the client remains at any new location less than 2td time, then the subscriber will starve' [§3.3]"""

    def got(mode: str) -> list[int]:
        roam = Roaming(" ".join(f"B{n}-B{n + 1}" for n in range(8)), reduction="simple", advertisements="off")
        roam.come("P", "B0")
        roam.come("C", "B8", mode)
        roam.subscribe("C")
        roam.settle()
        for turn in range(12):
            roam.say_move_out("C")
            roam.come("C", f"B{6 + turn % 3}")
            for _ in range(8):  # half of 2·td
                roam.publish("P", 1)
                roam.pass_time(LATENCY_S)
        if mode == "relocate":
            roam.settle()
        return roam.numbers("C", "P")

    assert got("naive") == []
    assert got("relocate") == list(range(1, 97))


def test_flooding_with_filtering_at_the_edge_has_no_blackout():
    """'Obviously, flooding prevents the blackout periods' [§3.3, Fig. 3b]"""
    roam = Roaming(" ".join(f"B{n}-B{n + 1}" for n in range(8)), reduction="flooding", advertisements="off")
    roam.come("P", "B0")
    roam.come("C", "B0", "naive")
    roam.subscribe("C")
    roam.settle()
    for _ in range(20):  # events are on the way to every broker
        roam.publish("P", 1)
        roam.pass_time(LATENCY_S)
    roam.come("C", "B8")
    roam.pass_time(3 * LATENCY_S)
    subscribed_at = roam.now
    roam.notifications.clear()
    roam.publish("P", 1)
    roam.pass_time(2 * LATENCY_S)
    assert roam.times("C")[0][1] - subscribed_at <= 2 * LATENCY_S  # the first event that passes


# ------------------------------------------------------------ JEDI's moveOut and moveIn [rebeca §1]


def explicit(*, says_move_out: bool) -> Roaming:
    roam = Roaming(LINE)
    roam.come("P", "B1")
    roam.come("C", "B4", "explicit")
    roam.subscribe("C")
    roam.settle()
    roam.publish("P", 1)
    roam.settle()
    if says_move_out:
        roam.say_move_out("C")
    roam.leave("C")
    roam.publish("P", 2, 3)
    roam.settle()
    roam.come("C", "B2")
    roam.settle()
    roam.publish("P", 4)
    roam.settle()
    return roam


def test_with_a_move_out_nothing_is_lost():
    """'JEDI uses explicit moveIn and moveOut operations to relocate clients' [§1]"""
    roam = explicit(says_move_out=True)
    assert roam.numbers("C", "P") == [1, 2, 3, 4]
    assert roam.holds_nothing_of("B4", "C")


def test_without_a_move_out_what_comes_meanwhile_is_lost_and_nothing_is_kept():
    roam = explicit(says_move_out=False)
    assert roam.numbers("C", "P") == [1, 4]
    assert roam.holds_nothing_of("B4", "C")
    assert roam.client("C").receipts[-1].session_lost


def test_a_connection_that_breaks_without_a_word_ends_the_session_at_once():
    roam = Roaming(LINE)
    roam.come("C", "B4", "explicit")
    roam.subscribe("C")
    roam.settle()
    roam.leave("C")
    roam.pass_time(0.001)
    assert roam.holds_nothing_of("B4", "C")
    roam.settle()
    assert all(not roam.broker(name).routing.in_subs[peer] for name, peer in (("B3", "B4"), ("B2", "B3")))  # type: ignore[attr-defined]
