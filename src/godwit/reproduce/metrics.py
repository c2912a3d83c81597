"""Figures of a run, reckoned from the tables of its trace: what moving publishers cost, and what subscribers see of it.

*Theory.* A trace is one table (`docs/reference/trace_format.md`). Who wants what is in its `asked` rows, as filters;
what was published when, as the how-manyeth event since its publisher connected, in its `probed` rows; who was given it
in its `delivered` rows; each message on each hop in its `handled` rows.

*Rules.*
1. Every function takes a table as `trace.read` gives it and knows nothing of the run.
2. `from_s` cuts off the warm-up: [pubmob §4.1] "during which no measurements are made".

*Paper.* [pubmob §4.2]: "Publications are not counted as part of tree rebuilding cost, only (un)advertisements,
(un)subscriptions, and any other control messages. Each hop a message travels is counted."
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from godwit.filters.language import parse
from godwit.reproduce.tables import CONTROL

__all__ = ["Probes", "control_messages", "percentile", "probes", "table_entries"]

Times = Any  # a NumPy array of seconds


def _of(table: Any, kind: str, *columns: str, from_s: float = 0.0) -> list[Any]:
    """Columns of the rows of a kind from a time on, as NumPy arrays; texts as objects."""
    import pyarrow.compute as pc

    rows = table.filter(pc.and_(pc.equal(table["kind"], kind), pc.greater_equal(table["at"], from_s)))
    return [rows[column].to_numpy(zero_copy_only=False) for column in columns]


def control_messages(table: Any, from_s: float, kinds: Iterable[str] = CONTROL) -> dict[str, int]:
    """Tree-building cost: messages of control that arrived at a broker from another, by type; each hop counts."""
    [messages] = _of(table, "handled", "message", from_s=from_s)
    found, counts = np.unique(messages.astype(str), return_counts=True)
    counted = dict(zip(found.tolist(), counts.tolist(), strict=True))
    return {kind: counted[kind] for kind in kinds if kind in counted}


class Probes(msgspec.Struct, frozen=True):
    """What became of probes: one entry for each pair of a probe and a subscriber that wants it."""

    number: Times  # which since its publisher connected, from 1
    stop: Times  # the how-manyeth connection of its publisher, from 1
    at: Times  # when it was published
    delay: Times  # until it was delivered; infinite when it never was

    def where(self, chosen: Any) -> "Probes":
        """Some of them."""
        return Probes(self.number[chosen], self.stop[chosen], self.at[chosen], self.delay[chosen])

    def ratio(self) -> float:
        """The share of them that was delivered."""
        return float(np.isfinite(self.delay).mean()) if len(self.delay) else float("nan")

    def ratios(self) -> list[tuple[int, float]]:
        """By number of the probe, the share that was delivered. [pubmob Fig. 5]"""
        return [(int(i), self.where(self.number == i).ratio()) for i in np.unique(self.number)]

    def delays(self) -> Times:
        """How long those took that were delivered, the quickest first. [pubmob Fig. 6]"""
        return np.sort(self.delay[np.isfinite(self.delay)])


def probes(table: Any, from_s: float = 0.0) -> Probes:
    """Every probe from a time on, with every subscriber that wants it."""
    at, publisher, sequence, number, said = _of(table, "probed", "at", "publisher", "sequence", "number", "detail")
    wanting = _wanting(table, dict.fromkeys(said.tolist()))
    delivered = _of(table, "delivered", "at", "node", "publisher", "sequence")
    came = {(who, p, s): t for t, who, p, s in zip(*(column.tolist() for column in delivered), strict=True)}
    stops: dict[str, int] = {}
    found: list[tuple[int, int, float, float]] = []
    columns = (column.tolist() for column in (at, publisher, sequence, number, said))
    for when, who, event, i, what in zip(*columns, strict=True):
        stops[who] = stops.get(who, 0) + (i == 1)
        if when >= from_s:
            delays = (came.get((subscriber, who, event), np.inf) - when for subscriber in wanting[what])
            found += [(i, stops[who], when, delay) for delay in delays]
    rows = np.array(found, dtype=float).reshape(len(found), 4)
    return Probes(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3])


def _wanting(table: Any, said: Iterable[str]) -> dict[str, list[str]]:
    """For each thing that is said, as JSON, the clients that want it; as they asked last."""
    client, kind, entry, text = _of(table, "asked", "node", "message", "subscription", "detail")
    asked: dict[tuple[str, str], str] = {}
    for who, what, name, wanted in zip(client, kind, entry, text, strict=True):
        if what == "subscription":
            asked[who, name] = wanted
    filters = {wanted: parse(wanted) for wanted in dict.fromkeys(asked.values()) if wanted}
    found: dict[str, list[str]] = {}
    for each in said:
        attributes = json.loads(each)
        matching = {wanted for wanted, filter in filters.items() if filter.holds(attributes)}
        found[each] = list(dict.fromkeys(who for (who, _), wanted in asked.items() if wanted in matching))
    return found


def table_entries(table: Any, from_s: float, names: Iterable[str] = ("in_ads", "in_subs")) -> dict[str, float]:
    """By broker, how many entries it had in these tables, on average over the time. [pubmob §4.2]"""
    import pyarrow.compute as pc

    ends_s = pc.max(table["at"]).as_py() or from_s
    at, node, size, detail = _of(table, "table", "at", "node", "number", "detail")
    wanted, found = set(names), dict.fromkeys(dict.fromkeys(node.tolist()), 0.0)
    last: dict[tuple[str, str], tuple[float, int]] = {}
    for when, who, entries, name in zip(at.tolist(), node.tolist(), size.tolist(), detail.tolist(), strict=True):
        if name in wanted:
            since, before = last.get((who, name), (from_s, 0))
            found[who] += before * max(when - max(since, from_s), 0.0)
            last[who, name] = (when, entries)
    for (who, _), (since, entries) in last.items():
        found[who] += entries * max(ends_s - max(since, from_s), 0.0)
    lasts_s = max(ends_s - from_s, 1e-9)
    return {who: total / lasts_s for who, total in found.items()}


def percentile(values: Times, share: float) -> float:
    """The value that this share of them does not exceed; not a number when there is none."""
    return float(np.quantile(values, share)) if len(values) else float("nan")
