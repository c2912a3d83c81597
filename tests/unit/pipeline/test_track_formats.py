"""Tracks of GeoLife, GPX, NMEA and AIS become fixes; CSV as pandas writes it has a header with an empty name."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from godwit.errors import BadValue, PipelineError
from godwit.pipeline.columns import Form
from godwit.pipeline.formats import csv_rows, track_rows
from godwit.pipeline.formats.fixes_rows import Fix, client_of, fix_of
from godwit.pipeline.formats.rows import BadRow, Options, Row
from godwit.pipeline.formats.splits import Split
from godwit.pipeline.ingest import Report, check

HEAD = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"
AT = 1_224_730_384_000_000  # 2008-10-23T02:53:04Z

Reader = Callable[[Split, Options], Iterator[Row | BadRow]]


def fixes(read: Reader, path: Path, text: str, options: Options | None = None) -> tuple[list[Fix], list[str]]:
    """The fixes of a file, and the reasons of its bad rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    split = Split(str(path), path.name)
    found, bad = [], []
    for row in read(split, options or Options("csv")):
        if isinstance(row, BadRow):
            bad.append(row.reason)
            continue
        try:
            found.append(fix_of(row.attributes, None, client_of(split)))
        except BadValue as error:
            bad.append(str(error))
    return found, bad


def test_a_file_of_geolife_is_of_the_user_whose_folder_it_is_in(tmp_path: Path) -> None:
    lines = "39.984702,116.318417,0,492,39744.12,2008-10-23,02:53:04\n39.9,116.3,0,492\nx,1,0,0,0,2008-10-23,02:53:04\n"
    path = tmp_path / "Data" / "007" / "Trajectory" / "20081023025304.plt"
    found, bad = fixes(track_rows.plt, path, HEAD + lines)
    assert found == [Fix("007", AT, 116.318417, 39.984702, None)]
    assert bad[0] == "no fix: 4 cells where a line of PLT has 7"
    assert "could not convert" in bad[1]
    assert fixes(track_rows.plt, tmp_path / "walk.plt", HEAD + lines)[0][0].client == "walk"


def test_a_point_of_a_gpx_track_is_a_fix_and_other_points_are_none(tmp_path: Path) -> None:
    text = (
        '<gpx xmlns="http://www.topografix.com/GPX/1/1"><wpt lat="1" lon="2"/><trk><trkseg>'
        '<trkpt lat="39.984702" lon="116.318417"><ele>4</ele><time>2008-10-23T02:53:04Z</time></trkpt>'
        '<trkpt lat="39.9" lon="116.3"/></trkseg></trk></gpx>'
    )
    found, bad = fixes(track_rows.gpx, tmp_path / "walk.gpx", text)
    assert found == [Fix("walk", AT, 116.318417, 39.984702, None)]
    assert len(bad) == 1
    assert "there is no time ('at')" in bad[0]


def test_an_rmc_sentence_is_a_fix_if_its_checksum_is_right_and_the_receiver_had_one(tmp_path: Path) -> None:
    sentences = [
        "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A",
        "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47",
        "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6B",
        "$GPRMC,123519,V,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W",
        "$GNRMC,123519.50,A,4807.038,S,01131.000,W,022.4,084.4,230394,,",
        "$GPRMC,123519,A,x,N,01131.000,E,022.4,084.4,230394,003.1,W",
        "!AIVDM,1,1,,A,15M67FC000G?ufbE`FepT@3n00Sa,0*5C",
    ]
    found, bad = fixes(track_rows.nmea, tmp_path / "boat.nmea", "\n".join(sentences))
    assert [fix.at for fix in found] == [764_426_119_000_000, 764_426_119_500_000]
    assert (round(found[0].lat, 6), round(found[0].lon, 6)) == (48.1173, 11.516667)
    assert (round(found[1].lat, 6), round(found[1].lon, 6)) == (-48.1173, -11.516667)
    assert [reason.partition(": ")[2][:20] for reason in bad] == [
        "the checksum '6B' is",
        "the receiver had no ",
        "'x' 'N' is not an an",
        "AIS messages in bina",
    ]


@pytest.mark.parametrize(
    ("header", "time"),
    [
        ("MMSI,BaseDateTime,LAT,LON,SOG", "2008-10-23T02:53:04"),
        ("MMSI,# Timestamp,Latitude,Longitude,SOG", "23/10/2008 02:53:04"),
    ],
)
def test_csv_of_ais_messages_is_read_by_the_names_of_its_columns(tmp_path: Path, header: str, time: str) -> None:
    text = f"{header}\n219000001,{time},55.5,12.25,3\n219000002,{time},91,181,0\n,{time},55,12,0\n219000003,,55,12,0\n"
    found, bad = fixes(track_rows.ais, tmp_path / "ships.csv", text)
    assert found == [Fix("219000001", AT, 12.25, 55.5, None)]
    assert len(bad) == 3  # 91 and 181 stand for an unknown place


def test_ais_without_its_columns_is_refused_before_spark_starts(tmp_path: Path) -> None:
    path = tmp_path / "ships.csv"
    path.write_text("ship,LAT,LON\na,1,2\n")
    with pytest.raises(PipelineError, match=r"has no column 'mmsi' for the client of a fix: its columns are ship, LAT"):
        check([str(path)], Options("ais"), tmp_path / "out")


def rows_of(path: Path, text: str, options: Options) -> list[dict[str, object]]:
    path.write_text(text)
    found = list(csv_rows.rows(Split(str(path), "file"), options))
    assert not any(isinstance(row, BadRow) for row in found)
    return [dict(row.attributes) for row in found if isinstance(row, Row)]


def test_csv_as_pandas_writes_it_is_read_and_its_index_has_a_name(tmp_path: Path) -> None:
    path, text = tmp_path / "frame.csv", ",price,symbol\n0,3.5,A\n1,4,B\n"
    assert rows_of(path, text, Options("csv"))[1] == {"index": 1, "price": 4, "symbol": "B"}
    assert rows_of(path, text, Options("csv", index="row"))[0] == {"row": 0, "price": 3.5, "symbol": "A"}
    with pytest.raises(PipelineError, match="column 1 of the header has no name, and 'index' is the name of another"):
        rows_of(path, ",index\n0,1\n", Options("csv"))
    with pytest.raises(PipelineError, match="column 2 of the header is ''"):
        rows_of(path, "a,,b\n0,1,2\n", Options("csv"))


def test_lines_before_the_header_are_skipped(tmp_path: Path) -> None:
    text = 'exported by "a tool\nunits: m/s\nspeed\n5\n'
    assert rows_of(tmp_path / "log.csv", text, Options("csv", skip_lines=2)) == [{"speed": 5}]


def test_an_envelope_that_is_not_quite_one_is_warned_of() -> None:
    whole = Report("events", attributes={"price": Form("int")})
    assert whole.warning == ""
    nearly = Report("events", attributes=dict.fromkeys(("attributes/price", "publisher", "topic"), Form("int")))
    assert "but also 'topic', which such a line does not have" in nearly.warning
    assert "'attributes/price'" in nearly.warning
