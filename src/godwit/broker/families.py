"""Routing families by name: which one a broker's settings choose, and how others are added.

*Theory.* `BrokerConfig` says the family, and for the family `graph` the strategy; `family_name` makes one name of
these. A family is a function that makes a `Routing` for one broker. Packages add a
family by `register_family`, or by an entry point of the group `godwit.routing_families` whose object is that function.
"""

from collections.abc import Callable, Mapping
from typing import Any

from godwit.broker.advertised import AdvertisementForwarding
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.forwarding_strategy import Forwarding
from godwit.broker.further_entries import FurtherEntries
from godwit.broker.graph import GraphRouting
from godwit.broker.gsf import SubscriptionForwarding
from godwit.broker.hop_stream import HopStream
from godwit.broker.messages import NodeId
from godwit.broker.routing import Routing
from godwit.broker.spcf import ContextForwarding
from godwit.broker.tree import TreeRouting
from godwit.errors import ConfigurationError
from godwit.matching.caching_matcher import CachingMatcher
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import Matcher
from godwit.registry import Registry

__all__ = ["Checks", "MakeRouting", "family_name", "register_family", "routing_of", "tree_family"]

Checks = Mapping[type, Callable[[Any], None]]
MakeRouting = Callable[[NodeId, int, Mapping[NodeId, float], BrokerConfig, Checks], Routing]
"""`(name, incarnation, neighbours, config, checks)`: `checks` names what packets carry for the rest of the broker."""

_FAMILIES: Registry[MakeRouting] = Registry("routing family", "godwit.routing_families")


def register_family(name: str, make: MakeRouting) -> None:
    """Let settings choose a routing family by this name."""
    _FAMILIES.register(name, make)


def family_name(config: BrokerConfig) -> str:
    """The name of the routing family that these settings choose."""
    if config.family != "graph":
        return config.family
    return "graph" if config.strategy == "gsf" else config.strategy


def routing_of(
    name: NodeId, incarnation: int, neighbours: Mapping[NodeId, float], config: BrokerConfig, checks: Checks
) -> Routing:
    """A broker's routing, of the family that `config` chooses."""
    return _FAMILIES.part(family_name(config))(name, incarnation, neighbours, config, checks)


def new_matcher(config: BrokerConfig, index: Callable[[], Matcher]) -> Callable[[], Matcher]:
    """What makes the matchers of a broker: `index`, unless settings choose decision diagrams."""
    if config.matcher == "index":
        return index
    from godwit.matching.bdd_matcher import BddMatcher  # it loads a large library

    return BddMatcher


def tree_family(
    name: NodeId,
    incarnation: int,
    neighbours: Mapping[NodeId, float],
    config: BrokerConfig,
    checks: Checks,
    further: FurtherEntries | None = None,
) -> Routing:
    """The tree family; `further`: entries of another kind that it routes besides (`further_entries.py`)."""
    return TreeRouting(
        name,
        neighbours,
        incarnation=incarnation,
        reduction=config.reduction,
        advertised=config.advertisements != "off",
        excess_max=config.excess_max,
        further=further,
        new_matcher=new_matcher(config, CachingMatcher),
    )


def _graph(
    name: NodeId, incarnation: int, neighbours: Mapping[NodeId, float], config: BrokerConfig, checks: Checks
) -> Routing:
    return _of_graph(name, incarnation, neighbours, config, checks, SubscriptionForwarding())


def _spcf(
    name: NodeId, incarnation: int, neighbours: Mapping[NodeId, float], config: BrokerConfig, checks: Checks
) -> Routing:
    return _of_graph(name, incarnation, neighbours, config, checks, ContextForwarding(config.contexts_max))


def _of_graph(
    name: NodeId,
    incarnation: int,
    neighbours: Mapping[NodeId, float],
    config: BrokerConfig,
    checks: Checks,
    forwarding: Forwarding,
) -> Routing:
    return GraphRouting(
        name,
        incarnation,
        neighbours,
        further=checks,
        forwarding=forwarding,
        hops=HopStream() if config.matching == "hops" else None,
        new_matcher=new_matcher(config, IndexMatcher),
    )


def _advertised(
    name: NodeId, incarnation: int, neighbours: Mapping[NodeId, float], config: BrokerConfig, checks: Checks
) -> Routing:
    if config.matching == "hops":  # hops between a subscriber and an advertiser do not hear of the subscription
        raise ConfigurationError("matching is 'hops': the strategy 'advertised' matches at the source")
    if config.advertisements == "off":
        raise ConfigurationError("advertisements is 'off': the strategy 'advertised' routes by them")
    return _of_graph(name, incarnation, neighbours, config, checks, AdvertisementForwarding())


register_family("tree", tree_family)
register_family("graph", _graph)
register_family("spcf", _spcf)
register_family("advertised", _advertised)
