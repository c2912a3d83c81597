"""The components that every broker has: tables, groups, retained events, quenching, rights, shedding, losses."""

from typing import NamedTuple

from godwit.broker.administration import Administration
from godwit.broker.authorisation import Authorisation
from godwit.broker.gossip import GROUPS, LOSSES, RETAINED, WHEREABOUTS, Gossip, TableLimit
from godwit.broker.groups import Groups
from godwit.broker.limits import Limits
from godwit.broker.load_shedding import LoadShedding
from godwit.broker.lost_tail import LostTail
from godwit.broker.messages import NodeId
from godwit.broker.quenching import Quenching
from godwit.broker.retained import Retained

__all__ = ["StandardComponents", "standard_components"]

SESSIONS_KNOWN_MAX = 1_000_000  # in the whole network, of clients that bring their name alone
MEMBERS_KNOWN_MAX = 1_000_000  # of groups
LOSSES_KNOWN_MAX = 10_000  # of brokers, the last of each
TABLE_BYTES_MAX = 2**29


class StandardComponents(NamedTuple):
    """The components that every broker has, in the order of their hooks."""

    groups: Groups
    quenching: Quenching
    retained: Retained
    authorisation: Authorisation
    gossip: Gossip
    load_shedding: LoadShedding
    lost_tail: LostTail
    administration: Administration


def standard_components(name: NodeId, limits: Limits) -> StandardComponents:
    """Them, for a broker of this name."""
    bounds = {
        WHEREABOUTS: TableLimit(SESSIONS_KNOWN_MAX, TABLE_BYTES_MAX),
        RETAINED: TableLimit(limits.retained_max, limits.retained_bytes_max),
        GROUPS: TableLimit(MEMBERS_KNOWN_MAX, TABLE_BYTES_MAX),
        LOSSES: TableLimit(LOSSES_KNOWN_MAX, TABLE_BYTES_MAX),
    }
    gossip = Gossip(name, bounds)
    quenching, retained = Quenching(), Retained(gossip)
    authorisation = Authorisation(retained, quenching)
    groups, lost_tail = Groups(gossip), LostTail(gossip)
    administration = Administration(retained, gossip)
    return StandardComponents(
        *(groups, quenching, retained, authorisation, gossip, LoadShedding(), lost_tail, administration)
    )
