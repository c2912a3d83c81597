"""What the laws of CQL2 are tried on: expressions and events, from pools so small that they collide.

Properties are named for what events hold there: `n` numbers, `t` texts, `m` moments, `b` bools, `p` and `g` geometries,
`x` anything. Every property is also used where it has no place, and every attribute may be missing or have several
values.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from godwit.filters import Event, Point, event
from godwit.filters.geometries import checked_geometry
from godwit.languages import Operator
from godwit.languages.cql2.expressions import (
    COMPARISONS,
    RELATIONS,
    Arithmetic,
    Array,
    BBox,
    Between,
    Combined,
    Compared,
    Date,
    Expression,
    Folded,
    Function,
    InList,
    Interval,
    IsNull,
    Like,
    Not,
    Number,
    Property,
    Related,
    Text,
    Timestamp,
    Truth,
)

DAY = datetime(2022, 4, 16, tzinfo=UTC)
NUMBERS = (-1, 0, 0.5, 1, 1.0, 2, 3, 10, 0.1, 0.30000000000000004, 2**53, 2**53 + 1, 5e-324, 1e-200, 1e300)
TEXTS = (
    "",
    "a",
    "A",
    "ab",
    "AB",
    "aB",
    "ß",
    "ss",
    "SS",
    "é",
    "e",
    "É",
    "k",
    "\u212a",
    "a%",
    "%",
    "a'b",
    "a\\b",
    "2022-04-16",
)
PATTERNS = ("%", "a%", "%b", "a_", "_", "ab", "A%", "", "ss", "a\\%", "%a'%")
MOMENTS = tuple(DAY + timedelta(seconds=seconds) for seconds in (-86_400, -1, 0, 1, 3_600, 86_400))
POINTS = ((0, 0), (5, 5), (10, 10), (10, 5), (2.5, 2.5), (-5, 5), (180, 0), (-180, 0), (175, 5), (12, 12))
NAMES = ("n", "t", "m", "b", "p", "g", "x")

RINGS = (
    ((0, 0), (10, 0), (10, 10), (0, 10), (0, 0)),
    ((5, 5), (15, 5), (15, 15), (5, 5)),
    ((2, 2), (4, 2), (4, 4), (2, 4), (2, 2)),
    ((0, 0), (10, 10), (10, 0), (0, 10), (0, 0)),  # crosses itself
    ((170, -10), (180, -10), (180, 10), (170, -10)),
    ((0, 0, 1), (10, 0, 2), (0, 10, 3), (0, 0, 1)),
)
LINES = (((0, 0), (10, 10)), ((-5, 5), (15, 5)), ((0, 0), (10, 0), (10, 10)), ((5, 5), (5, 5)), ((20, 20), (30, 20)))
GEOMETRIES = (
    *(checked_geometry("Point", point) for point in POINTS),
    *(checked_geometry("LineString", line) for line in LINES),
    *(checked_geometry("Polygon", [ring]) for ring in RINGS),
    checked_geometry("Polygon", [RINGS[0], RINGS[2]]),
    checked_geometry("MultiPoint", POINTS[:3]),
    checked_geometry("MultiLineString", LINES[:2]),
    checked_geometry("MultiPolygon", [[RINGS[2]], [RINGS[4]]]),
    checked_geometry(
        "GeometryCollection", [checked_geometry("Point", POINTS[0]), checked_geometry("LineString", LINES[1])]
    ),
)
BOXES = (
    *(
        BBox(numbers)
        for numbers in ((0, 0, 10, 10), (5, 5, 5, 5), (0, 5, 10, 5), (10, 0, 20, 10), (0, 0, -9, 10, 10, 9))
    ),
    *(
        BBox(numbers)
        for numbers in ((170, -10, -170, 10), (180, -5, -180, 5), (190, 0, -170, 10), (-200, -100, 200, 100))
    ),
    BBox((300, 0, 310, 10)),
)


def properties() -> SearchStrategy[Expression]:
    return st.sampled_from(NAMES).map(Property)


def named(*names: str) -> SearchStrategy[Expression]:
    """Mostly the properties that fit."""
    return st.one_of(st.sampled_from(names).map(Property), st.sampled_from(names).map(Property), properties())


def instants() -> SearchStrategy[Expression]:
    return st.one_of(
        st.sampled_from(MOMENTS).map(Timestamp), st.sampled_from([date(2022, 4, 15), date(2022, 4, 16)]).map(Date)
    )


def numeric() -> SearchStrategy[Expression]:
    return st.recursive(
        st.one_of(st.sampled_from(NUMBERS).map(Number), named("n")),
        lambda inner: st.one_of(
            st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "%", "div", "^"]), inner, inner),
            inner.map(lambda operand: Function("double", (operand,))),
        ),
        max_leaves=3,
    )


def characters() -> SearchStrategy[Expression]:
    plain = st.one_of(st.sampled_from(TEXTS).map(Text), named("t"))
    return st.one_of(plain, st.builds(Folded, st.sampled_from(["casei", "accenti"]), plain))


def patterns() -> SearchStrategy[Expression]:
    plain = st.sampled_from(PATTERNS).map(Text)
    return st.one_of(plain, st.builds(Folded, st.sampled_from(["casei", "accenti"]), plain))


def scalars() -> SearchStrategy[Expression]:
    return st.one_of(numeric(), characters(), instants(), named("m", "b"), st.booleans().map(Truth))


def ranged() -> SearchStrategy[Expression]:
    return st.one_of(numeric(), characters(), instants(), named("m", "b"))


def temporal() -> SearchStrategy[Expression]:
    ends = st.one_of(st.none(), instants(), named("m"))
    return st.one_of(instants(), named("m"), st.builds(Interval, ends, ends))


def spatial() -> SearchStrategy[Expression]:
    return st.one_of(
        st.sampled_from(GEOMETRIES),
        st.sampled_from(BOXES),
        named("p", "g"),
        st.just(Function("same", (Property("g"),))),
    )


def arrays() -> SearchStrategy[Expression]:
    items = st.one_of(scalars(), st.lists(scalars(), max_size=2).map(lambda inner: Array(tuple(inner))))
    return st.one_of(properties(), st.lists(items, max_size=3).map(lambda inner: Array(tuple(inner))))


def relations(prefix: str, operands: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    names = [name for name in RELATIONS if name.startswith(prefix)]
    return st.builds(Related, st.sampled_from(names), operands, operands)


def predicates() -> SearchStrategy[Expression]:
    likely = st.one_of(
        st.builds(Compared, st.sampled_from(COMPARISONS), named("n"), st.sampled_from(NUMBERS).map(Number)),
        st.builds(Compared, st.sampled_from(COMPARISONS), named("t"), characters()),
        st.builds(Compared, st.sampled_from(COMPARISONS), numeric(), numeric()),
        st.builds(Compared, st.sampled_from(COMPARISONS), instants(), named("m")),
    )
    return st.one_of(
        likely,
        st.builds(Compared, st.sampled_from(COMPARISONS), scalars(), scalars()),
        st.builds(Between, numeric(), numeric(), numeric()),
        st.builds(Between, ranged(), ranged(), ranged()),
        st.builds(InList, scalars(), st.lists(scalars(), max_size=3).map(tuple)),
        st.builds(Like, characters(), patterns()),
        st.builds(IsNull, st.one_of(scalars(), spatial(), temporal())),
        relations("s_", spatial()),
        relations("t_", temporal()),
        relations("a_", arrays()),
        st.booleans().map(Truth),
        scalars().map(lambda operand: Function("is_known", (operand,))),
        st.sampled_from([Function("small", (Property("n"), Number(2))), Function("small", (Number(0), Property("n")))]),
    )


def conditions() -> SearchStrategy[Expression]:
    """Conditions of every class, negated and combined."""
    return st.recursive(
        predicates(),
        lambda inner: st.one_of(
            inner.map(Not),
            st.builds(Combined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
            inner.map(IsNull),
            st.tuples(inner).map(lambda arguments: Function("is_known", arguments)),
        ),
        max_leaves=4,
    )


def held(pool: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Nothing, a value, or several."""
    return st.one_of(st.none(), pool, pool, st.lists(pool, min_size=2, max_size=3))


def events() -> SearchStrategy[Event]:
    geojson = st.one_of(
        st.sampled_from(LINES).map(lambda line: {"type": "LineString", "coordinates": line}),
        st.sampled_from(RINGS).map(lambda ring: {"type": "Polygon", "coordinates": [ring]}),
        st.sampled_from(POINTS).map(lambda point: {"type": "Point", "coordinates": point}),
    )
    pools: dict[str, SearchStrategy[Any]] = {
        "n": st.sampled_from(NUMBERS),
        "t": st.sampled_from(TEXTS),
        "m": st.sampled_from(MOMENTS),
        "b": st.booleans(),
        "p": st.sampled_from(POINTS).map(lambda point: Point(*point)),
        "g": geojson,
    }
    anything = st.one_of(*pools.values(), st.sampled_from(["g"]))
    forged = st.fixed_dictionaries(
        {}, optional={"g/west": st.just(99.0), "g/geojson": st.sampled_from(["", "{}", "[1]"])}
    )
    plain = st.fixed_dictionaries({**{name: held(pool) for name, pool in pools.items()}, "x": held(anything)})
    return st.builds(lambda one, other: event({**one, **other}), plain, st.one_of(st.just({}), st.just({}), forged))


def _double(value: Any) -> Any:
    return value * 2 if type(value) in (int, float) and abs(value) < 1e18 else None


def _small(one: Any, other: Any) -> bool:
    return type(one) in (int, float) and type(other) in (int, float) and one <= other


OPERATORS = {
    "double": Operator("double", _double),
    "same": Operator("same", lambda value: value),
    "is_known": Operator("is_known", lambda value: True),
    "small": Operator("small", _small),
}
