"""Files for the simulator and brokers: movement graphs, next-place models, dwell times, proxy sets.

| file | is | who reads it |
|---|---|---|
| `movement.json` | `places` with [lon, lat], `edges`, one way | scenarios: `walking.graph`, `roaming.file`; brokers |
| `model.json` | by place, and by place before and place, where clients went | `model_file`, `publishers.model` |
| `dwell.json` | by place, how long clients stay, in seconds | people, to choose Δ (`dwell_s`) |
| `proxies.json` | by client, the fewest places that hold so much of its time | brokers: `publishers.client_proxies` |

*Rules.*
1. A step seen fewer than `steps_min` times is not an edge: receiver errors cause rare steps. All places are kept.
2. The same visits give the same files, byte for byte: all is sorted by name.
3. A proxy set is the smallest possible: places are added by time, the longest first, until the share is reached; of
   equally long ones the first by name.
4. A model has at most `PAIRS_MAX` transitions after a pair of places. If there are more, the rarest are left out, and
   predicted by the first-order model: all with a count below the smallest threshold with which the rest fits.

*Paper.* Movement graph: [rebeca §5.1, Fig. 7]. Next broker and proxies: [pubmob §3].
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from godwit.errors import PipelineError
from godwit.pipeline.mobility.cells import PlaceMap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PLACES_MAX", "check_share", "commonest", "model", "movement", "proxies", "rows", "write"]

PLACES_MAX = 100_000  # of a movement graph
EDGES_MAX = 1_000_000
PAIRS_MAX = 1_000_000


def movement(
    places: PlaceMap, dwells: list[dict[str, Any]], steps: list[dict[str, Any]], steps_min: int
) -> dict[str, Any]:
    """A movement graph: all visited places, and the steps that were seen often enough."""
    names = [row["place"] for row in dwells]
    edges = [[row["place"], row["to"]] for row in steps if row["count"] >= steps_min]
    for what, found, most in (("places", names, PLACES_MAX), ("steps", edges, EDGES_MAX)):
        if len(found) > most:
            raise PipelineError(
                f"a movement graph of {len(found):,} {what}: allowed are {most:,}, so use larger cells, or --steps-min"
            )
    centres = {name: [round(degrees, 6) for degrees in places.centre(name)] for name in names}
    return {"one_way": True, "places": centres, "edges": edges}


def model(steps: list[dict[str, Any]], pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of transitions by place, and by place before and place."""
    first: dict[str, dict[str, int]] = {}
    for row in steps:
        first.setdefault(row["place"], {})[row["to"]] = row["count"]
    second: dict[str, dict[str, dict[str, int]]] = {}
    for row in pairs:
        second.setdefault(row["before"], {}).setdefault(row["place"], {})[row["to"]] = row["count"]
    return {"transitions": first, "pairs": second}


def commonest(pairs: "DataFrame", most: int = PAIRS_MAX) -> "DataFrame":
    """All rows, or those with the highest `count` that fit. (rule 4)"""
    from pyspark.sql import functions as fn

    rows, least = 0, 1
    for count, number in sorted(pairs.groupBy("count").agg(fn.count("*")).collect(), reverse=True):
        rows += number
        if rows > most:
            least = count + 1
            break
    return pairs.where(fn.col("count") >= least)


def proxies(visits: "DataFrame", share: float) -> "DataFrame":
    """By client, the fewest `places` with at least `share` of its time, and the time in them. (rule 3)"""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    check_share(share)
    longest = Window.partitionBy("client").orderBy(fn.desc("spent_s"), "place")
    spent = visits.groupBy("client", "place").agg(fn.sum("dwell_s").alias("spent_s"))
    so_far = fn.coalesce(fn.sum("spent_s").over(longest.rowsBetween(Window.unboundedPreceding, -1)), fn.lit(0.0))
    whole = fn.sum("spent_s").over(Window.partitionBy("client"))
    return (
        spent.withColumns({"so_far": so_far, "whole": whole, "rank": fn.row_number().over(longest)})
        .where(fn.col("so_far") < share * fn.col("whole"))
        .groupBy("client")
        .agg(
            fn.transform(fn.array_sort(fn.collect_list(fn.struct("rank", "place"))), lambda row: row["place"]).alias(
                "places"
            ),
            fn.sum("spent_s").alias("spent_s"),
            fn.first("whole").alias("whole_s"),
        )
    )


def check_share(share: float) -> None:
    """Raise `PipelineError` if the share is invalid."""
    if not 0 < share <= 1:
        raise PipelineError(f"proxy sets for a share of {share:g} of the time: allowed is more than 0, and 1 at most")


def rows(frame: "DataFrame", *order: str) -> list[dict[str, Any]]:
    """All rows of a small DataFrame, in order of some columns."""
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(found, key=lambda row: tuple(row[name] for name in order))


def write(
    folder: Path,
    places: PlaceMap,
    *,
    dwells: list[dict[str, Any]],
    steps: list[dict[str, Any]],
    pairs: list[dict[str, Any]],
    proxy_sets: list[dict[str, Any]],
    share: float,
    steps_min: int,
) -> dict[str, Any]:
    """Write the four files; returns the size of the movement graph."""
    graph = movement(places, dwells, steps, steps_min)
    _write(folder / "movement.json", graph)
    _write(folder / "model.json", model(steps, pairs))
    seconds = {row["place"]: {name: _rounded(held) for name, held in row.items() if name != "place"} for row in dwells}
    _write(folder / "dwell.json", {"places": seconds})
    _write(folder / "proxies.json", {"share": share, "clients": {row["client"]: row["places"] for row in proxy_sets}})
    return graph


def _rounded(held: Any) -> Any:
    return round(held, 3) if isinstance(held, float) else held


def _write(file: Path, data: Mapping[str, Any]) -> None:
    """JSON with one entry per line, so that files can be compared and read."""
    parts = []
    for name, held in data.items():
        if isinstance(held, dict | list) and held:
            items = (
                [f"{_text(key)}: {_text(value)}" for key, value in held.items()]
                if isinstance(held, dict)
                else [_text(value) for value in held]
            )
            opens, closes = ("{", "}") if isinstance(held, dict) else ("[", "]")
            parts.append(f"{_text(name)}: {opens}\n" + ",\n".join(items) + f"\n{closes}")
        else:
            parts.append(f"{_text(name)}: {_text(held)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    fresh.replace(file)


def _text(held: Any) -> str:
    return json.dumps(held, ensure_ascii=False, allow_nan=False)
