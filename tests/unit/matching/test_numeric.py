"""Events of many numbers are encoded all at once, to the same codes as one by one."""

from random import Random
from typing import Any

from godwit.filters import event
from godwit.filters.language import parse
from godwit.matching import IndexMatcher, NaiveMatcher
from godwit.matching.numeric import ATTRIBUTES_MIN, CALM

NAMES = [f"n{number}" for number in range(ATTRIBUTES_MIN + 8)]


def row(draw: Random, **others: Any) -> dict[str, Any]:
    """An event of many numbers, near the constants that filters ask for and on them."""
    return {name: draw.choice([draw.randrange(-3, 12), draw.uniform(-3, 12), 5.0, -0.0]) for name in NAMES} | others


def filters(draw: Random) -> list[str]:
    return [
        f"{draw.choice(NAMES)} {draw.choice(['<', '>=', '=', '<>'])} {draw.choice([0, 2.5, 5, 9, -1])}"
        f" AND {draw.choice(NAMES[:-4])} BETWEEN {draw.randrange(4)} AND {draw.randrange(5, 9)}"
        for _ in range(200)
    ]


def settled(texts: list[str], draw: Random) -> IndexMatcher:
    """An index that has seen so many events that it has learnt to take numbers together."""
    index = IndexMatcher()
    index.add_many((number, parse(text)) for number, text in enumerate(texts))
    for _ in range(2 * CALM + 2):
        index.match(event(row(draw)))
    assert index._encoder.numbers is not None
    return index


def test_many_numbers_get_the_codes_they_get_one_by_one() -> None:
    draw = Random(1)
    encoder = settled(filters(draw), draw)._encoder
    for _ in range(300):
        attributes = event(row(draw, unknown=3)).attributes
        codes = encoder.encode_numbers(attributes)
        assert codes is not None
        assert codes.tolist() == encoder.encode(attributes)[0]


def test_what_is_no_number_or_beyond_exact_floats_goes_the_other_way() -> None:
    draw = Random(2)
    encoder = settled(filters(draw), draw)._encoder
    for other in (True, "text", 2**53, -(2**60), 1e300, (1, 2)):
        value = list(other) if isinstance(other, tuple) else other
        assert encoder.encode_numbers(event(row(draw, n0=value)).attributes) is None
    assert encoder.encode_numbers({"n0": 1}) is None


def test_attributes_with_other_aspects_or_constants_beyond_floats_go_the_other_way() -> None:
    draw = Random(3)
    for text in ("n0 LIKE '%end'", f"n0 > {2**53 + 1}"):
        encoder = settled([text, *filters(draw)], draw)._encoder
        assert encoder.encode_numbers(event(row(draw)).attributes) is None


def test_new_constants_are_seen_at_once() -> None:
    draw = Random(4)
    texts = filters(draw)
    index, naive = settled(texts, draw), NaiveMatcher()
    naive.add_many((number, parse(text)) for number, text in enumerate(texts))
    for number in range(len(texts), len(texts) + 50):
        filter = parse(f"{draw.choice(NAMES)} < {draw.uniform(0, 9)}")
        index.add(number, filter)
        naive.add(number, filter)
        for _ in range(draw.choice([1, 2, CALM + 2])):
            happened = event(row(draw))
            assert set(index.match(happened)) == set(naive.match(happened))
