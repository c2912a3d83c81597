"""Who may answer which events match which filters, and how their answers are compared: row for row."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from godwit.filters.events import Attributes, Event, values_of
from godwit.filters.filters import Filter
from godwit.filters.language import to_text
from godwit.matching.index_matcher import IndexMatcher
from godwit.pipeline.columns import EXACT_MAX, Form, attributes_of, column_of, form_of_values, joined, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_GROUP = 4
WHERES_MAX = 20  # each is a scan of its own; of more filters every second or third is asked so
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ROW = "row"
"""A column beside the attributes: the number of the row."""

Rows = Sequence[Attributes]
Answers = list[frozenset[int]]
"""For each filter the rows that it matches."""


# ---------------------------------------------------------------- tables


def table_of(rows: Rows) -> pa.Table:
    """Events as a table, each column of the form that its values need."""
    columns = {
        column_of(name): to_arrow(form, [row.get(name) for row in rows]) for name, form in forms_of(rows).items()
    }
    return pa.table({ROW: pa.array(range(len(rows)), pa.int64()), **columns})


def forms_of(rows: Rows) -> dict[str, Form]:
    """The forms that the columns of these rows need."""
    found: dict[str, Form] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        helds = [row[name] for row in rows if name in row]
        exact = all(abs(value) <= EXACT_MAX for held in helds for value in values_of(held) if type(value) is int)
        found[name] = reduce(lambda a, b: joined(a, b, exact=exact), map(form_of_values, helds))
    return found


def rows_of(table: pa.Table) -> Rows:
    """The events of a table, read the slow way."""
    return attributes_of(table.drop_columns([ROW]))


def stored(spark: "SparkSession", folder: Path, table: pa.Table) -> "DataFrame":
    """The table in a Parquet file of small row groups, so that a bound on the wrong side loses rows."""
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".parquet", delete=False) as file:
        pq.write_table(table, file.name, row_group_size=ROW_GROUP)
    return spark.read.parquet(file.name)


# ---------------------------------------------------------------- who answers


def naive(rows: Rows, filters: Sequence[Filter]) -> Answers:
    """What the filters say themselves."""
    return [frozenset(number for number, row in enumerate(rows) if filter.holds(row)) for filter in filters]


def by_index(rows: Rows, filters: Sequence[Filter]) -> Answers:
    """What the matcher says of one event after the other."""
    matcher = IndexMatcher()
    matcher.add_many(enumerate(filters))
    matched = [set(matcher.match(Event(row))) for row in rows]
    return [frozenset(row for row, ids in enumerate(matched) if id in ids) for id in range(len(filters))]


def by_batch(events: "DataFrame", filters: Sequence[Filter]) -> Answers:
    """What the workers of Spark find with the index."""
    from pyspark.sql import functions as fn

    from godwit.pipeline.matching import match, save_index

    with tempfile.TemporaryDirectory() as folder:
        index = save_index({str(number): filter for number, filter in enumerate(filters)}, folder)
        table = match(events.withColumn("sequence", fn.col(ROW)), index).toArrow()
    found: list[set[int]] = [set() for _ in filters]
    for row, ids in zip(table["sequence"].to_pylist(), table["subscriptions"].to_pylist(), strict=True):
        for id in ids:
            found[int(id)].add(row)
    return list(map(frozenset, found))


def by_column(events: "DataFrame", filters: Sequence[Filter]) -> Answers:
    """Every filter a column of one `select`."""
    from godwit.pipeline.filter_sql import column_for

    columns = [column_for(filter, events.schema).alias(f"filter {number}") for number, filter in enumerate(filters)]
    table = events.select(ROW, *columns).toArrow()
    rows, *answers = (column.to_pylist() for column in table.columns)
    assert not any(None in answer for answer in answers), "the column is never null"
    return [frozenset(row for row, met in zip(rows, answer, strict=True) if met) for answer in answers]


def by_where(events: "DataFrame", filters: Sequence[Filter]) -> Answers:
    """Every filter a `where` of its own, all in one job, and interpreted: so many would take long to compile, and the
    column of `by_column` is compiled anyhow."""
    from pyspark.sql import functions as fn

    from godwit.pipeline.filter_sql import condition_for

    left = [
        events.where(condition_for(filter, events.schema)).select(fn.lit(number), ROW)
        for number, filter in enumerate(filters)
    ]
    with having_set(events.sparkSession, INTERPRETED):
        table = reduce(lambda a, b: a.unionAll(b), left).toArrow()
    found: list[set[int]] = [set() for _ in filters]
    for number, row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[number].add(row)
    return list(map(frozenset, found))


@contextmanager
def having_set(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """A session that is set otherwise for a while."""
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, old)  # type: ignore[arg-type]


# ---------------------------------------------------------------- comparing


def check(rows: Rows, filters: Sequence[Filter], who: str, found: Answers) -> None:
    """`who` has found what the filters say themselves; else for which filter and which row not."""
    for filter, wanted, got in zip(filters, naive(rows, filters), found, strict=True):
        for row in sorted(wanted ^ got):
            raise AssertionError(
                f"{who} says {row in got} where the filter says {row in wanted}: {to_text(filter)} ({filter!r}) "
                f"on {rows[row]!r}"
            )


def agree(events: "DataFrame", table: pa.Table, filters: Sequence[Filter]) -> None:
    """All say the same of every row of a table, which `events` reads from Parquet."""
    rows, some = rows_of(table), filters[:: 1 + len(filters) // (WHERES_MAX + 1)]
    check(rows, filters, "the index", by_index(rows, filters))
    check(rows, filters, "Spark's batch", by_batch(events, filters))
    check(rows, filters, "the SQL column", by_column(events, filters))
    check(rows, some, "where", by_where(events, some))
