"""Stay points: positions at which a client stayed within a radius for a time.

*Theory.* The following fixes within `radius_m` of a fix belong to it. If the last of them is at least `stay_s` later,
the client has stayed, at the mean of their positions, and the search continues after them; if not, it continues with
the next fix. A stay is within one trip: positions in a gap are unknown.
"""

from dataclasses import dataclass
from math import cos, hypot, radians
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.errors import PipelineError
from godwit.pipeline.mobility.globe import DEGREE_M

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

__all__ = ["StayOptions", "stay_points", "stays"]

COLUMNS = {
    "client": pa.string(),
    "first_at": pa.timestamp("us", tz="UTC"),
    "last_at": pa.timestamp("us", tz="UTC"),
    "lon": pa.float64(),
    "lat": pa.float64(),
    "fixes": pa.int64(),
}
SCHEMA = "client string, first_at timestamp, last_at timestamp, lon double, lat double, fixes bigint"

Stay = tuple[int, int]
"""The first fix of it, and the first one after it."""


@dataclass(frozen=True)
class StayOptions:
    """The radius and the shortest duration of a stay."""

    radius_m: float = 200.0
    stay_s: float = 1_200.0

    def __post_init__(self) -> None:
        for what, held, unit in (("within", self.radius_m, "m"), ("for", self.stay_s, "s")):
            if not 0 < held < float("inf"):
                raise PipelineError(f"a stay {what} {held:g} {unit}: it must be above 0")


def stay_points(marked: "DataFrame", staying: StayOptions) -> "DataFrame":
    """The stay points of each client."""

    def find(table: Any) -> Any:
        table = table.sort_by("at")
        micros = pc.cast(table["at"], pa.int64()).to_pylist()
        lons, lats, trips = (table[name].to_pylist() for name in ("lon", "lat", "trip"))
        found = list(stays([at / 1e6 for at in micros], lons, lats, trips, staying))
        rows = (
            [table["client"][0].as_py()] * len(found),
            [micros[first] for first, _ in found],
            [micros[after - 1] for _, after in found],
            [_mean(lons[first:after]) for first, after in found],
            [_mean(lats[first:after]) for first, after in found],
            [after - first for first, after in found],
        )
        arrays = [pa.array(row, type) for row, type in zip(rows, COLUMNS.values(), strict=True)]
        return pa.table(arrays, names=list(COLUMNS))

    used = marked.where("trip is not null").select("client", "at", "lon", "lat", "trip")
    return used.groupBy("client").applyInArrow(find, SCHEMA)


def stays(
    at_s: "Sequence[float]",
    lons: "Sequence[float]",
    lats: "Sequence[float]",
    trips: "Sequence[int]",
    staying: StayOptions,
) -> "Iterator[Stay]":
    """The stays among the fixes of one client, the oldest first."""
    first, end = 0, len(at_s)
    while first < end:
        trip, lon, lat = trips[first], lons[first], lats[first]
        east_m = DEGREE_M * cos(radians(lat))  # in a degree; accurate enough within the radius
        after = first + 1
        while (
            after < end
            and trips[after] == trip
            and hypot(((lons[after] - lon + 180) % 360 - 180) * east_m, (lats[after] - lat) * DEGREE_M)
            <= staying.radius_m
        ):
            after += 1
        if at_s[after - 1] - at_s[first] >= staying.stay_s:
            yield first, after
            first = after
        else:
            first += 1


def _mean(values: "Sequence[float]") -> float:
    return sum(values) / len(values)
