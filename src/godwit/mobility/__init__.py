"""Mobility: sessions that follow their clients from broker to broker, filters that
follow their clients' states, and devices without any fixed broker.

Pure machines, as all protocols here.

>>> from godwit.mobility import grid, steps
>>> grid(3, 3).ploc("0,0", 1)
('0,0', '1,0', '0,1')
>>> steps(elapsed_s=0.3, dwell_s=1.0)
1
"""

from godwit.mobility.adhoc import AdHocNode
from godwit.mobility.device import AdHocConfig
from godwit.mobility.locations import Movements, steps
from godwit.mobility.mobile_broker import mobile_broker
from godwit.mobility.movement_graphs import (
    Drift,
    MovementGraph,
    RoadNetwork,
    from_edges,
    grid,
    line,
    parse,
    road_network,
)

__all__ = [
    "AdHocConfig",
    "AdHocNode",
    "Drift",
    "MovementGraph",
    "Movements",
    "RoadNetwork",
    "from_edges",
    "grid",
    "line",
    "mobile_broker",
    "parse",
    "road_network",
    "steps",
]
