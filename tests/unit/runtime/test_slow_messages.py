"""Messages with many filters are decoded one filter at a time, and come in order."""

from collections.abc import Generator
from typing import Any, cast

import pytest

from godwit.broker.limits import Limits
from godwit.broker.messages import Advertise, Attach, Frame, Packet, Received, Request, Subscribe
from godwit.broker.session import Session
from godwit.codec import message_codec
from godwit.codec.plain_data import filter_of
from godwit.errors import PeerFault
from godwit.filters import parse
from godwit.filters.language import to_text
from godwit.mobility.move_messages import Interests, Replay
from godwit.runtime.authentication import Principal
from godwit.runtime.grants import Grants
from godwit.runtime.long_work import LongWork
from godwit.runtime.slow_messages import SlowFrames
from godwit.runtime.wire import LARGE_BYTES, LARGE_COUNT, NATIVE, Frames, SlowMessage

COUNT = 12
WISHES = tuple(
    Subscribe(("ann", f"s{n}"), parse(" OR ".join(f"a{i} = {i + n}" for i in range(300)))) for n in range(COUNT)
)
GREETING = Attach("ann", attempt=2, home="a", wanted=(*WISHES, Advertise(("ann", "p"), parse("kind = 'x'"))))


def replay() -> Replay:
    session = Session("ann", "a/1/1", Limits())
    for wish in WISHES:
        session.filters.put_subscription(wish)
    return Replay("ann", "b", 2, session.state(), (), True, False, 1)


def framed(message: Any) -> Frame:
    return Frame(1, 1, message)


MESSAGES: dict[str, Any] = {
    "greeting": GREETING,
    "session": framed(replay()),
    "session in a packet": framed(Packet("a", 1, {"b": 1}, cast(Any, replay()))),
    "wishes": framed(Interests("ann", "b", 2, WISHES)),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_is_decoded_in_steps_is_the_same_with_one_filter_in_each_step(name: str) -> None:
    data = NATIVE.encode(MESSAGES[name])
    *steps, message = NATIVE.decoding(data)
    assert message == NATIVE.decode(data) == MESSAGES[name]
    assert len(steps) == COUNT + (name == "greeting")
    assert set(steps) == {None}


def test_each_filter_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counting(tree: Any) -> Any:
        made.append(tree)
        return filter_of(tree)

    monkeypatch.setattr(message_codec, "filter_of", counting)
    counts = [len(made) for _ in NATIVE.decoding(NATIVE.encode(MESSAGES["session in a packet"]))]
    assert counts == [*range(1, COUNT + 1), COUNT]


def test_two_messages_can_be_decoded_by_turns() -> None:
    one, other = (NATIVE.decoding(NATIVE.encode(MESSAGES[name])) for name in ("greeting", "session"))
    *_, (first, second) = zip(list(one)[-COUNT:], other, strict=False)
    assert first == GREETING
    assert second is None
    assert list(other)[-1] == MESSAGES["session"]


def test_what_is_no_message_is_a_fault_also_in_steps() -> None:
    data = NATIVE.encode(GREETING).replace(b"a299", b"\xff299")
    with pytest.raises(PeerFault, match="a frame that is not a message"):
        list(NATIVE.decoding(data))


class Turn:
    """One turn of the event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Reading:
    """A connection that is read: what it is fed, and what comes."""

    def __init__(self, principal: Principal | None = None) -> None:
        self.came: list[Any] = []
        self.data: list[bytes] = []
        self.is_read = True
        self.faults: list[str] = []
        callbacks = self.pause, self.go_on, lambda: "ann", lambda: principal
        self.frames = SlowFrames(Frames(in_steps=True), LongWork(self.clock), *callbacks)
        self.now = 0.0

    def clock(self) -> float:
        """Each look at it is a slice later."""
        self.now += 1.0
        return self.now

    def pause(self) -> None:
        self.is_read = False

    def feed(self, data: bytes) -> None:
        try:
            came = self.frames.feed(data, 128, counts_items=True)
            self.came += [message for message, _ in came]
            self.data += [data for _, data in came]
        except PeerFault as fault:
            self.faults.append(str(fault))

    def go_on(self) -> None:
        while self.frames.has_more and not self.faults:
            self.feed(b"")
        self.is_read = not self.frames.is_busy


async def turns_until(reading: Reading) -> int:
    """Turns of the loop until nothing is decoded any more."""
    turns = 0
    while reading.frames.is_busy:
        await Turn()
        turns += 1
    return turns


@pytest.mark.anyio
@pytest.mark.parametrize("piece", [1_000, 10_000_000])
async def test_messages_come_in_order_around_one_that_is_decoded_in_turns(piece: int) -> None:
    sent = [Received(1), GREETING, Received(2), GREETING, Received(3)]
    reading, data = Reading(), Frames.packed(sent)
    for at in range(0, len(data), piece):
        reading.feed(data[at : at + piece])
    reading.go_on()
    assert reading.came == sent[:1]
    assert not reading.is_read
    assert not reading.frames.has_more
    assert await turns_until(reading) >= 2 * COUNT
    assert reading.came == sent
    assert reading.is_read


@pytest.mark.anyio
async def test_a_fault_in_such_a_message_comes_with_the_next_feed_and_nothing_after_it() -> None:
    reading = Reading()
    data = Frames.packed([GREETING]).replace(b"a299", b"\xff299")
    reading.feed(data + Frames.packed([Received(1)]))
    await turns_until(reading)
    assert len(reading.faults) == 1
    assert reading.came == []


@pytest.mark.anyio
async def test_an_error_of_this_program_ends_the_connection_and_does_not_leave_it_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(tree: Any) -> Any:
        raise AssertionError("planted")

    monkeypatch.setattr(message_codec, "filter_of", broken)
    reading = Reading()
    reading.feed(Frames.packed([GREETING]))
    task = reading.frames._task
    await turns_until(reading)
    assert reading.faults == ["this message cannot be decoded: planted"]
    assert task is not None
    assert isinstance(task.exception(), AssertionError)  # which asyncio reports


@pytest.mark.anyio
async def test_a_message_counts_as_incomplete_until_it_is_decoded() -> None:
    reading = Reading()
    data = Frames.packed([GREETING])
    reading.feed(data)
    assert reading.frames.pending == len(data) - 4
    await turns_until(reading)
    assert reading.frames.pending == 0


@pytest.mark.anyio
async def test_a_connection_that_is_closed_decodes_no_further() -> None:
    reading = Reading()
    reading.feed(Frames.packed([GREETING]))
    reading.frames.stop()
    await Turn()
    await Turn()
    assert not reading.frames.is_busy
    assert reading.came == []


GRANTS = {
    "covers all": (Grants.of(["*"], ["a5 >= 0", *(f"a{n} IS NOT NULL" for n in range(300))]), COUNT + 1),
    "refuses some": (Grants.of(["kind = 'y'"], [to_text(wish.filter) for wish in WISHES[:4]]), 4),
    "narrows": (Grants.of(["*"], ["a1 < 7"], "narrow"), COUNT + 1),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", GRANTS)
async def test_a_greeting_comes_as_it_is_granted_and_is_not_compared_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants, count = GRANTS[name]
    granted = grants.checked(GREETING)
    assert len(granted.wanted) == count
    principal = Principal("ann", grants=grants)
    reading = Reading(principal)
    reading.feed(Frames.packed([GREETING]))
    assert await turns_until(reading) >= 2 * COUNT
    assert reading.came == [granted]
    assert reading.data == [NATIVE.encode(granted)]
    monkeypatch.setattr(Grants, "checked", lambda self, message: pytest.fail("it is compared again"))
    assert principal.checked(reading.came[0]) is reading.came[0]


@pytest.mark.anyio
async def test_a_greeting_is_compared_again_if_the_rights_have_changed_meanwhile() -> None:
    principal = Principal("ann", grants=GRANTS["covers all"][0])
    reading = Reading(principal)
    reading.feed(Frames.packed([GREETING]))
    await turns_until(reading)
    principal.end("it is over")
    assert principal.checked(reading.came[0]).wanted == ()


def test_only_who_asks_for_steps_gets_messages_that_are_not_decoded() -> None:
    data = Frames.packed([GREETING])
    assert Frames().feed(data)[0][0] == GREETING
    assert type(Frames(in_steps=True).feed(data)[0][0]) is SlowMessage


@pytest.mark.parametrize("message", [Request(1, WISHES[0]), Frame(1, 1, WISHES[0])])
def test_a_long_filter_counts_as_many_messages_from_clients_and_from_neighbours(message: Any) -> None:
    count = len(NATIVE.encode(message)) // LARGE_BYTES * LARGE_COUNT + 1
    frames = Frames()
    assert len(frames.feed(Frames.packed([message] * 5), count)) == 1
    assert frames.has_more
