"""The recorder of a run: takes what nodes report, hands it to those who listen, and writes the trace.

*Theory.* The world reports deliveries to applications and records of machines. Whoever wants to know of some kinds of
records says so (`listen`); the trace gets all of them.

*Rules.*
1. Listeners are called in the order in which they registered, before the row is written.
2. A broken law is kept here as a `Violation`, with the time at which it was found.
"""

from collections.abc import Callable, Iterable

from godwit.broker.effects import Notify
from godwit.simulator.simulated_clock import SimulatedClock
from godwit.simulator.summary import Violation
from godwit.trace import Record, TraceSink

__all__ = ["Recorder"]

RecordListener = Callable[[str, Record, float], None]
DeliveryListener = Callable[[str, Notify, float], None]


class Recorder:
    """Everything that a run reports goes through here."""

    def __init__(self, clock: SimulatedClock, trace: TraceSink | None) -> None:
        self.violations: list[Violation] = []
        self._clock = clock
        self._trace = trace
        self._listeners: dict[str, list[RecordListener]] = {}  # by kind of record
        self._delivery_listeners: list[DeliveryListener] = []

    @property
    def is_tracing(self) -> bool:
        """Whether anyone reads the rows."""
        return self._trace is not None

    def listen(self, kinds: Iterable[str], listener: RecordListener) -> None:
        """Have `listener(node, record, now)` called for each record of these kinds."""
        for kind in kinds:
            self._listeners.setdefault(kind, []).append(listener)

    def listen_to_deliveries(self, listener: DeliveryListener) -> None:
        """Have `listener(client, notify, now)` called whenever an application is given an event."""
        self._delivery_listeners.append(listener)

    def on_record(self, node: str, record: Record, now: float) -> None:
        """A node reports something."""
        for listener in self._listeners.get(record.kind, ()):
            listener(node, record, now)
        if self._trace is not None:
            self._trace.write(now, node, record)

    def on_notify(self, client: str, notify: Notify, now: float) -> None:
        """An application is given an event."""
        for listener in self._delivery_listeners:
            listener(client, notify, now)
        if self._trace is not None:
            publisher, sequence = notify.event.id
            subscriptions = ",".join(notify.subscriptions)
            record = Record("delivered", publisher=publisher, sequence=sequence, subscription=subscriptions)
            self._trace.write(now, client, record)

    def record(self, node: str, record: Record) -> None:
        """The simulator itself reports something about a node."""
        self.on_record(node, record, self._clock.now)

    def violate(self, law: str, text: str, node: str) -> None:
        """A law is broken."""
        self.violations.append(Violation(law, text, self._clock.now, node))
