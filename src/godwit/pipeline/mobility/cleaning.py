"""Removal of implausible fixes, and division of the rest into trips.

*Theory.* Receivers have errors: a fix may be at an impossible position. It is left out by the same rule as in the
simulator's traces: neither the two fixes before it nor the two after it can be reached at `speed_max_kmh`. Two errors
that agree with each other pass that rule, so a step that is too fast may remain; it ends a *trip*, as does a gap of
more than `gap_s`. Nothing is learnt from the time between two trips.

*Rules.*
1. No fix is dropped: each is returned, with the `fault` for which it is not used, or with its trip.
2. Of several fixes of a client at one moment one is used, the smallest by lon and lat: the order of files does not
   matter.
3. If a client has only impossible fixes, they are kept, each as a separate trip, as in the simulator.
4. Within a trip no step is longer than `gap_s` or faster than `speed_max_kmh`.
5. Each step of a trip is known by its second fix: `elapsed_s`, and `east_m`, `north_m` that were gone meanwhile. The
   first fix of a trip has none.
"""

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from godwit.errors import PipelineError
from godwit.pipeline.mobility.globe import DEGREE_M, Floats, distances_m

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DUPLICATE", "IMPOSSIBLE", "CleaningOptions", "marked", "marked_table", "marks", "seconds"]

DUPLICATE = "same moment as another"
IMPOSSIBLE = "impossible speed"
FAULTS = (None, DUPLICATE, IMPOSSIBLE)

SCHEMA = (
    "client string, at timestamp, lon double, lat double, occupied boolean, fault string, trip bigint, "
    "elapsed_s double, east_m double, north_m double"
)


@dataclass(frozen=True)
class CleaningOptions:
    """The highest speed of a client, and the longest gap within a trip."""

    speed_max_kmh: float = 200.0
    gap_s: float = 300.0

    def __post_init__(self) -> None:
        for what, held, unit in (("speed", self.speed_max_kmh, "km/h"), ("gap", self.gap_s, "s")):
            if not 0 < held < float("inf"):
                raise PipelineError(f"a {what} of {held:g} {unit}: it must be above 0")


def marked(fixes: "DataFrame", cleaning: CleaningOptions) -> "DataFrame":
    """All fixes of each client, the oldest first, with `fault`, `trip` and the step from the fix before."""
    columns = fixes.select("client", "at", "lon", "lat", "occupied")
    return columns.groupBy("client").applyInArrow(lambda table: marked_table(table, cleaning), SCHEMA)


def marked_table(table: Any, cleaning: CleaningOptions) -> Any:
    """The same for one client, as an Arrow table: this needs no Spark."""
    table = table.sort_by([("at", "ascending"), ("lon", "ascending"), ("lat", "ascending")])
    at_s, lons, lats = seconds(table["at"]), table["lon"].to_numpy(), table["lat"].to_numpy()
    faults, trips = marks(at_s, lons, lats, cleaning)
    names = pa.DictionaryArray.from_arrays(
        pa.array(np.maximum(faults - 1, 0), pa.int32(), mask=faults == 0), list(FAULTS[1:])
    )
    added = {"fault": names.cast(pa.string()), "trip": pa.array(trips, pa.int64(), mask=trips < 0)}
    for name, held in _steps(at_s, lons, lats, trips).items():
        added[name] = pa.array(held, pa.float64(), mask=np.isnan(held))
    return reduce(lambda so_far, name: so_far.append_column(name, added[name]), added, table)


def marks(at_s: Floats, lons: Floats, lats: Floats, cleaning: CleaningOptions) -> tuple[Any, Any]:
    """For the fixes of one client, the oldest first: the number of each one's fault in `FAULTS`, and its trip or -1."""
    faults, trips = np.zeros(len(at_s), np.int64), np.full(len(at_s), -1, np.int64)
    faults[1:][at_s[1:] == at_s[:-1]] = FAULTS.index(DUPLICATE)
    single = np.flatnonzero(faults == 0)
    possible = _possible(at_s[single], lons[single], lats[single], cleaning.speed_max_kmh / 3.6)
    faults[single[~possible]] = FAULTS.index(IMPOSSIBLE)
    kept = single[possible]
    elapsed_s, gone_m = (
        np.diff(at_s[kept]),
        distances_m(lons[kept][:-1], lats[kept][:-1], lons[kept][1:], lats[kept][1:]),
    )
    begins = (elapsed_s > cleaning.gap_s) | (gone_m > elapsed_s * cleaning.speed_max_kmh / 3.6)
    trips[kept[1:]] = np.cumsum(begins)
    trips[kept[:1]] = 0
    return faults, trips


def seconds(times: Any) -> Floats:
    """Times of a column as seconds since 1970."""
    found: Floats = pc.cast(times, pa.int64()).to_numpy() / 1e6
    return found


def _steps(at_s: Floats, lons: Floats, lats: Floats, trips: Any) -> dict[str, Floats]:
    """Time and way since the fix before in the same trip, NaN where there is none. (rule 5)"""
    found = {name: np.full(len(at_s), np.nan) for name in ("elapsed_s", "east_m", "north_m")}
    used = np.flatnonzero(trips >= 0)
    used, last = used[1:], used[:-1]
    same = trips[used] == trips[last]
    used, last = used[same], last[same]
    found["elapsed_s"][used] = at_s[used] - at_s[last]
    degrees = (lons[used] - lons[last] + 180) % 360 - 180  # the shorter direction
    found["east_m"][used] = degrees * np.cos(np.radians(lats[used])) * DEGREE_M
    found["north_m"][used] = (lats[used] - lats[last]) * DEGREE_M
    return found


def _possible(at_s: Floats, lons: Floats, lats: Floats, speed_max: float) -> Any:
    """The fixes with a reachable neighbour among the two before and the two after; all, if there are none."""
    found = np.zeros(len(at_s), np.bool_)
    for apart in (1, 2):
        near = distances_m(lons[:-apart], lats[:-apart], lons[apart:], lats[apart:])
        reached = near <= (at_s[apart:] - at_s[:-apart]) * speed_max
        found[:-apart] |= reached
        found[apart:] |= reached
    return found if found.any() else ~found
