"""A reduction: a neighbour is told to send everything as soon as anybody here wants anything."""

from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar

import msgspec

from godwit.broker.messages import EntryId
from godwit.broker.reductions import Change, register_reduction
from godwit.codec import register_states
from godwit.filters.effort import Effort
from godwit.filters.filters import TRUE, Filter


class AllOrNothingState(msgspec.Struct, frozen=True, tag=True):
    """What a journal keeps of it."""

    version: ClassVar[int] = 1
    keys: tuple[tuple[str, EntryId], ...]


class AllOrNothing:
    """What one neighbour is told: one filter that matches everything, or none."""

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        self.id = (name, "all")
        self.entries: dict[Hashable, None] = {}

    @property
    def told(self) -> Mapping[EntryId, Filter]:
        return {self.id: TRUE} if self.entries else {}

    def add(self, key: Hashable, id: EntryId, filter: Filter, effort: Effort | None = None) -> list[Change]:
        is_first = not self.entries
        self.entries[key] = None
        return [(self.id, TRUE)] if is_first else []

    def remove(self, key: Hashable, effort: Effort | None = None) -> list[Change]:
        if key not in self.entries:
            return []
        del self.entries[key]
        return [] if self.entries else [(self.id, None)]

    def keys(self) -> Iterable[Hashable]:
        return self.entries

    def snapshot(self) -> AllOrNothingState:
        return AllOrNothingState(tuple(self.entries))  # type: ignore[arg-type]

    def restore(self, state: AllOrNothingState) -> None:
        self.entries = dict.fromkeys(state.keys)


register_states(AllOrNothingState)
register_reduction("all or nothing", AllOrNothing)
