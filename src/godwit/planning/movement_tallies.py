"""Tallies of one client's fixes for a placement of brokers: rows that can be summed over all clients.

*Theory.* A *tally* is a row `what`, `a`, `b`, `number`. The fixes of one client become some tallies, without Spark.
The sums over all clients for equal (`what`, `a`, `b`) are the tallies of the whole trace. So a small trace is tallied
in this process and a large one by Spark, with the same function.

*Rules.*
1. A client is at the nearest broker in range, as in `pipeline mobility`.
2. A *hand-over* is within a trip. A client that appears at another broker after a long silence has *returned*.
3. Presence is counted by slots of `SLOT_S`: a client that was at a broker at any time in a slot counts for all of it.
   So the maximum over slots is an upper bound of simultaneous clients.

| what | a | b | number |
|---|---|---|---|
| `client` | | | 1 |
| `left_out` | reason | | fixes |
| `used` | | | fixes |
| `at_s` | | | first and last second (the least and the most count, not the sum) |
| `observed_s` | | | seconds within trips |
| `within` | broker | | fixes in its area |
| `served` | broker | | fixes at which it is the nearest |
| `missed` | cell | | fixes that no broker reaches |
| `handover`, `return` | from | to | moves |
| `mover` | from | to | clients that went that way |
| `moves_in_hour` | hour since 1970 | | hand-overs and returns |
| `stay_s` | broker | | seconds |
| `present` | broker | slot | clients |
"""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from godwit.pipeline.mobility.cells import BrokerPlacement
from godwit.pipeline.mobility.cleaning import CleaningOptions, marked_table, seconds
from godwit.pipeline.mobility.globe import Floats, distances_m
from godwit.pipeline.mobility.visits import visits_of

__all__ = ["HOUR_S", "SCHEMA", "SLOT_S", "tallies_of"]

HOUR_S = 3_600
SLOT_S = 900
AT_ONCE = 4_000_000  # distances of fixes to brokers

SCHEMA = "what string, a string, b string, number double"

Key = tuple[str, str, str]


def tallies_of(table: Any, placement: BrokerPlacement, cleaning: CleaningOptions) -> Any:
    """The tallies of one client: from an Arrow table with client, at, lon, lat and occupied, to one of `SCHEMA`."""
    marked = marked_table(table, cleaning)
    found: Counter[Key] = Counter({("client", "", ""): 1})
    for reason in marked["fault"].drop_null().to_pylist():
        found["left_out", reason, ""] += 1
    used = marked.filter(pc.is_valid(marked["trip"]))
    rows: list[tuple[Key, float]] = []
    if used.num_rows:
        at_s = seconds(used["at"])
        lons, lats = used["lon"].to_numpy(), used["lat"].to_numpy()
        rows = [(("at_s", "", ""), float(at_s.min())), (("at_s", "", ""), float(at_s.max()))]
        found["used", "", ""] = used.num_rows
        found["observed_s", "", ""] = pc.sum(used["elapsed_s"]).as_py() or 0
        found.update({("within", name, ""): count for name, count in _within(lons, lats, placement).items()})
        places = placement.names(lons, lats)
        _tally_places(found, lons, lats, places, placement)
        placed = used.append_column("place", pa.array(places, pa.string()))
        placed = placed.filter(pc.is_valid(placed["place"]))
        if placed.num_rows:
            _tally_visits(found, visits_of(placed.select([*used.column_names, "place"])))
    rows += found.items()
    whats, these, those = zip(*(key for key, _ in rows), strict=True)
    numbers = [float(number) for _, number in rows]
    texts = {name: pa.array(held, pa.string()) for name, held in (("what", whats), ("a", these), ("b", those))}
    return pa.table({**texts, "number": pa.array(numbers, pa.float64())})


def _within(lons: Floats, lats: Floats, placement: BrokerPlacement) -> dict[str, int]:
    """By broker, the number of fixes in its area, whether or not another is nearer."""
    to_lons, to_lats = np.array(placement.lons)[None, :], np.array(placement.lats)[None, :]
    radii_m = np.array(placement.radii_m)[None, :]
    counts = np.zeros(len(placement.brokers), np.int64)
    step = max(1, AT_ONCE // len(placement.brokers))
    for start in range(0, len(lons), step):
        here = slice(start, start + step)
        counts += (distances_m(lons[here, None], lats[here, None], to_lons, to_lats) <= radii_m).sum(axis=0)
    return {name: int(count) for name, count in zip(placement.brokers, counts, strict=True) if count}


def _tally_places(
    found: Counter[Key], lons: Floats, lats: Floats, places: list[str | None], placement: BrokerPlacement
) -> None:
    found.update({("served", name, ""): count for name, count in Counter(places).items() if name is not None})
    missed = np.array([place is None for place in places])
    cells = Counter(placement.cells.names(lons[missed], lats[missed]))
    found.update({("missed", str(cell), ""): count for cell, count in cells.items()})


def _tally_visits(found: Counter[Key], visits: Any) -> None:
    places, trips = visits["place"].to_pylist(), visits["trip"].to_pylist()
    first_s, last_s = seconds(visits["first_at"]), seconds(visits["last_at"])
    for place, stay_s in zip(places, visits["dwell_s"].to_pylist(), strict=True):
        found["stay_s", place, ""] += stay_s
    present = {
        (place, slot)
        for place, first, last in zip(places, first_s, last_s, strict=True)
        for slot in range(int(first // SLOT_S), int(last // SLOT_S) + 1)
    }
    found.update({("present", place, str(slot)): 1 for place, slot in present})
    for at in range(len(places) - 1):
        came_from, to = places[at], places[at + 1]
        if came_from != to:
            found["handover" if trips[at] == trips[at + 1] else "return", came_from, to] += 1
            found["mover", came_from, to] = 1
            found["moves_in_hour", str(int(last_s[at] // HOUR_S)), ""] += 1
