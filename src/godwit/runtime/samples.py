"""Metrics of a broker over time, and dropped events: samples that are taken only while they are requested.

*Rules.*
1. A sample is taken at a request, if the last one is older than `STEP_S`. There is no timer: without requests there is
   no cost, and a gap in the samples.
2. Samples of the last day (`DAY_S`) are kept: all of the last hour (`FINE_S`), and of the rest one every
   `COARSE_STEP_S`. So there are never more than `SAMPLES_MAX`, however many requests there are.
3. Counters are sums since the broker started, so that a rate is the difference of two samples. Times are histograms:
   counts of all samples so far, by the bounds in `BOUNDS_S`.
4. An answer has at most `ROWS_MAX` samples: of more, every second, third and so on, and the last. Since counters are
   sums, rates stay right.
"""

from collections import deque
from collections.abc import Callable
from itertools import chain, takewhile
from typing import Any

from godwit.runtime.activity_monitor import SECONDS, ActivityMonitor
from godwit.runtime.delivery_times import DeliveryTimes
from godwit.runtime.gc_tuning import process_bytes
from godwit.runtime.node import Node
from godwit.runtime.relocation_gaps import RelocationGaps

__all__ = [
    "BOUNDS_S",
    "COARSE_STEP_S",
    "DAY_S",
    "DROPS",
    "FINE_S",
    "ROWS_MAX",
    "SAMPLES_MAX",
    "STEP_S",
    "Drops",
    "Samples",
    "Series",
]

STEP_S = 2.0
FINE_S = 3_600.0
COARSE_STEP_S = 30.0
DAY_S = 86_400.0
SAMPLES_MAX = int(FINE_S / STEP_S + (DAY_S - FINE_S) / COARSE_STEP_S) + 2  # both ends of each part count
BOUNDS_S = SECONDS
ROWS_MAX = 2_000
RECORDS = ("relocated", "lost", "purged", "expired", "refused", "residue", "out_of_context")


DROPS = ("lost", "purged", "expired", "out_of_context", "not_addressed", "residue", "suppressed")
"""Records of an event that did not arrive, by kind."""


class Series:
    """Samples of `take` over a day. (rules 1, 2 and 4)"""

    def __init__(self, take: Callable[[float], dict[str, Any]], now: Callable[[], float]) -> None:
        self._take = take
        self._now = now
        self._fine: deque[dict[str, Any]] = deque()  # of the last hour
        self._coarse: deque[dict[str, Any]] = deque()  # of the day before it

    def __len__(self) -> int:
        return len(self._coarse) + len(self._fine)

    def since(self, at: float) -> list[dict[str, Any]]:
        """The samples since then, and a new one if it is due."""
        now = self._now()
        if not self._fine or now - self._fine[-1]["at"] >= STEP_S:
            self._fine.append({"at": now, **self._take(now)})
        self._thin(now)
        latest_first = chain(reversed(self._fine), reversed(self._coarse))
        rows = list(takewhile(lambda row: row["at"] > at, latest_first))
        step = -(-len(rows) // ROWS_MAX) or 1
        return rows[::step][::-1]

    def _thin(self, now: float) -> None:
        """Forget what is older than a day, and most of what is older than an hour. (rule 2)"""
        while self._fine[0]["at"] < now - FINE_S:
            row = self._fine.popleft()
            if not self._coarse or row["at"] - self._coarse[-1]["at"] >= COARSE_STEP_S:
                self._coarse.append(row)
        while self._coarse and self._coarse[0]["at"] < now - DAY_S:
            self._coarse.popleft()


class Drops:
    """Events that did not arrive, by reason, as sums since the broker started."""

    def __init__(self, activity: ActivityMonitor, now: Callable[[], float]) -> None:
        self._activity = activity
        self._series = Series(self._taken, now)

    def since(self, at: float) -> dict[str, Any]:
        """The samples since then."""
        return {"samples": self._series.since(at)}

    def _taken(self, now: float) -> dict[str, Any]:
        counts = self._activity.counts
        refused = self._activity.refusals + counts.get("refused", 0)  # of clients, and of neighbours
        return {"counts": {"refused": refused, **{kind: counts.get(kind, 0) for kind in DROPS}}}


class Samples:
    """The samples of one broker."""

    def __init__(
        self, node: Node, activity: ActivityMonitor, held_bytes: Callable[[], int], now: Callable[[], float]
    ) -> None:
        self._node = node
        self._activity = activity
        self._held_bytes = held_bytes
        self._gaps = RelocationGaps(activity)
        self._deliveries = DeliveryTimes(activity)
        self._series = Series(self._taken, now)

    def __len__(self) -> int:
        return len(self._series)

    def since(self, at: float) -> dict[str, Any]:
        """The samples since then, and a new one if it is due. (rule 1)"""
        return {"bounds_s": BOUNDS_S, "samples": self._series.since(at)}

    def _taken(self, now: float) -> dict[str, Any]:
        activity, machine = self._activity, self._node.machine
        sessions = list(getattr(machine, "sessions", ()))
        return {
            "inputs": activity.inputs,
            "deliveries": activity.deliveries,
            "received_bytes": activity.came,
            "records": {kind: activity.counts.get(kind, 0) for kind in RECORDS},
            "attached": sum(session.connection is not None for session in sessions),
            "sessions": len(sessions),
            "queued": sum(len(session.queue) for session in sessions),
            "held_bytes": self._held_bytes(),
            "process_bytes": process_bytes(),
            "pending_inputs": self._node.unhandled,
            "unwritten_inputs": self._node.unsafe,
            "match_s": list(activity.matching.counts),
            "write_s": list(activity.writing.counts),
            "lag_s": list(activity.lateness.counts),
            "gap_s": self._gaps.counts(),
            "delivery_s": self._deliveries.counts(),
        }
