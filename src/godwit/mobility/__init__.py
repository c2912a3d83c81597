"""Mobility: sessions that follow their clients from broker to broker, and filters that
follow their clients' states.

Pure machines, as all protocols here.

>>> from godwit.mobility import grid, steps
>>> grid(3, 3).ploc("0,0", 1)
('0,0', '1,0', '0,1')
>>> steps(elapsed_s=0.3, dwell_s=1.0)
1
"""

from typing import TYPE_CHECKING

from godwit.lazy_names import names_from

if TYPE_CHECKING:
    from godwit.mobility.mobile_broker import mobile_broker
    from godwit.mobility.movement_graphs import (
        Drift,
        MovementGraph,
        from_edges,
        grid,
        line,
        parse,
        road_network,
    )
    from godwit.mobility.possible_values import Movements, steps

__all__ = [
    "Drift",
    "MovementGraph",
    "Movements",
    "from_edges",
    "grid",
    "line",
    "mobile_broker",
    "parse",
    "road_network",
    "steps",
]

__getattr__ = names_from(
    __name__,
    {
        "Drift": "movement_graphs",
        "MovementGraph": "movement_graphs",
        "Movements": "possible_values",
        "from_edges": "movement_graphs",
        "grid": "movement_graphs",
        "line": "movement_graphs",
        "mobile_broker": "mobile_broker",
        "parse": "movement_graphs",
        "road_network": "movement_graphs",
        "steps": "possible_values",
    },
)
