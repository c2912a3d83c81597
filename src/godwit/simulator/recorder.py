"""The recorder of a run: passes records of nodes to listeners, and writes the trace.

*Theory.* The world reports deliveries to applications and records of machines. Listeners register for some kinds of
records (`listen`); the trace gets all of them.

*Rules.*
1. Listeners are called in the order in which they registered, before the row is written.
2. A broken law is recorded as a `Violation`, with its time.
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
    """All reports of a run."""

    def __init__(self, clock: SimulatedClock, trace: TraceSink | None) -> None:
        self.violations: list[Violation] = []
        self._clock = clock
        self._trace = trace
        self._listeners: dict[str, list[RecordListener]] = {}  # by kind of record
        self._delivery_listeners: list[DeliveryListener] = []

    @property
    def is_tracing(self) -> bool:
        """Whether there is a trace."""
        return self._trace is not None

    def listen(self, kinds: Iterable[str], listener: RecordListener) -> None:
        """Call `listener(node, record, now)` for each record of these kinds."""
        for kind in kinds:
            self._listeners.setdefault(kind, []).append(listener)

    def listen_to_deliveries(self, listener: DeliveryListener) -> None:
        """Call `listener(client, notify, now)` for each delivery to an application."""
        self._delivery_listeners.append(listener)

    def on_record(self, node: str, record: Record, now: float) -> None:
        """A node reports something."""
        for listener in self._listeners.get(record.kind, ()):
            listener(node, record, now)
        if self._trace is not None:
            self._trace.write(now, node, record)

    def on_notify(self, client: str, notify: Notify, now: float) -> None:
        """An event is delivered to an application."""
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
