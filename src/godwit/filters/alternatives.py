"""Alternatives: the parts of an OR, reduced where the filter stays the same.

*Theory.* Two things make alternatives fewer. One covers another, which then says nothing new. Or several differ in
one literal alone, and one literal says what theirs say together: `Some(A) or Some(B)` is `Some` of A and B joined.
Not so with `Only`: an event with one value in A and one in B meets neither `Only(A)` nor `Only(B)`, but would meet
`Only` of the two joined. What does hold: `Some(A) or Only(B)` says "present" when A and B together are everything,
and "present or missing" is always so.

Alternatives that differ in one literal are found by hashing what is left without it; those that could cover another,
by the values and attributes they ask for. So thousands of alternatives take no more than a few passes over them; and
when the effort is used up, what is left stays as it is.

*Rules.*
1. What the alternatives match together never changes.
2. The same alternatives in the same order give the same result, in every process.
"""

from collections.abc import Iterable, Iterator

from godwit.filters.algebra import access_keys, cost_of_unions, covers, keys_of, satisfiable
from godwit.filters.effort import Effort
from godwit.filters.filters import TRUE, And, Filter, Literal, Missing, Only, Or, Some, all_of
from godwit.filters.relations import intersection, intersections, is_subset, union, unions
from godwit.filters.sets import EVERYTHING, NOTHING, ValueSet, complement

PASSES_MAX = 8
PARTS_MAX = 32
ALL_PAIRS_MAX = 64


def alternatives_of(filter: Filter) -> tuple[Filter, ...]:
    """The parts of an OR; of anything else, itself."""
    return filter.parts if isinstance(filter, Or) else (filter,)


def parts_of(filter: Filter) -> tuple[Filter, ...]:
    """The parts of an AND; of anything else, itself."""
    return filter.parts if isinstance(filter, And) else (filter,)


def literals_of(filter: Filter) -> tuple[Literal, ...]:
    """The literals among the parts of an AND; of a literal, itself."""
    return tuple(part for part in parts_of(filter) if not isinstance(part, And | Or))


def joined(alternatives: Iterable[Filter], effort: Effort | None = None) -> list[Filter]:
    """Alternatives that together match exactly what `alternatives` match: few, though not always the fewest."""
    effort = Effort() if effort is None else effort
    flat = dict.fromkeys(part for alternative in alternatives for part in alternatives_of(alternative))
    effort.left -= len(flat)
    kept = [alternative for alternative in flat if effort.is_over or satisfiable(literals_of(alternative), effort)]
    for _ in range(PASSES_MAX):
        before = len(kept)
        kept = list(dict.fromkeys(_joined_by_one_literal(kept, effort)))
        if len(kept) == before or effort.is_over:
            break
    return kept if effort.is_over else _without_covered(kept, effort)


# ---------------------------------------------------------------- alternatives that differ in one literal


def _joined_by_one_literal(alternatives: list[Filter], effort: Effort) -> Iterator[Filter]:
    groups: dict[tuple[str, frozenset[Filter]], list[tuple[int, Literal]]] = {}
    for number, alternative in enumerate(alternatives):
        parts = frozenset(parts_of(alternative))
        if len(parts) <= PARTS_MAX and effort.spend(4 + len(parts) ** 2 // 2):
            for literal in literals_of(alternative):
                groups.setdefault((literal.attribute, parts - {literal}), []).append((number, literal))
    instead: dict[int, list[Filter]] = {}
    for members in groups.values():
        if effort.is_over:
            break
        members = [(number, literal) for number, literal in members if number not in instead]
        fewer = joined_literals([literal for _, literal in members], effort)
        if len(fewer) < len(members):
            first, replaced = members[0]
            old = parts_of(alternatives[first])
            instead.update((number, []) for number, _ in members)
            instead[first] = [all_of(*(new if part is replaced else part for part in old)) for new in fewer]
    for number, alternative in enumerate(alternatives):
        yield from instead.get(number, (alternative,))


def joined_literals(literals: list[Literal], effort: Effort | None = None) -> list[Filter]:
    """Literals on one attribute whose OR is that of `literals`."""
    effort = Effort() if effort is None else effort
    sets_of_somes = [literal.values for literal in literals if isinstance(literal, Some)]
    if len(literals) < 2 or not effort.spend(4 + 2 * len(literals) + cost_of_unions(sets_of_somes)):
        return list(literals)
    attribute = literals[0].attribute
    somes = unions(sets_of_somes)
    onlys = _largest([literal.values for literal in literals if isinstance(literal, Only)], effort)
    missing: list[Filter] = [Missing(attribute)] if any(isinstance(literal, Missing) for literal in literals) else []
    pairs = len(somes) * len(onlys)
    if pairs <= ALL_PAIRS_MAX**2 and effort.spend(2 * _pair_cost(somes, onlys)):
        onlys = [only for only in onlys if not any(is_subset(only, some) for some in somes)]
        if any(union(some, only) == EVERYTHING for some in somes for only in onlys):
            somes, onlys = [EVERYTHING], []
    if missing and (EVERYTHING in somes or EVERYTHING in onlys):
        return [TRUE]
    return [*(Some(attribute, some) for some in somes), *(Only(attribute, only) for only in onlys), *missing]


def _pair_cost(a: list[ValueSet], b: list[ValueSet]) -> int:
    """The steps of comparing each set with each."""
    return len(b) * sum(values.weight for values in a) + len(a) * sum(values.weight for values in b)


def _largest(sets: list[ValueSet], effort: Effort) -> list[ValueSet]:
    """The sets that lie in no other of `sets`; where there are very many, all of them."""
    if len(sets) > ALL_PAIRS_MAX or not effort.spend(_pair_cost(sets, sets)):
        return sets
    largest: list[ValueSet] = []
    for values in sets:
        if not any(is_subset(values, other) for other in largest):
            largest = [other for other in largest if not is_subset(other, values)] + [values]
    return largest


# ---------------------------------------------------------------- alternatives that others cover


def _without_covered(alternatives: list[Filter], effort: Effort) -> list[Filter]:
    """The alternatives that no other covers, as far as the effort finds them; of equals one stays."""
    index: dict[object, list[int]] | None = None
    if len(alternatives) > ALL_PAIRS_MAX:
        index = {}
        for number, alternative in enumerate(alternatives):
            for key in access_keys(alternative):
                index.setdefault(key, []).append(number)
    covered: set[int] = set()
    for number, alternative in enumerate(alternatives):
        for other in range(len(alternatives)) if index is None else _candidates(alternative, index):
            if other == number or other in covered:
                continue
            if effort.is_over:
                break
            if covers(alternatives[other], alternative, effort):
                covered.add(number)
                break
    return [alternative for number, alternative in enumerate(alternatives) if number not in covered]


def _candidates(alternative: Filter, index: dict[object, list[int]]) -> Iterator[int]:
    """Alternatives that may cover this one."""
    for key in keys_of(literals_of(alternative)):
        yield from index.get(key, ())


# ---------------------------------------------------------------- literals of an AND


def tightened(literals: Iterable[Literal], effort: Effort | None = None) -> list[Literal] | None:
    """Literals whose AND is that of `literals`, without those that others imply; None when no event meets them all."""
    effort = Effort() if effort is None else effort
    of_attribute: dict[str, list[Literal]] = {}
    for literal in literals:
        of_attribute.setdefault(literal.attribute, []).append(literal)
    kept: list[Literal] = []
    for attribute, group in of_attribute.items():
        cost = 2 * len(group) * sum(literal.weight for literal in group)
        if len(group) > PARTS_MAX or not effort.spend(cost):
            kept += group
            continue
        tight = _tightened_on(attribute, group, effort)
        if tight is None:
            return None
        kept += tight
    return kept


def _tightened_on(attribute: str, literals: list[Literal], effort: Effort) -> list[Literal] | None:
    missing: list[Literal] = [literal for literal in literals if isinstance(literal, Missing)]
    if missing:
        return missing[:1] if len(missing) == len(literals) else None
    onlys = intersections(literal.values for literal in literals if isinstance(literal, Only))
    somes = [_within_all(literal.values, onlys) for literal in literals if isinstance(literal, Some)]
    if NOTHING in onlys or NOTHING in somes:
        return None
    if onlys == [EVERYTHING]:
        onlys, somes = [], [*somes, EVERYTHING]
    somes = [some for some in _smallest(somes, effort) if not any(is_subset(only, some) for only in onlys)]
    return [*(Only(attribute, only) for only in onlys), *(Some(attribute, some) for some in somes)]


def _within_all(values: ValueSet, limits: list[ValueSet]) -> ValueSet:
    for limit in limits:
        common = intersection(values, limit)
        values = values if common is None else common
    return values


def _smallest(sets: list[ValueSet], effort: Effort) -> list[ValueSet]:
    """The sets that hold no other of `sets`."""
    return [complement(values) for values in _largest([complement(values) for values in sets], effort)]
