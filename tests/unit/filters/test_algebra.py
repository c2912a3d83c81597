"""Covers and intersects by example, and in bounded time whatever the filter."""

import pytest

from godwit.filters.algebra import CONJUNCTIONS_MAX, covers, intersects, is_never, normal_form, satisfiable
from godwit.filters.filters import FALSE, TRUE, Filter, all_of, any_of, missing, only, present, some
from godwit.filters.references import Reference
from godwit.filters.references import interval as open_interval
from godwit.filters.regions import box, circle
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    at_least,
    between,
    complement,
    less_than,
    like,
    more_than,
    one_of,
    starts_with,
)

CHEAP, CHEAPER = some("price", less_than(10)), some("price", less_than(5))
IS_A, IS_B = some("sym", one_of(["A"])), some("sym", one_of(["B"]))


def test_the_example_of_the_readme():
    assert CHEAP.covers(CHEAPER & IS_A)
    assert not (CHEAPER & IS_A).covers(CHEAP)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (TRUE, CHEAP),
        (CHEAP, FALSE),
        (CHEAP, CHEAPER),
        (CHEAP | IS_A, CHEAPER & IS_B),
        (CHEAP & IS_A, IS_A & CHEAPER & missing("x")),
        (present("price"), CHEAP),
        (present("price"), only("price", less_than(5))),
        (CHEAP, only("price", less_than(5))),
        (only("price", EVERYTHING), CHEAP),
        (CHEAP, any_of(CHEAPER, some("price", one_of([7])))),
        (IS_A | IS_B, some("sym", one_of(["A", "B"]))),
        (some("price", less_than(5)) | some("price", at_least(5)), CHEAP),
        (CHEAP | IS_A, (CHEAPER | IS_A) & present("x")),
        (some("at", box(0, 0, 10, 10)), some("at", circle(5, 5, 1_000))),
        (some("k", like("alert/%")), some("k", starts_with("alert/fire"))),
        (~CHEAPER, ~CHEAP),
        (IS_A, some("x", NOTHING)),
        (IS_A, CHEAP & only("price", at_least(10))),
    ],
)
def test_covers(f, g):
    assert covers(f, g)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (CHEAPER, CHEAP),
        (CHEAP, IS_A),
        (CHEAP & IS_A, CHEAP),
        (only("price", less_than(10)), CHEAPER),
        (missing("x"), present("x")),
        (missing("x"), TRUE),
        (CHEAP, missing("price")),
        (only("price", less_than(10)), missing("price")),
        (some("zip", between(1000, 2000)), some("zip", at_least(1000)) & some("zip", less_than(2000))),
        (~CHEAP, missing("price")),
        (FALSE, CHEAP),
        (IS_A | IS_B, some("sym", one_of(["A", "B", "C"]))),
        (only("sym", one_of(["A"])) | only("sym", one_of(["B"])), only("sym", one_of(["A", "B"]))),
    ],
)
def test_does_not_cover(f, g):
    assert not covers(f, g)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (CHEAP, some("price", more_than(10))),  # two prices
        (IS_A, IS_B),
        (CHEAP, IS_A),
        (missing("x"), CHEAP),
        (~CHEAP, some("price", one_of(["free"]))),
        (TRUE, TRUE),
    ],
)
def test_intersects(f, g):
    assert intersects(f, g)
    assert intersects(g, f)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (CHEAP, ~CHEAP),
        (CHEAP, missing("price")),
        (only("price", less_than(10)), some("price", at_least(10))),
        (IS_A & missing("x"), IS_B & CHEAP & present("x")),
        (only("sym", one_of(["A"])), only("sym", one_of(["B"])) | missing("sym")),
        (only("at", box(0, 0, 1, 1)), some("at", circle(5, 5, 1_000))),
        (FALSE, TRUE),
        (some("x", NOTHING), TRUE),
    ],
)
def test_does_not_intersect(f, g):
    assert not intersects(f, g)
    assert not intersects(g, f)


def test_a_contradiction_is_never():
    assert is_never(CHEAP & ~CHEAP)
    assert is_never(FALSE)
    assert is_never(all_of(FALSE, CHEAP))
    assert not is_never(IS_A & IS_B)
    assert satisfiable(())


def test_open_filters_relate_for_every_context():
    urgent = some("urgency", open_interval(Reference("threshold"), None))
    assert covers(urgent, urgent & CHEAP)
    assert not covers(urgent, some("urgency", at_least(9)))
    assert intersects(urgent, some("urgency", less_than(0)))
    assert not intersects(urgent, ~urgent)


# ---------------------------------------------------------------- size


def alternatives(count: int, name: str = "x") -> Filter:
    return any_of(*(some(name, one_of([2 * n])) & some("y", less_than(n)) for n in range(count)))


def test_the_normal_form_of_a_product_is_exact_up_to_its_bound_and_weaker_past_it():
    factor = [any_of(some(f"x{n}", one_of([0])), some(f"x{n}", one_of([1]))) for n in range(9)]
    assert len(normal_form(all_of(*factor[:8])).conjunctions) == CONJUNCTIONS_MAX
    assert normal_form(all_of(*factor[:8])).exact
    past = normal_form(all_of(*factor))
    assert not past.exact
    assert len(past.conjunctions) <= CONJUNCTIONS_MAX


def test_an_or_may_have_any_number_of_alternatives():
    many = alternatives(5_000)
    assert many.covers(some("x", one_of([4_000])) & some("y", less_than(1_500)))
    assert not many.covers(some("x", one_of([4_001])))
    assert some("y", less_than(5_000)).covers(many)
    assert not some("y", less_than(4_000)).covers(many)
    assert not intersects(many, only("x", one_of([1, 3])))
    assert intersects(many, only("x", one_of([9_998])))


def test_an_and_of_a_hundred_ors_of_a_hundred_is_compared_in_bounded_time():
    grid = all_of(*(alternatives(100, f"x{n}") for n in range(100)))
    other = all_of(*(alternatives(99, f"x{n}") for n in range(100)))
    assert grid.size == 20_000
    assert covers(grid, grid)
    assert covers(present("x0") & present("y"), grid) in (True, False)
    assert not covers(grid, other)
    assert intersects(grid, other)
    assert not is_never(grid)


def test_two_to_the_thousand_conjunctions_are_compared_in_bounded_time():
    huge = all_of(*(any_of(some("x", one_of([n])), some("y", one_of([n]))) for n in range(1_000)))
    assert covers(huge, huge & CHEAP) in (True, False)
    assert intersects(huge, huge & CHEAP)


def test_a_conjunction_of_ten_thousand_literals_is_compared_in_bounded_time():
    long = all_of(*(some("x", less_than(n)) for n in range(10_000)))
    strict = all_of(*(only("x", less_than(n + 1)) for n in range(10_000)))
    assert covers(some("x", less_than(9_999)), long)
    assert covers(long, strict) in (True, False)
    assert intersects(long, strict)


def test_long_lists_in_many_literals_are_compared_in_bounded_time():
    lists = [one_of(range(n, n + 5_000)) for n in range(40)]
    f = any_of(*(some("x", values) for values in lists))
    g = any_of(*(only("x", complement(values)) & present(f"y{n}") for n, values in enumerate(lists)))
    assert covers(f, g) in (True, False)
    assert intersects(f, g)


def test_two_lists_of_ten_thousand_values_are_compared():
    f, g = some("x", one_of(range(10_000))), some("x", one_of(range(1, 10_000)))
    assert covers(f, g)
    assert not covers(g, f)
    assert not intersects(f, only("x", one_of(range(10_000, 20_000))))


def test_a_filter_as_large_as_can_be_still_covers_itself():
    largest = any_of(*(some("x", between(3 * n, 3 * n + 1)) for n in range(20_000)))
    again = any_of(*reversed(largest.parts))  # type: ignore[union-attr]
    assert covers(largest, again)
