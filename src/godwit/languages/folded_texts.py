"""The texts that a change of case turns into a given one: `texts_folded_to("ann", 256, str.lower)`.

*Theory.* A change of case goes character by character, so it can be undone: as long as there are few, every text that
becomes a given one is listed. With that list `lower(name) = 'ann'` is a plain filter, and needs no further test. One
character may become several (`ß` in capitals), so the text is taken apart from its end, a piece at a time.

*Rules.*
1. What a change of case has made it leaves as it is. So no text becomes one that it would change.
2. `str.lower` writes a sigma in two ways, by what stands around it: a text with a sigma is not taken apart.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache

__all__ = ["CASED_MAX", "texts_folded_to"]

CASED_MAX = 0x20000
"""Characters from here on have no case: ideographs, tags and private use."""
SIGMAS = frozenset("\u03c3\u03c2")

Fold = Callable[[str], str]


@lru_cache(maxsize=3)
def _sources(fold: Fold) -> tuple[dict[str, list[str]], int]:
    """For each text that a single character becomes, the characters that do, other than itself; its longest key."""
    sources: dict[str, list[str]] = defaultdict(list)
    for code in range(CASED_MAX):
        character = chr(code)
        target = fold(character)
        if target != character:
            sources[target].append(character)
    return dict(sources), max(map(len, sources))


def texts_folded_to(text: str, texts_max: int, fold: Fold) -> list[str] | None:
    """Every text that `fold` makes `text` of; None when they are more than `texts_max`, or cannot be listed."""
    if any(fold(character) != character for character in text):
        return []  # rule 1
    if fold is str.lower and not SIGMAS.isdisjoint(text):
        return None  # rule 2
    sources, longest = _sources(fold)
    endings: list[list[str]] = [[""]]  # for each number of last characters, the texts that become these
    for start in reversed(range(len(text))):
        here = [text[start] + ending for ending in endings[-1]]
        for length in range(1, min(longest, len(text) - start) + 1):
            for source in sources.get(text[start : start + length], ()):
                here += [source + ending for ending in endings[-length]]
        if len(here) > texts_max:
            return None
        endings.append(here)
    return endings[-1]
