"""The state of the tree family, as snapshots have it."""

from typing import ClassVar

import msgspec

from godwit.broker.messages import EntryId, NodeId
from godwit.broker.state_types import AnyMessage, AnyState
from godwit.filters.events import Event
from godwit.filters.filters import Filter

__all__ = ["ReviewState", "TreeState"]


class ReviewState(msgspec.Struct, frozen=True):
    """What has changed of what a neighbour advertises, and the subscriptions still to be compared with it."""

    changed: tuple[Filter, ...]  # added or withdrawn
    is_adding: bool
    later_added: tuple[Filter, ...]  # since this pass over the subscriptions began
    later_withdrawn: tuple[Filter, ...]
    left: dict[NodeId, tuple[EntryId, ...]]  # by source
    comparing_left: int  # steps
    placing_left: int
    following: tuple[AnyMessage, ...] = ()  # messages that go at the end of this pass
    later_following: tuple[AnyMessage, ...] = ()  # or of the next one


class TreeState(msgspec.Struct, frozen=True, tag=True):
    """The tables of one broker. The matcher follows from them."""

    version: ClassVar[int] = 5
    in_subs: dict[NodeId, dict[EntryId, Filter]]  # by source: this broker's own clients, then every neighbour
    in_ads: dict[NodeId, dict[EntryId, Filter]]
    out_subs: dict[NodeId, AnyState]  # of the reduction, by neighbour
    out_ads: dict[NodeId, AnyState]
    stale: dict[NodeId, tuple[tuple[str, EntryId], ...]]
    awaiting: dict[str, tuple[NodeId, ...]]
    told_all: dict[str, tuple[NodeId, ...]]
    held: tuple[tuple[NodeId, Event], ...]
    further: AnyState
    maker: str = ""
    had_past_life: bool = False
    reviews: dict[NodeId, ReviewState] = {}
