"""Visits: a client is at a place, has come from one, and goes on to the next.

*Theory.* The fixes of a trip, one after the other, fall into runs at one place: *visits*. Between the last fix of a
visit and the first of the next the client has crossed a border; when, nobody saw, so half of that time counts to
either. A visit with a neighbour on both sides is *whole*, and only those say how long clients stay: the Δ of
[rebeca §5.3].

Positions come once a minute, say, and who drives fast passes through cells in between unseen. Nothing is put in there:
a straight line would be easier to predict than any driver is. So a movement graph has the steps that were seen, and a
step may skip a cell.

*Rules.*
1. Each used fix that has a place is in one visit. Visits of a trip follow each other, and two in a row differ in place.
2. A visit knows nothing of what comes after its last fix but `to`: from the rest the next place is predicted.
3. A client's transitions fall into `PARTS` by time: what a model learns lies before what it is tested with.
4. Where no broker reaches, a client is at no place; if it turns up again within its trip, it has moved from the last
   broker to the next, or not at all when they are the same.

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
    """Fixes with their `place`, null where there is none."""
    from pyspark.sql.types import StringType, StructField, StructType

    def place(batches: "Iterable[Any]") -> "Iterator[Any]":
        for batch in batches:
            names = places.names(batch.column("lon").to_numpy(), batch.column("lat").to_numpy())
            yield batch.append_column("place", pa.array(names, pa.string()))

    return fixes.mapInArrow(place, StructType([*fixes.schema.fields, StructField("place", StringType())]))


def visits(fixes: "DataFrame") -> "DataFrame":
    """The visits of each client, numbered in order of time, from fixes that are `placed`."""
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
        """The place so many visits later in the same trip, or -1."""
        found, at = np.full(len(begins), -1, np.int32), np.arange(len(begins)) + steps
        inside = np.flatnonzero((at >= 0) & (at < len(begins)))
        inside = inside[trip[at[inside]] == trip[inside]]
        found[inside] = place[at[inside]]
        return found

    before, to = beside(-1), beside(1)
    middle_s = (at_s[ends[:-1]] + at_s[begins[1:]]) / 2  # when the border was crossed, as far as anybody knows
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
    """How often clients went from place to place: `place`, `to`, `count` and how many `clients` did."""
    from pyspark.sql import functions as fn

    counts = (fn.count("*").alias("count"), fn.countDistinct("client").alias("clients"))
    return visits.where("to is not null").groupBy("place", "to").agg(*counts)


def pairs(visits: "DataFrame") -> "DataFrame":
    """How often clients that had come from a place went on to another: `before`, `place`, `to`, `count`."""
    from pyspark.sql import functions as fn

    return (
        visits.where("before is not null and to is not null")
        .groupBy("before", "place", "to")
        .agg(fn.count("*").alias("count"))
    )


def dwells(visits: "DataFrame") -> "DataFrame":
    """By place, how long clients stay: `visits`, whole ones, and seconds of these by quantile and on average."""
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
