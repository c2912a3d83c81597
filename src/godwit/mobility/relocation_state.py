"""The state of relocation (`relocation.py`), as snapshots have it."""

from typing import ClassVar

import msgspec

from godwit.broker.messages import NodeId
from godwit.mobility.arrival import ArrivalState
from godwit.mobility.move_messages import Relocate

__all__ = ["RelocationState"]


class RelocationState(msgspec.Struct, frozen=True, tag=True):
    """Sessions that are awaited, those that went elsewhere, and those that have come."""

    version: ClassVar[int] = 6
    arrivals: dict[NodeId, ArrivalState]
    moved: dict[NodeId, Relocate]
    received: dict[NodeId, int]
