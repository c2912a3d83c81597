"""Proxies of single publishers, from the file `proxies.json` of the pipeline.

*Theory.* The pipeline finds out for each client the fewest places that hold most of its time, the one with most of it
first (`pipeline/mobility/mined_files.py`). Mined with `--brokers`, these places are brokers, and so the best proxies of
that client: while it is on its way, a broker near which it will turn up advertises for it.

    {"share": 0.9, "clients": {"taxi-7": ["b12", "b3"], "taxi-9": ["b1"]}}

*Rules.*
1. Of a client with more than `PROXIES_MAX` places the first count. One without any has no proxies of its own.
2. A name that is not a broker of the network is skipped when proxies are told (`publisher_presence.py`).

*Paper.* [pubmob §3: Proxy]; the paper takes the brokers nearest to the publisher's home. *Departures.* Ours are mined.
"""

import json
from typing import Any

from godwit.broker.messages import NodeId
from godwit.errors import GodwitError
from godwit.mobility.publisher_presence import PROXIES_MAX

__all__ = ["CLIENTS_MAX", "mined_proxies"]

CLIENTS_MAX = 100_000


def mined_proxies(text: str, name: str) -> dict[NodeId, tuple[NodeId, ...]]:
    """By client, its own proxies; `name` says in errors where the text stands."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GodwitError(f"{name}: {error}") from None
    clients = data.get("clients") if isinstance(data, dict) else None
    if not isinstance(clients, dict):
        raise GodwitError(f'{name}: proxies are {{"clients": {{client: [broker, …]}}}}')
    if len(clients) > CLIENTS_MAX:
        raise GodwitError(f"{name}: proxies of {len(clients):,} clients; allowed are {CLIENTS_MAX:,}")
    for client, places in clients.items():
        if not isinstance(places, list) or not all(isinstance(place, str) and place for place in places):
            raise GodwitError(f"{name}: clients.{client} is {json.dumps(places)[:60]}: allowed is a list of brokers")
    return {client: tuple(dict.fromkeys(places))[:PROXIES_MAX] for client, places in clients.items() if places}
