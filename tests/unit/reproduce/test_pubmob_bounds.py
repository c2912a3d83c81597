"""Conditions of P1 to P4: a run that meets a claim is seen to, and so is each way to miss it."""

import pytest

from godwit.reproduce.pubmob_bounds import (
    MODES,
    Condition,
    cost_conditions,
    linearity,
    probe_conditions,
    stands_after,
    state_conditions,
    time_conditions,
)
from godwit.reproduce.pubmob_metrics import POINTS, ProbeCounts

LATE = {"standard": 0.4, "prefetching": 0.25, "proxy": 0.3, "delayed": 0.3}  # medians
LOST = {"standard": 18, "prefetching": 0, "proxy": 0, "delayed": 2}  # probes in which somebody was missing
MANY = 1_000


def probes(lost: int = 0, first: float = 1.0, median: float = 0.3) -> ProbeCounts:
    """Of twenty probes so many are missed by one in fifty, the first by as many as are said."""
    pairs = {i: (MANY, 980 if i <= lost else MANY) for i in range(1, 21)}
    pairs[1] = (MANY, round(first * MANY))
    return ProbeCounts(pairs=pairs, mean=median, quantiles=(median,) * (POINTS + 1))


def city(**changed: ProbeCounts) -> dict[str, ProbeCounts]:
    first = {"standard": 0.1, "delayed": 0.95}
    usual = {mode: probes(LOST[mode], first.get(mode, 1.0), LATE[mode]) for mode in MODES}
    return usual | changed


def missed(conditions: "list[Condition] | tuple[Condition, ...]") -> list[str]:
    assert all(0 <= each.shortfall <= 1 for each in conditions)
    return [each.text for each in conditions if not each.holds]


def test_the_time_is_that_of_the_first_probe_after_which_all_arrive() -> None:
    assert stands_after(probes()) == 0
    assert stands_after(probes(lost=18)) == pytest.approx(3.8)


def test_a_run_like_the_papers_meets_every_condition() -> None:
    assert missed((*probe_conditions(city()), *time_conditions(city()))) == []
    assert missed(tuple(cost_conditions({"standard": 200, "prefetching": 210, "proxy": 9, "delayed": 8}))) == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"standard": probes(9, 0.1)}, "STANDARD's trees stand after nearly 4 s"),
        ({"proxy": probes(20)}, "STANDARD's trees stand last"),
        ({"standard": probes(18, 0.92)}, "STANDARD loses the most first probes"),
        ({"prefetching": probes(0, 0.99)}, "PREFETCHING's first probes arrive"),
        ({"delayed": probes(2, 0.9)}, "most of DELAYED's first probes arrive"),
        ({"delayed": probes(12, 0.95)}, "DELAYED takes at most half of STANDARD's time"),
    ],
)
def test_each_way_to_miss_p3_is_seen(changed: dict[str, ProbeCounts], text: str) -> None:
    assert missed(tuple(probe_conditions(city(**changed)))) == [text]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"standard": probes(median=0.7)}, "medians are about 0.3 s"),
        ({"proxy": probes(median=0.2)}, "PREFETCHING is fastest"),
        ({"proxy": probes(median=0.5)}, "STANDARD is slowest"),
    ],
)
def test_each_way_to_miss_p4_is_seen(changed: dict[str, ProbeCounts], text: str) -> None:
    assert missed(tuple(time_conditions(city(**changed)))) == [text]


def test_a_run_in_which_nothing_arrives_meets_nothing_of_p4_by_chance() -> None:
    nothing = {mode: ProbeCounts() for mode in MODES}
    assert missed(tuple(time_conditions(nothing))) == [
        "medians are about 0.3 s",
        "PREFETCHING is fastest",
        "STANDARD is slowest",
    ]


STATE = {mode: {50: 60.0, 100: 80.0, 150: 99.0} for mode in MODES} | {"proxy": {50: 61.0, 100: 81.0, 150: 101.0}}
LEVELS = {mode: {0: 200.0, 1: 150.0, 2: 120.0, 3: 90.0} for mode in MODES}


def test_state_as_in_the_paper_meets_every_condition() -> None:
    assert missed(tuple(state_conditions(STATE, LEVELS))) == []


@pytest.mark.parametrize(
    ("state", "levels", "text"),
    [
        ({"delayed": {50: 60.0, 100: 120.0, 150: 60.0, 200: 98.0}}, {}, "the state grows about linearly"),
        ({"delayed": {50: 99.0, 100: 80.0, 150: 60.0, 200: 98.9}}, {}, "the state grows about linearly"),
        ({"delayed": {50: 45.0, 100: 60.0, 150: 75.0}}, {}, "all keep about the same state"),
        ({"proxy": {50: 60.0, 100: 80.0, 150: 99.0}}, {}, "PROXY keeps slightly more"),
        ({}, {"proxy": {0: 200.0, 1: 150.0, 2: 150.0, 3: 90.0}}, "brokers closer to the root keep more"),
    ],
)
def test_each_way_to_miss_the_state_of_p1_is_seen(
    state: dict[str, dict[int, float]], levels: dict[str, dict[int, float]], text: str
) -> None:
    assert missed(tuple(state_conditions(STATE | state, LEVELS | levels))) == [text]


def test_a_proportional_line_goes_through_the_origin_and_another_need_not() -> None:
    beside = [(50.0, 60.0), (100.0, 61.0), (150.0, 62.0)]
    assert linearity(beside) == pytest.approx(1)
    assert linearity(beside, is_proportional=True) < 0
    assert linearity([(1.0, 2.0), (2.0, 4.0)], is_proportional=True) == pytest.approx(1)


def test_costs_that_are_equal_are_not_more() -> None:
    even = cost_conditions({"standard": 100, "prefetching": 100, "proxy": 10, "delayed": 10})
    assert len(missed(tuple(even))) == 3
