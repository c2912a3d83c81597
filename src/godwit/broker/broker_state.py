"""The stored state of a broker: the states of its parts, by name."""

from typing import ClassVar

import msgspec

from godwit.broker.limits import Limits
from godwit.broker.links import LinkEndState
from godwit.broker.messages import EntryId, NodeId
from godwit.broker.sessions_state import SessionsState
from godwit.broker.state_types import AnyState

__all__ = ["BrokerState"]


class BrokerState(msgspec.Struct, frozen=True, tag=True):
    """All of a broker that does not follow from its settings."""

    version: ClassVar[int] = 4
    name: NodeId
    incarnation: int
    limits: Limits  # of now: they may have been changed since it was made
    links: dict[NodeId, LinkEndState]
    sessions: SessionsState
    routing: AnyState  # of its family
    components: dict[str, AnyState]  # by label; those that have none follow from others
    withdrawals: tuple[tuple[str, EntryId], ...] = ()  # entries of ended sessions that are still to leave routing
