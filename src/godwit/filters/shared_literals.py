"""Literals that many filters have in common, made once: `kind = 'bus'`, `topic = 'news'`.

*Theory.* Subscriptions differ in bounds and places; the texts that they ask for come from short lists. A literal on one
text takes about 270 bytes with its set and its text. Who reads filters from a wire asks here for such a literal, and
gets the one that was made for another filter, if that is still known.

*Rules.*
1. Only literals on one text are shared: of these two that are equal are alike in every respect. (1 and 1.0 are equal
   members of a set, and are written differently.)
2. At most `SHARED_MAX` are known, of texts of at most `TEXT_MAX` characters. When there are more, all are forgotten:
   the filters that have them keep them.
"""

from sys import intern

from godwit.filters.filters import Literal, some
from godwit.filters.sets import one_of

__all__ = ["SHARED_MAX", "TEXT_MAX", "SharedLiterals", "shared_literals"]

SHARED_MAX = 16_384
TEXT_MAX = 128


class SharedLiterals:
    """The literals on one text that were asked for lately."""

    __slots__ = ("_count", "_known")

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Literal]] = {}  # by attribute and text
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def some(self, attribute: str, text: str) -> Literal:
        """Some value of `attribute` is `text`."""
        known = self._known.get(attribute)
        found = None if known is None else known.get(text)
        if found is not None:
            return found
        attribute = intern(attribute)
        made = some(attribute, one_of([text]))
        if len(text) <= TEXT_MAX:
            if self._count >= SHARED_MAX:
                self._known.clear()
                self._count = 0
            self._known.setdefault(attribute, {})[text] = made
            self._count += 1
        return made


shared_literals = SharedLiterals()
"""Those of this process."""
