"""How long the rest of several runs takes."""

import pytest

from godwit.reproduce.claims import PAPERS
from godwit.reproduce.job_estimates import EXPECTED_S, JobEstimates, in_words

FULL = EXPECTED_S[True]


def test_every_paper_has_an_expected_time() -> None:
    assert all(set(expected) == set(PAPERS) for expected in EXPECTED_S.values())


def test_before_anything_is_done_the_expected_times_are_shared_by_the_processes() -> None:
    jobs = [("pubmob", seed) for seed in (1, 2, 3)]
    assert JobEstimates(jobs, full=True, workers=2).left_s(0.0) == 1.5 * FULL["pubmob"]
    assert JobEstimates(jobs, full=True, workers=9).left_s(0.0) == FULL["pubmob"]


def test_a_seed_that_is_done_tells_the_time_of_the_others_of_its_paper_and_the_pace_of_the_rest() -> None:
    found = JobEstimates([("spcf", 1), ("spcf", 2), ("motion", 1)], full=True, workers=1)
    found.begin(("spcf", 1), 0.0)
    found.end(("spcf", 1), 3 * FULL["spcf"])
    assert found.left_s(0.0) == pytest.approx(3 * FULL["spcf"] + 3 * FULL["motion"])


def test_a_running_job_counts_for_what_is_left_of_it_and_never_for_less_than_nothing() -> None:
    found = JobEstimates([("motion", 1)], full=True, workers=1)
    found.begin(("motion", 1), 10.0)
    assert found.running == [("motion", 1)]
    assert found.left_s(20.0) == FULL["motion"] - 10
    assert found.left_s(10.0 + 2 * FULL["motion"]) == 0


def test_a_job_that_takes_longer_than_expected_makes_those_that_wait_longer() -> None:
    found = JobEstimates([("motion", 1), ("mobile", 1)], full=True, workers=1)
    found.begin(("motion", 1), 0.0)
    assert found.left_s(3 * FULL["motion"]) == pytest.approx(3 * FULL["mobile"])


@pytest.mark.parametrize("took_s", [5.0, None])
def test_a_job_that_is_told_to_begin_when_it_has_ended_does_not_run(took_s: float | None) -> None:
    found = JobEstimates([("motion", 1)], full=True, workers=1)
    found.end(("motion", 1), took_s)
    found.begin(("motion", 1), 1.0)
    assert found.running == []


def test_a_failed_job_is_neither_waited_for_nor_a_measure() -> None:
    found = JobEstimates([("spcf", 1), ("motion", 1)], full=True, workers=1)
    found.end(("spcf", 1), None)
    assert found.left_s(0.0) == FULL["motion"]
    found.end(("motion", 1), 5.0)
    assert found.left_s(0.0) == 0


@pytest.mark.parametrize(
    ("seconds", "words"), [(20, "less than a minute"), (70, "about a minute"), (1_500, "about 25 minutes")]
)
def test_an_estimate_is_told_in_whole_minutes(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
