"""Events that a broker of a tree holds back until its tables are whole, and from which neighbour each came."""

from collections.abc import Iterable, Iterator

from godwit.broker.messages import NodeId
from godwit.broker.queues import event_size
from godwit.broker.waiting_bytes import WaitingEvents
from godwit.filters.events import Event

__all__ = ["HELD_BYTES_MAX", "HELD_MAX", "HeldEvents"]

HELD_MAX = 100_000
HELD_BYTES_MAX = 256 * 2**20

Held = tuple[NodeId, Event]


class HeldEvents:
    """Those events, in the order in which they came."""

    def __init__(self, items: Iterable[Held] = ()) -> None:
        self._items: list[Held] = []
        self._waiting = WaitingEvents()
        for source, event in items:
            self.add(source, event)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Held]:
        return iter(self._items)

    @property
    def bytes(self) -> int:
        """Their size."""
        return self._waiting.bytes

    def has_room_for(self, event: Event) -> bool:
        """Whether one more may be held."""
        return not self._waiting.why_not(event, event_size(event), HELD_MAX, HELD_BYTES_MAX, share=1.0)

    def add(self, source: NodeId, event: Event) -> None:
        """Hold one more."""
        self._items.append((source, event))
        self._waiting.add(event, event_size(event))

    def take(self, count: int) -> list[Held]:
        """Let the first ones go."""
        taken, self._items = self._items[:count], self._items[count:]
        self._waiting.drop(len(taken))
        return taken
