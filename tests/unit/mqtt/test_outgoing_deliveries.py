"""Deliveries go out as the client reads, whatever waits for it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.mqtt import FROM_SERVER, Connect, Decoder, MqttSession, MqttSettings, Subscribe, Subscription
from godwit.mqtt.mqtt_effects import (
    Acknowledged,
    Attached,
    Confirm,
    Deliver,
    Drained,
    DropDelivery,
    Heard,
    Opened,
    Send,
    Subscribed,
    Withheld,
)

SIZE = 1_000
UNREAD = 10 * SIZE


class Line:
    """A session with one subscription, and what is on its way to the client."""

    def __init__(self, qos: int, queue_max: int = 1_000) -> None:
        self.session = MqttSession(MqttSettings(unread_bytes_max=UNREAD, queue_max=queue_max))
        self.out: list[bytes] = []
        self.dropped: list[int] = []
        self.confirmed = 0
        self.tell(Opened("l", Connect("me", 4), "me"))
        self.tell(Attached("l", False))
        [asked] = self.tell(Heard("l", Subscribe(1, (Subscription("t", qos),))))
        self.tell(Subscribed(asked.request, (qos,)))
        self.out.clear()

    def tell(self, input: Any) -> list[Any]:
        effects = self.session.handle(input, 0.0)
        self.out += [effect.data for effect in effects if isinstance(effect, Send)]
        self.dropped += [effect.number for effect in effects if isinstance(effect, DropDelivery)]
        self.confirmed = max([self.confirmed, *(effect.number for effect in effects if isinstance(effect, Confirm))])
        return effects

    def read(self) -> list[bytes]:
        """The payloads that the client reads now; then the driver says that all has left."""
        data, self.out = b"".join(self.out), []
        packets: list[Any] = Decoder(4, FROM_SERVER).feed(data) if data else []
        self.tell(Drained("l"))
        if ids := [packet.packet_id for packet in packets if packet.qos]:
            self.tell(Acknowledged("l", ids))
        return [packet.payload for packet in packets]


def deliver(number: int, qos: int) -> Deliver:
    return Deliver(number, "t", b"%d " % number + bytes(SIZE), ("t",), qos)


@pytest.mark.parametrize("qos", [0, 1])
def test_no_more_than_the_window_and_one_packet_is_under_way_and_all_arrive_in_order(qos: int) -> None:
    line = Line(qos)
    for number in range(1, 401):
        line.tell(deliver(number, qos))
        assert sum(map(len, line.out)) <= UNREAD + 2 * SIZE
    came: list[bytes] = []
    while payloads := line.read():
        came += payloads
        assert sum(map(len, line.out)) <= UNREAD + 2 * SIZE
    assert [int(payload.split()[0]) for payload in came] == list(range(1, 401))
    assert line.dropped == []
    assert line.confirmed == 400


def test_a_packet_larger_than_the_window_goes_out_alone() -> None:
    line = Line(1)
    for number in (1, 2):
        line.tell(Deliver(number, "t", b"%d " % number + bytes(3 * UNREAD), ("t",), 1))
    assert len(line.out) == 1
    assert [payload[:1] for payload in line.read()] == [b"1"]
    assert [payload[:1] for payload in line.read()] == [b"2"]


def test_qos_0_behind_a_full_receive_maximum_is_given_up_and_behind_an_unread_window_is_not() -> None:
    unread = Line(0, queue_max=5)
    for number in range(1, 101):
        unread.tell(deliver(number, 0))
    assert unread.dropped == []
    session = MqttSettings(unread_bytes_max=UNREAD, queue_max=5, in_flight_max=1)
    line = Line(1)
    line.session = MqttSession(session)
    line.tell(Opened("l", Connect("me", 4), "me"))
    line.tell(Attached("l", False))
    [asked] = line.tell(Heard("l", Subscribe(1, (Subscription("t", 1),))))
    line.tell(Subscribed(asked.request, (1,)))
    for number in range(1, 11):
        line.tell(deliver(number, 1 if number <= 6 else 0))
    assert line.dropped == [7, 8, 9, 10]  # one is under way and five wait


def test_what_waits_and_is_withheld_is_done_with_in_its_turn_and_not_sent() -> None:
    line = Line(1)
    for number in range(1, 31):
        line.tell(deliver(number, 1))
    sent = len(line.out)
    assert 0 < sent < 20
    line.tell(Withheld((2, *range(20, 26), 30)))  # the second is on its way already
    came: list[bytes] = []
    while payloads := line.read():
        came += payloads
    assert [int(payload.split()[0]) for payload in came] == [*range(1, 20), *range(26, 30)]
    assert line.confirmed == 30
    assert line.dropped == []


@given(
    st.lists(st.sampled_from(["deliver", "read", "withhold"]), max_size=60),
    st.integers(0, 2**60 - 1),
    st.sampled_from([0, 1]),
)
def test_nothing_that_is_withheld_is_sent_and_all_else_arrives_once_in_order(
    script: list[str], chosen: int, qos: int
) -> None:
    line, last, came = Line(qos), 0, list[int]()
    withheld: set[int] = set()
    for step in script:
        if step == "deliver":
            for _ in range(7):
                last += 1
                line.tell(deliver(last, qos))
        elif step == "withhold":
            waiting = {each.number for each in line.session.outgoing.waiting}  # type: ignore[union-attr]
            now = {number for number in waiting if chosen >> number % 60 & 1}
            withheld |= now
            line.tell(Withheld(tuple(now)))
        else:
            came += [int(payload.split()[0]) for payload in line.read()]
    while payloads := line.read():
        came += [int(payload.split()[0]) for payload in payloads]
    assert came == [number for number in range(1, last + 1) if number not in withheld]
    assert line.confirmed == last


def test_drained_of_an_earlier_connection_counts_for_nothing() -> None:
    line = Line(1)
    for number in range(1, 21):
        line.tell(deliver(number, 1))
    before = len(line.out)
    line.tell(Drained("an earlier one"))
    assert len(line.out) == before


@pytest.mark.parametrize("expires_at", [None, 30.0])
def test_bytes_are_shared_with_other_clients_only_if_they_say_the_same_to_all(expires_at: float | None) -> None:
    session = MqttSession(MqttSettings())
    session.handle(Opened("l", Connect("me", 5), "me"), 0.0)
    session.handle(Attached("l", False), 0.0)
    [asked] = session.handle(Heard("l", Subscribe(1, (Subscription("t", 0),))), 0.0)
    session.handle(Subscribed(asked.request, (0,)), 0.0)  # type: ignore[union-attr]
    shared: dict[Any, Any] = {}
    effects = session.handle(Deliver(1, "t", b"x", ("t",), expires_at=expires_at, shared=shared), 10.0)
    [data] = [effect.data for effect in effects if isinstance(effect, Send)]
    packets: list[Any] = Decoder(5, FROM_SERVER).feed(data)
    [packet] = packets
    assert packet.properties == ({} if expires_at is None else {"message_expiry_interval": 20})
    assert bool(shared) == (expires_at is None)
