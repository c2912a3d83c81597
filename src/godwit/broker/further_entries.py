"""The interface between the tree family and entries of other kinds: what such entries provide so that a tree can keep
them.

*Theory.* `TreeRouting` (`tree.py`) keeps subscriptions and advertisements. Another part may keep entries that clients
here and neighbours tell in messages of its own, such as filters that refer to their client's own state
(`mobility/location_tree.py`). It puts filters for them into the matcher of the tree, so that events go to them as to
others; the tree says what happens to neighbours and advertisements, and has its entries told again to a neighbour that
has lost its memory.

*Rules.*
1. The part touches the tree only as `TreeTables` says, and the matcher only under keys of its own: `(neighbour, …)`
   with a tuple in the second place, and for a client here the id, while the tree has no subscription of that id.
2. An id of a client here is a subscription of the tree or an entry of the part, never both when a call is over.
"""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar, Protocol

import msgspec

from godwit.broker.messages import EntryId, NodeId
from godwit.broker.routing import Answer, Demand
from godwit.broker.state_types import AnyState
from godwit.filters.effort import Effort
from godwit.filters.filters import Filter
from godwit.matching.matcher import Matcher

__all__ = ["FurtherEntries", "NoFurtherEntries", "NoFurtherEntriesState", "TreeTables"]


class TreeTables(Protocol):
    """What a part with further entries sees of its tree."""

    @property
    def maker(self) -> str:
        """The name of this life of the broker: ids that begin with it are made here."""

    @property
    def neighbours(self) -> tuple[NodeId, ...]:
        """The neighbours."""

    @property
    def floods(self) -> bool:
        """Whether events go everywhere and nobody is told anything."""

    @property
    def matcher(self) -> Matcher:
        """The filters by which events find their way."""

    def concerns(self, filter: Filter, neighbour: NodeId, effort: Effort | None = None) -> bool:
        """Whether `neighbour` has advertised anything that this filter may want."""

    def local_filter(self, id: EntryId) -> Filter | None:
        """The filter of a subscription of a client here."""

    def on_subscribe(self, id: EntryId, filter: Filter, source: NodeId) -> list[Answer]:
        """Take a subscription in."""

    def on_unsubscribe(self, id: EntryId, source: NodeId) -> list[Answer]:
        """Forget a subscription."""

    def refresh(self, peer: NodeId, kind: str, id: EntryId) -> None:
        """A neighbour that has lost its memory has told this entry again."""


class FurtherEntries(Protocol):
    """Entries of another kind in a tree."""

    @property
    def kind(self) -> str:
        """The name of this kind."""

    @property
    def messages(self) -> Collection[type]:
        """The messages by which neighbours tell these entries."""

    def join(self, tree: TreeTables) -> None:
        """Become part of a tree."""

    def has(self, id: EntryId) -> bool:
        """Whether a client here has such an entry."""

    def replace(self, id: EntryId, filter: Filter) -> list[Answer]:
        """A client here wants an ordinary filter in the place of its entry."""

    def remove(self, id: EntryId, source: NodeId) -> list[Answer]:
        """An entry of a client here or of a neighbour is over."""

    def on_advertised(self, neighbour: NodeId, effort: Effort) -> list[Answer]:
        """A neighbour advertises more, or less."""

    def on_new_neighbour(self, neighbour: NodeId) -> list[Answer]:
        """There is a neighbour more."""

    def on_message(self, peer: NodeId, message: Any) -> list[Answer]:
        """A neighbour has sent one of `messages`; `PeerFault` when no honest one does."""

    def demand_of(self, message: Any) -> Demand | None:
        """How one of `messages` has changed what is wanted."""

    def known_from(self, peer: NodeId) -> Iterable[EntryId]:
        """All entries that a neighbour has told."""

    def told_to(self, peer: NodeId) -> list[Answer]:
        """All that a neighbour was told, to be told again."""

    def wanted(self) -> Iterable[Filter]:
        """What these entries may want, in filters that can be told to sources."""

    def sizes(self) -> dict[str, int]:
        """How many entries each table holds."""

    def remote_bytes(self) -> int:
        """About how many bytes the entries of neighbours take."""

    def snapshot(self) -> AnyState:
        """All of its state, as a struct of a kind that is registered with `godwit.codec`."""

    def restore(self, state: Any) -> None:
        """Go on from that state. The tables of the tree are restored already."""


class NoFurtherEntriesState(msgspec.Struct, frozen=True, tag=True):
    """There is nothing to remember."""

    version: ClassVar[int] = 1


class NoFurtherEntries:
    """A tree of subscriptions and advertisements alone."""

    kind = "none"
    messages: Collection[type] = ()

    def join(self, tree: TreeTables) -> None:
        pass

    def has(self, id: EntryId) -> bool:
        return False

    def replace(self, id: EntryId, filter: Filter) -> list[Answer]:
        return []

    def remove(self, id: EntryId, source: NodeId) -> list[Answer]:
        return []

    def on_advertised(self, neighbour: NodeId, effort: Effort) -> list[Answer]:
        return []

    def on_new_neighbour(self, neighbour: NodeId) -> list[Answer]:
        return []

    def on_message(self, peer: NodeId, message: Any) -> list[Answer]:
        return []

    def demand_of(self, message: Any) -> Demand | None:
        return None

    def known_from(self, peer: NodeId) -> Iterable[EntryId]:
        return ()

    def told_to(self, peer: NodeId) -> list[Answer]:
        return []

    def wanted(self) -> Iterable[Filter]:
        return ()

    def sizes(self) -> dict[str, int]:
        return {}

    def remote_bytes(self) -> int:
        return 0

    def snapshot(self) -> NoFurtherEntriesState:
        return NoFurtherEntriesState()

    def restore(self, state: NoFurtherEntriesState) -> None:
        pass
