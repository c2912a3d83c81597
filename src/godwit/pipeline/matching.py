"""Matching: which subscriptions does each event of an archive or of a stream match?

*Theory.* `match` is a function from a DataFrame of events to one of matches: each Python worker opens the index, once,
and matches the record batches that Spark passes to it. It works on any DataFrame, also of a stream, whose columns have
forms of attributes; only columns that filters use, and those that identify the event, leave the JVM. A row of the
result is an event and the list of its subscriptions; `pairs` makes a row of each.

*Rules.*
1. The matches of a row do not depend on batches, tasks and machines: naive = index = Spark, row for row.
2. Memory is bounded: a batch, and `index.PAIRS_MAX` pairs.
3. If subscriptions have exact tests, all columns leave the JVM: a test may use any of them, and the payload.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from godwit.pipeline.arrow_columns import ColumnReader
from godwit.pipeline.columns import attribute_of, column_of, form_of_arrow
from godwit.pipeline.exact_matching import Testing
from godwit.pipeline.schemas import TABLES, schema
from godwit.pipeline.subscription_index import IndexFile, OpenIndex, SubscriptionIndex, save_index

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["IndexFile", "PairCounts", "SubscriptionIndex", "count", "counts", "match", "pairs", "save_index"]

KEPT = tuple(name for name in TABLES["matches"] if name != "subscriptions")
"""Columns of an event that are kept in its matches."""


class PairCounts(NamedTuple):
    """Numbers of pairs of an event and a subscription: matches; pairs that passed the filter and failed the exact
    test; undecided ones."""

    matched: int
    residues: int
    undecided: int


def match(events: "DataFrame", index: IndexFile) -> "DataFrame":
    """The matches of events, a row for each event with matches, with the columns of `schemas.TABLES["matches"]`."""
    wanted, names = _wanted(events, index, KEPT)

    def matched(batches: Iterator[Any]) -> Iterator[Any]:
        opened = index.open()
        reader, testing = ColumnReader(index.attributes), opened.testing()
        for batch in batches:
            yield from _matches(opened, reader, testing, batch.rename_columns(names))

    return wanted.mapInArrow(matched, schema("matches"))


def count(events: "DataFrame", index: IndexFile) -> int:
    """The number of matching pairs of an event and a subscription, without writing them."""
    return counts(events, index).matched


def counts(events: "DataFrame", index: IndexFile) -> PairCounts:
    """The numbers of pairs that match, and that passed a filter needlessly."""
    wanted, names = _wanted(events, index, ())

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        opened = index.open()
        reader, testing = ColumnReader(index.attributes), opened.testing()
        total = 0
        for batch in batches:
            named = batch.rename_columns(names)
            total += int(opened.counts(reader.read(named), named.num_rows, testing.of(named)).sum())
        found = PairCounts(total, testing.residues, testing.undecided)._asdict()
        yield pa.record_batch({name: pa.array([value], type=pa.int64()) for name, value in found.items()})

    rows = wanted.mapInArrow(counted, "matched bigint, residues bigint, undecided bigint").collect()
    return PairCounts(*(sum(row[place] for row in rows) for place in range(3)))


def pairs(matches: "DataFrame") -> "DataFrame":
    """A row for each pair of an event and a subscription: the column `subscription` instead of `subscriptions`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    kept = [name for name in matches.columns if name != "subscriptions"]
    return matches.select(*kept, F.explode("subscriptions").alias("subscription"))


def _wanted(events: "DataFrame", index: IndexFile, kept: tuple[str, ...]) -> tuple["DataFrame", list[str]]:
    """The columns that matching needs: those that filters use, if they exist, and `kept`. (rule 3)

    Their names are returned separately: `mapInArrow` splits names with a dot or a backtick, so its columns are
    numbered.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
    from pyspark.sql.pandas.types import to_arrow_type

    index.ship(events.sparkSession)
    fields = {field.name: field.dataType for field in events.schema.fields}
    named = list(map(column_of, index.attributes))
    own: tuple[str, ...] = ()
    if index.tests:
        named = [name for name in fields if attribute_of(name) is not None]
        own = tuple(name for name in TABLES["events"] if name in fields and name not in kept)
    named = [name for name in named if name in fields and not _is_void(fields[name])]
    for name in named:
        form_of_arrow(name, to_arrow_type(fields[name], timezone="UTC"))
    types = {field.name: field.dataType for field in [*schema("events").fields, *schema("matches").fields]}
    chosen: list[Column] = [F.col(_quoted(name)) for name in named]
    for name in (*own, *kept):
        if name in fields:
            chosen.append(F.col(_quoted(name)).cast(types[name]).alias(name))
        elif name == "day" and "published_at" in fields:
            chosen.append(F.to_date("published_at").alias(name))
        else:
            chosen.append(F.lit(None).cast(types[name]).alias(name))
    names = [*named, *own, *kept] or ["day"]
    found = events.select(*(chosen or [F.lit(True)]))
    return found.toDF(*(f"column_{place}" for place in range(len(names)))), names


def _matches(opened: OpenIndex, reader: ColumnReader, testing: Testing, batch: Any) -> Iterator[Any]:
    kept = [batch.column(batch.schema.get_field_index(name)) for name in KEPT]
    for part in opened.parts(reader.read(batch), batch.num_rows, testing.of(batch)):
        rows = pa.array(part.events)
        ids = opened.ids.take(pa.array(part.members))
        found = {name: column.take(rows) for name, column in zip(KEPT, kept, strict=True)}
        found["subscriptions"] = pa.ListArray.from_arrays(pa.array(part.offsets), ids)
        yield pa.record_batch([found[name] for name in TABLES["matches"]], names=list(TABLES["matches"]))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_void(type: Any) -> bool:
    return bool(type.typeName() == "void")
