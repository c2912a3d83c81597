"""Formats of tracks: GeoLife's PLT, GPX, NMEA sentences, and AIS messages as CSV.

*Theory.* Each format gives rows with the attributes of a fix (`client`, `at`, `lon`, `lat`), which `fixes_rows.fix_of`
checks as it checks those of any other format.

| format | a row is | the client is |
|---|---|---|
| `plt` | a line after the six of the head: `lat,lon,0,feet,days,date,time` | the user's folder, or the file's name |
| `gpx` | a `trkpt` element | the file's name |
| `nmea` | an `RMC` sentence, which alone has date, time and place | the file's name |
| `ais` | a line of CSV with a header that names MMSI, time, latitude and longitude | the MMSI |

*Rules.*
1. An invalid fix is a bad row with its reason. NMEA sentences other than RMC, and GPX points outside tracks, are not
   rows.
2. An RMC sentence whose checksum is wrong, or whose receiver had no fix (status V), is bad.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

from godwit.errors import PipelineError
from godwit.pipeline.formats import csv_rows, xml_rows
from godwit.pipeline.formats.rows import BadRow, Options, Row, one_number, refused
from godwit.pipeline.formats.splits import BROKEN_OFF, LINE_BYTES_MAX, Split, TruncatedFile, lines

__all__ = ["AIS_COLUMNS", "ais", "ais_columns", "gpx", "nmea", "plt"]

PLT_HEAD = 6  # lines
PLT_CELLS = 7
TRAJECTORY = "Trajectory"  # the folder of a user's files in GeoLife
AIS_COLUMNS = {
    "client": ("mmsi",),
    "at": ("basedatetime", "base_date_time", "# timestamp", "timestamp", "time"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "longitude"),
}
AIS_TIME = "%d/%m/%Y %H:%M:%S"  # in the archive of the Danish Maritime Authority; others write ISO 8601

Parse = Callable[[str], dict[str, Any] | None]


def plt(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The fixes of a file of GeoLife."""
    path = Path(split.path)
    client = path.parent.parent.name if path.parent.name == TRAJECTORY else path.name.partition(".")[0]

    def parse(line: str) -> dict[str, Any]:
        cells = line.split(",")
        if len(cells) != PLT_CELLS:
            raise ValueError(f"{len(cells)} cells where a line of PLT has {PLT_CELLS}")
        found = {"lat": float(cells[0]), "lon": float(cells[1])}
        return {"client": client, **found, "at": f"{cells[5].strip()}T{cells[6].strip()}Z"}

    return _by_line(split, parse, skipped=PLT_HEAD)


def nmea(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The fixes of a file of NMEA sentences."""
    return _by_line(split, _rmc)


def gpx(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The points of the tracks of a GPX file."""
    for row in xml_rows.rows(split, replace(options, format="xml", row="trkpt")):
        if isinstance(row, BadRow):
            yield row
            continue
        held = {"lon": "trkpt/@lon", "lat": "trkpt/@lat", "at": "trkpt/time"}
        found: dict[str, Any] = {name: one_number(row.attributes.get(path)) for name, path in held.items()}
        yield row._replace(attributes={name: value for name, value in found.items() if value is not None})


def ais(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The positions of ships, of a CSV file."""
    names = ais_columns(csv_rows.header(split.path, options, split.given), split.given or split.path)
    for row in csv_rows.rows(split, replace(options, time=names["at"], time_format=AIS_TIME)):
        if isinstance(row, BadRow):
            yield row
            continue
        found: dict[str, Any] = {ours: row.attributes.get(theirs) for ours, theirs in names.items()}
        if isinstance(found["at"], str) and "/" in found["at"]:
            try:
                found["at"] = datetime.strptime(found["at"], AIS_TIME).replace(tzinfo=UTC)
            except ValueError:
                yield refused(row.line, "no fix", f"the time is {found['at']!r}", row.text)
                continue
        if found["client"] is None:
            yield refused(row.line, "no fix", f"there is no {names['client']!r}", row.text)
            continue
        yield row._replace(attributes={name: value for name, value in found.items() if value is not None})


def ais_columns(header: Sequence[str], given: str) -> dict[str, str]:
    """The columns of a file of AIS messages; `PipelineError` if one is missing."""
    known = {name.strip().lower(): name for name in header}
    found = {}
    for ours, theirs in AIS_COLUMNS.items():
        name = next((known[each] for each in theirs if each in known), None)
        if name is None:
            raise PipelineError(
                f"{given} has no column {' or '.join(map(repr, theirs))} for the {ours} of a fix: its columns are "
                f"{', '.join(header)}; --format csv --table fixes --map OLD=NEW reads it"
            )
        found[ours] = name
    return found


def _by_line(split: Split, parse: Parse, skipped: int = 0) -> Iterator[Row | BadRow]:
    number = split.lines_before
    try:
        for number, line in lines(split):
            if line is None:
                yield refused(number, "too long", f"the line is longer than {LINE_BYTES_MAX:,} bytes", "")
            elif number > skipped and line and not line.isspace():
                try:
                    found = parse(line.decode())
                except UnicodeDecodeError as error:
                    yield refused(number, "no UTF-8", f"byte {error.start + 1} of the line", line)
                except ValueError as error:
                    yield refused(number, "no fix", error, line)
                else:
                    if found is not None:
                        yield Row(number, number, found, size=len(line), text=line)
    except TruncatedFile as error:
        yield refused(number + 1, BROKEN_OFF, f"the file cannot be read from here on ({error})", "")


# ---------------------------------------------------------------- NMEA 0183


def _rmc(line: str) -> dict[str, Any] | None:
    """The fix of an RMC sentence; None for any other."""
    line = line.strip()
    if line.startswith("!"):
        raise ValueError("AIS messages in binary form are not read: --format ais reads their CSV export")
    if not line.startswith("$"):
        raise ValueError("a sentence of NMEA begins with $")
    said, star, checksum = line[1:].partition("*")
    if star and f"{reduce(xor, said.encode(), 0):02X}" != checksum.strip().upper():
        raise ValueError(f"the checksum {checksum.strip()!r} is wrong")
    parts = said.split(",")
    if parts[0][2:] != "RMC":
        return None
    if len(parts) < 10:
        raise ValueError(f"{len(parts)} fields where RMC has at least 10")
    if parts[2] != "A":
        raise ValueError(f"the receiver had no fix: status {parts[2]!r}")
    clock, _, fraction = parts[1].partition(".")
    when = datetime.strptime(f"{parts[9]} {clock}", "%d%m%y %H%M%S").replace(tzinfo=UTC)
    if fraction:
        when = when.replace(microsecond=int(f"{fraction:0<6.6}"))
    return {"at": when, "lat": _degrees(parts[3], parts[4], "NS"), "lon": _degrees(parts[5], parts[6], "EW")}


def _degrees(text: str, side: str, sides: str) -> float:
    """Degrees of `ddmm.mmm`, or `dddmm.mmm`, and a letter."""
    whole, _, _ = text.partition(".")
    if len(whole) < 3 or side not in sides or not side:
        raise ValueError(f"{text!r} {side!r} is not an angle: it must be like '4807.038' and one of {', '.join(sides)}")
    found = int(whole[:-2]) + float(text[len(whole) - 2 :]) / 60
    return -found if side == sides[1] else found
