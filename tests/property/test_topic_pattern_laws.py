"""Laws of topic patterns, against a matcher that follows the standard level by level, and all short topics."""

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from godwit.filters import relations
from godwit.filters.events import Event
from godwit.filters.filters import Filter, all_of, any_of, negation, only, some
from godwit.filters.language import from_json, parse, to_json, to_text
from godwit.filters.merging import merged
from godwit.filters.sets import NOTHING, OneOf, TopicPattern, ValueSet, complement, one_of, starts_with, topic_pattern
from godwit.filters.topic_patterns import Levels, is_within
from godwit.matching import topic_shapes
from godwit.matching.bdd_matcher import BddMatcher
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.naive_matcher import NaiveMatcher
from tests.property import strategies as draw

LEVELS = ("", "a", "b", "ab", "$a", "x")  # x is in no pattern: it stands for every other text
TOPICS = tuple("/".join(levels) for length in range(1, 5) for levels in product(LEVELS, repeat=length))
PATTERNS = draw.topic_patterns()


def matches_by_the_standard(pattern: list[str], topic: list[str]) -> bool:
    match pattern, topic:
        case ["#"], _:
            return True
        case [], []:
            return True
        case [first, *rest], [level, *levels] if first in ("+", level):
            return matches_by_the_standard(rest, levels)
    return False


def wanted_by(pattern: str) -> set[str]:
    """The topics that match, by the standard."""
    return {
        topic
        for topic in TOPICS
        if not (topic.startswith("$") and pattern[0] in "+#")
        and matches_by_the_standard(pattern.split("/"), topic.split("/"))
    }


def held(values: ValueSet) -> set[str]:
    return {topic for topic in TOPICS if values.contains(topic)}


@given(PATTERNS)
@example("#")
@example("$a/+")
@example("/+")
def test_a_pattern_holds_what_the_standard_says_and_its_complement_the_rest(pattern: str) -> None:
    values = topic_pattern(pattern)
    assert held(values) == wanted_by(pattern)
    assert held(complement(values)) == set(TOPICS) - wanted_by(pattern)
    assert complement(values).contains(5)
    assert not values.contains(5)


@draw.many(2)
@given(PATTERNS, PATTERNS)
@example("#", "+/#")
@example("+/a", "$a/a")
@example("a/#", "a/+/#")
def test_two_patterns_relate_exactly_as_the_topics_that_match_them(one: str, other: str) -> None:
    a, b = topic_pattern(one), topic_pattern(other)
    in_a, in_b = wanted_by(one), wanted_by(other)
    assert relations.is_subset(a, b) is (in_a <= in_b)
    assert relations.is_disjoint(a, b) is in_a.isdisjoint(in_b)
    assert relations.is_subset(a, complement(b)) is in_a.isdisjoint(in_b)
    common = relations.intersection(a, b)
    assert common is not None
    assert held(common) == in_a & in_b
    assert (common == NOTHING) is in_a.isdisjoint(in_b)
    joined = relations.union(a, b)
    assert joined is None or held(joined) == in_a | in_b
    assert held(relations.hull(a, b)) >= in_a | in_b


@draw.many(2)
@given(PATTERNS, st.sampled_from([topic for topic in TOPICS if len(topic) <= 6 and topic]))
def test_a_pattern_and_a_prefix_relate_exactly(pattern: str, start: str) -> None:
    a, b = topic_pattern(pattern), starts_with(start)
    longer = {f"{start}{more}" for more in ("", "x", "/x", "x/x", "/", "/x/x/x", "a", "b", "/a", "/b", "/ab", "/$a")}
    assert relations.is_subset(b, a) is all(a.contains(text) for text in longer)
    if relations.is_disjoint(a, b):
        assert not any(a.contains(text) for text in longer)
    else:
        assert {text for text in TOPICS if text.startswith(start) and a.contains(text)} or any(map(a.contains, longer))


def test_the_root_and_all_below_it_are_one_pattern() -> None:
    whole = relations.union(one_of(["a/b", "a/b/c"]), starts_with("a/b/"))
    assert whole == topic_pattern("a/b/#")
    assert relations.union(one_of(["a", "b"]), starts_with("a/")) is None
    assert parse("topic = 'a' OR topic LIKE 'a/%'").covers(some("topic", topic_pattern("a/#")))
    assert parse("topic = 'a' OR topic LIKE 'a/%'").covers(some("topic", topic_pattern("a/+")))


@given(PATTERNS)
def test_a_pattern_is_read_back_as_it_was_written(pattern: str) -> None:
    for literal in (some, only):
        for values in (topic_pattern(pattern), complement(topic_pattern(pattern))):
            filter = literal("topic", values)
            assert parse(to_text(filter)) == filter
            assert from_json(to_json(filter)) == filter


@given(PATTERNS, PATTERNS)
def test_a_merge_of_patterns_misses_nothing_and_is_perfect_when_it_says_so(one: str, other: str) -> None:
    both_of = merged(some("topic", topic_pattern(one)), some("topic", topic_pattern(other)), excess_max=1.0)
    if both_of is None:
        return
    found = {topic for topic in TOPICS if both_of.filter.holds({"topic": topic})}
    both = wanted_by(one) | wanted_by(other)
    assert found >= both
    if both_of.perfect:
        assert found == both


FILTERS = st.recursive(
    st.builds(lambda make, name, pattern: make(name, topic_pattern(pattern)), st.sampled_from([some, only]),
              st.sampled_from(["topic", "reply"]), PATTERNS),
    lambda inner: st.one_of(
        inner.map(negation),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: all_of(*parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: any_of(*parts)),
    ),
    max_leaves=4,
)  # fmt: skip
VALUES = st.sampled_from([*TOPICS[:300], "a/+", "#", "+/#", "x/#"]) | st.sampled_from([1, True])
EVENTS = st.fixed_dictionaries(
    {}, optional={name: st.lists(VALUES, min_size=1, max_size=2) for name in ("topic", "reply")}
)


@pytest.mark.parametrize("shapes_max", [64, 1])
@given(data=st.data())
def test_all_matchers_agree_on_topic_patterns(shapes_max: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_shapes, "SHAPES_MAX", shapes_max)  # 1: most patterns are asked by themselves
        filters: list[Filter] = data.draw(st.lists(FILTERS, min_size=1, max_size=8))
        events = [Event({k: v[0] if len(v) == 1 else tuple(v) for k, v in each.items()}) for each in
                  data.draw(st.lists(EVENTS, min_size=1, max_size=6))]  # fmt: skip
        matchers = (NaiveMatcher(), IndexMatcher(), BddMatcher())
        for matcher in matchers:
            matcher.add_many(enumerate(filters))
        removed = data.draw(st.sets(st.integers(0, len(filters) - 1)))
        for gone in (False, True):
            for event in events:
                expected = set(matchers[0].match(event))
                assert [set(matcher.match(event)) for matcher in matchers] == [expected] * 3
            if not gone:
                for matcher in matchers:
                    for number in removed:
                        matcher.remove(number)
        batch: dict[str, Any] = {name: [event.attributes.get(name) for event in events] for name in ("topic", "reply")}
        batch = {name: [list(v) if isinstance(v, tuple) else v for v in column] for name, column in batch.items()}
        for event, found in zip(events, matchers[1].match_batch(batch), strict=True):
            assert set(found) == set(matchers[0].match(event))


# ---------------------------------------------------------------- planted: the laws find a fault


def test_the_laws_find_a_comparison_that_forgets_the_topics_with_a_dollar() -> None:
    def forgetful(a: Levels, b: Levels) -> bool:
        return is_within(a._replace(levels=("a", *a.levels[1:])), b) or is_within(a, b)

    a, b = topic_pattern("$a/+"), topic_pattern("+/+")
    assert isinstance(a, TopicPattern)
    assert isinstance(b, TopicPattern)
    assert forgetful(a.levels, b.levels)
    assert not wanted_by("$a/+") <= wanted_by("+/+")


def test_a_pattern_without_wildcards_is_one_text() -> None:
    assert isinstance(topic_pattern("a/b"), OneOf)
