"""Bloom filters find what was put in, and little else: about as little as was asked for, also when they are small."""

import pytest

from godwit.broker.bloom import MASK_BITS_MAX, RATE, BloomFilter, shape_of
from tests.seeds import diagonal


@pytest.mark.parametrize(("count", "rate"), diagonal([1, 3, 5, 10, 50, 400], [0.001, RATE, 0.1, 0.5]))
def test_false_positives_come_at_the_stated_rate_also_in_small_filters(count: int, rate: float) -> None:
    found = tested = 0
    for number in range(max(400 // count, 4)):
        inside = [f"{number}/{i}" for i in range(count)]
        filter = BloomFilter.of(inside, rate)
        assert all(each in filter for each in inside)
        outside = [f"{number}/{i}" for i in range(count, count + 500)]
        found += sum(each in filter for each in outside)
        tested += len(outside)
    assert found / tested < 1.4 * rate + 0.002


def test_a_filter_too_large_for_masks_finds_the_same() -> None:
    count = 1_000
    assert shape_of(count, RATE)[0] > MASK_BITS_MAX
    inside = [f"c{i}" for i in range(count)]
    filter = BloomFilter(BloomFilter.of(inside).wire())
    assert all(each in filter for each in inside)
    assert sum(f"d{i}" in filter for i in range(2_000)) < 60
