"""The quick verdicts of the papers whose figures Spark reads in traces, in their smallest form.

Those of `motion` and `spcf` need no Spark and are in tests/simulation. What a grade rests on is tested claim by claim
elsewhere; here all claims of a paper are decided in one go, as `godwit reproduce` does.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from godwit.reproduce import (
    PAPERS,
    Claim,
    Setting,
    claims_of,
    handoffs,
    island_claims,
    logical_mobility_claims,
    pubmob,
    pubmob_runs,
)
from godwit.reproduce.pubmob_sizes import Size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALLEST = Size(
    publishers=(3, 6),
    usual=4,
    subscribers=12,
    more_subscribers=(12, 24),
    warmup_s=6,
    duration_s=20,
    proxy_s=20,
    speed_s=20,
    short_s=8,
    overshoots=(0, 2, 5, 8),
    overshoot_s=20,
    localities=(0.0, 0.9),
)
NEEDS_QUEUES = ("P3", "P4")
"""What no quick run decides: these are about queues, which need many publishers."""

GRADES = {
    **dict.fromkeys(("R1", "R2", "R3", "R4", "R6"), "holds"),
    **dict.fromkeys(("H1", "H2", "H3", "H4", "H5", "H6"), "holds"),
    **dict.fromkeys(("P8", "P9"), "holds"),
    **dict.fromkeys(NEEDS_QUEUES, "not decided"),
}
"""What every run decides, however small: no grade rests on how fast the machine is."""


@pytest.fixture
def smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubmob, "QUICK", SMALLEST)
    monkeypatch.setattr(pubmob_runs, "LONG_S", 30)
    monkeypatch.setitem(handoffs.MOVING_S, False, 6.0)
    monkeypatch.setitem(handoffs.BLACKOUT_S, False, 15.0)
    monkeypatch.setitem(logical_mobility_claims.STROLL_S, False, 10)
    monkeypatch.setitem(island_claims.RUNS, False, 4)
    monkeypatch.setitem(island_claims.AD_HOC_RUNS, False, 1)


@pytest.mark.usefixtures("smallest")
@pytest.mark.parametrize("paper", ["mobile", "pubmob", "rebeca"])
def test_a_quick_run_decides_every_claim_or_says_why_not(paper: str, spark: "SparkSession", tmp_path: Path) -> None:
    found: list[Claim] = list(claims_of(paper, Setting(folder=tmp_path, spark=lambda: spark)))
    assert tuple(claim.key for claim in found) == PAPERS[paper][1]
    for claim in found:
        assert claim.bound, f"{claim.key} has no bound beside it"
        assert claim.ours
        assert claim.grade == GRADES.get(claim.key, claim.grade), f"{claim.key}: {claim.ours}"
        if claim.key in ("P1", "R5"):  # the state of brokers, and a factor of messages: the size of the run moves them
            assert claim.grade in ("holds", "holds under a stated reading"), claim.ours
        assert bool(claim.undecided) == (claim.key in NEEDS_QUEUES) or claim.key not in GRADES
