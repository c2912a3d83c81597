"""Baselines: routing algorithms of the papers, for comparison with Godwit's own. Not for production.

Importing this room registers the routing family `fixed_hops`, which matches every event at every hop, exactly as [spcf
§3.1] describes it, on an overlay that stays; and the mode of moving `naive` [rebeca §3.2]. Pure machines.
"""

from collections.abc import Mapping
from typing import get_args

from godwit.baselines.hop_messages import HopMessage
from godwit.baselines.hop_routing import HopRouting
from godwit.baselines.hop_routing_state import HopState
from godwit.baselines.naive_policy import NAIVE, NaivePolicy
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.families import Checks, register_family
from godwit.broker.messages import NodeId
from godwit.codec import register_messages, register_states
from godwit.mobility.extensions import Policy, register_attach_policy

__all__ = ["HopRouting", "NaivePolicy", "fixed_hops_family", "naive_policy"]


naive_policy = Policy(NAIVE, NaivePolicy)
"""The mode `naive` of moving: `Attach(mode="naive")`."""


def fixed_hops_family(
    name: NodeId, incarnation: int, neighbours: Mapping[NodeId, float], config: BrokerConfig, checks: Checks
) -> HopRouting:
    """The routing of a broker that matches at every hop of a fixed overlay: `BrokerConfig(family="fixed_hops")`."""
    return HopRouting(name, neighbours, config.overlay, strategy="spcf" if config.strategy == "spcf" else "gsf")


register_family("fixed_hops", fixed_hops_family)
register_attach_policy("naive", naive_policy)
register_messages(*get_args(HopMessage))
register_states(HopState)
