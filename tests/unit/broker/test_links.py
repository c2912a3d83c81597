"""Links: numbers, acknowledgements, greetings, bounds, and what no honest peer sends."""

from collections.abc import Callable
from typing import Any

import pytest

from godwit.broker import links
from godwit.broker.effects import Effect, Send, StartTimer, StopTimer, Trace
from godwit.broker.links import ACK_EVERY, RESENT_AT_ONCE_MAX, Link, LinkConfig
from godwit.broker.messages import Ack, Frame, Hello, Packet, Publish, Synced
from godwit.broker.stream_messages import HopPacket, SentAgain
from godwit.broker.waiting_bytes import bytes_of
from godwit.errors import PeerFault
from godwit.filters.events import Event
from tests.property.link_wire import Wire, number_of, numbered
from tests.raw_messages import read
from tests.snapshots import restored

CONFIG = LinkConfig(window=4, outbox_max=6)


def joined(config: LinkConfig = CONFIG) -> Wire:
    """A wire whose two ends have greeted each other."""
    wire = Wire(config)
    wire.connect()
    wire.greet()
    wire.lose_all()
    return wire


def opened(config: LinkConfig = CONFIG) -> Link:
    """A link to a peer that has greeted it, for the first time and on this connection."""
    link = Link("peer", 1, config)
    link.on_up(0.0)
    link.on_hello(Hello(1, 0, 0, 1, True), 0.0)
    return link


def send(link: Link, *numbers: int, now: float = 0.0) -> list[Effect]:
    effects: list[Effect] = []
    for number in numbers:
        link.send(numbered(number), effects, now)
    return effects


def frames(effects: list[Effect]) -> list[Any]:
    return [effect.frame for effect in effects if isinstance(effect, Send)]


def numbers(effects: list[Effect]) -> list[int]:
    """The numbers of the frames that are sent."""
    return [frame.number for frame in frames(effects) if isinstance(frame, Frame)]


def arrive(link: Link, *came: Frame, now: float = 0.0) -> tuple[list[int], list[Effect]]:
    """The numbers of the events that are handed on, and the effects."""
    effects: list[Effect] = []
    handed_on = [number_of(message) for frame in came for message in link.on_frame(frame, effects, now)]
    return handed_on, effects


def frame(number: int, ack: int = 0) -> Frame:
    return Frame(number, ack, numbered(number))


# ------------------------------------------------------------ greeting


def test_a_connection_begins_with_a_hello_and_nothing_else_is_sent_before_the_peers() -> None:
    link = Link("peer", 7, CONFIG)
    assert frames(link.on_up(0.0)) == [Hello(7, 0, 0, 1, False)]
    assert frames(send(link, 1, 2)) == []
    effects, is_open, undelivered = link.on_hello(Hello(3, 0, 0, 1, False), 0.0)
    assert frames(effects)[0] == Hello(7, 3, 0, 1, True)
    assert (numbers(effects), is_open, undelivered) == ([1, 2], True, None)


def test_nothing_is_handled_on_a_connection_before_the_peers_hello() -> None:
    link = Link("peer", 1, CONFIG)
    link.on_up(0.0)
    assert arrive(link, frame(1)) == ([], [])
    effects: list[Effect] = []
    link.on_ack(Ack(0), effects, 0.0)
    assert effects == []


def test_a_hello_that_was_heard_is_not_answered_and_one_that_was_not_is() -> None:
    link = opened()
    assert frames(link.on_hello(Hello(1, 1, 0, 1, True), 0.0)[0]) == []
    assert frames(link.on_hello(Hello(1, 1, 0, 1, False), 0.0)[0]) == [Hello(1, 1, 0, 1, True)]


def test_a_hello_that_is_lost_is_said_again_when_all_is_silent() -> None:
    wire = Wire(CONFIG)
    wire.connect()
    wire.send("a")
    for end in "ab":
        wire.lose(end)
    wire.settle()
    assert wire.handed_on["b"] == [1]


def test_what_the_peer_has_not_got_is_sent_again_after_a_reconnect() -> None:
    link = opened()
    send(link, 1, 2, 3)
    link.on_down(1.0)
    link.on_up(2.0)
    effects, is_open, undelivered = link.on_hello(Hello(1, 1, 1, 1, False), 2.0)
    assert (numbers(effects), is_open, undelivered) == ([2, 3], True, None)


def test_a_hello_that_is_said_again_opens_the_link_once_and_still_acknowledges() -> None:
    link = opened()
    send(link, 1, 2, 3, 4, 5)  # one more than the window
    effects, is_open, _ = link.on_hello(Hello(1, 1, 4, 1, True), 0.0)
    assert not is_open
    assert numbers(effects) == [5]


def test_a_hello_to_a_past_life_does_not_open_the_link() -> None:
    link = Link("peer", 2, CONFIG)
    link.on_up(0.0)
    send(link, 1)
    effects, is_open, undelivered = link.on_hello(Hello(1, 1, 9, 8, False), 0.0)  # 9 of a life that is forgotten
    assert (is_open, link.open, link.received, undelivered) == (False, False, 0, None)
    assert frames(effects) == [Hello(2, 1, 0, 1, True)]
    assert arrive(link, frame(8)) == ([], [])
    effects, is_open, _ = link.on_hello(Hello(1, 2, 0, 1, True), 0.0)
    assert (is_open, numbers(effects)) == (True, [1])


def test_a_peer_that_has_lost_its_present_life_is_told_so_and_changes_nothing() -> None:
    """It knows more than we do of its earlier life, but it is its disk that has lost something, and not ours."""
    link = Link("peer", 1, CONFIG)
    link.on_up(0.0)
    link.on_hello(Hello(7, 0, 0, 1, True), 0.0)  # that life has met nobody yet
    send(link, 1, 2)
    link.on_down(1.0)
    link.on_up(2.0)
    late = Hello(5, 1, 3, 4, False, 3)
    assert not link.knows_more(late)
    effects, is_open, undelivered = link.on_hello(late, 2.0)
    assert (frames(effects), is_open, link.open, undelivered) == ([Hello(1, 7, 0, 1, True)], False, False, None)
    assert (link.peer_incarnation, len(link.outbox)) == (7, 2)
    [answer] = frames(effects)
    past = Link("us", 5, CONFIG)
    past.on_up(2.0)
    past.peer_incarnation = 1
    assert past.knows_more(answer)
    _, is_open, undelivered = link.on_hello(Hello(9, 0, 0, 1, False), 3.0)
    assert (is_open, [number_of(message) for message in undelivered or ()]) == (True, [1, 2])


def test_a_late_copy_of_a_hello_to_a_later_life_is_no_proof_of_a_loss_when_the_link_is_open() -> None:
    """Our disk was rolled back to before we met: the peer has agreed to begin anew, and said the other thing before."""
    link = Link("peer", 1, CONFIG)
    link.on_up(0.0)
    late = Hello(1, 7, 4, 5, False, 4)
    _, is_open, _ = link.on_hello(late, 0.0)
    assert not is_open
    assert link.knows_more(late)  # it is still what the peer thinks
    _, is_open, _ = link.on_hello(Hello(1, 1, 0, 1, True), 1.0)
    assert is_open
    send(link, 1)
    assert not link.knows_more(late)
    effects, is_open, undelivered = link.on_hello(late, 2.0)
    assert (frames(effects), is_open, link.open, undelivered) == ([Hello(1, 1, 0, 1, True)], False, True, None)
    assert len(link.outbox) == 1


def test_a_peer_without_memory_may_have_a_lower_number_than_before() -> None:
    """Its clock may have been set back."""
    link = opened()
    link.on_up(1.0)
    link.on_hello(Hello(7, 0, 0, 1, True), 1.0)
    link.on_up(2.0)
    _, is_open, _ = link.on_hello(Hello(5, 0, 0, 1, True), 2.0)
    assert (is_open, link.peer_incarnation) == (True, 5)


def test_of_a_peer_without_memory_exactly_what_it_never_acknowledged_is_reported() -> None:
    link = opened()
    send(link, 1, 2, 3, 4, 5, 6)
    link.on_ack(Ack(2), [], 0.0)
    arrive(link, frame(1), frame(2))
    link.on_down(1.0)
    link.on_up(2.0)
    effects, is_open, undelivered = link.on_hello(Hello(2, 0, 0, 1, False), 2.0)
    assert undelivered is not None
    assert [number_of(message) for message in undelivered] == [3, 4, 5, 6]
    assert is_open
    assert frames(effects) == [Hello(1, 2, 0, 1, True)]  # of the new life nothing has come, and numbers start anew
    assert numbers(send(link, 7)) == [1]
    assert arrive(link, frame(1))[0] == [1]


def test_a_peer_without_memory_that_has_missed_nothing_is_still_reported() -> None:
    link = opened()
    link.on_up(1.0)
    assert link.on_hello(Hello(2, 0, 0, 1, False), 1.0)[2] == []


def test_both_ends_may_lose_their_memory_at_once() -> None:
    wire = joined()
    wire.send("a")
    wire.forget("a")
    wire.forget("b")
    number = wire.send("b")
    wire.settle()
    assert wire.handed_on == {"a": [number], "b": []}


def test_an_end_that_did_not_notice_that_the_connection_broke_greets_anew() -> None:
    wire = joined()
    wire.send("a")
    wire.break_off(noticed_by="b")
    wire.send("a")
    wire.settle()
    assert wire.handed_on["b"] == [1, 2]


# ------------------------------------------------------------ acknowledgements


def test_an_acknowledgement_goes_with_the_next_frame_or_is_late_by_ack_s_at_most() -> None:
    link = opened()
    assert arrive(link, frame(1), now=1.0)[1] == [StartTimer(("ack", "peer"), 1.0 + CONFIG.ack_s)]
    assert arrive(link, frame(2), now=1.01)[1] == []  # the timer runs
    assert link.on_ack_due() == [Send("peer", Ack(2))]
    assert link.on_ack_due() == []
    arrive(link, frame(3))
    assert frames(send(link, 1)) == [Frame(1, 3, numbered(1))]
    assert link.on_ack_due() == []


def test_many_frames_in_a_row_are_acknowledged_before_the_time() -> None:
    link = opened()
    sent = [frames(arrive(link, frame(number))[1]) for number in range(1, ACK_EVERY + 1)]
    assert sent == [[]] * (ACK_EVERY - 1) + [[Ack(ACK_EVERY)]]


def test_an_acknowledgement_is_cumulative_and_an_old_one_does_no_harm() -> None:
    link = opened()
    send(link, 1, 2, 3)
    link.on_ack(Ack(2), [], 0.0)
    assert [number_of(message) for message in link.outbox] == [3]
    effects: list[Effect] = []
    link.on_ack(Ack(1), effects, 0.0)
    assert effects == []
    assert (len(link.outbox), link.in_flight) == (1, 1)


def test_an_acknowledgement_in_a_frame_counts_like_any_other() -> None:
    link = opened()
    send(link, 1, 2, 3, 4, 5)
    handed_on, effects = arrive(link, frame(1, ack=3))
    assert (handed_on, numbers(effects)) == ([1], [5])
    assert len(link.outbox) == 2


@pytest.mark.parametrize("beyond", [3, 5, 10**30])
def test_an_acknowledgement_beyond_what_was_sent_is_a_fault_even_if_more_waits(beyond: int) -> None:
    config = LinkConfig(window=2)
    for fault in (
        lambda link: link.on_ack(Ack(beyond), [], 0.0),
        lambda link: link.on_frame(frame(1, ack=beyond), [], 0.0),
        lambda link: link.on_hello(Hello(1, 1, beyond, 1, True), 0.0),
    ):
        link = opened(config)
        send(link, 1, 2, 3, 4, 5)
        with pytest.raises(PeerFault, match=f"acknowledges {beyond}, and 2 is the last frame that was sent"):
            fault(link)
        assert [number_of(message) for message in link.outbox] == [1, 2, 3, 4, 5]


def test_a_new_life_that_says_it_has_received_something_is_a_fault_and_changes_nothing() -> None:
    link = opened()
    send(link, 1, 2)
    link.on_up(1.0)
    with pytest.raises(PeerFault, match="acknowledges 1, and 0 is the last frame that was sent"):
        link.on_hello(Hello(2, 1, 1, 1, True), 1.0)
    assert (link.peer_incarnation, len(link.outbox)) == (1, 2)


def test_a_gap_is_reported_at_once_and_filled_at_once() -> None:
    wire = joined()
    for _ in range(3):
        wire.send("a")
    wire.lose("b", 0)
    wire.deliver("b")
    assert wire.arriving["a"] == [Ack(0)]
    wire.deliver("a")
    assert [each.number for each in wire.arriving["b"] if isinstance(each, Frame)] == [3, 1]
    wire.deliver("b")
    wire.deliver("b")
    assert wire.handed_on["b"] == [1, 2, 3]
    assert wire.now == 0.0


def test_the_first_that_is_missing_is_sent_again_once_however_often_it_is_asked_for() -> None:
    link = opened()
    send(link, 1, 2, 3)
    effects: list[Effect] = []
    for _ in range(3):
        link.on_ack(Ack(0), effects, 0.0)
    assert numbers(effects) == [1]


# ------------------------------------------------------------ exactly once, in order


def test_what_is_early_is_held_and_what_came_before_is_dropped() -> None:
    link = opened()
    assert arrive(link, frame(3), frame(2))[0] == []
    handed_on, effects = arrive(link, frame(1), frame(1), frame(3))
    assert handed_on == [1, 2, 3]
    assert frames(effects)[-1] == Ack(3)
    assert link.early == {}


def test_what_was_held_early_on_an_old_connection_is_forgotten_and_comes_again() -> None:
    wire = joined()
    for _ in range(2):
        wire.send("a")
    wire.lose("b", 0)
    wire.deliver("b")
    assert list(wire.ends["b"].early) == [2]
    wire.break_off()
    assert wire.ends["b"].early == {}
    wire.settle()
    assert wire.handed_on["b"] == [1, 2]


def test_silence_is_waited_for_longer_each_time_up_to_a_bound_and_an_answer_ends_that() -> None:
    link = opened(LinkConfig(resend_s=1.0, resend_s_max=4.0))
    send(link, 1)
    now, waited = 0.0, []
    for _ in range(4):
        effects = link.on_resend_due(now)
        assert numbers(effects) == [1]
        [timer] = [effect for effect in effects if isinstance(effect, StartTimer)]
        waited.append(timer.at - now)
        now = timer.at
    assert waited == [2.0, 4.0, 4.0, 4.0]
    link.on_ack(Ack(1), [], now)
    assert link.on_resend_due(now) == []  # nothing is under way
    assert [effect for effect in send(link, 2, now=now) if isinstance(effect, StartTimer)] == [
        StartTimer(("resend", "peer"), now + 1.0)
    ]


def test_nothing_is_sent_again_while_acknowledgements_come() -> None:
    link = opened()
    send(link, 1, 2)
    link.on_ack(Ack(1), [], 0.0)
    assert numbers(link.on_resend_due(3.0)) == []
    assert numbers(link.on_resend_due(6.0)) == [2]


def test_so_many_frames_are_sent_again_at_once_and_no_more() -> None:
    link = opened(LinkConfig())
    send(link, *range(1, RESENT_AT_ONCE_MAX + 10))
    assert numbers(link.on_resend_due(3.0)) == list(range(1, RESENT_AT_ONCE_MAX + 1))


def test_without_a_connection_no_timer_sends_anything() -> None:
    link = opened()
    arrive(link, frame(1))
    send(link, 1)
    assert link.on_down(1.0) == [StopTimer(("ack", "peer")), StopTimer(("resend", "peer"))]
    assert link.on_resend_due(2.0) == []
    assert link.on_ack_due() == []


# ------------------------------------------------------------ bounds


def test_no_more_than_the_window_is_under_way() -> None:
    link = opened()
    assert numbers(send(link, 1, 2, 3, 4, 5, 6)) == [1, 2, 3, 4]
    effects: list[Effect] = []
    link.on_ack(Ack(1), effects, 0.0)
    assert numbers(effects) == [5]
    link.on_up(1.0)
    assert numbers(link.on_hello(Hello(1, 1, 1, 1, True), 1.0)[0]) == [2, 3, 4, 5]


def test_past_the_bound_of_the_outbox_events_are_recorded_as_lost_and_control_messages_still_enter() -> None:
    link = Link("peer", 1, CONFIG)
    effects = send(link, *range(1, 9))
    lost = [effect.record for effect in effects if isinstance(effect, Trace)]
    assert [(record.kind, record.publisher, record.sequence) for record in lost] == [("lost", "p", 7), ("lost", "p", 8)]
    effects = []
    link.send(Packet("s", 1, {"t": 1}, numbered(9)), effects, 0.0)  # an event, too
    assert [effect.record.sequence for effect in effects if isinstance(effect, Trace)] == [9]
    link.send(Synced(), [], 0.0)
    assert len(link.outbox) == CONFIG.outbox_max + 1


def large(number: int, publisher: str = "ann/1", size: int = 1_000) -> Publish:
    return Publish(Event({"x": number}, publisher, number, payload=bytes(size)))


def in_packet(publish: Publish) -> Packet:
    again: Any = SentAgain(1, 1, publish)
    return Packet("s", 1, {"t": 1}, again)


def in_hop_packet(publish: Publish) -> HopPacket:
    return HopPacket("s", 1, 1, 1, publish)


def restored_link(link: Link) -> Link:
    return restored(link, Link("peer", 1, link.config))


def kept(link: Link, *messages: Any) -> list[str]:
    """What is recorded of those that do not enter the outbox."""
    effects: list[Effect] = []
    for message in messages:
        link.send(message, effects, 0.0)
    return [effect.record.detail for effect in effects if isinstance(effect, Trace)]


@pytest.mark.parametrize("wrap", [lambda publish: publish, in_packet, in_hop_packet])
def test_the_events_of_an_outbox_are_bounded_by_their_bytes_in_packets_too(wrap: Callable[[Publish], Any]) -> None:
    link = Link("peer", 1, LinkConfig(window=2, outbox_bytes_max=3_500))
    messages = [wrap(large(number)) for number in range(1, 5)]
    assert kept(link, *messages) == ["the outbox of the link is full"]
    assert kept(link, Synced(), wrap(large(5, size=10))) == []  # small ones have room
    assert (len(link.outbox), link.bytes) == (5, sum(map(bytes_of, link.outbox)))
    link.on_up(0.0)
    link.on_hello(Hello(1, 0, 0, 1, True), 0.0)
    link.on_ack(Ack(2), [], 0.0)
    assert link.bytes == sum(map(bytes_of, link.outbox)) == restored_link(link).bytes
    assert kept(link, wrap(large(6))) == []
    link.give_up()
    assert link.bytes == 0


def test_an_empty_outbox_takes_an_event_of_any_size() -> None:
    link = Link("peer", 1, LinkConfig(outbox_bytes_max=10))
    assert kept(link, large(1)) == []
    assert kept(link, large(2)) == ["the outbox of the link is full"]


@pytest.mark.parametrize("config", [LinkConfig(window=2, outbox_max=6), LinkConfig(window=2, outbox_bytes_max=6_600)])
def test_one_user_fills_no_more_than_its_share_of_an_outbox(config: LinkConfig) -> None:
    share = 0.5
    link = Link("peer", 1, config, lambda: share)
    refused = kept(link, *(large(number, f"mallory/{number}") for number in range(1, 6)))
    assert refused == ["the outbox of the link is full for user 'mallory'"] * 2
    assert kept(link, large(1), large(2)) == []  # ann has room
    link.on_up(0.0)
    link.on_hello(Hello(1, 0, 0, 1, True), 0.0)
    link.on_ack(Ack(2), [], 0.0)
    assert kept(link, large(6, "mallory/1")) == []
    share = 1.0  # without users
    assert kept(link, large(7, "mallory/1"), large(8, "mallory/1")) == []


def test_what_is_held_early_is_bounded_by_its_bytes_and_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "EARLY_BYTES_MAX", 2_500)
    link = opened()
    early = [Frame(number, 0, large(number)) for number in (2, 3, 4)]
    assert arrive(link, *early, *early)[0] == []
    assert list(link.early) == [2, 3]
    assert link.bytes == sum(map(bytes_of, link.early.values())) == restored_link(link).bytes
    assert arrive(link, Frame(1, 0, large(1)))[0] == [1, 2, 3]
    assert link.bytes == 0
    assert arrive(link, early[2])[0] == [4]


def test_what_is_held_early_is_bounded_by_the_window() -> None:
    link = opened()
    assert arrive(link, *(frame(number) for number in (2, 3, 4, 2, 3, 4)))[0] == []
    assert list(link.early) == [2, 3, 4]
    with pytest.raises(PeerFault, match="a frame numbered 5 after 0"):
        arrive(link, frame(5))


# ------------------------------------------------------------ giving up


def test_a_link_that_is_down_for_too_long_is_to_be_given_up() -> None:
    link = Link("peer", 1, LinkConfig(dead_after_s=60.0))
    assert StopTimer(("dead", "peer")) in link.on_up(0.0)
    assert StartTimer(("dead", "peer"), 70.0) in link.on_down(10.0)


def test_the_peer_does_not_wait_for_what_was_given_up() -> None:
    wire = joined()
    wire.send("a")
    wire.settle()
    wire.break_off()
    for _ in range(3):
        wire.send("a")
    assert wire.give_up("a") == [2, 3, 4]
    wire.send("a")
    wire.connect()
    assert wire.arriving["b"] == [Hello(1, 1, 0, 5, False, 1)]
    wire.settle()
    assert wire.handed_on["b"] == [1, 5]


def test_what_was_given_up_though_it_had_come_is_not_taken_for_a_fault() -> None:
    wire = joined()
    wire.send("a")
    wire.deliver("b")  # and its acknowledgement is lost
    wire.break_off()
    assert wire.give_up("a") == [1]
    wire.send("a")
    wire.settle()
    assert wire.handed_on["b"] == [1, 2]


def test_two_that_never_met_may_give_up_too() -> None:
    wire = Wire(CONFIG)
    wire.send("a")
    wire.give_up("a")
    wire.send("a")
    wire.settle()
    assert wire.handed_on["b"] == [2]


# ------------------------------------------------------------ snapshots


def test_a_link_from_a_snapshot_goes_on_as_the_one_it_was_taken_of() -> None:
    """The inputs that follow in the journal were handled on an open link; only then is the connection gone."""
    link = opened()
    send(link, 1, 2)
    arrive(link, frame(1), frame(3))
    copy = restored(link, Link("peer", 1, CONFIG))
    assert (copy.open, copy.received, copy.early) == (True, 1, link.early)
    arrive(copy, frame(2))
    assert copy.received == 3
    copy.on_down(5.0)
    assert [number_of(message) for message in copy.outbox] == [1, 2]
    assert frames(copy.on_up(5.0)) == [Hello(1, 1, 3, 1, False)]
    assert link.received == 1  # the one that was copied is as it was


def test_both_ends_from_snapshots_go_on_where_they_were() -> None:
    wire = joined()
    for _ in range(3):
        wire.send("a")
        wire.send("b")
    wire.deliver("a")
    wire.restart("a")
    wire.restart("b")
    wire.send("a")
    wire.settle()
    assert wire.handed_on == {"a": [2, 4, 6], "b": [1, 3, 5, 7]}


# ------------------------------------------------------------ what no honest peer sends

NO_NUMBERS: list[Any] = [None, "1", 1.0, True, [], ()]


@pytest.mark.parametrize("number", NO_NUMBERS)
def test_a_number_that_is_none_is_refused_by_the_decoder(number: Any) -> None:
    frames = [Frame(number, 0, numbered(1)), Frame(1, number, numbered(1)), Ack(number)]
    for field in range(4):
        values: list[Any] = [2, 1, 0, 1]
        values[field] = number
        frames.append(Hello(values[0], values[1], values[2], values[3], False))
    for frame in frames:
        with pytest.raises(PeerFault):
            read(frame)


@pytest.mark.parametrize("number", [0, -1, 10**30])
def test_a_frame_with_an_absurd_number_is_a_fault(number: int) -> None:
    link = opened()
    with pytest.raises(PeerFault, match="a frame numbered"):
        arrive(link, Frame(number, 0, numbered(1)))
    assert (link.received, link.early) == (0, {})


def test_a_negative_acknowledgement_acknowledges_nothing() -> None:
    link = opened()
    send(link, 1)
    link.on_ack(Ack(-5), [], 0.0)
    assert arrive(link, Frame(1, -5, numbered(1)))[0] == [1]
    assert len(link.outbox) == 1


@pytest.mark.parametrize("field", range(4))
def test_a_hello_with_a_negative_number_is_a_fault_and_changes_nothing(field: int) -> None:
    link = opened()
    send(link, 1)
    values = [2, 1, 0, 1]
    values[field] = -1
    with pytest.raises(PeerFault, match="an invalid Hello"):
        link.on_hello(Hello(values[0], values[1], values[2], values[3], False), 0.0)
    assert (link.peer_incarnation, len(link.outbox)) == (1, 1)


@pytest.mark.parametrize("hello", [Hello(0, 0, 0, 1, False), Hello(1, 0, 0, 0, False)])
def test_lives_and_numbers_start_at_one(hello: Hello) -> None:
    with pytest.raises(PeerFault):
        opened().on_hello(hello, 0.0)


def test_what_a_past_life_sent_too_early_is_not_taken_for_the_next_one() -> None:
    link = opened()
    assert arrive(link, frame(2))[0] == []
    link.on_hello(Hello(2, 1, 0, 1, True), 0.0)  # the peer has forgotten everything, and says so on the same connection
    assert arrive(link, frame(1))[0] == [1]
    assert link.received == 1
