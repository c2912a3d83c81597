"""Places: cells of a grid over the globe, or the brokers of a placement.

*Theory.* There are two kinds of places. *Cells* cover the globe without gaps: hexagons of H3, or a grid of degrees.
*Brokers* have a position and a range; a client is at the nearest broker in range, or at none. Each kind also has finer
cells: the last position of a client within a place helps to predict the next place.

*Rules.*
1. A place's name depends on the position only, and every position on the globe has a cell.
2. Of equally near brokers, the first in the file is used.
"""

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from godwit.errors import PipelineError
from godwit.pipeline.mobility.globe import Floats, distances_m

__all__ = ["BrokerPlacement", "Cells", "GridCells", "H3Cells", "PlaceMap", "brokers_of", "cells_of"]

H3_FINEST = 15
GRID_DEGREES = (1e-5, 90.0)
FINER = 3  # cells of a finer grid along the side of one
BROKERS_MAX = 10_000
BROKERS_AT_ONCE = 4_000_000  # distances of positions to brokers


class PlaceMap(Protocol):
    """The place of positions."""

    def names(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The place of each position, or None."""

    def details(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The finer cell of each position."""

    def centre(self, name: str) -> tuple[float, float]:
        """The position of a place, as (lon, lat)."""


@dataclass(frozen=True)
class H3Cells:
    """Hexagons of H3, of one resolution: 7 are some 5 km² each, 8 some 0.7, 9 some 0.1."""

    resolution: int

    def names(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The cell of each position."""
        return _h3_names(lons, lats, self.resolution)

    def details(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The cell of the next finer resolution."""
        return _h3_names(lons, lats, min(self.resolution + 1, H3_FINEST))

    def centre(self, name: str) -> tuple[float, float]:
        """The middle of a cell."""
        import h3

        lat, lon = h3.cell_to_latlng(name)
        return lon, lat


def _h3_names(lons: Floats, lats: Floats, resolution: int) -> list[str | None]:
    import h3

    of = h3.latlng_to_cell
    return [of(lat, lon, resolution) for lat, lon in zip(lats.tolist(), lons.tolist(), strict=True)]


@dataclass(frozen=True)
class GridCells:
    """Squares of this many degrees; `3,-2` is the fourth to the east of Greenwich and the second south of the
    equator."""

    degrees: float

    def names(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The cell of each position."""
        if not len(lons):
            return []
        pairs = np.stack([np.floor(lons / self.degrees), np.floor(lats / self.degrees)], axis=1).astype(np.int64)
        found, places = np.unique(pairs, axis=0, return_inverse=True)
        names = [f"{east},{north}" for east, north in found.tolist()]
        return [names[place] for place in places.reshape(-1).tolist()]

    def details(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The cell of a grid that is finer by `FINER`."""
        return GridCells(self.degrees / FINER).names(lons, lats)

    def centre(self, name: str) -> tuple[float, float]:
        """The middle of a cell."""
        east, _, north = name.partition(",")
        return min((int(east) + 0.5) * self.degrees, 180.0), min((int(north) + 0.5) * self.degrees, 90.0)


Cells = H3Cells | GridCells
"""The two kinds of cells."""


def cells_of(text: str) -> Cells:
    """The cells of `h3:8` or `grid:0.01`."""
    kind, _, size = text.partition(":")
    try:
        if kind == "h3" and 0 <= int(size) <= H3_FINEST:
            if find_spec("h3") is None:
                raise PipelineError(
                    "cells of H3 need h3, which is not installed: use grid:0.01, or install godwit[pipeline]"
                )
            return H3Cells(int(size))
        if kind == "grid" and GRID_DEGREES[0] <= float(size) <= GRID_DEGREES[1]:
            return GridCells(float(size))
    except ValueError:
        pass
    raise PipelineError(
        f"{text!r} is not a kind of cells: allowed are h3:N with N from 0 to {H3_FINEST}, and grid:DEGREES with "
        f"{GRID_DEGREES[0]:g} to {GRID_DEGREES[1]:g} degrees"
    )


# ---------------------------------------------------------------- brokers


@dataclass(frozen=True)
class BrokerPlacement:
    """Brokers at their positions, each with its range in metres."""

    brokers: tuple[str, ...]
    lons: tuple[float, ...]
    lats: tuple[float, ...]
    radii_m: tuple[float, ...]
    cells: Cells

    def names(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The nearest broker in range of each position. (rule 2)"""
        at_once = max(1, BROKERS_AT_ONCE // len(self.brokers))
        found: list[str | None] = []
        for start in range(0, len(lons), at_once):
            found += self._some_names(lons[start : start + at_once], lats[start : start + at_once])
        return found

    def _some_names(self, lons: Floats, lats: Floats) -> list[str | None]:
        to_lons, to_lats = np.array(self.lons)[None, :], np.array(self.lats)[None, :]
        apart_m = distances_m(lons[:, None], lats[:, None], to_lons, to_lats)
        apart_m = np.where(apart_m <= np.array(self.radii_m)[None, :], apart_m, np.inf)
        nearest = apart_m.argmin(axis=1)
        reached = np.isfinite(apart_m[np.arange(len(lons)), nearest])
        return [
            self.brokers[at] if is_in else None for at, is_in in zip(nearest.tolist(), reached.tolist(), strict=True)
        ]

    def details(self, lons: Floats, lats: Floats) -> list[str | None]:
        """The cell of each position."""
        return self.cells.details(lons, lats)

    def centre(self, name: str) -> tuple[float, float]:
        """The position of a broker."""
        at = self.brokers.index(name)
        return self.lons[at], self.lats[at]


def brokers_of(file: str, radius_m: float | None, cells: Cells) -> BrokerPlacement:
    """A placement: a CSV with columns broker, lon and lat, and optionally radius_m (default: `radius_m`)."""
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            header = reader.fieldnames or []
            for name in ("broker", "lon", "lat", *(() if radius_m is not None else ("radius_m",))):
                if name not in header:
                    raise PipelineError(
                        f"{file}: no column {name!r}: there must be broker, lon, lat, and radius_m or --radius"
                    )
            rows = [_broker(f"{file}:{reader.line_num}", row, radius_m) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PipelineError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    if not 0 < len(rows) <= BROKERS_MAX:
        raise PipelineError(f"{file}: {len(rows)} brokers: allowed are 1 to {BROKERS_MAX:,}")
    name, times = Counter(row[0] for row in rows).most_common(1)[0]
    if times > 1:
        raise PipelineError(f"{file}: broker {name!r} has {times} positions: allowed is one")
    names, lons, lats, radii_m = zip(*rows, strict=True)
    return BrokerPlacement(names, lons, lats, radii_m, cells)


def _broker(at: str, row: dict[str, Any], radius_m: float | None) -> tuple[str, float, float, float]:
    name = (row["broker"] or "").strip()
    if not name:
        raise PipelineError(f"{at}: broker is empty")
    found: list[float] = []
    limits: Sequence[tuple[str, float, float]] = (("lon", -180, 180), ("lat", -90, 90), ("radius_m", 0, 20_000_000))
    for column, least, most in limits:
        text = row.get(column) or ("" if column != "radius_m" or radius_m is None else str(radius_m))
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise PipelineError(f"{at}: {column} is {text!r}: allowed is a number from {least} to {most}")
        found.append(number)
    return name, found[0], found[1], found[2]
