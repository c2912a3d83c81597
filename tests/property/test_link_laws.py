"""The law of links: whatever happens to frames, messages are handed on exactly once and in order.

And once faults stop, all of them. `link_wire.py` is the wire and the onlooker that owns the truth.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from godwit.broker.effects import Effect
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import Frame, Message
from godwit.errors import PeerFault
from tests.property.link_wire import Wire

CONFIG = LinkConfig(window=4, outbox_max=9, dead_after_s=100.0)
ENDS = st.sampled_from("ab")
WHICH = st.integers(0, 9)


class Joined(RuleBasedStateMachine):
    """Two links with memory, and a wire."""

    make: Callable[[str, int, LinkConfig], Link] = Link

    def __init__(self) -> None:
        super().__init__()
        self.wire = Wire(CONFIG, type(self).make)

    def under_way(self, end: str) -> int:
        return len(self.wire.arriving[end])

    @rule(end=ENDS, count=st.integers(1, 6))
    def is_asked_to_send(self, end: str, count: int) -> None:
        for _ in range(count):
            self.wire.send(end)

    @precondition(lambda self: not self.wire.is_up)
    @rule(greet=st.sampled_from([True, True, False]))
    def connects(self, greet: bool) -> None:
        self.wire.connect()
        if greet:
            self.wire.greet()

    @rule(end=ENDS, count=st.integers(1, 8))
    def frames_arrive(self, end: str, count: int) -> None:
        for _ in range(min(count, self.under_way(end))):
            self.wire.deliver(end)

    @rule(end=ENDS, which=WHICH)
    def a_frame_overtakes_others(self, end: str, which: int) -> None:
        if under_way := self.under_way(end):
            self.wire.deliver(end, which % under_way)

    @rule(end=ENDS, which=WHICH)
    def a_frame_is_lost(self, end: str, which: int) -> None:
        if under_way := self.under_way(end):
            self.wire.lose(end, which % under_way)

    @rule(end=ENDS, which=WHICH)
    def a_frame_is_doubled(self, end: str, which: int) -> None:
        if under_way := self.under_way(end):
            self.wire.double(end, which % under_way)

    @precondition(lambda self: self.wire.is_up)
    @rule(noticed_by=st.sampled_from(["ab", "a", "b", ""]), restarts=st.sampled_from(["", "", "", "a", "b"]))
    def the_wire_breaks_and_an_end_may_start_again_from_a_snapshot(self, noticed_by: str, restarts: str) -> None:
        self.wire.break_off(noticed_by)
        if restarts:
            self.wire.restart(restarts)

    @rule()
    def time_passes(self) -> None:
        self.wire.pass_time()

    @invariant()
    def exactly_once_in_order_and_bounded(self) -> None:
        self.wire.check()

    def teardown(self) -> None:
        self.wire.settle()


class GivingUp(Joined):
    """An end that has no connection may give up what waits: what was not given up still comes."""

    @rule(end=ENDS)
    def an_end_gives_up(self, end: str) -> None:
        if not self.wire.ends[end].connected:
            self.wire.give_up(end)


class Forgetting(GivingUp):
    """An end may lose its memory: the other reports exactly what was never acknowledged."""

    @rule(end=ENDS)
    def an_end_forgets(self, end: str) -> None:
        self.wire.forget(end)


EXAMPLES = settings(stateful_step_count=60)
TestJoined = Joined.TestCase
TestJoined.settings = EXAMPLES
TestGivingUp = GivingUp.TestCase
TestGivingUp.settings = EXAMPLES
TestForgetting = Forgetting.TestCase
TestForgetting.settings = EXAMPLES


# ------------------------------------------------------------ planted faults


class ForgetsOnSend(Link):
    """Holds a message for acknowledged as soon as it is sent."""

    def send(self, message: Message, effects: list[Effect], now: float) -> None:
        super().send(message, effects, now)
        for _ in range(self.in_flight):
            self.outbox.popleft()
        self.first += self.in_flight
        self.in_flight = 0


class TakesDuplicates(Link):
    """Hands on whatever number comes."""

    def on_frame(self, frame: Frame, effects: list[Effect], now: float) -> list[Message]:
        came_before = self.open and frame.number <= self.received
        messages = super().on_frame(frame, effects, now)
        return [frame.message] if came_before else messages


class TakesWhatIsEarly(Link):
    """Does not wait for what is missing."""

    def on_frame(self, frame: Frame, effects: list[Effect], now: float) -> list[Message]:
        if self.open and frame.number > self.received:
            self.received = frame.number - 1
        return super().on_frame(frame, effects, now)


class NeverSendsAgain(Link):
    """Trusts the wire."""

    def on_resend_due(self, now: float) -> list[Effect]:
        return [] if self.open else super().on_resend_due(now)


class GoesOnCounting(Link):
    """Does not see that the peer has lost its memory, and goes on with its numbers."""

    def on_hello(self, hello: Any, now: float) -> Any:
        if self.peer_incarnation:
            self.peer_incarnation = hello.incarnation
        return super().on_hello(hello, now)


@pytest.mark.parametrize(
    ("fault", "machine"),
    [
        (ForgetsOnSend, Joined),
        (TakesDuplicates, Joined),
        (TakesWhatIsEarly, Joined),
        (NeverSendsAgain, Joined),
        (GoesOnCounting, Forgetting),
    ],
)
def test_a_planted_fault_is_caught(fault: type[Link], machine: type[Joined]) -> None:
    planted = type("Planted", (machine,), {"make": fault})
    with pytest.raises((AssertionError, PeerFault)):  # an honest peer blames it, or the onlooker sees it
        run_state_machine_as_test(
            planted, settings=settings(max_examples=2_000, stateful_step_count=60, phases=[Phase.generate])
        )
