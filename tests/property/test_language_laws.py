"""The laws of the language: what is printed parses back, in text, over several lines and as JSON."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from godwit.errors import FilterError
from godwit.filters import references
from godwit.filters.filters import FALSE, TRUE, Filter, negation, some
from godwit.filters.language import from_json, loads, parse, pretty, read, to_json, to_text
from godwit.filters.merging import merge
from godwit.filters.references import Reference, bind, is_open
from godwit.filters.sets import EVERYTHING, ValueSet, complement
from godwit.filters.values import Kind, Point
from tests.property.strategies import attributes, filters, many, simple_sets, value_sets, values

CASES = settings(deadline=None)

ODD_NAMES = (
    "x",
    "in",
    "NULL",
    "myloc",
    "my.x",
    "sender.x",
    "sender.a b",
    "sender.",
    "sender.1",
    "sender.in",
    "sender.my.x",
    'sender.a"\n',
    "sender.User/@id",
    "User/Address/Zip",
    "@id",
    "a.b",
    "1",
    " ",
    'a"b',
)
CONTROL_NAMES = ("a\nb", "U&", "\\000a", "\u202e", "é", "text", "TIMESTAMP", "circle", "any thing\0")
REFERENCES = [
    Reference(name) for name in ("location", "threshold", "home", "odd name", 'quo"te', "a/b", "new\nline", "in", "1")
]


def open_sets() -> st.SearchStrategy[ValueSet]:
    """A set that refers to the subscriber's state, or its complement."""
    reference = st.sampled_from(REFERENCES)
    point: Any = values(Kind.POINT)
    end = st.one_of(st.none(), values(Kind.NUMBER, Kind.TEXT, Kind.TIME), reference)
    ranges = st.tuples(reference, end, st.booleans(), st.booleans(), st.booleans()).map(
        lambda drawn: references.interval(
            *(drawn[:2] if drawn[2] else drawn[1::-1]), low_open=drawn[3], high_open=drawn[4]
        )
    )
    radius = st.one_of(reference, st.floats(0, 1e7))
    found = st.one_of(
        st.builds(
            lambda a, rest: references.one_of([a, *rest]),
            reference,
            st.lists(st.one_of(values(), reference), max_size=3),
        ),
        ranges,
        reference.map(references.like),
        st.builds(references.circle, reference, radius),
        st.builds(references.circle, point, reference),
        st.builds(references.vicinity, reference, st.integers(0, 9)),
    )
    return st.one_of(found, found.map(complement))


def any_filter() -> st.SearchStrategy[Filter]:
    """Filters on plain and odd names, some of them open, TRUE and FALSE among them."""
    return st.one_of(
        filters(),
        filters(names=ODD_NAMES + CONTROL_NAMES),
        filters(sets=st.one_of(value_sets(), open_sets())),
        filters().map(lambda f: FALSE & f),
        filters().map(lambda f: TRUE | f),
    )


@CASES
@given(any_filter())
@example(TRUE)
@example(FALSE)
def test_what_is_printed_parses_back(f: Filter) -> None:
    text = to_text(f)
    assert parse(text) == f
    assert text.isprintable() or not any(mark in text for mark in "\n\r\0\u2028")


@CASES
@given(any_filter())
def test_printing_is_canonical(f: Filter) -> None:
    assert to_text(parse(to_text(f))) == to_text(f)


@CASES
@given(any_filter(), st.integers(1, 120))
def test_what_is_printed_prettily_parses_back(f: Filter, width: int) -> None:
    assert parse(pretty(f, width)) == f


@CASES
@given(any_filter())
@example(TRUE)
@example(FALSE)
def test_json_form_reads_back_as_data_and_as_text(f: Filter) -> None:
    data = to_json(f)
    assert from_json(data) == f
    document = json.dumps(data)
    assert loads(document) == f
    assert read(document) == read(to_text(f)) == read(data) == f


@CASES
@given(any_filter())
def test_not_in_text_is_negation_and_not_not_is_nothing(f: Filter) -> None:
    text = to_text(f)
    assert parse(f"NOT ({text})") == negation(f)
    assert parse(f"NOT NOT ({text})") == parse(f"NOT (NOT ({text}))") == f


@CASES
@given(any_filter(), any_filter())
def test_and_and_or_in_text_are_those_of_filters(f: Filter, g: Filter) -> None:
    assert parse(f"({to_text(f)}) AND ({to_text(g)})") == f & g
    assert parse(f"({to_text(f)}) OR ({to_text(g)})") == f | g


@CASES
@given(simple_sets(), attributes(["x"]))
def test_not_of_a_comparison_matches_what_has_values_and_none_in_the_set(s: ValueSet, held: Any) -> None:
    values = held.get("x", ())
    values = values if type(values) is tuple else (values,)
    text = to_text(some("x", s))
    has_none_inside = bool(values) and not any(map(s.contains, values))
    is_null = s == EVERYTHING and not values
    assert parse(f"NOT {text}").holds(held) == (has_none_inside or is_null)


def read_or_told(read: Callable[[Any], Filter], source: Any) -> Filter | str:
    """The filter, or what the error says."""
    try:
        return read(source)
    except FilterError as error:
        return str(error)


@CASES
@given(st.text(max_size=60) | st.text("xyANDORTin()<>='\"%_.,0123e-\\ \n", max_size=60))
def test_any_text_gives_a_filter_or_an_error_that_says_where(text: str) -> None:
    f = read_or_told(parse, text)
    assert f.startswith("line ") if isinstance(f, str) else parse(to_text(f)) == f


PIECES = (
    "x",
    "y",
    "5",
    "'a'",
    "(",
    ")",
    ",",
    "=",
    "<",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "LIKE",
    "BETWEEN",
    "ANY",
    "ALL",
)
MORE = (
    "WITHIN",
    "circle",
    "myloc",
    "my.a",
    "TRUE",
    "polygon",
    "1 2",
    "TIMESTAMP",
    "ESCAPE",
    "within",
    "place",
    "point",
    "NUMBER",
)


@many(4)
@given(st.lists(st.sampled_from(PIECES + MORE), max_size=12).map(" ".join))
def test_any_words_give_a_filter_or_an_error_that_says_where(text: str) -> None:
    f = read_or_told(parse, text)
    assert f.startswith("line 1, column ") if isinstance(f, str) else parse(to_text(f)) == f


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["all", "any", "some", "only", "missing", "in", "one_of", "range", "not", "circle", "box", "<", ">="]
            )
            | st.sampled_from(
                ["kind", "prefix", "like", "polygon", "places", "vicinity", "$my", "$time", "lon", "lat"]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=8,
)


@many(2)
@given(JSON)
def test_any_data_gives_a_filter_or_an_error_that_says_where(data: Any) -> None:
    f = read_or_told(from_json, data)
    assert f.startswith("$") if isinstance(f, str) else from_json(to_json(f)) == f


CONTEXTS = st.dictionaries(st.sampled_from([reference.name for reference in REFERENCES]), values(), max_size=9)


@CASES
@given(filters(sets=st.one_of(value_sets(), open_sets())), CONTEXTS)
def test_binding_leaves_nothing_open_and_is_carried_through_the_text(f: Filter, context: dict[str, Any]) -> None:
    def vicinity(place: Any, steps: int) -> ValueSet:
        return references.one_of([place])

    bound = bind(f, context, vicinity)
    assert not is_open(bound)
    assert bind(bound, context) == bound
    assert parse(to_text(bound)) == bound


@CASES
@given(filters(sets=open_sets()), filters(sets=st.one_of(value_sets(), open_sets())), CONTEXTS, attributes())
def test_covers_and_intersects_of_open_filters_hold_for_every_context(
    f: Filter, g: Filter, context: dict[str, Any], held: Any
) -> None:
    def vicinity(place: Any, steps: int) -> ValueSet:
        return references.one_of([place, Point(5, 5)])

    bound_f, bound_g = bind(f, context, vicinity), bind(g, context, vicinity)
    if f.covers(g) and bound_g.holds(held):
        assert bound_f.holds(held)
    if not f.intersects(g):
        assert not (bound_f.holds(held) and bound_g.holds(held))


@CASES
@given(filters(3, sets=open_sets()), filters(3, sets=st.one_of(value_sets(), open_sets())), CONTEXTS, attributes())
def test_a_merge_of_open_filters_holds_for_every_context(
    f: Filter, g: Filter, context: dict[str, Any], held: Any
) -> None:
    def vicinity(place: Any, steps: int) -> ValueSet:
        return references.one_of([place, Point(5, 5)])

    def holds(filter: Filter) -> bool:
        return bind(filter, context, vicinity).holds(held)

    perfect, imperfect = merge(f, g), merge(f, g, excess_max=1.0)
    if perfect is not None:
        assert holds(perfect) == (holds(f) or holds(g))
    if imperfect is not None and (holds(f) or holds(g)):
        assert holds(imperfect)
