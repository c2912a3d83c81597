"""Substrings: which of many patterns occur in a text, in one pass over the text.

*Theory.* The patterns are sorted. A text holds one if a suffix of the text starts with it, so each suffix is looked up
among the patterns by bisecting, beginning with those that share its first byte. Texts are compared as UTF-8, in which
no character's bytes occur inside another's. New patterns are tried one by one until there are enough to sort again.

Of a long pattern only the first `KEY_BYTES` bytes are sorted in; where a text holds them, the pattern itself is looked
for. So a position of a text costs a bounded number of steps, whatever the text and the patterns are: bisecting begins
each comparison where both ends of the stretch agree with the suffix already, and the patterns that start one another
are told apart by how far the suffix agrees with the longest.
"""

import numpy as np
import numpy.typing as npt

from godwit.matching.kernels import compiled

FRESH_PATTERNS_MAX = 32
KEY_BYTES = 64
Longs = npt.NDArray[np.int64]


class Substrings:
    """All the substrings that filters look for in one attribute, sorted for one search over a text."""

    def __init__(self) -> None:
        self.count = 0
        self.fresh: list[tuple[str, int]] = []  # not sorted in yet: tried one by one
        self._lay_out([])

    def _lay_out(self, patterns: list[tuple[str, int]]) -> None:
        by_key: dict[bytes, list[tuple[int, str]]] = {}  # of each key, slots and patterns; "" where the key is all
        for text, slot in patterns:
            encoded = text.encode()
            key = encoded[:KEY_BYTES]
            by_key.setdefault(key, []).append((slot, "" if key == encoded else text))
        keys = sorted(by_key)
        self.laid_out = len(patterns)
        self.slots = [by_key[key] for key in keys]
        self.pool = np.frombuffer(b"".join(keys), dtype=np.uint8)
        self.starts = np.zeros(len(keys) + 1, dtype=np.int64)
        np.cumsum([len(key) for key in keys], out=self.starts[1:])
        firsts = np.array([key[0] for key in keys], dtype=np.int64)
        self.first_bytes = np.searchsorted(firsts, np.arange(257))
        self.parents = np.full(len(keys), -1, dtype=np.int64)
        stack: list[int] = []
        for number, key in enumerate(keys):
            while stack and not key.startswith(keys[stack[-1]]):
                stack.pop()
            if stack:
                self.parents[number] = stack[-1]
            stack.append(number)
        self.found = np.zeros(len(keys), dtype=np.bool_)

    def update(self, patterns: dict[str, int]) -> None:
        """Take in patterns that were added to the column since."""
        if len(patterns) == self.count:
            return
        self.fresh = list(patterns.items())[self.laid_out :]
        self.count = len(patterns)
        if len(self.fresh) > FRESH_PATTERNS_MAX + self.laid_out // 8:
            self._lay_out(list(patterns.items()))
            self.fresh = []

    def in_text(self, text: str) -> list[int]:
        """The slots of all patterns that `text` holds."""
        held = [slot for pattern, slot in self.fresh if pattern in text]
        if self.slots:
            find_substrings(
                np.frombuffer(text.encode(), dtype=np.uint8),
                self.pool,
                self.starts,
                self.first_bytes,
                self.parents,
                self.found,
            )
            numbers = np.flatnonzero(self.found)
            self.found[numbers] = False
            held += [slot for number in numbers.tolist() for slot, rest in self.slots[number] if rest in text]
        return held

    def in_texts(self, texts: list[str]) -> tuple[Longs, Longs]:
        """For many texts: the numbers of texts, and beside each the slot of a pattern it holds."""
        encoded = [text.encode() for text in texts]
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=starts[1:])
        numbers, patterns = find_substrings_in_all(
            np.frombuffer(b"".join(encoded), dtype=np.uint8),
            starts,
            self.pool,
            self.starts,
            self.first_bytes,
            self.parents,
            self.found,
        )
        fresh = [(number, slot) for pattern, slot in self.fresh for number, text in enumerate(texts) if pattern in text]
        if any(len(slots) > 1 or slots[0][1] for slots in self.slots):
            found = [
                (number, slot)
                for number, pattern in zip(numbers.tolist(), patterns.tolist(), strict=True)
                for slot, rest in self.slots[pattern]
                if rest in texts[number]
            ]
            held = np.array(found + fresh, dtype=np.int64).reshape(-1, 2)
            return held[:, 0], held[:, 1]
        more = np.array(fresh, dtype=np.int64).reshape(-1, 2)
        slots = np.array([each[0][0] for each in self.slots], dtype=np.int64)
        return np.concatenate((numbers, more[:, 0])), np.concatenate((slots[patterns], more[:, 1]))


@compiled
def find_substrings(text, pool, starts, first_bytes, parents, found):
    """Mark in `found` every pattern that `text` holds.

    Patterns are sorted; a text holds one if a suffix of the text starts with it.

    Among the patterns a suffix starts with, the longest is the greatest one at or below it that is a prefix of it; the
    others are reached through `parents`, the longest other pattern that starts each pattern.
    """
    for at in range(len(text)):
        low, high = first_bytes[text[at]], first_bytes[text[at] + 1]
        if low == high:
            continue
        base = low
        agrees_low, agrees_high, agrees = 0, 0, 0  # how far the suffix agrees with the patterns at either end
        while low < high:  # the first pattern above the suffix
            middle = (low + high) >> 1
            start, end = starts[middle], starts[middle + 1]
            i = min(agrees_low, agrees_high)
            while start + i < end and at + i < len(text) and pool[start + i] == text[at + i]:
                i += 1
            if start + i == end or (at + i < len(text) and pool[start + i] < text[at + i]):
                low = middle + 1
                agrees_low = agrees = i
            else:
                high = middle
                agrees_high = i
        pattern = low - 1
        while pattern >= base and starts[pattern + 1] - starts[pattern] > agrees:
            pattern = parents[pattern]
        while pattern >= base and not found[pattern]:  # it starts the suffix, and so do those that start it
            found[pattern] = True
            pattern = parents[pattern]


@compiled
def find_substrings_in_all(texts, text_starts, pool, starts, first_bytes, parents, found):
    """The same for many texts: pairs of a text's number and a pattern it holds."""
    numbers, patterns = np.empty(1024, dtype=np.int64), np.empty(1024, dtype=np.int64)
    count = 0
    for number in range(len(text_starts) - 1):
        find_substrings(texts[text_starts[number] : text_starts[number + 1]], pool, starts, first_bytes, parents, found)
        for pattern in range(len(found)):
            if found[pattern]:
                found[pattern] = False
                if count == len(numbers):
                    numbers = np.concatenate((numbers, np.empty_like(numbers)))
                    patterns = np.concatenate((patterns, np.empty_like(patterns)))
                numbers[count] = number
                patterns[count] = pattern
                count += 1
    return numbers[:count], patterns[:count]
