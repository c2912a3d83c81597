"""A dry run: what a filter or query would have matched of a table of events, how many on each day, and which.

*Theory.* One filter needs no index. It is a column of Spark SQL (`filter_sql.py`), so Parquet gives only the columns it
names, and only the row groups whose extremes it does not rule out. How many events there were at all is a count without
columns, which Parquet answers from its footers. Three small jobs: counts of the days, counts of all, the first few. A
query of another language is its routable filter, and its exact test runs in Python workers on what that lets through.

*Rules.*
1. Every day that has events is in the result, also those on which nothing matched; events without a time have no day.
2. The sample is the earliest that matched, then by publisher and sequence: the same on every run.
3. An exact test that cannot be decided ends the dry run with its reason: there is only one query.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from godwit.filters.events import Event
from godwit.filters.filters import attributes_of
from godwit.languages import Query, Subject
from godwit.pipeline.columns import attribute_of
from godwit.pipeline.event_rows import events_of_rows
from godwit.pipeline.filter_sql import condition_for
from godwit.pipeline.subscription_index import Wanted, routable
from godwit.pipeline.tables import read
from godwit.pipeline.worker_operators import operator_sources, parse_in_worker, ship_operators

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
    residues: int = 0
    """Events that the filter of a query let through and its exact test did not."""

    @property
    def matched(self) -> int:
        """How many events matched."""
        return sum(day.matched for day in self.days)

    @property
    def events(self) -> int:
        """How many there were."""
        return sum(day.events for day in self.days)


def dry_run(spark: "SparkSession", folder: str | Path, wanted: Wanted, sample: int = SAMPLE) -> DryRun:
    """What `wanted` would have matched of the table of events in a folder."""
    events = read(spark, folder, "events")
    found = matching(events, wanted)
    there, matched = _by_day(events), _by_day(found)
    first = found.orderBy("published_at", "publisher", "sequence").limit(sample)
    known = {attribute_of(column) for column in events.columns}
    passed = sum(matched.values())
    if isinstance(wanted, Query):
        passed = matching(events, routable(wanted)).count()
    return DryRun(
        tuple(Day(day, matched.get(day, 0), there[day]) for day in sorted(there, key=lambda day: day or date.min)),
        tuple(events_of(first)) if sample and matched else (),
        tuple(name for name in attributes_of(routable(wanted)) if name not in known),
        passed - sum(matched.values()),
    )


def matching(events: "DataFrame", wanted: Wanted) -> "DataFrame":
    """The events that a filter or a query matches, of any DataFrame that has attributes for columns."""
    passed = events.where(condition_for(routable(wanted), events.schema))
    if not isinstance(wanted, Query) or wanted.test is None:
        return passed
    language, text, names = wanted.language, wanted.text, events.columns
    operators = operator_sources()
    ship_operators(events.sparkSession)

    def kept(batches: Iterator[Any]) -> Iterator[Any]:
        query = parse_in_worker(text, language, operators)
        for batch in batches:
            rows = events_of_rows(batch.rename_columns(names))
            yield batch.filter(pa.array([query.wants(Subject(event)) for event in rows], pa.bool_()))

    numbered = passed.toDF(*(f"column_{place}" for place in range(len(names))))  # `mapInArrow` takes dots apart
    return numbered.mapInArrow(kept, numbered.schema).toDF(*names)


def _by_day(events: "DataFrame") -> dict[date | None, int]:
    return {row["day"]: row["count"] for row in events.groupBy("day").count().collect()}


def events_of(rows: "DataFrame") -> list[Event]:
    """The rows of a table of events as events; all of them at once, so of few only."""
    table: Any = rows.toArrow()
    return events_of_rows(table)
