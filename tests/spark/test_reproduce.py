"""The claims that Spark decides by traces: what holds is seen to hold, and what breaks it is seen to break it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from godwit import trace
from godwit.client.request_outbox import RequestOutbox
from godwit.reproduce import PAPERS, Claim, Setting, architecture_claims, claims_of, island_claims, traced_runs
from godwit.reproduce.trace_tables import read
from godwit.simulator import replication_experiment
from godwit.simulator.scenario import Scenario
from godwit.simulator.summary import Summary
from godwit.trace import Record, TraceSink, TraceWriter
from tests.seeds import slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def setting(spark: "SparkSession", tmp_path: Path) -> Setting:
    return Setting(folder=tmp_path, spark=lambda: spark)


@pytest.mark.slow
@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_every_claim_of_a_paper_gives_one_row_in_the_order_of_their_keys(paper: str, setting: Setting) -> None:
    found = list(claims_of(paper, setting))
    assert tuple(claim.key for claim in found) == PAPERS[paper][1]
    assert all(claim.ours and claim.paper and claim.where for claim in found)


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["mobile", "rebeca"])
def test_every_claim_of_these_papers_holds(paper: str, setting: Setting) -> None:
    found = list(claims_of(paper, setting))
    assert [claim.key for claim in found if claim.grade not in ("holds", "holds under a stated reading")] == []
    assert [claim.key for claim in found if not claim.holds and not (claim.reading and claim.bound)] == []


@pytest.mark.parametrize(
    "decide",
    [
        architecture_claims.quenching,
        architecture_claims.broadcast_and_multicast,
        slow(architecture_claims.purging),
    ],
)
def test_claims_on_architectures_hold(decide: Any, setting: Setting) -> None:
    claim: Claim = decide(setting)
    assert claim.holds, claim.ours


def test_a_source_that_drops_what_somebody_wants_is_seen(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    monkeypatch.setattr(RequestOutbox, "quenches", lambda self, event: event.sequence % 7 == 0)
    assert not architecture_claims.quenching(setting).holds


def test_a_subscription_on_its_way_to_a_connected_source_is_no_fault_of_quenching(setting: Setting) -> None:
    claim = architecture_claims.quenching(structs.replace(setting, seed=14))
    assert ", 1 of 209 deliveries missed, 1 because the subscription was on its way to the source" in claim.ours
    assert claim.grade == "holds under a stated reading"


def test_a_source_that_drops_events_while_it_is_away_is_seen(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    monkeypatch.setattr(RequestOutbox, "on_closed", lambda self: None)
    claim = architecture_claims.quenching(setting)
    assert claim.grade == "does not hold", claim.ours


class Dropping:
    """A sink that loses one row of those that it is asked to."""

    def __init__(self, sink: TraceSink, is_addressed: Callable[[str, Record], bool]) -> None:
        self.sink, self.is_addressed, self.left = sink, is_addressed, 1

    def write(self, at: float, node: str, record: Record) -> None:
        if self.left and self.is_addressed(node, record):
            self.left = 0
        else:
            self.sink.write(at, node, record)


def test_table_1_is_the_papers_and_an_event_that_is_not_displayed_is_seen(
    monkeypatch: pytest.MonkeyPatch, setting: Setting
) -> None:
    monkeypatch.setitem(island_claims.RUNS, False, 4)
    assert island_claims.replication(setting).holds

    def lossy(seeds: Any, sink: TraceSink) -> None:
        dropping = Dropping(sink, lambda node, record: node.startswith("complete/") and record.kind == "delivered")
        replication_experiment.replication_table(seeds, sink=dropping)

    monkeypatch.setattr(island_claims, "replication_table", lossy)
    claim = island_claims.replication(setting)
    assert "complete ✓ ✓ ✗" in claim.ours
    assert not claim.holds


def test_properties_of_replicas_are_those_that_the_simulators_own_checkers_find(
    spark: "SparkSession", tmp_path: Path
) -> None:
    for seed in range(3):
        with TraceWriter(tmp_path / str(seed), {}) as sink:
            replication_experiment.replication_table([seed], sink=sink)
        rows = island_claims.verdicts(read(spark, {"run": tmp_path / str(seed)})).collect()
        expected = replication_experiment.verdicts(trace.read(tmp_path / str(seed)))
        assert {row[0]: tuple(row[1:]) for row in rows} == {row.filter: row.properties for row in expected}


def test_islands_elect_and_merge_and_two_leaders_at_the_end_are_seen(
    monkeypatch: pytest.MonkeyPatch, setting: Setting
) -> None:
    monkeypatch.setitem(island_claims.AD_HOC_RUNS, False, 1)
    assert island_claims.ad_hoc(setting).holds
    leaders = island_claims._leaders
    monkeypatch.setattr(island_claims, "_leaders", lambda trace: leaders(trace.where("kind != 'resigned'")))
    assert not island_claims.ad_hoc(setting).holds


def test_an_owed_event_that_an_island_loses_is_seen(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    monkeypatch.setitem(island_claims.AD_HOC_RUNS, False, 1)
    traced = traced_runs.traced

    def losing(scenario: Scenario, *more: Any) -> tuple[Path, Summary]:
        folder, summary = traced(scenario, *more)
        return folder, structs.replace(summary, lost=1)

    monkeypatch.setattr(island_claims, "traced", losing)
    claim = island_claims.ad_hoc(setting)
    assert claim.grade == "does not hold"
    assert ", 1 of " in claim.ours
