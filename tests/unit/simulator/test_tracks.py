"""Tracks in a plane, and files of positions: what is read, what is left out, what is refused."""

import gzip
import math
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.errors import ScenarioError
from godwit.filters.regions import distance_m
from godwit.filters.values import Point
from godwit.simulator import tracks
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import named, with_changes
from godwit.simulator.tracks import Fixes, Plane, Rectangle, Track, fixes_of, plausible, positions_of
from tests.conventions.repository import ROOT

CABS = ROOT.parent / "shared" / "data" / "mobility" / "cabspotting"


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def fixes(*rows: tuple[float, float, float]) -> Fixes:
    found = Fixes()
    for row in rows:
        found.add(*row)
    return found


# ---------------------------------------------------------------- tracks


def test_between_two_spots_one_goes_straight_and_evenly() -> None:
    track = Track(gap_s=20)
    for at, spot in ((10, (0.0, 0.0)), (20, (10.0, 20.0)), (20, (10.0, 20.0)), (40, (10.0, 20.0)), (61, (0.0, 0.0))):
        track.add(at, spot)
    assert [track.at(now) for now in (10, 15, 20, 30, 40)] == [(0, 0), (5, 10), (10, 20), (10, 20), (10, 20)]


def test_where_nothing_is_known_nobody_is() -> None:
    track = Track(gap_s=20)
    track.add(10, (0.0, 0.0))
    track.add(31, (1.0, 1.0))
    assert [track.at(now) for now in (9.9, 10, 10.1, 30, 31, 31.1)] == [None, (0, 0), None, None, (1, 1), None]


def test_distances_in_the_plane_are_those_on_the_globe() -> None:
    rng = Random(1)
    box = Rectangle(8.3, 47.2, 8.7, 47.5)
    plane = Plane(box)
    for _ in range(200):
        a, b = ((rng.uniform(box.west, box.east), rng.uniform(box.south, box.north)) for _ in range(2))
        on_the_globe = distance_m(Point(*a), Point(*b))
        assert math.isclose(math.dist(plane.spot(*a), plane.spot(*b)), on_the_globe, rel_tol=0.01)


def test_what_lies_too_far_apart_for_a_plane_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"positions lie up to 6\d\d km apart .* allowed are 500 km"):
        Plane(Rectangle(0, 40, 8, 41))
    with pytest.raises(ScenarioError, match="km apart"):
        Plane(Rectangle(-179.9, 0, 179.9, 1))  # across the antimeridian


# ---------------------------------------------------------------- reading


def test_rows_in_any_order_become_positions_by_id_with_the_oldest_first(tmp_path: Path) -> None:
    text = "id,speed,lon,lat,time\nb,1,8.5,47.5,30\na,1,8.1,47.1,20\n\nb,1,8.4,47.4,10\nc,1,8,47,10\n"
    found = fixes_of(written(tmp_path / "t.csv", text))
    assert {id: list(each.rows()) for id, each in found.items()} == {
        "b": [(10, 8.4, 47.4), (30, 8.5, 47.5)],
        "c": [(10, 8, 47)],
        "a": [(20, 8.1, 47.1)],
    }
    assert list(found) == ["b", "c", "a"]  # who comes first is first


def test_times_are_seconds_or_dates(tmp_path: Path) -> None:
    times = ["1211018404", "1211018404.5", "2008-05-17T10:00:05Z", "2008-05-17T12:00:06+02:00", "2008-05-17 10:00:07"]
    text = "time,id,lon,lat\n" + "".join(f"{time},a,8,47\n" for time in times)
    found = fixes_of(written(tmp_path / "t.csv", text))["a"]
    assert [at - 1211018404 for at in found.times] == [0, 0.5, 1, 2, 3]


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    rows = [(datetime(2008, 5, 17, 10, 0, 4, tzinfo=UTC), 8.5), (datetime(2008, 5, 17, 10, 0, 2, tzinfo=UTC), 8.25)]
    times, lons = ([row[column] for row in rows] for column in (0, 1))
    pq.write_table(pa.table({"time": times, "id": ["7", "7"], "lon": lons, "lat": lons}), tmp_path / "t.parquet")
    text = "time,id,lon,lat\n" + "".join(f"{at.isoformat()},7,{lon},{lon}\n" for at, lon in rows)
    from_csv = fixes_of(written(tmp_path / "t.csv", text))
    from_parquet = fixes_of(str(tmp_path / "t.parquet"))
    assert list(from_parquet) == list(from_csv) == ["7"]
    assert list(from_parquet["7"].rows()) == list(from_csv["7"].rows())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "t.csv: no column 'time' in the header ''"),
        ("1,a,8,47\n", "t.csv: no column 'time' in the header '1,a,8,47': there must be time, id, lon, lat"),
        ("time,id,lon,lat,lon\n", "more than one column 'lon'"),
        ("time,id,lon,lat\n", "t.csv: there is no position in it"),
        ("time,id,lon,lat\n1,a,8,47\n2,a,8\n", "t.csv:3: 3 values, and the header has 4"),
        ("time,id,lon,lat\nnoon,a,8,47\n", "t.csv:2: time is 'noon': allowed are seconds, or a date"),
        ("time,id,lon,lat\nnan,a,8,47\n", "t.csv:2: time is 'nan'"),
        ("time,id,lon,lat\n1e300,a,8,47\n", "t.csv:2: time is '1e300'"),
        ("time,id,lon,lat\n1, ,8,47\n", "t.csv:2: id is empty"),
        ("time,id,lon,lat\n1,a,181,47\n", "t.csv:2: lon is '181': allowed is a number from -180 to 180"),
        ("time,id,lon,lat\n1,a,8,inf\n", "t.csv:2: lat is 'inf': allowed is a number from -90 to 90"),
        ("time,id,lon,lat\n1,a,8,\n", "t.csv:2: lat is ''"),
        ("time,id,lon,lat\n" + "1,a,8,47\n" * 21, "t.csv: more than 20 rows"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_file_and_line(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracks, "FIXES_MAX", 20)
    with pytest.raises(ScenarioError) as caught:
        fixes_of(written(tmp_path / "t.csv", text))
    assert says in str(caught.value)


def test_files_that_are_no_text_no_parquet_or_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"time,id,lon,lat\n1,\xff,8,47\n")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    for name in ("t.csv", "t.parquet", "gone.csv", "gone.parquet"):
        with pytest.raises(ScenarioError, match=name):
            fixes_of(str(tmp_path / name))
    pq.write_table(pa.table({"time": [True], "id": ["a"], "lon": [8.0], "lat": [47.0]}), tmp_path / "b.parquet")
    with pytest.raises(ScenarioError, match=r"b.parquet: row 1: time is True"):
        fixes_of(str(tmp_path / "b.parquet"))
    pq.write_table(pa.table({"time": [1], "lon": [8.0], "lat": [47.0]}), tmp_path / "c.parquet")
    with pytest.raises(ScenarioError, match=r"c.parquet: no column 'id'"):
        fixes_of(str(tmp_path / "c.parquet"))
    pq.write_table(
        pa.table({"time": [1], "id": pa.array([None], pa.string()), "lon": [8.0], "lat": [47.0]}),
        tmp_path / "d.parquet",
    )
    with pytest.raises(ScenarioError, match=r"d.parquet: row 1: id is empty"):
        fixes_of(str(tmp_path / "d.parquet"))


def test_a_broker_has_one_position(tmp_path: Path) -> None:
    file = written(tmp_path / "p.csv", "broker,lon,lat\nb1,8,47\nb2,8,47\n")
    assert positions_of(file) == {"b1": (8, 47), "b2": (8, 47)}
    with pytest.raises(ScenarioError, match=r"p.csv:3: broker 'b1' has a position already"):
        positions_of(written(tmp_path / "p.csv", "broker,lon,lat\nb1,8,47\nb1,8,47\n"))
    written(tmp_path / "p.csv", "broker,lon,lat\nb1,8,47\nb9,8,47\n")
    with pytest.raises(ScenarioError, match="there is no broker 'b9' in the overlay"):
        with_changes(named("roam"), ["overlay={kind='line', brokers=4}", f"overlay.positions={tmp_path / 'p.csv'}"])


# ---------------------------------------------------------------- positions that nobody can have been at


@pytest.mark.parametrize("wild", [0, 1, 3])
def test_a_position_that_nobody_can_have_been_at_is_left_out(wild: int) -> None:
    rows = [(60.0 * k, 8.5 + 0.001 * k, 47.0) for k in range(4)]
    strays = [*rows]
    strays[wild] = (rows[wild][0], 9.5, 47.0)  # 76 km away
    assert list(plausible(fixes(*strays), 200).rows()) == [row for k, row in enumerate(rows) if k != wild]
    assert list(plausible(fixes(*rows), 200).rows()) == rows


def test_two_places_at_one_time_cannot_both_be_and_something_always_stays() -> None:
    assert list(plausible(fixes((0, 8, 47), (1, 8, 47), (1, 9, 47), (2, 8, 47), (3, 8, 47)), 200).rows()) == [
        (0, 8, 47),
        (1, 8, 47),
        (2, 8, 47),
        (3, 8, 47),
    ]
    assert len(plausible(fixes((0, 8, 47), (1, 9, 47)), 200)) == 2


# ---------------------------------------------------------------- a real trace


@pytest.mark.skipif(not CABS.is_dir(), reason="the traces of San Francisco's cabs are not here")
def test_cabs_of_san_francisco_move_over_placed_brokers_and_nothing_is_lost(tmp_path: Path) -> None:
    """Ten cabs, one afternoon, a hundred times as fast."""
    first, lasts_s = 1_211_230_800, 6_000  # 19 May 2008, 21:00 UTC: early afternoon there
    rows = []
    for path in sorted(CABS.glob("*.txt.gz")):
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            lat, lon, _, time = line.split()
            if first <= int(time) < first + lasts_s:
                rows.append(f"{time},{path.name.removesuffix('.txt.gz')},{lon},{lat}")
    trace = written(tmp_path / "cabs.csv", "\n".join(["time,id,lon,lat", *rows]))
    moving = f"clients.roaming={{model='trace', file='{trace}', speedup=100, range_m=3000, margin_m=200, away_s=0.5}}"
    changes = ["overlay={kind='balanced_tree', height=3, degree=7}", "clients.placement=leaves", "run.duration_s=60"]
    clients = ["clients.publishers=4", "clients.subscribers=6", "faults={}", "run.settle_s=60"]
    simulation = Simulation(with_changes(named("roam"), [*changes, *clients, moving]), seed=1)
    assert sum(map(len, simulation.itineraries.values())) > 30
    summary = simulation.run()
    assert summary.violations == ()
    assert summary.moves > 20
    assert summary.owed > 100
