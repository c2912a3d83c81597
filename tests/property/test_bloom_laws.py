"""Bloom filters lose nothing, are as wrong as they say, and as large as the formula says. [spcf §3.1.1]"""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.broker.bloom import BYTES_MAX, HASHES_MAX, BloomFilter, check_bloom, shape_of
from godwit.errors import PeerFault
from tests.seeds import diagonal

ELEMENTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=200)
RATES = st.sampled_from([0.5, 0.1, 0.01, 0.0001])


@settings(deadline=None)
@given(ELEMENTS, RATES)
def test_what_was_put_in_is_found_also_at_the_other_end_of_a_wire(elements, rate):
    filter = BloomFilter.of(elements, rate)
    wire = filter.wire()
    check_bloom(wire)
    came = BloomFilter(wire)
    assert all(element in filter and element in came for element in elements)
    assert came.wire() == wire


@settings(deadline=None)
@given(ELEMENTS, RATES, st.randoms(use_true_random=False))
def test_the_same_elements_give_the_same_bytes_in_whatever_order(elements, rate, random):
    shuffled = list(elements)
    random.shuffle(shuffled)
    assert BloomFilter.of(elements, rate).wire() == BloomFilter.of(shuffled, rate).wire()


@given(st.integers(1, 100_000), st.floats(1e-4, 0.9))
def test_the_size_is_what_the_formula_says_in_whole_bytes(count, rate):
    bits, hashes = shape_of(count, rate)
    best = -count * math.log(rate) / math.log(2) ** 2
    assert bits % 8 == 0
    assert best <= bits < best + 8
    assert hashes == max(1, round(best / count * math.log(2)))


@pytest.mark.parametrize(("rate", "count"), diagonal([0.1, 0.01, 0.001], [5, 20, 100, 1_000]))
def test_false_positives_are_about_as_many_as_stated(count, rate):
    """Over many filters: of few elements a single one may be lucky."""
    filters, strangers = max(1, 2_000 // count), 100_000
    each = strangers // filters
    wrong = 0
    for number in range(filters):
        filter = BloomFilter.of([f"{number} in {i}" for i in range(count)], rate)
        wrong += sum(f"{number} out {i}" in filter for i in range(each))
    assert rate / 2 < wrong / (filters * each) < 2 * rate


def test_a_filter_of_a_hundred_contexts_takes_120_bytes_and_one_of_none_finds_nothing():
    assert len(BloomFilter.of(map(str, range(100))).wire()) == 121
    nothing = BloomFilter.of([])
    assert nothing.wire() == b"\x01"
    assert "" not in nothing
    assert "1/a" not in BloomFilter(nothing.wire())


def test_the_bytes_are_the_same_in_every_process():
    assert BloomFilter.of(["1/a", "2/b"]).wire().hex() == "074d0a7c"


@pytest.mark.parametrize("nonsense", [b"", b"\0", b"\0abc", bytes([HASHES_MAX + 1, 1]), b"\x01" + bytes(BYTES_MAX + 1)])
def test_nonsense_is_a_peers_fault(nonsense):
    with pytest.raises(PeerFault, match="Bloom filter"):
        check_bloom(nonsense)


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, 2.0, math.nan])
def test_a_rate_that_is_none_is_an_error(rate):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        shape_of(3, rate)
