"""The stored state of a broker that matches at every hop. Rows, indexes and trees follow from it."""

from typing import ClassVar

import msgspec

from godwit.broker.messages import EntryId, NodeId
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter

__all__ = ["ContextsState", "HopState", "Key", "Pair"]

Key = tuple[NodeId, NodeId, EntryId]
"""A pair in a row: the neighbour it came from, the subscriber's broker, and the subscription."""


class Pair(msgspec.Struct, frozen=True, gc=False):
    """What is wanted, by whom, and of whom. [spcf Fig. 1: (f_msg, c)]"""

    filter: Filter
    asks: Filter
    subscriber: str  # its context, as Bloom filters name it


class ContextsState(msgspec.Struct, frozen=True):
    """The contexts of one broker's clients, and the last changes of them."""

    live: dict[int, Attributes]
    changes: int
    latest: tuple[tuple[Attributes, bool], ...]


class HopState(msgspec.Struct, frozen=True, tag=True):
    """The tables of one broker."""

    version: ClassVar[int] = 1
    contexts: dict[NodeId, ContextsState]
    routes: dict[NodeId, dict[Key, Pair]]
    local: dict[EntryId, Filter]
    clients: dict[NodeId, int]
    last_number: int
    has_gap: bool
