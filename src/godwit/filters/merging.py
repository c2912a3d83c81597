"""Merging: one filter for several (`merge`, `merge_all`), a simpler one (`simplify`), a smaller one (`weaken`).

*Theory.* A merge is perfect when it matches exactly what the two filters match: one covers the other, or they differ
in one literal whose sets join exactly (`alternatives.py`). Otherwise the hull of each pair of literals that differ
lets in something besides. How much is estimated from the shares that the two filters fill of it (`measures.py`), as
if attributes were independent: a share of the hull for a filter is the product of those of its literals, and what
neither fills is the *excess*. A literal that only one of them has is given up, and its filter then counts as filling
nothing. `Only` literals are measured on pairs of values, as if each event had two: so even an exact join of their
sets has an excess.

Merging many merges within a bucket of the same attributes and quantifiers, each with the few before it in the order
of their bounds. What a merged filter has let in already counts as excess when it is merged again.

*Rules.*
1. A merged or weakened filter matches whatever the filters it stands for match.
2. With `excess_max=0`, `merge`, `merge_all` and `simplify` change nothing about which events match. What a *negation*
   matches may change, so negate first: NOT (x IN ()) asks for an x, and NOT FALSE for nothing.
3. The same filters in the same order give the same result, in every process.
4. When the effort is used up nothing more is merged: filters stay as they are, and where one has to become smaller it
   becomes `TRUE`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from godwit.filters.algebra import compatible, conjunction_implies, covers
from godwit.filters.alternatives import alternatives_of, joined, literals_of, parts_of, tightened
from godwit.filters.effort import Effort
from godwit.filters.filters import (
    FALSE,
    LITERALS_MAX,
    TRUE,
    And,
    Filter,
    Literal,
    Missing,
    Only,
    Or,
    Some,
    all_of,
    any_of,
)
from godwit.filters.measures import looseness, shares
from godwit.filters.regions import Region
from godwit.filters.relations import loose_hull, union
from godwit.filters.sets import Interval, OneOf, Prefix, Substring, Suffix, TopicPattern, ValueSet
from godwit.filters.values import Value

NEIGHBOURS_MAX = 8
MERGE_ALL_EFFORT_MAX = 200_000  # the steps of `merge_all`, `simplify` and `weaken`, where nobody says another number
HULL_STEPS = 4  # for each literal
ROUNDS_MAX = 4
LITERALS_LEFT_STEPS = (3, 2, 1)


@dataclass(frozen=True, slots=True)
class Merged:
    """One filter for two. `excess` estimates which share of what it matches neither of them does; 0 when `perfect`."""

    filter: Filter
    perfect: bool
    excess: float


def merge(f: Filter, g: Filter, *, excess_max: float = 0.0, effort: Effort | None = None) -> Filter | None:
    """One filter for both, or None when there is none better than their OR."""
    found = merged(f, g, excess_max=excess_max, effort=effort)
    return None if found is None else found.filter


def merged(f: Filter, g: Filter, *, excess_max: float = 0.0, effort: Effort | None = None) -> Merged | None:
    """One filter for both with the excess it costs, or None when none within `excess_max` is better than their OR.

    None, too, when the effort is used up before it is found.
    """
    effort = Effort() if effort is None else effort
    for one, other in ((f, g), (g, f)):
        if covers(one, other, effort):
            return Merged(one, perfect=True, excess=0.0)
    if effort.is_over:
        return None
    both = dict.fromkeys((*alternatives_of(f), *alternatives_of(g)))
    fewer = joined(both, effort)
    if len(fewer) < len(both):
        return Merged(any_of(*fewer), perfect=True, excess=0.0)
    if excess_max <= 0 or effort.is_over:
        return None
    if len(fewer) == 2:
        return _hull(_unmerged(fewer[0]), _unmerged(fewer[1]), effort, excess_max)
    hulls = _merged_neighbours(fewer, excess_max, effort)
    if len(hulls) == len(fewer):
        return None
    return Merged(any_of(*(one.filter for one in hulls)), perfect=False, excess=max(one.excess for one in hulls))


def merge_all(
    filters: Iterable[Filter], *, excess_max: float = 0.0, size_max: int = LITERALS_MAX, effort: Effort | None = None
) -> Filter:
    """The OR of `filters` as one: merged within `excess_max`, weakened to at most `size_max` literals."""
    effort = Effort(MERGE_ALL_EFFORT_MAX) if effort is None else effort
    alternatives = joined(filters, effort)
    if excess_max > 0:
        alternatives = joined((one.filter for one in _merged_neighbours(alternatives, excess_max, effort)), effort)
    return _any_within(alternatives, size_max, effort)


# ---------------------------------------------------------------- hulls


def _unmerged(filter: Filter) -> Merged:
    return Merged(filter, perfect=True, excess=0.0)


def _hull(f: Merged, g: Merged, effort: Effort, excess_max: float = 1.0) -> Merged | None:
    """The AND of what both ask for: the parts they share, and the hull of each two literals that correspond.

    It takes as long as both are large; only whether it is begun depends on the effort.
    """
    effort.left -= HULL_STEPS * (f.filter.weight + g.filter.weight)
    shared = dict.fromkeys(parts_of(f.filter)).keys() & dict.fromkeys(parts_of(g.filter)).keys()
    of_g_alone: dict[str, list[Filter]] = {}
    for part in parts_of(g.filter):
        if part not in shared:
            of_g_alone.setdefault(_kind_of_part(part), []).append(part)
    kept: list[Filter] = []
    share_f, share_g, share_both = 1 - f.excess, 1 - g.excess, 1.0
    for part in parts_of(f.filter):
        if part in shared:
            kept.append(part)
            continue
        counterparts = of_g_alone.get(_kind_of_part(part))
        if isinstance(part, Some | Only) and counterparts:
            counterpart = counterparts.pop(0)
            assert isinstance(counterpart, Some | Only)
            around, of_f, of_g, of_both = _around(part.values, counterpart.values)
            values_at_once = 2 if isinstance(part, Only) else 1
            share_f *= of_f**values_at_once
            share_g *= of_g**values_at_once
            share_both *= of_both**values_at_once
            kept.append(type(part)(part.attribute, around))
        else:
            share_f = share_both = 0.0
        if share_f + share_g < 1 - excess_max:
            return None  # they only shrink
    if any(of_g_alone.values()):
        share_g = share_both = 0.0
    excess = min(1.0, max(0.0, 1 - (share_f + share_g - share_both)))
    return Merged(all_of(*kept), perfect=False, excess=excess) if excess <= excess_max else None


def _around(a: ValueSet, b: ValueSet) -> tuple[ValueSet, float, float, float]:
    """The hull of two sets, and the shares that they and their common part take of it."""
    exact = union(a, b)
    around = loose_hull(a, b) if exact is None else exact
    return around, *shares(a, b, around, exact=exact is not None)


def _merged_neighbours(alternatives: list[Filter], excess_max: float, effort: Effort) -> list[Merged]:
    """Each alternative merged into the one, of the few before it in its bucket, where that costs least."""
    merged: list[Merged] = []
    for bucket in _buckets(map(_unmerged, alternatives)):
        kept: list[Merged] = []
        for alternative in bucket:
            start = max(0, len(kept) - NEIGHBOURS_MAX)
            tried = (
                (_hull(kept[at], alternative, effort, excess_max), at)
                for at in range(start, len(kept))
                if not effort.is_over
            )
            found = [(hull.excess, at, hull) for hull, at in tried if hull is not None]
            if found:
                _, at, hull = min(found, key=lambda one: one[:2])
                kept[at] = hull
            else:
                kept.append(alternative)
        merged += kept
    return merged


def _buckets(alternatives: Iterable[Merged]) -> list[list[Merged]]:
    """Alternatives whose literals correspond, each bucket in an order in which what lies close comes close."""
    buckets: dict[tuple[str, ...], list[Merged]] = {}
    for alternative in alternatives:
        signature = tuple(sorted(map(_kind_of_part, parts_of(alternative.filter))))
        buckets.setdefault(signature, []).append(alternative)
    return [sorted(bucket, key=_position) for bucket in buckets.values()]


def _kind_of_part(part: Filter) -> str:
    return type(part).__name__ if isinstance(part, And | Or) else f"{type(part).__name__} {part.attribute}"


def _position(alternative: Merged) -> list[tuple[float, str]]:
    literals = (part for part in parts_of(alternative.filter) if isinstance(part, Some | Only))
    return [_start(literal.values) for literal in sorted(literals, key=_kind_of_part)]


def _start(values: ValueSet) -> tuple[float, str]:
    first: Value | None = None
    match values:
        case Interval(low=low, high=high):
            first = high if low is None else low
        case OneOf(values=members):
            first = members[0]
        case Prefix(text=text) | Suffix(text=text) | Substring(text=text):
            first = text
        case TopicPattern(pattern=pattern):
            first = pattern
        case Region():
            first = values.bounds[0]
    match first:
        case str():
            return (0.0, first)
        case datetime():
            return (first.timestamp(), "")
        case int() | float():
            return (float(first), "")
    return (0.0, "")


# ---------------------------------------------------------------- simpler


def simplify(filter: Filter, effort: Effort | None = None) -> Filter:
    """The same filter with less to it: flat, without parts that others imply or that never match, literals joined.

    Simplifying again changes nothing, unless the filter was made to take very many rounds or steps.
    """
    effort = Effort(MERGE_ALL_EFFORT_MAX) if effort is None else effort
    for _ in range(ROUNDS_MAX):
        before = filter
        filter = _simplified(before, effort)
        if filter == before or effort.is_over:
            break
    return filter


def _simplified(filter: Filter, effort: Effort) -> Filter:
    if not effort.spend(1):
        return filter
    match filter:
        case Or(parts=parts):
            return any_of(*joined([_simplified(part, effort) for part in parts], effort))
        case And(parts=parts):
            return _simplified_and(parts_of(all_of(*(_simplified(part, effort) for part in parts))), effort)
    tight = tightened([filter], effort)
    return FALSE if tight is None else all_of(*tight)


def _simplified_and(parts: Iterable[Filter], effort: Effort) -> Filter:
    literals: list[Literal] = []
    choices: list[Or] = []
    for part in parts:
        if isinstance(part, Or):
            choices.append(part)
        elif not isinstance(part, And):
            literals.append(part)
    tight = tightened(literals, effort)
    if tight is None:
        return FALSE
    choices_left = [
        _possible(choice, tight, effort)
        for choice in choices
        if effort.is_over or not conjunction_implies(tuple(tight), choice, effort)
    ]
    return FALSE if FALSE in choices_left else all_of(*tight, *choices_left)


def _possible(choice: Or, given: list[Literal], effort: Effort) -> Filter:
    """The alternatives that an event which meets `given` can meet."""
    return any_of(*(one for one in choice.parts if compatible(given, literals_of(one), effort)))


# ---------------------------------------------------------------- smaller


def weaken(filter: Filter, size_max: int, effort: Effort | None = None) -> Filter:
    """A filter of at most `size_max` literals that matches at least what `filter` matches, and little more."""
    assert size_max >= 0
    effort = Effort(MERGE_ALL_EFFORT_MAX) if effort is None else effort
    return filter if filter.size <= size_max else _within(simplify(filter, effort), size_max, effort)


def _within(filter: Filter, size_max: int, effort: Effort) -> Filter:
    if filter.size <= size_max:
        return filter
    if isinstance(filter, Or):
        return _any_within(list(filter.parts), size_max, effort)
    kept: dict[int, Filter] = {}
    left = size_max
    parts = parts_of(filter)
    for number in sorted(range(len(parts)), key=lambda number: _given_up_last(parts[number])):
        weaker = _within(parts[number], left, effort) if left else TRUE
        kept[number] = weaker
        left -= weaker.size
    return all_of(*(kept[number] for number in range(len(parts))))


def _given_up_last(part: Filter) -> tuple[int, ...]:
    """The order in which the parts of an AND are kept: literals first, the strict before the loose."""
    if isinstance(part, And | Or):
        return (1, part.size)
    return (0, 3) if isinstance(part, Missing) else (0, *looseness(part.values))


def _any_within(alternatives: list[Filter], size_max: int, effort: Effort) -> Filter:
    """The OR of `alternatives`, with hulls instead of neighbours until it is small enough, then of shorter ones too."""
    for literals_max in (None, *LITERALS_LEFT_STEPS):
        if sum(alternative.size for alternative in alternatives) <= size_max:
            return any_of(*alternatives)
        if effort.is_over:
            return TRUE
        if literals_max is not None:
            alternatives = joined([_within(alternative, literals_max, effort) for alternative in alternatives], effort)
        if size_max > 0 and sum(alternative.size for alternative in alternatives) > size_max:
            alternatives = _closest_merged(alternatives, size_max, effort)
    return any_of(*alternatives) if sum(alternative.size for alternative in alternatives) <= size_max else TRUE


def _closest_merged(alternatives: list[Filter], size_max: int, effort: Effort) -> list[Filter]:
    """Pass by pass, the two neighbours that cost least become one, each at most once a pass, until enough have."""
    rest = [_unmerged(alternative) for alternative in alternatives]
    size = sum(alternative.size for alternative in alternatives)
    while size > size_max and not effort.is_over:
        in_order: list[Merged] = []
        pairs: list[tuple[float, int, Merged]] = []
        for bucket in _buckets(rest):
            for at, (here, there) in enumerate(pairwise(bucket), start=len(in_order)):
                if effort.left < 0:
                    break
                hull = _hull(here, there, effort)
                assert hull is not None, "any excess will do"
                pairs.append((hull.excess, at, hull))
            in_order += bucket
        if not pairs:
            break
        instead: dict[int, list[Merged]] = {}
        for _, at, hull in sorted(pairs, key=lambda pair: pair[:2]):
            if size > size_max and at not in instead and at + 1 not in instead:
                instead[at], instead[at + 1] = [hull], []
                size -= in_order[at].filter.size + in_order[at + 1].filter.size - hull.filter.size
        rest = [one for at, old in enumerate(in_order) for one in instead.get(at, [old])]
    return joined((one.filter for one in rest), effort)
