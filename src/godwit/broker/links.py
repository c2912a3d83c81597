"""A link between two brokers: messages are delivered exactly once and in order, whatever happens to the frames.

*Theory.* Each end numbers the messages it sends 1, 2, 3, … and keeps them in its outbox until the other end has
acknowledged them, cumulatively. A connection begins with a `Hello` each way, which says what has come so far; what has
not is sent again. So a connection that breaks and another that takes its place lose nothing and double nothing. Frames
may also be lost, duplicated and reordered while the connection is open: early ones are held, late ones dropped, a gap
is reported at once by an `Ack` and filled by sending again, hole after hole, and a timer asks again when all is silent.

Each end also measures how long a message takes there and its acknowledgement back: `round_trip_s`, for components that
need the age of messages (δ of [rebeca §5.3]). It goes up at once and down slowly. A greeting is answered at once; other
acknowledgements may wait for `ack_s`, which is taken off as far as the quickest answer on this connection allows.

An end that has lost its disk comes back as another *incarnation*. The other end sees that in the `Hello`, starts its
numbers again and reports what was never acknowledged, so that the routing family can tell the newcomer again.

An end whose disk has lost the last inputs does not know that it has. The other end does: it has received what was never
sent, or was acknowledged what never came (`knows_more`). Then this end begins another life, too (`lost_tail.py`).

*Rules.*
1. `received` is the last number handled in order; no number is handed on twice, none is left out.
2. A message leaves the outbox when it is acknowledged, given up (`give_up`), or when the peer has forgotten everything;
   never otherwise. Past `outbox_max`, `outbox_bytes_max` or its user's share no event enters it, and that is recorded
   as lost.
3. No frame is sent or handled on a connection before the peer's `Hello` has come on it.
4. An acknowledgement is late by `ack_s` at most, or goes with the next frame.
5. What is in flight is bounded by `window`, and so is what is held early, which is also bounded by `EARLY_BYTES_MAX`.
   That belongs to the connection: it counts as received when the gap before it is filled, and until then the other end
   keeps it, and sends it again.

*Departures.* [rebeca §2.1] takes error-free FIFO links for granted ("a common assumption that can be relieved later");
this module is what they stand on.
"""

from collections import deque
from collections.abc import Callable
from typing import cast

import msgspec

from godwit.broker.effects import Close, Effect, Send, StartTimer, StopTimer, Trace
from godwit.broker.messages import Ack, Frame, Hello, Message, NodeId
from godwit.broker.queues import event_size
from godwit.broker.state_types import AnyMessage
from godwit.broker.waiting_bytes import WaitingEvents, bytes_of, event_in
from godwit.errors import PeerFault
from godwit.trace import Record

__all__ = ["Link", "LinkConfig", "LinkEndState"]

ACK_EVERY = 16
RESENT_AT_ONCE_MAX = 32
EARLY_BYTES_MAX = 16 * 2**20
CALMING = 1 / 8  # the weight of one round trip that is shorter than what is expected


class LinkConfig(msgspec.Struct, frozen=True):
    """The times and bounds of a link."""

    ack_s: float = 0.05
    resend_s: float = 3.0  # of silence; doubles each time up to resend_s_max
    resend_s_max: float = 12.0
    window: int = 1_024
    outbox_max: int = 100_000
    outbox_bytes_max: int = 256 * 2**20  # of events
    dead_after_s: float | None = None  # a link down for so long is given up; None: never


class LinkEndState(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that one end of a link knows, besides its settings."""

    silence_s: float
    peer_incarnation: int = 0
    connected: bool = False
    open: bool = False
    fault: str | None = None
    outbox: tuple[AnyMessage, ...] = ()
    first: int = 1
    acknowledged_up_to: int = 0
    sent: int = 0
    in_flight: int = 0
    acknowledged_since_timer: bool = False
    resend_running: bool = False
    resent_first: int = 0
    round_trip_s: float | None = None
    timed: tuple[int, float] | None = None
    greeted_at: float | None = None
    quickest_s: float = float("inf")
    missed_up_to: int = 0
    received: int = 0
    early: dict[int, AnyMessage] = {}
    unacknowledged: int = 0
    ack_running: bool = False


class Link:
    """One end of a link to `peer`. Effects are the caller's to carry out; messages that have come, to handle."""

    def __init__(
        self, peer: NodeId, incarnation: int, config: LinkConfig, user_share: Callable[[], float] = lambda: 1.0
    ) -> None:
        assert incarnation > 0
        self.peer = peer
        self._user_share = user_share  # of the outbox, for one user
        self.incarnation = incarnation
        self.config = config
        self.peer_incarnation = 0  # 0: never met
        self.connected = False
        self.open = False  # the peer's Hello has come on this connection
        self.fault: str | None = None  # why the link was closed permanently
        # sending
        self.outbox: deque[Message] = deque()  # unacknowledged; the first has number `first`
        self.waiting = WaitingEvents()  # those of the outbox
        self.first = 1
        self.acknowledged_up_to = 0  # the last number that this life of the peer has acknowledged
        self.sent = 0  # the last number that was ever sent to this life of the peer
        self.in_flight = 0  # how many of the outbox, from its start, were sent on this connection
        self.silence_s = config.resend_s
        self.acknowledged_since_timer = False
        self.resend_running = False
        self.resent_first = 0
        self.round_trip_s: float | None = None  # None: never measured
        self.timed: tuple[int, float] | None = None  # a frame that is being timed, and when it was sent
        self.greeted_at: float | None = None
        self.quickest_s = float("inf")  # round trip on this connection
        self.missed_up_to = 0  # while the first in flight is below, it may be missing too, and is sent again at once
        # receiving
        self.received = 0
        self.early: dict[int, Message] = {}
        self.early_bytes = 0
        self.unacknowledged = 0
        self.ack_running = False

    # ------------------------------------------------------------ the connection

    def on_up(self, now: float) -> list[Effect]:
        """A connection is there: greet."""
        self.connected, self.open, self.in_flight = True, False, 0
        self.greeted_at, self.timed, self.quickest_s = now, None, float("inf")
        self.missed_up_to = self.resent_first = 0
        self._forget_early()
        self.silence_s = self.config.resend_s
        self.resend_running = True
        return [
            StopTimer(("dead", self.peer)),
            Send(self.peer, self._hello(heard=False)),
            StartTimer(("resend", self.peer), now + self.silence_s),
        ]

    def on_down(self, now: float) -> list[Effect]:
        """The connection is gone: keep everything for the next."""
        self.connected = self.open = self.ack_running = self.resend_running = False
        self.in_flight = 0
        self.timed = None
        self._forget_early()
        effects: list[Effect] = [StopTimer(("ack", self.peer)), StopTimer(("resend", self.peer))]
        if self.config.dead_after_s is not None:
            effects.append(StartTimer(("dead", self.peer), now + self.config.dead_after_s))
        return effects

    def give_up(self) -> list[Message]:
        """Empty the outbox permanently and return its content: the peer will not wait for it."""
        undelivered = list(self.outbox)
        self.first += len(self.outbox)
        self._clear_outbox()
        self.in_flight = 0
        return undelivered

    @property
    def bytes(self) -> int:
        """What the events take that wait for the peer, or came early from it."""
        return self.waiting.bytes + self.early_bytes

    def _clear_outbox(self) -> None:
        self.outbox.clear()
        self.waiting.clear()

    def _forget_early(self) -> None:
        self.early.clear()
        self.early_bytes = 0

    def _hello(self, *, heard: bool) -> Hello:
        told = self.acknowledged_up_to
        return Hello(self.incarnation, self.peer_incarnation, self.received, self.first, heard, told)

    def knows_more(self, hello: Hello) -> bool:
        """Whether the peer knows of something between us that we do not: then we have lost our last inputs."""
        if not self.connected or not _is_well_formed(hello) or self._is_of_past_life(hello):
            return False
        if hello.knows != self.incarnation:  # or of a later life of ours, in which we have met
            is_late = self.open and not hello.heard  # a copy of its first one: it has heard of our life since then
            return hello.knows > self.incarnation and self.peer_incarnation != 0 and not is_late
        has_forgotten = self.peer_incarnation not in (0, hello.incarnation)  # or we, that we met this life of it
        sent, received = (0, 0) if has_forgotten else (max(self.sent, self.first - 1), self.received)
        return hello.received > sent or hello.acknowledged > received

    def _is_of_past_life(self, hello: Hello) -> bool:
        """Whether the peer has lost its last inputs, and with them its present life; it learns so from our greeting."""
        return hello.knows != 0 and hello.incarnation < self.peer_incarnation

    def begin_life(self, incarnation: int, reason: str, now: float) -> tuple[list[Effect], list[Message]]:
        """Be an end that never met its peer, in another life of ours; what the peer may not have got."""
        effects: list[Effect] = [Close(self.peer, reason), *self.on_down(now)] if self.connected else []
        undelivered = list(self.outbox)
        state = LinkEndState(self.config.resend_s, round_trip_s=self.round_trip_s)
        self.incarnation = incarnation
        self.restore(state)
        return effects, undelivered

    def on_hello(self, hello: Hello, now: float) -> tuple[list[Effect], bool, list[Message] | None]:
        """The peer's greeting: effects, whether it has just opened the link, and what a peer without memory has missed.

        A greeting to a past life of ours does not open the link: the peer numbers from 1 once it has heard of this one.
        """
        if not self.connected or not _is_well_formed(hello):
            raise PeerFault(f"an invalid Hello: {hello}")
        if self._is_of_past_life(hello):
            return ([] if hello.heard else [Send(self.peer, self._hello(heard=True))]), False, None
        has_forgotten = self.peer_incarnation not in (0, hello.incarnation)
        if hello.knows == self.incarnation:
            _check_sent(hello.received, 0 if has_forgotten else max(self.sent, self.first - 1))
        undelivered: list[Message] | None = None
        if hello.incarnation != self.peer_incarnation:
            if has_forgotten:
                undelivered = list(self.outbox)
                self._clear_outbox()
                self.first, self.sent, self.in_flight, self.timed = 1, 0, 0, None
                self.acknowledged_up_to = 0
            self.peer_incarnation = hello.incarnation
            self.received = 0
            self._forget_early()
        if hello.heard and self.greeted_at is not None:
            self._measured(now - self.greeted_at, late_s=0.0)
            self.greeted_at = None
        opened = False
        if hello.knows in (0, self.incarnation):
            if hello.knows:
                self._acknowledge(hello.received, now)
            self.received = max(self.received, hello.first - 1)
            opened, self.open = not self.open, True
        effects: list[Effect] = []
        if not hello.heard:
            effects.append(Send(self.peer, self._hello(heard=True)))
        if opened:
            self.in_flight = 0
        self._fill_window(effects, now)  # a Hello that was said again may acknowledge, too
        return effects, opened, undelivered

    # ------------------------------------------------------------ sending

    def send(self, message: Message, effects: list[Effect], now: float) -> None:
        """Queue `message`, and send it at once where the window allows."""
        event, config, size = event_in(message), self.config, 0
        if event is not None:
            size = event_size(event)
            share = self._user_share()
            if why := self.waiting.why_not(event, size, config.outbox_max, config.outbox_bytes_max, share):
                publisher, sequence = event.id
                detail = f"the outbox of the link is {why}"
                effects.append(Trace(Record("lost", self.peer, "Publish", publisher, sequence, detail=detail)))
                return
        self.waiting.add(event, size)
        self.outbox.append(message)
        if self.open and self.in_flight == len(self.outbox) - 1 and self.in_flight < self.config.window:
            effects.append(Send(self.peer, Frame(self.first + self.in_flight, self.received, message)))
            self.in_flight += 1
            self.sent = self.first + self.in_flight - 1
            if self.timed is None:
                self.timed = (self.sent, now)
            self.unacknowledged = 0
            if not self.resend_running:
                self._start_resend(effects, now)

    def _fill_window(self, effects: list[Effect], now: float) -> None:
        """Send what waits in the outbox, as far as the window goes."""
        if not self.open:
            return
        end = min(len(self.outbox), self.config.window)
        while self.in_flight < end:
            message = self.outbox[self.in_flight]
            effects.append(Send(self.peer, Frame(self.first + self.in_flight, self.received, message)))
            self.in_flight += 1
            self.unacknowledged = 0
        self.sent = max(self.sent, self.first + self.in_flight - 1)
        if self.in_flight and not self.resend_running:
            self._start_resend(effects, now)

    def _start_resend(self, effects: list[Effect], now: float) -> None:
        self.resend_running = True
        self.acknowledged_since_timer = False
        effects.append(StartTimer(("resend", self.peer), now + self.silence_s))

    def _measured(self, round_trip_s: float, late_s: float) -> None:
        """A message and its answer, which may have waited for `late_s`, took so long."""
        self.quickest_s = min(self.quickest_s, round_trip_s)
        sample_s = max(round_trip_s - late_s, self.quickest_s)
        known_s = self.round_trip_s
        if known_s is None or sample_s >= known_s:
            self.round_trip_s = sample_s
        else:
            self.round_trip_s = known_s + CALMING * (sample_s - known_s)

    def _acknowledge(self, number: int, now: float) -> bool:
        """Take what is acknowledged out of the outbox; whether there was any."""
        count = number - self.first + 1
        if count <= 0:
            return False
        _check_sent(number, self.sent)
        if self.timed is not None and self.timed[0] <= number:
            self._measured(now - self.timed[1], late_s=self.config.ack_s)
            self.timed = None
        if count == len(self.outbox):
            self._clear_outbox()
        else:
            self.waiting.drop(count)
            for _ in range(count):
                self.outbox.popleft()
        self.first += count
        self.acknowledged_up_to = number
        self.in_flight = max(self.in_flight - count, 0)
        self.silence_s = self.config.resend_s
        self.acknowledged_since_timer = True
        return True

    # ------------------------------------------------------------ receiving

    def on_frame(self, frame: Frame, effects: list[Effect], now: float) -> list[Message]:
        """A numbered message: what is now to be handled, in order; nothing when it is early or came before."""
        number = frame.number
        if not self.open:  # the Hello was lost on its way: both will come again
            return []
        if frame.ack >= self.first and self._acknowledge(frame.ack, now) and len(self.outbox) > self.in_flight:
            self._fill_window(effects, now)
        if number != self.received + 1:
            return self._out_of_order(frame, effects)
        self.received = number
        messages = [frame.message]
        if self.early:
            while (message := self.early.pop(self.received + 1, None)) is not None:
                self.received += 1
                self.early_bytes -= bytes_of(message)
                messages.append(message)
            self.unacknowledged = ACK_EVERY  # a hole is filled: the sender waits to hear which is the next
        self.unacknowledged += 1
        if self.unacknowledged >= ACK_EVERY:
            self.unacknowledged = 0
            effects.append(Send(self.peer, Ack(self.received)))
        elif not self.ack_running:
            self.ack_running = True
            effects.append(StartTimer(("ack", self.peer), now + self.config.ack_s))
        return messages

    def _out_of_order(self, frame: Frame, effects: list[Effect]) -> list[Message]:
        if frame.number <= 0 or frame.number > self.received + self.config.window:
            raise PeerFault(f"a frame numbered {frame.number} after {self.received}")
        if frame.number > self.received and frame.number not in self.early:
            size = bytes_of(frame.message)
            if not self.early or self.early_bytes + size <= EARLY_BYTES_MAX:
                self.early[frame.number] = frame.message
                self.early_bytes += size
        self.unacknowledged = 0
        effects.append(Send(self.peer, Ack(self.received)))
        return []

    def on_ack(self, ack: Ack, effects: list[Effect], now: float) -> None:
        """The peer has received up to here. The same number again means that the next one is missing."""
        if not self.open:
            return
        if self._acknowledge(ack.received, now):
            self._fill_window(effects, now)
            is_missing = self.first <= self.missed_up_to  # the next of several holes
        else:
            is_missing = ack.received == self.first - 1 and self.resent_first != self.first
            if is_missing:
                self.missed_up_to = self.first + self.in_flight - 1
        if is_missing and self.in_flight:
            self.resent_first = self.first
            self.timed = None  # an answer would be to the one or the other
            effects.append(Send(self.peer, Frame(self.first, self.received, self.outbox[0])))

    # ------------------------------------------------------------ timers

    def on_ack_due(self) -> list[Effect]:
        """Acknowledge what no frame has acknowledged on its way."""
        self.ack_running = False
        if not self.unacknowledged or not self.open:
            return []
        self.unacknowledged = 0
        return [Send(self.peer, Ack(self.received))]

    def on_resend_due(self, now: float) -> list[Effect]:
        """All is silent: greet again, or send the oldest again."""
        self.resend_running = False
        effects: list[Effect] = []
        if not self.connected:
            return effects
        if not self.open:
            self.greeted_at = None
            effects.append(Send(self.peer, self._hello(heard=False)))
        elif not self.in_flight:
            return effects
        elif not self.acknowledged_since_timer:
            effects += [
                Send(self.peer, Frame(self.first + at, self.received, self.outbox[at]))
                for at in range(min(self.in_flight, RESENT_AT_ONCE_MAX))
            ]
            self.unacknowledged = 0
            self.timed = None
            self.missed_up_to = self.first + self.in_flight - 1
            self.silence_s = min(self.silence_s * 2, self.config.resend_s_max)
        self._start_resend(effects, now)
        return effects

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> LinkEndState:
        """This end as it is now."""
        values = {name: getattr(self, name) for name in LinkEndState.__struct_fields__}
        return LinkEndState(**{**values, "outbox": tuple(self.outbox), "early": dict(self.early)})

    def restore(self, state: LinkEndState) -> None:
        """Be as an end with the same peer, life and settings was."""
        for name in LinkEndState.__struct_fields__:
            setattr(self, name, getattr(state, name))
        self.outbox = deque(cast(tuple[Message, ...], state.outbox))
        self.waiting = WaitingEvents(self.outbox)
        self.early = cast(dict[int, Message], dict(state.early))
        self.early_bytes = sum(map(bytes_of, self.early.values()))


def _is_well_formed(hello: Hello) -> bool:
    numbers = (hello.incarnation, hello.knows, hello.received, hello.first, hello.acknowledged)
    are_numbers = all(type(number) is int and number >= 0 for number in numbers)
    return are_numbers and hello.incarnation > 0 and hello.first > 0


def _check_sent(number: int, sent: int) -> None:
    if number > sent:
        raise PeerFault(f"acknowledges {number}, and {sent} is the last frame that was sent")
