"""Figures of `pubmob` on traces made by hand, where they are known: all in one go, as runs of one experiment are."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from godwit.pipeline.analytics import TraceSource
from godwit.reproduce.pubmob_metrics import MoveTimes, ProbeCounts, PubmobFigures, figures
from godwit.trace import FILE, Record, TraceWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Line = tuple[float, str, Record]


def handled(at: float, message: str, said: str = "") -> Line:
    return at, "b1", Record("handled", "b0", message, detail=said)


def link(at: float, client: str, broker: str, kind: str = "link_up") -> Line:
    return at, client, Record(kind, broker)


def asked(client: str, name: str, text: str, kind: str = "subscription") -> Line:
    return 0.0, client, Record("asked", message=kind, subscription=name, detail=text)


def probed(at: float, publisher: str, sequence: int, i: int, x: int = 1) -> Line:
    return at, publisher, Record("probed", "b1", "", publisher, sequence, number=i, detail=f'{{"x": {x}}}')


def delivered(at: float, client: str, publisher: str, sequence: int) -> Line:
    return at, client, Record("delivered", publisher=publisher, sequence=sequence)


def size(at: float, broker: str, entries: int, name: str) -> Line:
    return at, broker, Record("table", number=entries, detail=name)


RUNS: dict[str, tuple[float, list[Line]]] = {
    "cost": (
        5.0,
        [
            *(handled(at, "Advertise") for at in (1.0, 5.0, 6.0)),
            *(handled(6.0, "Publish"), handled(7.0, "Prefetch"), handled(7.0, "Request"), handled(8.0, "Unsubscribe")),
            (8.0, "b1", Record("published")),
        ],
    ),
    "wanted": (
        0.0,
        [
            *(asked("s1", "a", "x = 1"), asked("s2", "a", "x >= 1"), asked("s3", "a", "x = 2")),
            *(asked("p1", "all", "x = 1", "advertisement"), probed(10, "p1", 1, 1), probed(11, "p1", 2, 2)),
            *(delivered(10.5, "s1", "p1", 1), delivered(11.25, "s1", "p1", 2), delivered(11.5, "s2", "p1", 2)),
        ],
    ),
    "no more": (
        0.0,
        [
            *(asked("s1", "a", "x = 1"), asked("s1", "a", "x = 2"), asked("s2", "a", "x = 1"), asked("s2", "a", "")),
            *(asked("s3", "a", "x = 1"), asked("s3", "b", "x > 0"), probed(10, "p1", 1, 1)),
            delivered(10.5, "s3", "p1", 1),
        ],
    ),
    "stops": (
        2.0,
        [
            *(asked("s1", "a", "x = 1"), link(0, "p1", "b1"), probed(1, "p1", 1, 1), probed(2, "p1", 2, 2)),
            *(link(0, "p2", "b1"), link(9, "p1", "b2"), link(9, "p2", "b2")),  # p2: no probe at its first connection
            *(probed(10, "p1", 3, 1), probed(10, "p2", 1, 1)),
        ],
    ),
    "by move": (
        2.0,
        [
            *(asked("s1", "a", "x = 1"), link(0, "p1", "b1"), probed(1, "p1", 1, 1), delivered(9.0, "s1", "p1", 1)),
            *(link(3, "p1", "b2"), *(probed(4, "p1", number, number) for number in (2, 3, 4, 5))),
            *(delivered(4.25, "s1", "p1", 2), delivered(4.5, "s1", "p1", 3), delivered(7, "s1", "p1", 4)),
            *(link(8, "p1", "b1"), probed(9, "p1", 6, 1), delivered(11, "s1", "p1", 6)),
        ],
    ),
    "rebuilt": (
        5.0,
        [
            *((0.0, client, Record("handled", "b0", "Attached")) for client in ("p1", "p2")),
            *(asked("p1", "all", "ALL x = 1", "advertisement"), asked("p2", "all", "ALL x = 2", "advertisement")),
            *(link(0, "p1", "b1"), link(0, "p2", "b1"), handled(1, "Advertise", "ALL x = 1")),
            *(link(7, "p1", "b1", "link_down"), link(7, "p2", "b1", "link_down"), handled(8, "Advertise", "ALL x = 2")),
            *(link(10, "p1", "b2"), link(10, "p2", "b2"), handled(10.25, "Advertise", "ALL x = 1")),
            *(handled(10.5, "Subscribe", "x >= 1 AND x < 2"), handled(10.75, "Unsubscribe"), handled(11, "Publish")),
            *(link(20, "p1", "b2", "link_down"), handled(21, "Subscribe", "x = 1")),
        ],
    ),
    "entries": (
        10.0,
        [
            *(size(0, "b1", 4, "in_ads"), size(0, "b1", 99, "out_ads"), size(12, "b2", 10, "in_subs")),
            *(size(15, "b1", 8, "in_ads"), handled(20, "Advertise")),
        ],
    ),
}


@pytest.fixture(scope="module")
def found(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, PubmobFigures]:
    folder: Path = tmp_path_factory.mktemp("metrics")
    for name, (_, lines) in RUNS.items():
        with TraceWriter(folder / name, {}) as sink:
            for line in lines:
                sink.write(*line)
    runs = [TraceSource(folder / name / FILE, name, from_s) for name, (from_s, _) in RUNS.items()]
    return figures(
        spark, runs, {"by_move": ["by move", "stops"], "entries": ["entries"], "rebuilt": ["rebuilt", "cost"]}
    )


def test_cost_counts_control_on_each_hop_after_the_warm_up_and_nothing_else(found: dict[str, PubmobFigures]) -> None:
    assert found["cost"].cost == {"Advertise": 2, "Prefetch": 1, "Unsubscribe": 1}


def test_a_probe_counts_once_for_each_subscriber_that_wants_it(found: dict[str, PubmobFigures]) -> None:
    probes = found["wanted"].probes["all"]
    assert probes.ratios() == [(1, 0.5), (2, 1.0)]
    assert probes.ratio() == 0.75
    assert probes.mean == pytest.approx(1.25 / 3)
    assert (probes.percentile(0.0), probes.percentile(0.5), probes.percentile(1.0)) == (0.25, 0.5, 0.5)
    assert probes.distribution()[100] == (0.5, 0.5)


def test_who_asks_for_something_else_or_for_nothing_more_is_not_waited_for(found: dict[str, PubmobFigures]) -> None:
    assert found["no more"].probes["all"].pairs == {1: (1, 1)}


def test_stops_are_counted_by_connections_and_the_warm_up_is_cut_off_after_that(
    found: dict[str, PubmobFigures],
) -> None:
    groups = found["stops"].probes
    assert {name: each.pairs for name, each in groups.items()} == {
        "all": {1: (3, 0), 2: (1, 0)},
        "first": {1: (1, 0), 2: (1, 0)},
        "measured": {1: (2, 0)},
    }
    assert np.isnan(groups["measured"].mean)


def test_times_are_kept_by_the_number_of_the_move_before(found: dict[str, PubmobFigures]) -> None:
    assert found["by move"].by_move == {1: MoveTimes(came=3, median=0.5), 2: MoveTimes(came=1, median=2.0)}
    assert found["stops"].by_move[1].came == 0
    assert np.isnan(found["stops"].by_move[1].median)


def test_entries_of_tables_are_averaged_over_time(found: dict[str, PubmobFigures]) -> None:
    assert found["entries"].entries == {"b1": 6.0, "b2": 8.0}


def test_entries_and_trees_are_computed_only_for_the_runs_that_are_named(found: dict[str, PubmobFigures]) -> None:
    assert [name for name, each in found.items() if each.entries] == ["entries"]
    assert [name for name, each in found.items() if each.rebuilt] == ["rebuilt"]


def test_trees_are_rebuilt_by_the_last_message_about_them_and_before_the_connection_takes_no_time(
    found: dict[str, PubmobFigures],
) -> None:
    assert (found["rebuilt"].rebuilt_after(0.0), found["rebuilt"].rebuilt_after(1.0)) == (0.0, 0.5)
    assert np.isnan(found["entries"].rebuilt_after(0.5))


def test_entries_are_averaged_level_by_level_of_the_tree() -> None:
    entries = {"b0": 100.0, "b1": 30.0, "b2": 50.0, "b3": 8.0, "b6": 4.0, "b7": 1.0}
    assert PubmobFigures(entries=entries).entries_by_depth(2) == {0: 100.0, 1: 40.0, 2: 6.0, 3: 1.0}


def test_a_share_or_a_percentile_of_nothing_is_no_number() -> None:
    assert np.isnan([ProbeCounts().ratio(), ProbeCounts().mean, ProbeCounts().percentile(0.5)]).all()
    assert ProbeCounts().ratios() == ProbeCounts().distribution() == []
