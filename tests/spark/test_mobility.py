"""Movement mined by Spark: files of positions in, files for simulator and brokers out."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from godwit.errors import PipelineError
from godwit.filters.regions import distance_m
from godwit.filters.values import Point
from godwit.mobility.movement_graphs import parse
from godwit.mobility.predictors import model_of
from godwit.pipeline import tables
from godwit.pipeline.mobility import mined_files
from godwit.pipeline.mobility.cells import GridCells, brokers_of
from godwit.pipeline.mobility.fix_sources import read
from godwit.pipeline.mobility.mining import MiningSettings, mine
from godwit.simulator.movement_models import movement_graph
from godwit.simulator.publisher_config import publisher_config
from godwit.simulator.scenario.roaming_section import PublisherMoves, Roaming
from godwit.simulator.topologies import star
from tests.conventions.repository import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CABS = ROOT.parent / "shared" / "data" / "mobility" / "cabspotting"
CELLS = GridCells(0.01)
WEST_EAST, SOUTH_NORTH = [(0, 1), (1, 1), (2, 1)], [(1, 0), (1, 1), (1, 2)]
LAPS = 30


def fixes_of(client: int) -> Iterator[tuple[int, float, float, int]]:
    """Two ways that cross in 1,1: by turns through it to the east and to the north, with a pause after each."""
    at = 1_200_000_000 + client
    for lap in range(LAPS):
        for east, north in SOUTH_NORTH if (lap + client) % 2 else WEST_EAST:
            for part in range(2):
                yield at, 0.01 * east + 0.003 + 0.002 * part, 0.01 * north + 0.005, lap % 2
                at += 60
        at += 3_600


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cabs")
    for client in range(4):
        lines = [f"{lat:.5f} {lon:.5f} {occupied} {at}" for at, lon, lat, occupied in fixes_of(client)]
        if client == 0:
            at = int(lines[2].split()[3])
            lines.insert(3, f"45.0 9.0 0 {at + 20}")  # from far away
            lines.insert(1, "not a fix")
        (folder / f"cab{client}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def mined(spark: "SparkSession", files: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("mined")
    placement = out / "brokers.csv"
    spots = {"b0": (0, 1), "b1": (1, 1), "b2": (2, 1), "b3": (1, 2)}  # nobody stands in the south
    rows = [f"{name},{0.01 * east + 0.004},{0.01 * north + 0.005}" for name, (east, north) in spots.items()]
    placement.write_text("\n".join(["broker,lon,lat", *rows]) + "\n")
    settings = MiningSettings(cells=CELLS, brokers=brokers_of(str(placement), 500.0, CELLS))
    return out, mine(spark, [str(files)], out, settings)


def test_every_line_is_accounted_for(mined: tuple[Path, dict[str, Any]]) -> None:
    out, summary = mined
    fixes = 4 * LAPS * 6
    assert (summary["read"], summary["unread"], summary["used"]) == (fixes + 2, 1, fixes)
    assert summary["left_out_impossible_speed"] == 1
    assert (summary["clients"], summary["trips"]) == (4, 4 * LAPS)
    assert (summary["visits"], summary["transitions"], summary["places"]) == (4 * LAPS * 3, 4 * LAPS * 2, 5)
    assert (out / "tables" / "fixes" / "_quarantine").is_dir()


def test_the_movement_graph_is_read_by_brokers_and_walkers(mined: tuple[Path, dict[str, Any]]) -> None:
    graph = parse((mined[0] / "movement.json").read_text())
    assert set(graph.after("1,1")) == {"2,1", "1,2"}
    assert set(graph.ploc("0,1", 2)) == {"0,1", "1,1", "2,1", "1,2"}
    assert min(graph.positions, key=lambda name: distance_m(graph.positions[name], Point(0.004, 0.014))) == "0,1"


def test_the_better_model_sees_where_they_come_from_and_the_baseline_does_not(
    mined: tuple[Path, dict[str, Any]],
) -> None:
    models = json.loads((mined[0] / "accuracy.json").read_text())["models"]
    tested = models["first order"]["transitions"]
    assert tested == 4 * LAPS * 2 * 3 // 10
    assert models["first order"]["top_1"] == pytest.approx(
        0.75, abs=0.03
    )  # all who come to the crossing, half of others
    assert models["order two"]["top_1"] == models["all"]["top_1"] == 1.0
    assert models["all"]["log_loss"] < models["first order"]["log_loss"] / 2


def test_the_model_knows_where_they_come_from_and_the_rarest_ways_go_first_when_there_is_no_room(
    spark: "SparkSession", mined: tuple[Path, dict[str, Any]]
) -> None:
    out, _ = mined
    model = model_of((out / "model.json").read_text(), "model.json")
    assert [model.next_broker("c", "1,1", 1, before) for before in ("0,1", "1,0")] == ["2,1", "1,2"]
    rows = spark.read.parquet(str(out / "tables" / "visits")).toArrow().to_pylist()
    slow = Counter((row["before"], row["place"], row["to"]) for row in rows if row["before"] and row["to"])
    found = {
        (before, here, to): count
        for before, ways in model.pairs.items()
        for here, after in ways.items()
        for to, count in after.items()
    }
    assert found == slow == {("0,1", "1,1", "2,1"): 2 * LAPS, ("1,0", "1,1", "1,2"): 2 * LAPS}
    counts = spark.createDataFrame(
        [("a", "b", f"c{n}", n) for n in (1, 1, 2, 3, 3)], "before string, place string, to string, count int"
    )
    kept = {
        most: sorted(row["count"] for row in mined_files.commonest(counts, most).collect()) for most in (5, 4, 3, 2, 1)
    }
    assert kept == {5: [1, 1, 2, 3, 3], 4: [2, 3, 3], 3: [2, 3, 3], 2: [3, 3], 1: []}


def test_dwell_times_and_proxy_sets_are_those_of_a_slow_reckoning(
    spark: "SparkSession", mined: tuple[Path, dict[str, Any]]
) -> None:
    out, _ = mined
    rows = spark.read.parquet(str(out / "tables" / "visits")).toArrow().to_pylist()
    spent: dict[str, Counter[str]] = defaultdict(Counter)
    whole: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        spent[row["client"]][row["place"]] += row["dwell_s"]
        if row["before"] and row["to"]:
            whole[row["place"]].append(row["dwell_s"])
    held = json.loads((out / "dwell.json").read_text())["places"]
    assert held["1,1"]["median_s"] == sorted(whole["1,1"])[len(whole["1,1"]) // 2] == 120
    assert held["1,1"]["whole"] == len(whole["1,1"]) == 4 * LAPS
    assert held["0,1"]["median_s"] is None  # nobody was seen to come there
    proxies = json.loads((out / "proxies.json").read_text())["clients"]
    for client, places in proxies.items():
        ranked = sorted(spent[client].items(), key=lambda item: (-item[1], item[0]))
        total = sum(spent[client].values())
        fewest = next(n for n in range(1, 9) if sum(seconds for _, seconds in ranked[:n]) >= 0.9 * total)
        assert places == [place for place, _ in ranked[:fewest]]
    assert set(proxies) == set(spent)


def test_a_placement_of_brokers_is_judged_and_the_simulator_reads_what_comes_out(
    mined: tuple[Path, dict[str, Any]],
) -> None:
    out, summary = mined
    covered = json.loads((out / "brokers" / "coverage.json").read_text())
    assert covered["covered"] == summary["covered"] == pytest.approx(5 / 6, abs=1e-3)
    assert covered["handovers"] == 4 * LAPS // 2 * 3
    file = out / "brokers" / "model.json"
    moves = PublisherMoves(predictor="model", model_file=str(file))
    config = publisher_config(Roaming(publisher_mode="prefetching", publishers=moves), ("b0", "b1", "b2", "b3"), {})
    assert config.predictor == model_of(file.read_text(), "model.json")
    assert config.predictor is not None
    assert config.predictor.next_broker("c", "b0", 1) == "b1"
    assert json.loads(file.read_text())["pairs"] == {"b0": {"b1": {"b2": 2 * LAPS}}}  # others come from nowhere
    overlay = star(4)
    roaming = Roaming(model="walk", graph="file", file=str(out / "brokers" / "movement.json"))
    assert movement_graph(roaming, overlay, overlay.brokers) == {"b0": ["b1"], "b1": ["b2", "b3"], "b2": [], "b3": []}


def test_plots_are_drawn(mined: tuple[Path, dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib")
    for name in ("movement.png", "accuracy.png", "brokers/movement.png", "brokers/accuracy.png"):
        assert (mined[0] / name).read_bytes().startswith(b"\x89PNG")


def test_tables_csv_and_text_hold_the_same_fixes(
    spark: "SparkSession", mined: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    table = mined[0] / "tables" / "fixes"
    text, unread = read(spark, [str(table)], tmp_path / "unused")
    assert (unread, (tmp_path / "unused").exists()) == (0, False)
    wanted = mined_files.rows(text, "client", "at")
    rows = [
        f"{at},cab{n},{lon:.5f},{lat:.5f},{'true' if on else 'false'}"
        for n in range(4)
        for at, lon, lat, on in fixes_of(n)
    ]
    (tmp_path / "fixes.csv").write_text("\n".join(["time,id,lon,lat,occupied", *rows]) + "\n")
    found, unread = read(spark, [str(tmp_path / "fixes.csv")], tmp_path / "table")
    assert unread == 0
    assert mined_files.rows(found, "client", "at") == [row for row in wanted if row["lon"] != 9.0]
    tables.read(spark, tmp_path / "table", "fixes")


def test_what_is_read_is_neither_replaced_nor_mixed_with_what_is_mined(
    spark: "SparkSession", mined: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    table = mined[0] / "tables" / "fixes"
    before = tables.read(spark, table).count()
    (tmp_path / "more.txt").write_text("1.0 2.0 0 1000\n")
    with pytest.raises(PipelineError, match="is read, and would be replaced"):
        mine(spark, [str(table), str(tmp_path / "more.txt")], mined[0], MiningSettings(cells=CELLS))
    with pytest.raises(PipelineError, match="is a table: use another --out"):
        mine(spark, [str(table)], table, MiningSettings(cells=CELLS))
    assert tables.read(spark, table).count() == before


def test_an_input_without_a_single_step_is_one_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "cab.txt").write_text("1.0 2.0 0 1000\n1.0 2.0 0 1060\n")
    with pytest.raises(PipelineError, match="no client moved from one place to another: use smaller cells"):
        mine(spark, [str(tmp_path / "cab.txt")], tmp_path / "out", MiningSettings(cells=CELLS))


@pytest.mark.slow
@pytest.mark.skipif(not CABS.is_dir(), reason="the shared data are not here")
def test_real_taxis_are_predicted_better_than_by_first_order_by_a_clear_margin(
    spark: "SparkSession", tmp_path: Path
) -> None:
    summary = mine(spark, [str(CABS)], tmp_path, MiningSettings())
    assert summary["read"] == 1_273_373
    assert summary["top_1"] > summary["top_1_first_order"] + 0.3
    assert summary["log_loss"] < summary["log_loss_first_order"] * 0.6
