"""The five brokers of the town, each in a separate process."""

from pathlib import Path

import msgspec

from godwit.cli.fleet.town import AREA_M, BROKERS, HUB, LINKS, SQUARES
from godwit.cli.local_brokers import LocalBroker, start_network

__all__ = ["start_all"]

DOORS = ("native", "mqtt", "http")


async def start_all(folder: Path) -> dict[str, LocalBroker]:
    """Start the network."""
    squares = folder / "squares.json"
    squares.write_bytes(msgspec.json.encode({"places": SQUARES, "edges": []}))
    brokers = {name: LocalBroker(name, folder, DOORS, _settings(*at)) for name, at in BROKERS.items()}
    await start_network(brokers, LINKS, HUB)
    return brokers


def _settings(lon: float, lat: float) -> str:
    position, area = f"point({lon}, {lat})", f"circle({lon}, {lat}, {AREA_M})"
    return f'position = "{position}"\narea = "{area}"\n\n[places]\nsquare = "squares.json"\n'
