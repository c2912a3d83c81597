"""Topic patterns: which texts match one, how two of them relate, which one holds two others.

*Theory.* A topic is a text cut into levels by slashes. In a pattern the level `+` stands for any one level, and `#`,
which can only be last, for any number of further levels, none included: `a/#` matches `a`, too. A pattern is kept as
`Levels`: the levels before a `#`, and whether there is one. `#` alone says the same as `+/#`, since every text has a
first level, and is kept as that. So level i of a pattern always speaks of level i of a text, and two patterns are
compared level by level.

Texts that start with `$` are apart: a pattern whose first level is a wildcard matches none of them. [MQTT-4.7.2-1]

*Rules.*
1. `is_within`, `are_apart` and `common` are exact: a level can be any text, so there is always one that tells two
   patterns apart.
2. `around` holds both of its patterns. It is None when no pattern does, because of rule [MQTT-4.7.2-1].

*Standard.* [mqtt5 §4.7].
"""

from typing import NamedTuple

__all__ = [
    "ANY_LEVEL",
    "ANY_LEVELS",
    "SEPARATOR",
    "SPECIAL",
    "Levels",
    "are_apart",
    "around",
    "common",
    "holds_prefix",
    "is_within",
    "levels_of",
    "matches",
    "meets_prefix",
    "pattern_of",
    "why_no_pattern",
]

ANY_LEVEL = "+"
ANY_LEVELS = "#"
SEPARATOR = "/"
SPECIAL = "$"
"""What a text starts with that no wildcard at the first level matches."""


class Levels(NamedTuple):
    """A topic pattern, level by level."""

    levels: tuple[str, ...]  # at least one
    is_open: bool  # there is a # behind them

    @property
    def begins_wild(self) -> bool:
        """Whether the first level is a wildcard."""
        return self.levels[0] == ANY_LEVEL

    @property
    def is_special(self) -> bool:
        """Whether all texts that match start with `$`."""
        return self.levels[0].startswith(SPECIAL)


def why_no_pattern(text: str) -> str | None:
    """What is wrong with a text that is to be a topic pattern; None: nothing."""
    if not text:
        return "a topic pattern is empty"
    if ANY_LEVEL in text or ANY_LEVELS in text:
        *before, last = text.split(SEPARATOR)
        if any(ANY_LEVELS in level for level in before):
            return f"{ANY_LEVELS} stands only at the end of a topic pattern"
        for level in (*before, last):
            if level not in (ANY_LEVEL, ANY_LEVELS) and (ANY_LEVEL in level or ANY_LEVELS in level):
                return f"a wildcard of a topic pattern stands alone in its level, and {level!r} holds more"
    return None


def levels_of(pattern: str) -> Levels:
    """The levels of a pattern that is well formed."""
    levels = pattern.split(SEPARATOR)
    is_open = levels[-1] == ANY_LEVELS
    if is_open:
        del levels[-1]
    return Levels(tuple(levels) or (ANY_LEVEL,), is_open)


def pattern_of(levels: Levels) -> str:
    """The pattern as it is written."""
    if levels == ((ANY_LEVEL,), True):
        return ANY_LEVELS
    return SEPARATOR.join((*levels.levels, ANY_LEVELS) if levels.is_open else levels.levels)


def matches(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern that is well formed."""
    if text[:1] == SPECIAL and pattern[0] in (ANY_LEVEL, ANY_LEVELS):
        return False
    wanted, given = pattern.split(SEPARATOR), text.split(SEPARATOR)
    if wanted[-1] == ANY_LEVELS:
        del wanted[-1]
        if len(given) < len(wanted):
            return False
        del given[len(wanted) :]
    elif len(wanted) != len(given):
        return False
    return wanted == given or all(want in (ANY_LEVEL, level) for want, level in zip(wanted, given, strict=True))


# ---------------------------------------------------------------- two patterns


def is_within(a: Levels, b: Levels) -> bool:
    """Whether all that matches `a` matches `b`."""
    if b.begins_wild and a.is_special:
        return False
    if len(a.levels) < len(b.levels) if b.is_open else a.is_open or len(a.levels) != len(b.levels):
        return False
    return all(wide in (ANY_LEVEL, narrow) for narrow, wide in zip(a.levels, b.levels, strict=False))


def are_apart(a: Levels, b: Levels) -> bool:
    """Whether nothing matches both."""
    if (a.begins_wild and b.is_special) or (b.begins_wild and a.is_special):
        return True
    longer, shorter = (a, b) if len(a.levels) >= len(b.levels) else (b, a)
    if len(longer.levels) > len(shorter.levels) and not shorter.is_open:
        return True
    return any(x != y and ANY_LEVEL not in (x, y) for x, y in zip(a.levels, b.levels, strict=False))


def common(a: Levels, b: Levels) -> Levels:
    """The pattern of what matches both. They are not apart."""
    longer, shorter = (a, b) if len(a.levels) >= len(b.levels) else (b, a)
    shared = len(shorter.levels)
    met = tuple(y if x == ANY_LEVEL else x for x, y in zip(longer.levels, shorter.levels, strict=False))
    is_open = a.is_open and b.is_open
    return Levels(met + longer.levels[shared:], is_open)


def around(a: Levels, b: Levels) -> Levels | None:
    """The smallest pattern that holds both; None: there is none."""
    if a.levels[0] != b.levels[0] and (a.is_special or b.is_special):
        return None
    shared = min(len(a.levels), len(b.levels))
    joined = tuple(x if x == y else ANY_LEVEL for x, y in zip(a.levels, b.levels, strict=False))
    is_open = a.is_open or b.is_open or len(a.levels) != len(b.levels)
    return Levels(joined[:shared], is_open)


# ---------------------------------------------------------------- a pattern and texts with a common start


def holds_prefix(pattern: Levels, start: str) -> bool:
    """Whether all texts that start with `start`, which is not empty, match a pattern."""
    if not pattern.is_open or (pattern.begins_wild and start[0] == SPECIAL):
        return False
    *whole, _ = given = start.split(SEPARATOR)
    wanted = pattern.levels
    if len(wanted) > len(given) or (len(wanted) == len(given) and wanted[-1] != ANY_LEVEL):
        return False
    return all(want in (ANY_LEVEL, level) for want, level in zip(wanted, whole, strict=False))


def meets_prefix(pattern: Levels, start: str) -> bool:
    """Whether some text that starts with `start` matches a pattern."""
    if pattern.begins_wild and start[:1] == SPECIAL:
        return False
    *whole, part = start.split(SEPARATOR)
    wanted = pattern.levels
    if not all(want in (ANY_LEVEL, level) for want, level in zip(wanted, whole, strict=False)):
        return False
    if len(wanted) <= len(whole):
        return pattern.is_open
    return wanted[len(whole)] == ANY_LEVEL or wanted[len(whole)].startswith(part)
