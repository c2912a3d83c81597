"""How two value sets relate: `is_subset`, `is_disjoint`, `union`, `intersection`, `hull`, `spread`.

*Theory.* Finite sets are decided by asking the other set about each value; complements are turned round (A lies in
not-B when A and B are disjoint); what is left is one small function per family: intervals, texts, regions. Which
function decides is looked up in a table by the classes of the two sets. For a pair that is not in the table (an open
set, or a class that this module does not know) only what holds for every value set is used.

*Rules.*
1. `is_subset` and `is_disjoint` answer yes only when it is so; where they cannot tell they answer no. So a class of
   value sets that is missing from the tables makes answers weaker, never wrong.
2. Both are exact for finite sets, intervals of numbers and times, prefixes, suffixes, substrings and boxes, and for the
   complements of those; and for topic patterns among each other, with finite sets and with prefixes.
3. `union` and `intersection` are exact or None. `hull` holds at least both.
4. An open set, whose values nobody knows yet, is a subset of itself and disjoint from its complement, no more.
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from godwit.filters import regions, topic_patterns
from godwit.filters.like_patterns import ONE_SYMBOL, RUN_SYMBOL
from godwit.filters.regions import Box, Circle, Polygon, Region
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    Complement,
    Everything,
    Interval,
    Like,
    Nothing,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    TopicPattern,
    ValueSet,
    complement,
    ends_with,
    interval,
    one_of,
    places,
    starts_with,
    topic_of_levels,
)
from godwit.filters.topic_patterns import SEPARATOR, SPECIAL, Levels
from godwit.filters.topic_relations import (
    elements,
    literal_levels,
    prefix_in_topic,
    tail_of_topic,
    topic_apart_from_prefix,
    topic_around,
    topic_in_texts,
    topic_with_its_root,
    topic_within,
    topics_apart,
)
from godwit.filters.values import Kind, Point, Value

LAST_CODE_POINT = 0x10FFFF
FIRST_SURROGATE, AFTER_SURROGATES = 0xD800, 0xE000
JOINED_PAIRWISE_MAX = 32

_Finite = OneOf | Places
_TextSet = Prefix | Suffix | Substring | Like
_FINITE = (OneOf, Places)
_TEXTS = (Prefix, Suffix, Substring, Like)
_RANGED = (Interval, *_TEXTS, TopicPattern)
_REGIONS = (Box, Circle, Polygon)
_PLAIN = (*_RANGED, *_REGIONS)
_ALL = (Everything, Nothing, Complement, *_FINITE, *_PLAIN)

_Relation = Callable[[Any, Any], bool]
_Table = dict[tuple[type, type], _Relation]


def is_subset(a: ValueSet, b: ValueSet) -> bool:
    """Whether every value of `a` is in `b`; no when that cannot be told."""
    if type(a) is Interval and type(b) is Interval:  # the most frequent pair, without the table
        return _within(a, b)
    return a is b or _SUBSET.get((type(a), type(b)), _subset_of_any_class)(a, b)


def is_disjoint(a: ValueSet, b: ValueSet) -> bool:
    """Whether no value is in both; no when that cannot be told."""
    if type(a) is Interval and type(b) is Interval:
        return _ranges_apart(a, b)
    return _DISJOINT.get((type(a), type(b)), _disjoint_of_any_class)(a, b)


def intersection(a: ValueSet, b: ValueSet) -> ValueSet | None:
    """Exactly the values in both, or None when no simple set says that."""
    if is_subset(a, b):
        return a
    if is_subset(b, a):
        return b
    if is_disjoint(a, b):
        return NOTHING
    if a.is_open or b.is_open:
        return None
    for x, y in ((a, b), (b, a)):
        if isinstance(x, _FINITE):
            return one_of(value for value in elements(x) if y.contains(value))
    if isinstance(a, Complement) and isinstance(b, Complement):
        joined = union(a.inner, b.inner)
        return None if joined is None else complement(joined)
    if isinstance(a, (Interval, Prefix)) and isinstance(b, (Interval, Prefix)):
        range_a, range_b = range_of(a), range_of(b)
        return _between_ends(_tighter_low(range_a, range_b), _tighter_high(range_a, range_b))
    if isinstance(a, TopicPattern) and isinstance(b, TopicPattern):
        return topic_of_levels(topic_patterns.common(a.levels, b.levels))
    if isinstance(a, Box) and isinstance(b, Box) and a.west <= a.east and b.west <= b.east:
        return Box(max(a.west, b.west), max(a.south, b.south), min(a.east, b.east), min(a.north, b.north))
    return None


def union(a: ValueSet, b: ValueSet) -> ValueSet | None:
    """Exactly the values in either, or None when no simple set says that."""
    if is_subset(a, b):
        return b
    if is_subset(b, a):
        return a
    if a.is_open or b.is_open:
        return None
    if isinstance(a, Complement) and isinstance(b, Complement):
        common = intersection(a.inner, b.inner)
        return None if common is None else complement(common)
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Complement):  # not-x together with y leaves out only what x has and y has not
            if is_subset(x.inner, y):
                return EVERYTHING
            if isinstance(x.inner, _FINITE):
                return complement(one_of(value for value in elements(x.inner) if not y.contains(value)))
            return None
    if isinstance(a, Places) and isinstance(b, Places):
        return places(a.names + b.names)
    if isinstance(a, _FINITE) and isinstance(b, _FINITE):
        return one_of(elements(a) + elements(b))
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Prefix) and isinstance(y, _FINITE) and (whole := topic_with_its_root(x, y)) is not None:
            return whole
        if isinstance(x, (Interval, Prefix)) and isinstance(y, _FINITE):
            return _interval_with_points(range_of(x), y)
    if isinstance(a, (Interval, Prefix)) and isinstance(b, (Interval, Prefix)):
        range_a, range_b = range_of(a), range_of(b)
        return None if _ranges_apart(range_a, range_b, touching=True) else _hull_of_intervals(range_a, range_b)
    if isinstance(a, Box) and isinstance(b, Box):
        return regions.union_of_boxes(a, b)
    return None


def unions(sets: Iterable[ValueSet]) -> list[ValueSet]:
    """Sets that together hold exactly the values of `sets`: few, though not always the fewest."""
    distinct = dict.fromkeys(sets)
    finite: list[ValueSet] = [values for values in distinct if isinstance(values, _FINITE)]
    ranges = sorted((values for values in distinct if isinstance(values, Interval)), key=_low_first)
    other = [values for values in distinct if not isinstance(values, (Interval, *_FINITE))]
    joined: list[ValueSet] = []
    for values in ranges:  # in this order only neighbours can touch
        whole = union(joined[-1], values) if joined else None
        joined[-1:] = [values] if not joined else [joined[-1], values] if whole is None else [whole]
    if len(finite) > 1:
        all_are_places = all(isinstance(values, Places) for values in finite)
        members = [value for values in finite if isinstance(values, _FINITE) for value in elements(values)]
        finite = [places(map(str, members)) if all_are_places else one_of(members)]
    return _joined_pairwise([*joined, *finite, *other])


def intersections(sets: Iterable[ValueSet]) -> list[ValueSet]:
    """Sets whose common values are exactly those common to `sets`: few, though not always the fewest."""
    return [complement(left_out) for left_out in unions(complement(values) for values in sets)]


def _joined_pairwise(sets: list[ValueSet]) -> list[ValueSet]:
    joined: list[ValueSet] = []
    pending = sets[:JOINED_PAIRWISE_MAX][::-1]
    while pending:
        values = pending.pop()
        for at, kept in enumerate(joined):
            whole = union(kept, values)
            if whole is not None:
                del joined[at]
                pending.append(whole)
                break
        else:
            joined.append(values)
    return joined + sets[JOINED_PAIRWISE_MAX:]


def hull(a: ValueSet, b: ValueSet) -> ValueSet:
    """The smallest simple set this module finds that holds both."""
    exact = union(a, b)
    return loose_hull(a, b) if exact is None else exact


def loose_hull(a: ValueSet, b: ValueSet) -> ValueSet:
    """A simple set that holds both and more."""
    if isinstance(a, Prefix) and isinstance(b, Prefix):
        return starts_with(common_prefix(a.text, b.text))
    if isinstance(a, Suffix) and isinstance(b, Suffix):
        return ends_with(common_prefix(a.text[::-1], b.text[::-1])[::-1])
    if isinstance(a, TopicPattern) or isinstance(b, TopicPattern):
        around = topic_around(a, b)
        if around is not None:
            return around
    kinds = a.kinds | b.kinds
    if kinds is Kind.POINT and isinstance(a, (OneOf, Region)) and isinstance(b, (OneOf, Region)):
        return regions.box_hull(_as_region(a), _as_region(b))
    if kinds in _ORDERED and isinstance(a, (*_FINITE, *_RANGED)) and isinstance(b, (*_FINITE, *_RANGED)):
        return _hull_of_intervals(range_of(a), range_of(b))
    return EVERYTHING


def spread(values: ValueSet) -> ValueSet:
    """A finite set of one kind as the interval or box around it, of several kinds as everything; others as they are."""
    if not isinstance(values, _FINITE):
        return values
    if values.kinds is Kind.POINT:
        return _as_region(values)
    if values.kinds in _ORDERED:
        around = range_of(values)
        return _between_ends((around.low, False), (around.high, False))
    return EVERYTHING


def _as_region(a: _Finite | Region) -> Region:
    """A set of points as a region."""
    if isinstance(a, Region):
        return a
    return regions.box_around(value for value in elements(a) if isinstance(value, Point))


# ---------------------------------------------------------------- sets of any class


def _subset_of_any_class(a: ValueSet, b: ValueSet) -> bool:
    """`is_subset` by nothing but what every value set answers: what it contains, and whether it is open."""
    if isinstance(a, Nothing) or isinstance(b, Everything):
        return True
    if a.is_open or b.is_open:
        return a == b
    if isinstance(a, _FINITE):
        return _all_in(a, b)
    if isinstance(a, Complement):
        return isinstance(b, Complement) and is_subset(b.inner, a.inner)
    if isinstance(b, Complement):
        return is_disjoint(a, b.inner)
    if isinstance(a, Region) and isinstance(b, Region):
        return regions.inside(a, b)
    return a == b


def _disjoint_of_any_class(a: ValueSet, b: ValueSet) -> bool:
    """`is_disjoint` by nothing but what every value set answers. The last line must stay a no: see rule 1."""
    if isinstance(a, Nothing) or isinstance(b, Nothing):
        return True
    if isinstance(b, Complement):
        return not isinstance(a, Complement) and is_subset(a, b.inner)
    if isinstance(a, Complement):
        return is_subset(b, a.inner)
    if a.is_open or b.is_open:
        return False
    if isinstance(a, _FINITE):
        return _none_in(a, b)
    if isinstance(b, _FINITE):
        return _none_in(b, a)
    return isinstance(a, Region) and isinstance(b, Region) and regions.apart(a, b)


def _yes(a: ValueSet, b: ValueSet) -> bool:
    return True


def _no(a: ValueSet, b: ValueSet) -> bool:
    return False


# ---------------------------------------------------------------- complements


def _subset_of_complements(a: Complement, b: Complement) -> bool:
    return a == b if a.is_open or b.is_open else is_subset(b.inner, a.inner)


def _subset_of_complement(a: ValueSet, b: Complement) -> bool:
    return not b.is_open and is_disjoint(a, b.inner)


def _disjoint_from_complement(a: ValueSet, b: Complement) -> bool:
    return is_subset(a, b.inner)


# ---------------------------------------------------------------- finite sets


def _finite_subset(a: _Finite, b: _Finite) -> bool:
    return a.members <= b.members


def _finite_disjoint(a: _Finite, b: _Finite) -> bool:
    return a.members.isdisjoint(b.members)


def _all_in(a: _Finite, b: ValueSet) -> bool:
    """Whether `b`, which is not open, holds every value of `a`."""
    return all(map(b.contains, elements(a)))


def _all_in_complement(a: _Finite, b: Complement) -> bool:
    return not b.is_open and _all_in(a, b)


def _none_in(a: _Finite, b: ValueSet) -> bool:
    """Whether `b`, which is not open, holds no value of `a`."""
    return not any(map(b.contains, elements(a)))


# ---------------------------------------------------------------- intervals; texts have one as their hull

_End = tuple[Value | None, bool]
_ORDERED = (Kind.NUMBER, Kind.TIME, Kind.TEXT)


def range_of(a: ValueSet) -> Interval:
    """The narrowest interval around a set of one ordered kind."""
    if isinstance(a, Interval):
        return a
    if isinstance(a, OneOf):
        return Interval(a.kinds, a.values[0], a.values[-1])
    if isinstance(a, Places):
        return Interval(Kind.TEXT, a.names[0], a.names[-1])
    if isinstance(a, TopicPattern):
        return _range_of_topic(a.levels)
    if not isinstance(a, _TEXTS):
        raise TypeError(f"a {type(a).__name__} has no interval around it that is known here")
    return _range_of_prefix(_head(a))


def _range_of_prefix(head: str) -> Interval:
    if not head:
        return Interval(Kind.TEXT)
    after = _after_all_with_prefix(head)
    return Interval(Kind.TEXT, head, after, False, after is not None)


def _after_all_with_prefix(prefix: str) -> str | None:
    """The least text above all that start with `prefix`, or None when there is none."""
    while prefix:
        following = ord(prefix[-1]) + 1
        if following == FIRST_SURROGATE:
            following = AFTER_SURROGATES
        if following <= LAST_CODE_POINT:
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None


def _low_first(a: Interval) -> tuple[Kind, bool, Value | None, bool]:
    return (a.kind, a.low is not None, a.low, a.low_open)


def _within(inner: Interval, outer: Interval) -> bool:
    if inner.kind is not outer.kind:
        return False
    low, high = outer.low, outer.high
    if low is not None:
        if inner.low is None or inner.low < low:  # type: ignore[operator]
            return False
        if outer.low_open and not inner.low_open and inner.low == low:
            return False
    if high is not None:
        if inner.high is None or inner.high > high:  # type: ignore[operator]
            return False
        if outer.high_open and not inner.high_open and inner.high == high:
            return False
    return True


def _range_within(a: ValueSet, b: ValueSet) -> bool:
    return _within(range_of(a), range_of(b))


def _ranges_disjoint(a: ValueSet, b: ValueSet) -> bool:
    return _ranges_apart(range_of(a), range_of(b))


def _tighter_low(a: Interval, b: Interval) -> _End:
    if a.low is None or b.low is None:
        return (b.low, b.low_open) if a.low is None else (a.low, a.low_open)
    return max((a.low, a.low_open), (b.low, b.low_open))


def _tighter_high(a: Interval, b: Interval) -> _End:
    if a.high is None or b.high is None:
        return (b.high, b.high_open) if a.high is None else (a.high, a.high_open)
    high, closed = min((a.high, not a.high_open), (b.high, not b.high_open))
    return (high, not closed)


def _between_ends(low: _End, high: _End) -> ValueSet:
    return interval(low[0], high[0], low_open=low[1], high_open=high[1])


def _ranges_apart(a: Interval, b: Interval, *, touching: bool = False) -> bool:
    """Whether there is no value in both; with `touching`, whether there is room between them as well."""
    return a.kind is not b.kind or _ends_before(a, b, touching) or _ends_before(b, a, touching)


def _ends_before(a: Interval, b: Interval, touching: bool) -> bool:
    if a.high is None or b.low is None:
        return False
    if a.high == b.low:
        return (a.high_open and b.low_open) if touching else (a.high_open or b.low_open)
    return a.high < b.low  # type: ignore[operator]


def _hull_of_intervals(a: Interval, b: Interval) -> ValueSet:
    low: _End = (None, False)
    high: _End = (None, False)
    if a.low is not None and b.low is not None:
        low = min((a.low, a.low_open), (b.low, b.low_open))
    if a.high is not None and b.high is not None:
        end, closed = max((a.high, not a.high_open), (b.high, not b.high_open))
        high = (end, not closed)
    if low[0] is None and high[0] is None:
        return Interval(a.kind)
    return _between_ends(low, high)


def _interval_with_points(a: Interval, b: _Finite) -> ValueSet | None:
    """An interval together with points that lie in it or close one of its open ends."""
    low, high = (a.low, a.low_open), (a.high, a.high_open)
    for value in elements(b):
        if a.low is not None and value == a.low and type(value) is not bool:
            low = (a.low, False)
        elif a.high is not None and value == a.high and type(value) is not bool:
            high = (a.high, False)
        elif not a.contains(value):
            return None
    return _between_ends(low, high) if (low[0], high[0]) != (None, None) else a


# ---------------------------------------------------------------- texts


def _head(a: _TextSet) -> str:
    """What every text of the set starts with."""
    return a.text if isinstance(a, Prefix) else _literal_start(a.segments[0]) if isinstance(a, Like) else ""


def _tail(a: _TextSet) -> str:
    """What every text of the set ends with."""
    return (
        a.text if isinstance(a, Suffix) else _literal_start(a.segments[-1][::-1])[::-1] if isinstance(a, Like) else ""
    )


def _literal_start(segment: tuple[str | None, ...]) -> str:
    characters: list[str] = []
    for character in segment:
        if character is None:
            break
        characters.append(character)
    return "".join(characters)


def _text_subset(a: _TextSet, b: _TextSet) -> bool:
    return b.contains(_read_as_text(a))


def _texts_disjoint(a: _TextSet, b: _TextSet) -> bool:
    return _tails_apart(_tail(a), _tail(b)) or _ranges_disjoint(a, b)


def _tails_apart(a: str, b: str) -> bool:
    return not (a.endswith(b) or b.endswith(a))


def _read_as_text(a: _TextSet) -> str:
    """A pattern as a text, with symbols for its wildcards. A text set that holds this text holds all that the pattern
    matches, since the symbol of `%` meets only a `%`, and that of `_` only a `%` or a `_`."""
    match a:
        case Prefix(text):
            return text + RUN_SYMBOL
        case Suffix(text):
            return RUN_SYMBOL + text
        case Substring(text):
            return RUN_SYMBOL + text + RUN_SYMBOL
    return RUN_SYMBOL.join("".join(ONE_SYMBOL if c is None else c for c in segment) for segment in a.segments)


# ---------------------------------------------------------------- topic patterns


def _like_in_topic(a: Like, b: TopicPattern) -> bool:
    """A LIKE pattern speaks of characters and its wildcards take slashes, too: only what it starts with tells."""
    head = _head(a)
    return bool(head) and topic_patterns.holds_prefix(b.levels, head)


def _range_in_topic(a: Interval, b: TopicPattern) -> bool:
    levels, is_open = b.levels
    if a.kind is not Kind.TEXT or not is_open:
        return False
    if b.levels.begins_wild:
        return len(levels) == 1 and _ranges_apart(a, _range_of_prefix(SPECIAL))
    head = literal_levels(b.levels)
    return len(head) == len(levels) and _within(a, _range_of_prefix(SEPARATOR.join((*head, ""))))


def _topic_apart_from_texts(a: TopicPattern, b: Suffix | Substring | Like) -> bool:
    return _tails_apart(tail_of_topic(a.levels), _tail(b)) or _ranges_disjoint(a, b)


def _range_of_topic(levels: Levels) -> Interval:
    head = literal_levels(levels)
    if len(head) < len(levels.levels):
        return _range_of_prefix(SEPARATOR.join((*head, "")) if head else "")
    whole = SEPARATOR.join(head)  # what precedes a #, which matches by itself
    around = _range_of_prefix(whole + SEPARATOR)
    return Interval(Kind.TEXT, whole or None, around.high, False, around.high_open)


def common_prefix(a: str, b: str) -> str:
    """What both texts start with."""
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return a[:same]


# ---------------------------------------------------------------- which function decides


def _table(*rows: tuple[tuple[type, ...], tuple[type, ...], _Relation]) -> _Table:
    """A function for each pair of classes; no pair may be in two rows."""
    table: _Table = {}
    for classes_a, classes_b, relation in rows:
        for pair in product(classes_a, classes_b):
            assert pair not in table, pair
            table[pair] = relation
    return table


_SUBSET = _table(
    ((Nothing,), _ALL, _yes),
    ((Everything, Complement, *_FINITE, *_PLAIN), (Everything,), _yes),
    ((Everything, Complement, *_PLAIN), (Nothing,), _no),
    ((Everything,), (*_FINITE, *_PLAIN), _no),
    ((Complement,), (*_FINITE, *_PLAIN), _no),
    ((Complement,), (Complement,), _subset_of_complements),
    ((Everything, *_PLAIN), (Complement,), _subset_of_complement),
    (_FINITE, (Complement,), _all_in_complement),
    (_FINITE, _FINITE, _finite_subset),
    (_FINITE, (Nothing, *_PLAIN), _all_in),
    (_PLAIN, _FINITE, _no),
    ((Interval,), (Interval,), _within),
    ((Interval,), (Prefix,), _range_within),
    ((Interval,), (Suffix, Substring, Like), _no),
    ((*_TEXTS, TopicPattern), (Interval, Prefix), _range_within),
    (_TEXTS, (Suffix, Substring, Like), _text_subset),
    ((TopicPattern,), (TopicPattern,), topic_within),
    ((TopicPattern,), (Suffix, Substring, Like), topic_in_texts),
    ((Interval,), (TopicPattern,), _range_in_topic),
    ((Prefix,), (TopicPattern,), prefix_in_topic),
    ((Like,), (TopicPattern,), _like_in_topic),
    ((Suffix, Substring), (TopicPattern,), _no),
    (_RANGED, _REGIONS, _no),
    (_REGIONS, _RANGED, _no),
    (_REGIONS, _REGIONS, regions.inside),
)
"""For each pair of classes, what decides whether a set of the first lies in one of the second."""

_DISJOINT = _table(
    ((Nothing,), _ALL, _yes),
    ((Everything, Complement, *_FINITE, *_PLAIN), (Nothing,), _yes),
    ((Everything,), (Everything, Complement, *_FINITE, *_PLAIN), _no),
    ((Complement, *_FINITE, *_PLAIN), (Everything,), _no),
    ((Complement,), (Complement,), _no),
    ((*_FINITE, *_PLAIN), (Complement,), _disjoint_from_complement),
    ((Complement,), (*_FINITE, *_PLAIN), lambda a, b: _disjoint_from_complement(b, a)),
    (_FINITE, _FINITE, _finite_disjoint),
    (_FINITE, _PLAIN, _none_in),
    (_PLAIN, _FINITE, lambda a, b: _none_in(b, a)),
    ((Interval,), (Interval,), _ranges_apart),
    ((Interval,), (*_TEXTS, TopicPattern), _ranges_disjoint),
    ((*_TEXTS, TopicPattern), (Interval,), _ranges_disjoint),
    (_TEXTS, _TEXTS, _texts_disjoint),
    ((TopicPattern,), (TopicPattern,), topics_apart),
    ((TopicPattern,), (Prefix,), topic_apart_from_prefix),
    ((Prefix,), (TopicPattern,), lambda a, b: topic_apart_from_prefix(b, a)),
    ((TopicPattern,), (Suffix, Substring, Like), _topic_apart_from_texts),
    ((Suffix, Substring, Like), (TopicPattern,), lambda a, b: _topic_apart_from_texts(b, a)),
    (_RANGED, _REGIONS, _yes),  # no point is a number, a time or a text
    (_REGIONS, _RANGED, _yes),
    (_REGIONS, _REGIONS, regions.apart),
)
"""For each pair of classes, what decides whether two sets have no value in common."""
