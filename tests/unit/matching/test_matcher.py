"""The rules of the one interface, for every matcher."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from godwit.errors import BadEvent, SubscriptionError, Unbound
from godwit.filters import references
from godwit.filters.events import event
from godwit.filters.filters import FALSE, TRUE, Filter, all_of, any_of, missing, negation, only, present, some
from godwit.filters.sets import at_most, between, less_than, more_than, one_of, starts_with
from godwit.matching import Matcher
from godwit.matching.bdd_matcher import BddMatcher, plain_manager
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import Columns
from godwit.matching.naive_matcher import NaiveMatcher
from tests.hash_seeds import outputs

MATCHERS: dict[str, Callable[[], Matcher]] = {
    "naive": NaiveMatcher,
    "index": IndexMatcher,
    "bdd": BddMatcher,
    "bdd in Python": lambda: BddMatcher(plain_manager),
}

CHEAP = some("price", less_than(10))
DEAR = some("price", more_than(100))
OPEN = all_of(CHEAP, some("price", references.one_of([references.Reference("limit")])))


@pytest.fixture(params=MATCHERS)
def matcher(request: pytest.FixtureRequest) -> Matcher:
    return MATCHERS[request.param]()


def matched(matcher: Matcher, **attributes: Any) -> set[Any]:
    """Who matches, asked as a single event and as a batch of one."""
    single = matcher.match(event(attributes))
    [batch] = matcher.match_batch({name: [value] for name, value in attributes.items()} or {"nothing": [None]})
    assert len(set(single)) == len(single)
    assert sorted(map(repr, single)) == sorted(map(repr, batch))
    return set(single)


def test_an_empty_matcher_matches_nothing(matcher: Matcher) -> None:
    assert matched(matcher, price=5) == set()
    assert len(matcher) == 0
    assert len(matcher.match_batch({})) == 0


def test_it_knows_what_was_added_until_it_is_removed(matcher: Matcher) -> None:
    matcher.add(1, CHEAP)
    matcher.add("dear", DEAR)
    assert (len(matcher), 1 in matcher, "dear" in matcher, 2 in matcher) == (2, True, True, False)
    assert matched(matcher, price=5) == {1}
    matcher.remove(1)
    assert (len(matcher), 1 in matcher) == (1, False)
    assert matched(matcher, price=5) == set()
    assert matched(matcher, price=500) == {"dear"}


def test_an_id_that_was_removed_can_come_back_with_another_filter(matcher: Matcher) -> None:
    matcher.add(1, CHEAP)
    matcher.remove(1)
    matcher.add(1, DEAR)
    assert (matched(matcher, price=5), matched(matcher, price=500)) == (set(), {1})


def test_replace_changes_the_filter_in_one_step(matcher: Matcher) -> None:
    matcher.add(1, CHEAP)
    matcher.replace(1, DEAR)
    assert (len(matcher), matched(matcher, price=5), matched(matcher, price=500)) == (1, set(), {1})


def test_adding_a_known_id_is_an_error_and_changes_nothing(matcher: Matcher) -> None:
    matcher.add(1, CHEAP)
    with pytest.raises(SubscriptionError, match="1 already exists"):
        matcher.add(1, DEAR)
    assert (len(matcher), matched(matcher, price=5)) == (1, {1})


def test_removing_or_replacing_an_unknown_id_is_an_error(matcher: Matcher) -> None:
    with pytest.raises(SubscriptionError, match="no subscription 7"):
        matcher.remove(7)
    with pytest.raises(SubscriptionError, match="no subscription 7"):
        matcher.replace(7, CHEAP)
    assert len(matcher) == 0


def test_many_at_once_are_the_same_as_one_by_one(matcher: Matcher) -> None:
    matcher.add_many((n, some("price", at_most(n))) for n in range(100))
    assert matched(matcher, price=90) == set(range(90, 100))
    assert len(matcher) == 100


def test_many_at_once_are_all_refused_when_one_is_an_error(matcher: Matcher) -> None:
    with pytest.raises(SubscriptionError, match="1 already exists"):
        matcher.add_many([(1, CHEAP), (2, CHEAP), (1, DEAR)])
    matcher.add(2, CHEAP)
    with pytest.raises(SubscriptionError, match="2 already exists"):
        matcher.add_many([(1, CHEAP), (2, CHEAP)])
    with pytest.raises(Unbound):
        matcher.add_many([(3, CHEAP), (4, OPEN)])
    assert (len(matcher), matched(matcher, price=5)) == (1, {2})


def test_a_filter_that_waits_for_the_subscribers_context_is_refused(matcher: Matcher) -> None:
    matcher.add(1, CHEAP)
    for refused in (lambda: matcher.add(2, OPEN), lambda: matcher.replace(1, OPEN)):
        with pytest.raises(Unbound, match=r"my\.limit: bind it"):
            refused()
    assert (len(matcher), matched(matcher, price=5)) == (1, {1})


def test_equal_filters_stay_separate_subscriptions(matcher: Matcher) -> None:
    matcher.add_many([(1, CHEAP), (2, CHEAP), (3, CHEAP)])
    matcher.remove(2)
    assert matched(matcher, price=5) == {1, 3}


def test_a_subscription_matches_while_now_lies_before_its_expiry(matcher: Matcher) -> None:
    matcher.add(1, CHEAP, expires=10)
    matcher.add(2, CHEAP)
    cheap = event({"price": 5})
    assert set(matcher.match(cheap, now=9.9)) == {1, 2}
    assert set(matcher.match(cheap, now=10)) == {2}
    assert (len(matcher), 1 in matcher) == (1, False)


def test_a_batch_takes_out_what_has_expired_too(matcher: Matcher) -> None:
    matcher.add(1, CHEAP, expires=10)
    assert list(matcher.match_batch({"price": [5, 500]}, now=9)) == [[1], []]
    assert list(matcher.match_batch({"price": [5, 500]}, now=10)) == [[], []]


def test_expire_names_who_has_gone_in_the_order_they_ended(matcher: Matcher) -> None:
    for id, expires in (("c", 3), ("a", 1), ("b", 2), ("d", 9)):
        matcher.add(id, CHEAP, expires=expires)
    assert matcher.expire(3) == ["a", "b", "c"]
    assert matcher.expire(3) == []


def test_a_new_expiry_takes_the_place_of_the_old_one(matcher: Matcher) -> None:
    matcher.add(1, CHEAP, expires=5)
    matcher.add(2, CHEAP, expires=5)
    matcher.replace(1, CHEAP, expires=20)
    matcher.replace(2, CHEAP)
    assert matcher.expire(10) == []
    assert matcher.expire(20) == [1]
    assert 2 in matcher


def test_a_removed_id_does_not_expire_when_it_comes_back(matcher: Matcher) -> None:
    matcher.add(1, CHEAP, expires=5)
    matcher.remove(1)
    matcher.add(1, CHEAP)
    assert matcher.expire(10) == []


def test_two_values_may_meet_two_literals_but_between_needs_one_value(matcher: Matcher) -> None:
    matcher.add("two", all_of(some("zip", more_than(1000)), some("zip", less_than(2000))))
    matcher.add("one", some("zip", between(1000, 2000)))
    matcher.add("only", only("zip", between(1000, 6000)))
    assert matched(matcher, zip=(900, 5473)) == {"two"}
    assert matched(matcher, zip=(1050, 5473)) == {"two", "one", "only"}


def test_a_missing_attribute_meets_neither_a_comparison_nor_its_negation(matcher: Matcher) -> None:
    matcher.add_many([("is", CHEAP), ("not", negation(CHEAP)), ("none", missing("price")), ("any", present("price"))])
    assert matched(matcher, sym="A") == {"none"}
    assert matched(matcher, price=5) == {"is", "any"}
    assert matched(matcher, price="five") == {"not", "any"}


def test_true_matches_every_event_and_false_none(matcher: Matcher) -> None:
    matcher.add_many([("always", TRUE), ("never", FALSE)])
    assert matched(matcher) == {"always"}
    assert matched(matcher, price=5) == {"always"}


def test_an_array_of_floats_compares_exactly_with_whole_numbers_beyond_floats(matcher: Matcher) -> None:
    """2.0**63 is more than 2**63 - 1, which NumPy would first make a float."""
    matcher.add("more", some("x", more_than(2**63 - 1)))
    matcher.add("at most", some("x", at_most(2**63 - 1)))
    matcher.add("equal", some("x", one_of([2**63])))
    found = matcher.match_batch({"x": np.array([2.0**63, math.nextafter(2.0**63, 0)])})
    assert [set(ids) for ids in found] == [{"more", "equal"}, {"at most"}]


def test_a_bool_is_no_number_and_numbers_compare_exactly(matcher: Matcher) -> None:
    matcher.add("one", some("x", one_of([1])))
    matcher.add("true", some("x", one_of([True])))
    matcher.add("big", some("x", one_of([2**53 + 1])))
    matcher.add("bigger", some("x", more_than(2**53)))
    assert matched(matcher, x=True) == {"true"}
    assert matched(matcher, x=1.0) == {"one"}
    assert matched(matcher, x=2**53) == set()
    assert matched(matcher, x=2**53 + 1) == {"big", "bigger"}


def test_ids_may_be_tuples_as_the_ids_of_events_are(matcher: Matcher) -> None:
    matcher.add_many([(("alice", 1), CHEAP), (("bob", 2), CHEAP)])
    assert matched(matcher, price=5) == {("alice", 1), ("bob", 2)}


def test_a_batch_takes_lists_with_none_and_tuples_and_arrays(matcher: Matcher) -> None:
    matcher.add_many(
        [("cheap", CHEAP), ("new", some("tags", starts_with("new"))), ("hot", some("hot", one_of([True])))]
    )
    columns: Columns = {
        "price": np.array([5, 50, 5]),
        "tags": [("old", "new/car"), None, "new"],
        "hot": np.array([True, False, False]),
    }
    assert [set(ids) for ids in matcher.match_batch(columns)] == [{"cheap", "new", "hot"}, set(), {"cheap", "new"}]


def test_columns_of_different_lengths_are_an_error(matcher: Matcher) -> None:
    with pytest.raises(BadEvent, match="'sym' has 1 rows and the first column has 2"):
        matcher.match_batch({"price": [1, 2], "sym": ["A"]})


def test_a_bad_value_in_a_batch_is_an_error(matcher: Matcher) -> None:
    matcher.add(1, CHEAP)
    with pytest.raises(BadEvent, match="price"):
        matcher.match_batch({"price": np.array([1.0, np.nan])})


def test_an_event_past_the_end_of_a_batch_is_an_error(matcher: Matcher) -> None:
    matcher.add(1, CHEAP)
    matches = matcher.match_batch({"price": [5, 50]})
    assert (len(matches), matches[0], matches[1]) == (2, [1], [])
    with pytest.raises(IndexError):
        matches[2]


def test_a_long_batch_gives_what_single_events_give(matcher: Matcher) -> None:
    matcher.add_many((n, any_of(some("x", between(n, n + 5)), some("y", one_of([n])))) for n in range(0, 100, 3))
    xs, ys = list(range(300)), [n % 7 for n in range(300)]
    singles = [set(matcher.match(event({"x": x, "y": y}))) for x, y in zip(xs, ys, strict=True)]
    assert [set(ids) for ids in matcher.match_batch({"x": xs, "y": np.array(ys)})] == singles


def test_a_filter_with_thousands_of_literals_is_matched(matcher: Matcher) -> None:
    wide: Filter = any_of(*(some(f"a{n}", one_of([n])) for n in range(5_000)))
    matcher.add("wide", wide)
    matcher.add("cheap", CHEAP)
    assert matched(matcher, a4999=4999, price=5) == {"wide", "cheap"}
    assert matched(matcher, a4999=4998) == set()


def test_the_order_of_ids_does_not_depend_on_hashing() -> None:
    program = """if True:
        import godwit.matching as m
        from godwit.filters.events import event
        from godwit.filters.filters import some
        from godwit.filters.sets import less_than, one_of
        for matcher in (m.NaiveMatcher(), m.IndexMatcher(), m.BddMatcher()):
            matcher.add_many((f"id{n}", some("x", less_than(n))) for n in range(50))
            matcher.add_many((f"eq{n}", some("y", one_of([str(n % 3)]))) for n in range(50))
            for n in range(0, 50, 7):
                matcher.remove(f"id{n}")
            print(matcher.match(event({"x": 20, "y": "1"})), list(matcher.match_batch({"x": [1, 2], "y": ["1", "2"]})))
    """
    assert len(outputs(program, compiled=True)) == 1


def test_a_subscription_renewed_again_and_again_leaves_nothing_behind(matcher: Matcher) -> None:
    matcher.add("x", some("a", at_most(1)), expires=10)
    for turn in range(1_000):
        matcher.replace("x", some("a", at_most(1)), expires=20 + turn % 7)
    assert len(matcher._due) < 100
    assert matcher.expire(19) == []
    assert matcher.expire(30) == ["x"]
    assert len(matcher) == 0
