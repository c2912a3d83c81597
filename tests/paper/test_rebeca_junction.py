"""Relocation by the routing tables, sentence by sentence. [rebeca §4, Fig. 5; claim R2]

The network of Fig. 5: B6 is the old location and B1 the new one; their ways to the producer behind B7 meet at B4.
"""

from collections import Counter
from typing import Any

import pytest

from godwit.broker.effects import Send
from godwit.broker.messages import Attach, Frame
from godwit.mobility.attach_policies.junction import JunctionPolicy
from godwit.mobility.move_messages import FetchSession, Replay
from tests.paper.roaming_world import LATENCY_S, Roaming

FIG_5 = "B1-B2 B2-B3 B3-B4 B4-B5 B5-B6 B4-B7"
REDUCTIONS = ("flooding", "simple", "identity", "covering", "merging")
PRODUCERS = {"P1": "B7", "P2": "B8", "P3": "B9", "P4": "B1", "P5": "B6"}
"""Fig. 5, right: producers beside the way, and at both of its ends."""


def started(reduction: str = "simple") -> Roaming:
    roam = Roaming(FIG_5, reduction=reduction, advertisements="required")
    roam.come("P", "B7")
    roam.advertise("P")
    roam.come("C", "B6", "junction")
    roam.subscribe("C")
    roam.settle()
    return roam


def sent(roam: Roaming, kind: type) -> list[tuple[str, str, Any]]:
    """From here on: who sends such a message to whom, in order."""
    found: list[tuple[str, str, Any]] = []

    for name in roam.brokers:
        machine = roam.broker(name)

        def noting(input: Any, now: float, name: str = name, handle: Any = machine.handle) -> Any:
            effects = handle(input, now)
            for effect in effects:
                frame = effect.frame if isinstance(effect, Send) else None
                if isinstance(effect, Send) and isinstance(frame, Frame) and isinstance(frame.message, kind):
                    found.append((name, effect.peer, frame.message))
            return effects

        machine.handle = noting  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_client_gets_every_event_once_and_in_order_whatever_happens_while_it_moves(reduction: str) -> None:
    roam = started(reduction)
    roam.publish("P", 1, 2)
    roam.settle()
    roam.leave("C")
    roam.publish("P", 3, 4)
    roam.settle()
    for place in ("B1", "B6"):
        roam.come("C", place)
        for _ in range(40):  # while the relocation is under way
            roam.publish("P", 5)
            roam.pass_time(0.005)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 85))
    assert roam.holds_nothing_of("B1", "C")


def test_the_client_re_issues_its_subscription_with_its_last_number_and_says_not_where_it_was() -> None:
    """'Note that neither client nor broker need to have any knowledge about the old location' [§4.1]"""
    roam = started()
    roam.publish("P", 1, 2, 3)
    roam.settle()
    roam.leave("C")
    client = roam.client("C")
    attach = next(effect.message for effect in client.on_opened("B1", roam.now) if hasattr(effect, "message"))
    assert isinstance(attach, Attach)
    assert (attach.home, attach.numbers) == ("", {"F": 3})


def test_the_fetch_goes_from_the_junction_along_the_old_path() -> None:
    """'As B4 has an old entry for this subscription, B4 sends a fetch request along the old path to B6' [§4.1]"""
    roam = started()
    roam.publish("P", 1)
    roam.settle()
    fetches, replays = sent(roam, FetchSession), sent(roam, Replay)
    roam.come("C", "B1")
    roam.settle()
    assert [(a, b) for a, b, _ in fetches] == [("B1", "B2"), ("B2", "B3"), ("B3", "B4"), ("B4", "B5"), ("B5", "B6")]
    assert {(each.name, each.received) for _, _, fetch in fetches for each in fetch.subscriptions} == {("F", 1)}
    assert [(a, b) for a, b, _ in replays] == [(b, a) for a, b, _ in reversed(fetches)]


def test_every_entry_on_the_way_points_to_the_new_place_and_the_producer_hears_nothing() -> None:
    """'all brokers along this path update their routing tables such that they are pointing into the direction of B4'"""
    roam = started()
    heard = sent(roam, object)
    roam.come("C", "B1")
    roam.settle()
    told = {name: _sources(roam, name) for name in roam.brokers}
    assert told == {"B1": [""], "B2": ["B1"], "B3": ["B2"], "B4": ["B3"], "B5": [], "B6": [], "B7": ["B4"]}
    assert not [message for _, to, message in heard if to == "B7"]


def _sources(roam: Roaming, broker: str) -> list[str]:
    routing: Any = roam.broker(broker).routing
    return [source for source, entries in routing.in_subs.items() if ("C", "F") in entries]


def test_the_counterpart_replays_from_the_number_that_the_client_gave() -> None:
    """'replays all events … beginning with the sequence number initially given by C to B1 (here 124)' [§4.1]"""
    roam = started()
    roam.publish("P", 1, 2)
    roam.pass_time(5 * LATENCY_S)  # both have come, and B6 has not heard so
    roam.leave("C")
    roam.publish("P", 3)
    roam.settle()
    replays = sent(roam, Replay)
    roam.come("C", "B1")
    roam.settle()
    assert {item.event.sequence for _, _, replay in replays for item in replay.items} == {3}
    assert roam.numbers("C", "P") == [1, 2, 3]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_several_producers_have_several_junctions(reduction: str) -> None:
    """Fig. 5, right."""
    roam = Roaming(f"{FIG_5} B2-B8 B5-B9", reduction=reduction, advertisements="required")
    for producer, home in PRODUCERS.items():
        roam.come(producer, home)
        roam.advertise(producer)
    roam.come("C", "B6", "junction")
    roam.subscribe("C")
    roam.settle()
    for place in ("B1", "B9", "B7"):
        roam.come("C", place)
        for _ in range(10):
            for producer in PRODUCERS:
                roam.publish(producer, 1)
            roam.pass_time(0.004)
        roam.settle()
    for producer in PRODUCERS:
        assert roam.numbers("C", producer) == list(range(1, 31))


@pytest.mark.parametrize("reduction", ["identity", "covering", "merging"])
def test_behind_covering_filters_the_fetch_is_directed_towards_all_of_them(reduction: str) -> None:
    """'if the fetch request … is directed towards both matching advertisements and covering filters' [§4.2]"""
    roam = Roaming(f"{FIG_5} B4-B8", reduction=reduction, advertisements="required")
    roam.come("P", "B7")
    roam.advertise("P", "x >= -100")
    for name, home in (("W1", "B8"), ("W6", "B6")):
        roam.come(name, home)
        roam.subscribe(name, "x >= -100")
    roam.come("C", "B6", "junction")
    roam.subscribe("C")
    roam.settle()
    fetches = sent(roam, FetchSession)
    roam.come("C", "B1")
    for _ in range(30):
        roam.publish("P", 1)
        roam.pass_time(0.004)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 31))
    asked = Counter(b for _, b, _ in fetches)
    assert asked == Counter(("B2", "B3", "B4", "B5", "B6", "B7", "B8"))  # B8: a filter that covers; B7: the producer


def test_a_session_that_no_table_leads_to_is_looked_for_everywhere() -> None:
    """Its producer has gone for good, so no entry of the client is left on the way; its queue still waits."""
    roam = started()
    roam.leave("C")
    roam.publish("P", 1, 2)
    roam.settle()
    roam.command("P", lambda machine, now: machine.leave(now))
    roam.settle()
    fetches = sent(roam, FetchSession)
    roam.come("C", "B1")
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2]
    assert {fetch.round for _, _, fetch in fetches} == {1}


def test_a_session_that_nobody_has_is_given_up_as_soon_as_all_have_said_so() -> None:
    roam = started()
    roam.leave("C")
    roam.crash("B6", keeps_disk=False)
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.settle()
    roam.come("C", "B1")
    roam.pass_time(1.0)
    assert roam.client("C").is_attached
    assert roam.client("C").receipts[-1].session_lost


def test_a_client_that_moves_on_before_its_session_has_come_misses_nothing() -> None:
    roam = started()
    for _ in range(5):
        for place in ("B1", "B7", "B3", "B6"):
            roam.come("C", place)
            roam.publish("P", 1)
            roam.pass_time(0.023)
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 21))
    roam.pass_time(130.0)  # after RELOCATE_S nobody waits for a session that went elsewhere
    assert sum(name != "B6" and not roam.holds_nothing_of(name, "C") for name in roam.brokers) == 0


def test_what_is_remembered_of_fetches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.mobility.client_memory.CLIENTS_MAX", 1)
    roam = started()
    roam.come("D", "B6", "junction")
    roam.subscribe("D")
    roam.settle()
    for client in ("C", "D"):
        roam.come(client, "B1")
        roam.settle()
    assert list(roam.broker("B4").component(JunctionPolicy).passages) == ["D"]
