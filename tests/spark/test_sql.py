"""The column of a filter: every trap of SQL and of Parquet, one by one, and that Parquet skips what it may."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.filters import FALSE, TRUE, missing, only, parse, present, some
from godwit.filters.filters import Filter, all_of, any_of, negation
from godwit.filters.regions import box, circle, distance_m, polygon
from godwit.filters.sets import (
    ValueSet,
    at_least,
    at_most,
    complement,
    less_than,
    like,
    more_than,
    one_of,
    topic_pattern,
)
from godwit.filters.values import Kind, Point, Value
from godwit.pipeline.columns import Form, arrow_type
from godwit.pipeline.filter_sql import column_for
from tests.spark.agreement import ROW, Rows, agree, having_set, stored, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Agree = Callable[[pa.Table, list[Filter]], None]


@pytest.fixture
def agreed(spark: "SparkSession", tmp_path: Path) -> Agree:
    def ask(table: pa.Table, filters: list[Filter]) -> None:
        agree(stored(spark, tmp_path, table), table, filters)

    return ask


def table(**columns: Any) -> pa.Table:
    length = len(next(iter(columns.values())))
    return pa.table({ROW: pa.array(range(length)), **columns})


def around(name: str, *bounds: Any) -> list[Filter]:
    """Every comparison with each of these values, and its negation."""
    sets = [
        make(bound)
        for bound in bounds
        for make in (at_least, more_than, at_most, less_than, lambda value: one_of([value]))
    ]
    return [each for values in sets for each in (some(name, values), only(name, complement(values)))]


def pushed(events: "DataFrame") -> str:
    """What the plan says that Parquet is told."""
    with having_set(events.sparkSession, {"spark.sql.maxMetadataStringLength": "10000"}):
        plan = str(events._jdf.queryExecution().executedPlan().toString())
    return next(line for line in plan.splitlines() if "PushedFilters" in line).partition("PushedFilters")[2]


# ---------------------------------------------------------------- the traps of the module's head


def test_zero_is_zero_though_parquet_has_two(agreed: Agree) -> None:
    """The dictionary of a row group holds one of the zeros only."""
    zeros = pa.array([-0.0] * 4 + [0.0] * 4 + [-0.0, 0.0, 5e-324, -5e-324])
    points = pa.array([{"lon": zero, "lat": -zero} for zero in zeros.to_pylist()], arrow_type(Form("point")))
    many = [0, *range(1, 15)]
    filters = [*around("x", 0, -0.0), some("x", one_of(many)), only("x", complement(one_of(many)))]
    on_points = [
        parse("p WITHIN box(0, 0, 0, 0)"),
        parse("p WITHIN box(-1, -1, 0, 0)"),
        some("p", one_of([Point(0, 0)])),
    ]
    agreed(table(x=zeros, p=points), [*filters, *on_points, *map(negation, on_points)])


def test_whole_numbers_and_floats_compare_exactly(agreed: Agree) -> None:
    near = [2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63), 2]
    bounds = [2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2.5, float(2**63), -1e300]
    agreed(
        table(i=pa.array(near), f=pa.array(list(map(float, near)))),
        [*around("i", *bounds), *around("f", *bounds)],
    )


def test_narrow_numbers_of_other_peoples_tables_compare_exactly(agreed: Agree) -> None:
    floats = pa.array([0.1, 0.5, 3.4028234663852886e38, -0.0, None, 16777216.0], pa.float32())
    bounds = [0.1, 1e300, 0, 16777217, 3.4028234663852886e38, -129, 127]
    bytes = pa.array([127, -128, 0, 1, None, 2], pa.int8())
    agreed(table(f=floats, b=bytes), [*around("f", *bounds), *around("b", *bounds)])


def test_a_class_of_sets_that_sql_has_no_condition_for_is_decided_by_python(
    spark: "SparkSession", tmp_path: Path
) -> None:
    @dataclass(frozen=True)
    class Multiples(ValueSet):  # here, and not in a module: so it goes to Spark's workers as it is
        of: int

        @property
        def kinds(self) -> Kind:
            return Kind.NUMBER

        def contains(self, value: Value) -> bool:
            return type(value) in (int, float) and value % self.of == 0  # type: ignore[operator]

    rows: Rows = [{"i": 1, "a": 2}, {"i": 2, "a": "b"}, {"i": 4, "a": True}, {"i": (1, 6)}, {"a": 3.5, "t": "x"}]
    stored_table = table_of(rows)
    events = stored(spark, tmp_path, stored_table)
    for name in ("i", "a", "t", "none"):
        for values in (Multiples(2), complement(Multiples(2))):
            for filter in (some(name, values), only(name, values)):
                expected = [number for number, row in enumerate(rows) if filter.holds(row)]
                answer = events.where(column_for(filter, events.schema)).select(ROW).collect()
                assert sorted(row[ROW] for row in answer) == expected


def test_what_is_no_value_is_missing(agreed: Agree) -> None:
    """NaN, infinities, points without degrees, nulls in arrays, an `any` of nothing."""
    floats = pa.array([math.nan, math.inf, -math.inf, None, 1.0, -1.0, math.nan, 5.0])
    no_point = [{"lon": None, "lat": 1.0}, {"lon": 1.0, "lat": None}, {"lon": math.nan, "lat": 1.0}, None]
    points = pa.array(
        [*no_point, {"lon": 181.0, "lat": 0.0}, {"lon": 1.0, "lat": 1.0}, None, {"lon": 9.0, "lat": -91.0}],
        arrow_type(Form("point")),
    )
    lists = pa.array([[], None, [None], [1, None], [None, 2], [1, 2], [None, None], [2]], pa.list_(pa.int64()))
    nothing: dict[str, Any] = {}
    anys = pa.array(
        [
            nothing,
            None,
            {"float": math.nan},
            {"int": 1},
            {"text": "a"},
            {"point": {"lon": None, "lat": 1.0}},
            {"bool": False},
            {"float": 1.0},
        ],
        arrow_type(Form("any")),
    )
    several = pa.array(
        [
            [nothing],
            [None, {"int": 1}],
            [{"float": math.nan}],
            [],
            [{"int": 1}, nothing],
            [{"int": 1}, {"text": "a"}],
            None,
            [{"point": {"lon": None, "lat": None}}, {"float": 1.0}],
        ],
        arrow_type(Form("any", several=True)),
    )
    filters = [*around("f", 0, 1), *around("l", 1, 2), *around("a", 1), *around("s", 1)]
    filters += [
        parse("p WITHIN box(0, 0, 10, 10)"),
        parse("NOT p WITHIN box(0, 0, 10, 10)"),
        parse("p WITHIN circle(1, 1, 5)"),
        parse("NOT p WITHIN circle(1, 1, 5)"),
        parse("NOT a WITHIN circle(1, 1, 5)"),
        parse("NOT s WITHIN circle(1, 1, 5)"),
    ]
    for name in "fplas":
        filters += [
            present(name),
            missing(name),
            only(name, one_of([1, "a", False])),
            some(name, complement(one_of([2]))),
        ]
    agreed(table(f=floats, p=points, l=lists, a=anys, s=several), filters)


def test_times_are_not_moved_by_zones_or_calendars(agreed: Agree) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    julian, now = datetime(1500, 3, 1, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    rows = [first, julian, now, now + timedelta(microseconds=1), last, None]
    agreed(table(t=pa.array(rows, pa.timestamp("us", "UTC"))), around("t", first, julian, now, last))


def test_texts_compare_by_code_point_and_keep_every_character(agreed: Agree) -> None:
    texts = [
        "",
        "\0",
        "a",
        "A",
        "a\0",
        "a\nb",
        "\r\n",
        "'",
        '"',
        "\\",
        "\\n",
        "%",
        "_",
        "$1",
        "\ud7ff",
        "\ue000",
        "😀",
        "\U0010ffff",
        "é",
        "e\u0301",
        " a ",
        "ß",
    ]
    patterns = [
        "_",
        "__",
        "a_b",
        "%_",
        "\\%%_",
        "\\_",
        "\\\\%_",
        "%a%",
        "_%a",
        "%\n%",
        "😀",
        "_\\%",
        "a%_b",
        "$_",
        "é_",
        "e_",
    ]
    filters = around("t", *texts) + [parse(f"t LIKE '{pattern}'") for pattern in patterns if "\n" not in pattern]
    filters += [some("t", like(pattern)) for pattern in patterns]
    agreed(table(t=pa.array([*texts, None])), [*filters, *map(negation, filters[-len(patterns) :])])


def test_topic_patterns_are_regular_expressions_that_hold_the_same_laws(agreed: Agree) -> None:
    texts = ["", "a", "/", "a/", "a/b", "a/b/c", "a/b\n/c", "a.b", "$a", "$a/b", "é/b", "a+/b", "x/$a"]
    patterns = ["+", "#", "a/+", "a/#", "+/b", "+/+/c", "$a/#", "$a/+", "/+", "é/+", "+/b/#"]
    filters = [some("t", topic_pattern(pattern)) for pattern in patterns]
    agreed(table(t=pa.array([*texts, None])), [*filters, *map(negation, filters)])


def test_a_pattern_of_many_wildcards_does_not_stall(spark: "SparkSession") -> None:
    """As a regular expression that goes back, this takes longer than anybody waits."""
    from godwit.pipeline.filter_sql import column_for

    events = spark.createDataFrame([("a" * 60_000 + "b",), ("a" * 60_000,)], "t string")
    filter = some("t", like("%a" * 200 + "_a%a"))
    assert [row[0] for row in events.select(column_for(filter, events.schema)).collect()] == [False, True]


def test_names_of_columns_are_names_whatever_they_hold(agreed: Agree) -> None:
    names = [
        "a.b",
        "a",
        "a/b",
        "a b",
        "`",
        "``a`.`b``",
        "é",
        "A",
        "to",
        "to_",
        "day",
        "x'y",
        'x"y',
        "a,b",
        "(a)",
        "*",
        "[0]",
        "$",
    ]
    rows: Rows = [
        {name: number for number, name in enumerate(names) if number != left_out} for left_out in range(len(names))
    ]
    agreed(
        table_of(rows),
        [each for number, name in enumerate(names) for each in (some(name, one_of([number])), missing(name))],
    )


def test_a_bool_is_no_number(agreed: Agree) -> None:
    rows: Rows = [{"b": True, "m": True}, {"b": False, "m": 1}, {"m": 0.0}, {"b": True, "m": False}]
    filters = [
        some(name, one_of(values)) for name in "bm" for values in ([True], [False], [0], [1], [True, False], [1, True])
    ]
    agreed(table_of(rows), [*filters, *map(negation, filters), *around("b", 0), *around("m", 0)])


def test_only_and_some_of_several_values(agreed: Agree) -> None:
    rows: Rows = [{"z": (1, 5)}, {"z": 5}, {"z": (5, 5)}, {}, {"z": (1, 2)}, {"z": (5, 1, 9)}]
    filters = [
        only("z", at_least(5)),
        some("z", at_least(5)),
        only("z", complement(at_least(5))),
        parse("z > 1 AND z < 5"),
        parse("z BETWEEN 2 AND 4"),
        missing("z"),
        present("z"),
    ]
    agreed(table_of(rows), [*filters, *map(negation, filters)])


def test_regions_are_decided_as_brokers_decide_them(agreed: Agree) -> None:
    """On the border one bit decides; several points; points among other kinds."""
    centre = Point(8.54, 47.378)
    places = [Point(8.54 + step / 97, 47.378 - step / 53) for step in range(-4, 5)]
    shapes: list[ValueSet] = [circle(8.54, 47.378, distance_m(centre, place)) for place in places[:3]]
    shapes += [polygon([(8.4, 47.3), (8.6, 47.3), (8.54, 47.5)]), box(170, -10, -170, 10)]
    rows: Rows = [
        {"p": place, "s": (place, Point(175, 0)), "a": place if number % 3 else "x"}
        for number, place in enumerate(places)
    ]
    filters: list[Filter] = [
        each
        for name in "psa"
        for shape in shapes
        for each in (some(name, shape), only(name, shape), only(name, complement(shape)))
    ]
    agreed(table_of(rows), filters)


def test_very_large_filters_are_left_to_python(agreed: Agree) -> None:
    rows: Rows = [{"x": number, "y": str(number)} for number in range(10)]
    big = any_of(*(all_of(some("x", one_of([number])), some("y", one_of([str(number)]))) for number in range(3, 600)))
    broad = any_of(*(some("x", one_of([2 * number, -number])) for number in range(150)))
    agreed(table_of(rows), [big, negation(big), broad, negation(broad)])


def test_filters_that_say_nothing(agreed: Agree) -> None:
    agreed(
        table_of([{"x": 1}, {}]), [TRUE, FALSE, missing("nowhere"), present("nowhere"), only("nowhere", at_least(1))]
    )


# ---------------------------------------------------------------- what Parquet is told


@pytest.fixture
def sorted_events(spark: "SparkSession", tmp_path: Path) -> "DataFrame":
    """A thousand rows in ten row groups, every column growing."""
    numbers = range(1_000)
    columns = {
        "i": pa.array(numbers),
        "f": pa.array([number / 2 for number in numbers]),
        "t": pa.array([f"{number:04}" for number in numbers]),
        "at": pa.array(
            [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in numbers], pa.timestamp("us", "UTC")
        ),
        "p": pa.array([{"lon": number / 10, "lat": 1.0} for number in numbers], arrow_type(Form("point"))),
        "a.b": pa.array(numbers),
        "any": pa.array([{"int": number} for number in numbers], arrow_type(Form("any"))),
    }
    path = tmp_path / "sorted.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=100)
    return spark.read.parquet(str(path))


@pytest.mark.parametrize(
    ("text", "told", "rows_read"),
    [
        ("i >= 950", ["GreaterThanOrEqual(i,950)"], 100),
        ("i > 2.5 AND i < 10", ["GreaterThanOrEqual(i,3)", "LessThanOrEqual(i,9)"], 100),
        ("i IN (5, 950)", ["In(i, [5,950])"], 200),
        ("NOT i >= 50", ["LessThan(i,50)"], 100),
        ("f < 10", ["LessThan(f,10.0)"], 100),
        ("t LIKE '09%'", ["StringStartsWith(t,09)"], 100),
        ("t LIKE '09%_1'", ["StringStartsWith(t,09)"], 100),
        ("t = '0500'", ["EqualTo(t,0500)"], 100),
        ("at >= TIMESTAMP '2026-02-10T00:00:00Z'", ["GreaterThanOrEqual(at,2026-02-10"], 100),
        ("p WITHIN box(0, 0, 9, 9)", ["LessThanOrEqual(p.lon,9.0)"], 100),
        ("p WITHIN circle(2, 1, 1000)", ["LessThanOrEqual(p.lon,2.0"], 100),
        ('"a.b" = 5', ["EqualTo(`a.b`,5)"], 100),
        ("i < 5 OR i > 995", ["Or(LessThan"], 200),
        ('"any" = 950', ["EqualTo(any.int,950)"], 100),
        ("i IS NULL", ["IsNull(i)"], 0),
    ],
)
def test_parquet_is_told_and_skips(sorted_events: "DataFrame", text: str, told: list[str], rows_read: int) -> None:
    from godwit.pipeline.filter_sql import condition_for

    found = sorted_events.where(condition_for(parse(text), sorted_events.schema))
    for each in told:
        assert each in pushed(found)
    assert found.count() == sum(1 for row in expected_rows() if parse(text).holds(row))
    assert rows_scanned(found) == rows_read


def expected_rows() -> list[dict[str, Any]]:
    return [
        {
            "i": n,
            "f": n / 2,
            "t": f"{n:04}",
            "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n),
            "p": Point(n / 10, 1.0),
            "a.b": n,
            "any": n,
        }
        for n in range(1_000)
    ]


def rows_scanned(events: "DataFrame") -> int:
    """How many rows the scan has given: those of the row groups that were not skipped."""
    plan = events._jdf.queryExecution().executedPlan()
    plan.execute().count()
    leaves = plan.collectLeaves()
    return sum(leaves.apply(i).metrics().apply("numOutputRows").value() for i in range(leaves.size()))
