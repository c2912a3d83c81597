"""Topic patterns of one attribute: which of very many match a text, without testing each.

*Theory.* The *shape* of a pattern is where its wildcards stand: `fleet/+/speed` and `home/+/light` have the same. A
text can match at most one pattern of a shape: the text itself with its levels replaced by `+` where the shape has one,
and cut off at its `#`. So for each shape that fits the length of the text that pattern is written down and looked up in
a dict. There may be a million patterns; of shapes there are a handful.

What a text has matched is remembered, since most topics are published to again and again.

*Rules.*
1. At most `SHAPES_MAX` shapes of one number of levels are known. A pattern of a further one has no slot here: the index
   asks it by itself. So what a text costs is bounded whatever patterns strangers think of.
2. `in_text` names each slot once.
"""

from collections.abc import ItemsView

from godwit.filters.topic_patterns import ANY_LEVEL, ANY_LEVELS, SEPARATOR, SPECIAL
from godwit.matching.labels import EVERY_VALUE_HOLDS

__all__ = ["SHAPES_MAX", "TopicShapes"]

SHAPES_MAX = 64
TEXTS_KEPT_MAX = 4_096
TEXT_KEPT_LENGTH_MAX = 256

Shape = tuple[int, ...]
"""The levels that are `+`."""


def _shape_of(pattern: str) -> tuple[int, bool, Shape]:
    """How many levels there are before a #, whether there is one, and which are wildcards."""
    levels = pattern.split(SEPARATOR)
    is_open = levels[-1] == ANY_LEVELS
    if is_open:
        del levels[-1]
    return len(levels), is_open, tuple(at for at, level in enumerate(levels) if level == ANY_LEVEL)


class TopicShapes:
    """The slots of topic patterns, found by the texts that match."""

    __slots__ = ("_closed", "_kept", "_open", "_slots")

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}  # by pattern
        self._closed: dict[int, list[Shape]] = {}  # by number of levels, the shapes without #
        self._open: dict[int, list[Shape]] = {}  # and those with it
        self._kept: dict[str, list[int]] = {}  # the codes of texts seen lately

    @classmethod
    def of(cls, slots: dict[str, int]) -> "TopicShapes | None":
        """Those of these patterns; None: there are none."""
        made = cls()
        for pattern, slot in slots.items():
            made.add(pattern, slot)
        return made if slots else None

    def items(self) -> ItemsView[str, int]:
        """The patterns and their slots."""
        return self._slots.items()

    def get(self, pattern: str) -> int | None:
        """The slot of a pattern, if it has one."""
        return self._slots.get(pattern)

    def has_room_for(self, pattern: str) -> bool:
        """Whether a pattern can have a slot. (rule 1)"""
        length, is_open, shape = _shape_of(pattern)
        known = (self._open if is_open else self._closed).get(length, ())
        return shape in known or len(known) < SHAPES_MAX

    def add(self, pattern: str, slot: int) -> None:
        """From now on a pattern has this slot."""
        length, is_open, shape = _shape_of(pattern)
        known = (self._open if is_open else self._closed).setdefault(length, [])
        if shape not in known:
            known.append(shape)
        self._slots[pattern] = slot
        self._kept.clear()

    def codes(self, text: str) -> list[int]:
        """The codes of all patterns that a text, the only value of its attribute, matches."""
        found = self._kept.get(text)
        if found is None:
            found = [slot << 32 | EVERY_VALUE_HOLDS for slot in self.in_text(text)]
            if len(text) <= TEXT_KEPT_LENGTH_MAX:
                if len(self._kept) >= TEXTS_KEPT_MAX:
                    self._kept.clear()
                self._kept[text] = found
        return found

    def in_text(self, text: str) -> list[int]:
        """The slots of all patterns that a text matches."""
        slots, levels = self._slots, text.split(SEPARATOR)
        is_special = text[:1] == SPECIAL
        found: list[int] = []
        for shape in self._closed.get(len(levels), ()):
            if not (is_special and shape[0] == 0):
                slot = slots.get(_pattern(levels, shape))
                if slot is not None:
                    found.append(slot)
        for length, shapes in self._open.items():
            if length > len(levels):
                continue
            head = [*levels[:length], ANY_LEVELS]
            for shape in shapes:
                if not (is_special and (not length or (shape and shape[0] == 0))):
                    slot = slots.get(_pattern(head, shape))
                    if slot is not None:
                        found.append(slot)
        if ANY_LEVEL in text or ANY_LEVELS in text:  # a text that looks like a pattern is found by other shapes, too
            return list(dict.fromkeys(found))
        return found


def _pattern(levels: list[str], shape: Shape) -> str:
    replaced = levels.copy()
    for at in shape:
        replaced[at] = ANY_LEVEL
    return SEPARATOR.join(replaced)
