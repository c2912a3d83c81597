"""The components that every broker has: shared tables, groups, retained events, and quenching."""

from typing import NamedTuple

from godwit.broker.gossip import GROUPS, RETAINED, WHEREABOUTS, Bound, Gossip
from godwit.broker.groups import Groups
from godwit.broker.limits import Limits
from godwit.broker.messages import NodeId
from godwit.broker.quenching import Quenching
from godwit.broker.retained import Retained

__all__ = ["Standard", "standard_components"]

SESSIONS_KNOWN_MAX = 1_000_000  # in the whole network, of clients that bring their name alone
MEMBERS_KNOWN_MAX = 1_000_000  # of groups
TABLE_BYTES_MAX = 2**29


class Standard(NamedTuple):
    """The components that every broker has, in the order of their hooks."""

    groups: Groups
    quenching: Quenching
    retained: Retained
    gossip: Gossip


def standard_components(name: NodeId, limits: Limits) -> Standard:
    """Them, for a broker of this name."""
    bounds = {
        WHEREABOUTS: Bound(SESSIONS_KNOWN_MAX, TABLE_BYTES_MAX),
        RETAINED: Bound(limits.retained_max, limits.retained_bytes_max),
        GROUPS: Bound(MEMBERS_KNOWN_MAX, TABLE_BYTES_MAX),
    }
    gossip = Gossip(name, bounds)
    return Standard(Groups(gossip), Quenching(), Retained(gossip), gossip)
