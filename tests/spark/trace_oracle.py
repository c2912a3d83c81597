"""What `godwit.pipeline.analytics` must come to, reckoned row by row in plain Python: slow, and easy to believe."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from godwit import trace
from godwit.filters.language import parse

Row = dict[str, Any]
Pair = tuple[str, int, str, int, int, float, float | None]


def rows_of(folder: Path) -> list[Row]:
    found: list[Row] = trace.read(folder).to_pylist()
    return found


def _of(rows: Iterable[Row], *kinds: str) -> Iterator[Row]:
    return (row for row in rows if row["kind"] in kinds)


def delivered(rows: list[Row]) -> tuple[int, int, int]:
    """Deliveries, those that came again, those that came first after a later one of their publisher."""
    seen: set[tuple[str, str, int]] = set()
    highest: dict[tuple[str, str], int] = {}
    count = again = overtaken = 0
    for row in _of(rows, "delivered"):
        key, source = (row["node"], row["publisher"], row["sequence"]), (row["node"], row["publisher"])
        count += 1
        again += key in seen
        if key not in seen:
            overtaken += row["sequence"] < highest.get(source, row["sequence"])
            highest[source] = max(row["sequence"], highest.get(source, row["sequence"]))
        seen.add(key)
    return count, again, overtaken


def published_at(rows: list[Row]) -> dict[tuple[str, int], float]:
    found: dict[tuple[str, int], float] = {}
    for row in _of(rows, "probed", "published"):
        id = row["publisher"], row["sequence"]
        found[id] = min(row["at"], found.get(id, row["at"]))
    return found


def delays(rows: list[Row], from_s: float) -> list[float]:
    """How long the first delivery of each event to each client took, of those published since, the quickest first."""
    said, seen, found = published_at(rows), set(), []
    for row in _of(rows, "delivered"):
        id = row["publisher"], row["sequence"]
        if (row["node"], id) not in seen and said.get(id, -1.0) >= from_s:
            found.append(row["at"] - said[id])
        seen.add((row["node"], id))
    return sorted(found)


def probes(rows: list[Row]) -> list[Pair]:
    """Publisher, sequence, subscriber, number, stop, when, and how long until it came."""
    asked: dict[tuple[str, str], str] = {}
    for row in _of(rows, "asked"):
        if row["message"] == "subscription":
            asked[row["node"], row["subscription"]] = row["detail"]
    came: dict[tuple[str, str, int], float] = {}
    for row in _of(rows, "delivered"):
        came.setdefault((row["node"], row["publisher"], row["sequence"]), row["at"])
    stops: Counter[str] = Counter()
    found = []
    for row in _of(rows, "link_up", "probed"):
        if row["kind"] == "link_up":
            stops[row["node"]] += 1
            continue
        said = json.loads(row["detail"])
        for who in {who for (who, _), wanted in asked.items() if wanted and parse(wanted).holds(said)}:
            at = came.get((who, row["publisher"], row["sequence"]))
            delay = None if at is None else at - row["at"]
            found.append(
                (row["publisher"], row["sequence"], who, row["number"], stops[row["publisher"]], row["at"], delay)
            )
    return found


def clients(rows: list[Row]) -> set[str]:
    greeted = {row["node"] for row in _of(rows, "handled") if row["message"] == "Attached"}
    return greeted | {row["node"] for row in _of(rows, "delivered")}


def moves(rows: list[Row]) -> list[tuple[str, float, str, str, float | None]]:
    """Client, when, from where, to where, until when."""
    last: dict[str, str] = {}
    found: list[tuple[str, float, str, str, float | None]] = []
    known = clients(rows)
    for row in _of(rows, "link_up"):
        who, where = row["node"], row["peer"]
        if who in known:
            if last.get(who, where) != where:
                found = [(*each[:4], row["at"]) if each[0] == who and each[4] is None else each for each in found]
                found.append((who, row["at"], last[who], where, None))
            last[who] = where
    return found


def gaps(rows: list[Row]) -> list[tuple[str, float, float | None, float | None]]:
    """For each move: client, when, until an event came, and until one came that was published since."""
    entered = {(row["publisher"], row["sequence"]): row["at"] for row in _of(rows, "published")}
    found = []
    for who, at, _, _, until in moves(rows):
        stay = [
            (row["at"], entered.get((row["publisher"], row["sequence"]), 0.0))
            for row in _of(rows, "delivered")
            if row["node"] == who and row["at"] >= at and (until is None or row["at"] < until)
        ]
        new = [when for when, said in stay if said >= at]
        found.append((who, at, stay[0][0] - at if stay else None, new[0] - at if new else None))
    return found


def rebuilds(rows: list[Row]) -> list[tuple[str, float, float]]:
    """For each move of a client that advertises: client, when, and until the last message that builds its trees."""
    advertised: dict[str, set[str]] = {}
    for row in _of(rows, "asked"):
        if row["message"] == "advertisement" and row["detail"]:
            advertised.setdefault(row["node"], set()).add(row["detail"])
    ends = {who: [(place, row["at"]) for place, row in enumerate(rows) if _is_end(row, who)] for who in advertised}
    built = [row for row in _of(rows, "handled") if row["detail"] and row["message"] in ("Advertise", "Subscribe")]
    last: dict[str, str] = {}
    found = []
    known = clients(rows)
    for place, row in enumerate(rows):
        who, where = row["node"], row["peer"]
        if row["kind"] != "link_up" or who not in known:
            continue
        if last.get(who, where) != where and who in advertised:
            left = max((at for before, at in ends[who] if before < place), default=0.0)
            leaves = min((at for after, at in ends[who] if after > place), default=float("inf"))
            times = [
                each["at"]
                for each in built
                if left <= each["at"] < leaves
                and any(parse(each["detail"]).intersects(parse(own)) for own in advertised[who])
            ]
            found.append((who, row["at"], max(max(times, default=0.0) - row["at"], 0.0)))
        last[who] = where
    return found


def _is_end(row: Row, who: str) -> bool:
    return bool(row["kind"] == "link_down" and row["node"] == who)


def traffic(rows: list[Row], from_s: float) -> dict[tuple[str, bool], tuple[int, int]]:
    known = clients(rows)
    found: dict[tuple[str, bool], tuple[int, int]] = {}
    for row in _of(rows, "handled"):
        if row["at"] >= from_s:
            key = row["message"], row["node"] in known or row["peer"] in known
            hops, size = found.get(key, (0, 0))
            found[key] = hops + 1, size + row["size"]
    return found


def table_sizes(rows: list[Row], from_s: float) -> dict[tuple[str, str], tuple[float, int]]:
    """By broker and table, entries on average since, and at last."""
    ends_s = max(row["at"] for row in rows)
    held: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], tuple[float, int]] = {}
    for row in _of(rows, "table"):
        key = row["node"], row["detail"]
        since, entries = last.get(key, (from_s, 0))
        held[key] += entries * max(row["at"] - max(since, from_s), 0.0)
        last[key] = row["at"], row["number"]
    for key, (since, entries) in last.items():
        held[key] += entries * max(ends_s - max(since, from_s), 0.0)
    return {key: (held[key] / max(ends_s - from_s, 1e-9), entries) for key, (_, entries) in last.items()}


def entries_after(rows: list[Row], table: str, wide: float, pieces: int) -> int:
    """Entries in a table of all brokers, after so many pieces of time, each so wide."""
    changes = [row for row in _of(rows, "table") if row["detail"] == table and int(row["at"] / wide) < pieces]
    return sum({row["node"]: row["number"] for row in changes}.values())
