"""Ingest: no row is lost, each bad one is named, and what Spark reads is what the files say."""

import bz2
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from godwit.errors import PipelineError
from godwit.filters.values import Point
from godwit.pipeline import tables
from godwit.pipeline.columns import Form, attributes_of
from godwit.pipeline.formats.rows import Options
from godwit.pipeline.ingest import Report, ingest
from godwit.trace import Record, TraceWriter
from tests.conventions.repository import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not here")


class Here:
    """`ingest` in the folder of a test; on Spark."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.out = folder / "out"

    def file(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        data = gzip.compress(data) if path.suffix == ".gz" else bz2.compress(data) if path.suffix == ".bz2" else data
        path.write_bytes(data)
        return str(path)

    def ingest(self, source: str | list[str], options: Options, mode: tables.Mode = "new", table: str = "") -> Report:
        given = [source] if isinstance(source, str) else source
        return ingest(self.spark, given, options, self.out, mode, table)

    def read(self) -> "DataFrame":
        return tables.read(self.spark, self.out)

    def events(self) -> list[dict[str, Any]]:
        """The attributes of all events, by publisher and sequence."""
        frame = self.read().orderBy("publisher", "sequence")
        return [dict(each) for batch in frame.toArrow().to_batches() for each in attributes_of(batch)]

    def quarantine(self) -> list[tuple[int, str]]:
        folder = self.out / tables.QUARANTINE
        rows = (
            tables.read(self.spark, folder, "quarantine").orderBy("file", "line").collect() if folder.exists() else []
        )
        return [(row["line"], row["reason"].partition(": ")[0]) for row in rows]


@pytest.fixture
def here(spark: "SparkSession", tmp_path: Path) -> Here:
    return Here(spark, tmp_path)


# ---------------------------------------------------------------- formats


def test_json_lines_are_events_plain_or_as_a_broker_gives_them(here: Here) -> None:
    lines = [
        {"price": 4, "user": {"zip": [1050, 5473]}},
        {
            "publisher": "ann",
            "sequence": 7,
            "published_at": 86_400.5,
            "attributes": {"price": 4.5, "at": {"$time": "2026-11-15T06:00:00+00:00"}, "to": "x"},
            "sender": {"floor": 3},
            "payload": "hi",
            "content_type": "text/plain",
            "expires_at": 90_000,
            "to": "floor=3",
        },
        {"where": {"lon": 8.5, "lat": 47.4}, "price": "high"},
    ]
    source = here.file("events.jsonl", "\n".join(map(json.dumps, lines)))
    report = here.ingest(source, Options("jsonl"))
    assert (report.read, report.written, report.quarantined, report.days) == (3, 3, {}, 1)
    first, third, second = here.read().orderBy("publisher", "sequence").collect()[0:3:1]
    assert (first["publisher"], first["sequence"], second["publisher"], second["sequence"]) == (
        "ann",
        7,
        "events.jsonl",
        3,
    )
    assert (first["to"], first["payload"], first["content_type"]) == ("floor = 3", b"hi", "text/plain")
    assert first["published_at"].isoformat() == "1970-01-02T00:00:00.500000"
    assert str(first["day"]) == "1970-01-02"
    assert third["day"] is None
    by_broker, plain, last = here.events()
    assert plain == {"price": 4, "user/zip": (1050, 5473)}
    assert by_broker["sender.floor"] == 3
    assert by_broker["to"] == "x"
    assert last == {"where": Point(8.5, 47.4), "price": "high"}
    assert report.attributes["price"] == Form("any")
    assert report.attributes["user/zip"] == Form("int", several=True)


def test_csv_has_names_points_and_times_as_asked(here: Here) -> None:
    text = (
        'when,x,y,name,note\n2026-11-15T06:00:00Z,8.5,47.4,a,"two\nlines"\n\n2026-11-16,8,47,,007\n2026-11-16,8,,b,\n'
    )
    options = Options("csv", time="when", points=(("x", "y", "position"),), names=(("name", "label"), ("when", "")))
    report = here.ingest(here.file("quakes.csv", text), options)
    assert (report.read, report.written, report.quarantined, report.days) == (3, 2, {"no point": 1}, 2)
    assert here.events() == [
        {"label": "a", "note": "two\nlines", "position": Point(8.5, 47.4)},
        {"note": "007", "position": Point(8, 47)},
    ]
    assert [row["sequence"] for row in here.read().orderBy("sequence").collect()] == [2, 5]
    assert here.quarantine() == [(6, "no point")]


def by_path(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes that are not those of elements by their names alone."""
    return {name: value for name, value in attributes.items() if not name.startswith("//")}


def test_xml_is_flattened_as_events_are(here: Here) -> None:
    text = """<?xml version="1.0"?><!DOCTYPE f SYSTEM "nowhere.dtd">
    <f xmlns:n="urn:x"><n:car id="7">own<pos><lon>8.5</lon><lat>47.4</lat></pos>
      <tag>a</tag><tag kind="k">b</tag><car/><who by="J&ouml;rg &amp; &lt;&AMP;">J&ouml;rg</who></n:car>
      <car><speed>3</speed><who>&nobody;</who></car><car/></f>"""
    report = here.ingest(
        here.file("cars.xml", text), Options("xml", row="car", points=(("car/pos/lon", "car/pos/lat", "p"),))
    )
    assert (report.read, report.written, report.quarantined) == (3, 2, {"bad event": 1})
    assert [by_path(event) for event in here.events()] == [
        {
            "car": " ",  # it holds elements: look into the document
            "car/@id": 7,
            "car/car": "",
            "car/pos": " ",
            "p": Point(8.5, 47.4),
            "car/tag": ("a", "b"),
            "car/tag/@kind": "k",
            "car/who": "Jörg",
            "car/who/@by": "Jörg & <&",
            "xml:namespace": ("", "urn:x"),
            "xml:prefix": "n",
            "xml:repeated": "car/tag",
        },
        {"car": "", "xml:namespace": ""},
    ]
    payloads = [bytes(row.payload).decode() for row in here.read().orderBy("sequence").collect()]
    assert payloads[0].startswith('<n:car xmlns:n="urn:x" id="7">own<pos>')
    assert payloads[1] == '<car xmlns:n="urn:x"></car>'
    assert here.quarantine() == [(4, "bad event")]


def test_padres_text_in_any_packing_and_a_time_in_its_own_format(here: Here) -> None:
    lines = "[class,'STOCK'],[open,63.30],[date,'28-Dec-04']\np [class,'STOCK'],[open,64],[date,'1-Jan-05']\n"
    given = [here.file("in/a.txt", lines), here.file("in/b.gz", lines), here.file("in/c.bz2", "\n" + lines)]
    report = here.ingest(str(here.folder / "in"), Options("padres", time="date", time_format="%d-%b-%y"))
    assert (report.files, report.read, report.written, report.days) == (len(given), 6, 6, 2)
    assert here.read().where("day = date'2004-12-28'").count() == 3
    assert here.events()[0] == {"class": "STOCK", "open": 63.3, "date": "28-Dec-04"}


def test_an_event_log_ends_with_its_last_whole_line(here: Here) -> None:
    line = '{"publisher": "a", "sequence": %d, "published_at": 1.0, "attributes": {"n": 1}}'
    here.file("log/00000001.jsonl", f"{line % 1}\n{line % 2}\n")
    here.file("log/00000002.jsonl", f"{line % 3}\n{(line % 4)[:-9]}")
    report = here.ingest(str(here.folder / "log"), Options("log"))
    assert (report.read, report.written) == (3, 3)
    assert [row["sequence"] for row in here.read().orderBy("sequence").collect()] == [1, 2, 3]


def test_fixes_are_read_at_once_and_by_line_alike(here: Here) -> None:
    good = "37.75153 -122.39447 0 1211033530\n37.75149 -122.39447 1 1211120000\n"
    bad = good + "37.7 -122.3 2 1211033530\n97 -122.3 1 1211033530\n37.7 -122.3 1\n37.7 nan 1 1211033530\n"
    report = here.ingest([here.file("new_a.txt.gz", good), here.file("new_b.txt", bad)], Options("fixes"))
    assert (report.read, report.written, report.quarantined, report.days) == (8, 4, {"no fix": 4}, 2)
    rows = here.read().orderBy("client", "at").collect()
    assert [tuple(row)[1:] for row in rows[:2]] == [tuple(row)[1:] for row in rows[2:]]
    assert [row["client"] for row in rows] == ["new_a", "new_a", "new_b", "new_b"]
    assert rows[0]["occupied"] is False
    assert here.quarantine() == [(3, "no fix"), (4, "no fix"), (5, "no fix"), (6, "no fix")]


def test_rows_of_other_formats_become_fixes_too(here: Here) -> None:
    text = '<gpx><trkpt lat="52.60" lon="-8.6"><time>2019-02-18T07:45:50Z</time></trkpt><trkpt lat="52.6"/></gpx>'
    options = Options("xml", row="trkpt", time="trkpt/time", names=(("trkpt/@lat", "lat"), ("trkpt/@lon", "lon")))
    report = here.ingest(here.file("drive.gpx", text), options, table="fixes")
    assert (report.read, report.written, report.quarantined) == (2, 1, {"no time": 1})
    [row] = here.read().collect()
    assert (row["client"], row["lon"], row["lat"], row["occupied"]) == ("drive", -8.6, 52.6, None)


def test_traces_of_several_runs_are_one_table(here: Here) -> None:
    for run in ("one", "two"):
        with TraceWriter(here.folder / "runs" / run, {"seed": 1}) as trace:
            trace.write(0.5, "b1", Record("link_up", "b2"))
            trace.write(1.5, "b1", Record("published", publisher="p", sequence=3))
    report = here.ingest(str(here.folder / "runs"), Options("trace"))
    assert (report.table, report.read, report.written) == ("trace", 4, 4)
    rows = here.read().orderBy("run", "at").collect()
    assert [(row["run"], row["kind"], row["sequence"]) for row in rows] == [
        *(("one", "link_up", -1), ("one", "published", 3), ("two", "link_up", -1), ("two", "published", 3)),
    ]
    with pytest.raises(PipelineError, match="the table has a run 'one' already"):
        here.ingest(str(here.folder / "runs" / "one"), Options("trace"), "append")


# ---------------------------------------------------------------- adding


def test_adding_widens_columns_that_are_there(here: Here) -> None:
    here.ingest(here.file("a.jsonl", '{"n": 1, "m": 1}\n{"n": 2}'), Options("jsonl"))
    here.ingest(here.file("b.jsonl", '{"n": 2.5, "m": "x", "new": true}'), Options("jsonl"), "append")
    here.ingest(here.file("c.jsonl", '{"n": [7, 8]}'), Options("jsonl"), "append")
    assert here.events() == [{"n": 1, "m": 1}, {"n": 2}, {"n": 2.5, "m": "x", "new": True}, {"n": (7, 8)}]
    assert [row["n"] for row in here.read().orderBy("publisher", "sequence").collect()] == [
        [1.0],
        [2.0],
        [2.5],
        [7.0, 8.0],
    ]


def test_many_days_of_few_rows_are_no_heap_of_files(here: Here) -> None:
    lines = "\n".join(json.dumps({"n": day, "t": day * 86_400}) for day in range(-100, 101))
    options = Options("jsonl", time="t")
    report = here.ingest(here.file("a.jsonl", lines), options)
    assert report.days == 201
    assert len(tables.files(here.out)) == 1
    here.ingest(here.file("b.jsonl", '{"n": 5, "t": 86400}\n{"n": 6}'), options, "append")
    assert here.read().where("day = date'1970-01-02'").count() == 2
    assert here.read().where("day = date'1969-12-31'").collect()[0]["n"] == -1


def test_a_folder_may_have_any_name(here: Here) -> None:
    here.out = here.folder / "a [b] {c,d} *? %41#"
    here.ingest(here.file("a.jsonl", '{"n": 1}'), Options("jsonl"))
    assert here.events() == [{"n": 1}]


def test_a_frame_is_written_and_added(here: Here) -> None:
    frame = here.spark.sql("select 'c' as client, timestamp'2026-11-15 00:00:01' as at, 1d as lon, 2d as lat")
    frame = frame.selectExpr("*", "date(at) as day")
    tables.write(frame, here.out, "fixes")
    tables.write(frame, here.out, "fixes", "append")
    assert here.read().count() == 2
    assert here.read().columns == ["client", "at", "lon", "lat", "occupied", "day"]
    with pytest.raises(PipelineError, match="a table of fixes has no column 'x'"):
        tables.write(frame.selectExpr("1 as x"), here.out, "fixes", "append")


# ---------------------------------------------------------------- real data


@needs_data
def test_real_xml_and_csv_come_through_whole(here: Here) -> None:
    report = here.ingest(
        str(DATA / "xml" / "siri" / "vm-datafeed-original-corrected.xml"),
        Options("xml", row="VehicleActivity", time="VehicleActivity/RecordedAtTime"),
    )
    assert (report.read, report.written) == (1_081, 1_081)
    report = here.ingest(str(DATA / "events" / "usgs"), Options("csv", time="time"), "overwrite")
    assert (report.read, report.written) == (13_954, 13_954)
