"""Two links joined by a wire that does whatever wires do, on a clock that only a test moves.

A wire loses frames, doubles them, and lets one overtake another. It breaks and returns: frames of an old connection
never arrive on a newer one, and an end may not notice that it broke until it returns. An end may start again from a
snapshot, or without its memory. An onlooker keeps what each end was asked to send and what it has handed on.
"""

from collections.abc import Callable
from typing import Any

from godwit.broker.effects import Effect, Send, StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import Ack, Frame, FrameOrAck, Hello, Publish
from godwit.filters.events import Event
from godwit.trace import Record
from tests.snapshots import restored

STEPS_MAX = 10_000
OTHER = {"a": "b", "b": "a"}


def numbered(number: int) -> Publish:
    return Publish(Event({}, "p", number))


def number_of(message: Any) -> int:
    assert isinstance(message, Publish)
    return message.event.sequence


class Wire:
    """Ends are "a" and "b". Messages are events numbered in the order an end was asked to send them."""

    def __init__(self, config: LinkConfig, make: Callable[[str, int, LinkConfig], Link] = Link) -> None:
        self.config = config
        self.make = make
        self.now = 0.0
        self.is_up = False
        self.lives = {"a": 1, "b": 1}
        self.ends = {end: make(OTHER[end], 1, config) for end in OTHER}
        self.arriving: dict[str, list[FrameOrAck]] = {"a": [], "b": []}  # by the end that they come to
        self.timers: dict[tuple[str, TimerKey], float] = {}
        self.records: list[Record] = []
        # what the onlooker knows, of the present pair of lives
        self.made = 0
        self.sent: dict[str, list[int]] = {"a": [], "b": []}
        self.given_up: dict[str, set[int]] = {"a": set(), "b": set()}
        self.handed_on: dict[str, list[int]] = {"a": [], "b": []}
        self.handed_on_in_past_lives: dict[str, list[int]] = {"a": [], "b": []}  # of what is in the other's `sent`
        self.undelivered: dict[str, list[int]] = {"a": [], "b": []}  # as a link reported it

    # ------------------------------------------------------------ what is asked for

    def send(self, end: str) -> int:
        """Ask an end to send the next event. One that finds no room is recorded as lost, and does not count."""
        self.made += 1
        effects: list[Effect] = []
        self.ends[end].send(numbered(self.made), effects, self.now)
        if not any(isinstance(effect, Trace) for effect in effects):
            self.sent[end].append(self.made)
        self.carry_out(end, effects)
        return self.made

    def carry_out(self, end: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(frame=frame):
                    if self.is_up:
                        self.arriving[OTHER[end]].append(frame)
                case StartTimer(key=key, at=at):
                    assert at >= self.now
                    self.timers[end, key] = at
                case StopTimer(key=key):
                    self.timers.pop((end, key), None)
                case Trace(record=record):
                    self.records.append(record)

    # ------------------------------------------------------------ what the wire does

    def deliver(self, end: str, which: int = 0) -> None:
        """A frame arrives, the first or one that overtakes others."""
        frame = self.arriving[end].pop(which)
        link = self.ends[end]
        effects: list[Effect] = []
        match frame:
            case Hello():
                effects, _, undelivered = link.on_hello(frame, self.now)
                if undelivered is not None:
                    self._on_forgotten(end, [number_of(message) for message in undelivered])
            case Frame():
                self.handed_on[end] += [number_of(message) for message in link.on_frame(frame, effects, self.now)]
            case Ack():
                link.on_ack(frame, effects, self.now)
        self.carry_out(end, effects)

    def lose(self, end: str, which: int = 0) -> None:
        del self.arriving[end][which]

    def double(self, end: str, which: int = 0) -> None:
        self.arriving[end].append(self.arriving[end][which])

    def connect(self) -> None:
        """A new connection: an end that had not noticed that the old one is gone hears of it only now."""
        self.arriving = {"a": [], "b": []}
        self.is_up = True
        for end, link in self.ends.items():
            self.carry_out(end, link.on_up(self.now))

    def greet(self) -> None:
        """Both hear each other's Hello."""
        while not all(link.open for link in self.ends.values()):
            for end in OTHER:
                if self.arriving[end]:
                    self.deliver(end)

    def break_off(self, noticed_by: str = "ab") -> None:
        self.is_up = False
        self.arriving = {"a": [], "b": []}
        for end in noticed_by:
            if self.ends[end].connected:
                self.carry_out(end, self.ends[end].on_down(self.now))

    # ------------------------------------------------------------ what ends do

    def pass_time(self) -> bool:
        """The time of the next timer comes; whether there was one."""
        if not self.timers:
            return False
        (end, key), at = min(self.timers.items(), key=lambda timer: (timer[1], timer[0]))
        del self.timers[end, key]
        self.now = max(self.now, at)
        match key[0]:
            case "ack":
                self.carry_out(end, self.ends[end].on_ack_due())
            case "resend":
                self.carry_out(end, self.ends[end].on_resend_due(self.now))
        return True

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
        self.timers = {timer: at for timer, at in self.timers.items() if timer[0] != end}

    def _on_forgotten(self, end: str, undelivered: list[int]) -> None:
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
            raise AssertionError(f"the two go on for ever: {self.timers}")
        for end, other in OTHER.items():
            missing = set(self.sent[other]) - set(self.handed_on[end]) - self.given_up[other]
            assert not missing, f"{other} -> {end}: {missing} never came"
            assert not self.ends[other].outbox
            assert self.ends[end].open
