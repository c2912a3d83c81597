"""Orderedness, consistency and completeness of a replicated system, decided on histories.

*Theory.* A history has the events of each source, those that each replica received, and those that were displayed to
one user, in order. The three properties compare it with a system with one broker.

*Rules.*
1. A checker uses only a history: no machine, no time.
2. `ordered` checks each source separately. A repeated event is not disorder; `consistent` checks that.
3. `consistent` checks whether there is *some* set of events, received by some replica, for which a single broker would
   have displayed this set, in any order: so each at most once, and each a match.
4. `complete` checks that all matches among the events that *any* replica received were displayed.

*Paper.* [mobile §5]: orderedness, consistency, completeness; the tests quote it. *Departures.* The paper requires of a
consistent set only that a single broker could have shown it; here the events must also have reached some replica.
*Symbols.* ES → source; EB → replica; ED → the client at `node`.
"""

from collections.abc import Iterable, Mapping

import msgspec

__all__ = ["EventId", "History", "complete", "consistent", "histories", "ordered"]

EventId = tuple[str, int]
"""Source and number."""


class History(msgspec.Struct, frozen=True):
    """The history of one run, for one user's subscription."""

    matching: frozenset[EventId]  # of what the sources made, what matches the subscription
    received: Mapping[str, frozenset[EventId]]  # by replica
    displayed: tuple[EventId, ...]

    @property
    def wanted(self) -> frozenset[EventId]:
        """The events that a single broker with the events of all replicas would display."""
        return frozenset().union(*self.received.values()) & self.matching


def ordered(history: History) -> bool:
    """Whether the events of each source were displayed in order. [mobile §5]"""
    last: dict[str, int] = {}
    for source, number in history.displayed:
        if number < last.get(source, number):
            return False
        last[source] = number
    return True


def consistent(history: History) -> bool:
    """Whether a system without replicas could have displayed this set. [mobile §5]"""
    shown = frozenset(history.displayed)
    return len(shown) == len(history.displayed) and shown <= history.wanted


def complete(history: History) -> bool:
    """Whether all was displayed that a single broker would have displayed. [mobile §5]"""
    return history.wanted <= frozenset(history.displayed)


def histories(rows: Iterable[tuple[str, str, str, int, str]], subscription: str) -> dict[str, History]:
    """The history of each run in a trace: rows of node, kind, publisher, sequence, subscription, in their order.

    A node is named `run/name`. A source's `offered` names the subscriptions that match, a broker's `published` is what
    it has received, and a client's `delivered` is what it has displayed.
    """
    found: dict[str, tuple[set[EventId], dict[str, set[EventId]], list[EventId]]] = {}
    for node, kind, publisher, sequence, matched in rows:
        run, _, name = node.rpartition("/")
        matching, received, displayed = found.setdefault(run, (set(), {}, []))
        id = (publisher, sequence)
        if kind == "offered" and subscription in matched.split():
            matching.add(id)
        elif kind == "published":
            received.setdefault(name, set()).add(id)
        elif kind == "delivered":
            displayed.append(id)
    return {
        run: History(frozenset(matching), {name: frozenset(ids) for name, ids in received.items()}, tuple(displayed))
        for run, (matching, received, displayed) in found.items()
    }
