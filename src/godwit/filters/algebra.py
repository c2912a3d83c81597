"""The algebra of filters: `covers` and `intersects`, and the disjunctive normal form both rest on.

*Theory.* `covers(f, g)` asks whether every event that matches g matches f. g is taken apart into conjunctions of
literals; each must imply f, and that is decided along f's own structure: an AND when every part is implied, an OR
when one part is or when parts on one attribute are together, a literal when one literal of the conjunction implies
it. `intersects(f, g)` asks whether some conjunction of f and some conjunction of g can be met by one event.

Taking apart multiplies: an AND of ten ORs of ten has 10**10 conjunctions. Past a bound the parts that would multiply
further are left out, which makes the form weaker, never stronger. Comparing multiplies too: past `EFFORT_MAX` the
answer is that it cannot be told. Either way both questions err on the side that routing allows.

*Rules.*
1. `covers` answers yes only when it is so; `intersects` answers no only when it is so.
2. Both are exact on conjunctions with one literal per attribute, where `relations.py` is exact about the sets.
3. Nothing here assumes that an attribute has one value only: `Some` and `Only` are told apart.
4. The answer depends on the two filters alone, never on how fast the machine is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from godwit.filters.filters import FALSE, And, Filter, Literal, Missing, Only, Or, Some
from godwit.filters.relations import is_disjoint, is_subset, unions
from godwit.filters.sets import Everything, Nothing, OneOf, Places

CONJUNCTIONS_MAX = 256
NORMAL_FORM_SIZE_MAX = 32_768
SAME_ATTRIBUTE_MAX = 64
EFFORT_MAX = 1_000_000
EFFORT_PER_CONJUNCTION = 32

Conjunction = tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A filter as an OR of conjunctions. When `exact` is false it matches more than the filter, never less."""

    conjunctions: tuple[Conjunction, ...]
    exact: bool


NEVER = NormalForm((), True)
ALWAYS_OR_MORE = NormalForm(((),), False)  # the empty conjunction: everything


def normal_form(filter: Filter, conjunctions_max: int = CONJUNCTIONS_MAX) -> NormalForm:
    """The filter as at most `conjunctions_max` satisfiable conjunctions, weakened where more would be needed."""
    if isinstance(filter, Or):
        return _alternatives(filter.parts, conjunctions_max)
    if isinstance(filter, And):
        return _product(filter.parts, conjunctions_max)
    return NormalForm(((filter,),), True) if satisfiable((filter,)) else NEVER


def _alternatives(parts: tuple[Filter, ...], conjunctions_max: int) -> NormalForm:
    conjunctions: dict[Conjunction, None] = {}
    exact = True
    for part in parts:
        form = normal_form(part, conjunctions_max)
        exact = exact and form.exact
        conjunctions.update(dict.fromkeys(form.conjunctions))
        if len(conjunctions) > conjunctions_max:
            return ALWAYS_OR_MORE
    return NormalForm(tuple(conjunctions), exact)


def _product(parts: tuple[Filter, ...], conjunctions_max: int) -> NormalForm:
    """Multiply the parts out, literals first, then by size. What would lead past a bound is left out."""
    literals: Conjunction = tuple(part for part in parts if not isinstance(part, And | Or))
    if not satisfiable(literals):
        return NEVER
    product, exact = [literals], True
    if len(literals) == len(parts):
        return NormalForm((literals,), True)
    forms = [normal_form(part, conjunctions_max) for part in parts if isinstance(part, And | Or)]
    for form in sorted(forms, key=lambda form: len(form.conjunctions)):
        size = sum(map(len, product)) * len(form.conjunctions)
        if len(product) * len(form.conjunctions) > conjunctions_max or size > NORMAL_FORM_SIZE_MAX:
            exact = False
            continue
        exact = exact and form.exact
        product = [
            left + tuple(literal for literal in right if literal not in left)
            for left in product
            for right in form.conjunctions
            if compatible(left, right)
        ]
    return NormalForm(tuple(dict.fromkeys(product)), exact)


def satisfiable(conjunction: Conjunction) -> bool:
    """Whether some event could meet all literals at once; yes when that cannot be told."""
    seen: dict[str, list[Literal]] = {}
    for literal in conjunction:
        if not isinstance(literal, Missing) and isinstance(literal.values, Nothing):
            return False
        others = seen.setdefault(literal.attribute, [])
        if len(others) < SAME_ATTRIBUTE_MAX:
            if any(_exclude(literal, other) for other in others):
                return False
            others.append(literal)
    return True


def compatible(a: Iterable[Literal], b: Conjunction) -> bool:
    """Whether some event could meet `a` and `b`, each satisfiable alone; yes when that cannot be told."""
    return not any(x.attribute == y.attribute and _exclude(x, y) for x in a for y in b)


def _exclude(a: Literal, b: Literal) -> bool:
    """Whether no event meets both of two literals on one attribute."""
    if isinstance(a, Missing) or isinstance(b, Missing):
        return type(a) is not type(b)
    if isinstance(a, Some) and isinstance(b, Some):
        return False  # two values of the attribute may do one each
    return is_disjoint(a.values, b.values)


def implies(a: Literal, b: Literal) -> bool:
    """Whether every event that meets literal `a` meets literal `b`."""
    if a.attribute != b.attribute:
        return False
    if isinstance(a, Missing) or isinstance(b, Missing):
        return type(a) is type(b) or (not isinstance(a, Missing) and isinstance(a.values, Nothing))
    if isinstance(a, Some) and isinstance(b, Only):  # another value of the attribute may lie anywhere
        return isinstance(a.values, Nothing) or isinstance(b.values, Everything)
    return is_subset(a.values, b.values)


def conjunction_implies(conjunction: Conjunction, filter: Filter) -> bool:
    """Whether every event that meets all of `conjunction` matches `filter`; no when that cannot be told."""
    if isinstance(filter, And):
        return all(conjunction_implies(conjunction, part) for part in filter.parts)
    if isinstance(filter, Or):
        return any(conjunction_implies(conjunction, part) for part in filter.parts) or any(
            _implies_together(literal, filter.parts) for literal in conjunction
        )
    return any(implies(literal, filter) for literal in conjunction)


def _implies_together(literal: Literal, parts: tuple[Filter, ...]) -> bool:
    """Whether the values that `literal` asks for lie in what several `Some`s of an OR ask for."""
    if isinstance(literal, Missing):
        return False
    sets = [part.values for part in parts if isinstance(part, Some) and part.attribute == literal.attribute]
    if len(sets) < 2:
        return False
    if isinstance(literal.values, OneOf | Places):
        values = literal.values.values if isinstance(literal.values, OneOf) else literal.values.names
        return not any(s.is_open for s in sets) and all(any(s.contains(value) for s in sets) for value in values)
    return any(is_subset(literal.values, joined) for joined in unions(sets))


def covers(f: Filter, g: Filter) -> bool:
    """Whether all that matches `g` matches `f`; no when that cannot be told."""
    if f == g:
        return True
    left = EFFORT_MAX
    for conjunction in _conjunctions(g):
        left -= effort(f.size, f.weight, len(conjunction), _weight(conjunction))
        if left < 0 or not conjunction_implies(conjunction, f):
            return False
    return True


def intersects(f: Filter, g: Filter) -> bool:
    """Whether some event could match both; yes when that cannot be told."""
    if f.size < g.size:
        f, g = g, f
    left = EFFORT_MAX
    of_the_smaller = [(b, _weight(b)) for b in islice(_conjunctions(g), EFFORT_MAX // EFFORT_PER_CONJUNCTION + 1)]
    for a in _conjunctions(f):
        weight = _weight(a)
        for b, weight_b in of_the_smaller:
            left -= effort(len(a), weight, len(b), weight_b)
            if left < 0 or compatible(a, b):
                return True
    return False


def effort(size_a: int, weight_a: int, size_b: int, weight_b: int) -> int:
    """What it takes to compare each of so many literals with each of so many others."""
    return EFFORT_PER_CONJUNCTION + size_a * weight_b + weight_a * size_b


def _weight(conjunction: Conjunction) -> int:
    return sum(literal.weight for literal in conjunction)


def _conjunctions(filter: Filter) -> Iterator[Conjunction]:
    """The conjunctions of a filter, those of each part of an OR for itself: an OR may have any number of parts."""
    for part in filter.parts if isinstance(filter, Or) else (filter,):
        yield from normal_form(part).conjunctions


def is_never(filter: Filter) -> bool:
    """Whether no event can match; no when that cannot be told."""
    return filter == FALSE or next(_conjunctions(filter), None) is None
