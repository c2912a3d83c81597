"""The brokers of a test and the links between them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.messages import NodeId
from godwit.errors import GodwitError
from godwit.mobility import Movements, mobile_broker
from godwit.mobility.publisher_presence import PublisherConfig

__all__ = ["Topology", "broker", "neighbours", "topology"]

Topology = int | str | Sequence[str] | Iterable[tuple[NodeId, NodeId]]
"""A number of brokers in a line, "star 5", "line 5", "b1-b2 b2-b3", ["ab", "bc"], or pairs of names."""

NO_PUBLISHERS = PublisherConfig()


def broker(
    name: NodeId,
    neighbours: Mapping[NodeId, float],
    config: BrokerConfig,
    incarnation: int = 1,
    *,
    movements: Movements | None = None,
    moving: PublisherConfig = NO_PUBLISHERS,
) -> Broker:
    """The machine of one broker. All brokers of tests are made here."""
    return mobile_broker(name, neighbours, config, incarnation, movements=movements, moving=moving)


def topology(brokers: Topology) -> list[tuple[NodeId, NodeId]]:
    """The links of a network, as pairs of names."""
    if isinstance(brokers, int):
        return _shape("line", brokers)
    if isinstance(brokers, str):
        shape, _, count = brokers.partition(" ")
        if shape in ("line", "star"):
            return _shape(shape, int(count or 3))
        brokers = brokers.split()
    pairs: list[tuple[NodeId, NodeId]] = []
    for pair in brokers:
        ends: Any = tuple(pair.split("-")) if isinstance(pair, str) and "-" in pair else tuple(pair)
        if len(ends) != 2 or ends[0] == ends[1]:
            raise GodwitError(f'{pair!r} is not a link: expected two brokers, such as ("b1", "b2")')
        pairs.append(ends)
    return pairs


def _shape(shape: str, count: int) -> list[tuple[NodeId, NodeId]]:
    if count < 1:
        raise GodwitError(f"a network of {count} brokers: expected at least 1")
    names = [f"b{number}" for number in range(1, count + 1)]
    return list(pairwise(names)) if shape == "line" else [(names[0], name) for name in names[1:]]


def neighbours(name: NodeId, links: Iterable[tuple[NodeId, NodeId]], cost: float = 1.0) -> dict[NodeId, float]:
    """The neighbours of a broker, each with the cost of the link."""
    return {other: cost for a, b in links for here, other in ((a, b), (b, a)) if here == name}
