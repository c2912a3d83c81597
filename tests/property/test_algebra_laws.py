"""Laws of the algebra: no event refutes what `covers`, `intersects`, `merge`, `simplify` and `weaken` say."""

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from godwit.filters import algebra
from godwit.filters.algebra import covers, intersects, is_never, normal_form, satisfiable
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import (
    FALSE,
    TRUE,
    And,
    Filter,
    Literal,
    Missing,
    Only,
    Or,
    Some,
    all_of,
    any_of,
    literals,
    negation,
)
from godwit.filters.merging import Merged, merge, merge_all, merged, simplify, weaken
from godwit.filters.sets import Complement, interval, less_than, one_of
from godwit.filters.values import Kind, Value
from tests.property import strategies as draw
from tests.seeds import slow

EVENTS = st.lists(draw.attributes(), min_size=8, max_size=8)
RELATED = draw.filters(max_leaves=5, names=("x", "y"), sets=draw.number_sets())
RELATED_EVENTS = st.lists(draw.attributes(("x", "y"), draw.values(Kind.NUMBER)), min_size=12, max_size=12)


def related(*how: str) -> st.SearchStrategy[tuple[Filter, Filter]]:
    """Two filters, of which one is often made from the other and so often covers it."""

    def pair(f: Filter, g: Filter, how: str) -> tuple[Filter, Filter]:
        match how:
            case "and":
                return f, all_of(f, g)
            case "or":
                return any_of(f, g), f
            case "not":
                return f, negation(g)
            case "requantified":
                return f, requantified(f)
        return f, g

    return st.builds(pair, RELATED, RELATED, st.sampled_from(how or ("and", "or", "not", "requantified", "plain")))


def requantified(f: Filter) -> Filter:
    """The filter with `Only` for each `Some` and the other way round."""
    match f:
        case And(parts=parts):
            return all_of(*map(requantified, parts))
        case Or(parts=parts):
            return any_of(*map(requantified, parts))
        case Missing():
            return f
    return Only(f.attribute, f.values) if isinstance(f, Some) else Some(f.attribute, f.values)


def witnesses(*filters: Filter) -> list[Attributes]:
    """Attributes that hold values in and out of each set of some filters on x and y: single, double and missing."""
    held: dict[str, list[Any]] = {}
    for name in ("x", "y"):
        telling: dict[Value, None] = {}
        for literal in itertools.chain.from_iterable(map(literals, filters)):
            if not isinstance(literal, Missing) and literal.attribute == name:
                inside = [value for value in draw.NUMBERS if literal.values.contains(value)]
                outside = [value for value in draw.NUMBERS if not literal.values.contains(value)]
                telling.update(dict.fromkeys([*inside[:1], *inside[-1:], *outside[:1], *outside[-1:]]))
        single = list(telling)[:8]
        held[name] = [None, "text", *single, *itertools.combinations(single[:6], 2)]
    return [
        {name: value for name, value in (("x", x), ("y", y)) if value is not None}
        for x, y in itertools.product(held["x"], held["y"])
    ]


# ---------------------------------------------------------------- covers and intersects


@given(draw.filters(), draw.filters(), EVENTS)
def test_no_event_refutes_covers_or_intersects(f: Filter, g: Filter, seen: list[Attributes]) -> None:
    f_covers, f_intersects = covers(f, g), intersects(f, g)
    for attributes in seen:
        if g.holds(attributes):
            assert not f_covers or f.holds(attributes)
            assert f_intersects or not f.holds(attributes)


def check_pair(pair: tuple[Filter, Filter], seen: list[Attributes]) -> None:
    f, g = pair
    f_covers, f_intersects = algebra.covers(f, g), algebra.intersects(f, g)
    for attributes in [*seen, *(witnesses(f, g) if f_covers or not f_intersects else [])]:
        if g.holds(attributes):
            assert not f_covers or f.holds(attributes)
            assert f_intersects or not f.holds(attributes)


@draw.many(2)
@given(related(), RELATED_EVENTS)
def test_no_event_refutes_covers_or_intersects_of_related_filters(
    pair: tuple[Filter, Filter], seen: list[Attributes]
) -> None:
    check_pair(pair, seen)


@given(draw.filters())
def test_every_filter_covers_itself_and_lies_between_true_and_false(f: Filter) -> None:
    assert covers(f, f)
    assert covers(TRUE, f)
    assert covers(f, FALSE)
    assert not intersects(FALSE, f)
    assert intersects(TRUE, f) != is_never(f)


@given(related("and", "or"), RELATED, RELATED_EVENTS)
def test_covers_is_transitive(pair: tuple[Filter, Filter], h: Filter, seen: list[Attributes]) -> None:
    f, g = pair
    lowest = all_of(g, h)
    if covers(f, g) and covers(g, lowest):
        assert covers(f, lowest)
    if covers(f, g) and covers(g, h):
        assert covers(f, h)
        assert all(f.holds(attributes) for attributes in seen if h.holds(attributes))


@given(draw.conjunctions(), draw.conjunctions(), draw.conjunctions())
def test_covers_is_transitive_on_conjunctions(f: Filter, g: Filter, h: Filter) -> None:
    below, lowest = all_of(f, g), all_of(f, g, h)
    assert covers(f, below)
    assert covers(below, lowest)
    assert covers(f, lowest)
    assert covers(any_of(f, h), below)


@given(draw.filters(), draw.filters())
def test_intersects_is_symmetric(f: Filter, g: Filter) -> None:
    assert intersects(f, g) == intersects(g, f)


@given(related())
def test_what_covers_a_filter_that_can_match_intersects_it(pair: tuple[Filter, Filter]) -> None:
    f, g = pair
    if covers(f, g) and not is_never(g):
        assert intersects(f, g)


SHARP_SETS = [
    *(
        interval(low, high, low_open=o, high_open=p)
        for low, high in ((0, 2), (2, 4), (0, 4))
        for o in (False, True)
        for p in (False, True)
    ),
    *(less_than(2), interval(high=2), interval(low=2), one_of([2]), one_of([0, 4]), one_of(["a", True])),
]
SHARP_VALUES: list[Value] = [-1, 0, 1, 2, 3, 4, 5, "a", "b", True, False]
SHARP_LITERALS: list[Literal] = [
    *(quantifier("x", values) for quantifier in (Some, Only) for values in SHARP_SETS),
    *(quantifier("x", Complement(values)) for quantifier in (Some, Only) for values in SHARP_SETS),
    Missing("x"),
    Some("x", one_of([0, 2, 4])),
]
UNIVERSE: list[Attributes] = [
    {},
    *({"x": value} for value in SHARP_VALUES),
    *({"x": pair} for pair in itertools.combinations(SHARP_VALUES, 2)),
]
MATCHED = {
    literal: {n for n, attributes in enumerate(UNIVERSE) if literal.holds(attributes)} for literal in SHARP_LITERALS
}


def test_covers_and_intersects_are_exact_on_single_literals() -> None:
    for f, g in itertools.product(SHARP_LITERALS, repeat=2):
        assert covers(f, g) == (MATCHED[f] >= MATCHED[g]), (f, g)
        assert intersects(f, g) == (not MATCHED[f].isdisjoint(MATCHED[g])), (f, g)


def renamed(literal: Literal, name: str) -> Literal:
    return Missing(name) if isinstance(literal, Missing) else type(literal)(name, literal.values)


@draw.many(3)
@given(*[st.tuples(*[st.none() | st.sampled_from(SHARP_LITERALS)] * 3)] * 2)
def test_covers_and_intersects_are_exact_on_conjunctions_with_one_literal_per_attribute(
    f: tuple[Literal | None, ...], g: tuple[Literal | None, ...]
) -> None:
    everything = set(range(len(UNIVERSE)))
    boxes = [[everything if literal is None else MATCHED[literal] for literal in parts] for parts in (f, g)]
    both = [
        all_of(*(renamed(literal, name) for literal, name in zip(parts, "xyz", strict=True) if literal is not None))
        for parts in (f, g)
    ]
    g_is_empty = any(not matched for matched in boxes[1])
    one, other = both
    assert covers(one, other) == (g_is_empty or all(mine >= theirs for mine, theirs in zip(*boxes, strict=True)))
    assert intersects(one, other) == all(mine & theirs for mine, theirs in zip(*boxes, strict=True))


# ---------------------------------------------------------------- negation, normal form


@given(draw.filters(), draw.filters(), EVENTS)
def test_negation(f: Filter, g: Filter, seen: list[Attributes]) -> None:
    assert ~~f == f
    assert ~(f & g) == ~f | ~g
    assert ~(f | g) == ~f & ~g
    for attributes in seen:
        assert not (f.holds(attributes) and (~f).holds(attributes))
        if all(name in attributes for name in draw.NAMES) and not any(isinstance(lit, Missing) for lit in literals(f)):
            assert f.holds(attributes) or (~f).holds(attributes)


@given(draw.filters(), draw.filters(), draw.events())
def test_and_or_mean_what_they_say(f: Filter, g: Filter, event: Event) -> None:
    assert (f & g).matches(event) == (f.matches(event) and g.matches(event))
    assert (f | g).matches(event) == (f.matches(event) or g.matches(event))
    assert f & g == g & f
    assert hash(f | g) == hash(g | f)
    assert f & f == f


@given(draw.filters(max_leaves=12), st.sampled_from([1, 2, 4, 256]), EVENTS)
def test_the_normal_form_is_the_filter_or_weaker(f: Filter, conjunctions_max: int, seen: list[Attributes]) -> None:
    form = normal_form(f, conjunctions_max)
    assert len(form.conjunctions) <= max(1, conjunctions_max)
    assert all(satisfiable(conjunction) for conjunction in form.conjunctions)
    for attributes in seen:
        matched = any(all(literal.holds(attributes) for literal in conj) for conj in form.conjunctions)
        assert matched == f.holds(attributes) if form.exact else matched >= f.holds(attributes)


@given(draw.filters())
def test_a_filter_survives_pickling(f: Filter) -> None:
    again = pickle.loads(pickle.dumps(f))
    assert again == f
    assert hash(again) == hash(f)
    assert repr(again) == repr(f)


# ---------------------------------------------------------------- merging


def check_merged(found: Merged | None, filters: list[Filter], excess_max: float, seen: list[Attributes]) -> None:
    if found is None:
        return
    assert found.perfect or excess_max > 0
    assert 0 <= found.excess <= excess_max
    for attributes in seen:
        wanted = any(f.holds(attributes) for f in filters)
        matched = found.filter.holds(attributes)
        assert matched == wanted if found.perfect else matched >= wanted


@given(draw.filters(max_leaves=4), draw.filters(max_leaves=4), st.sampled_from([0.0, 0.3, 1.0]), EVENTS)
def test_a_merge_matches_both_and_a_perfect_one_nothing_else(
    f: Filter, g: Filter, excess_max: float, seen: list[Attributes]
) -> None:
    check_merged(merged(f, g, excess_max=excess_max), [f, g], excess_max, seen)


@draw.many(2)
@given(*[draw.conjunctions(("x", "y"), draw.number_sets())] * 2, st.sampled_from([0.0, 0.5, 1.0]), RELATED_EVENTS)
def test_a_merge_of_conjunctions_matches_both_and_covers_them(
    f: Filter, g: Filter, excess_max: float, seen: list[Attributes]
) -> None:
    found = merged(f, g, excess_max=excess_max)
    check_merged(found, [f, g], excess_max, [*seen, *witnesses(f, g)])
    if found is not None:
        assert covers(found.filter, f)
        assert covers(found.filter, g)


@given(
    st.lists(draw.conjunctions(("x", "y"), draw.number_sets()), max_size=6),
    st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    st.sampled_from([0, 1, 3, 100]),
    RELATED_EVENTS,
)
def test_merging_all_matches_each(
    filters: list[Filter], excess_max: float, size_max: int, seen: list[Attributes]
) -> None:
    one = merge_all(filters, excess_max=excess_max, size_max=size_max)
    assert one.size <= size_max
    is_exact = excess_max == 0 and size_max == 100
    for attributes in [*seen, *witnesses(*filters)]:
        wanted = any(f.holds(attributes) for f in filters)
        assert one.holds(attributes) == wanted if is_exact else one.holds(attributes) >= wanted


@given(draw.filters(max_leaves=12), EVENTS)
def test_simplifying_changes_nothing_that_matters(f: Filter, seen: list[Attributes]) -> None:
    simple = simplify(f)
    assert simple.size <= f.size
    assert simplify(simple) == simple
    for attributes in seen:
        assert simple.holds(attributes) == f.holds(attributes)


@draw.many(2)
@given(draw.filters(10, ("x", "y"), draw.number_sets()), RELATED_EVENTS)
def test_simplifying_changes_nothing_on_the_bounds(f: Filter, seen: list[Attributes]) -> None:
    simple = simplify(f)
    assert simplify(simple) == simple
    for attributes in [*seen, *witnesses(f)]:
        assert simple.holds(attributes) == f.holds(attributes)


@given(draw.filters(max_leaves=12), st.integers(0, 12), EVENTS)
def test_weakening_matches_at_least_as_much_within_its_size(f: Filter, size_max: int, seen: list[Attributes]) -> None:
    weak = weaken(f, size_max)
    assert weak.size <= size_max
    assert weak == f or f.size > size_max
    for attributes in seen:
        assert weak.holds(attributes) >= f.holds(attributes)


@given(draw.filters(), draw.filters())
def test_a_merge_is_no_larger_than_the_or(f: Filter, g: Filter) -> None:
    one = merge(f, g)
    assert one is None or one.size <= any_of(f, g).size


# ---------------------------------------------------------------- planted faults are caught


def some_implies_only(a: Literal, b: Literal) -> bool:
    if isinstance(a, Some) and isinstance(b, Only):
        b = Some(b.attribute, b.values)
    return SOUND_IMPLIES(a, b)


def missing_implies_only(a: Literal, b: Literal) -> bool:
    return SOUND_IMPLIES(a, b) or (isinstance(a, Missing) and isinstance(b, Only) and a.attribute == b.attribute)


def any_part_of_an_and_is_enough(implication: Any, given: Any, filter: Filter) -> bool:
    if isinstance(filter, And) and filter.parts:
        return any(SOUND_HOLDS(implication, given, part) for part in filter.parts)
    return SOUND_HOLDS(implication, given, filter)


def two_somes_exclude(a: Literal, b: Literal) -> bool:
    if isinstance(a, Some) and isinstance(b, Some):
        a = Only(a.attribute, a.values)
    return SOUND_EXCLUDE(a, b)


def first_alternative_only(filter: Filter, effort: Effort) -> Any:
    return SOUND_CONJUNCTIONS(filter.parts[0] if isinstance(filter, Or) and filter.parts else filter, effort)


SOUND_IMPLIES = algebra.implies
SOUND_HOLDS = algebra._Implication.holds
SOUND_EXCLUDE = algebra._exclude
SOUND_CONJUNCTIONS = algebra._conjunctions


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        slow("implies", some_implies_only),
        ("implies", missing_implies_only),
        slow("_Implication.holds", any_part_of_an_and_is_enough),
        ("_exclude", two_somes_exclude),
        ("_conjunctions", first_alternative_only),
    ],
)
def test_a_planted_fault_is_caught(name: str, faulty: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"godwit.filters.algebra.{name}", faulty)
    law = settings(max_examples=2_000, phases=[Phase.generate])(given(related(), RELATED_EVENTS)(check_pair))
    with pytest.raises(AssertionError):
        law()


def test_joining_the_sets_of_two_onlys_is_caught() -> None:
    f, g = Only("x", one_of([1])), Only("x", one_of([2]))
    wrong = Merged(Only("x", one_of([1, 2])), perfect=True, excess=0.0)
    with pytest.raises(AssertionError):
        check_merged(wrong, [f, g], 0.0, witnesses(f, g))
