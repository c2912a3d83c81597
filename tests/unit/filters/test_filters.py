"""Filters: what each literal says, missing attributes, several values, and negation."""

import functools
import pickle
import subprocess
import sys

import pytest

from godwit.errors import FilterTooBig
from godwit.filters.events import event
from godwit.filters.filters import (
    DEPTH_MAX,
    FALSE,
    LITERALS_MAX,
    TRUE,
    And,
    Missing,
    Only,
    Or,
    Some,
    all_of,
    any_of,
    attributes_of,
    literals,
    missing,
    negation,
    only,
    present,
    some,
)
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    all_of_kind,
    at_least,
    between,
    complement,
    less_than,
    more_than,
    one_of,
    starts_with,
)
from godwit.filters.values import Kind

TWO_ZIPS = event({"zip": [900, 2500]})
ONE_ZIP = event({"zip": 1500})
NO_ZIP = event({"name": "Ada"})


def test_two_comparisons_may_be_met_by_two_zips_and_between_needs_one_that_does_both():
    two_literals = some("zip", more_than(1000)) & some("zip", less_than(2000))
    one_literal = some("zip", between(1000, 2000))
    assert two_literals.matches(TWO_ZIPS)
    assert not one_literal.matches(TWO_ZIPS)
    assert two_literals.matches(ONE_ZIP)
    assert one_literal.matches(ONE_ZIP)


def test_some_asks_for_one_value_and_only_for_all():
    small = less_than(1000)
    assert some("zip", small).matches(TWO_ZIPS)
    assert not only("zip", small).matches(TWO_ZIPS)
    assert only("zip", more_than(0)).matches(TWO_ZIPS)
    assert not missing("zip").matches(TWO_ZIPS)


def test_a_missing_attribute_meets_neither_a_comparison_nor_its_negation():
    cheap = some("price", less_than(10))
    assert not cheap.matches(NO_ZIP)
    assert not (~cheap).matches(NO_ZIP)
    assert missing("price").matches(NO_ZIP)
    assert not present("price").matches(NO_ZIP)
    assert not (cheap | ~cheap).matches(NO_ZIP)


def test_is_null_and_is_not_null_are_each_others_negation():
    assert ~present("x") == missing("x")
    assert ~missing("x") == present("x")


def test_not_maps_some_to_only_of_the_complement_and_back():
    cheap = some("price", less_than(10))
    assert ~cheap == only("price", complement(less_than(10)))
    assert ~~cheap == cheap
    assert (~cheap).matches(event({"price": [10, "free"]}))
    assert not (~cheap).matches(event({"price": [10, 9]}))


def test_an_empty_set_and_its_negation_turn_round_to_the_letter():
    for literal in (some("x", NOTHING), only("x", NOTHING), only("x", EVERYTHING), present("x"), missing("x")):
        assert ~~literal == literal
    assert only("x", NOTHING) == some("x", NOTHING)


def test_a_bool_is_no_number():
    flag = event({"x": True})
    assert not some("x", one_of([1])).matches(flag)
    assert not some("x", all_of_kind(Kind.NUMBER)).matches(flag)
    assert some("x", one_of([True])).matches(flag)


def test_and_or_are_flat_without_doubles_and_equal_in_any_order():
    a, b, c = (some(name, one_of([1])) for name in "abc")
    assert (a & b) & c == a & (b & c) == And((c, b, a))
    assert hash((a & b) & c) == hash(And((c, b, a)))
    assert a | a == a
    assert any_of(a) == a
    assert all_of() == TRUE
    assert any_of() == FALSE
    assert TRUE & a == a
    assert FALSE | a == a
    assert a & b != a | b
    assert Some("a", one_of([1])) != Only("a", one_of([1]))


def test_true_matches_all_and_false_nothing():
    assert TRUE.matches(event({}))
    assert not FALSE.matches(event({}))
    assert ~TRUE == FALSE


def test_de_morgan_holds_to_the_letter():
    a, b = some("a", less_than(1)), missing("b")
    assert ~(a & b) == ~a | ~b
    assert ~(a | b) == ~a & ~b
    assert negation(any_of(TRUE, a)) == all_of(FALSE, ~a)


def test_a_filter_knows_its_literals_and_attributes():
    a, b, c = some("x", less_than(1)), missing("y"), only("x", less_than(3))
    wanted = any_of(all_of(a, b), c)
    assert list(literals(wanted)) == [a, b, c]
    assert attributes_of(wanted) == ("x", "y")
    assert (wanted.size, wanted.depth) == (3, 3)


def test_too_many_literals_are_refused():
    parts = [some("x", one_of([n])) for n in range(LITERALS_MAX + 1)]
    assert any_of(*parts[1:]).size == LITERALS_MAX
    with pytest.raises(FilterTooBig, match="20001 literals: at most 20000"):
        any_of(*parts)


def test_too_deep_a_filter_is_refused_long_before_the_recursion_limit():
    def deeper(inner, n):
        part = some("x", one_of([n]))
        return inner | part if n % 2 else inner & part

    wanted = functools.reduce(deeper, range(1, DEPTH_MAX), some("x", one_of([0])))
    assert wanted.depth == DEPTH_MAX
    with pytest.raises(FilterTooBig, match=f"at most {DEPTH_MAX}"):
        deeper(wanted, DEPTH_MAX)
    assert ~~wanted == wanted
    assert list(literals(wanted))
    assert not wanted.matches(event({}))


def test_a_list_of_ten_thousand_values_is_one_literal():
    wanted = some("x", one_of(range(10_000)))
    assert wanted.size == 1
    assert wanted.weight == 1 + 10_000 // 8
    assert (~wanted).weight == wanted.weight
    assert wanted.matches(event({"x": 9_999}))


def test_nodes_are_frozen():
    with pytest.raises(AttributeError):
        some("x", NOTHING).attribute = "y"  # type: ignore[misc]


def test_a_filter_pickled_by_a_process_that_hashes_differently_is_found_in_a_dict():
    wanted = some("a", one_of(["x"])) & (only("b", starts_with("y")) | missing("c"))
    script = "import pickle, sys; f = pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps(f))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(wanted),
        env={"PYTHONHASHSEED": "4711", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
    )
    again = pickle.loads(elsewhere.stdout)
    assert again == wanted
    assert again in {wanted: 1}
    assert isinstance(again, And)
    assert [type(part) for part in again.parts] == [Some, Or]


def test_repr_says_what_a_filter_is():
    assert repr(missing("x")) == "Missing(attribute='x')"
    assert repr(some("x", NOTHING)) == "Some(attribute='x', values=Nothing())"
    assert Missing("x") == missing("x")


def test_filters_are_equal_and_hash_alike_whether_or_not_their_hash_was_asked_for_before() -> None:
    parts = [some("kind", one_of(["bus"])), only("price", at_least(3)), missing("gone")]
    asked, fresh = all_of(*parts), all_of(*reversed(parts))
    known = hash(asked)
    assert asked == fresh
    assert hash(fresh) == known
    assert {asked: 1}[all_of(parts[1], parts[0], parts[2])] == 1
    assert all_of(*parts) != any_of(*parts)
    assert all_of(*parts) != all_of(*parts[:2])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9])
def test_no_part_stands_twice_however_many_there_are(count: int) -> None:
    parts = [some("x", one_of([number])) for number in range(count)]
    twice = all_of(*parts, *reversed(parts))
    assert twice == all_of(*parts)
    assert twice.parts == tuple(parts)  # type: ignore[union-attr]


def test_size_and_depth_are_those_of_the_parts() -> None:
    flat = all_of(some("x", at_least(1)), some("y", at_least(1)))
    nested = any_of(flat, all_of(some("z", at_least(1)), any_of(flat, missing("x"))))
    assert (TRUE.size, TRUE.depth) == (0, 1)
    assert (flat.size, flat.depth) == (2, 2)
    assert (nested.size, nested.depth) == (6, 5)
