"""One open filter from one source, with its present meaning at this broker: the entry of `location_tree.py`."""

from typing import Any

import msgspec

from godwit.broker.messages import EntryId
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.references import references_of
from godwit.mobility.move_messages import Follow, FollowUpdate
from godwit.mobility.possible_values import Movements, Possibilities

__all__ = ["Followed", "FollowedState", "names_of"]


class FollowedState(msgspec.Struct, frozen=True):
    """An open filter from one source. What it comes to here follows from it."""

    filter: Filter
    values: Attributes
    dwell_s: float | None
    spent_s: float | None
    link_s: float | None


class Followed:
    """An open filter from one source, and what it comes to here."""

    __slots__ = (
        "dwell_s",
        "elapsed_s",
        "filter",
        "link_s",
        "loosened",
        "names",
        "possible",
        "spent_s",
        "united",
        "values",
        "weakest",
    )

    def __init__(
        self,
        filter: Filter,
        values: dict[str, Any],
        dwell_s: float | None,
        spent_s: float | None,
        link_s: float | None,  # as the other end says
        delay_s: float | None,  # and as we do
        movements: Movements,
        before: "Followed | None",
    ) -> None:
        self.filter = filter
        self.values = values
        self.dwell_s = dwell_s
        self.spent_s = spent_s
        self.link_s = link_s
        measured = [seconds for seconds in (link_s, delay_s) if seconds is not None]
        self.elapsed_s = None if spent_s is None or not measured else spent_s + max(measured)
        same = before is not None and before.filter == filter
        self.names: tuple[str, ...] = before.names if before is not None and same else names_of(filter)
        self.possible: Possibilities = movements.possible(filter, values, self.elapsed_s, dwell_s, self.names)
        self.weakest: Filter = before.weakest if before is not None and same else movements.weakest(filter)
        self.united: str | None = before.united if before is not None and same else movements.united(filter)
        self.loosened: Filter = (
            before.loosened
            if before is not None and same and before.possible == self.possible
            else movements.loosened(filter, self.possible)
        )

    def follow(self, id: EntryId, link_s: float | None) -> Follow:
        """As it is told first."""
        return Follow(id, self.filter, self.values, self.dwell_s, self.elapsed_s, link_s)

    def changed(self, id: EntryId, link_s: float | None) -> FollowUpdate:
        """As it is told then."""
        return FollowUpdate(id, self.values, self.dwell_s, self.elapsed_s, link_s)

    def state(self) -> FollowedState:
        """All of it, to be written down."""
        return FollowedState(self.filter, dict(self.values), self.dwell_s, self.spent_s, self.link_s)


def names_of(filter: Filter) -> tuple[str, ...]:
    """What a filter refers to."""
    return tuple(reference.name for reference in references_of(filter))
