"""Channels: packets are divided hop by hop, taken once and in order, parked, asked for and given up."""

import pytest

from godwit.broker import channels as channels_module
from godwit.broker.channels import Channels
from godwit.broker.effects import StartTimer, StopTimer, Trace
from godwit.broker.messages import (
    Carried,
    ChannelStart,
    ChannelTail,
    LinkState,
    LostNumbers,
    Nack,
    Packet,
    Publish,
    Synced,
)
from godwit.broker.packet_checks import NACK_MAX
from godwit.broker.queues import event_size
from godwit.broker.routing import Answer, Forward
from godwit.broker.topology import Topology
from godwit.filters.events import event
from tests.snapshots import restored

S = "source"


def star(*leaves: str) -> Topology:
    """The view of `me`, in the middle."""
    topology = Topology("me")
    for leaf in leaves:
        topology.open_link(leaf)
        topology.learn(LinkState(leaf, 1, 1, {"me": 1.0}))
    return topology


def channels(*leaves: str, **bounds: int) -> Channels:
    return Channels(star(*(leaves or (S,))), gap_wait_s=5.0, **bounds)


def news(number: int) -> Publish:
    return Publish(event({"x": number}, publisher="p", sequence=number))


def packet(number: int, message: Carried | None = None, incarnation: int = 1) -> Packet:
    return Packet(S, incarnation, {"me": number}, message or news(number))


def started(**bounds: int) -> Channels:
    """Channels that have met the source, and taken its Start."""
    made = channels(**bounds)
    made.start(S, 1)
    made.on_packet(packet(1, ChannelStart(1)), 0.0)
    return made


def taken(made: Channels, *packets: Packet) -> list[Carried]:
    """What is handed on, in order."""
    return [message for each in packets for _, message in made.on_packet(each, 0.0)[1]]


def sent(answers: list[Answer]) -> list[tuple[str, Packet]]:
    return [
        (answer.peer, answer.message)
        for answer in answers
        if isinstance(answer, Forward) and isinstance(answer.message, Packet)
    ]


def losses(answers: list[Answer]) -> list[tuple[str, int]]:
    return [(answer.record.message, answer.record.number) for answer in answers if isinstance(answer, Trace)]


# ------------------------------------------------------------ sending


def test_a_source_numbers_its_packets_for_each_target() -> None:
    made = channels("b", "c")
    assert sent(made.send(["b"], news(1))) == [("b", Packet("me", 1, {"b": 1}, news(1)))]
    assert sent(made.send(["b", "c"], news(2))) == [
        ("b", Packet("me", 1, {"b": 2}, news(2))),
        ("c", Packet("me", 1, {"c": 1}, news(2))),
    ]


def test_a_hop_passes_a_packet_for_one_neighbour_on_as_it_is() -> None:
    made = channels("b", S)
    passing = Packet(S, 1, {"b": 3}, news(1))
    [(peer, message)] = sent(made.on_packet(passing, 0.0)[0])
    assert peer == "b"
    assert message is passing


def test_a_hop_that_is_a_target_takes_its_part_and_passes_on_the_rest() -> None:
    made = started()
    made.topology.open_link("b")
    made.topology.learn(LinkState("b", 1, 1, {"me": 1.0}))
    answers, handed_on = made.on_packet(Packet(S, 1, {"b": 7, "me": 2}, news(2)), 0.0)
    assert sent(answers) == [("b", Packet(S, 1, {"b": 7}, news(2)))]
    assert handed_on == [(S, news(2))]


def test_a_packet_for_a_broker_without_a_way_is_parked_and_goes_on_when_there_is_one() -> None:
    made = channels("b")
    made.send(["b", "far"], news(1))
    made.on_packet(Packet("b", 1, {"far": 4}, news(2)), 0.0)
    assert made.on_topology_changed(0.0) == []
    made.topology.learn(LinkState("b", 1, 2, {"me": 1.0, "far": 1.0}))
    made.topology.learn(LinkState("far", 1, 1, {"b": 1.0}))
    assert sent(made.on_topology_changed(0.0)) == [
        ("b", Packet("me", 1, {"far": 1}, news(1))),
        ("b", Packet("b", 1, {"far": 4}, news(2))),
    ]
    assert made.parked == {}


def test_what_there_is_no_room_to_park_is_recorded_as_lost() -> None:
    made = channels("b", parked_max=2)
    answers = [answer for number in range(1, 5) for answer in made.send(["far"], news(number))]
    assert losses(answers) == [("Publish", 2), ("Publish", 3)]
    assert [each.targets["far"] for each in made.parked["far"]] == [1, 4]  # by the last, the target sees what it misses


# ------------------------------------------------------------ receiving


def test_packets_are_taken_in_the_order_of_their_numbers_and_each_once() -> None:
    made = started()
    assert taken(made, packet(4), packet(3), packet(3)) == []
    assert taken(made, packet(2)) == [news(2), news(3), news(4)]
    assert taken(made, packet(2), packet(4), packet(3)) == []
    assert taken(made, packet(5)) == [news(5)]


def test_nothing_is_taken_before_the_start_for_this_life() -> None:
    made = channels()
    made.start(S, 1)
    assert taken(made, packet(1, ChannelStart(9)), packet(2), packet(5), packet(7)) == []
    answers, handed_on = made.on_packet(packet(6, ChannelStart(1)), 0.0)
    assert handed_on == [(S, ChannelStart(1)), (S, news(7))]
    assert losses(answers) == [("Publish", 2), ("Publish", 5)]  # they were for a life that is over
    answers, handed_on = made.on_packet(packet(4), 0.0)
    assert handed_on == []
    assert losses(answers) == [("Publish", 4)]


def test_a_start_for_the_same_life_again_waits_for_its_turn() -> None:
    made = started()
    assert taken(made, packet(3, ChannelStart(1))) == []
    assert taken(made, packet(2)) == [news(2), ChannelStart(1)]


def test_what_is_early_beyond_the_bound_is_dropped_and_asked_for_again() -> None:
    made = started(held_max=2)
    assert taken(made, packet(4), packet(5), packet(6)) == []
    made.on_gap_due(S, 5.0)
    assert made.history[-1].message == Nack(1, (2, 3, 6))
    assert taken(made, packet(2), packet(3)) == [news(2), news(3), news(4), news(5)]
    assert taken(made, packet(6)) == [news(6)]


def test_a_start_is_taken_however_much_is_held() -> None:
    made = channels(held_max=2)
    made.start(S, 1)
    assert taken(made, packet(2), packet(3), packet(4)) == []
    assert taken(made, packet(1, ChannelStart(1))) == [ChannelStart(1), news(2), news(3)]


# ------------------------------------------------------------ gaps


def test_a_gap_starts_a_timer_and_closing_it_stops_it() -> None:
    made = started()
    assert made.on_packet(packet(3), 1.0)[0] == [StartTimer(("gap", S), 6.0)]
    assert made.on_packet(packet(5), 2.0)[0] == []
    assert made.on_packet(packet(2), 3.0)[0] == []  # 4 is missing still
    assert made.on_packet(packet(4), 4.0)[0] == [StopTimer(("gap", S))]


def test_a_gap_is_asked_for_only_when_it_has_been_open_for_the_whole_wait() -> None:
    made = started()
    made.on_packet(packet(3), 0.0)
    made.on_packet(packet(2), 4.0)
    made.on_packet(packet(5), 4.5)
    made.on_packet(packet(7), 4.6)
    assert made.on_gap_due(S, 9.5)[1:] == [
        Forward(S, Packet("me", 1, {S: 2}, Nack(1, (4, 6)))),
    ]


def test_a_gap_that_has_moved_while_the_timer_ran_waits_anew() -> None:
    made = started()
    made.on_packet(packet(3), 0.0)
    made.on_packet(packet(5), 1.0)
    made.on_packet(packet(2), 4.0)
    assert made.on_gap_due(S, 5.0) == [StartTimer(("gap", S), 10.0)]
    assert sent(made.on_gap_due(S, 10.0)) == [(S, Packet("me", 1, {S: 2}, Nack(1, (4,))))]


def test_nobody_is_asked_while_there_is_no_way_to_the_source() -> None:
    made = started()
    made.on_packet(packet(3), 0.0)
    made.topology.drop_link(S)
    assert made.on_gap_due(S, 5.0) == []
    made.topology.open_link(S)
    assert made.on_topology_changed(7.0) == [StartTimer(("gap", S), 12.0)]


def test_a_target_that_misses_the_start_asks_for_it() -> None:
    made = channels()
    made.start(S, 1)
    made.on_packet(packet(2), 0.0)
    assert sent(made.on_gap_due(S, 5.0)) == [(S, Packet("me", 1, {S: 2}, Nack(1, (1,))))]


def test_a_question_names_a_bounded_count_of_numbers() -> None:
    made = started()
    made.on_packet(packet(1 << 50), 0.0)
    made.on_gap_due(S, 5.0)
    message = made.history[-1].message
    assert isinstance(message, Nack)
    assert message.numbers == tuple(range(2, NACK_MAX + 2))


def test_a_source_sends_again_what_it_still_has_and_gives_up_the_rest() -> None:
    made = started(history_max=2)
    for number in (2, 3, 4):
        made.send([S], news(number))
    answers, handed_on = made.on_packet(packet(2, Nack(1, (2, 3, 4, 99))), 0.0)
    assert sent(answers) == [
        (S, Packet("me", 1, {S: 3}, news(3))),
        (S, Packet("me", 1, {S: 4}, news(4))),
        (S, Packet("me", 1, {S: 5}, LostNumbers(1, (2,)))),
    ]
    assert handed_on == []


def test_a_source_sends_its_start_again() -> None:
    made = started()
    answers, _ = made.on_packet(packet(2, Nack(1, (1,))), 0.0)
    assert sent(answers) == [(S, Packet("me", 1, {S: 1}, ChannelStart(1)))]


def test_a_target_that_wants_to_be_told_everything_is_handed_on() -> None:
    assert taken(started(), packet(2, Nack(1, ()))) == [Nack(1, ())]


def test_a_question_to_another_life_is_not_answered() -> None:
    made = started()
    assert made.on_packet(packet(2, Nack(7, (1,))), 0.0) == ([], [])


def test_a_void_closes_the_gap_at_once_and_what_comes_later_is_dropped_and_recorded() -> None:
    made = started()
    made.on_packet(packet(4), 0.0)
    answers, handed_on = made.on_packet(packet(5, LostNumbers(1, (2, 3))), 0.0)
    assert handed_on == [(S, LostNumbers(1, (2, 3))), (S, news(4)), (S, LostNumbers(1, ()))]
    assert losses(answers) == [("Packet", 2), ("Packet", 3)]
    assert StopTimer(("gap", S)) in answers
    assert sent(answers) == [(S, Packet("me", 1, {S: 2}, Nack(1, ())))]  # what is lost may have been a subscription
    answers, handed_on = made.on_packet(packet(3), 0.0)
    assert handed_on == []
    assert losses(answers) == [("Publish", 3)]


def test_a_void_of_what_has_come_in_the_meantime_changes_nothing() -> None:
    made = started()
    assert taken(made, packet(2), packet(3), packet(4, LostNumbers(1, (2, 3)))) == [news(2), news(3)]
    assert taken(made, packet(5)) == [news(5)]


def test_tails_tell_every_other_target_how_far_the_numbers_went() -> None:
    made = channels("b", "c", "d")
    for target in "dcb":
        made.start(target, 1)
    assert sent(made.send_tails(besides="c")) == [
        ("b", Packet("me", 1, {"b": 2}, ChannelTail())),
        ("d", Packet("me", 1, {"d": 2}, ChannelTail())),
    ]


# ------------------------------------------------------------ lives


def test_with_a_new_life_of_the_source_what_is_held_of_the_old_one_is_handed_on_and_gaps_are_recorded() -> None:
    made = started()
    made.on_packet(packet(3), 0.0)
    made.on_packet(packet(5), 0.0)
    answers, handed_on = made.on_packet(packet(1, ChannelStart(1), incarnation=2), 0.0)
    assert handed_on == [(S, news(3)), (S, news(5)), (S, ChannelStart(1))]
    assert losses(answers) == [("Packet", 2), ("Packet", 4)]
    assert StopTimer(("gap", S)) in answers
    assert taken(made, packet(2, incarnation=2)) == [news(2)]


def test_an_event_that_comes_late_of_an_old_life_is_handed_on_and_anything_else_is_dropped() -> None:
    made = started()
    taken(made, packet(2))
    made.on_packet(packet(1, ChannelStart(1), incarnation=2), 0.0)
    answers, handed_on = made.on_packet(packet(3), 0.0)
    assert [type(message) for _, message in handed_on] == [Publish]
    assert losses(answers) == []
    answers, handed_on = made.on_packet(packet(4, Synced()), 0.0)
    assert (answers, handed_on) == ([], [])


def test_a_target_that_starts_a_new_life_gets_another_start_and_numbers_go_on() -> None:
    made = channels("b")
    made.start("b", 1)
    made.send(["b"], Synced())
    assert sent(made.start("b", 2)) == [("b", Packet("me", 1, {"b": 3}, ChannelStart(2)))]
    assert made.starts == {"b": 3}
    made.start("b", 2)
    assert made.starts == {"b": 3}


def test_of_what_is_parked_the_highest_number_of_each_source_stays() -> None:
    made = channels("b", parked_max=2)
    for number in (5, 3, 4, 2):
        made.on_packet(Packet("b", 1, {"far": number}, news(number)), 0.0)
    made.on_packet(Packet("c", 1, {"far": 1}, news(1)), 0.0)
    assert [(each.source, each.targets["far"]) for each in made.parked["far"]] == [("b", 5), ("b", 4), ("c", 1)]


def test_a_new_life_of_this_broker_numbers_from_one_and_forgets_what_it_had_parked_of_its_own() -> None:
    made = channels("b")
    made.start("b", 1)
    made.send(["far"], news(1))
    made.on_packet(Packet("b", 1, {"far": 1, "further": 1}, news(2)), 0.0)
    past = made.begin_life(4)
    assert [each.message for each in past] == [ChannelStart(1), news(1)]
    assert sent(made.start("b", 1)) == [("b", Packet("me", 4, {"b": 1}, ChannelStart(1)))]
    assert {target: [each.source for each in waiting] for target, waiting in made.parked.items()} == {
        "far": ["b"],
        "further": ["b"],
    }


def test_a_new_life_sends_again_in_the_order_of_channels_whatever_the_order_in_outboxes() -> None:
    made = channels("b", "c", history_max=3)
    packets = [sent(made.send(targets, news(number)))[-1][1] for number, targets in enumerate(["b", "b", "bc", "b"], 1)]
    made.send(["b"], news(5))  # which has arrived
    to_c, last = packets[2], packets[3]  # c's part of the third
    to_b = Packet("me", 1, {"b": 3}, news(3))
    past = made.begin_life(2, [last, to_c, packets[1], to_b, packets[0]])
    assert [(list(each.targets), each.message) for each in past] == [
        (["b"], news(1)),  # these two are no longer in the history
        (["b"], news(2)),
        (["b", "c"], news(3)),
        (["b"], news(4)),
    ]


def test_timers_of_gaps_are_started_again_after_a_restart() -> None:
    made = started()
    made.on_packet(packet(3), 0.0)
    again = restored(made, channels())
    assert again.watch_again(20.0) == [StartTimer(("gap", S), 25.0)]
    assert taken(again, packet(2)) == [news(2), news(3)]


@pytest.mark.parametrize("order", [(2, 3, 4), (4, 3, 2), (3, 4, 2), (2, 4, 3)])
def test_whatever_the_order_of_arrival_the_same_is_handed_on(order: tuple[int, ...]) -> None:
    assert taken(started(), *(packet(number) for number in order)) == [news(2), news(3), news(4)]


# ------------------------------------------------------------ a lost tail


def reborn_after(made: Channels) -> Channels:
    """The same channels after their broker has lost its last inputs: it goes on as life 2."""
    made.begin_life(2)
    made.start(S, 1)
    return made


def test_after_a_lost_tail_what_a_start_has_overtaken_is_waited_for_and_comes_in_order() -> None:
    made = reborn_after(started())
    assert taken(made, packet(4, ChannelStart(2))) == []
    assert taken(made, packet(3), packet(2), packet(5)) == [news(2), news(3), ChannelStart(2), news(5)]


def test_after_a_lost_tail_a_new_life_of_a_known_source_is_taken_from_its_beginning() -> None:
    made = reborn_after(started())
    start = packet(3, ChannelStart(2), incarnation=7)
    assert taken(made, start) == []
    rest = [packet(1, ChannelStart(1), incarnation=7), packet(2, incarnation=7)]
    assert taken(made, *rest) == [ChannelStart(1), news(2), ChannelStart(2)]


def test_without_a_memory_nothing_before_the_start_is_taken() -> None:
    made = channels()
    made.begin_life(2)
    made.start(S, 1)
    assert taken(made, packet(4, ChannelStart(2)), packet(3), packet(5)) == [ChannelStart(2), news(5)]


def test_a_target_that_misses_too_much_skips_to_the_start() -> None:
    made = reborn_after(started())
    start = NACK_MAX + 3
    assert taken(made, packet(start, ChannelStart(2)), packet(2), packet(start + 1)) == [
        ChannelStart(2),
        news(start + 1),
    ]


def test_a_source_sends_again_what_it_sent_before_the_start_of_a_life() -> None:
    made = channels()
    made.start(S, 1)
    made.send([S], news(2))
    made.start(S, 2)
    answers, _ = made.on_packet(packet(1, Nack(1, (2,))), 0.0)
    assert (S, Packet("me", 1, {S: 2}, news(2))) in sent(answers)


def large(number: int) -> Publish:
    return Publish(event({"x": number}, publisher="p", sequence=number, payload=bytes(1_000)))


SIZE = event_size(large(1).event)


def fresh() -> Channels:
    return channels()


@pytest.fixture
def three_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits has room for the bytes of three events."""
    monkeypatch.setattr(channels_module, "WAITING_BYTES_MAX", 3 * SIZE)


@pytest.mark.usefixtures("three_events")
def test_the_history_keeps_as_many_packets_as_their_bytes_allow() -> None:
    made = channels()
    made.start(S, 1)
    for number in range(1, 6):
        made.send((S,), large(number))
    assert [each.targets[S] for each in made.history] == [4, 5, 6]
    assert made.waiting_bytes() == restored(made, fresh()).waiting_bytes() == 3 * SIZE
    answers, _ = made.on_packet(packet(1, Nack(1, (2, 3, 5))), 0.0)
    sent = [answer.message for answer in answers if isinstance(answer, Forward)]
    assert [each.message for each in sent if isinstance(each, Packet)] == [large(4), LostNumbers(1, (2, 3))]
    made.begin_life(2)
    assert made.waiting_bytes() == 0


@pytest.mark.usefixtures("three_events")
def test_what_is_parked_for_a_target_is_bounded_by_its_bytes() -> None:
    made = channels()
    answers = [answer for number in range(1, 6) for answer in made.route(Packet(S, 1, {"far": number}, large(number)))]
    assert [answer.record.sequence for answer in answers if isinstance(answer, Trace)] == [3, 4]
    assert [each.targets["far"] for each in made.parked["far"]] == [1, 2, 5]  # the highest shows what is missing
    assert made.waiting_bytes() == restored(made, fresh()).waiting_bytes() == 3 * SIZE
    made.topology.learn(LinkState(S, 1, 2, {"me": 1.0, "far": 1.0}))
    made.topology.learn(LinkState("far", 1, 1, {S: 1.0}))
    assert len(made.on_topology_changed(0.0)) == 3
    assert made.waiting_bytes() == 0


@pytest.mark.usefixtures("three_events")
def test_what_comes_early_is_bounded_by_its_bytes_and_asked_for_again() -> None:
    made = started()
    assert taken(made, *(packet(number, large(number)) for number in (3, 4, 5, 6))) == []
    assert made.waiting_bytes() == restored(made, fresh()).waiting_bytes() == 3 * SIZE
    assert taken(made, packet(2, large(2))) == [large(number) for number in (2, 3, 4, 5)]
    assert (made.waiting_bytes(), made.incoming[S].missing()) == (0, (6,))
