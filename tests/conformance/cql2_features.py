"""The features of the CQL2 suite's GeoPackage as events."""

import json
import sqlite3
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import shapely

from godwit.filters import Event, event

HEADER_BYTES = 8
ENVELOPE_BYTES = {0: 0, 1: 32, 2: 48, 3: 48, 4: 64}


def features(package: Path, layer: str) -> list[Event]:
    """Every row of a layer as an event: a column is an attribute, its geometry is GeoJSON."""
    with sqlite3.connect(f"file:{package}?mode=ro", uri=True) as database:
        columns = [(row[1], row[2]) for row in database.execute(f'PRAGMA table_info("{layer}")')]
        rows = database.execute(f'SELECT * FROM "{layer}"').fetchall()
    return [
        event({name: value_of(kind, cell) for (name, kind), cell in zip(columns, row, strict=True) if cell is not None})
        for row in rows
    ]


def value_of(kind: str, cell: Any) -> Any:
    """A cell as what an event may hold."""
    if isinstance(cell, bytes):
        return json.loads(shapely.to_geojson(geometry_of(cell)))
    if kind == "BOOLEAN":
        return bool(cell)
    if kind in ("DATE", "DATETIME"):
        return datetime.fromisoformat(cell.removesuffix("Z")).replace(tzinfo=UTC)
    return cell


def geometry_of(blob: bytes) -> Any:
    """The geometry of a GeoPackage blob: a header, the envelope that its flags announce, and WKB."""
    magic, _version, flags = struct.unpack_from("<2sBB", blob)
    assert magic == b"GP"
    return shapely.from_wkb(blob[HEADER_BYTES + ENVELOPE_BYTES[(flags >> 1) & 7] :])
