"""Naive evaluator = index = Spark batch = Spark SQL column = what `where` leaves of a Parquet file, row for row.

*Theory.* An example is a table of events and two dozen filters, from the pools of `tests/property/strategies.py`.
Columns are drawn with all forms there are, under names that SQL would take apart, and with missing and several values.
All is asked in three jobs: the index in Spark's workers, every filter as a column of one `select`, and every filter as
a `where` of its own over the same Parquet file. A disagreement names one filter and one row, so nothing need be made
smaller.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from godwit.filters.filters import Filter, all_of, any_of, only, some
from godwit.filters.sets import Interval, ValueSet, at_least, complement, one_of
from godwit.filters.values import Kind
from godwit.pipeline import filter_sql
from godwit.pipeline.columns import Form
from tests.property import strategies as draw
from tests.spark.agreement import ROW_GROUP, Rows, agree, by_where, check, rows_of, stored, table_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

NAMES = ("x", "X", "a.b/c d", "day", "`q`")
"""Case, dots, slashes, blanks, backticks, and one that the table has for itself."""
EVENTS, FILTERS = 40, 24
EXAMPLES = 5  # for a hundred of the profile


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


def number_sets() -> st.SearchStrategy[ValueSet]:
    return draw.intervals(Kind.NUMBER) | draw.finite_sets(Kind.NUMBER)


SETS: dict[str, Callable[[], st.SearchStrategy[ValueSet]]] = {
    "bool": lambda: draw.finite_sets(Kind.BOOL, Kind.NUMBER),
    "int": number_sets,
    "float": number_sets,
    "number": number_sets,
    "text": draw.text_sets,
    "time": lambda: draw.intervals(Kind.TIME) | draw.finite_sets(Kind.TIME),
    "point": lambda: draw.regions() | draw.finite_sets(Kind.POINT),
    "any": draw.value_sets,
}


@st.composite
def examples(draw_one: st.DrawFn) -> tuple[Rows, list[Filter]]:
    """A table whose columns have a kind each, and filters that mostly ask for values of that kind."""
    columns: dict[str, list[Any]] = {}
    literals: list[st.SearchStrategy[Any]] = [draw.literals(["nowhere"])]
    for name in NAMES:
        kind = draw_one(st.sampled_from(list(VALUES)))
        value, fitting = VALUES[kind](), SETS[kind]()
        held: st.SearchStrategy[Any] = st.one_of(st.none(), value, value, value)
        if draw_one(st.booleans()):
            held |= st.lists(value, min_size=2, max_size=3).map(tuple)
        columns[name] = draw_one(st.lists(held, min_size=EVENTS, max_size=EVENTS))
        sets = st.one_of(fitting, fitting, fitting.map(complement), draw.value_sets())
        literals += [draw.literals([name], sets)] * 2
    rows: Rows = [{name: held[row] for name, held in columns.items() if held[row] is not None} for row in range(EVENTS)]
    leaves = st.one_of(literals)
    combined = st.one_of(leaves, leaves, several(all_of, leaves), several(any_of, leaves))
    return rows, draw_one(st.lists(combined | several(any_of, combined), min_size=FILTERS, max_size=FILTERS))


def several(joined: Callable[..., Filter], parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    return st.lists(parts, min_size=2, max_size=4).map(lambda filters: joined(*filters))


def run(spark: "SparkSession", folder: Path, examples_max: int) -> None:
    @settings(
        max_examples=examples_max, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
    )
    @given(examples())
    def law(example: tuple[Rows, list[Filter]]) -> None:
        rows, filters = example
        table = table_of(rows)
        assert rows_of(table) == rows
        agree(stored(spark, folder, table), table, filters)

    law()


def test_all_say_the_same_of_every_row(spark: "SparkSession", tmp_path: Path) -> None:
    assert settings.default is not None
    run(spark, tmp_path, EXAMPLES * settings.default.max_examples // 100)


# ---------------------------------------------------------------- planted faults: each must be caught


def some_for_only(values: ValueSet, form: Form, column: "Column") -> bool:
    """Is content when some value of several lies in the set."""
    return True


def cast_bounds(values: Interval, value: "Column") -> "Column":
    """Leaves it to Spark to compare a float column with a whole number."""
    from pyspark.sql import functions as fn

    assert values.low is not None
    return value > fn.lit(values.low) if values.low_open else value >= fn.lit(values.low)


def within_bits(value: "Column", low: float, high: float) -> "Column":
    """Takes zero for one bit pattern, as Parquet does."""
    from pyspark.sql import functions as fn

    return value.between(fn.lit(low + 0.0), fn.lit(high + 0.0))


FAULTS: dict[str, tuple[Callable[..., Any], Filter]] = {
    "_all_lie_in": (some_for_only, only("several", at_least(5))),
    "_in_float_interval": (cast_bounds, some("large", at_least(2**53 + 1))),
    "_within": (within_bits, some("zero", one_of([0]))),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(
    name: str, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty, filter = FAULTS[name]
    rows: Rows = [{"several": (1, 9), "large": 2.0**53, "zero": -0.0}] * ROW_GROUP
    table = table_of(rows)
    events = stored(spark, tmp_path, table)
    check(rows, [filter], "where", by_where(events, [filter]))
    monkeypatch.setattr(filter_sql, name, faulty)
    with pytest.raises(AssertionError, match="where says"):
        check(rows, [filter], "where", by_where(events, [filter]))
