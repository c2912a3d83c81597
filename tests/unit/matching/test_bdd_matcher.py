"""The decision diagram: what is shared, what is bounded, and that both libraries give the same."""

import gc
import itertools
from typing import Any

import pytest

from godwit.filters.events import event
from godwit.filters.filters import FALSE, TRUE, Filter, all_of, any_of, missing, negation, only, some
from godwit.filters.sets import at_most, complement, less_than, more_than, one_of, starts_with
from godwit.matching.bdd_matcher import (
    EMPTY_SLOTS_MIN,
    FALSE_NODE,
    LITERALS_MAX,
    TRUE_NODE,
    BddMatcher,
    Diagram,
    TooBig,
    any_manager,
    compiled_manager,
    plain_manager,
)

A, B, C, D = (some(name, one_of([1])) for name in "abcd")


@pytest.fixture(params=["compiled", "plain"])
def diagram(request: pytest.FixtureRequest) -> Diagram:
    if request.param == "compiled":
        pytest.importorskip("dd.cudd")
        return Diagram(compiled_manager)
    return Diagram(plain_manager)


def truth_table(diagram: Diagram, root: int) -> list[bool]:
    """The value of `root` for every choice among a, b, c and d."""
    events = [
        event({name: 1 if on else 2 for name, on in zip("abcd", choice, strict=True)})
        for choice in itertools.product([False, True], repeat=4)
    ]
    single = [bool(diagram.values(each)[root]) for each in events]
    words = int(diagram.words(events)[root, 0])
    assert single == [bool(words >> number & 1) for number in range(len(events))]
    return single


@pytest.mark.parametrize(
    "filter",
    [
        TRUE,
        FALSE,
        A,
        all_of(A, B),
        any_of(A, B, C, D),
        any_of(all_of(A, B), all_of(C, D)),
        all_of(any_of(A, B), any_of(C, negation(A))),
        negation(any_of(all_of(A, B), all_of(C, D))),
        any_of(all_of(A, negation(B)), all_of(negation(A), B)),
    ],
)
def test_a_root_has_the_truth_table_of_its_filter(diagram: Diagram, filter: Filter) -> None:
    expected = [
        filter.holds({name: 1 if on else 2 for name, on in zip("abcd", choice, strict=True)})
        for choice in itertools.product([False, True], repeat=4)
    ]
    assert truth_table(diagram, diagram.root(filter)) == expected


def test_true_and_false_are_the_two_ends(diagram: Diagram) -> None:
    assert (diagram.root(TRUE), diagram.root(FALSE), len(diagram)) == (TRUE_NODE, FALSE_NODE, 2)


def test_equal_functions_are_one_node_however_they_are_written(diagram: Diagram) -> None:
    first = diagram.root(any_of(all_of(A, B), all_of(A, C)))
    nodes = len(diagram)
    assert diagram.root(all_of(A, any_of(C, B))) == first
    assert len(diagram) == nodes


def test_what_two_subscriptions_have_in_common_is_stored_once(diagram: Diagram) -> None:
    diagram.declare_rarest_first([all_of(A, B, C), all_of(D, B, C)])
    diagram.root(all_of(A, B, C))
    nodes = len(diagram)
    diagram.root(all_of(D, B, C))
    assert len(diagram) == nodes + 1


def test_both_libraries_give_the_same_diagram() -> None:
    pytest.importorskip("dd.cudd")
    compiled, plain = Diagram(compiled_manager), Diagram(plain_manager)
    for n in range(1, 60):
        filter = any_of(*(all_of(some("x", less_than(n * k)), only("y", more_than(k))) for k in (1, 2, 3)))
        assert compiled.root(filter) == plain.root(filter)
    assert all((a == b).all() for a, b in zip(compiled.arrays(), plain.arrays(), strict=True))


def exploding(pairs: int) -> tuple[Filter, Filter]:
    """a1 AND b1 OR a2 AND b2 ..., and a filter that has all the a's declared before all the b's: 2**pairs nodes."""
    left = [some(f"a{n}", one_of([1])) for n in range(pairs)]
    right = [some(f"b{n}", one_of([1])) for n in range(pairs)]
    return any_of(*(all_of(a, b) for a, b in zip(left, right, strict=True))), any_of(*left, *right)


def test_a_function_that_explodes_is_refused_before_it_does(diagram: Diagram) -> None:
    filter, order = exploding(60)
    diagram.root(order)
    nodes = len(diagram)
    with pytest.raises(TooBig):
        diagram.root(filter)
    assert len(diagram) == nodes


def test_a_subscription_that_explodes_is_set_aside_and_still_matches() -> None:
    filter, order = exploding(60)
    matcher = BddMatcher()
    matcher.add("order", order)
    matcher.add("explodes", filter)
    matcher.add("after", missing("c"))
    assert matcher.match(event({"a7": 1, "b7": 1})) == ["order", "explodes", "after"]
    assert matcher.match(event({"a7": 1, "b8": 1, "c": 1})) == ["order"]
    assert list(matcher.match_batch({"a7": [1, 1], "b7": [1, 2]})) == [
        ["order", "explodes", "after"],
        ["order", "after"],
    ]
    matcher.remove("explodes")
    assert matcher.match(event({"a7": 1, "b7": 1})) == ["order", "after"]


def test_a_filter_with_too_many_literals_makes_no_variables() -> None:
    diagram = Diagram(any_manager)
    wide = any_of(*(some("x", one_of([n])) for n in range(LITERALS_MAX + 1)))
    diagram.declare_rarest_first([wide])
    with pytest.raises(TooBig):
        diagram.root(wide)
    assert len(diagram.values(event({"x": 1}))) == 2


def test_the_most_frequent_literal_is_declared_last() -> None:
    diagram = Diagram(any_manager)
    diagram.declare_rarest_first([all_of(A, B), all_of(A, C), all_of(A, C, D)])
    frequent, second = diagram.root(A), diagram.root(C)
    literal, _, _, _ = diagram.arrays()
    assert (literal[frequent], literal[second]) == (3, 2)


def test_churn_leaves_nothing_behind() -> None:
    matcher = BddMatcher()
    matcher.add("stays", some("x", at_most(-1)))
    for n in range(3 * EMPTY_SLOTS_MIN):
        matcher.add(n, some("x", one_of([n])))
        matcher.remove(n)
    assert len(matcher) == 1
    assert len(matcher._diagram) < 2 * EMPTY_SLOTS_MIN
    assert len(matcher._ids) < 2 * EMPTY_SLOTS_MIN
    assert matcher.match(event({"x": -1})) == ["stays"]


def test_ids_keep_their_order_when_the_diagram_is_made_anew() -> None:
    matcher = BddMatcher()
    matcher.add_many((n, some("x", at_most(n))) for n in range(2 * EMPTY_SLOTS_MIN))
    for n in range(2 * EMPTY_SLOTS_MIN - 3):
        matcher.remove(n)
    assert matcher.match(event({"x": 0})) == list(range(2 * EMPTY_SLOTS_MIN - 3, 2 * EMPTY_SLOTS_MIN))


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, float(2**53), -(2**63), 0.1, -0.0, 5e-324, 1e300, True])
def test_numbers_compare_exactly_at_every_kind_of_end(value: Any) -> None:
    matcher = BddMatcher()
    ends = [2**53 - 1, 2**53, 2**53 + 1, 0, 0.1, 5e-324, 1e300, -(2**63), 2**64 - 1]
    filters = {(end, n): f(end) for end in ends for n, f in enumerate((less_than, at_most, more_than))}
    matcher.add_many((id, some("x", values)) for id, values in filters.items())
    assert matcher.match(event({"x": value})) == [id for id, values in filters.items() if values.contains(value)]


def test_some_and_only_of_a_set_and_its_complement_are_told_apart() -> None:
    matcher = BddMatcher()
    new = starts_with("new")
    matcher.add_many([("some", some("t", new)), ("only", only("t", new))])
    matcher.add_many([("some not", some("t", complement(new))), ("only not", only("t", complement(new)))])
    assert matcher.match(event({"t": ["new/a", "old"]})) == ["some", "some not"]
    assert matcher.match(event({"t": ["new/a", "new/b"]})) == ["some", "only"]
    assert matcher.match(event({"t": ["old", 7]})) == ["some not", "only not"]
    assert matcher.match(event({"u": "new"})) == []


@pytest.mark.parametrize("manager", [any_manager, plain_manager])
def test_a_matcher_in_a_cycle_is_collected_without_complaint(manager: Any) -> None:
    """`filterwarnings = error` makes a test of what the libraries say when functions outlive their manager."""
    matcher: Any = BddMatcher(manager)
    matcher.add_many([(1, all_of(A, B)), (2, any_of(A, C))])
    matcher.itself = [matcher]
    del matcher
    gc.collect()
