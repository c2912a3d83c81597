"""Substrings: the same answers as asking each pattern, and a bounded number of steps for each position of a text."""

import random

import numpy as np
import pytest

from godwit.matching.substrings import FRESH_PATTERNS_MAX, KEY_BYTES, Substrings, find_substrings

PLAIN = getattr(find_substrings, "py_func", find_substrings)


def laid_out(patterns: list[str]) -> Substrings:
    held = Substrings()
    held.update({text: slot for slot, text in enumerate(patterns)})
    return held


def random_texts(seed: int, count: int, length: int, letters: str) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(letters, k=draw.randint(1, length))) for _ in range(count)]


@pytest.mark.parametrize(("letters", "length"), [("ab", 8), ("a", 200), ("ab", 200), ("é😀a", 60)])
def test_patterns_of_any_length_are_found_as_if_each_were_asked(letters: str, length: int) -> None:
    patterns = list(dict.fromkeys(random_texts(1, 3 * FRESH_PATTERNS_MAX, length, letters)))
    held = laid_out(patterns)
    texts = random_texts(2, 100, 3 * length, letters)
    expected = [(number, slot) for number, text in enumerate(texts) for slot, p in enumerate(patterns) if p in text]
    assert sorted((n, slot) for n, text in enumerate(texts) for slot in held.in_text(text)) == expected
    numbers, slots = held.in_texts(texts)
    assert sorted(zip(numbers.tolist(), slots.tolist(), strict=True)) == expected


def test_patterns_that_were_added_lately_are_found() -> None:
    held = laid_out(["ab", "cd", "zz"])
    assert held.fresh
    assert held.in_text("abcd") == [0, 1]
    assert held.in_text("x") == []


class Counted:
    """An array of bytes that counts how often it is looked into."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.looks = data, 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, at: int) -> int:
        self.looks += 1
        return int(self.data[at])


def test_a_position_of_a_text_costs_a_bounded_number_of_looks() -> None:
    """Patterns that are nearly the same, and a text in which each nearly occurs everywhere."""
    patterns = ["a" * (500 + n) for n in range(60)] + ["a" * n + "b" for n in range(1, 60)]
    held = laid_out(patterns)
    assert not held.fresh
    text = Counted(np.frombuffer(b"a" * 2_000, dtype=np.uint8))
    PLAIN(text, held.pool, held.starts, held.first_bytes, held.parents, held.found)
    steps_of_bisecting = len(held.slots).bit_length()
    assert text.looks <= 2_000 * steps_of_bisecting * (KEY_BYTES + 2), "and not 500 bytes for each comparison"
