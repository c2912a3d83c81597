"""Subscriptions beside an index that can take none now: it is being made again, or has no room between its constants.

They have an index of their own, which is asked, too, and move into the other one as soon as that can take them. Their
filters are kept until then.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.values import Kind
from godwit.matching.filter_compiler import Compiler
from godwit.matching.labels import Slot
from godwit.matching.matcher import Matcher, SubscriptionId

__all__ = ["Newcomers"]


class Newcomers:
    """Their index, and their filters."""

    def __init__(self, index: Matcher, compiler: Compiler) -> None:
        """`compiler` is that of the index."""
        self._index, self._compiler = index, compiler
        self._filters: dict[SubscriptionId, Filter] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: SubscriptionId) -> bool:
        return id in self._filters

    def add(self, subscriptions: Iterable[tuple[SubscriptionId, Filter]]) -> None:
        """Take some in."""
        for id, filter in subscriptions:
            self._index.add(id, filter)
            self._filters[id] = filter

    def remove(self, id: SubscriptionId) -> None:
        """One has ended."""
        self._index.remove(id)
        del self._filters[id]

    def match(self, event: Event) -> list[SubscriptionId]:
        """Those that the event matches."""
        return self._index.match(event)

    def pop(self) -> tuple[SubscriptionId, Filter]:
        """The first one, which moves on."""
        id = next(iter(self._filters))
        filter = self._filters[id]
        self.remove(id)
        return id, filter

    def constants(self, others: Compiler) -> Callable[[Slot], Mapping[Kind, Any]]:
        """A function of a slot of another compiler: the keys that the same slot has here, when first asked."""
        found: dict[int, Slot] = {}

        def keys_of(slot: Slot) -> dict[Kind, list[Any]]:
            if not found:
                found.update(self._slots_by_those_of(others))
                found.setdefault(0, Slot(0, []))
            mine = found.get(slot.number)
            if mine is None:
                return {}
            keys = {kind: list(each.keys) for kind, each in mine.constants.items()}
            for kind, (waiting, _) in mine.waiting.items():
                keys.setdefault(kind, []).extend(waiting)
            return keys

        return keys_of

    def _slots_by_those_of(self, others: Compiler) -> dict[int, Slot]:
        found: dict[int, Slot] = {}
        for name, mine in self._compiler.columns.items():
            if (theirs := others.columns.get(name)) is not None:
                for one, other in (
                    (mine.slot, theirs.slot),
                    (mine.backwards, theirs.backwards),
                    (mine.longitude, theirs.longitude),
                    (mine.latitude, theirs.latitude),
                ):
                    if one is not None and other is not None:
                        found[other.number] = one
        return found
