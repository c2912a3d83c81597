"""While a client with little traffic waits for its answer, what can wait has less time."""

from typing import Any

import pytest

from godwit.mqtt import Connect, Pingreq, encode
from godwit.runtime import party_turns, read_slices
from godwit.runtime.packet_slices import PACKETS_AT_ONCE_MAX, SHORT_PACKETS, PacketSlices
from godwit.runtime.party_turns import TURN_S, PartyTurns
from godwit.runtime.read_slices import SLICE_BYTES, ReadSlices
from godwit.runtime.urgency import REST_S_MAX, SHORT_TURN_S, Urgency

CALL_S = SHORT_TURN_S / 2


class Loop:
    """Notes after how many seconds each turn was asked for; `turn` makes the next one."""

    def __init__(self) -> None:
        self.rests: list[float] = []
        self._due: list[Any] = []

    def call_soon(self, call: Any) -> None:
        self.call_later(0.0, call)

    def call_later(self, rest_s: float, call: Any) -> None:
        self.rests.append(rest_s)
        self._due.append(call)

    def turn(self) -> None:
        due, self._due = self._due, []
        for call in due:
            call()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    for module in (party_turns, read_slices):
        monkeypatch.setattr(module.asyncio, "get_running_loop", lambda: made)
    return made


def waiting() -> Urgency:
    urgency = Urgency()
    urgency.is_new = True
    return urgency


class Calls:
    """Each call takes the same time, and asks for another one in a later turn, as packets do."""

    def __init__(self, urgency: Urgency, takes_s: float = CALL_S) -> None:
        self.now, self.made, self._takes_s = 0.0, 0, takes_s
        self.turns = PartyTurns(lambda: self.now, urgency)

    def call(self) -> None:
        self.made += 1
        self.now += self._takes_s
        self.turns.soon("mallory", self.call)


def test_calls_have_a_shorter_turn_and_rest_for_as_long_as_they_took(loop: Loop) -> None:
    urgency = waiting()
    calls = Calls(urgency)
    for _ in range(40):
        calls.turns.soon("mallory", calls.call)
    loop.turn()
    assert calls.made == 2
    assert loop.rests[-1] == pytest.approx(2 * CALL_S)
    urgency.begin_batch()  # it is being written
    loop.turn()
    assert calls.made == 4
    assert loop.rests[-1] == pytest.approx(2 * CALL_S)
    urgency.is_written = False
    loop.turn()
    assert calls.made == 4 + TURN_S / CALL_S
    assert loop.rests[-1] == 0.0


def test_a_rest_has_a_bound(loop: Loop) -> None:
    calls = Calls(waiting(), takes_s=1.0)
    calls.turns.soon("mallory", calls.call)
    loop.turn()
    assert loop.rests[-1] == REST_S_MAX


def test_a_call_that_is_made_at_once_rests_too(loop: Loop) -> None:
    calls = PartyTurns(clock := Steps(SHORT_TURN_S), waiting())
    calls.spend(clock())
    assert not calls.is_free
    assert loop.rests == [pytest.approx(SHORT_TURN_S)]


class Steps:
    """A clock that goes on by the same time whenever it is read."""

    def __init__(self, step_s: float) -> None:
        self._at, self._step_s = 0.0, step_s

    def __call__(self) -> float:
        self._at += self._step_s
        return self._at


def test_fewer_packets_are_decoded_at_once(loop: Loop) -> None:
    urgency, handled = waiting(), list[int]()
    slices = PacketSlices(
        *(PACKETS_AT_ONCE_MAX * 100,) * 2,
        lambda packets, fault, size: handled.append(len(packets)),
        PartyTurns(lambda: 0.0, urgency),
    )
    slices.feed(encode(Connect("c", 5), 5) + encode(Pingreq(), 5) * 3 * PACKETS_AT_ONCE_MAX)
    loop.turn()
    assert handled == [PACKETS_AT_ONCE_MAX, SHORT_PACKETS]
    urgency.is_new = False
    loop.turn()
    assert handled[2:] == [PACKETS_AT_ONCE_MAX]


class Reader:
    """A connection whose bytes are parsed."""

    party, is_held = "mallory", False

    def __init__(self) -> None:
        self.parsed = 0
        self.transport = self

    def slice_of(self, data: bytes) -> int:
        return SLICE_BYTES

    def parse(self, data: bytes) -> None:
        self.parsed += 1

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    def is_closing(self) -> bool:
        return False


def test_slices_of_http_have_a_shorter_turn_and_rest(loop: Loop) -> None:
    urgency, reader = waiting(), Reader()
    slices = ReadSlices(Steps(CALL_S), urgency)
    slices.feed(reader, bytes(20 * SLICE_BYTES))
    assert reader.parsed == 2
    assert loop.rests == [pytest.approx(2 * CALL_S)]
    loop.turn()
    assert reader.parsed == 4
    assert loop.rests[1:] == [pytest.approx(2 * CALL_S)]
    urgency.is_new = False
    loop.turn()
    assert reader.parsed == 4 + read_slices.TURN_S / CALL_S
    assert loop.rests[2:] == [0.0]
