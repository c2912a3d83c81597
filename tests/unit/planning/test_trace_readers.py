"""Traces that a plan is made from: how they are read, and what is tallied of them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.errors import BadValue, PipelineError, ScenarioError
from godwit.pipeline.mobility.cells import BrokerPlacement, GridCells
from godwit.pipeline.mobility.cleaning import CleaningOptions
from godwit.planning import trace_readers
from godwit.planning.trace_readers import LocalReader, Tallies, engine_for

WEST, EAST = 8.50, 8.60  # some 7.5 km apart, at 47 degrees
PLACEMENT = BrokerPlacement(("west", "east"), (WEST, EAST), (47.0, 47.0), (1_000.0, 1_000.0), GridCells(0.01))


def trace(folder: Path, *rows: tuple[float, str, float]) -> str:
    """A file of (time, client, lon)."""
    file = folder / "fixes.csv"
    file.write_text("time,id,lon,lat\n" + "".join(f"{at},{client},{lon},47.0\n" for at, client, lon in rows))
    return str(file)


def tallied(file: str) -> Tallies:
    return LocalReader([file]).tally(PLACEMENT, CleaningOptions(gap_s=600))


def test_a_client_that_goes_from_area_to_area_is_handed_over_once(tmp_path: Path) -> None:
    found = tallied(trace(tmp_path, (0, "van", WEST), (300, "van", 8.55), (600, "van", EAST), (700, "van", EAST)))
    assert found["handover", "west", "east"].total == 1
    assert found["mover", "west", "east"].total == 1
    assert found["used", "", ""].total == 4
    assert sum(tally.total for (what, *_), tally in found.items() if what == "missed") == 1
    assert (found["within", "west", ""].total, found["served", "east", ""].total) == (1, 2)
    assert (found["at_s", "", ""].least, found["at_s", "", ""].most) == (0, 700)


def test_a_client_that_was_silent_for_long_returns(tmp_path: Path) -> None:
    found = tallied(trace(tmp_path, (0, "van", WEST), (5_000, "van", EAST)))
    assert ("handover", "west", "east") not in found
    assert found["return", "west", "east"].total == 1
    assert found["moves_in_hour", "0", ""].total == 1


def test_tallies_of_clients_are_added_up(tmp_path: Path) -> None:
    rows = [(at, client, lon) for client in "abc" for at, lon in ((0, WEST), (600, EAST), (1_200, WEST))]
    found = tallied(trace(tmp_path, *rows))
    assert found["client", "", ""].total == 3
    assert found["handover", "west", "east"].total == found["handover", "east", "west"].total == 3
    assert found["present", "west", "0"].total == 3


def test_fixes_that_cannot_be_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [(0, "van", WEST), (10, "van", WEST), (11, "van", 9.9), (20, "van", WEST), (30, "van", WEST)]
    found = tallied(trace(tmp_path, *rows))
    assert found["left_out", "impossible speed", ""].total == 1
    assert found["used", "", ""].total == 4


def test_a_sample_is_of_the_clients_with_most_fixes_in_the_window(tmp_path: Path) -> None:
    rows = (
        [(at, "often", WEST) for at in range(10)] + [(at, "later", EAST) for at in range(20, 90)] + [(5, "once", EAST)]
    )
    reader = LocalReader([trace(tmp_path, *rows)])
    assert {fix.client for fix in reader.sample(0, 10, 1)} == {"often"}
    assert {fix.client for fix in reader.sample(0, 10, 9)} == {"often", "once"}


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    file = trace(tmp_path, (0, "van", WEST), (600, "van", EAST))
    columns = {"time": [0.0, 600.0], "id": ["van", "van"], "lon": [WEST, EAST], "lat": [47.0, 47.0]}
    pq.write_table(pa.table(columns), tmp_path / "fixes.parquet")
    assert tallied(str(tmp_path / "fixes.parquet")) == tallied(file)


def test_small_files_need_no_spark_and_others_say_why_they_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = trace(tmp_path, (0, "van", WEST))
    assert engine_for([file]) == "local"
    text = tmp_path / "new_cab.txt"
    text.write_text("37.75 -122.39 0 1213084687\n")
    with pytest.raises(PipelineError, match=r"neither .csv nor .parquet: this needs Spark"):
        engine_for([str(text)], "local")
    monkeypatch.setattr(trace_readers, "find_spec", lambda name: None)
    with pytest.raises(PipelineError, match=r"new_cab.txt is neither .* needs Spark \(pip install"):
        engine_for([str(text)])
    monkeypatch.setattr(trace_readers, "LOCAL_BYTES_MAX", 10)
    with pytest.raises(PipelineError, match=r"the traces have \d+ bytes, and 10 are read without Spark"):
        engine_for([file])


def test_a_wrong_engine_file_or_row_is_told(tmp_path: Path) -> None:
    file = trace(tmp_path, (0, "van", WEST))
    with pytest.raises(BadValue, match="'flink': allowed is auto, local or spark"):
        engine_for([file], "flink")
    with pytest.raises(PipelineError, match="nowhere: no such file or folder"):
        engine_for(["nowhere"])
    Path(file).write_text("time,id,lon,lat\n0,van,8.5,47\n1,van,east,47\n")
    with pytest.raises(ScenarioError, match=r"fixes.csv:3: lon is 'east': allowed is a number from -180 to 180"):
        LocalReader([file])
