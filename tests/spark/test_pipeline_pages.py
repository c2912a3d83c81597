"""Commands of the pipeline as a reader types them: those of pages, and each format of fixes, on small files."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from godwit.cli import main
from godwit.pipeline import spark_session
from tests.conventions.repository import ROOT
from tests.conventions.sh_blocks import code_blocks, shell_blocks
from tests.conventions.test_docs import blocks
from tests.spark.test_running import Kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "tests/spark/test_pipeline_pages.py"
PAGES = ("docs/guides/pipeline.md", "docs/guides/extend.md")


def block_of(name: str) -> tuple[str, ...]:
    """The commands of the one block of a page that is run here."""
    [block] = [each for each in shell_blocks((ROOT / name).read_text(encoding="utf-8")) if each.run_by == HERE]
    return block.commands


@pytest.fixture
def folder(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the repository's, in which commands use the session of all tests."""
    monkeypatch.setattr(spark_session, "start", lambda *_, **__: Kept(spark))
    monkeypatch.chdir(tmp_path)
    for name in ("examples", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def godwit(*words: str) -> dict[str, Any]:
    """The last line that a command prints, from JSON. Paths become absolute: Spark's JVM is in another folder."""
    here = Path.cwd()
    told = [
        str(here / word) if before == "--out" or (here / word).exists() else word
        for before, word in zip(("", *words), words, strict=False)
    ]
    found = CliRunner().invoke(main.app, told)
    assert found.exit_code == 0, f"$ godwit {shlex.join(words)}\n{found.output}"
    last: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return last


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_a_page_work_as_they_are_written(name: str, folder: Path) -> None:
    (folder / "diary.py").write_text((ROOT / "examples/extensions/diary.py").read_text())
    variables: dict[str, str] = {}
    for line in block_of(name):
        script = re.sub(r"\$\{?(\w+)\}?", lambda found: variables[found[1]], line)
        if found := re.fullmatch(r"(\w+)=(\S+)", script):
            variables[found[1]] = found[2]
        elif script.startswith("godwit "):
            godwit(*shlex.split(script)[1:])
        else:
            subprocess.run(["bash", "-c", script], check=True, cwd=folder)


def test_the_programs_of_the_guide_read_a_file_and_name_its_columns(
    spark: "SparkSession", folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / PAGES[0]).read_text(encoding="utf-8")
    read, renamed = (block.text for block in code_blocks(page, "py") if block.run_by == HERE)
    (folder / "drive.gpx").write_text(GPX.replace("2026-11-15", "2019-02-18"))
    names: dict[str, Any] = {}
    read = re.sub(r'"(drive\.gpx|fixes)"', lambda found: repr(str(folder / found[1])), read)  # Spark is elsewhere
    *program, last = read.replace(f"table={str(folder / 'fixes')!r}", 'table="fixes"').strip().splitlines()
    exec("\n".join(program), names)
    assert eval(last, names) == 2
    exec(renamed, {"spark": spark})
    assert capsys.readouterr().out == next(each for each in blocks(page, "text") if "User_Address_City" in each)


def test_the_commands_of_the_tutorial_are_the_first_of_the_guide() -> None:
    tutorial = block_of("docs/tutorial.md")
    assert tutorial == block_of("docs/guides/pipeline.md")[: len(tutorial)]


# ---------------------------------------------------------------- fixes as devices and archives write them

PLT = """Geolife trajectory
WGS 84
Altitude is in Feet
Reserved 3
0,2,255,My Track,0,0,2,8421376
0
47.3769,8.5417,0,1350,39744.1201852963,2008-10-23,02:53:04
47.3771,8.5421,0,1350,39744.1202546296,2008-10-23,02:53:10
"""
GPX = """<?xml version="1.0"?><gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
<trkpt lat="47.3769" lon="8.5417"><time>2026-11-15T10:00:00Z</time></trkpt>
<trkpt lat="47.3771" lon="8.5421"><time>2026-11-15T10:00:10Z</time></trkpt></trkseg></trk></gpx>
"""
NMEA = """$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47
$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A
"""
AIS = """# Timestamp,Type of mobile,MMSI,Latitude,Longitude,SOG
15/11/2026 10:00:00,Class A,219000001,55.7,12.6,10.1
15/11/2026 10:00:10,Class A,219000002,55.8,12.7,0.0
"""
FIXES = {
    "plt": ("walk.plt", PLT, 2),
    "gpx": ("ride.gpx", GPX, 2),
    "nmea": ("boat.nmea", NMEA, 1),
    "ais": ("ships.csv", AIS, 2),
}


@pytest.mark.parametrize("format", FIXES)
def test_a_format_of_fixes_is_read_from_the_command_line(format: str, folder: Path) -> None:
    name, text, fixes = FIXES[format]
    (folder / name).write_text(text)
    found = godwit("pipeline", "ingest", name, "--format", format, "--out", "fixes")
    assert (found["table"], found["written"], found["quarantined"]) == ("fixes", fixes, 0)


def test_a_table_that_pandas_writes_by_default_is_read_from_the_command_line(folder: Path) -> None:
    (folder / "quakes.csv").write_text(",time,mag\n0,2026-11-15T10:00:00Z,4.5\n1,2026-11-15T11:00:00Z,2.0\n")
    words = ("quakes.csv", "--format", "csv", "--time", "time", "--index-column", "row", "--map", "row=")
    found = godwit("pipeline", "ingest", *words, "--out", "quakes")
    assert (found["written"], found["quarantined"]) == (2, 0)
    assert godwit("pipeline", "dryrun", "quakes", "--filter", "mag > 4 AND row IS NULL")["matched"] == 1
