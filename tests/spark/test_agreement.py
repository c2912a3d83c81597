"""Naive evaluator = index = Spark SQL column = what `where` leaves of a Parquet file, row for row.

*Theory.* An example is a table of events and two dozen filters, from the pools of `tests/property/strategies.py`.
Columns are drawn with all forms there are, under names that SQL would take apart, and with missing and several values.
All is asked in two jobs: every filter as a column of one `select`, and every filter as a `where` of its own over the
same Parquet file, which has a row group for every few events, so that a bound on the wrong side loses rows.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from godwit.filters.events import Attributes, Event, values_of
from godwit.filters.filters import Filter
from godwit.filters.language import to_text
from godwit.filters.sets import ValueSet, complement
from godwit.filters.values import Kind
from godwit.matching.index import IndexMatcher
from godwit.pipeline.columns import EXACT_MAX, Form, attributes_of, column_of, form_of_values, joined, to_arrow
from tests.property import strategies as draw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ("x", "X", "a.b/c d", "day", "`q`")
"""Case, dots, slashes, blanks, backticks, and one that the table has for itself."""
ROW_GROUP = 4
EVENTS, FILTERS = 40, 24

Rows = list[Attributes]
Answers = list[frozenset[int]]
"""For each filter the rows that it matches."""

# ---------------------------------------------------------------- what is drawn


def ints() -> st.SearchStrategy[Any]:
    return draw.values(Kind.NUMBER).filter(lambda value: type(value) is int and value < 2**63)


def floats() -> st.SearchStrategy[Any]:
    return draw.values(Kind.NUMBER).filter(lambda value: type(value) is float)


VALUES: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "bool": lambda: draw.values(Kind.BOOL),
    "int": ints,
    "float": floats,
    "number": lambda: draw.values(Kind.NUMBER),
    "text": lambda: draw.values(Kind.TEXT),
    "time": lambda: draw.values(Kind.TIME),
    "point": lambda: draw.values(Kind.POINT),
    "any": draw.values,
}
SETS: dict[str, Callable[[], st.SearchStrategy[ValueSet]]] = {
    "bool": lambda: draw.finite_sets(Kind.BOOL, Kind.NUMBER),
    "int": lambda: draw.intervals(Kind.NUMBER) | draw.finite_sets(Kind.NUMBER),
    "text": draw.text_sets,
    "time": lambda: draw.intervals(Kind.TIME) | draw.finite_sets(Kind.TIME),
    "point": lambda: draw.regions() | draw.finite_sets(Kind.POINT),
}
SETS["float"] = SETS["number"] = SETS["int"]


@st.composite
def examples(draw_one: st.DrawFn) -> tuple[Rows, list[Filter]]:
    columns: dict[str, list[Any]] = {}
    literals: list[st.SearchStrategy[Any]] = []
    for name in NAMES:
        kind = draw_one(st.sampled_from(list(VALUES)))
        value = VALUES[kind]()
        held: st.SearchStrategy[Any] = st.one_of(st.none(), value, value, value)
        if draw_one(st.booleans()):
            held |= st.lists(value, min_size=2, max_size=3).map(tuple)
        columns[name] = draw_one(st.lists(held, min_size=EVENTS, max_size=EVENTS))
        fitting = SETS.get(kind, draw.value_sets)()
        literals.append(draw.literals([name], st.one_of(fitting, fitting.map(complement), fitting, draw.value_sets())))
    literals.append(draw.literals(["nowhere"]))
    rows: Rows = [{name: held[row] for name, held in columns.items() if held[row] is not None} for row in range(EVENTS)]
    leaves = st.one_of(literals)
    combined = st.lists(leaves, min_size=2, max_size=4)
    some = st.one_of(leaves, leaves, combined.map(draw._all), combined.map(draw._any))
    several = st.one_of(some, some, st.lists(some, min_size=2, max_size=3).map(draw._any))
    return rows, draw_one(st.lists(several, min_size=FILTERS, max_size=FILTERS))


def forms_of(rows: Rows) -> dict[str, Form]:
    """The forms that the columns of these rows need."""
    found: dict[str, Form] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        helds = [row[name] for row in rows if name in row]
        exact = all(abs(value) <= EXACT_MAX for held in helds for value in values_of(held) if type(value) is int)
        found[name] = reduce(lambda a, b: joined(a, b, exact=exact), map(form_of_values, helds))
    return found


def table_of(rows: Rows) -> pa.Table:
    columns: dict[str, Any] = {"row": pa.array(range(len(rows)))}
    for name, form in forms_of(rows).items():
        columns[column_of(name)] = to_arrow(form, [row.get(name) for row in rows])
    return pa.table(columns)


# ---------------------------------------------------------------- who answers


def naive(rows: Rows, filters: Sequence[Filter]) -> Answers:
    return [frozenset(number for number, row in enumerate(rows) if filter.holds(row)) for filter in filters]


def by_index(rows: Rows, filters: Sequence[Filter]) -> Answers:
    matcher = IndexMatcher()
    matcher.add_many(enumerate(filters))
    matched = [set(matcher.match(Event(row))) for row in rows]
    return [frozenset(row for row, ids in enumerate(matched) if id in ids) for id in range(len(filters))]


def by_column(events: "DataFrame", filters: Sequence[Filter]) -> Answers:
    """Every filter a column of one `select`."""
    from godwit.pipeline.sql import column_for

    columns = [column_for(filter, events.schema).alias(f"f{number}") for number, filter in enumerate(filters)]
    table = events.select("row", *columns).toArrow()
    row = table["row"].to_pylist()
    answers = [table[f"f{number}"].to_pylist() for number in range(len(filters))]
    assert not any(answer is None for column in answers for answer in column)
    return [frozenset(n for n, met in zip(row, column, strict=True) if met) for column in answers]


def by_where(events: "DataFrame", filters: Sequence[Filter]) -> Answers:
    """Every filter a `where` of its own, all in one job."""
    from pyspark.sql import functions as fn

    from godwit.pipeline.sql import condition_for

    left = [
        events.where(condition_for(filter, events.schema)).select(fn.lit(number).alias("filter"), "row")
        for number, filter in enumerate(filters)
    ]
    found: list[set[int]] = [set() for _ in filters]
    for filter, row in reduce(lambda a, b: a.unionAll(b), left).collect():
        found[filter].add(row)
    return list(map(frozenset, found))


def check(rows: Rows, filters: Sequence[Filter], expected: Answers, found: Answers, who: str) -> None:
    for filter, wanted, got in zip(filters, expected, found, strict=True):
        for row in sorted(wanted ^ got):
            raise AssertionError(
                f"{who} says {row in got} and the filter {row in wanted}: {to_text(filter)} ({filter!r}) "
                f"on {rows[row]!r} of { ({name: str(form) for name, form in forms_of(rows).items()}) }"
            )


# ---------------------------------------------------------------- the law


@pytest.fixture
def stored(spark: "SparkSession", tmp_path: Path) -> Callable[[pa.Table], "DataFrame"]:
    numbers = iter(range(1_000_000))

    def write(table: pa.Table) -> "DataFrame":
        path = tmp_path / f"{next(numbers)}.parquet"
        pq.write_table(table, path, row_group_size=ROW_GROUP)
        return spark.read.parquet(str(path))

    return write


def agree(rows: Rows, filters: Sequence[Filter], stored: Callable[[pa.Table], "DataFrame"]) -> None:
    table = table_of(rows)
    assert attributes_of(table.drop_columns(["row"])) == rows
    expected = naive(rows, filters)
    check(rows, filters, expected, by_index(rows, filters), "the index")
    events = stored(table)
    check(rows, filters, expected, by_column(events, filters), "the SQL column")
    check(rows, filters, expected, by_where(events, filters), "where")


def test_all_say_the_same_of_every_row(stored: Callable[[pa.Table], "DataFrame"]) -> None:
    assert settings.default is not None

    @settings(
        max_examples=max(6, settings.default.max_examples // 30),
        phases=(Phase.explicit, Phase.generate),  # a disagreement names one filter and one row: that is small
        suppress_health_check=list(HealthCheck),
    )
    @given(examples())
    def law(example: tuple[Rows, list[Filter]]) -> None:
        agree(*example, stored)

    law()
