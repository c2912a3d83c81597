"""A filter as a column of Spark SQL: true for exactly the rows whose attributes match the filter.

*Theory.* Every value set becomes simple comparisons of a column with constants, because Spark pushes those down to
Parquet: `price > 10` is `price > 10`, and row groups whose maximum is below are never read. A filter is in negation
normal form, so there are only AND and OR above its literals, and a null, which SQL has for a missing value, counts as
false. Three rules give the column of a literal:

- one value: it is not null, and it is in the set;
- several: `exists` for `Some`, `forall` of the non-null values for `Only`;
- `any`: one of the struct's fields has the value, so the literal is an OR over them, each with its own comparisons.

Circles and polygons are not evaluated by SQL: the sine of the JVM differs from that of Python, and on a border one bit
decides. Their bounding box is a comparison, and points in it are tested by the function that brokers use, in Python. So
is a filter with very many literals, which takes Spark longer to plan than Python to evaluate.

*Rules.*
1. `column_for(f, schema)` is true where `f.holds(attributes)`, else false. `condition_for` is the same for `where`: it
   may be null instead of false, and is so simple that Parquet can skip data by it. Do not negate it: use
   `condition_for(~f)`.
2. Invalid values are missing, as in `columns.from_arrow`: null, an empty array, a null in an array, NaN and infinities,
   a point without coordinates or off the globe, an empty `any`. Only tables of other writers have them.
3. An attribute without a column is missing everywhere.

*Traps*, each of which has a test:
- `x = 0.0` where Parquet has a dictionary with -0.0 only: Parquet compares bits and skips the row group. So a bound of
  zero is the zero that lies outside: -0.0 below, 0.0 above, and equality with zero is two bounds.
- a long `IN` is a hash set, which keeps -0.0 and 0.0 apart, too.
- an int column against 2.5, or a double column against 2**53 + 1: Spark casts one to the other and rounds. Bounds are
  turned into the column's own type here, exactly, and to the side that keeps the meaning.
- NaN is greater than all numbers in SQL, and not in Parquet's extremes.
- `fn.lit` of a datetime goes through the local time zone and, before 1582, the Julian calendar: times are microseconds.
- `NOT (null AND false)` is true: a point without longitude would lie outside a box. Presence is asked for beside it.
- `forall` over an array with a null is null, over an empty array true.
- `LIKE` is a backtracking regular expression: a pattern of many `%` takes hours. Ours has atomic groups, which find the
  leftmost place of each segment and never look back.
- a name with a dot is a field of a struct, unless it is in backticks, with those in it doubled.
- a text column of another collation compares its own way: it is refused.
- a filter of thousands of literals, written as one long chain, overflows the stack of the planner: it is a tree here.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BooleanType, NullType, StructType

from godwit.errors import PipelineError, Unbound
from godwit.filters.filters import And, Filter, Missing, Only, Or, attributes_of
from godwit.filters.references import is_open, references_of
from godwit.filters.regions import Box, Region
from godwit.filters.sets import (
    EVERYTHING,
    Complement,
    Everything,
    Interval,
    Like,
    Nothing,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    TopicPattern,
    ValueSet,
)
from godwit.filters.topic_patterns import ANY_LEVEL
from godwit.filters.values import KIND_OF_TYPE, Kind, Point, Value
from godwit.pipeline.columns import Form, column_of, form_of_arrow, from_arrow

__all__ = ["Schema", "column_for", "condition_for", "quoted"]

Schema = StructType | Mapping[str, Form]
"""The columns: the schema of a DataFrame, or the forms of a table's attributes."""

Condition = Column | bool
"""A condition on a row; a bool if it is the same for all rows."""

LITERALS_MAX = 200  # of a filter that Spark evaluates
FLOAT_MAX = math.nextafter(math.inf, 0)
GLOBE = Box(-180.0, -90.0, 180.0, 90.0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_KIND_OF_PART = {
    "bool": Kind.BOOL,
    "int": Kind.NUMBER,
    "float": Kind.NUMBER,
    "big": Kind.NUMBER,
    "text": Kind.TEXT,
    "time": Kind.TIME,
    "point": Kind.POINT,
}
"""The fields of an `any`, which are also the kinds of column; `big` is a field only."""
_WHOLE = {"int": (-(2**63), 2**63 - 1), "big": (2**63, 2**64 - 1)}


def column_for(filter: Filter, schema: Schema) -> Column:
    """A column that is true where the filter holds for a row's attributes, else false. (rule 1)"""
    return fn.coalesce(condition_for(filter, schema), fn.lit(False))


def condition_for(filter: Filter, schema: Schema) -> Column:
    """The same for `where`, which Spark pushes down into Parquet; null is as good as false. (rule 1)"""
    if is_open(filter):
        raise Unbound(*map(str, references_of(filter)))
    forms = _forms(schema, attributes_of(filter))
    if filter.size > LITERALS_MAX:
        return _in_python(filter, forms)
    return _as_column(_of_filter(filter, forms))


def quoted(name: str) -> str:
    """The name of a column, quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def _forms(schema: Schema, attributes: Iterable[str]) -> dict[str, Form]:
    """The forms of these attributes, without those that have no column."""
    if not isinstance(schema, StructType):
        return {attribute: schema[attribute] for attribute in attributes if attribute in schema}
    types = {field.name: field.dataType for field in schema.fields}
    return {
        attribute: form_of_arrow(column, _arrow_type(column, types[column]))
        for attribute in attributes
        if (column := column_of(attribute)) in types and not isinstance(types[column], NullType)
    }


def _arrow_type(column: str, type: Any) -> Any:
    try:
        if "collate" in type.simpleString():
            raise PipelineError(
                f"column {column!r} is {type.simpleString()}, whose texts compare their own way: "
                "select it with collate(column, 'UTF8_BINARY')"
            )
        return to_arrow_type(type, timezone="UTC")
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(f"column {column!r} is of type {type.simpleString()}, which no attribute has") from error


# ---------------------------------------------------------------- filters and literals


def _of_filter(filter: Filter, forms: Mapping[str, Form]) -> Condition:
    if isinstance(filter, And):
        return _all(_of_filter(part, forms) for part in filter.parts)
    if isinstance(filter, Or):
        return _any(_of_filter(part, forms) for part in filter.parts)
    form = forms.get(filter.attribute)
    if form is None:
        return isinstance(filter, Missing)
    column = fn.col(quoted(column_of(filter.attribute)))
    if isinstance(filter, Missing):
        return _missing(form, column)
    if _asks_python(filter.values, form):
        return _all([_around(filter.values, form, column), _in_python(filter, {filter.attribute: form})])
    if not form.several:
        return _lies_in(filter.values, form.kind, column)
    if isinstance(filter, Only):
        return _all([_some(EVERYTHING, form, column), _all_lie_in(filter.values, form, column)])
    return _some(filter.values, form, column)


def _missing(form: Form, column: Column) -> Condition:
    if not form.several and form.kind in ("bool", "int", "text", "time"):
        return column.isNull()
    there = _some(EVERYTHING, form, column) if form.several else _lies_in(EVERYTHING, form.kind, column)
    return ~fn.coalesce(_as_column(there), fn.lit(False))


def _some(values: ValueSet, form: Form, column: Column) -> Condition:
    """Some value of an array is in the set."""
    if _never(values, form.kind):
        return False
    return fn.exists(column, lambda value: _as_column(_lies_in(values, form.kind, value)))


def _all_lie_in(values: ValueSet, form: Form, column: Column) -> Condition:
    """Every value of an array is in the set."""

    def meets(value: Column) -> Column:
        within, there = (_as_column(_lies_in(each, form.kind, value)) for each in (values, EVERYTHING))
        return fn.coalesce(within, fn.lit(False)) | ~fn.coalesce(there, fn.lit(False))

    return fn.forall(column, meets)


def _never(values: ValueSet, kind: str) -> bool:
    """Whether no value of a column of this kind can lie in the set."""
    if kind == "any":
        return isinstance(values, Nothing)
    return not values.kinds & _KIND_OF_PART[kind]


def _lies_in(values: ValueSet, kind: str, value: Column) -> Condition:
    """True if there is a value and it is in the set; else false or null."""
    if kind == "any":
        return _any(_lies_in(values, part, value.getField(part)) for part in _KIND_OF_PART)
    inside = _inside(values, kind, value)
    return inside if inside is False else _all([_there(values, kind, value, inside), inside])


def _there(values: ValueSet, kind: str, value: Column, inside: Condition) -> Condition:
    """Whether there is a value; True if `inside` implies it."""
    if isinstance(values, Box | OneOf):
        return True
    if kind == "float":
        return _all(_ends(value, _beyond(values), fn.lit))
    if kind == "point":
        return _inside(GLOBE, kind, value)
    return value.isNotNull() if inside is True else True


def _beyond(values: ValueSet) -> Interval:
    """All floats, without the ends that an interval has anyway."""
    low, high = (values.low, values.high) if isinstance(values, Interval) else (None, None)
    return Interval(Kind.NUMBER, -FLOAT_MAX if low is None else None, FLOAT_MAX if high is None else None)


# ---------------------------------------------------------------- sets of values


def _inside(values: ValueSet, kind: str, value: Column) -> Condition:
    """Whether a value of this kind is in the set; for a missing value null, or anything if the result is a bool."""
    if isinstance(values, Complement):
        inner = _inside(values.inner, kind, value)
        return not inner if isinstance(inner, bool) else ~inner
    if isinstance(values, Everything):
        return True
    if not values.kinds & _KIND_OF_PART[kind]:
        return False
    return _SET[type(values)](values, kind, value)


def _in_interval(values: Interval, kind: str, value: Column) -> Condition:
    if kind in _WHOLE:
        return _in_whole_interval(values, kind, value)
    if kind == "float":
        return _in_float_interval(values, value)
    return _all(_ends(value, values, _constant))


def _ends(value: Column, values: Interval, constant: Callable[[Any], Column]) -> Iterator[Condition]:
    if values.low is not None:
        yield value > constant(values.low) if values.low_open else value >= constant(values.low)
    if values.high is not None:
        yield value < constant(values.high) if values.high_open else value <= constant(values.high)


def _in_whole_interval(values: Interval, kind: str, value: Column) -> Condition:
    """The least and the greatest whole number of the interval, if the column's type does not bound it there anyhow."""
    least, greatest = low, high = _WHOLE[kind]
    if values.low is not None:
        least = math.floor(values.low) + 1 if values.low_open else math.ceil(values.low)  # type: ignore[arg-type]
    if values.high is not None:
        greatest = math.ceil(values.high) - 1 if values.high_open else math.floor(values.high)  # type: ignore[arg-type]
    if least > min(greatest, high) or greatest < low:
        return False
    above = value >= _whole(kind, least) if least > low else True
    below = value <= _whole(kind, greatest) if greatest < high else True
    return _all([above, below])


def _in_float_interval(values: Interval, value: Column) -> Condition:
    """The ends as floats: an int that is not exact as a float is replaced by the adjacent float that bounds the same
    floats."""
    ends: list[Condition] = []
    if values.low is not None:
        low, exact = _as_float(values.low)
        is_open = values.low_open if exact else low < values.low  # type: ignore[operator]
        ends.append(value > fn.lit(low + 0.0) if is_open else value >= fn.lit(low or -0.0))
    if values.high is not None:
        high, exact = _as_float(values.high)
        is_open = values.high_open if exact else high > values.high  # type: ignore[operator]
        ends.append(value < fn.lit(high or -0.0) if is_open else value <= fn.lit(high + 0.0))
    return _all(ends)


def _as_float(value: Any) -> tuple[float, bool]:
    nearest = float(value)
    return nearest, nearest == value  # Python compares an int with a float exactly


def _within(value: Column, low: float, high: float) -> Condition:
    """From `low` to `high`, both with it."""
    return _all([value >= fn.lit(low or -0.0), value <= fn.lit(high + 0.0)])


def _is_one_of(values: OneOf, kind: str, value: Column) -> Condition:
    own = [each for each in values.values if KIND_OF_TYPE[type(each)] is _KIND_OF_PART[kind]]
    if kind in _WHOLE:
        low, high = _WHOLE[kind]
        return _equals(value, [_whole(kind, int(each)) for each in own if each == int(each) and low <= each <= high])  # type: ignore[arg-type,operator]
    if kind == "float":
        return _any(_equals_float(value, floats) for floats in _floats(own))
    if kind == "point":
        return _any(_equals_point(value, point) for point in own)  # type: ignore[arg-type]
    return _equals(value, [_constant(each) for each in own])


def _floats(values: Sequence[Any]) -> Iterator[list[float]]:
    """Those of the values that are floats: zero for itself."""
    found = [nearest for nearest, exact in map(_as_float, values) if exact]
    yield [each for each in found if each != 0]
    if 0 in found:
        yield [0.0]


def _equals_float(value: Column, floats: list[float]) -> Condition:
    return _within(value, 0.0, 0.0) if floats == [0.0] else _equals(value, list(map(fn.lit, floats)))


def _equals_point(value: Column, point: Point) -> Condition:
    return _all(
        _equals_float(part, [float(degrees) + 0.0])
        for part, degrees in ((value["lon"], point.lon), (value["lat"], point.lat))
    )


def _equals(value: Column, constants: list[Column]) -> Condition:
    if len(constants) <= 1:
        return value == constants[0] if constants else False
    return value.isin(constants)


def _is_place(values: Places, kind: str, value: Column) -> Condition:
    return _equals(value, [fn.lit(name) for name in values.names])


def _starts(values: Prefix, kind: str, value: Column) -> Condition:
    return value.startswith(fn.lit(values.text))


def _ends_with(values: Suffix, kind: str, value: Column) -> Condition:
    return value.endswith(fn.lit(values.text))


def _holds_text(values: Substring, kind: str, value: Column) -> Condition:
    return value.contains(fn.lit(values.text))


def _is_like(values: Like, kind: str, value: Column) -> Condition:
    first = values.segments[0]
    prefix = "".join(first[: first.index(None)] if None in first else first)  # type: ignore[arg-type]
    whole = value.rlike(_regular(values))
    return value.startswith(fn.lit(prefix)) & whole if prefix else whole


def _regular(values: Like) -> str:
    """The pattern as a Java regular expression without backtracking: see the traps."""
    first, *rest = ("".join(map(_one_character, segment)) for segment in values.segments)
    if not rest:
        return rf"(?s)\A{first}\z"
    between = "".join(f"(?>.*?{segment})" for segment in rest[:-1])
    return rf"(?s)\A{first}{between}.*{rest[-1]}\z"


def _matches_topic(values: TopicPattern, kind: str, value: Column) -> Condition:
    (levels, is_open), wild = values.levels, "[^/]*+"
    wanted = "/".join(wild if level == ANY_LEVEL else "".join(map(_one_character, level)) for level in levels)
    start = r"\A(?!\$)" if values.levels.begins_wild else r"\A"
    return value.rlike(f"(?s){start}{wanted}{'(?:/.*)?' if is_open else ''}" + r"\z")


def _one_character(character: str | None) -> str:
    return "." if character is None else rf"\x{{{ord(character):x}}}"


def _in_box(values: Box, kind: str, value: Column) -> Condition:
    west, south, east, north = map(float, values.bounds)
    if west <= east:
        across = _within(value["lon"], west, east)
    else:
        across = _any([_within(value["lon"], west, 180.0), _within(value["lon"], -180.0, east)])
    return _all([_within(value["lat"], south, north), across])


_SET: dict[type[ValueSet], Callable[[Any, str, Column], Condition]] = {
    Interval: _in_interval,
    OneOf: _is_one_of,
    Places: _is_place,
    Prefix: _starts,
    Suffix: _ends_with,
    Substring: _holds_text,
    Like: _is_like,
    TopicPattern: _matches_topic,
    Box: _in_box,
}


# ---------------------------------------------------------------- constants


def _constant(value: Value) -> Column:
    """A bool, text or time."""
    if isinstance(value, datetime):
        return fn.timestamp_micros(fn.lit((value - EPOCH) // MICROSECOND).cast("bigint"))
    return fn.lit(value)


def _whole(kind: str, value: int) -> Column:
    return fn.lit(value).cast("bigint") if kind == "int" else fn.lit(Decimal(value)).cast("decimal(20,0)")


# ---------------------------------------------------------------- what Python decides


def _asks_python(values: ValueSet, form: Form) -> bool:
    """Whether SQL has no condition for this: circles, polygons, and any class of sets that is not in `_SET`."""
    inner = values.inner if isinstance(values, Complement) else values
    if type(inner) in _SET or isinstance(inner, Everything | Nothing):
        return False
    return form.kind == "any" or bool(inner.kinds & _KIND_OF_PART[form.kind])


def _around(values: ValueSet, form: Form, column: Column) -> Condition:
    """A necessary condition that Spark tests first: for a region, a point in the bounding box."""
    if not isinstance(values, Region):
        return True
    box = Box(*values.bounds)
    return _some(box, form, column) if form.several else _lies_in(box, form.kind, column)


def _in_python(filter: Filter, forms: Mapping[str, Form]) -> Column:
    """The filter evaluated by its `holds`, in Python."""
    names = [name for name in attributes_of(filter) if name in forms]

    def holds(*arrays: pa.Array) -> pa.Array:
        columns = [from_arrow(column_of(name), array) for name, array in zip(names, arrays, strict=True)]
        rows = (
            {name: held for name, held in zip(names, row, strict=True) if held is not None}
            for row in zip(*columns, strict=True)
        )
        return pa.array([filter.holds(row) for row in rows], pa.bool_())

    if not names:
        return fn.lit(filter.holds({}))
    decided: Any = arrow_udf(holds, BooleanType())  # type: ignore[call-overload]
    return decided(*(fn.col(quoted(column_of(name))) for name in names))  # type: ignore[no-any-return]


# ---------------------------------------------------------------- and, or


def _as_column(condition: Condition) -> Column:
    return fn.lit(condition) if isinstance(condition, bool) else condition


def _all(conditions: Iterable[Condition]) -> Condition:
    left: list[Column] = []
    for condition in conditions:
        if condition is False:
            return False
        if condition is not True:
            left.append(condition)
    return _tree(left, Column.__and__) if left else True


def _any(conditions: Iterable[Condition]) -> Condition:
    left: list[Column] = []
    for condition in conditions:
        if condition is True:
            return True
        if condition is not False:
            left.append(condition)
    return _tree(left, Column.__or__) if left else False


def _tree(conditions: list[Column], joined: Callable[[Column, Any], Column]) -> Column:
    while len(conditions) > 1:
        pairs = [joined(a, b) for a, b in zip(conditions[::2], conditions[1::2], strict=False)]
        conditions = pairs + conditions[len(pairs) * 2 :]
    return conditions[0]
