"""The conditions of the claims P2, P3 and P4 of `pubmob` on four runs with the most publishers, and of P1 on the state
of brokers.

*Theory.* A claim is a conjunction of conditions, each with a bound from the paper's words. `pubmob.py` decides a claim
by them; `pubmob_search.py` also uses the distance of a setting from each (`Condition.shortfall`), to choose the next
setting.

*Rules.*
1. Bounds are constants here and nowhere else.
2. A shortfall is 0 exactly when the condition holds, and at most 1.

*Paper.* [pubmob §4.3 Fig. 4, 5, 6].
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from godwit.reproduce.pubmob_metrics import ProbeCounts

__all__ = [
    "ABOUT_A_THIRD_S",
    "ALL_THERE",
    "FAR_MORE",
    "LINEAR",
    "MODES",
    "MOST",
    "NEARLY_FOUR_S",
    "SAME_STATE",
    "Condition",
    "cost_conditions",
    "first_ratios",
    "linearity",
    "probe_conditions",
    "stands_after",
    "state_conditions",
    "time_conditions",
]

MODES = ("standard", "prefetching", "proxy", "delayed")
FAR_MORE = 10  # "more than ten times"
NEARLY_FOUR_S = (3.5, 4.0)  # "nearly 4 seconds"; 4.2 means that not even the last probe reached everybody
ABOUT_A_THIRD_S = (0.15, 0.6)  # "about 0.3 seconds", half to twice
ALL_THERE = 0.995  # the share of a probe's deliveries at which we say that its trees stand
MOST = 0.9  # of DELAYED's first probes; STANDARD delivers fewer
EVERY_S = 0.2
LINEAR = 0.9  # of the variation: "approximately linearly"
SAME_STATE = 1.25  # times the least: "about the same state", and "slightly more"


class Condition(msgspec.Struct, frozen=True):
    """One condition of a claim."""

    claim: str  # its key
    text: str
    shortfall: float  # how far the run is from it, from 0 to 1

    @property
    def holds(self) -> bool:
        """Whether the run meets it."""
        return self.shortfall == 0


def stands_after(probes: ProbeCounts) -> float:
    """How long after the connection, in seconds, all later probes are delivered."""
    missing = [i for i, ratio in probes.ratios() if ratio < ALL_THERE]
    return (max(missing) + 1) * EVERY_S if missing else 0.0


def first_ratios(probes: Mapping[str, ProbeCounts]) -> dict[str, float]:
    """By mode, the share of first probes that was delivered."""
    return {mode: dict(each.ratios()).get(1, float("nan")) for mode, each in probes.items()}


def linearity(points: Sequence[tuple[float, float]], is_proportional: bool = False) -> float:
    """The share of the variation that the best straight line explains; a proportional one goes through the origin."""
    x, y = np.array(points, dtype=float).T
    line = x * (x @ y) / (x @ x) if is_proportional else np.polyval(np.polyfit(x, y, 1), x)
    left, all_there_is = float(((y - line) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    return 1 - left / all_there_is if all_there_is else float(left == 0)


def state_conditions(
    by_publishers: Mapping[str, Mapping[int, float]], by_depth: Mapping[str, Mapping[int, float]]
) -> Sequence[Condition]:
    """P1, by mode the mean number of entries of a broker: by number of publishers, and at the most by depth."""
    most = {mode: by[max(by)] for mode, by in by_publishers.items()}
    growths = [linearity(list(by.items())) for by in by_publishers.values()]
    rises = all(by[max(by)] > by[min(by)] for by in by_publishers.values())
    others = max(entries for mode, entries in most.items() if mode != "proxy")
    levels = [[by[depth] for depth in sorted(by)] for by in by_depth.values()]
    fall = min(near - far for each in levels for near, far in pairwise(each))
    return (
        Condition("P1", "the state grows about linearly", _above(min(growths), LINEAR) if rises else 1.0),
        Condition(
            "P1", "all keep about the same state", _at_least(SAME_STATE * min(most.values()), max(most.values()))
        ),
        Condition("P1", "PROXY keeps slightly more", _above(most["proxy"], others)),
        Condition("P1", "brokers closer to the root keep more", float(fall <= 0)),
    )


def cost_conditions(each: Mapping[str, float]) -> Sequence[Condition]:
    """P2, by mode the messages for each move in the main experiment."""
    cheap, dear = max(each["proxy"], each["delayed"]), min(each["standard"], each["prefetching"])
    return (
        Condition("P2", "STANDARD and PREFETCHING cost ten times PROXY and DELAYED", _above(dear, FAR_MORE * cheap)),
        Condition("P2", "PREFETCHING costs more than STANDARD", _above(each["prefetching"], each["standard"])),
        Condition("P2", "DELAYED costs less than PROXY", _above(each["proxy"], each["delayed"])),
    )


def probe_conditions(probes: Mapping[str, ProbeCounts]) -> Sequence[Condition]:
    """P3, the deliveries of probes by mode. The first is about STANDARD's time, the last about DELAYED's."""
    after = {mode: stands_after(each) for mode, each in probes.items()}
    first = first_ratios(probes)
    others = max(seconds for mode, seconds in after.items() if mode != "standard")
    lowest = min(ratio for mode, ratio in first.items() if mode != "standard")
    return (
        Condition("P3", "STANDARD's trees stand after nearly 4 s", _between(after["standard"], NEARLY_FOUR_S)),
        Condition("P3", "STANDARD's trees stand last", _at_least(after["standard"], max(others, EVERY_S))),
        Condition(
            "P3", "STANDARD loses the most first probes", _at_least(min(lowest, _below(MOST)), first["standard"])
        ),
        Condition("P3", "PREFETCHING's first probes arrive", _above(first["prefetching"], ALL_THERE)),
        Condition("P3", "most of DELAYED's first probes arrive", _above(first["delayed"], MOST)),
        Condition(
            "P3", "DELAYED takes at most half of STANDARD's time", _at_least(after["standard"] / 2, after["delayed"])
        ),
    )


def time_conditions(probes: Mapping[str, ProbeCounts]) -> Sequence[Condition]:
    """P4, the deliveries of probes by mode."""
    medians = {mode: each.percentile(0.5) for mode, each in probes.items()}
    near = max(_between(median, ABOUT_A_THIRD_S) for median in medians.values())
    others = [median for mode, median in medians.items() if mode not in ("standard", "prefetching")]
    return (
        Condition("P4", "medians are about 0.3 s", near),
        Condition(
            "P4",
            "PREFETCHING is fastest",
            _at_least(min(*others, medians["standard"]), medians["prefetching"]),
        ),
        Condition("P4", "STANDARD is slowest", _above(medians["standard"], max(*others, medians["prefetching"]))),
    )


# ---------------------------------------------------------------- shortfalls


def _below(bound: float) -> float:
    return bound * (1 - 1e-9)


def _above(value: float, bound: float) -> float:
    """How far a value is from being greater than a bound."""
    return 0.0 if value > bound else max(_missing(value, bound), 1e-9)


def _at_least(value: float, bound: float) -> float:
    return 0.0 if value >= bound else _missing(value, bound)


def _missing(value: float, bound: float) -> float:
    if bound <= 0 or math.isnan(bound) or math.isnan(value):  # not a number: nothing came
        return 1.0
    return min(1.0, (bound - value) / bound)


def _between(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    if low <= value <= high:
        return 0.0
    return _missing(value, low) if value < low else min(1.0, (value - high) / high) if value > high else 1.0
