"""A broker whose clients move: the components of mobility, put together.

`mobile_broker` is the only place that knows them all. The order of the list is the order in which hooks are called.
"""

from collections.abc import Mapping
from functools import partial

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.families import tree_family
from godwit.broker.messages import NodeId
from godwit.broker.standard_components import standard_components
from godwit.mobility.attach_policies.ask import AskPolicy
from godwit.mobility.attach_policies.carry import CarryPolicy
from godwit.mobility.attach_policies.explicit import ExplicitPolicy
from godwit.mobility.attach_policies.junction import JunctionPolicy
from godwit.mobility.attach_policies.presubscribe import PRESUBSCRIBE, PresubscribePolicy
from godwit.mobility.attaching import Attaching, AttachPolicy
from godwit.mobility.context_following import ContextFollowing
from godwit.mobility.extensions import attach_policies, further_components
from godwit.mobility.location_tree import FollowedFilters
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.possible_values import Movements
from godwit.mobility.publisher_presence import PUBLISHER_MODES, PublisherConfig, PublisherPresence
from godwit.mobility.relocation import Relocation
from godwit.mobility.session_entries import SessionEntries
from godwit.mobility.transfer_barrier import GraphBarrier, TreeBarrier
from godwit.mobility.whereabouts import Whereabouts

__all__ = ["mobile_broker"]


def mobile_broker(
    name: NodeId,
    neighbours: Mapping[NodeId, float],
    config: BrokerConfig,
    incarnation: int = 1,
    *,
    movements: Movements | None = None,
    moving: PublisherConfig = PublisherConfig(),  # noqa: B008 (it is frozen)
) -> Broker:
    """A broker whose clients roam, whose publishers move, and which follows its clients' own states."""
    movements = Movements() if movements is None else movements
    standard = standard_components(name, config.limits)
    routes = OverlayRoutes()
    unites = config.open_filters == "united" and config.reduction != "simple"
    followed = FollowedFilters(movements, unites=unites) if config.family == "tree" else None
    following = ContextFollowing(movements, followed)
    barrier: GraphBarrier | TreeBarrier = GraphBarrier(routes) if config.family == "graph" else TreeBarrier(routes)
    relocation = Relocation(routes, barrier, following, standard.groups)
    entries = SessionEntries(relocation.entries)
    presence = PublisherPresence(relocation, entries, moving)
    whereabouts = Whereabouts(relocation, standard.gossip)
    ask, carry, explicit = AskPolicy(relocation), CarryPolicy(relocation, entries), ExplicitPolicy(relocation)
    junction, presubscribe = JunctionPolicy(relocation), PresubscribePolicy(relocation, presence)
    others = attach_policies(config.attach_policies, relocation)
    policies: dict[str, AttachPolicy] = {
        "relocate": relocation,
        "ask": ask,
        "junction": junction,
        "named": whereabouts,
        "carry": carry,
        "explicit": explicit,
        PRESUBSCRIBE: presubscribe,
        **dict.fromkeys(PUBLISHER_MODES, presence),
        **others,
    }
    attaching = Attaching(relocation, policies, {"named": whereabouts.greet})
    return Broker(
        name,
        neighbours,
        config,
        incarnation,
        components=[
            standard.groups,
            standard.quenching,
            standard.retained,
            standard.authorisation,
            routes,
            following,
            barrier,
            relocation,
            entries,
            ask,
            junction,
            carry,
            explicit,
            presubscribe,
            *others.values(),
            presence,
            whereabouts,
            attaching,
            *further_components(config.components),
            standard.gossip,
            standard.load_shedding,
            standard.lost_tail,
            standard.administration,
        ],
        make_routing=None if followed is None else partial(tree_family, further=followed),
    )
