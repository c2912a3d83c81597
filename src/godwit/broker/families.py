"""Which routing family a broker's settings name."""

from collections.abc import Callable, Mapping
from typing import Any

from godwit.broker.config import BrokerConfig
from godwit.broker.graph import GraphRouting
from godwit.broker.hops import HopRouting
from godwit.broker.messages import NodeId
from godwit.broker.routing import Routing
from godwit.broker.spcf import SpcfRouting
from godwit.broker.tree import TreeRouting

__all__ = ["MakeRouting", "routing_of"]

Checks = Mapping[type, Callable[[Any], None]]
MakeRouting = Callable[[NodeId, int, Mapping[NodeId, float], BrokerConfig, Checks], Routing]
"""`(name, incarnation, neighbours, config, checks)`: `checks` names what packets carry for components."""


def routing_of(
    name: NodeId, incarnation: int, neighbours: Mapping[NodeId, float], config: BrokerConfig, checks: Checks
) -> Routing:
    """The family that `config` names."""
    if config.family == "graph" and config.matching == "hops":
        return HopRouting(name, neighbours, config.overlay, strategy=config.strategy)
    if config.family == "graph" and config.strategy == "spcf":
        return SpcfRouting(name, incarnation, neighbours, further=checks, contexts_max=config.contexts_max)
    if config.family == "graph":
        return GraphRouting(name, incarnation, neighbours, further=checks)
    return TreeRouting(
        name,
        neighbours,
        incarnation=incarnation,
        reduction=config.reduction,
        advertised=config.advertisements != "off",
        excess_max=config.excess_max,
    )
