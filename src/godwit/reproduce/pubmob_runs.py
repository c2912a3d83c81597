"""The runs of `pubmob`, experiment by experiment: what is run, and what is changed from run to run.

*Rules.*
1. Runs of which only the cost is counted have no probes, none of which is a cost [pubmob §4.2].
2. In other runs connections of the warm-up have no probes, which nobody would count. Publishers connect in the first
   half of the warm-up, and move after it: so only first connections have none. P6 has them, because it is about them.
"""

from typing import Any

from godwit.reproduce.city import AnalysedRun, Runs
from godwit.reproduce.pubmob_bounds import MODES
from godwit.reproduce.pubmob_metrics import Also
from godwit.reproduce.pubmob_sizes import Size

__all__ = [
    "BOTH",
    "LOCAL_MODES",
    "LONG_S",
    "SPEEDS_KMH",
    "ByMode",
    "full_runs",
    "locality_runs",
    "long_runs",
    "moving_runs",
    "overshoot_runs",
    "publisher_runs",
    "quiet_runs",
    "speed_runs",
    "subscriber_runs",
]

BOTH = "prefetching+delayed"
SPEEDS_KMH = (25, 50, 75, 100)
LOCAL_MODES = ("standard", "proxy", "delayed")
LONG_S = 1_200  # after which even slow publishers have left their proxies

QUIET = {"clients.probes.count": 0}

ByMode = dict[str, dict[Any, AnalysedRun]]
"""By mode, and by the one thing that an experiment changes."""


def publisher_runs(size: Size, runs: Runs) -> ByMode:
    """P1: all modes, by number of publishers."""
    return {
        mode: {
            n: _usual_run(size, runs, mode, n, size.proxy_s if mode == "proxy" else size.duration_s, QUIET, "entries")
            for n in size.publishers
        }
        for mode in MODES
    }


def full_runs(size: Size, runs: Runs) -> dict[str, AnalysedRun]:
    """P2 to P4: all modes, with the most publishers and for the same time."""
    later = _probes_later(size)
    return {
        mode: _usual_run(size, runs, mode, max(size.publishers), size.duration_s, later, "rebuilt") for mode in MODES
    }


def quiet_runs(size: Size, runs: Runs) -> dict[str, AnalysedRun]:
    """P3: those of `full_runs` without a probe, so that nothing but the trees themselves delays them."""
    return {
        mode: _usual_run(size, runs, mode, max(size.publishers), size.duration_s, QUIET, "rebuilt") for mode in MODES
    }


def _probes_later(size: Size) -> dict[str, Any]:
    """(rule 2)"""
    return {"clients.probes.from_s": size.warmup_s}


def _usual_run(
    size: Size, runs: Runs, mode: str, publishers: int, duration_s: float, changes: dict[str, Any], also: Also
) -> AnalysedRun:
    return runs.seen(
        mode,
        publishers=publishers,
        subscribers=size.subscribers,
        duration_s=duration_s,
        warmup_s=size.warmup_s,
        changes=changes,
        also=[also],
    )


def long_runs(size: Size, runs: Runs) -> dict[str, AnalysedRun]:
    """P2: PROXY and DELAYED until even slow publishers have left their proxies."""
    return {
        mode: runs.seen(
            mode,
            publishers=size.usual,
            subscribers=size.subscribers,
            duration_s=LONG_S,
            warmup_s=size.warmup_s,
            changes=QUIET,
        )
        for mode in ("proxy", "delayed")
    }


def subscriber_runs(size: Size, runs: Runs) -> ByMode:
    """P5: STANDARD and DELAYED, by number of subscribers."""
    return {
        mode: {
            n: runs.seen(
                mode,
                publishers=size.usual,
                subscribers=n,
                duration_s=size.short_s,
                warmup_s=size.warmup_s,
                changes=_probes_later(size),
            )
            for n in size.more_subscribers
        }
        for mode in ("standard", "delayed")
    }


def speed_runs(size: Size, runs: Runs) -> ByMode:
    """STANDARD at all speeds, the others at the lowest and the highest."""
    return {
        mode: {
            v: runs.seen(
                mode,
                publishers=size.usual,
                subscribers=size.subscribers,
                duration_s=size.speed_s,
                warmup_s=4,
                changes={"clients.roaming.speeds_kmh": [v]},
            )
            for v in (SPEEDS_KMH if mode == "standard" else (SPEEDS_KMH[0], SPEEDS_KMH[-1]))
        }
        for mode in MODES
    }


def overshoot_runs(size: Size, runs: Runs) -> ByMode:
    """P7: PROXY by way to move, and by overshoot."""
    seen: ByMode = {}
    for label, turns in (("turning at random", 0.5), ("going all the way", 0.0)):
        seen[label] = {
            delta: runs.seen(
                "proxy",
                publishers=size.usual,
                subscribers=size.subscribers,
                duration_s=size.overshoot_s,
                warmup_s=size.warmup_s,
                changes={
                    "clients.roaming.confined_to": 5,
                    "clients.roaming.overshoot": delta,
                    "clients.roaming.speeds_kmh": [100],
                    "clients.roaming.turns": turns,
                    **QUIET,
                },
            )
            for delta in size.overshoots
        }
    return seen


def locality_runs(size: Size, runs: Runs) -> ByMode:
    """P8: by share of equal publications."""
    return {
        mode: {
            share: runs.seen(
                mode,
                publishers=size.usual,
                subscribers=size.subscribers,
                duration_s=size.short_s,
                warmup_s=size.warmup_s,
                changes={**_probes_later(size), "workload.locality": share},
            )
            for share in size.localities
        }
        for mode in LOCAL_MODES
    }


def moving_runs(size: Size, runs: Runs) -> ByMode:
    """All modes and the combination, with subscribers that stay (False) and that move (True)."""
    return {
        mode: {
            is_moving: runs.seen(
                mode,
                publishers=size.usual,
                subscribers=size.subscribers,
                duration_s=size.short_s,
                warmup_s=size.warmup_s,
                changes={**_probes_later(size), **({"clients.roaming.who": "all"} if is_moving else {})},
            )
            for is_moving in (False, True)
        }
        for mode in (*MODES, BOTH)
    }
