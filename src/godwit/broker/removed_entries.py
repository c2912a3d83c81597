"""Entries that a session no longer holds and that routing must remove."""

import msgspec

from godwit.broker.effects import Effect
from godwit.broker.messages import EntryId

__all__ = ["RemovedEntries"]


class RemovedEntries(msgspec.Struct, frozen=True):
    """What must be taken out of routing, and the effects besides."""

    subscriptions: tuple[EntryId, ...] = ()
    advertisements: tuple[EntryId, ...] = ()
    effects: tuple[Effect, ...] = ()
