"""The memory that a filter takes in a broker, estimated from above: its objects, and the tables that match it.

*Theory.* A broker keeps a filter once, however many tables refer to it, and beside it the rows of the matcher and of
the table by which filters cover each other. All of it grows with the literals, with the values of long lists and with
the characters of texts. The figures were measured on filters of each kind, in both routing families; they are rounded
up. A text whose characters are not all of ASCII may take four bytes for each of them.
"""

from collections.abc import Iterable

from godwit.filters.filters import And, Filter, Missing, Or
from godwit.filters.references import OpenSet
from godwit.filters.regions import Polygon
from godwit.filters.sets import Complement, Interval, Like, OneOf, Places, Prefix, Substring, Suffix, TopicPattern

__all__ = ["ENTRY_BYTES", "EntrySizes", "memory_size", "text_size"]

LITERAL_BYTES = 500  # with a value or two
VALUE_BYTES = 96  # of each further value of a list
TEXT_BYTES = 50  # of each text among them, beside its characters
OPEN_BYTES = 250  # of a literal that refers to the client's own context, for its exact test
CORNER_BYTES = 400
TEXT_COPIES = 2  # the text of a literal is part of the key of a table, too
PATTERN_BYTES = 12  # for each character of a pattern, which is taken apart
KEPT_FROM = 32  # parts: the size of such a filter is counted once
ENTRY_BYTES = 300  # of a subscription or advertisement, beside its filter and its name


def text_size(text: str) -> int:
    """The bytes of a text in memory."""
    return len(text) if text.isascii() else 4 * len(text)


def memory_size(filter: Filter) -> int:
    """About how many bytes a filter takes in a broker, with the tables by which it is matched."""
    if isinstance(filter, And | Or):
        size = filter.memory
        if size is None:
            size = sum(map(memory_size, filter.parts))
            if len(filter.parts) >= KEPT_FROM:
                filter.keep_memory(size)
        return size
    size = LITERAL_BYTES + text_size(filter.attribute)
    return size if isinstance(filter, Missing) else size + _set_size(filter.values)


def _set_size(values: object) -> int:
    """Beside a literal's own objects."""
    match values:
        case OneOf(values=members) | Places(names=members) | OpenSet(operands=members):
            texts = [TEXT_BYTES + TEXT_COPIES * text_size(each) for each in members if isinstance(each, str)]
            open_bytes = OPEN_BYTES if isinstance(values, OpenSet) else 0
            return VALUE_BYTES * (len(members) - 1) + sum(texts) + open_bytes
        case Interval(low=low, high=high):
            return TEXT_COPIES * sum(text_size(end) for end in (low, high) if isinstance(end, str))
        case Prefix(text=text) | Suffix(text=text) | Substring(text=text):
            return TEXT_COPIES * text_size(text)
        case Like(pattern=text) | TopicPattern(pattern=text):
            return PATTERN_BYTES * len(text) + TEXT_COPIES * text_size(text)
        case Polygon(corners=corners):
            return CORNER_BYTES * len(corners)
        case Complement(inner=inner):
            return _set_size(inner)
    return 0


class EntrySizes:
    """The memory of the entries of some tables, kept up to date by each change of an entry."""

    __slots__ = ("bytes",)

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self.bytes = 0
        for filter in filters:
            self.change(None, filter)

    def change(self, before: Filter | None, after: Filter | None) -> None:
        """An entry had the filter `before`, and has `after` now; None: it was not there, or is gone."""
        if before is not None:
            self.bytes -= ENTRY_BYTES + memory_size(before)
        if after is not None:
            self.bytes += ENTRY_BYTES + memory_size(after)
