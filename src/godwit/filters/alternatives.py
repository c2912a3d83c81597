"""Alternatives: the parts of an OR, made fewer where nothing is lost and nothing let in besides.

*Theory.* Two things make alternatives fewer. One covers another, which then says nothing new. Or several differ in
one literal alone, and one literal says what theirs say together: `Some(A) or Some(B)` is `Some` of A and B joined.
Not so with `Only`: an event with one value in A and one in B meets neither `Only(A)` nor `Only(B)`, but would meet
`Only` of the two joined. What does hold: `Some(A) or Only(B)` says "present" when A and B together are everything,
and "present or missing" is always so.

Alternatives that differ in one literal are found by hashing what is left without it; those that could cover another,
by the values and attributes they ask for. So thousands of alternatives take no more than a few passes over them.

*Rules.*
1. What the alternatives match together never changes.
2. The same alternatives in the same order give the same result, in every process.
"""

import math
from collections.abc import Iterable, Iterator

from godwit.filters.algebra import CONJUNCTIONS_MAX, covers, satisfiable
from godwit.filters.filters import TRUE, And, Filter, Literal, Missing, Only, Or, Some, all_of
from godwit.filters.relations import intersection, intersections, is_subset, union, unions
from godwit.filters.sets import EVERYTHING, NOTHING, OneOf, Places, ValueSet, complement
from godwit.filters.values import identity

PASSES_MAX = 8
PARTS_MAX = 32
ALL_PAIRS_MAX = 64
COVERING_TRIES_MAX = 50_000
ACCESS_VALUES_MAX = 64


def alternatives_of(filter: Filter) -> tuple[Filter, ...]:
    """The parts of an OR; of anything else, itself."""
    return filter.parts if isinstance(filter, Or) else (filter,)


def parts_of(filter: Filter) -> tuple[Filter, ...]:
    """The parts of an AND; of anything else, itself."""
    return filter.parts if isinstance(filter, And) else (filter,)


def literals_of(filter: Filter) -> tuple[Literal, ...]:
    """The literals among the parts of an AND; of a literal, itself."""
    return tuple(part for part in parts_of(filter) if not isinstance(part, And | Or))


def joined(alternatives: Iterable[Filter]) -> list[Filter]:
    """Alternatives that together match exactly what `alternatives` match: few, though not always the fewest."""
    flat = (part for alternative in alternatives for part in alternatives_of(alternative))
    kept = [alternative for alternative in dict.fromkeys(flat) if satisfiable(literals_of(alternative))]
    for _ in range(PASSES_MAX):
        before = len(kept)
        kept = list(dict.fromkeys(_joined_by_one_literal(kept)))
        if len(kept) == before:
            break
    return _without_covered(kept)


# ---------------------------------------------------------------- alternatives that differ in one literal


def _joined_by_one_literal(alternatives: list[Filter]) -> Iterator[Filter]:
    groups: dict[tuple[str, frozenset[Filter]], list[tuple[int, Literal]]] = {}
    for number, alternative in enumerate(alternatives):
        parts = frozenset(parts_of(alternative))
        if len(parts) <= PARTS_MAX:
            for literal in literals_of(alternative):
                groups.setdefault((literal.attribute, parts - {literal}), []).append((number, literal))
    instead: dict[int, list[Filter]] = {}
    for members in groups.values():
        members = [(number, literal) for number, literal in members if number not in instead]
        fewer = joined_literals([literal for _, literal in members])
        if len(fewer) < len(members):
            first, replaced = members[0]
            old = parts_of(alternatives[first])
            instead.update((number, []) for number, _ in members)
            instead[first] = [all_of(*(new if part is replaced else part for part in old)) for new in fewer]
    for number, alternative in enumerate(alternatives):
        yield from instead.get(number, (alternative,))


def joined_literals(literals: list[Literal]) -> list[Filter]:
    """Literals on one attribute whose OR is that of `literals`."""
    if len(literals) < 2:
        return list(literals)
    attribute = literals[0].attribute
    somes = unions(literal.values for literal in literals if isinstance(literal, Some))
    onlys = _largest([literal.values for literal in literals if isinstance(literal, Only)])
    missing: list[Filter] = [Missing(attribute)] if any(isinstance(literal, Missing) for literal in literals) else []
    if len(somes) * len(onlys) <= ALL_PAIRS_MAX**2:
        onlys = [only for only in onlys if not any(is_subset(only, some) for some in somes)]
        if any(union(some, only) == EVERYTHING for some in somes for only in onlys):
            somes, onlys = [EVERYTHING], []
    if missing and (EVERYTHING in somes or EVERYTHING in onlys):
        return [TRUE]
    return [*(Some(attribute, some) for some in somes), *(Only(attribute, only) for only in onlys), *missing]


def _largest(sets: list[ValueSet]) -> list[ValueSet]:
    """The sets that lie in no other of `sets`; where there are very many, all of them."""
    if len(sets) > ALL_PAIRS_MAX:
        return sets
    largest: list[ValueSet] = []
    for values in sets:
        if not any(is_subset(values, other) for other in largest):
            largest = [other for other in largest if not is_subset(other, values)] + [values]
    return largest


# ---------------------------------------------------------------- alternatives that others cover


def _without_covered(alternatives: list[Filter]) -> list[Filter]:
    """The alternatives that no other covers, as far as a bounded number of tries finds them; of equals one stays."""
    index = _index_of_coverers(alternatives) if len(alternatives) > ALL_PAIRS_MAX else None
    covered: set[int] = set()
    tries = 0
    for number, alternative in enumerate(alternatives):
        cost = _conjunctions_in(alternative)
        for other in range(len(alternatives)) if index is None else _candidates(alternative, index):
            if other == number or other in covered:
                continue
            tries += cost
            if tries > COVERING_TRIES_MAX:
                break
            if covers(alternatives[other], alternative):
                covered.add(number)
                break
    return [alternative for number, alternative in enumerate(alternatives) if number not in covered]


def _conjunctions_in(alternative: Filter) -> int:
    """Into how many conjunctions `covers` will take it apart, at most."""
    nested = math.prod(len(part.parts) for part in parts_of(alternative) if isinstance(part, Or))
    return min(nested, CONJUNCTIONS_MAX)


_Key = tuple[str, object]
_ANY = "any value"


def _index_of_coverers(alternatives: list[Filter]) -> dict[_Key | None, list[int]]:
    """Each alternative under one literal that what it covers must imply: under each of its values if it names a few."""
    index: dict[_Key | None, list[int]] = {}
    for number, alternative in enumerate(alternatives):
        keys: list[_Key | None] = [None]
        for literal in literals_of(alternative):
            keys = [(literal.attribute, _ANY)]
            if not isinstance(literal, Missing) and isinstance(literal.values, OneOf | Places):
                members = literal.values.members
                if len(members) <= ACCESS_VALUES_MAX:
                    keys = [(literal.attribute, (value,)) for value in members]
                    break
        for key in keys:
            index.setdefault(key, []).append(number)
    return index


def _candidates(alternative: Filter, index: dict[_Key | None, list[int]]) -> Iterator[int]:
    """Alternatives that may cover this one."""
    yield from index.get(None, ())
    for literal in literals_of(alternative):
        if not isinstance(literal, Missing) and isinstance(literal.values, OneOf | Places):
            value = literal.values.values[0] if isinstance(literal.values, OneOf) else literal.values.names[0]
            yield from index.get((literal.attribute, (identity(value),)), ())
        yield from index.get((literal.attribute, _ANY), ())


# ---------------------------------------------------------------- literals of an AND


def tightened(literals: Iterable[Literal]) -> list[Literal] | None:
    """Literals whose AND is that of `literals`, without those that others imply; None when no event meets them all."""
    of_attribute: dict[str, list[Literal]] = {}
    for literal in literals:
        of_attribute.setdefault(literal.attribute, []).append(literal)
    kept: list[Literal] = []
    for attribute, group in of_attribute.items():
        tight = group if len(group) > PARTS_MAX else _tightened_on(attribute, group)
        if tight is None:
            return None
        kept += tight
    return kept


def _tightened_on(attribute: str, literals: list[Literal]) -> list[Literal] | None:
    missing: list[Literal] = [literal for literal in literals if isinstance(literal, Missing)]
    if missing:
        return missing[:1] if len(missing) == len(literals) else None
    onlys = intersections(literal.values for literal in literals if isinstance(literal, Only))
    somes = [_within_all(literal.values, onlys) for literal in literals if isinstance(literal, Some)]
    if NOTHING in onlys or NOTHING in somes:
        return None
    if onlys == [EVERYTHING]:
        onlys, somes = [], [*somes, EVERYTHING]
    somes = [some for some in _smallest(somes) if not any(is_subset(only, some) for only in onlys)]
    return [*(Only(attribute, only) for only in onlys), *(Some(attribute, some) for some in somes)]


def _within_all(values: ValueSet, limits: list[ValueSet]) -> ValueSet:
    for limit in limits:
        common = intersection(values, limit)
        values = values if common is None else common
    return values


def _smallest(sets: list[ValueSet]) -> list[ValueSet]:
    """The sets that hold no other of `sets`."""
    return [complement(values) for values in _largest([complement(values) for values in sets])]
