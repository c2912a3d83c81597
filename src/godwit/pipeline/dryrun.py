"""A dry run: what a filter would have matched of a table of events, how many on each day, and which.

*Theory.* One filter needs no index. It is a column of Spark SQL (`filter_sql.py`), so Parquet gives only the columns it
names, and only the row groups whose extremes it does not rule out. How many events there were at all is a count without
columns, which Parquet answers from its footers. Three small jobs: counts of the days, counts of all, the first few.

*Rules.*
1. Every day that has events is in the result, also those on which nothing matched; events without a time have no day.
2. The sample is the earliest that matched, then by publisher and sequence: the same on every run.
"""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from godwit.filters.events import Event
from godwit.filters.filters import Filter, attributes_of
from godwit.filters.language import parse
from godwit.pipeline.columns import attribute_of
from godwit.pipeline.columns import attributes_of as attributes_of_rows
from godwit.pipeline.filter_sql import condition_for
from godwit.pipeline.tables import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Day", "DryRun", "dry_run", "events_of", "matching"]

SAMPLE = 5


@dataclass(frozen=True)
class Day:
    """How many events of a day there were, and how many matched; None: of those without a time."""

    day: date | None
    matched: int
    events: int


@dataclass(frozen=True)
class DryRun:
    """What a filter would have matched."""

    days: tuple[Day, ...]
    sample: tuple[Event, ...]
    unknown: tuple[str, ...]
    """Attributes that the filter names and no event has."""

    @property
    def matched(self) -> int:
        """How many events matched."""
        return sum(day.matched for day in self.days)

    @property
    def events(self) -> int:
        """How many there were."""
        return sum(day.events for day in self.days)


def dry_run(spark: "SparkSession", folder: str | Path, filter: Filter, sample: int = SAMPLE) -> DryRun:
    """What `filter` would have matched of the table of events in a folder."""
    events = read(spark, folder, "events")
    found = matching(events, filter)
    there, matched = _by_day(events), _by_day(found)
    first = found.orderBy("published_at", "publisher", "sequence").limit(sample)
    known = {attribute_of(column) for column in events.columns}
    return DryRun(
        tuple(Day(day, matched.get(day, 0), there[day]) for day in sorted(there, key=lambda day: day or date.min)),
        tuple(events_of(first)) if sample and matched else (),
        tuple(name for name in attributes_of(filter) if name not in known),
    )


def matching(events: "DataFrame", filter: Filter) -> "DataFrame":
    """The events that a filter matches, of any DataFrame that has attributes for columns."""
    return events.where(condition_for(filter, events.schema))


def _by_day(events: "DataFrame") -> dict[date | None, int]:
    return {row["day"]: row["count"] for row in events.groupBy("day").count().collect()}


def events_of(rows: "DataFrame") -> list[Event]:
    """The rows of a table of events as events; all of them at once, so of few only."""
    table: Any = rows.toArrow()
    own = table.select(["publisher", "sequence", "published_at", "expires_at", "to", "content_type", "payload"])
    return [
        Event(
            attributes,
            publisher=row["publisher"] or "",
            sequence=row["sequence"] or 0,
            payload=row["payload"],
            content_type=row["content_type"],
            published_at=_seconds(row["published_at"]),
            expires_at=_seconds(row["expires_at"]),
            to=None if row["to"] is None else parse(row["to"]),
        )
        for attributes, row in zip(attributes_of_rows(table), own.to_pylist(), strict=True)
    ]


def _seconds(time: Any) -> float | None:
    return None if time is None else float(time.timestamp())
