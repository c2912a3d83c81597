"""How P2, P5, P6 and P7 are decided from the figures of runs: each bound is missed once, and the grade says so.

The figures are those of a quick run with seed 1, a little rounded; tests/spark/test_quick_verdicts.py makes such runs.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from godwit.reproduce import Claim, Setting, pubmob
from godwit.reproduce.pubmob_metrics import ProbeCounts
from godwit.reproduce.pubmob_runs import SPEEDS_KMH
from godwit.reproduce.pubmob_sizes import QUICK

READING, NOT = "holds under a stated reading", "does not hold"


class Seen:
    """The figures of a run that these claims look at."""

    def __init__(
        self, total: float, moves: int = 1, ratio: float = 1.0, mean_s: float = 0.2, later: Any = None
    ) -> None:
        self.total, self.moves = total, moves
        self.each = total / moves
        self.each_second = total / 100
        self.probes = self.first = self.measured = ProbeCounts({1: (1_000, round(1_000 * ratio))}, mean_s)
        if later is not None:
            self.measured = later


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubmob, "draw", lambda *said, **more: None)


SETTING = Setting(folder=Path())


# ---------------------------------------------------------------- P2


def ten_times(longer: dict[str, float] | None = None, **each: float) -> Claim:
    most = {"standard": 182.0, "prefetching": 203.0, "proxy": 2.3, "delayed": 7.5, **each}
    at_last = {"proxy": 13.1, "delayed": 7.7, **(longer or {})}
    runs: Any = ({mode: Seen(cost) for mode, cost in costs.items()} for costs in (most, at_last))
    return pubmob._ten_times(QUICK, *runs)


@pytest.mark.parametrize(
    ("found", "grade"),
    [
        ({}, READING),
        ({"proxy": 8.0}, "holds"),
        ({"standard": 130.0}, NOT),  # less than ten times PROXY in a long run
        ({"prefetching": 181.0}, NOT),  # less than STANDARD
        ({"delayed": 18.3}, NOT),
        ({"longer": {"delayed": 13.2}}, NOT),  # dearer than PROXY even then
        ({"longer": {"proxy": 18.3}}, NOT),
    ],
)
def test_p2_is_decided_by_ten_times_and_by_the_order(found: dict[str, Any], grade: str) -> None:
    assert ten_times(**found).grade == grade


# ---------------------------------------------------------------- P5


def subscribers(standard: tuple[float, ...], delayed: tuple[float, ...], last_ratio: float = 0.95) -> Claim:
    numbers = QUICK.more_subscribers
    ratios = (0.95, 0.95, last_ratio)
    seen: Any = {
        mode: {n: Seen(cost, ratio=ratio) for n, cost, ratio in zip(numbers, costs, ratios, strict=True)}
        for mode, costs in (("standard", standard), ("delayed", delayed))
    }
    return pubmob._subscribers(SETTING, QUICK, seen)


MINIMAL = (1_000.0, 1_020.0, 1_050.0)


@pytest.mark.parametrize(
    ("standard", "delayed", "last_ratio", "grade"),
    [
        (MINIMAL, MINIMAL, 0.95, "holds"),
        (MINIMAL, MINIMAL, 0.92, NOT),  # the delivery ratio changes
        ((1_000.0, 1_150.0, 1_250.0), MINIMAL, 0.95, READING),
        ((1_000.0, 1_150.0, 1_250.0), MINIMAL, 0.98, NOT),
        ((1_000.0, 1_050.0, 1_250.0), MINIMAL, 0.95, NOT),  # the last subscribers cost more than those before
        (MINIMAL, (1_000.0, 1_050.0, 1_250.0), 0.95, NOT),
    ],
)
def test_p5_is_decided_by_the_growth_and_by_what_further_subscribers_add(
    standard: tuple[float, ...], delayed: tuple[float, ...], last_ratio: float, grade: str
) -> None:
    assert subscribers(standard, delayed, last_ratio).grade == grade


# ---------------------------------------------------------------- P6


def speeds(change: Callable[[dict[str, dict[int, Seen]]], None] = lambda found: None, *, full: bool = True) -> Claim:
    """A run in which all that P6 says is so, and the plain reading holds; but for a change."""
    found: dict[str, dict[int, Seen]] = {
        "standard": {
            v: Seen(
                80.0 * v, v, 0.9 + v / 2_000, 0.3 - v / 1_000, ProbeCounts({1: (1_000, 900 + v // 5)}, 0.3 - v / 900)
            )
            for v in SPEEDS_KMH
        }
    }
    for mode, cost in (("prefetching", 100.0), ("proxy", 1.0), ("delayed", 2.0)):
        found[mode] = {v: Seen(cost * v, v, 1.0, 0.3 - v / 1_000) for v in (25, 100)}
    change(found)
    runs: Any = found
    return pubmob._speed(Setting(folder=Path(), full=full), runs)


def _no_dearer_when_fast(found: dict[str, dict[int, Seen]]) -> None:
    found["standard"][100].total = found["standard"][75].total - 1


def _delayed_rises_most(found: dict[str, dict[int, Seen]]) -> None:
    found["delayed"][100].each_second = found["standard"][100].each_second + 1


def _proxy_is_slower_when_fast(found: dict[str, dict[int, Seen]]) -> None:
    slow = found["proxy"][25].probes
    found["proxy"][100].probes = found["proxy"][100].measured = slow


def _delivers_less_without_first_connections(found: dict[str, dict[int, Seen]]) -> None:
    found["standard"][100].measured = ProbeCounts({1: (1_000, 800)}, 0.1)


def _delivers_less_in_both(found: dict[str, dict[int, Seen]]) -> None:
    _delivers_less_without_first_connections(found)
    found["standard"][100].probes = found["standard"][100].measured


def _delivers_later_in_both(found: dict[str, dict[int, Seen]]) -> None:
    found["standard"][100].measured = found["standard"][100].probes = ProbeCounts({1: (1_000, 990)}, 0.5)


@pytest.mark.parametrize(
    ("change", "grade"),
    [
        (lambda found: None, "holds"),
        (_delivers_less_without_first_connections, READING),
        (_no_dearer_when_fast, NOT),
        (_delayed_rises_most, NOT),
        (_proxy_is_slower_when_fast, NOT),
        (_delivers_less_in_both, NOT),
        (_delivers_later_in_both, NOT),
    ],
)
def test_p6_is_decided_by_cost_ratio_and_time_at_the_lowest_and_the_highest_speed(
    change: Callable[[dict[str, dict[int, Seen]]], None], grade: str
) -> None:
    assert speeds(change).grade == grade
    assert speeds(change, full=False).grade == ("not decided" if grade == NOT else grade)


# ---------------------------------------------------------------- P7


def overshoot(drawn: tuple[float, ...], straight: tuple[float, ...], standard: float = 182.0) -> Claim:
    costs = {"turning at random": drawn, "going all the way": straight}
    seen: Any = {
        label: {delta: Seen(cost) for delta, cost in zip(QUICK.overshoots, by, strict=True)}
        for label, by in costs.items()
    }
    return pubmob._overshoot(SETTING, seen, standard)


RANDOM, STRAIGHT = (0.8, 1.5, 1.6, 1.6), (0.4, 2.1, 6.3, 6.8)


def cases_of_p7() -> Iterator[tuple[tuple[float, ...], tuple[float, ...], float, str]]:
    yield RANDOM, STRAIGHT, 182.0, "holds"
    yield RANDOM, (0.4, 2.1, 6.3, 8.0), 182.0, READING  # who goes all the way costs more beyond 5
    yield (0.8, 1.5, 1.6, 1.9), (0.4, 2.1, 6.3, 8.0), 182.0, NOT
    yield (0.8, 1.5, 1.5, 1.5), STRAIGHT, 182.0, NOT  # it grows no more after 2
    yield RANDOM, STRAIGHT, 67.0, NOT  # not less than a tenth of STANDARD


@pytest.mark.parametrize(("drawn", "straight", "standard", "grade"), list(cases_of_p7()))
def test_p7_is_decided_by_where_the_cost_settles_and_by_what_standard_costs(
    drawn: tuple[float, ...], straight: tuple[float, ...], standard: float, grade: str
) -> None:
    assert overshoot(drawn, straight, standard).grade == grade
