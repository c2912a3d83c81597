"""A cache of parsed filters by their texts.

*Rules.*
1. All texts together have a limit of bytes, and a text of more than a sixteenth of it is not cached. A filter
   takes more memory than its text, up to about `BYTES_PER_BYTE` times as much.
2. A text that does not parse is not cached.
3. The least recently used text is dropped first.
"""

from godwit.filters.filters import Filter
from godwit.filters.language.parsing import parse

__all__ = ["BYTES_PER_BYTE", "ParsedTexts"]

BYTES_PER_BYTE = 40
SHARE = 16


class ParsedTexts:
    """The filters of at most `bytes_max` bytes of text, of at most `text_bytes_max` each."""

    def __init__(self, text_bytes_max: int, bytes_max: int) -> None:
        self._text_bytes_max = text_bytes_max
        self._bytes_max = bytes_max
        self._known: dict[str, tuple[Filter, int]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, text: str) -> bool:
        return text in self._known

    def filter(self, text: str) -> Filter:
        """The filter that a text says, or the `FilterError` of `parse`."""
        known = self._known.pop(text, None)
        if known is not None:
            self._known[text] = known
            return known[0]
        filter = parse(text, bytes_max=self._text_bytes_max)
        size = len(text.encode())
        if size <= self._bytes_max // SHARE:
            self._known[text] = (filter, size)
            self.bytes += size
            while self.bytes > self._bytes_max:
                self.bytes -= self._known.pop(next(iter(self._known)))[1]
        return filter
