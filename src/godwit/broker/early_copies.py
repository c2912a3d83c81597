"""Early copies: retained events that a subscription has had before the event itself has come to its session.

*Theory.* A broker may learn that an event is retained before the event comes, since both take their own ways. A
subscription that begins in between has its copy, and must not have the event a second time; other subscriptions of the
session must have it, under their names. So it is remembered here which of them have had it.

*Rules.*
1. What is remembered is used once, when the event comes, and forgotten after `EARLY_S`, or as the oldest of more than
   `EARLY_MAX`. Then the event comes for all of them, also where the session moves: rather twice than not at all.
2. It counts for the session of that name only.

*Paper.* None; see `retained.py`.
"""

from collections.abc import Collection

import msgspec

from godwit.broker.messages import EntryId, NodeId
from godwit.broker.session import Session
from godwit.filters.events import Event

__all__ = ["EARLY_S", "EarlyCopies", "EarlyCopy"]

EARLY_S = 60.0
EARLY_MAX = 10_000

EventKey = tuple[NodeId, NodeId, int]
"""Client, publisher, number."""


class EarlyCopy(msgspec.Struct, frozen=True):
    """The subscriptions of a session that have had an event before it came."""

    client: NodeId
    publisher: NodeId
    sequence: int
    session: str
    names: tuple[str, ...]
    until: float


class EarlyCopies:
    """Those of all sessions of a broker, the oldest first."""

    def __init__(self, copies: tuple[EarlyCopy, ...] = ()) -> None:
        self._copies: dict[EventKey, EarlyCopy] = {(one.client, one.publisher, one.sequence): one for one in copies}

    def __len__(self) -> int:
        return len(self._copies)

    def snapshot(self) -> tuple[EarlyCopy, ...]:
        """All of them."""
        return tuple(self._copies.values())

    def put(self, session: Session, name: str, event: Event, now: float) -> None:
        """This subscription has had the event, which has not come."""
        self.sweep(now)
        key = (session.client, *event.id)
        before = self._copies.pop(key, None)
        names = before.names if before is not None and before.session == session.name else ()
        names = names if name in names else (*names, name)
        self._copies[key] = EarlyCopy(*key, session.name, names, now + EARLY_S)
        if len(self._copies) > EARLY_MAX:
            del self._copies[next(iter(self._copies))]

    def sweep(self, now: float) -> None:
        """Forget the oldest. (rule 1)"""
        while self._copies and next(iter(self._copies.values())).until <= now:
            del self._copies[next(iter(self._copies))]

    def take(self, session: Session, event: Event) -> Collection[str]:
        """The event has come: the subscriptions that have had it."""
        copy = self._copies.pop((session.client, *event.id), None)
        return copy.names if copy is not None and copy.session == session.name else ()

    def left_of(self, session: Session, event: Event, ids: list[EntryId]) -> list[EntryId]:
        """Those of a session's subscriptions for which the event is new; if it is for none, all, as it was seen."""
        had = self.take(session, event)
        left = [id for id in ids if id[1] not in had]
        if not left:
            session.seen.add(*event.id)
        return left or ids
