"""Settings for the dashboard: the position and area of a broker, and the tiles of the map.

*Theory.* The machine does not use these settings: routing does not depend on the position of a broker. Positions and
areas are written as in the filter language, and are shown to administrators; tiles are the background of the map.

*Rules.*
1. By default nothing is loaded from other hosts. With `tiles_url`, pages may load images from that origin, and nothing
   else (`content_security_policy` in `dashboard_files.py`).
2. An invalid value is an error of the configuration, reported before the broker starts.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from godwit import settings
from godwit.errors import GodwitError
from godwit.filters.filters import Some, some
from godwit.filters.language import parse, to_json
from godwit.filters.regions import Region
from godwit.filters.sets import OneOf
from godwit.filters.values import Point
from godwit.mobility.movement_graphs import MovementGraph
from godwit.mobility.possible_values import Movements
from godwit.runtime.config_sections import BrokerSettings
from godwit.runtime.tile_file import TileFile, TileFileError

__all__ = ["DashboardSettings", "dashboard_faults", "dashboard_settings", "region_told"]

TILES_URL = re.compile(r"(?P<origin>https?://[a-z0-9.\-]+(:\d{1,5})?)/[^\s\"'<>;,]*")
TILES_PATH = "/tiles/{z}/{x}/{y}"
"""The path at which a broker serves the tiles of its file."""


class DashboardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The checked settings."""

    position: Point | None = None
    area: Region | None = None
    places: Mapping[str, Point] = {}  # named places of movement graphs
    tiles_url: str = ""
    tiles_attribution: str = ""
    tiles: TileFile | None = None

    def told(self) -> dict[str, Any]:
        """As plain data, for pages and other brokers."""
        url = self.tiles_url if self.tiles is None else TILES_PATH
        levels = None if self.tiles is None else [self.tiles.level_min, self.tiles.level_max]
        return {
            "position": None if self.position is None else point_told(self.position),
            "area": None if self.area is None else region_told(self.area),
            "tiles": {"url": url, "attribution": self.tiles_attribution, "levels": levels} if url else None,
        }

    @property
    def tiles_origin(self) -> str:
        """The other origin whose images pages may show; "": none."""
        found = TILES_URL.fullmatch(self.tiles_url)
        return found["origin"] if found else ""


def dashboard_settings(settled: BrokerSettings, movements: Movements) -> DashboardSettings:
    """The settings of a valid configuration."""
    broker, said = settled.broker, settled.dashboard
    graphs = [each for each in movements.movements.values() if isinstance(each, MovementGraph)]
    return DashboardSettings(
        position=_point(broker.position) if broker.position else None,
        area=_region(broker.area) if broker.area else None,
        places={name: point for graph in graphs for name, point in graph.positions.items()},
        tiles_url=said.tiles_url,
        tiles_attribution=said.tiles_attribution,
        tiles=TileFile(Path(said.tiles_file)) if said.tiles_file else None,
    )


def dashboard_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    """The errors of these settings. (rule 2)"""
    broker, said = settled.broker, settled.dashboard
    if broker.position and _point(broker.position) is None:
        at = where(("broker", "position"))
        yield f"{at} is {broker.position!r}: allowed is point(LONGITUDE, LATITUDE), as in point(8.54, 47.37)"
    if broker.area and _region(broker.area) is None:
        allowed = "circle(LONGITUDE, LATITUDE, METRES), box(WEST, SOUTH, EAST, NORTH) or polygon(LONGITUDE LATITUDE, …)"
        yield f"{where(('broker', 'area'))} is {broker.area!r}: allowed is {allowed}"
    at = where(("dashboard", "tiles_url"))
    is_template = all(part in said.tiles_url for part in ("{z}", "{x}", "{y}"))
    if said.tiles_url and not (is_template and TILES_URL.fullmatch(said.tiles_url)):
        yield f"{at} is {said.tiles_url!r}: allowed is an address as in https://tiles.example/{{z}}/{{x}}/{{y}}.png"
    if said.tiles_file:
        at_file = where(("dashboard", "tiles_file"))
        if said.tiles_url:
            yield f"{at_file}: there is dashboard.tiles_url, too; allowed is one of them"
        try:
            TileFile(Path(said.tiles_file)).close()
        except TileFileError as error:
            yield f"{at_file}: {error}"


def _read(text: str) -> Any:
    """The value set of a filter that has exactly one; None for other filters."""
    try:
        found = parse(text)
    except GodwitError:
        return None
    return found.values if isinstance(found, Some) else None


def _point(text: str) -> Point | None:
    values = _read(f"x = {text}")
    found = values.values if isinstance(values, OneOf) and len(values.values) == 1 else (None,)
    return found[0] if isinstance(found[0], Point) else None


def _region(text: str) -> Region | None:
    values = _read(f"x WITHIN {text}")
    return values if isinstance(values, Region) else None


def point_told(point: Point) -> dict[str, float]:
    """A point as plain data."""
    return {"lon": point.lon, "lat": point.lat}


def region_told(region: Region) -> dict[str, Any]:
    """A region as plain data, in the JSON form of the filter language."""
    found: dict[str, Any] = to_json(some("x", region))["in"]
    return found
