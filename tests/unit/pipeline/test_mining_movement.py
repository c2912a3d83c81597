"""Positions become trips, places, visits, stays and a model of the next place: what needs no Spark."""

import json
import math
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from godwit.cli.pipeline import app
from godwit.errors import PipelineError
from godwit.filters.regions import distance_m
from godwit.filters.values import Point
from godwit.mobility.movement_graphs import parse
from godwit.mobility.predictors import model_of
from godwit.pipeline.mobility import mined_files, prediction
from godwit.pipeline.mobility.cells import BrokerPlacement, GridCells, H3Cells, brokers_of, cells_of
from godwit.pipeline.mobility.cleaning import DUPLICATE, FAULTS, IMPOSSIBLE, CleaningOptions, marks
from godwit.pipeline.mobility.globe import distances_m
from godwit.pipeline.mobility.prediction import KINDS, Counted, fitted, likelihoods, scored, steps_of
from godwit.pipeline.mobility.staypoints import StayOptions, stays
from godwit.pipeline.mobility.visits import PARTS, visits_of
from godwit.simulator.tracks import Fixes, plausible

Track = list[tuple[float, float, float]]
"""Seconds, lon, lat."""

degrees = st.integers(-20, 20).map(lambda thousandths: thousandths / 1_000)
wild = st.integers(-1_000, 1_000).map(lambda tenths: tenths / 10)


@st.composite
def tracks(draw: st.DrawFn, same_moment: bool = False) -> Track:
    at, found = 0.0, []
    for _ in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([0.0 if same_moment else 1.0, 30.0, 60.0, 299.0, 301.0]))
        lon, lat = draw(st.tuples(degrees, degrees) | st.tuples(wild, degrees))
        found.append((at, lon, lat))
    return sorted(found)


def arrays(track: Track) -> tuple[Any, Any, Any]:
    at_s, lons, lats = (np.array(column, dtype=np.float64) for column in zip(*track, strict=True))
    return at_s, lons, lats


# ---------------------------------------------------------------- cleaning


@given(tracks())
def test_what_is_left_out_is_what_the_simulator_leaves_out(track: Track) -> None:
    fixes = Fixes()
    for fix in track:
        fixes.add(*fix)
    faults, _ = marks(*arrays(track), CleaningOptions(speed_max_kmh=200))
    assert [fix for fix, fault in zip(track, faults, strict=True) if not fault] == list(plausible(fixes, 200).rows())


@given(tracks(same_moment=True))
def test_every_fix_has_a_fault_or_a_trip_and_no_trip_has_a_gap_or_a_jump(track: Track) -> None:
    faults, trips = marks(*arrays(track), CleaningOptions(speed_max_kmh=200, gap_s=300))
    assert ((faults == 0) == (trips >= 0)).all()
    used = [(*fix, trip) for fix, trip in zip(track, trips, strict=True) if trip >= 0]
    assert used
    for (at, lon, lat, trip), (later, to_lon, to_lat, next_trip) in pairwise(used):
        fast = distance_m(Point(lon, lat), Point(to_lon, to_lat)) > (later - at) * 200 / 3.6
        assert at < later  # one fix of each moment
        assert (next_trip != trip) == (later - at > 300 or fast)


def test_a_planted_error_and_a_second_fix_of_a_moment_are_left_out_with_a_word() -> None:
    track = [(60.0 * n, 8.5 + n / 1_000, 47.4) for n in range(6)]
    track[3] = (180.0, 9.9, 47.4)
    track.insert(2, track[1])
    faults, trips = marks(*arrays(track), CleaningOptions())
    assert [FAULTS[fault] for fault in faults] == [None, None, DUPLICATE, None, IMPOSSIBLE, None, None]
    assert trips.tolist() == [0, 0, -1, 0, -1, 0, 0]


def test_nobody_is_faster_than_nothing() -> None:
    with pytest.raises(PipelineError, match=r"^a speed of 0 km/h: it must be above 0$"):
        CleaningOptions(speed_max_kmh=0)
    with pytest.raises(PipelineError, match=r"^a stay for -1 s: it must be above 0$"):
        StayOptions(stay_s=-1)


# ---------------------------------------------------------------- places


@given(st.lists(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), min_size=1, max_size=20))
def test_distances_are_those_of_the_filters(points: list[tuple[float, float]]) -> None:
    lons, lats = np.array(points).T
    found = distances_m(lons[:1], lats[:1], lons, lats)
    assert found.tolist() == pytest.approx([distance_m(Point(*points[0]), Point(*point)) for point in points], abs=1e-3)


@pytest.mark.parametrize("cells", [H3Cells(8), GridCells(0.01), GridCells(7.0)])
@given(lon=st.floats(-179.9, 179.9), lat=st.floats(-83, 83))
def test_the_middle_of_a_cell_lies_in_it(cells: H3Cells | GridCells, lon: float, lat: float) -> None:
    [name] = cells.names(np.array([lon]), np.array([lat]))
    assert name is not None
    centre = cells.centre(name)
    assert cells.names(*(np.array([each]) for each in centre)) == [name]


@pytest.mark.parametrize("text", ["h3:16", "h3:", "h3:-1", "grid:0", "grid:x", "grid:nan", "s2:3", ""])
def test_cells_that_there_are_none_of_are_refused(text: str) -> None:
    with pytest.raises(PipelineError, match=r"is not a kind of cells: allowed are h3:N with N from 0 to 15"):
        cells_of(text)


def test_cells_have_short_names() -> None:
    assert cells_of("h3:7") == H3Cells(7)
    assert cells_of("grid:0.5") == GridCells(0.5)
    assert GridCells(0.5).names(np.array([-0.1, 1.0]), np.array([0.1, -0.6])) == ["-1,0", "2,-2"]


@given(
    st.lists(st.tuples(degrees, degrees, st.sampled_from([0.0, 500.0, 2_000.0])), min_size=1, max_size=8),
    st.lists(st.tuples(degrees, degrees), min_size=1, max_size=8),
)
def test_a_client_is_at_the_nearest_broker_that_reaches_it(
    placed: list[tuple[float, float, float]], points: list[tuple[float, float]]
) -> None:
    names = tuple(f"b{number}" for number in range(len(placed)))
    lons, lats, radii = zip(*placed, strict=True)
    found = BrokerPlacement(names, lons, lats, radii, H3Cells(8)).names(*np.array(points).T)
    for (lon, lat), name in zip(points, found, strict=True):
        apart = {each: distance_m(Point(lon, lat), Point(x, y)) for each, (x, y, _) in zip(names, placed, strict=True)}
        near = [each for each, (_, _, radius) in zip(names, placed, strict=True) if apart[each] <= radius]
        assert (name is None) == (not near)
        assert name is None or apart[name] == pytest.approx(min(apart[each] for each in near), abs=1e-6)


def test_a_placement_is_read_and_its_faults_are_named(tmp_path: Path) -> None:
    file = tmp_path / "brokers.csv"

    def read(text: str, radius_m: float | None = None) -> BrokerPlacement:
        file.write_text(text)
        return brokers_of(str(file), radius_m, H3Cells(8))

    found = read("broker,lon,lat,radius_m\na,8.5,47.4,300\nb,8.6,47.4,\n", 500.0)
    assert (found.brokers, found.radii_m, found.centre("b")) == (("a", "b"), (300.0, 500.0), (8.6, 47.4))
    for text, radius_m, says in (
        ("broker,lon,lat\na,1,2\n", None, "no column 'radius_m'"),
        ("broker,lon\na,1\n", 5.0, "no column 'lat'"),
        ("broker,lon,lat\na,1,2\na,2,3\n", 5.0, "broker 'a' has 2 positions"),
        ("broker,lon,lat\na,1,200\n", 5.0, r"brokers.csv:2: lat is '200': allowed is a number from -90 to 90"),
        ("broker,lon,lat\n,1,2\n", 5.0, "broker is empty"),
        ("broker,lon,lat\n", 5.0, "0 brokers: allowed are 1 to"),
    ):
        with pytest.raises(PipelineError, match=says):
            read(text, radius_m)
    with pytest.raises(PipelineError, match="No such file"):
        brokers_of(str(tmp_path / "none.csv"), 5.0, H3Cells(8))


# ---------------------------------------------------------------- stays


@given(tracks(), st.sampled_from([50.0, 500.0, 5_000.0]), st.sampled_from([60.0, 300.0]))
def test_a_stay_is_near_and_long_and_within_a_trip_and_no_two_overlap(
    track: Track, radius_m: float, stay_s: float
) -> None:
    marked = marks(*arrays(track), CleaningOptions())[1].tolist()
    used = [(*fix, trip) for fix, trip in zip(track, marked, strict=True) if trip >= 0]
    at_s, lons, lats, trips = zip(*used, strict=True)
    end = 0
    for first, after in stays(at_s, lons, lats, trips, StayOptions(radius_m, stay_s)):
        assert end <= first < after
        end = after
        assert len(set(trips[first:after])) == 1
        assert at_s[after - 1] - at_s[first] >= stay_s
        for place in range(first, after):
            apart_m = distance_m(Point(lons[first], lats[first]), Point(lons[place], lats[place]))
            assert apart_m <= radius_m * 1.001


def test_a_planted_stay_is_found() -> None:
    track = [(60.0 * n, 8.5 + max(0, n - 30) / 100 + (n % 3) / 10_000, 47.4) for n in range(60)]
    at_s, lons, lats = (each.tolist() for each in arrays(track))
    assert list(stays(at_s, lons, lats, [0] * 60, StayOptions())) == [(0, 31)]


# ---------------------------------------------------------------- visits


def fixes_table(track: Track, trips: list[int], places: list[str]) -> Any:
    at_s, lons, lats = zip(*track, strict=True)
    number = len(track)
    return pa.table(
        {
            "client": ["c"] * number,
            "at": pa.array([int(at * 1e6) for at in at_s], pa.timestamp("us", tz="UTC")),
            "lon": lons,
            "lat": lats,
            "occupied": [None] * number,
            "trip": pa.array(trips, pa.int64()),
            "place": places,
            **{name: [float(n) for n in range(number)] for name in ("elapsed_s", "east_m", "north_m")},
        }
    )


@st.composite
def placed_tracks(draw: st.DrawFn) -> tuple[Track, list[int], list[str]]:
    number = draw(st.integers(1, 30))
    track = [(float(at), at / 1_000, 0.0) for at in np.cumsum([draw(st.integers(1, 100)) for _ in range(number)])]
    trips = np.cumsum([draw(st.booleans()) and draw(st.booleans()) for _ in range(number)]).tolist()
    return track, trips, [draw(st.sampled_from("abc")) for _ in range(number)]


@given(placed_tracks())
def test_visits_are_the_runs_of_one_place_within_a_trip(drawn: tuple[Track, list[int], list[str]]) -> None:
    track, trips, places = drawn
    found = visits_of(fixes_table(*drawn)).to_pylist()
    runs = [
        (trip, place, [at for _, _, at in run])
        for (trip, place), run in groupby(
            zip(trips, places, [fix[0] for fix in track], strict=True), key=lambda row: row[:2]
        )
    ]
    assert [(row["trip"], row["place"], row["fixes"]) for row in found] == [(t, p, len(run)) for t, p, run in runs]
    for number, (row, (trip, _, run)) in enumerate(zip(found, runs, strict=True)):
        assert (row["first_at"].timestamp(), row["last_at"].timestamp()) == (run[0], run[-1])

        def beside(steps: int, at: int = number, trip: int = trip) -> Any:
            return runs[at + steps] if 0 <= at + steps < len(runs) and runs[at + steps][0] == trip else None

        for name, steps in (("before", -1), ("earlier", -2), ("to", 1)):
            assert row[name] == (other[1] if (other := beside(steps)) else None)
        entered = (before[2][-1] + run[0]) / 2 if (before := beside(-1)) else run[0]
        left = (run[-1] + after[2][0]) / 2 if (after := beside(1)) else run[-1]
        assert row["dwell_s"] == pytest.approx(left - entered)
    moves = [row for row in found if row["to"] is not None]
    assert [row["part"] for row in moves] == [
        sum(nth >= share * len(moves) for share in PARTS) for nth in range(len(moves))
    ]
    assert sum(row["dwell_s"] for row in found) == pytest.approx(
        sum(
            run[-1] - run[0]
            for run in (
                [at for at, t in zip((f[0] for f in track), trips, strict=True) if t == trip] for trip in set(trips)
            )
        )
    )


@given(placed_tracks(), st.integers(1, 30))
def test_a_visit_knows_nothing_of_what_comes_later_but_where_it_leads(
    drawn: tuple[Track, list[int], list[str]], cut: int
) -> None:
    """The law that keeps a prediction honest: with the future cut off, what was known stays the same."""
    whole = visits_of(fixes_table(*drawn)).to_pylist()
    short = visits_of(fixes_table(*(each[:cut] for each in drawn))).to_pylist()  # type: ignore[arg-type]
    known = (
        "trip",
        "place",
        "before",
        "earlier",
        "last_at",
        "occupied",
        "lon",
        "lat",
        "elapsed_s",
        "east_m",
        "north_m",
    )
    for row, later in zip(short[:-1], whole, strict=False):
        assert [row[name] for name in known] == [later[name] for name in known]


# ---------------------------------------------------------------- prediction


def counted(rows: list[tuple[int, int]], places: int) -> Counted:
    pairs = Counter(rows)
    keys, to = (
        (np.array(column, np.int64) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0, np.int64),) * 2
    )
    return Counted.of(keys, to, np.array(list(pairs.values()), np.int64), places)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), max_size=40))
def test_counts_are_found_again(rows: list[tuple[int, int]]) -> None:
    table, pairs, keys = counted(rows, 5), Counter(rows), Counter(key for key, _ in rows)
    asked = [(key, to) for key in range(-4, 5) for to in range(-1, 5)]
    numbers = table.find(np.array([key for key, _ in asked], np.int64))
    assert table.count(numbers, np.array([to for _, to in asked])).tolist() == [pairs[each] for each in asked]
    totals = [0 if number < 0 else int(table.totals[number]) for number in numbers]
    assert totals == [keys[key] for key, _ in asked]


def walk(rows: list[tuple[str, str, str]], places: str) -> tuple[list[Any], Any]:
    """Keys of each of the kinds for transitions (before, here, to); what is not known is the same for all."""
    known = [{"place": here, "before": before} for before, here, _ in rows]
    keys = [
        np.array([crc32(repr((number, *(row.get(name, "") for name in kind))).encode()) for row in known], np.int64)
        for number, kind in enumerate(KINDS)
    ]
    return keys, np.array([places.index(to) for _, _, to in rows], np.int64)


def tables_of(keys: list[Any], to: Any, places: int) -> list[Counted]:
    return [counted(list(zip(key.tolist(), to.tolist(), strict=True)), places) for key in keys]


transitions = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=40
)


@given(transitions, transitions, st.lists(st.floats(-2, 2), min_size=7, max_size=7))
def test_what_may_happen_adds_up_to_one_and_one_of_it_does(
    seen: list[tuple[str, str, str]], asked: list[tuple[str, str, str]], weights: list[float]
) -> None:
    keys, to = walk(seen, "abcd")
    chains = tuple(prediction.CHAINS)
    steps = steps_of(tables_of(keys, to, 4), chains, *walk(asked, "abcd"))
    likely = likelihoods(steps, np.array(weights))
    assert np.add.reduceat(likely, steps.begins).tolist() == pytest.approx([1.0] * len(asked))
    assert np.add.reduceat(steps.happened, steps.begins, dtype=int).tolist() == [1] * len(asked)


@given(transitions, transitions)
def test_the_baseline_answers_as_the_brokers_model_does(
    seen: list[tuple[str, str, str]], asked: list[tuple[str, str, str]]
) -> None:
    seen, asked = ([row for row in rows if row[1] != row[2]] for rows in (seen, asked))
    rows = sorted(Counter((here, to) for _, here, to in seen).items())
    text = json.dumps(mined_files.model([{"place": here, "to": to, "count": count} for (here, to), count in rows], []))
    model = model_of(text, "model.json")
    right = sum(model.next_broker("c", here, 1) == to for _, here, to in asked)
    if not seen or not asked:
        return
    keys, to = walk(seen, "abcd")
    score = scored(steps_of(tables_of(keys, to, 4), (), *walk(asked, "abcd")), np.ones(1), 4)
    assert (score.transitions, score.top_1) == (len(asked), right)


def test_who_comes_from_where_decides_where_it_goes_and_only_the_better_model_sees_it() -> None:
    """Two ways cross: from a through x to b, from c through x to d. First order can be right half of the time."""
    rows = [("a", "x", "b"), ("c", "x", "d")] * 40
    keys, to = walk(rows, "abcdx")
    tables = tables_of(keys, to, 5)
    first = scored(steps_of(tables, (), keys, to), np.ones(1), 5)
    steps = steps_of(tables, ("order two",), keys, to)
    second = scored(steps, fitted(steps), 5)
    assert (first.top_1, second.top_1, second.transitions) == (40, 80, 80)
    assert second.log_loss < first.log_loss / 10


def test_a_chain_that_knows_nothing_gets_no_weight_that_matters() -> None:
    rows = [(before, "x", to) for before in "ab" for to in "cd" for _ in range(30)]  # where from says nothing here
    keys, to = walk(rows, "abcdx")
    tables = tables_of(keys, to, 5)
    steps = steps_of(tables, ("order two",), keys, to)
    first = scored(steps_of(tables, (), keys, to), np.ones(1), 5)
    assert scored(steps, fitted(steps), 5).log_loss == pytest.approx(first.log_loss, rel=0.05)


def test_weights_are_the_best_there_are() -> None:
    rows = [("a", "x", "b"), ("c", "x", "d"), ("a", "x", "d"), ("a", "x", "b")] * 10
    keys, to = walk(rows, "abcdx")
    steps = steps_of(tables_of(keys, to, 5), ("order two", "hour"), keys, to)
    best = fitted(steps)
    loss = scored(steps, best, 5).log_loss
    for place in range(len(best)):
        for change in (-0.1, 0.1):
            other = best.copy()
            other[place] += change
            assert scored(steps, other, 5).log_loss >= loss - 1e-6


def test_a_step_to_where_nobody_went_costs_what_elsewhere_costs() -> None:
    keys, to = walk([("a", "x", "b")] * 10, "abx")
    asked = walk([("a", "x", "a")], "abx")
    score = scored(steps_of(tables_of(keys, to, 3), (), *asked), np.ones(1), 3)
    assert (score.top_1, score.top_3) == (0, 0)
    assert score.log_loss == pytest.approx(-math.log(prediction.DISCOUNT / 10 / 3))


# ---------------------------------------------------------------- files


def test_the_files_are_read_by_those_whom_they_are_for(tmp_path: Path) -> None:
    cells = GridCells(0.5)
    steps = [
        {"place": "0,0", "to": "1,0", "count": 5},
        {"place": "1,0", "to": "0,0", "count": 1},
        {"place": "1,0", "to": "2,0", "count": 4},
    ]
    dwells = [{"place": f"{n},0", "visits": 5, "mean_s": 1.0 / 3, "median_s": None} for n in range(3)]
    proxy_sets = [{"client": "c", "places": ["1,0", "0,0"]}]
    pairs = [
        {"before": "0,0", "place": "1,0", "to": "2,0", "count": 4},
        {"before": "2,0", "place": "1,0", "to": "0,0", "count": 1},
    ]
    mined_files.write(
        tmp_path, cells, dwells=dwells, steps=steps, pairs=pairs, proxy_sets=proxy_sets, share=0.9, steps_min=2
    )
    movement = parse((tmp_path / "movement.json").read_text())
    assert (movement.after("0,0"), movement.after("1,0"), movement.after("2,0")) == (("1,0",), ("2,0",), ())
    assert min(movement.positions, key=lambda name: distance_m(movement.positions[name], Point(0.8, 0.3))) == "1,0"
    model = model_of((tmp_path / "model.json").read_text(), "model.json")
    assert [model.next_broker("c", place, 1) for place in ("0,0", "1,0", "2,0")] == ["1,0", "2,0", None]
    assert [model.next_broker("c", "1,0", 1, before) for before in ("0,0", "2,0")] == ["2,0", "0,0"]
    assert json.loads((tmp_path / "dwell.json").read_text())["places"]["1,0"] == {
        "visits": 5,
        "mean_s": 0.333,
        "median_s": None,
    }
    assert json.loads((tmp_path / "proxies.json").read_text()) == {"share": 0.9, "clients": {"c": ["1,0", "0,0"]}}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--cells", "s2:1"], "'s2:1' is not a kind of cells"),
        (["--gap", "0"], "a gap of 0 s: it must be above 0"),
        (["--steps-min", "0"], "allowed is 1 or more"),
        (["--proxy-share", "1.1"], "a share of 1.1 of the time"),
        (["--brokers", "none.csv"], "none.csv: No such file"),
        (["absent"], "absent: no such file or folder"),
        (["--out", "cab.txt"], "cab.txt is not a folder: use another --out"),
    ],
)
def test_a_wish_that_cannot_be_met_is_one_sentence_before_spark_starts(
    options: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cab.txt").write_text("1.0 2.0 0 1000\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # with which Spark cannot start
    result = CliRunner().invoke(app, ["mobility", "cab.txt", "--out", "out", *options])
    assert says in str(result.exception)


def test_a_graph_of_too_many_places_is_refused() -> None:
    dwells = [{"place": f"{n},0"} for n in range(mined_files.PLACES_MAX + 1)]
    with pytest.raises(PipelineError, match=r"a movement graph of 100,001 places: allowed are 100,000, so use larger"):
        mined_files.movement(GridCells(0.001), dwells, [], 1)
