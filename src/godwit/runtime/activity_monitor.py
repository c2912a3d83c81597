"""The recent activity of a broker: counters, and the last inputs and effects, which answer questions later.

*Theory.* A node passes its inputs and effects to the monitor, a list at a time. The monitor updates counters and keeps
the lists that questions may need. They are searched only when a question comes. So the hot path costs a few additions,
and the work is done when an answer is needed.

*Rules.*
1. The monitor changes nothing.
2. Its memory is bounded: by `KEPT_INPUTS`, `KEPT_EFFECTS` and `KEPT_RECORDS`, and by `KEPT_BYTES` of inputs. Encoded
   messages are counted and not kept: with them, events with large payloads would take twice the memory.
3. A listener that is too slow misses records, and is told how many.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from math import inf
from time import time
from typing import Any

from godwit.broker.effects import Arrived, Effect, Heard, Input, Send, Tell, Trace
from godwit.broker.messages import Attach, Delivery, Frame, Packet, Publish, Received, Refused, Request
from godwit.broker.stream_messages import HopPacket
from godwit.filters.events import Event
from godwit.runtime.node import Node
from godwit.trace import Record

__all__ = ["ActivityMonitor", "Histogram", "TraceListener", "Turn", "event_in"]

Turn = list[tuple[Input, bytes]]
"""The inputs that a machine handles at once, each with its encoded message."""

KEPT_INPUTS = 20_000
KEPT_BYTES = 16 * 2**20
KEPT_EFFECTS = 50_000
KEPT_RECORDS = 10_000
LISTENER_RECORDS_MAX = 10_000
LOOKED_AT = 1_000
FORWARDED = (Publish, Packet, HopPacket)  # messages that carry an event to a neighbour

SECONDS = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5)
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


class Histogram:
    """A histogram."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class TraceListener:
    """Receives records as they occur."""

    def __init__(self, client: str = "", event: tuple[str, int] | None = None) -> None:
        self.client = client  # "": of any
        self.event = event  # None: of any
        self.records: deque[tuple[float, Record]] = deque()
        self.missed = 0
        self.notice: Callable[[], None] = lambda: None  # that there is something

    def wants(self, record: Record) -> bool:
        """Whether the listener asked for this record."""
        if self.client and self.client not in (record.peer, record.publisher):
            return False
        return self.event is None or (record.publisher, record.sequence) == self.event

    def put(self, at: float, record: Record) -> None:
        """Add a record. (rule 3)"""
        if len(self.records) < LISTENER_RECORDS_MAX:
            self.records.append((at, record))
        else:
            self.missed += 1
        self.notice()


class ActivityMonitor:
    """The activity monitor of a node."""

    def __init__(self, node: Node, began_at: float | None = None) -> None:
        self.records_begin = time() if began_at is None else began_at  # inputs after this are recorded completely
        self.counts: dict[str, int] = {}  # records, by kind
        self.inputs = 0
        self.came = 0  # bytes of messages
        self.deliveries = 0
        self.refusals = 0
        self.on_refusal: Callable[[str, Refused], None] = lambda connection, refused: None
        self.turns = Histogram(COUNTS)  # inputs in one
        self.handling = Histogram(SECONDS)  # one turn
        self.longest_s = 0.0  # turn, since the last query
        self.writing = Histogram(SECONDS)  # one batch
        self.matching = Histogram(SECONDS)  # one event
        self.lateness = Histogram(SECONDS)  # of the loop
        self.written = 0  # bytes in the journal, ever
        self._records: deque[Record] = deque(maxlen=KEPT_RECORDS)
        self._record_times: deque[float] = deque(maxlen=KEPT_RECORDS)  # of each; a pair would take 64 bytes more
        self.listeners: dict[TraceListener, None] = {}
        self.observers: dict[Callable[[Turn, float], None], None] = {}  # of turns (`observations.py`)
        self.turns_kept = 0  # so far, also those that are forgotten by now
        self._turns: deque[tuple[float, int, list[Input]]] = deque()  # when, bytes, what
        self._kept = 0  # inputs in them
        self._kept_bytes = 0
        self._effects: deque[tuple[float, list[Effect]]] = deque()
        self._kept_effects = 0
        self._forgotten_at = 0.0  # time of the last effects that were removed
        node.watch = self

    # ------------------------------------------------------------ what the node shows

    def on_turn(self, inputs: Turn, took_s: float, now: float) -> None:
        """The machine has handled these inputs, in this time."""
        count, size, is_kept = len(inputs), 0, False
        for input, packed in inputs:
            size += len(packed)
            if not is_kept and not (type(input) is Heard and type(input.message) is Received):  # most of what comes
                is_kept = _can_be_asked_for(input)
        self.inputs += count
        self.came += size
        self.turns.add(count)
        self.handling.add(took_s)
        if took_s > self.longest_s:  # noqa: PLR1730 (`max` takes longer)
            self.longest_s = took_s
        if self.observers:
            for observe in list(self.observers):
                observe(inputs, now)
        if not is_kept:
            return
        kept = [inputs[0][0]] if count == 1 else [input for input, _ in inputs]
        self._turns.append((now, size, kept))
        self.turns_kept += 1
        self._kept += count
        self._kept_bytes += size
        while self._turns and (self._kept > KEPT_INPUTS or self._kept_bytes > KEPT_BYTES):
            at, size, gone = self._turns.popleft()
            self.records_begin = max(self.records_begin, at)
            self._kept -= len(gone)
            self._kept_bytes -= size
            oldest = self._turns[0][0] if self._turns else now
            while self._effects and self._effects[0][0] < oldest:  # they refer to events of those inputs
                self._forget_effects()

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """These effects are carried out now."""
        counts, keep, keep_time = self.counts, self._records.append, self._record_times.append
        delivered = refused = forwarded = 0
        for effect in effects:
            kind = type(effect)
            if kind is Tell:
                said = type(effect.message)  # type: ignore[union-attr]
                if said is Delivery:
                    delivered += 1
                elif said is Refused:
                    refused += 1
                    self.on_refusal(effect.connection, effect.message)  # type: ignore[union-attr]
            elif kind is Send:
                frame = effect.frame  # type: ignore[union-attr]
                forwarded += type(frame) is Frame and type(frame.message) in FORWARDED
            elif kind is Trace:
                record: Record = effect.record  # type: ignore[union-attr]
                counts[record.kind] = counts.get(record.kind, 0) + 1
                keep(record)
                keep_time(now)
                if self.listeners:
                    self._tell(now, record)
        self.deliveries += delivered
        self.refusals += refused
        if not delivered and not refused and not forwarded:
            return
        self._effects.append((now, effects))
        self._kept_effects += len(effects)
        while self._effects and self._kept_effects > KEPT_EFFECTS:
            self._forget_effects()

    def _forget_effects(self) -> None:
        self._forgotten_at, effects = self._effects.popleft()
        self._kept_effects -= len(effects)

    def on_written(self, took_s: float, size: int) -> None:
        """The journal has written a batch of this size."""
        self.writing.add(took_s)
        self.written += size

    def _tell(self, now: float, record: Record) -> None:
        for listener in self.listeners:
            if listener.wants(record):
                listener.put(now, record)

    # ------------------------------------------------------------ what is asked later

    def arrivals(self, id: tuple[str, int]) -> Iterator[tuple[float, str, Event]]:
        """The arrivals of an event that are still recorded: time, neighbour or connection, event."""
        for at, _, inputs in self._turns:
            for input in inputs:
                event = event_in(input)
                if event is not None and event.id == id:
                    yield at, input.peer if isinstance(input, Arrived) else input.connection, event  # type: ignore[union-attr]

    def sent(self, id: tuple[str, int]) -> Iterator[tuple[float, str, Delivery]]:
        """The deliveries of an event that are still recorded: time, connection, delivery."""
        for at, effects in self._effects:
            for effect in effects:
                if type(effect) is Tell and type(effect.message) is Delivery and effect.message.event.id == id:
                    yield at, effect.connection, effect.message

    def forwarded(self, id: tuple[str, int]) -> Iterator[tuple[float, str, tuple[str, ...]]]:
        """The transmissions of an event to neighbours that are still recorded: time, neighbour, and the brokers that it
        is for."""
        for at, effects in self._effects:
            for effect in effects:
                if type(effect) is Send:
                    event = event_in(Arrived(effect.peer, effect.frame))
                    if event is not None and event.id == id:
                        message = effect.frame.message  # type: ignore[union-attr]
                        yield at, effect.peer, tuple(message.targets) if type(message) is Packet else (effect.peer,)

    def effects_since(self, at: float, count: int) -> list[tuple[float, list[Effect]]]:
        """The effects after a time, the oldest first: the latest turns that have `count` effects together."""
        found, left = [], count
        for row in reversed(self._effects):
            if row[0] <= at or left <= 0:
                break
            found.append(row)
            left -= len(row[1])
        return found[::-1]

    def has_decisions_of(self, at: float) -> bool:
        """Whether all decisions about inputs of that time are still recorded: deliveries, refusals, forwarding."""
        return at > self._forgotten_at

    def kept_since(self, otherwise: float) -> float:
        """The time of the oldest recorded input."""
        return self._turns[0][0] if self._turns else otherwise

    def kept(self) -> Iterator[Input]:
        """The last inputs, the oldest first."""
        for _, _, inputs in self._turns:
            yield from inputs

    def told(self, kind: type) -> Iterator[tuple[str, Any]]:
        """The last messages of a kind to clients: the connection and the message."""
        for _, effects in self._effects:
            for effect in effects:
                if type(effect) is Tell and type(effect.message) is kind:
                    yield effect.connection, effect.message

    @property
    def records(self) -> Iterator[tuple[float, Record]]:
        """The last records, each with when it was made, the oldest first."""
        return zip(self._record_times, self._records, strict=True)

    def latest_records(self) -> Iterator[tuple[float, Record]]:
        """The last records, each with when it was made, the latest first."""
        return zip(reversed(self._record_times), reversed(self._records), strict=True)

    def records_of(self, id: tuple[str, int], client: str = "") -> Iterator[tuple[float, Record]]:
        """The records of an event, and of its delivery to a client."""
        for at, record in self.records:
            if (record.publisher, record.sequence) == id and client in ("", record.peer):
                yield at, record

    def latest_events(self, since: float = -inf, after: int = 0) -> Iterator[tuple[float, Event]]:
        """The events that clients have published here since then, each with its time, the latest first.

        `after`: only those of the turns that were kept when `turns_kept` was greater than this.
        """
        for at, _, inputs in islice(reversed(self._turns), self.turns_kept - after):
            if at < since:
                return
            for input in reversed(inputs):
                event = event_in(input) if type(input) is Heard else None
                if event is not None:
                    yield at, event

    def latest_sample(self, since: float, count: int) -> tuple[list[tuple[float, Event]], float]:
        """The latest events that clients have published here since then, at most `count`, and about how many there are.

        Of the turns before those of the sample only the inputs are counted.
        """
        events, looked_at, others = list[tuple[float, Event]](), 0, 0
        for at, _, inputs in reversed(self._turns):
            if at < since:
                break
            if len(events) >= count:
                others += len(inputs)
                continue
            looked_at += len(inputs)
            for input in reversed(inputs):
                event = event_in(input) if type(input) is Heard else None
                if event is not None:
                    events.append((at, event))
        return events[:count], len(events) * (1 + others / (looked_at or 1))

    def last_event(self) -> Event | None:
        """The last event, if it is one of the last `LOOKED_AT` inputs."""
        last = (input for _, _, inputs in reversed(self._turns) for input in reversed(inputs))
        events = (event_in(input) for input in islice(last, LOOKED_AT))
        return next((event for event in events if event is not None), None)


def _can_be_asked_for(input: Input) -> bool:
    """Whether an input may be needed later: an event, or the greeting of a client."""
    return (type(input) is Heard and type(input.message) is Attach) or event_in(input) is not None


def event_in(input: Input) -> Event | None:
    """The event of an input."""
    message: Any = None
    if type(input) is Heard:
        if type(input.message) is not Request:  # most are confirmations
            return None
        message = input.message.wish
    elif type(input) is Arrived:
        message = input.frame.message if type(input.frame) is Frame else None
        message = message.message if type(message) in (Packet, HopPacket) else message
    event = getattr(message, "event", None)  # of any message of any routing family with an event
    return event if isinstance(event, Event) else None
