"""Merging, simplifying and weakening by example."""

import pytest

from godwit.filters import merging
from godwit.filters.effort import Effort
from godwit.filters.events import event
from godwit.filters.filters import FALSE, LITERALS_MAX, TRUE, And, Or, all_of, any_of, missing, only, present, some
from godwit.filters.language import parse
from godwit.filters.merging import merge, merge_all, merged, simplify, weaken
from godwit.filters.references import Reference
from godwit.filters.references import interval as open_interval
from godwit.filters.regions import box
from godwit.filters.sets import (
    NOTHING,
    at_least,
    at_most,
    between,
    complement,
    interval,
    less_than,
    more_than,
    one_of,
    starts_with,
)
from tests.hash_seeds import outputs

CHEAP, CHEAPER = some("price", less_than(10)), some("price", less_than(5))
IS_A, IS_B = some("sym", one_of(["A"])), some("sym", one_of(["B"]))
IS_A_OR_B = some("sym", one_of(["A", "B"]))
OPEN = open_interval(Reference("threshold"), None)

# ---------------------------------------------------------------- perfect


@pytest.mark.parametrize(
    ("f", "g", "one"),
    [
        (CHEAP, CHEAPER, CHEAP),
        (IS_A, IS_B, IS_A_OR_B),
        (CHEAP & IS_A, IS_B & CHEAP, CHEAP & IS_A_OR_B),
        (some("x", between(0, 1)), some("x", between(1, 2)), some("x", between(0, 2))),
        (some("at", box(0, 0, 1, 1)) & IS_A, some("at", box(1, 0, 2, 1)) & IS_A, some("at", box(0, 0, 2, 1)) & IS_A),
        (missing("x") & IS_A, present("x") & IS_A, IS_A),
        (CHEAP, ~CHEAP, present("price")),
        (some("x", at_least(5)), only("x", complement(more_than(8))), present("x")),
        (IS_A | missing("x"), IS_B | missing("x"), IS_A_OR_B | missing("x")),
        (FALSE, IS_A, IS_A),
        (TRUE, IS_A, TRUE),
        (
            (IS_A | IS_B) & CHEAP,
            (IS_A | IS_B) & some("price", between(10, 12)),
            (IS_A | IS_B) & some("price", at_most(12)),
        ),
    ],
)
def test_a_perfect_merge(f, g, one):
    assert merge(f, g) == one
    assert merge(g, f) == one
    found = merged(f, g)
    assert found is not None
    assert found.perfect
    assert found.excess == 0


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (CHEAP, IS_A),
        (CHEAP & IS_A, CHEAPER & IS_B),
        (some("x", between(0, 1)), some("x", between(2, 3))),
        (some("x", starts_with("a")), some("x", starts_with("c"))),
        (only("x", one_of([1])), only("x", one_of([2]))),
        (some("x", one_of([1])), only("x", one_of([2]))),
        (some("x", OPEN), some("x", complement(OPEN))),
        (missing("x"), missing("y")),
    ],
)
def test_no_perfect_merge(f, g):
    assert merge(f, g) is None


def test_joining_the_sets_of_two_onlys_lets_in_events_with_one_value_in_each():
    f, g = only("x", one_of([1])), only("x", one_of([2]))
    both = event({"x": [1, 2]})
    assert not f.matches(both)
    assert not g.matches(both)
    found = merged(f, g, excess_max=0.5)
    assert found is not None
    assert found.filter == only("x", one_of([1, 2]))
    assert found.filter.matches(both)
    assert (found.perfect, found.excess) == (False, 0.5)


# ---------------------------------------------------------------- imperfect


@pytest.mark.parametrize(
    ("f", "g", "one", "excess"),
    [
        (some("x", between(0, 4)), some("x", between(6, 10)), some("x", between(0, 10)), 0.2),
        (some("x", between(0, 9)), some("x", one_of([10])), some("x", between(0, 10)), 0.1),
        (
            some("x", interval(0, 5, high_open=True)),
            some("x", interval(5, 10, low_open=True)),
            some("x", interval(0, 10)),
            0.0,
        ),
        (some("at", box(0, 0, 1, 1)), some("at", box(2, 0, 3, 1)), some("at", box(0, 0, 3, 1)), 1 / 3),
        (
            some("x", between(0, 10)) & some("y", between(0, 5)),
            some("x", between(0, 5)) & some("y", between(0, 10)),
            some("x", between(0, 10)) & some("y", between(0, 10)),
            0.25,
        ),
        (IS_A & present("x"), IS_B & present("x") & CHEAP, present("x") & IS_A_OR_B, 0.5),
        (some("k", starts_with("alert/a")), some("k", starts_with("alert/z")), some("k", starts_with("alert/")), 0.75),
        (CHEAP, IS_A, TRUE, 1.0),
    ],
)
def test_an_imperfect_merge_states_its_excess(f, g, one, excess):
    found = merged(f, g, excess_max=1.0)
    assert found is not None
    assert found.filter.covers(one)
    assert one.covers(found.filter) or excess == 0
    assert not found.perfect
    assert found.excess == pytest.approx(excess, abs=1e-9)
    assert merge(f, g) is None
    if excess > 0.01:
        assert merge(f, g, excess_max=excess - 0.01) is None


def test_what_was_let_in_before_counts_again():
    steps = [some("x", between(10 * n, 10 * n + 8)) for n in range(40)]
    one = merge_all(steps, excess_max=0.25)
    assert one == some("x", between(0, 398))
    assert merge_all(steps, excess_max=0.1) == any_of(*steps)
    sparse = [some("x", between(4**n, 4**n + 4**n // 2)) for n in range(1, 12)]
    few = merge_all(sparse, excess_max=0.52)
    assert isinstance(few, Or)
    for part in few.parts:
        covered = [step for step in sparse if part.covers(step)]
        values = part.values  # type: ignore[union-attr]
        filled = sum(step.values.high - step.values.low for step in covered)  # type: ignore[union-attr]
        assert 1 - filled / (values.high - values.low) <= 0.52  # type: ignore[union-attr]


# ---------------------------------------------------------------- many


def test_many_equalities_become_one_list():
    assert merge_all(some("sym", one_of([n])) for n in range(10_000)) == some("sym", one_of(range(10_000)))


def test_many_conjunctions_are_joined_along_several_attributes():
    cells = [some("x", one_of([x])) & some("y", between(y, y + 1)) for x in range(20) for y in range(20)]
    assert merge_all(cells) == some("x", one_of(range(20))) & some("y", between(0, 20))


def test_what_another_covers_is_left_out_also_among_hundreds():
    narrow = [some("sym", one_of([n])) & some("price", less_than(n)) & missing("x") for n in range(300)]
    wide = [some("sym", one_of([n])) & some("price", less_than(n + 1)) for n in range(0, 300, 2)]
    one = merge_all([*narrow, *wide])
    assert isinstance(one, Or)
    assert len(one.parts) == 300
    assert all(part in one.parts for part in wide)


def test_merging_nothing_matches_nothing_and_true_swallows_all():
    assert merge_all([]) == FALSE
    assert merge_all([FALSE, IS_A & only("sym", one_of(["C"]))]) == FALSE
    assert merge_all([TRUE, *(some("x", starts_with(f"{n}x")) for n in range(100))]) == TRUE


SCRIPT = """
from godwit.filters import between, less_than, merge_all, missing, one_of, simplify, some, starts_with
filters = [some("a", one_of([str(n % 7)])) & some("b", between(n, n + 1.5)) for n in range(40)]
filters += [some("c", starts_with(f"{n}x")) & (some("b", less_than(n)) | missing("d")) for n in range(40)]
print(merge_all(filters), merge_all(filters, excess_max=0.3), merge_all(filters, size_max=12), simplify(filters[0]))
"""


def test_the_result_does_not_depend_on_how_a_process_hashes():
    assert len(outputs(SCRIPT)) == 1


def test_more_filters_than_a_filter_may_have_literals_are_weakened_to_fit():
    filters = [some("x", starts_with(f"{n}-")) & some("y", less_than(n)) for n in range(LITERALS_MAX // 2 + 1)]
    one = merge_all(filters)
    assert one.size <= LITERALS_MAX
    assert all(one.covers(f) for f in filters[::1_000])


# ---------------------------------------------------------------- simplify


@pytest.mark.parametrize(
    ("f", "simple"),
    [
        (IS_A | (IS_A & CHEAP), IS_A),
        (IS_A & (IS_A | CHEAP), IS_A),
        (CHEAP & CHEAPER, CHEAPER),
        (CHEAP | CHEAPER, CHEAP),
        (IS_A | IS_B, IS_A_OR_B),
        ((IS_A & CHEAP) | (IS_B & CHEAP), IS_A_OR_B & CHEAP),
        (only("x", less_than(5)) & only("x", at_least(3)), only("x", interval(3, 5, high_open=True))),
        (
            only("x", less_than(5)) & some("x", at_least(3)),
            only("x", less_than(5)) & some("x", interval(3, 5, high_open=True)),
        ),
        (only("x", between(3, 5)) & some("x", at_least(3)), only("x", between(3, 5))),
        (CHEAP & present("price"), CHEAP),
        (CHEAP & ~CHEAP, FALSE),
        (CHEAP | ~CHEAP, present("price")),
        (missing("x") | present("x"), TRUE),
        (some("x", NOTHING) | IS_A, IS_A),
        (some("x", NOTHING), FALSE),
        (all_of(FALSE, IS_A), FALSE),
        (any_of(TRUE, IS_A), TRUE),
        (only("x", less_than(5)) & (some("x", at_least(5)) | IS_A), only("x", less_than(5)) & IS_A),
        (missing("x") & (some("x", at_least(5)) | (present("x") & IS_A)), FALSE),
        (IS_A, IS_A),
    ],
)
def test_simplify(f, simple):
    assert simplify(f) == simple
    assert simplify(simple) == simple


@pytest.mark.parametrize(
    "f",
    [
        some("zip", at_least(1000)) & some("zip", less_than(2000)),
        only("x", one_of([1])) | only("x", one_of([2])),
        IS_A & IS_B,
        some("x", OPEN) | some("x", complement(OPEN)),
    ],
)
def test_simplify_leaves_alone_what_only_looks_simpler_with_single_values(f):
    assert simplify(f) == f


def test_a_spiral_of_boxes_that_join_one_by_one_takes_bounded_time():
    spiral = [some("x", between(0, 1)) & some("y", between(0, 1))]
    for n in range(1, 500):
        spiral.append(some("x", between(0, n)) & some("y", between(n, n + 1)))
        spiral.append(some("x", between(n, n + 1)) & some("y", between(0, n + 1)))
    assert merge_all(spiral[:9]) == some("x", between(0, 5)) & some("y", between(0, 5))
    assert simplify(any_of(*spiral)).size < 2 * len(spiral)


# ---------------------------------------------------------------- weaken


def test_weakening_leaves_a_filter_that_fits():
    f = IS_A & CHEAP
    assert weaken(f, 2) is f


def test_weakening_a_conjunction_keeps_the_strict_literals():
    f = all_of(~some("x", one_of([1])), CHEAP, IS_A, present("y"), some("z", between(1, 2)))
    assert weaken(f, 3) == all_of(CHEAP, IS_A, some("z", between(1, 2)))
    assert weaken(f, 1) == IS_A
    assert weaken(f, 0) == TRUE


def test_weakening_an_or_merges_the_closest_and_uses_its_room():
    steps = [some("x", between(n * n, n * n + 1)) for n in range(10)]
    weak = weaken(any_of(*steps), 4)
    assert isinstance(weak, Or)
    assert weak.size == 4
    assert steps[-1] in weak.parts
    assert weaken(any_of(*steps), 1) == some("x", between(0, 82))


def test_weakening_alternatives_that_have_nothing_in_common_gives_up_all():
    assert weaken(any_of(IS_A, CHEAP, missing("x")), 2) == TRUE
    assert weaken(any_of(IS_A & CHEAP, IS_B & missing("x")), 2) == IS_A_OR_B


def test_weakening_huge_filters_takes_bounded_time():
    grid = all_of(
        *(any_of(*(some(f"x{n}", one_of([2 * m])) & some("y", less_than(m)) for m in range(100))) for n in range(100))
    )
    assert weaken(grid, 50).size <= 50
    nested = any_of(
        *(all_of(*(IS_A & some("z", one_of([n])) | some(f"x{k}", one_of([n])) for k in range(8))) for n in range(300))
    )
    assert weaken(nested, 20).size <= 20
    assert isinstance(simplify(nested), Or)
    assert isinstance(grid, And)


def test_an_alternative_is_compared_with_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    monkeypatch.setattr(merging, "_hull", lambda *both: compared.append(1))  # nothing can be merged
    count = 100
    alternatives = [parse(f"a = {number} AND b = {2 * number}") for number in range(count)]
    merge_all(alternatives, excess_max=0.5, effort=Effort(10**9))
    assert 0 < len(compared) <= 10 * count  # and not with all before it
