"""Two links joined by a wire that does whatever wires do, on a clock that only a test moves (`godwit.testing`).

A wire loses frames, doubles them, and lets one overtake another. It breaks and returns: frames of an old connection
never arrive on a newer one, and an end may not notice that it broke until it returns. An end may start again from a
snapshot, or without its memory. An onlooker keeps what each end was asked to send and what it has handed on.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from godwit.broker.effects import Arrived, Effect, LinkDown, LinkUp, StartTimer, TimerDue, Trace
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import Ack, Frame, FrameOrAck, Hello, Publish
from godwit.filters.events import Event
from godwit.testing import Machines
from tests.snapshots import restored

STEPS_MAX = 10_000
OTHER = {"a": "b", "b": "a"}


def numbered(number: int) -> Publish:
    return Publish(Event({}, "p", number))


def number_of(message: Any) -> int:
    assert isinstance(message, Publish)
    return message.event.sequence


class End:
    """A link as a machine."""

    def __init__(self, wire: "Wire", name: str) -> None:
        self.wire = wire
        self.name = name

    def handle(self, input: Any, now: float) -> list[Effect]:
        link, effects = self.wire.ends[self.name], list[Effect]()
        match input:
            case LinkUp():
                effects = link.on_up(now)
            case LinkDown():
                effects = link.on_down(now) if link.connected else []
            case Arrived(frame=frame):
                effects = self._on_arrived(link, frame, now)
            case TimerDue(key=("ack", _)):
                effects = link.on_ack_due()
            case TimerDue(key=("resend", _)):
                effects = link.on_resend_due(now)
        assert all(effect.at >= now for effect in effects if isinstance(effect, StartTimer))
        return effects

    def _on_arrived(self, link: Link, frame: FrameOrAck, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match frame:
            case Hello():
                effects, _, undelivered = link.on_hello(frame, now)
                if undelivered is not None:
                    self.wire.on_forgotten(self.name, [number_of(message) for message in undelivered])
            case Frame():
                self.wire.handed_on[self.name] += [number_of(each) for each in link.on_frame(frame, effects, now)]
            case Ack():
                link.on_ack(frame, effects, now)
        return effects


class Wire:
    """Ends are "a" and "b". Messages are events numbered in the order an end was asked to send them."""

    def __init__(self, config: LinkConfig, make: Callable[[str, int, LinkConfig], Link] = Link) -> None:
        self.config = config
        self.make = make
        self.lives = {"a": 1, "b": 1}
        self.ends = {end: make(OTHER[end], 1, config) for end in OTHER}
        self.net = Machines()
        for end in OTHER:
            self.net.add_broker(end, partial(self._end, end))
        # what the onlooker knows, of the present pair of lives
        self.made = 0
        self.sent: dict[str, list[int]] = {"a": [], "b": []}
        self.given_up: dict[str, set[int]] = {"a": set(), "b": set()}
        self.handed_on: dict[str, list[int]] = {"a": [], "b": []}
        self.handed_on_in_past_lives: dict[str, list[int]] = {"a": [], "b": []}  # of what is in the other's `sent`
        self.undelivered: dict[str, list[int]] = {"a": [], "b": []}  # as a link reported it

    def _end(self, name: str, _: int) -> End:
        return End(self, name)

    @property
    def now(self) -> float:
        return self.net.now

    @property
    def is_up(self) -> bool:
        return self.net.is_joined("a", "b")

    @property
    def arriving(self) -> dict[str, list[FrameOrAck]]:
        """By the end that they come to, the frames under way."""
        return {end: self.net.under_way(other, end) for end, other in OTHER.items()}

    # ------------------------------------------------------------ what is asked for

    def send(self, end: str) -> int:
        """Ask an end to send the next event. One that finds no room is recorded as lost, and does not count."""
        self.made += 1
        effects: list[Effect] = []
        self.ends[end].send(numbered(self.made), effects, self.now)
        if not any(isinstance(effect, Trace) for effect in effects):
            self.sent[end].append(self.made)
        self.net.carry_out(end, effects)
        return self.made

    # ------------------------------------------------------------ what the wire does

    def deliver(self, end: str, which: int = 0) -> None:
        """A frame arrives, the first or one that overtakes others."""
        self.net.deliver(OTHER[end], end, which)

    def lose(self, end: str, which: int = 0) -> None:
        self.net.lose(OTHER[end], end, which)

    def lose_all(self) -> None:
        for end, frames in self.arriving.items():
            for _ in frames:
                self.lose(end)

    def double(self, end: str, which: int = 0) -> None:
        self.net.double(OTHER[end], end, which)

    def connect(self) -> None:
        """A new connection: an end that had not noticed that the old one is gone hears of it only now."""
        self.break_off(noticed_by="")
        self.net.join("a", "b")

    def greet(self) -> None:
        """Both hear each other's Hello."""
        while not all(link.open for link in self.ends.values()):
            self.net.step()

    def break_off(self, noticed_by: str = "ab") -> None:
        if not self.net.cut("a", "b", noticed_by):  # it broke before, and some had not noticed
            for end in noticed_by:
                self.net.give(end, LinkDown(OTHER[end]))

    # ------------------------------------------------------------ what ends do

    def pass_time(self) -> bool:
        """The time of the next timer comes; whether there was one."""
        return self.net.fire_next()

    def give_up(self, end: str) -> list[int]:
        """An end whose connection is gone gives up what waits."""
        assert not self.ends[end].connected
        given_up = [number_of(message) for message in self.ends[end].give_up()]
        self.given_up[end].update(given_up)
        return given_up

    def restart(self, end: str) -> None:
        """An end stops, and starts again from a snapshot."""
        self._stop(end)
        self.ends[end] = restored(self.ends[end], self.make(OTHER[end], self.lives[end], self.config))

    def forget(self, end: str) -> None:
        """An end stops, and starts again with nothing: what it was asked to send before is gone with it."""
        self._stop(end)
        self.lives[end] += 1
        self.ends[end] = self.make(OTHER[end], self.lives[end], self.config)
        other = OTHER[end]
        self.sent[end], self.given_up[end], self.handed_on[other] = [], set(), []
        self.handed_on_in_past_lives[other] = []
        self.handed_on_in_past_lives[end] += self.handed_on[end]
        self.handed_on[end] = []

    def _stop(self, end: str) -> None:
        self.break_off()
        self.net.timers = {timer: at for timer, at in self.net.timers.items() if timer[0] != end}

    def on_forgotten(self, end: str, undelivered: list[int]) -> None:
        """Law: what is reported is all that was not acknowledged; the rest came while the peer lived."""
        sent = self.sent[end]
        settled = sent[: len(sent) - len(undelivered)]
        assert sent[len(settled) :] == undelivered
        came = {*self.handed_on_in_past_lives[OTHER[end]], *self.given_up[end]}
        assert came >= set(settled), f"{set(settled) - came} never came, and is not reported"
        self.undelivered[end] += undelivered
        self.sent[end], self.given_up[end], self.handed_on_in_past_lives[OTHER[end]] = [], set(), []

    # ------------------------------------------------------------ the laws

    def check(self) -> None:
        """At every moment: exactly once, in order, and bounded."""
        for end, other in OTHER.items():
            came, sent = self.handed_on[end], self.sent[other]
            assert came == sorted(set(came)), f"{other} -> {end}: {came} is out of order, or doubled"
            assert set(came) <= set(sent), f"{other} -> {end}: {came} came of {sent}"
            due = {number for number in sent if came and number <= came[-1]}
            assert due - set(came) <= self.given_up[other], f"{other} -> {end}: {due - set(came)} was left out"
            link = self.ends[end]
            assert len(link.outbox) <= self.config.outbox_max
            assert link.in_flight <= min(len(link.outbox), self.config.window)
            assert len(link.early) <= self.config.window

    def settle(self) -> None:
        """Faults are over: everything comes to its end, and then all that was sent has come."""
        if not self.is_up:
            self.connect()
        for _ in range(STEPS_MAX):
            ends = [end for end in OTHER if self.arriving[end]]
            for end in ends:
                self.deliver(end)
                self.check()
            if not ends and not self.pass_time():
                break
        else:
            raise AssertionError(f"the two go on for ever: {self.net.timers}")
        for end, other in OTHER.items():
            missing = set(self.sent[other]) - set(self.handed_on[end]) - self.given_up[other]
            assert not missing, f"{other} -> {end}: {missing} never came"
            assert not self.ends[other].outbox
            assert self.ends[end].open
