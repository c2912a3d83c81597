"""Messages of gossip: updates of the tables that every broker has (`gossip.py`). The types of `messages.py`,
continued."""

import msgspec

from godwit.broker.messages import NodeId
from godwit.filters.events import Event

__all__ = ["Fact", "GossipUpdate", "GroupMember", "LostInputs", "RetainedEvent", "SessionLocation"]


class SessionLocation(msgspec.Struct, frozen=True, tag=True):
    """Table `whereabouts`: the session of a client that brings its name alone is at `home` since its `attempt`."""

    home: NodeId
    session: str
    attempt: int


class RetainedEvent(msgspec.Struct, frozen=True, tag=True):
    """Table `retained`: the last event of its key."""

    event: Event


class GroupMember(msgspec.Struct, frozen=True, tag=True):
    """Table `groups`: a subscription is one of those that share events; is its client there?"""

    attached: bool


class LostInputs(msgspec.Struct, frozen=True, tag=True):
    """Table `losses`: a broker has lost its last inputs, and with them events that were on their way through it."""

    since: float  # of what it acknowledged after this time some may be lost; 0: not known since when


class Fact(msgspec.Struct, frozen=True):
    """One entry of a table. Of two with one key the one with the higher (`stamp`, `by`) is true."""

    table: str
    key: tuple[str, ...]
    stamp: int  # mostly microseconds by the clock of `by`, and higher than all that it knew of this key
    by: NodeId
    value: SessionLocation | RetainedEvent | GroupMember | LostInputs | None  # None: there is none any more


class GossipUpdate(msgspec.Struct, frozen=True, tag=True):
    """This is what I know, and you may not."""

    facts: tuple[Fact, ...]
