"""Settings of a broker: how it routes, and its bounds."""

from typing import Literal

import msgspec

from godwit.broker.limits import Limits
from godwit.broker.links import LinkConfig
from godwit.broker.messages import NodeId
from godwit.broker.spcf import CONTEXTS_MAX

__all__ = ["BrokerConfig"]


class BrokerConfig(msgspec.Struct, frozen=True):
    """How a broker routes, and its bounds."""

    family: str = "tree"  # or "graph", or another of families.py
    reduction: str = "covering"  # tree family: see reductions.py
    excess_max: float = 0.0  # imperfect merging lets in at most this share besides
    open_filters: Literal["each", "united"] = "united"  # tree family: how neighbours hear of filters on clients' states
    advertisements: Literal["required", "optional", "off"] = "optional"
    strategy: Literal["gsf", "spcf", "advertised"] = "gsf"  # graph family: who hears of a subscription
    matching: Literal["source", "hops"] = "source"  # graph family: where an event is matched (graph.py, hop_stream.py)
    matcher: Literal["index", "bdd"] = "index"  # how events are matched: the index, or decision diagrams [motion §3]
    contexts_max: int = CONTEXTS_MAX  # spcf: contexts that a broker tells of before it sums them up
    overlay: tuple[tuple[NodeId, NodeId, float], ...] = ()  # of families with a fixed overlay: every link and its cost
    expects_strangers: bool = False  # optional advertisements: a new client may publish at once and leave
    asserted: tuple[str, ...] = ()  # the attributes of contexts that the server alone says, and no client
    components: tuple[str, ...] = ()  # further components, by their registered names (mobility/extensions.py)
    attach_policies: tuple[str, ...] = ()  # further ways to attach, likewise
    link: LinkConfig = LinkConfig()
    limits: Limits = Limits()
