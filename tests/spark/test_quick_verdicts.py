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
)
from godwit.reproduce.pubmob_sizes import Size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALLEST = Size(
    publishers=(3, 6),
    usual=8,
    subscribers=30,
    more_subscribers=(30, 90, 180),
    warmup_s=12,
    duration_s=30,
    proxy_s=20,
    speed_s=20,
    short_s=15,
    overshoots=(0, 2, 5, 8),
    overshoot_s=200,
    localities=(0.0, 0.9),
)
"""As small as gives the grades of a quick run. P2, P5 and P7 have others in smaller ones."""

NEEDS_QUEUES = ("P3", "P4", "P6")
"""What no quick run decides: these are about queues, which need many publishers."""

GRADES = {
    **dict.fromkeys(("R1", "R2", "R3", "R4", "R6"), "holds"),
    **dict.fromkeys(("H1", "H2", "H3", "H4", "H5", "H6"), "holds"),
    **dict.fromkeys(("P7", "P8", "P9"), "holds"),
    **dict.fromkeys(("P2", "P5"), "holds under a stated reading"),
    **dict.fromkeys(NEEDS_QUEUES, "not decided"),
}
"""The grades of docs/papers.md. None of them rests on how fast the machine is: these runs are simulated."""


@pytest.fixture
def smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubmob, "QUICK", SMALLEST)
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
