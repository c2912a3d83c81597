"""Filters remembered by their texts: bounded by bytes, and nothing that was refused."""

import pytest

from godwit.errors import FilterError, FilterTooBig
from godwit.filters.language import ParsedTexts, parse


def test_a_text_is_parsed_once() -> None:
    texts = ParsedTexts(1_000, 10_000)
    assert texts.filter("a = 1") is texts.filter("a = 1")


def test_a_text_that_is_no_filter_is_not_remembered() -> None:
    texts = ParsedTexts(1_000, 10_000)
    for bad in ("a =", "x" * 2_000, "a LIKE 5"):
        with pytest.raises(FilterError):
            texts.filter(bad)
        assert bad not in texts
    assert texts.bytes == len(texts) == 0


def test_texts_are_remembered_up_to_so_many_bytes_and_the_oldest_goes_first() -> None:
    texts = ParsedTexts(1_000, 160)
    for i in range(100):
        texts.filter(f"a = {i:04}")
        texts.filter("b = 1")
        assert texts.bytes <= 160
    assert "b = 1" in texts
    assert "a = 0000" not in texts
    assert "a = 0099" in texts
    texts.filter(f"a = '{'é' * 20}'")
    assert f"a = '{'é' * 20}'" not in texts, "a large one would push out all others"


def test_a_text_is_measured_in_bytes_before_it_is_looked_at() -> None:
    text = f"a = '{'é' * 100}'"
    parse(text, bytes_max=206)
    with pytest.raises(FilterTooBig, match="more than 205 bytes"):
        parse(text, bytes_max=205)
    with pytest.raises(FilterTooBig, match="more than 10 bytes"):
        parse("(" * 1_000_000, bytes_max=10)
