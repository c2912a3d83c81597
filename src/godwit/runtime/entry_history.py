"""The subscriptions in a broker's routing tables, as they were when an event came.

*Theory.* An event costs nothing here. The routing family reports each change of an entry with the filter before, and
the last changes are kept. The tables of an earlier time are the present ones, with the changes since then undone, the
latest first. So the entries that an event matched are computed when somebody asks, and are those of that moment.

*Rules.*
1. Nothing here changes the machine.
2. At most `CHANGES_MAX` changes are kept, with filters of at most `BYTES_MAX` bytes together: a client may subscribe to
   long lists and end that again.
3. A change in the same turn as an event came before or after it. So the entry counts both with the filter before and
   with the one after.
4. Entries that follow the contexts of clients are known only as they are now: the answer says so.
"""

from collections import deque
from typing import Any, NamedTuple

from godwit.broker.messages import EntryId, NodeId
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.memory_sizes import memory_size
from godwit.runtime.node import Node
from godwit.runtime.routing_answers import FOLLOWED, WANTED, entries_of

__all__ = ["BYTES_MAX", "CHANGES_MAX", "EntryHistory", "Matched"]

CHANGES_MAX = 20_000
BYTES_MAX = 8 * 2**20


class Matched(NamedTuple):
    """An entry that an event matched."""

    source: NodeId  # a neighbour, or "": a client here
    id: EntryId
    filter: Filter
    is_of_then: bool  # whether the entry is known to be as it was when the event came


class _Change(NamedTuple):
    at: float  # time of the turn
    source: NodeId
    id: EntryId
    before: Filter | None
    bytes: int  # of that filter


class EntryHistory:
    """The last changes of a broker's routing entries."""

    def __init__(self, node: Node, begins_at: float) -> None:
        self.since = begins_at  # all changes after this are kept
        self._node = node
        self._changes: deque[_Change] = deque()
        self._bytes = 0  # of the filters
        self._routing: Any = None
        self._follow()

    def matches(self, event: Event, at: float) -> list[Matched]:
        """The entries that an event matched which came at this time."""
        is_known = self.covers(at)
        before = self._before(at) if is_known else {}
        found: list[Matched] = []
        for table, source, id, filter in entries_of(self._routing):
            if table in WANTED and (table == FOLLOWED or (source, id) not in before) and filter.matches(event):
                found.append(Matched(source, id, filter, is_known and table != FOLLOWED))
        for (source, id), filters in before.items():
            matching = next((each for each in filters if each is not None and each.matches(event)), None)
            if matching is not None:
                found.append(Matched(source, id, matching, is_of_then=True))
        return found

    def covers(self, at: float) -> bool:
        """Whether the entries of that time are known, but for those that follow contexts."""
        return self._follow() and at > self.since

    def has_changed(self, client: NodeId, at: float) -> bool:
        """Whether a subscription of a client here has changed since then, or may have."""
        if not self.covers(at):
            return True
        return any(each.at >= at and not each.source and each.id[0] == client for each in self._changes)

    def _before(self, at: float) -> dict[tuple[NodeId, EntryId], list[Filter | None]]:
        """The filters of the entries that have changed since then, or in the same turn. (rule 3)"""
        before: dict[tuple[NodeId, EntryId], list[Filter | None]] = {}
        present = {(source, id): filter for table, source, id, filter in entries_of(self._routing) if table in WANTED}
        for change in reversed(self._changes):
            if change.at < at:
                break
            key = (change.source, change.id)
            if change.at > at:
                before[key] = [change.before]
            else:
                before.setdefault(key, [present.get(key)]).append(change.before)
        return before

    def _follow(self) -> bool:
        """Be told of changes, also when the machine was made again; whether this routing family reports any."""
        machine: Any = self._node.machine
        routing = machine.routing
        if routing is not self._routing:
            if self._routing is not None:
                self.since = max(self.since, self._node.now)
            self._routing, self._bytes = routing, 0
            self._changes.clear()
            if hasattr(routing, "watch"):
                routing.watch = self._note
        return hasattr(routing, "watch")

    def _note(self, source: NodeId, id: EntryId, before: Filter | None) -> None:
        changes = self._changes
        changes.append(_Change(self._node.now, source, id, before, 0 if before is None else memory_size(before)))
        self._bytes += changes[-1].bytes
        while len(changes) > CHANGES_MAX or self._bytes > BYTES_MAX:  # rule 2
            gone = changes.popleft()
            self._bytes -= gone.bytes
            self.since = max(self.since, gone.at)
