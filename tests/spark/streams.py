"""Events for streams: drawn from a seed, put into the folder of a table file by file, and matched the slow way."""

import os
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from godwit.filters.events import Event, event
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.matching import NaiveMatcher
from godwit.pipeline.columns import Form, column_of, to_arrow
from godwit.pipeline.schemas import About, schema, write_about
from godwit.pipeline.table_events import TableEvents

FORMS = {"symbol": Form("text"), "price": Form("float"), "size": Form("int"), "tags": Form("text", several=True)}
SYMBOLS = ["AAA", "BBB", "CCC", "DDD"]
START = datetime(2026, 11, 15, 22, tzinfo=UTC)

Row = tuple[str, int, tuple[str, ...]]


def filters(number: int = 20, seed: int = 1) -> dict[str, Filter]:
    draw = random.Random(seed)
    shapes = [
        lambda: f"symbol = '{draw.choice(SYMBOLS)}' AND price > {draw.randrange(100)}",
        lambda: f"size BETWEEN {draw.randrange(50)} AND {50 + draw.randrange(50)}",
        lambda: f"tags = 'hot' OR price < {draw.randrange(20)}",
        lambda: "size IS NULL",
    ]
    return {f"s{number}": parse(draw.choice(shapes)()) for number in range(number)}


def events(number: int, first: int = 0, at: datetime = START, step_s: float = 60.0) -> list[Event]:
    """Events `first` and following; each is the same whenever it is drawn."""
    found = []
    for sequence in range(first, first + number):
        draw = random.Random(sequence)
        held: dict[str, Any] = {"symbol": draw.choice(SYMBOLS), "price": draw.randrange(1000) / 10}
        if draw.random() < 0.7:
            held["size"] = draw.randrange(100)
        if draw.random() < 0.4:
            held["tags"] = draw.sample(["hot", "new", "odd"], draw.randrange(1, 4))
        time = at + timedelta(seconds=step_s * (sequence - first))
        found.append(event(held, publisher="p", sequence=sequence, published_at=time.timestamp()))
    return found


def make_table(folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_about(folder, About("events", attributes=FORMS))
    return folder


def put(folder: Path, name: str, found: list[Event]) -> None:
    """A file for each day, under a name that Spark does not look at until it is whole."""
    days: dict[str, list[Event]] = {}
    for each in found:
        assert each.published_at is not None
        days.setdefault(datetime.fromtimestamp(each.published_at, UTC).date().isoformat(), []).append(each)
    for day, rows in days.items():
        columns = {
            "publisher": pa.array([each.publisher for each in rows]),
            "sequence": pa.array([each.sequence for each in rows], pa.int64()),
            "published_at": pa.array(
                [datetime.fromtimestamp(each.published_at or 0, UTC) for each in rows], pa.timestamp("us", tz="UTC")
            ),
            **{
                column_of(attribute): to_arrow(form, [each.attributes.get(attribute) for each in rows])
                for attribute, form in FORMS.items()
            },
        }
        place = folder / f"day={day}"
        place.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), place / f"_{name}")
        _make_newest(folder, place / f"_{name}")
        (place / f"_{name}").rename(place / f"{name}.parquet")


def _make_newest(folder: Path, file: Path) -> None:
    """Spark reads files in the order of their times, in milliseconds: two of one millisecond in any order."""
    newest_ms = max((each.stat().st_mtime_ns // 10**6 for each in folder.glob("*/*.parquet")), default=0)
    time_ns = max(file.stat().st_mtime_ns, (newest_ms + 1) * 10**6)
    os.utime(file, ns=(time_ns, time_ns))


def reader(spark: Any, folder: Path, files: int = 1) -> Any:
    return spark.readStream.schema(schema("events", FORMS)).option("maxFilesPerTrigger", files).parquet(str(folder))


def source(spark: Any, folder: Path, way: str, files: int = 1) -> dict[str, Any]:
    """The events of a table for `stream`, one file to a batch; `way`: `rows` from Spark, or workers read `files`."""
    if way == "rows":
        return {"events": reader(spark, folder, files)}
    table = TableEvents(folder)
    return {"events": table.read(spark, files), "table": table}


def matches(found: Iterable[Event], wanted: Mapping[str, Filter]) -> list[Row]:
    """The slow way, which all others are held to."""
    matcher = NaiveMatcher()
    matcher.add_many(wanted.items())
    rows = [(each.publisher, each.sequence, tuple(sorted(map(str, matcher.match(each))))) for each in found]
    return sorted(row for row in rows if row[2])


def collected(frame: Any) -> list[Row]:
    return sorted((row.publisher, row.sequence, tuple(sorted(row.subscriptions))) for row in frame.collect())
