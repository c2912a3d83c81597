"""What plain events matched is remembered, until it is no longer true."""

import pytest

from godwit.filters import event, parse
from godwit.matching import caching_matcher
from godwit.matching.caching_matcher import CachingMatcher

NEWS = event({"topic": "news", "n": 1})


@pytest.fixture
def matcher():
    made = CachingMatcher()
    made.add("a", parse("topic = 'news'"))
    assert made.match(NEWS) == ["a"]
    return made


def test_a_subscription_that_comes_is_not_missed(matcher):
    matcher.add("b", parse("n = 1"))
    assert sorted(matcher.match(NEWS)) == ["a", "b"]
    matcher.add_many([("c", parse("n > 0"))])
    assert sorted(matcher.match(NEWS)) == ["a", "b", "c"]


def test_one_that_goes_or_changes_is_found_no_more(matcher):
    matcher.replace("a", parse("topic = 'olds'"))
    assert matcher.match(NEWS) == []
    matcher.replace("a", parse("topic = 'news'"), expires=5.0)
    assert matcher.match(NEWS, now=1.0) == ["a"]
    assert matcher.match(NEWS, now=5.0) == []


def test_what_is_equal_and_not_the_same_is_told_apart(matcher):
    matcher.add("b", parse("n = true"))
    assert matcher.match(NEWS) == ["a"]
    assert sorted(matcher.match(event({"topic": "news", "n": True}))) == ["a", "b"]
    assert matcher.match(event({"topic": "news", "n": 1.0})) == ["a"]


def test_it_remembers_no_more_than_so_many(matcher, monkeypatch):
    monkeypatch.setattr(caching_matcher, "EVENTS_MAX", 3)
    for number in range(10):
        assert matcher.match(event({"topic": "news", "n": number})) == ["a"]
        assert matcher.match(event({"topic": "news" * 100, "n": number})) == []
    assert len(matcher._remembered) <= 3


def test_neither_long_texts_nor_long_answers_are_remembered(matcher):
    long, longer = "x" * caching_matcher.TEXT_MAX, "x" * (caching_matcher.TEXT_MAX + 1)
    before = len(matcher._remembered)
    assert matcher.match(event({"topic": longer})) == []
    assert len(matcher._remembered) == before
    assert matcher.match(event({"topic": long})) == []
    assert len(matcher._remembered) == before + 1
    matcher.add_many([(number, parse("topic = 'crowd'")) for number in range(caching_matcher.MATCHES_MAX)])
    crowd = event({"topic": "crowd"})
    assert len(matcher.match(crowd)) == len(matcher._remembered[("topic", "crowd"),]) == caching_matcher.MATCHES_MAX
    matcher.add("one more", parse("topic = 'crowd'"))
    assert len(matcher.match(crowd)) == caching_matcher.MATCHES_MAX + 1
    assert matcher._remembered == {}
    assert caching_matcher.TEXT_MAX * caching_matcher.EVENTS_MAX <= 2**20
    assert caching_matcher.MATCHES_MAX * caching_matcher.EVENTS_MAX <= 2**20
