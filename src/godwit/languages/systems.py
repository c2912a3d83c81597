"""Publish/subscribe systems, and translations between them: the definitions of [motion §4] as code.

"A P/S system is given by a triple P = (L, Q, m)": a set of events, a set of queries, a total matching function. A
translation from one to another is two total functions, of events and of queries. It is *exact* if a query matches an
event exactly when their translations match; *approximative* if matching is never lost ("peers will receive more events
than they subscribed for"); *efficient* if neither function makes its argument larger by more than a constant factor.
Sets are not written down: what a matching function takes is in them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["PubSubSystem", "Translation", "chained"]

Event = TypeVar("Event")
Query = TypeVar("Query")
OtherEvent = TypeVar("OtherEvent")
OtherQuery = TypeVar("OtherQuery")
LastEvent = TypeVar("LastEvent")
LastQuery = TypeVar("LastQuery")


@dataclass(frozen=True, slots=True)
class PubSubSystem(Generic[Event, Query]):
    """(L, Q, m)."""

    name: str
    matches: Callable[[Event, Query], bool]


@dataclass(frozen=True, slots=True)
class Translation(Generic[Event, Query, OtherEvent, OtherQuery]):
    """From one system to another: the paper's gamma of events and gamma of queries."""

    source: PubSubSystem[Event, Query]
    target: PubSubSystem[OtherEvent, OtherQuery]
    of_event: Callable[[Event], OtherEvent]
    of_query: Callable[[Query], OtherQuery]

    def is_exact_for(self, event: Event, query: Query) -> bool:
        """Whether both systems say the same of these two."""
        return self.source.matches(event, query) == self._target_matches(event, query)

    def is_approximative_for(self, event: Event, query: Query) -> bool:
        """Whether a match of the source is a match of the target."""
        return not self.source.matches(event, query) or self._target_matches(event, query)

    def is_residue(self, event: Event, query: Query) -> bool:
        """Whether the target lets through what the source does not want: a negative residue. [§6]"""
        return self._target_matches(event, query) and not self.source.matches(event, query)

    def _target_matches(self, event: Event, query: Query) -> bool:
        return self.target.matches(self.of_event(event), self.of_query(query))


def chained(
    first: Translation[Event, Query, OtherEvent, OtherQuery],
    second: Translation[OtherEvent, OtherQuery, LastEvent, LastQuery],
) -> Translation[Event, Query, LastEvent, LastQuery]:
    """One translation after the other: the tiers of [motion §5]."""
    return Translation(
        first.source,
        second.target,
        lambda event: second.of_event(first.of_event(event)),
        lambda query: second.of_query(first.of_query(query)),
    )
