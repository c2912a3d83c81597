"""A dry run: the events of a table that a filter or query would have matched, with counts per day and a sample.

*Theory.* One filter needs no index. It is a column of Spark SQL (`filter_sql.py`), so Parquet reads only the columns it
uses, and only the row groups whose statistics it does not exclude. The number of all events is a count without columns,
which Parquet answers from its footers. There are three small jobs: matches per day, all events per day, the first few.
For a query of another language the routable filter is used, and its exact test runs in Python workers on the events
that pass.

*Rules.*
1. Every day with events is in the result, also without matches; events without a time have no day.
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
    """The events of a day, and how many matched; None: events without a time."""

    day: date | None
    matched: int
    events: int


@dataclass(frozen=True)
class DryRun:
    """The result of a dry run."""

    days: tuple[Day, ...]
    sample: tuple[Event, ...]
    unknown: tuple[str, ...]
    """Attributes that the filter uses and no event has."""
    residues: int = 0
    """Events that passed the routable filter of a query and failed its exact test."""

    @property
    def matched(self) -> int:
        """How many events matched."""
        return sum(day.matched for day in self.days)

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(day.events for day in self.days)


def dry_run(spark: "SparkSession", folder: str | Path, wanted: Wanted, sample: int = SAMPLE) -> DryRun:
    """Run `wanted` on the table of events in a folder."""
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
    """The events that a filter or a query matches, in any DataFrame with attributes as columns."""
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

    numbered = passed.toDF(*(f"column_{place}" for place in range(len(names))))  # `mapInArrow` splits names at dots
    return numbered.mapInArrow(kept, numbered.schema).toDF(*names)


def _by_day(events: "DataFrame") -> dict[date | None, int]:
    return {row["day"]: row["count"] for row in events.groupBy("day").count().collect()}


def events_of(rows: "DataFrame") -> list[Event]:
    """The rows of a table of events as events; all at once, so only for few."""
    table: Any = rows.toArrow()
    return events_of_rows(table)
