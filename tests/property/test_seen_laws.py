"""What two have seen, put together, is what one who saw both would remember."""

from hypothesis import given
from hypothesis import strategies as st

from godwit.seen import Seen

WINDOW = 16
EVENTS = st.lists(st.tuples(st.sampled_from(["p", "q"]), st.integers(1, 60)), max_size=40)


@given(ours=EVENTS, theirs=EVENTS)
def test_joined_memories_know_exactly_what_either_has_seen_within_the_window(ours, theirs):
    one, other = Seen(WINDOW), Seen(WINDOW)
    for event in ours:
        one.add(*event)
    for event in theirs:
        other.add(*event)
    one.join(other.data())
    both = {*ours, *theirs}
    for publisher in ("p", "q"):
        numbers = [number for who, number in both if who == publisher]
        highest = max(numbers, default=0)
        for number in range(max(highest - WINDOW + 1, 1), highest + 1):
            copy = Seen(WINDOW)
            copy.learn(one.data())
            was_new = copy.add(publisher, number)
            assert was_new == ((publisher, number) not in both)


@given(ours=EVENTS, theirs=EVENTS)
def test_joining_twice_changes_nothing_more(ours, theirs):
    one, other = Seen(WINDOW), Seen(WINDOW)
    for event in ours:
        one.add(*event)
    for event in theirs:
        other.add(*event)
    one.join(other.data())
    once = one.data()
    one.join(other.data())
    assert one.data() == once


@given(events=st.lists(st.tuples(st.sampled_from(["p", "q"]), st.integers(1, 60)), max_size=40))
def test_what_travels_is_what_is_remembered_and_no_longer_than_the_window(events):
    seen = Seen(WINDOW)
    for event in events:
        seen.add(*event)
    other = Seen(WINDOW)
    other.learn(seen.data())
    assert other.data() == seen.data()
    for _, _, bits in seen.data():
        assert 1 <= len(bits) <= WINDOW // 8
        assert bits[-1] != 0


def test_bits_beyond_the_window_that_another_sends_are_not_kept():
    for take in (Seen.learn, Seen.join):
        seen = Seen(WINDOW)
        take(seen, (("p", 100, b"\x01" + b"\xff" * 1_000),))
        [(_, _, bits)] = seen.data()
        assert bits == b"\x01\xff"


@given(events=EVENTS, publishers_max=st.sampled_from([2, 4]))
def test_it_has_what_was_added_within_the_window_and_nothing_else(events, publishers_max):
    seen = Seen(WINDOW, publishers_max)
    for event in events:
        seen.add(*event)
    for publisher in ("p", "q"):
        numbers = {number for who, number in events if who == publisher}
        for number in range(1, 62):
            is_recent = number > max(numbers, default=0) - WINDOW
            assert not seen.has(publisher, number) or (number in numbers and is_recent)
            if publishers_max == 4:  # room for both
                assert seen.has(publisher, number) == (number in numbers and is_recent)
