"""The stored state of all sessions of a broker. Connections and orders of expiry follow from it."""

import msgspec

from godwit.broker.heard_losses import HeardLossesState
from godwit.broker.messages import NodeId
from godwit.broker.session import StoredSessionState
from godwit.filters.events import Attributes

__all__ = ["SessionsState"]


class SessionsState(msgspec.Struct, frozen=True, omit_defaults=True):
    """All sessions of a border broker."""

    made: int = 0  # names of sessions
    sessions: tuple[StoredSessionState, ...] = ()
    vouched: dict[str, Attributes] = {}  # by connection, until its client has said who it is
    touched: tuple[NodeId, ...] = ()  # whose session has changed since others were told
    losses: HeardLossesState = HeardLossesState()
