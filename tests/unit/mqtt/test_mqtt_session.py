"""The server's side of an MQTT session: what it agrees on, what it promises, when it ends."""

from typing import Any

import pytest

import godwit.mqtt.outgoing_deliveries
from godwit.broker.effects import StartTimer, StopTimer, TimerDue
from godwit.mqtt import (
    FROM_SERVER,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    MqttSession,
    MqttSettings,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
    encode,
    refusing_connack,
)
from godwit.mqtt.loss_notice import LOST_SINCE, WORDS
from godwit.mqtt.mqtt_effects import (
    NEVER,
    Accepted,
    AddSubscriptions,
    Attach,
    Attached,
    Close,
    Closed,
    Confirm,
    Deliver,
    DiscardSession,
    DropDelivery,
    Faulted,
    Heard,
    Opened,
    PersistentState,
    PublishEvent,
    PublishWill,
    Refused,
    Send,
    Stop,
    StoreNote,
    Subscribed,
)
from godwit.mqtt.session_notes import grant_note, kept_of, out_note
from tests.conformance.mqtt_world import World

WORDY = MqttSettings(topic_alias_maximum=0, receive_maximum=65_535, maximum_packet_size=268_435_460)
KEEP = {"session_expiry_interval": 100}
PLAIN = MqttSettings(
    topic_alias_maximum=0, receive_maximum=65_535, maximum_packet_size=268_435_460, reason_strings=False
)


class Talk:
    """One session, and what it says in packets."""

    def __init__(self, settings: MqttSettings = PLAIN, kept: PersistentState | None = None) -> None:
        self.session = MqttSession(settings, kept)
        self.level = 5
        self.now = 0.0
        self.effects: list[Any] = []
        self.notes: dict[str, bytes] = {}

    def tell(self, input: Any, now: float | None = None) -> list[Any]:
        """Everything asked for but notes, which are kept; packets are read."""
        self.now = self.now if now is None else now
        self.effects = self.session.handle(input, self.now)
        for effect in self.effects:
            if isinstance(effect, StoreNote):
                self.notes.pop(effect.key, None)
                if effect.value is not None:
                    self.notes[effect.key] = effect.value
        return [
            Decoder(self.level, FROM_SERVER).feed(effect.data)[0] if isinstance(effect, Send) else effect
            for effect in self.effects
            if not isinstance(effect, StoreNote)
        ]

    def open(self, connect: Connect, is_present: bool = False, line: str = "l") -> list[Any]:
        self.level = connect.level
        self.tell(Opened(line, connect, connect.client_id or "assigned"))
        return self.tell(Attached(line, is_present))

    def say(self, packet: Packet, line: str = "l") -> list[Any]:
        return self.tell(Heard(line, packet))

    def subscribe(self, *subscriptions: Subscription, **properties: Any) -> list[Any]:
        [asked] = self.say(Subscribe(1, subscriptions, properties))
        assert isinstance(asked, AddSubscriptions)
        return self.tell(Subscribed(asked.request, tuple(each.qos for each in subscriptions)))


def connected(level: int = 5, settings: MqttSettings = PLAIN, **properties: Any) -> Talk:
    talk = Talk(settings)
    talk.open(Connect("me", level, properties=properties))
    return talk


def events(wanted: list[Any], kind: type) -> list[Any]:
    return [each for each in wanted if isinstance(each, kind)]


# ------------------------------------------------------------ coming


def test_connack_tells_what_is_not_as_the_client_assumes():
    talk = Talk(MqttSettings(keep_alive_max_s=60, session_expiry_max_s=50))
    [connack] = events(talk.open(Connect("", 5, keep_alive=0, properties=KEEP)), Connack)
    assert connack == Connack(
        0,
        False,
        {
            "topic_alias_maximum": 64,
            "receive_maximum": 1024,
            "maximum_packet_size": 1 << 20,
            "assigned_client_identifier": "assigned",
            "session_expiry_interval": 50,
            "server_keep_alive": 60,
        },
    )
    assert StartTimer(("keep alive",), 90.0) in talk.effects


def test_a_plain_server_has_nothing_to_tell():
    assert events(Talk().open(Connect("me", 5, keep_alive=7)), Connack) == [Connack()]


@pytest.mark.parametrize(("clean", "level", "expiry_s"), [(True, 4, 0), (False, 4, NEVER), (True, 5, 100)])
def test_the_gateway_is_asked_to_attach_with_the_expiry_that_the_level_means(clean, level, expiry_s):
    connect = Connect("me", level, clean, properties=KEEP if level == 5 else {})
    assert Talk().tell(Opened("l", connect, "me")) == [Attach("l", "me", clean, expiry_s, connect)]


def test_session_present_is_said_only_of_a_session_that_is_continued():
    for clean, was_there, is_said in [(True, True, False), (False, True, True), (False, False, False)]:
        [connack] = events(Talk().open(Connect("me", 4, clean), was_there), Connack)
        assert connack.session_present is is_said


@pytest.mark.parametrize(
    ("level", "settings", "size_max", "properties"),
    [
        (5, PLAIN, 100, {"user_property": ((LOST_SINCE, "5.250"),)}),
        (5, WORDY, 1_000, {"user_property": ((LOST_SINCE, "5.250"),), "reason_string": WORDS}),
        (5, WORDY, 50, {}),  # there is no room for it
        (4, PLAIN, 100, {}),
    ],
)
def test_connack_tells_a_client_since_when_events_may_be_lost(level, settings, size_max, properties):
    talk = Talk(settings)
    talk.level = level
    talk.tell(Opened("l", Connect("me", level, False, properties={"maximum_packet_size": size_max}), "me"))
    [connack] = events(talk.tell(Attached("l", True, lost_since=5.25)), Connack)
    assert connack == Connack(0, True, properties)


def test_a_session_that_begins_has_lost_nothing():
    talk = Talk()
    talk.tell(Opened("l", Connect("me", 5, True), "me"))
    assert events(talk.tell(Attached("l", True, lost_since=5.25)), Connack) == [Connack()]


def test_connects_that_need_no_asking_are_refused_at_once():
    assert refusing_connack(Connect("me", 5, properties={"authentication_method": "x"})) == encode(Connack(0x8C), 5)
    assert refusing_connack(Connect("", 3)) == refusing_connack(Connect("", 4, False)) == encode(Connack(2), 4)
    assert refusing_connack(Connect("", 4)) is refusing_connack(Connect("", 5, False)) is None


def test_a_client_that_may_not_come_in_is_told_why_in_the_words_of_its_level():
    talk = Talk(MqttSettings())
    talk.tell(Opened("l", Connect("me", 5), "me"))
    told = talk.tell(Refused("l", ReasonCode.USE_ANOTHER_SERVER, "moved", "other:1883"))
    assert told == [
        Connack(0x9C, False, {"server_reference": "other:1883", "reason_string": "moved"}),
        Close("l", "moved"),
    ]
    talk.level = 4
    talk.tell(Opened("l", Connect("me", 4), "me"))
    assert talk.tell(Refused("l", ReasonCode.NOT_AUTHORIZED)) == [Connack(5), Close("l", "refused")]


def test_packets_before_connack_wait_for_it_and_are_bounded():
    talk = Talk(MqttSettings(packets_before_connack_max=2))
    talk.tell(Opened("l", Connect("me", 5), "me"))
    assert talk.say(Pingreq()) == []
    assert talk.tell(Attached("l", False))[-1] == Pingresp()
    talk.tell(Opened("m", Connect("me", 5), "me"))
    assert [talk.say(Pingreq(), "m") for _ in range(3)][-1] == [Close("m", "too many packets before CONNACK")]
    assert talk.session.connection == "l"


def test_a_stranger_who_is_not_attached_disturbs_nobody():
    talk = connected()
    talk.tell(Opened("stranger", Connect("me", 5), "me"))
    assert talk.tell(Faulted("stranger", 0x81, "bad")) == [Close("stranger", "bad")]
    talk.tell(Opened("stranger", Connect("me", 5), "me"))
    talk.tell(Refused("stranger", ReasonCode.NOT_AUTHORIZED))
    assert talk.say(Pingreq()) == [Pingresp()]


def test_a_client_that_comes_anew_takes_its_session_over():
    talk = connected(session_expiry_interval=100)
    told = talk.open(Connect("me", 5, False, properties=KEEP), True, "new")
    assert told[:2] == [Disconnect(0x8E), Close("l", "the client has connected again")]
    assert talk.session.connection == "new"
    assert talk.tell(Closed("l")) == []
    assert talk.say(Pingreq(), "l") == []


def test_a_session_that_was_to_end_with_its_connection_ends_when_that_is_taken_over():
    talk = subscribed()
    again = Connect("me", 5, False, properties=KEEP)
    assert talk.tell(Opened("new", again, "me")) == [Attach("new", "me", True, 100, again)]
    [connack] = events(talk.tell(Attached("new", True)), Connack)
    assert not connack.session_present
    assert talk.session.kept == PersistentState()


# ------------------------------------------------------------ going


def test_a_fault_ends_the_connection_with_its_reason_and_keeps_the_session():
    talk = connected(settings=MqttSettings(), session_expiry_interval=100)
    told = talk.tell(Faulted("l", ReasonCode.MALFORMED_PACKET, "flags"))
    assert told[:2] == [Disconnect(0x81, {"reason_string": "flags"}), Close("l", "flags")]
    assert told[-1] == StartTimer(("expiry",), 100.0)
    assert events(connected(4).tell(Faulted("l", 0x81, "flags")), Disconnect) == []


@pytest.mark.parametrize("packet", [Connect("me", 5), Connack(), Pingresp()])
def test_packets_out_of_place_are_protocol_errors(packet):
    assert connected().say(packet)[0] == Disconnect(ReasonCode.PROTOCOL_ERROR)


def test_keep_alive_is_one_and_a_half_times_what_was_said_after_the_last_packet():
    world = World(PLAIN)
    world.open("l")
    world.receive("l", encode(Connect("me", 5, keep_alive=10), 5))
    for _ in range(3):
        world.advance(14.9)
        world.receive("l", encode(Pingreq(), 5))
    world.lines["l"].out.clear()
    world.advance(14.9)
    assert not world.is_closed("l")
    world.advance(0.2)
    assert world.is_closed("l")
    assert world.lines["l"].out == encode(Disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT), 5)


def test_a_session_lasts_as_long_as_agreed_and_disconnect_may_change_that():
    talk = connected(session_expiry_interval=100)
    assert talk.tell(Closed("l"))[-1] == StartTimer(("expiry",), 100.0)
    talk = connected(session_expiry_interval=100)
    assert talk.say(Disconnect(0, {"session_expiry_interval": 7}))[-1] == StartTimer(("expiry",), 7.0)
    assert connected().tell(Closed("l"))[-1] == DiscardSession()
    assert events(connected(session_expiry_interval=NEVER).tell(Closed("l")), StartTimer) == []
    talk = connected()
    assert talk.say(Disconnect(0, {"session_expiry_interval": 7}))[0] == Disconnect(ReasonCode.PROTOCOL_ERROR)


def test_what_is_over_is_forgotten_and_what_is_back_is_not():
    world = World(PLAIN)
    for line, wait_s, is_present in [("a", 0, False), ("b", 99, True), ("c", 101, False)]:
        world.advance(wait_s)
        world.open(line)
        world.receive(line, encode(Connect("me", 5, False, properties=KEEP), 5))
        assert world.lines[line].out == encode(Connack(0, is_present), 5)
        world.receive(line, encode(Subscribe(1, (Subscription("t"),)), 5))
        world.drop(line)


def test_the_server_says_good_bye():
    talk = connected()
    assert talk.tell(Stop(ReasonCode.SERVER_SHUTTING_DOWN, "update", "b:1883"))[:2] == [
        Disconnect(0x8B, {"server_reference": "b:1883"}),
        Close("l", "update"),
    ]
    assert talk.tell(Stop(ReasonCode.SERVER_SHUTTING_DOWN)) == []


# ------------------------------------------------------------ wills


def with_will(delay_s: int = 0, expiry_s: int = 100) -> Talk:
    talk = Talk()
    will = Will("w", b"gone", 1, True, {"will_delay_interval": delay_s, "content_type": "text"} if delay_s else {})
    talk.open(Connect("me", 5, False, will=will, properties={"session_expiry_interval": expiry_s}))
    return talk


@pytest.mark.parametrize(
    ("end", "is_published"),
    [
        (Closed("l"), True),
        (Faulted("l", 0x81, "bad"), True),
        (Stop(ReasonCode.SERVER_BUSY), True),
        (Heard("l", Disconnect()), False),
        (Heard("l", Disconnect(ReasonCode.DISCONNECT_WITH_WILL)), True),
        (Heard("l", Disconnect(ReasonCode.PROTOCOL_ERROR)), True),
        (Heard("l", Pingresp()), True),
    ],
)
def test_the_will_is_published_unless_the_client_says_good_bye(end, is_published):
    assert events(with_will().tell(end), PublishWill) == [PublishWill(Will("w", b"gone", 1, True))] * is_published


def test_a_will_waits_for_its_delay_but_not_beyond_the_session():
    talk = with_will(10)
    assert StartTimer(("will",), 10.0) in talk.tell(Closed("l"))
    assert talk.tell(TimerDue(("will",))) == [PublishWill(Will("w", b"gone", 1, True, {"content_type": "text"}))]
    assert talk.tell(TimerDue(("will",))) == []
    assert StartTimer(("will",), 5.0) in with_will(10, 5).tell(Closed("l"))
    talk = with_will(10, 0)
    told = talk.tell(Closed("l"))
    assert [type(each) for each in told] == [StopTimer, PublishWill, DiscardSession]


def test_a_client_that_is_back_in_time_takes_its_will_back():
    talk = with_will(10)
    talk.tell(Closed("l"))
    told = talk.open(Connect("me", 5, False, properties=KEEP), True, "new")
    assert StopTimer(("will",)) in told
    assert events(told, PublishWill) == []
    talk = with_will(10)
    talk.tell(Closed("l"))
    assert len(events(talk.open(Connect("me", 5, True), True, "new"), PublishWill)) == 1  # the session is another one


@pytest.mark.parametrize(("delay_s", "clean", "is_published"), [(0, False, True), (10, False, False), (10, True, True)])
def test_on_a_takeover_the_will_counts_unless_it_was_to_wait(delay_s, clean, is_published):
    told = with_will(delay_s).open(Connect("me", 5, clean, properties=KEEP), True, "new")
    assert len(events(told, PublishWill)) == is_published


# ------------------------------------------------------------ publications


def test_a_publication_is_answered_once_it_was_accepted():
    talk = connected()
    assert talk.say(Publish("t", b"x", 0)) == [PublishEvent(0, "t", b"x", 0, False, {})]
    assert talk.say(Publish("t", b"x", 1, packet_id=9)) == [PublishEvent(1, "t", b"x", 1, False, {})]
    assert talk.tell(Accepted(1, 0x10)) == [Puback(9, 0x10)]
    assert talk.tell(Accepted(1)) == []
    assert talk.say(Publish("t", b"x", 2, packet_id=9)) == [PublishEvent(2, "t", b"x", 2, False, {})]
    assert talk.say(Publish("t", b"x", 2, dup=True, packet_id=9)) == []  # asked for already
    assert talk.tell(Accepted(2)) == [Pubrec(9)]
    assert talk.say(Publish("t", b"x", 2, dup=True, packet_id=9)) == [Pubrec(9)]
    assert talk.say(Pubrel(9)) == [Pubcomp(9)]
    assert talk.say(Pubrel(9)) == [Pubcomp(9)]
    assert talk.say(Publish("t", b"y", 2, packet_id=9)) == [PublishEvent(3, "t", b"y", 2, False, {})]


def test_a_publication_that_is_refused_says_why_to_those_who_want_to_know():
    for wants, words in [(1, {"reason_string": "no grant"}), (0, {})]:
        talk = connected(settings=MqttSettings(), request_problem_information=wants)
        talk.say(Publish("t", b"x", 2, packet_id=9))
        assert talk.tell(Accepted(1, ReasonCode.NOT_AUTHORIZED, "no grant")) == [Pubrec(9, 0x87, words)]
        assert talk.session.kept.received == {}
    talk = connected(settings=MqttSettings(), maximum_packet_size=60)
    talk.say(Publish("t", b"x", 1, packet_id=9))
    assert talk.tell(Accepted(1, 0x87, "x" * 60)) == [Puback(9, 0x87)]


def test_what_was_accepted_while_the_client_was_away_is_answered_when_it_asks_again():
    talk = connected(session_expiry_interval=100)
    talk.say(Publish("t", b"x", 2, packet_id=9))
    talk.tell(Closed("l"))
    assert talk.tell(Accepted(1)) == []
    talk.open(Connect("me", 5, False, properties=KEEP), True, "new")
    assert talk.say(Publish("t", b"x", 2, dup=True, packet_id=9), "new") == [Pubrec(9)]


def test_a_publication_without_an_answer_is_asked_for_again_by_its_number_at_another_gateway():
    talk = connected(session_expiry_interval=100)
    talk.say(Publish("t", b"x", 2, packet_id=9))
    elsewhere = Talk(PLAIN)
    elsewhere.tell(Opened("l", Connect("me", 5, False, properties=KEEP), "me"))
    elsewhere.tell(Attached("l", True, talk.session.kept))
    assert elsewhere.say(Publish("t", b"x", 2, dup=True, packet_id=9)) == [PublishEvent(1, "t", b"x", 2, False, {})]


def test_a_client_may_have_so_many_publications_under_way():
    talk = connected(settings=MqttSettings(receive_maximum=2))
    for packet_id in (1, 2):
        talk.say(Publish("t", b"x", packet_id, packet_id=packet_id))
    talk.say(Publish("t", b"x", 2, dup=True, packet_id=2))
    talk.tell(Accepted(1))
    talk.say(Publish("t", b"x", 1, packet_id=3))
    assert talk.say(Publish("t", b"x", 1, packet_id=4))[0].reason_code == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_topic_aliases_of_the_client():
    talk = connected(settings=MqttSettings(topic_alias_maximum=2))
    alias = {"topic_alias": 2, "content_type": "text"}
    assert talk.say(Publish("t", b"x", properties=alias))[0].properties == {"content_type": "text"}
    assert talk.say(Publish("", b"x", properties={"topic_alias": 2}))[0].topic == "t"
    assert talk.say(Publish("", b"x", properties={"topic_alias": 1}))[0].reason_code == ReasonCode.PROTOCOL_ERROR
    talk = connected(settings=MqttSettings(topic_alias_maximum=2))
    assert talk.say(Publish("t", b"x", properties={"topic_alias": 3}))[0].reason_code == ReasonCode.TOPIC_ALIAS_INVALID


def test_a_client_may_not_send_subscription_identifiers():
    told = connected().say(Publish("t", b"x", properties={"subscription_identifier": (1,)}))
    assert told[0] == Disconnect(ReasonCode.PROTOCOL_ERROR)


# ------------------------------------------------------------ deliveries


def deliver(number: int, qos: int = 1, **details: Any) -> Deliver:
    return Deliver(number, "t", b"%d" % number, ("t",), qos, **details)


def subscribed(qos: int = 2, level: int = 5, settings: MqttSettings = PLAIN, **properties: Any) -> Talk:
    talk = connected(level, settings, **properties)
    talk.subscribe(Subscription("t", qos))
    return talk


def test_deliveries_go_out_in_order_within_the_clients_window_and_are_confirmed_up_to_the_lowest_that_is_open():
    talk = subscribed(receive_maximum=2)
    assert talk.tell(deliver(1, 1)) == [Publish("t", b"1", 1, packet_id=1)]
    assert talk.tell(deliver(3, 2)) == [Publish("t", b"3", 2, packet_id=3)]
    assert talk.tell(deliver(4, 1)) == talk.tell(deliver(5, 0)) == []
    assert talk.tell(deliver(4, 1)) == []  # told twice
    assert talk.say(Pubrec(3)) == [Pubrel(3)]  # the client has 3, and 1 is still open
    assert talk.say(Pubrec(3)) == [Pubrel(3)]
    assert talk.notes == {"rel/3": b"\3"}
    assert talk.say(Pubcomp(3)) == [Publish("t", b"4", 1, packet_id=4), Publish("t", b"5")]
    assert talk.say(Puback(1)) == [Confirm(3)]
    assert talk.say(Puback(4)) == [Confirm(5)]
    assert talk.tell(deliver(5, 0)) == [Confirm(5)]
    assert talk.session.kept == PersistentState(talk.session.kept.subscriptions, sent_up_to=4, confirmed=5)
    assert talk.notes == {}


@pytest.mark.parametrize("answer", [Pubrec(1), Pubcomp(1)])
def test_answers_of_another_qos_are_protocol_errors(answer):
    talk = subscribed()
    talk.tell(deliver(1, 1))
    assert talk.say(answer)[0] == Disconnect(ReasonCode.PROTOCOL_ERROR)


def test_a_client_may_refuse_a_delivery():
    talk = subscribed()
    talk.tell(deliver(1, 2))
    assert talk.say(Pubrec(1, ReasonCode.QUOTA_EXCEEDED)) == [Confirm(1)]
    assert talk.session.kept.released == {}


def test_what_was_not_answered_goes_out_again_under_its_identifier_marked_dup():
    talk = subscribed(session_expiry_interval=100)
    for number, qos in [(1, 1), (2, 2), (3, 2)]:
        talk.tell(deliver(number, qos))
    talk.say(Pubrec(3))
    talk.tell(Closed("l"))
    told = talk.open(Connect("me", 5, False, properties=KEEP), True, "l")
    assert told[-1] == Pubrel(3)
    assert talk.tell(deliver(1, 1)) == [Publish("t", b"1", 1, dup=True, packet_id=1)]
    assert talk.tell(deliver(2, 2)) == [Publish("t", b"2", 2, dup=True, packet_id=2)]
    assert talk.tell(deliver(3, 2)) == []  # the client has it, and 1 is still open
    assert talk.tell(deliver(4, 1)) == [Publish("t", b"4", 1, packet_id=4)]
    assert talk.say(Puback(1)) + talk.say(Pubrec(2)) == [Confirm(1), Confirm(3), Pubrel(2)]


def test_an_identifier_whose_event_is_gone_is_released_before_it_is_used_again():
    talk = subscribed(session_expiry_interval=100)
    for number, qos in [(1, 1), (2, 2)]:
        talk.tell(deliver(number, qos))
    talk.say(Puback(1))
    talk.tell(Closed("l"))
    talk.open(Connect("me", 5, False, properties=KEEP), True, "l")
    assert talk.tell(deliver(5, 1)) == [Pubrel(2), Publish("t", b"5", 1, packet_id=5)]
    assert talk.session.kept.released == {2: 2}
    assert talk.say(Puback(5)) == [Confirm(5)]


@pytest.mark.parametrize("next_number", [1, 2, 5])
def test_a_client_may_answer_what_it_got_on_the_connection_before(next_number):
    talk = subscribed(session_expiry_interval=100)
    for number, qos in [(1, 1), (2, 2)]:
        talk.tell(deliver(number, qos))
    talk.tell(Closed("l"))
    talk.open(Connect("me", 5, False, properties=KEEP), True, "l")
    assert talk.say(Puback(1)) == talk.say(Pubrec(2)) == []  # both go out again, or are let go
    told = talk.tell(deliver(next_number, 2))
    assert told[-1] == Publish("t", b"%d" % next_number, 2, dup=next_number < 3, packet_id=next_number)
    assert told[:-1] == {1: [], 2: [Pubrel(1)], 5: [Pubrel(1), Pubrel(2)]}[next_number]
    assert talk.say(Pubrec(next_number)) == [Confirm(next_number), Pubrel(next_number)]


def test_an_identifier_that_the_client_has_not_forgotten_holds_back_the_delivery_that_would_have_it(monkeypatch):
    monkeypatch.setattr(godwit.mqtt.outgoing_deliveries, "IDS_MAX", 2)
    talk = subscribed()
    talk.tell(deliver(1, 2))
    assert talk.say(Pubrec(1)) == [Confirm(1), Pubrel(1)]
    assert talk.tell(deliver(3, 1)) == talk.tell(deliver(4, 0)) == []
    assert talk.say(Pubcomp(1)) == [Publish("t", b"3", 1, packet_id=1), Publish("t", b"4"), Confirm(2)]


def test_the_state_is_made_again_from_notes_and_nothing_is_sent_twice_as_new():
    talk = subscribed(session_expiry_interval=100)
    talk.say(Publish("t", b"x", 2, packet_id=9))
    for number, qos in [(1, 1), (2, 2), (3, 2), (4, 0)]:
        talk.tell(deliver(number, qos))
    talk.say(Pubrec(3))
    notes = {**talk.notes, "sub/t": grant_note(talk.session.kept.subscriptions["t"]), "rel/no": b"", "out": b"?"}
    for has_ended_well in (True, False):
        if has_ended_well:
            notes["out"] = out_note(talk.session.kept)
        else:
            del notes["out"]
        later = Talk()
        later.tell(Opened("l", Connect("me", 5, False, properties=KEEP), "me"))
        later.tell(Attached("l", True, kept_of(notes), 0 if has_ended_well else 4))
        assert later.say(Publish("t", b"x", 2, dup=True, packet_id=9)) == [Pubrec(9)]
        assert later.tell(deliver(1, 1)) == [Publish("t", b"1", 1, dup=True, packet_id=1)]
        assert later.tell(deliver(2, 2)) == [Publish("t", b"2", 2, dup=True, packet_id=2)]
        assert later.tell(deliver(3, 2)) == []
        assert later.tell(deliver(4, 0)) == ([] if has_ended_well else [Publish("t", b"4")])
        assert later.tell(deliver(5, 1)) == [Publish("t", b"5", 1, packet_id=5)]


def test_the_bytes_of_an_event_are_shared_among_clients():
    shared: dict[Any, Any] = {}
    for size in (1, 200, 20_000):
        shared.clear()
        for packet_id in (1, 77):
            talk = subscribed(1)
            said: dict[str, Any] = {"content_type": "x"}
            delivery = Deliver(packet_id, "t" * size, bytes(size), ("t",), 1, properties=said, shared=shared)
            assert talk.tell(delivery) == [Publish("t" * size, bytes(size), 1, packet_id=packet_id, properties=said)]
        assert len(shared) == 1


def test_topic_aliases_of_the_server():
    talk = connected(settings=MqttSettings(topic_aliases_out_max=1), topic_alias_maximum=5)
    talk.subscribe(Subscription("#"))
    alias = {"topic_alias": 1}
    assert talk.tell(Deliver(1, "t", b"", ("#",)))[0] == Publish("t", b"", properties=alias)
    assert talk.tell(Deliver(2, "t", b"", ("#",)))[0] == Publish("", b"", properties=alias)
    assert talk.tell(Deliver(3, "u", b"", ("#",)))[0] == Publish("u", b"")


def test_what_the_client_cannot_take_counts_as_done():
    talk = subscribed(
        maximum_packet_size=20,
        settings=MqttSettings(
            queue_max=1, in_flight_max=1, maximum_packet_size=268_435_460, topic_alias_maximum=0, receive_maximum=65_535
        ),
    )
    assert talk.tell(deliver(1, 2)) == [Publish("t", b"1", 2, packet_id=1)]
    assert talk.tell(deliver(2, 2)) == []
    assert talk.tell(deliver(3, 0)) == [DropDelivery(3, "1 deliveries wait already")]
    talk = subscribed(maximum_packet_size=20)
    assert talk.tell(Deliver(1, "t", bytes(30), ("t",))) == [
        DropDelivery(1, "36 bytes: the client takes 20"),
        Confirm(1),
    ]
    assert isinstance(talk.tell(Deliver(2, "a/+", b"", ("t",)))[0], DropDelivery)
    assert isinstance(talk.tell(Deliver(3, "\ud800", b"", ("t",)))[0], DropDelivery)
    assert talk.tell(Deliver(4, "t", b"", ("ended",))) == [DropDelivery(4, "its subscriptions have ended"), Confirm(4)]


def test_after_a_crash_what_the_client_is_done_with_does_not_come_again_though_something_before_it_is_open():
    talk = subscribed()
    for number, qos in ((1, 1), (2, 2), (3, 2)):
        talk.tell(deliver(number, qos))
    for number in (2, 3):
        talk.say(Pubrec(number))
        talk.say(Pubcomp(number))
    kept = kept_of(
        {"sub/t": grant_note(talk.session.kept.subscriptions["t"]), **talk.notes}
    )  # no connection has ended: there is no `out`
    again = Talk(kept=kept)
    again.tell(Opened("l", Connect("me", 5, clean_start=False, properties=KEEP), "me"))
    again.tell(Attached("l", True, kept, doubtful=3))
    again.notes = dict(talk.notes)
    told = [each for number, qos in ((1, 1), (2, 2), (3, 2)) for each in again.tell(deliver(number, qos))]
    assert told == [Publish("t", b"1", 1, dup=True, packet_id=1)]
    assert again.say(Puback(1)) == [Confirm(3)]
    assert not [key for key in again.notes if key.startswith("did/")]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_that_takes_one_at_a_time_gets_all_that_waits(qos):
    talk = subscribed(receive_maximum=1, settings=MqttSettings(queue_max=2))
    told = [each for number in range(1, 8) for each in talk.tell(deliver(number, qos))]
    for number in range(1, 8):
        answers: list[Puback | Pubrec | Pubcomp] = [Puback(number)] if qos == 1 else [Pubrec(number), Pubcomp(number)]
        told += [each for answer in answers for each in talk.say(answer)]
    assert [each.payload for each in told if isinstance(each, Publish)] == [b"%d" % number for number in range(1, 8)]
    assert not any(isinstance(each, DropDelivery) for each in told)


def test_events_expire_and_say_how_long_they_last():
    talk = subscribed(0)
    talk.now = 10.0
    assert talk.tell(deliver(1, expires_at=13.5))[0].properties == {"message_expiry_interval": 4}
    assert talk.tell(deliver(3, expires_at=1e12))[0].properties == {"message_expiry_interval": NEVER}
    assert talk.tell(deliver(4, expires_at=10.0)) == [DropDelivery(4, "it expired"), Confirm(4)]


def test_qos_retain_flag_and_identifiers_come_from_the_subscriptions():
    talk = connected()
    talk.subscribe(Subscription("a", 1), subscription_identifier=7)
    talk.subscribe(Subscription("b", 0, retain_as_published=True), subscription_identifier=8)
    talk.subscribe(Subscription("c", 2))
    told = [
        talk.tell(Deliver(number, "t", b"", wanted, 2, retain=True, is_retained=number == 4))[0]
        for number, wanted in enumerate([("a",), ("a", "b"), ("c",), ("a",)], start=1)
    ]
    assert [(each.qos, each.retain, each.properties.get("subscription_identifier")) for each in told] == [
        (1, False, (7,)),
        (1, True, (7, 8)),
        (2, False, None),
        (1, True, (7,)),
    ]


# ------------------------------------------------------------ subscriptions


def test_a_subscription_stands_once_the_gateway_grants_it():
    talk = connected()
    [asked] = talk.say(Subscribe(5, (Subscription("a", 2), Subscription("b", 1)), {"subscription_identifier": 3}))
    assert [(wish.topics.levels, wish.identifier, wish.wants_retained) for wish in asked.wishes] == [
        ("a", 3, True),
        ("b", 3, True),
    ]
    assert talk.say(Subscribe(5, (Subscription("c"),))) == [Suback(5, (ReasonCode.PACKET_IDENTIFIER_IN_USE,))]
    assert talk.tell(Subscribed(1, (1, ReasonCode.NOT_AUTHORIZED))) == [Suback(5, (1, 0x87))]
    assert list(talk.session.kept.subscriptions) == ["a"]
    assert talk.session.kept.subscriptions["a"].qos == 1
    talk.say(Subscribe(6, (Subscription("a", 0),)))
    talk.tell(Subscribed(2, (ReasonCode.NOT_AUTHORIZED,)))
    assert talk.session.kept.subscriptions["a"].qos == 1  # the one before still stands
    assert talk.tell(Subscribed(2, (0,))) == []


def test_an_answer_that_comes_after_the_connection_counts_and_is_not_told_on_another():
    talk = connected(session_expiry_interval=100)
    talk.say(Subscribe(5, (Subscription("a"), Subscription("b"))))
    talk.tell(Closed("l"))
    talk.open(Connect("me", 5, False, properties=KEEP), True, "new")
    [asked] = talk.say(Subscribe(5, (Subscription("c"),)), "new")
    assert talk.tell(Subscribed(1, (0, ReasonCode.NOT_AUTHORIZED))) == []
    assert list(talk.session.kept.subscriptions) == ["a", "c"]
    assert talk.tell(Subscribed(asked.request, (0,))) == [Suback(5, (0,))]


def test_retained_events_are_sent_as_the_subscription_says():
    talk = connected()
    wants = []
    for handling, text in [(1, "a"), (1, "a"), (2, "b"), (0, "a"), (0, "$share/g/a")]:
        [asked] = talk.say(Subscribe(1, (Subscription(text, retain_handling=handling),)))
        wants.append(asked.wishes[0].wants_retained)
        talk.tell(Subscribed(asked.request, (0,)))
    assert wants == [True, False, False, True, False]


def test_content_filters_come_with_the_topic_or_beside_it():
    talk = connected(settings=MqttSettings())
    [asked] = talk.say(
        Subscribe(1, (Subscription("a?x > 1"),), {"user_property": (("$where", "y < 2"), ("other", "z"))})
    )
    content = asked.wishes[0].topics.content
    assert content.holds({"x": 2, "y": 1})
    assert not content.holds({"x": 2, "y": 2})
    [suback] = talk.say(Subscribe(2, (Subscription("a?x >"),)))
    assert suback.reason_codes == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert "line 1" in suback.properties["reason_string"]
    assert suback.properties["reason_string"].isprintable()  # Mosquitto's clients take no line breaks


def test_there_are_so_many_subscriptions_and_no_more():
    talk = connected(settings=MqttSettings(subscriptions_max=1))
    [asked] = talk.say(Subscribe(1, (Subscription("a"), Subscription("b"), Subscription("a", 1))))
    assert [wish.subscription.qos for wish in asked.wishes] == [0, 1]
    assert talk.tell(Subscribed(1, (0, 1))) == [Suback(1, (0, ReasonCode.QUOTA_EXCEEDED, 1))]


def test_unsubscribe_says_what_was_there():
    talk = subscribed()
    ended, unsuback = talk.say(Unsubscribe(4, ("t", "u")))
    assert ended.filters == ("t",)
    assert unsuback == Unsuback(4, (0, 0x11))


def test_two_clients_and_a_network_between_them():
    world = World(PLAIN)
    for name in "ab":
        world.open(name)
        world.receive(name, encode(Connect(name, 5), 5))
        world.receive(name, encode(Subscribe(1, (Subscription("t", 1, no_local=True), Subscription("$share/g/s"))), 5))
        world.lines[name].out.clear()
    world.receive("a", encode(Publish("t", b"1", 1, True, packet_id=1), 5) + encode(Publish("s", b"2"), 5))
    assert world.lines["a"].out == encode(Puback(1), 5) + encode(Publish("s", b"2"), 5)
    assert world.lines["b"].out == encode(Publish("t", b"1", 1, packet_id=1), 5)
    world.open("c")
    world.receive("c", encode(Connect("c", 4), 4))
    world.lines["c"].out.clear()
    world.receive("c", encode(Subscribe(1, (Subscription("+", 0),)), 4))
    assert world.lines["c"].out == encode(Suback(1, (0,)), 4) + encode(Publish("t", b"1", 0, True), 4)
