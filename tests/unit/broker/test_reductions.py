"""Reductions, one by one: which filters a neighbour is told, in which order, under which names."""

from typing import Any

import pytest

from godwit.broker import placements
from godwit.broker.placements import BUNDLE_MAX, MERGED_SIZE_MAX, PLACING_EFFORT_MAX, Bundle, BundledGroups
from godwit.broker.reductions import (
    REDUCTIONS,
    Grouped,
    Nothing,
    Outgoing,
    Simple,
    covering,
    identity,
    merging,
)
from godwit.filters import FALSE, TRUE, Filter, all_of, any_of, parse, some
from godwit.filters.effort import REMEMBERED_EFFORT_MAX, Effort
from godwit.filters.sets import one_of

ANN, BOB, EVE = ("ann", "s"), ("bob", "s"), ("eve", "s")
WIDE, MIDDLE, NARROW = parse("x > 0"), parse("x > 10"), parse("x > 20")
LEFT, RIGHT = parse("x BETWEEN 0 AND 5"), parse("x BETWEEN 5 AND 9")


def told(out: Outgoing) -> list[Filter]:
    return list(out.told.values())


def filled(out: Outgoing, *filters: Filter) -> Outgoing:
    """The entries 0, 1, 2, … with these filters."""
    for key, filter in enumerate(filters):
        out.add(key, ("client", str(key)), filter)
    return out


def bundles(out: Outgoing) -> list[Bundle]:
    assert isinstance(out, Grouped)
    assert isinstance(out.placement, BundledGroups)
    return list(out.placement.bundles.values())


def shown(changes: list[Any]) -> list[tuple[str, Filter | None]]:
    """Changes with the second half of their ids, which is enough to tell them apart."""
    return [(id[1], filter) for id, filter in changes]


def test_there_are_five() -> None:
    made = [Nothing, Simple, identity, covering, merging]
    names = ("flooding", "simple", "identity", "covering", "merging")
    assert list(REDUCTIONS.items())[:5] == list(zip(names, made, strict=True))  # an example may have added its own


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_to_remove_what_was_never_there_changes_nothing(name: str) -> None:
    assert REDUCTIONS[name]("b").remove("nobody") == []


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_the_same_entry_again_changes_nothing(name: str) -> None:
    out = filled(REDUCTIONS[name]("b"), WIDE)
    assert out.add(0, ("client", "0"), parse("x > 0")) == []


def test_flooding_tells_nothing() -> None:
    out = Nothing("b")
    assert out.add(0, ANN, WIDE) == []
    assert (out.told, list(out.keys())) == ({}, [])


# ------------------------------------------------------------ simple


def test_simple_tells_each_entry_and_replaces_it_in_one_step() -> None:
    out = Simple("b")
    assert out.add(0, ANN, WIDE) == [(ANN, WIDE)]
    assert out.add(1, BOB, WIDE) == [(BOB, WIDE)]
    assert out.add(0, ANN, NARROW) == [(ANN, NARROW)]
    assert out.remove(1) == [(BOB, None)]
    assert out.told == {ANN: NARROW}


def test_simple_gives_another_name_to_the_second_of_two_entries_with_one_name() -> None:
    out = Simple("b")
    out.add(("left", ANN), ANN, WIDE)
    [(id, filter)] = out.add(("right", ANN), ANN, NARROW)
    assert (id != ANN, filter) == (True, NARROW)
    assert out.remove(("left", ANN)) == [(ANN, None)]
    assert out.told == {id: NARROW}
    assert out.add(("right", ANN), ANN, MIDDLE) == [(id, MIDDLE)]
    assert out.remove(("right", ANN)) == [(id, None)]


def test_simple_gives_no_name_that_a_client_has_taken() -> None:
    out = Simple("b/1")
    taken = ("b/1", "1")
    out.add(0, taken, WIDE)
    out.add(1, ANN, WIDE)
    out.add(2, ANN, NARROW)
    assert len(out.told) == 3


# ------------------------------------------------------------ identity


def test_identity_tells_the_first_of_equal_filters_and_takes_it_back_with_the_last() -> None:
    out = identity("b")
    assert shown(out.add(0, ANN, WIDE)) == [("1", WIDE)]
    assert out.add(1, BOB, parse("x > 0")) == []
    assert out.remove(0) == []
    assert shown(out.remove(1)) == [("1", None)]


def test_identity_tells_a_new_filter_before_it_takes_back_the_one_that_it_replaces() -> None:
    out = filled(identity("b"), WIDE)
    assert shown(out.add(0, ANN, NARROW)) == [("2", NARROW), ("1", None)]


def test_a_filter_written_in_another_order_is_equal() -> None:
    out = filled(identity("b"), parse("x > 0 AND y = 1"))
    assert out.add(1, BOB, parse("y = 1 AND x > 0")) == []


# ------------------------------------------------------------ covering


def test_a_filter_that_a_told_one_covers_is_not_told() -> None:
    out = filled(covering("b"), WIDE)
    assert out.add(1, BOB, NARROW) == []


def test_a_filter_that_a_newer_one_covers_is_taken_back_after_that_is_told() -> None:
    out = filled(covering("b"), NARROW, MIDDLE)
    assert told(out) == [MIDDLE]
    assert shown(out.add(2, EVE, WIDE)) == [("3", WIDE), ("2", None)]


def test_what_a_filter_covered_is_told_before_it_goes() -> None:
    out = filled(covering("b"), WIDE, NARROW, parse("x < 5 AND x > 2"))
    changes = out.remove(0)
    assert [filter for _, filter in changes] == [NARROW, parse("x < 5 AND x > 2"), None]


def test_what_a_filter_covered_finds_another_cover_when_there_is_one() -> None:
    out = filled(covering("b"), parse("x > 0 AND x < 100"), WIDE, parse("x < 200"))
    assert told(out) == [WIDE, parse("x < 200")]
    assert [filter for _, filter in out.remove(1)] == [None]
    assert told(out) == [parse("x < 200")]


def test_a_chain_of_covers_comes_out_link_by_link() -> None:
    out = filled(covering("b"), NARROW, MIDDLE, WIDE)
    assert told(out) == [WIDE]
    out.remove(2)
    assert told(out) == [MIDDLE]
    out.remove(1)
    assert told(out) == [NARROW]
    out.remove(0)
    assert told(out) == []


def test_one_that_is_not_told_leaves_without_a_word_and_what_hangs_under_it_moves_up() -> None:
    out = filled(covering("b"), NARROW, MIDDLE, WIDE)
    assert out.remove(1) == []
    assert [filter for _, filter in out.remove(2)] == [NARROW, None]


def test_a_replacement_that_its_own_past_covered_is_told_before_that_goes() -> None:
    out = filled(covering("b"), WIDE)
    assert [filter for _, filter in out.add(0, ANN, NARROW)] == [NARROW, None]


def test_of_two_filters_that_mean_the_same_one_is_told() -> None:
    same = parse("x BETWEEN 1 AND 3 OR x BETWEEN 2 AND 5")
    out = filled(covering("b"), parse("x BETWEEN 1 AND 5"), same)
    assert told(out) == [parse("x BETWEEN 1 AND 5")]
    out.remove(0)
    assert told(out) == [same]


def test_everything_covers_all_and_nothing_is_covered_by_all() -> None:
    out = filled(covering("b"), WIDE, FALSE, TRUE)
    assert told(out) == [TRUE]


def test_a_snapshot_of_a_long_chain_of_covers_can_be_made_and_goes_on_alike() -> None:
    out = filled(covering("b"), *(parse(f"x > {-number}") for number in range(3_000)))
    copy = covering("b")
    copy.restore(out.snapshot())
    assert copy.remove(2_999) == out.remove(2_999)
    assert told(copy) == [parse("x > -2998")]


# ------------------------------------------------------------ merging


def test_two_filters_that_join_are_told_as_one() -> None:
    out = filled(merging("b"), LEFT)
    assert shown(out.add(1, BOB, RIGHT)) == [("1", parse("x BETWEEN 0 AND 9"))]


def test_what_does_not_join_is_told_for_itself() -> None:
    out = filled(merging("b"), LEFT)
    assert shown(out.add(1, BOB, parse("y = 1"))) == [("2", parse("y = 1"))]


def test_a_wider_bundle_swallows_what_it_covers() -> None:
    out = filled(merging("b"), LEFT, parse("x BETWEEN 8 AND 9"))
    assert len(out.told) == 2
    assert shown(out.add(2, EVE, RIGHT)) == [("1", parse("x BETWEEN 0 AND 9")), ("2", None)]


def test_a_bundle_that_loses_a_filter_is_merged_anew_and_its_own_filter_is_told_last() -> None:
    out = filled(merging("b"), LEFT, RIGHT, parse("x BETWEEN 9 AND 12"))
    assert told(out) == [parse("x BETWEEN 0 AND 12")]
    [old] = out.told
    changes = out.remove(1)
    assert [filter for _, filter in changes] == [parse("x BETWEEN 9 AND 12"), LEFT]
    assert changes[-1][0] == old
    assert sorted(map(str, told(out))) == sorted(map(str, [LEFT, parse("x BETWEEN 9 AND 12")]))


def test_a_filter_that_is_replaced_in_a_large_bundle_takes_few_messages() -> None:
    slices = [parse(f"x BETWEEN {4 * number} AND {4 * number + 4}") for number in range(20)]
    out = filled(merging("b"), *slices)
    assert told(out) == [parse("x BETWEEN 0 AND 80")]
    changes = out.add(3, ("c", "3"), parse("x BETWEEN 12 AND 17"))
    assert [filter for _, filter in changes] == [parse("x BETWEEN 16 AND 80"), parse("x BETWEEN 0 AND 17")]
    assert len(out.add(0, ("c", "0"), parse("x BETWEEN 0 AND 5"))) <= 2


def test_perfect_merging_lets_in_nothing_besides() -> None:
    apart = parse("x BETWEEN 6 AND 9")
    assert told(filled(merging("b"), LEFT, apart)) == [LEFT, apart]
    assert told(filled(merging("b", 0.2), LEFT, apart)) == [parse("x BETWEEN 0 AND 9")]


def test_the_bound_on_what_is_let_in_holds_for_a_bundle_and_not_for_each_merge() -> None:
    slices = [parse(f"x BETWEEN {12 * number} AND {12 * number + 10}") for number in range(12)]
    out = filled(merging("b", 0.1), *slices)
    assert all(bundle.excess <= 0.1 for bundle in bundles(out))
    assert len(out.told) > 1


@pytest.mark.parametrize("excess_max", [0.0, 1.0])
def test_the_least_and_the_greatest_bound_can_be_asked_for(excess_max: float) -> None:
    out = filled(merging("b", excess_max), *(parse(f"x = {number * number}") for number in range(30)))
    assert len(out.told) >= 1


def test_a_bundle_holds_so_many_filters_and_no_more() -> None:
    filters = [parse(f"x BETWEEN {number} AND {number + 1}") for number in range(BUNDLE_MAX + 5)]
    out = filled(merging("b"), *filters)
    assert sorted(len(bundle.groups) for bundle in bundles(out)) == [5, BUNDLE_MAX]


def test_a_bundle_that_is_full_takes_in_no_filter_that_it_covers() -> None:
    out = filled(merging("b"), WIDE, *(parse(f"x > {number}") for number in range(1, BUNDLE_MAX + 5)))
    assert [len(bundle.groups) for bundle in bundles(out)] == [BUNDLE_MAX, 5]
    assert told(out) == [WIDE, parse(f"x > {BUNDLE_MAX}")]


def test_a_bundle_swallows_no_other_when_both_would_be_too_many() -> None:
    half = BUNDLE_MAX // 2
    left = [parse(f"x BETWEEN {number} AND 100") for number in range(half)]
    right = [parse(f"x BETWEEN 200 AND {300 - number}") for number in range(half)]
    out = filled(merging("b"), *left, *right)
    assert [len(bundle.groups) for bundle in bundles(out)] == [half, half]
    out.add("both", ("client", "both"), parse("x BETWEEN 50 AND 400"))
    assert [len(bundle.groups) for bundle in bundles(out)] == [half + 1, half]
    fewer = filled(merging("b"), *left[1:], *right)
    fewer.add("both", ("client", "both"), parse("x BETWEEN 50 AND 400"))
    assert [len(bundle.groups) for bundle in bundles(fewer)] == [BUNDLE_MAX], "with one less, both fit into one"


def test_filters_that_would_be_too_big_together_are_told_one_by_one() -> None:
    def pair(number: int) -> Filter:
        return all_of(some("x", one_of([number])), some("y", one_of([number])))

    big, other = (
        any_of(parse(f"z {op} 5"), *map(pair, numbers))
        for op, numbers in ((">", range(9_999)), ("<=", range(10_000, 19_999)))
    )
    assert big.size + other.size > MERGED_SIZE_MAX
    assert told(filled(merging("b"), big, other)) == [big, other]


def test_a_bundle_keeps_its_name_while_it_has_filters_and_no_name_is_used_twice() -> None:
    out = filled(merging("b"), LEFT, RIGHT)
    assert shown(out.remove(1)) == [("1", LEFT)]
    assert shown(out.add(1, BOB, RIGHT)) == [("1", parse("x BETWEEN 0 AND 9"))]
    assert shown(out.remove(0)) == [("1", RIGHT)]
    assert shown(out.remove(1)) == [("1", None)]
    [(name, filter)] = shown(out.add(0, ANN, LEFT))
    assert (int(name) > 3, filter) == (True, LEFT)


# ------------------------------------------------------------ effort


STRANGE = [
    any_of(*(parse(f"a BETWEEN {i} AND {i + width} AND b > {i}") for i in range(450))) for width in range(15, 10, -1)
]
"""Filters of 900 literals, each of which covers the next, and which take long to be compared."""


@pytest.mark.parametrize("make", [covering, merging])
def test_to_place_a_filter_takes_a_bounded_number_of_steps(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []

    efforts: list[Effort] = []

    def counted(steps_max: int) -> Effort:
        efforts.append(Effort(steps_max))
        return efforts[-1]

    monkeypatch.setattr(placements, "Effort", counted)
    out = filled(make("b", 0.2))
    for number, filter in enumerate(STRANGE):
        efforts.clear()
        out.add(number, ("client", str(number)), filter)
        spent.append(sum(effort.spent for effort in efforts))
    efforts.clear()
    out.remove(0)
    spent.append(sum(effort.spent for effort in efforts))
    assert max(spent) <= PLACING_EFFORT_MAX + 2 * REMEMBERED_EFFORT_MAX
    assert any(steps > PLACING_EFFORT_MAX for steps in spent), "these filters were made to use it up"
    assert told(out) == STRANGE[1:], "what is told covers every entry"


def test_what_cannot_be_compared_within_the_steps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "PLACING_EFFORT_MAX", 0)
    for make in (covering, merging):
        assert told(filled(make("b"), WIDE, MIDDLE, NARROW)) == [WIDE, MIDDLE, NARROW]


def test_what_hung_under_a_filter_that_goes_is_placed_within_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = [parse(f"x > {number}") for number in range(1, 40)]
    out = filled(covering("b"), WIDE, *narrow)
    assert told(out) == [WIDE]
    monkeypatch.setattr(placements, "PLACING_EFFORT_MAX", 0)
    out.remove(0)
    assert told(out) == narrow


def test_patterns_that_cannot_cover_each_other_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand filters such as `a LIKE '%x1_y%'`."""
    asked: list[Any] = []
    sound = placements.covers

    def counted(f: Filter, g: Filter, effort: Effort) -> bool:
        asked.append(f)
        return sound(f, g, effort)

    monkeypatch.setattr(placements, "covers", counted)
    out = covering("b")
    for number in range(1_000):
        out.add(number, ("client", str(number)), parse(f"a LIKE '%x{number:03}_y%'"))
    assert len(out.told) == 1_000
    assert len(asked) <= 20_000, "of a million pairs"
    out.add("wide", ANN, parse("a LIKE '%x12%'"))
    assert len(out.told) == 991


@pytest.mark.parametrize("name", ["simple", "identity", "covering", "merging"])
def test_what_stands_for_an_entry_is_told_and_covers_it_whatever_came_and_went(name: str) -> None:
    out: Any = REDUCTIONS[name]("b")
    entries: dict[int, Filter] = {}
    filters = [NARROW, MIDDLE, LEFT, WIDE, RIGHT, NARROW, MIDDLE, TRUE]
    for key, filter in enumerate(filters):
        out.add(key, ("client", str(key)), filter)
        entries[key] = filter
        if key % 3 == 2:
            out.remove(key - 2)
            del entries[key - 2]
        for each, mine in entries.items():
            standing = out.standing_for(each)
            assert standing in told(out)
            assert standing.covers(mine)
    assert out.standing_for("nobody") is None


def test_two_entries_of_one_subscription_share_what_was_told_until_both_have_gone() -> None:
    out = Simple("b")
    assert out.add("old", ANN, WIDE) == [(ANN, WIDE)]
    assert out.share("new", "old", WIDE)
    assert out.add("new", ANN, WIDE) == []
    again = Simple("b")
    again.restore(out.snapshot())
    for each in (out, again):
        assert each.remove("old") == []
        assert each.standing_for("new") == WIDE
        assert each.remove("new") == [(ANN, None)]


def test_an_entry_that_shares_and_changes_is_told_under_an_id_of_its_own() -> None:
    out = Simple("b")
    out.add("old", ANN, WIDE)
    assert not out.share("new", "old", NARROW)  # it wants something else
    assert out.share("new", "old", WIDE)
    [(id, filter)] = out.add("new", ANN, NARROW)
    assert (id != ANN, filter) == (True, NARROW)
    assert out.remove("old") == [(ANN, None)]
    assert out.remove("new") == [(id, None)]
