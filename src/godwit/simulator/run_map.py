"""Data to display a run: brokers, links, and positions on the globe, if the scenario has them.

*Theory.* A trace has no positions, which are input of a run. A page that shows a trace gets them in addition. Tracks
are reduced: some clients, and some positions of each.

*Rules.*
1. Clients are named as in the run (`setup.place_clients`), and the k-th one that moves has the k-th track of the file.
2. Times are those of the run: simulated seconds.
"""

from typing import Any

from godwit.simulator.base_stations import broker_positions
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Scenario, overlay_of
from godwit.simulator.tracks import fixes_of, plausible

__all__ = ["map_of"]

CLIENTS_MAX = 500
FIXES_MAX = 400  # of a client


def map_of(scenario: Scenario, seed: int) -> dict[str, Any]:
    """Plain data for JSON: `brokers`, `links`, and perhaps `positions` and `tracks`; empty for ad hoc networks."""
    if scenario.overlay.kind == "radio":
        return {}
    overlay = overlay_of(scenario, RandomStreams(seed).stream("overlay"))
    found: dict[str, Any] = {"brokers": list(overlay.brokers), "links": [[link.a, link.b] for link in overlay.links]}
    if scenario.overlay.positions is not None:
        found["positions"] = broker_positions(scenario.overlay.positions, overlay)
    if scenario.clients.roaming.model == "trace":
        found["tracks"] = _tracks(scenario)
    return found


def _tracks(scenario: Scenario) -> dict[str, list[list[float]]]:
    roaming, clients = scenario.clients.roaming, scenario.clients
    publishers, subscribers = (
        [f"p{k}" for k in range(clients.publishers)],
        [f"s{k}" for k in range(clients.subscribers)],
    )
    movers = {"publishers": publishers, "subscribers": subscribers}.get(roaming.who, publishers + subscribers)
    fixes = {id: plausible(held, roaming.speed_max_kmh) for id, held in fixes_of(roaming.file or "").items()}
    begins = min(held.times[0] for held in fixes.values())
    found = {}
    for client, held in list(zip(movers, fixes.values(), strict=False))[:CLIENTS_MAX]:
        step = -(-len(held) // FIXES_MAX)
        found[client] = [
            [round(scenario.run.warmup_s + (at - begins) / roaming.speedup, 3), round(lon, 6), round(lat, 6)]
            for at, lon, lat in list(held.rows())[::step]
        ]
    return found
