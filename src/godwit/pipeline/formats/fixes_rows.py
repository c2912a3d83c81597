"""Fixes: positions of clients with times. The text format of taxi archives, and rows of other formats.

*Theory.* A line of the text is `latitude longitude occupied seconds`, and the client is the name of the file. A file
without errors is read by Arrow at once, some hundred times as fast as line by line; a file with errors is read by line,
to find them. Rows of other formats have attributes `client`, `at`, `lon`, `lat` and perhaps `occupied`, if necessary
renamed by the user.

*Rules.*
1. Both ways of reading find the same fixes.
2. A fix has a client, a time and a place on the globe, or it is bad.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from godwit.errors import BadValue
from godwit.filters.events import Attributes
from godwit.filters.values import Point
from godwit.pipeline.formats.rows import HELD_SHOWN_MAX, MICROSECONDS, BadRow, in_microseconds, one_number, refused
from godwit.pipeline.formats.splits import BROKEN, BROKEN_OFF, LINE_BYTES_MAX, Split, TruncatedFile, lines, opened

__all__ = ["Fix", "at_once", "by_line", "client_of", "fix_of"]

SECONDS_MAX = 253_402_300_799
COLUMNS = {"lat": pa.float64(), "lon": pa.float64(), "occupied": pa.int8(), "at": pa.int64()}


class Fix(NamedTuple):
    """The position of a client, its time (in microseconds), and whether it had a passenger."""

    client: str
    at: int
    lon: float
    lat: float
    occupied: bool | None


def client_of(split: Split) -> str:
    """The client whose fixes are in a file: its name up to the first dot."""
    return Path(split.publisher).name.partition(".")[0]


def at_once(split: Split) -> Any:
    """All fixes of a file as columns; None if it has an invalid line."""
    if split.start or split.end is not None:
        return None
    try:
        with opened(split.path) as file:
            found = csv.read_csv(
                pa.PythonFile(file, mode="r"),
                read_options=csv.ReadOptions(column_names=list(COLUMNS), use_threads=False),
                parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
                convert_options=csv.ConvertOptions(column_types=COLUMNS, null_values=[]),
            )
    except (pa.ArrowInvalid, *BROKEN):
        return None
    for name, low, high in (("lat", -90, 90), ("lon", -180, 180), ("occupied", 0, 1), ("at", 0, SECONDS_MAX)):
        extremes = pc.min_max(found.column(name)).as_py()
        if found.num_rows and not low <= extremes["min"] <= extremes["max"] <= high:  # NaN is not within either
            return None
    if found.num_rows and any(pc.any(pc.is_nan(found.column(name))).as_py() for name in ("lat", "lon")):
        return None
    return found


def by_line(split: Split) -> Iterator[tuple[int, Fix] | BadRow]:
    """The fixes of a file, line by line."""
    client = client_of(split)
    number = split.lines_before
    try:
        for number, line in lines(split):
            if line is None:
                yield refused(number, "too long", f"the line is longer than {LINE_BYTES_MAX:,} bytes", "")
            elif line and not line.isspace():
                try:
                    yield number, _fix(client, line)
                except ValueError as error:
                    yield refused(number, "no fix", error, line)
    except TruncatedFile as error:
        yield refused(number + 1, BROKEN_OFF, f"the file cannot be read from here on ({error})", "")


def _fix(client: str, line: bytes) -> Fix:
    parts = line.split()
    if len(parts) != 4:
        raise ValueError(f"{len(parts)} numbers where a fix has 4: latitude, longitude, occupied, seconds")
    point = Point(_number(parts[1]), _number(parts[0]))
    if parts[2] not in (b"0", b"1"):
        raise ValueError(f"occupied is {parts[2].decode(errors='replace')!r}: it must be 0 or 1")
    seconds = _number(parts[3])
    if not (math.isfinite(seconds) and 0 <= seconds <= SECONDS_MAX):
        raise ValueError(f"the time is {seconds}: it must be in seconds since 1970")
    return Fix(client, round(seconds * MICROSECONDS), point.lon, point.lat, parts[2] == b"1")


def _number(part: bytes) -> float:
    try:
        return float(part)
    except ValueError:
        raise ValueError(f"{part[:HELD_SHOWN_MAX].decode(errors='replace')!r} is not a number") from None


def fix_of(attributes: Attributes, when: int | None, client: str) -> Fix:
    """The fix of a row of another format; `BadValue` if it is invalid."""
    if when is None:
        if (at := attributes.get("at")) is None:
            raise BadValue(
                "no fix: there is no time ('at'); `ingest --table fixes --time NAME` names the attribute that has it"
            )
        when = in_microseconds(at)
    position: Any = attributes.get("position")
    lon: Any = one_number(attributes.get("lon", getattr(position, "lon", None)))
    lat: Any = one_number(attributes.get("lat", getattr(position, "lat", None)))
    if lon is None or lat is None:
        raise BadValue("no fix: there are no 'lon' and 'lat'; `ingest --table fixes --map OLD=NEW` renames attributes")
    try:
        point = Point(lon, lat)
    except BadValue as error:
        raise BadValue(f"no fix: {error}") from None
    occupied: Any = attributes.get("occupied")
    if occupied not in (None, 0, 1):
        raise BadValue(f"no fix: occupied is {occupied!r}: it must be true, false, 0 or 1")
    named = attributes.get("client", client)
    if type(named) is tuple:
        raise BadValue("no fix: there are several clients")
    return Fix(str(named), when, float(point.lon), float(point.lat), None if occupied is None else bool(occupied))
