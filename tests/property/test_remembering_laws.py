"""A matcher that remembers gives what one gives that does not, whatever comes and goes between two equal events."""

from hypothesis import given
from hypothesis import strategies as st

from godwit.filters import event, parse
from godwit.matching.caching_matcher import CachingMatcher
from godwit.matching.naive_matcher import NaiveMatcher

FILTERS = [parse(text) for text in ("x = 1", "x = true", "x > 0", "y = 'a'", "x = '1'", "x is null")]
EVENTS = st.fixed_dictionaries({}, optional={"x": st.sampled_from([1, True, 1.0, "1"]), "y": st.sampled_from("ab")})
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3), st.sampled_from(FILTERS)),  # add or replace
        st.integers(0, 3),  # remove
        EVENTS,
        EVENTS,
    ),
    max_size=30,
)


@given(STEPS)
def test_what_is_remembered_is_true(steps):
    naive, remembering = NaiveMatcher(), CachingMatcher()
    for step in steps:
        for matcher in (naive, remembering):
            if isinstance(step, tuple):
                (matcher.replace if step[0] in matcher else matcher.add)(*step)
            elif isinstance(step, int) and step in matcher:
                matcher.remove(step)
        if isinstance(step, dict):
            assert set(remembering.match(event(step))) == set(naive.match(event(step)))
