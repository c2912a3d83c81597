"""Visits: the stays of a client at places, with the place before and the next place.

*Theory.* Consecutive fixes of a trip at one place are a *visit*. Between the last fix of a visit and the first of the
next the client has crossed a border at an unknown time, so half of that time counts for either. A visit with a
neighbour on both sides is *whole*, and only those determine dwell times: the Δ of [rebeca §5.3].

If there is, for example, one position per minute, fast clients pass through cells unseen. Nothing is interpolated: a
straight line would be easier to predict than any driver. So a movement graph has the observed steps, and a step may
skip a cell.

*Rules.*
1. Each used fix with a place is in one visit. Two consecutive visits of a trip differ in place.
2. A visit has no data from after its last fix except `to`: the next place is predicted from the rest.
3. A client's transitions are divided into `PARTS` by time: training data is before test data.
4. Out of range of all brokers a client is at no place; if it reappears within its trip, it has moved from the last
   broker to the next, or not at all if they are the same.

*Paper.* [rebeca §5.1, §5.3]. *Symbols.* Δ → `dwell_s`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from godwit.pipeline.mobility.cells import PlaceMap
from godwit.pipeline.mobility.cleaning import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

__all__ = ["PARTS", "dwells", "pairs", "placed", "transitions", "visits", "visits_of"]

QUANTILES = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
PARTS = (0.56, 0.7)
"""The shares of a client's transitions at which parts end: 0 is counted, 1 weighs what was counted, 2 is for tests."""

SCHEMA = (
    "client string, trip bigint, visit bigint, place string, first_at timestamp, last_at timestamp, fixes bigint, "
    "dwell_s double, before string, earlier string, to string, part int, occupied boolean, lon double, lat double, "
    "elapsed_s double, east_m double, north_m double"
)
LAST_SEEN = ("occupied", "lon", "lat", "elapsed_s", "east_m", "north_m")


def placed(fixes: "DataFrame", places: PlaceMap) -> "DataFrame":
    """Fixes with their `place`, or null."""
    from pyspark.sql.types import StringType, StructField, StructType

    def place(batches: "Iterable[Any]") -> "Iterator[Any]":
        for batch in batches:
            names = places.names(batch.column("lon").to_numpy(), batch.column("lat").to_numpy())
            yield batch.append_column("place", pa.array(names, pa.string()))

    return fixes.mapInArrow(place, StructType([*fixes.schema.fields, StructField("place", StringType())]))


def visits(fixes: "DataFrame") -> "DataFrame":
    """The visits of each client, numbered by time, from fixes that are `placed`."""
    return fixes.where("place is not null").groupBy("client").applyInArrow(visits_of, SCHEMA)


def visits_of(table: Any) -> Any:
    """The visits of one client."""
    table = table.sort_by("at").combine_chunks()
    trips, names = table["trip"].to_numpy(), table["place"].combine_chunks().dictionary_encode()
    numbers = names.indices.to_numpy()
    begins = np.flatnonzero(np.concatenate([[True], (trips[1:] != trips[:-1]) | (numbers[1:] != numbers[:-1])]))
    ends = np.concatenate([begins[1:], [len(trips)]]) - 1
    at_s, trip, place = seconds(table["at"]), trips[begins], numbers[begins]

    def beside(steps: int) -> Any:
        """The place this many visits later in the same trip, or -1."""
        found, at = np.full(len(begins), -1, np.int32), np.arange(len(begins)) + steps
        inside = np.flatnonzero((at >= 0) & (at < len(begins)))
        inside = inside[trip[at[inside]] == trip[inside]]
        found[inside] = place[at[inside]]
        return found

    before, to = beside(-1), beside(1)
    middle_s = (at_s[ends[:-1]] + at_s[begins[1:]]) / 2  # estimated time at which the border was crossed
    entered_s = np.where(before >= 0, np.concatenate([[0.0], middle_s]), at_s[begins])
    left_s = np.where(to >= 0, np.concatenate([middle_s, [0.0]]), at_s[ends])

    def named(places: Any) -> Any:
        return names.dictionary.take(pa.array(places, mask=places < 0))

    moves = to >= 0
    nth = np.cumsum(moves) - 1
    part = np.searchsorted(np.array(PARTS) * moves.sum(), nth, side="right").astype(np.int32)
    columns = {
        "client": table["client"].take(begins),
        "trip": pa.array(trip, pa.int64()),
        "visit": pa.array(np.arange(len(begins)), pa.int64()),
        "place": named(place),
        "first_at": table["at"].take(begins),
        "last_at": table["at"].take(ends),
        "fixes": pa.array(ends - begins + 1, pa.int64()),
        "dwell_s": pa.array(left_s - entered_s),
        "before": named(before),
        "earlier": named(beside(-2)),
        "to": named(to),
        "part": pa.array(part, mask=~moves),
        **{name: table[name].take(ends) for name in LAST_SEEN},
    }
    return pa.table(columns)


def transitions(visits: "DataFrame") -> "DataFrame":
    """The counts of steps between places: `place`, `to`, `count` and the number of `clients`."""
    from pyspark.sql import functions as fn

    counts = (fn.count("*").alias("count"), fn.countDistinct("client").alias("clients"))
    return visits.where("to is not null").groupBy("place", "to").agg(*counts)


def pairs(visits: "DataFrame") -> "DataFrame":
    """The counts of steps by place before: `before`, `place`, `to`, `count`."""
    from pyspark.sql import functions as fn

    return (
        visits.where("before is not null and to is not null")
        .groupBy("before", "place", "to")
        .agg(fn.count("*").alias("count"))
    )


def dwells(visits: "DataFrame") -> "DataFrame":
    """Dwell times by place: `visits`, whole ones, and their seconds as quantiles and mean."""
    from pyspark.sql import functions as fn

    whole = fn.when(fn.col("before").isNotNull() & fn.col("to").isNotNull(), fn.col("dwell_s"))
    found = visits.groupBy("place").agg(
        fn.count("*").alias("visits"),
        fn.count(whole).alias("whole"),
        fn.avg(whole).alias("mean_s"),
        fn.percentile(whole, list(QUANTILES.values())).alias("quantiles"),
        fn.sum("dwell_s").alias("total_s"),
    )
    quantiles = [fn.col("quantiles")[place].alias(f"{name}_s") for place, name in enumerate(QUANTILES)]
    return found.select("place", "visits", "whole", "total_s", "mean_s", *quantiles)
