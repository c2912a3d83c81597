"""How topic patterns relate to other value sets. `relations.py` says for which pairs of sets each function decides.

*Rule.* These are exact, or answer no where they cannot tell, as those of `relations.py`.
"""

from godwit.filters import topic_patterns
from godwit.filters.like_patterns import RUN_SYMBOL
from godwit.filters.sets import OneOf, Places, Prefix, TopicPattern, ValueSet, topic_of_levels
from godwit.filters.topic_patterns import SEPARATOR, Levels
from godwit.filters.values import Value

__all__ = [
    "elements",
    "literal_levels",
    "prefix_in_topic",
    "tail_of_topic",
    "topic_apart_from_prefix",
    "topic_around",
    "topic_in_texts",
    "topic_with_its_root",
    "topic_within",
    "topics_apart",
]

TOPICS_JOINED_MAX = 16  # texts of a finite set that a topic pattern is put around


def elements(a: OneOf | Places) -> tuple[Value, ...]:
    """The values of a finite set."""
    return a.values if isinstance(a, OneOf) else a.names


def topic_within(a: TopicPattern, b: TopicPattern) -> bool:
    """Whether all that matches one pattern matches another."""
    return topic_patterns.is_within(a.levels, b.levels)


def topics_apart(a: TopicPattern, b: TopicPattern) -> bool:
    """Whether nothing matches two patterns."""
    return topic_patterns.are_apart(a.levels, b.levels)


def topic_in_texts(a: TopicPattern, b: ValueSet) -> bool:
    """Whether a pattern lies in a set of texts. It does when that holds each of its forms, read as texts."""
    levels, is_open = a.levels
    whole = SEPARATOR.join(RUN_SYMBOL if level == topic_patterns.ANY_LEVEL else level for level in levels)
    return b.contains(whole) and (not is_open or b.contains(whole + SEPARATOR + RUN_SYMBOL))


def prefix_in_topic(a: Prefix, b: TopicPattern) -> bool:
    """Whether all texts with a common start match a pattern."""
    return topic_patterns.holds_prefix(b.levels, a.text)


def topic_apart_from_prefix(a: TopicPattern, b: Prefix) -> bool:
    """Whether no text with a start matches a pattern."""
    return not topic_patterns.meets_prefix(a.levels, b.text)


def literal_levels(levels: Levels) -> tuple[str, ...]:
    """The levels before the first wildcard."""
    wild = topic_patterns.ANY_LEVEL
    return levels.levels[: levels.levels.index(wild)] if wild in levels.levels else levels.levels


def tail_of_topic(levels: Levels) -> str:
    """What every text that matches ends with."""
    return "" if levels.is_open else SEPARATOR.join(levels.levels).rpartition(topic_patterns.ANY_LEVEL)[2]


def topic_around(a: ValueSet, b: ValueSet) -> ValueSet | None:
    """A topic pattern that holds two sets of texts; None: there is none, or none worth looking for."""
    found: Levels | None = None
    for values in (a, b):
        if isinstance(values, TopicPattern):
            parts = [values.levels]
        elif isinstance(values, (OneOf, Places)) and len(values.members) <= TOPICS_JOINED_MAX:
            parts = [Levels(tuple(text.split(SEPARATOR)), False) for text in elements(values) if type(text) is str]
            if len(parts) < len(values.members) or any(_has_wildcard(part) for part in parts):
                return None
        else:
            return None
        for part in parts:
            found = part if found is None else topic_patterns.around(found, part)
            if found is None:
                return None
    return None if found is None else topic_of_levels(found)


def topic_with_its_root(a: Prefix, b: OneOf | Places) -> ValueSet | None:
    """`a/#` for all texts that start with `a/`, and `a`, and perhaps some of the former; else None."""
    root = a.text.removesuffix(SEPARATOR)
    outside = [value for value in elements(b) if not a.contains(value)]
    if outside != [root] or root == a.text or _has_wildcard(Levels((root,), False)):
        return None
    return topic_of_levels(Levels(tuple(root.split(SEPARATOR)), True))


def _has_wildcard(levels: Levels) -> bool:
    """Whether the levels of a text hold what in a pattern is a wildcard."""
    return any("+" in level or "#" in level for level in levels.levels)
