"""The algebra of filters: `covers` and `intersects`, and the disjunctive normal form both rest on.

*Theory.* `covers(f, g)` asks whether every event that matches g matches f. g is taken apart into conjunctions of
literals; each must imply f, and that is decided along f's own structure: an AND when every part is implied, an OR
when one part is or when parts on one attribute are together, a literal when one literal of the conjunction implies
it. `intersects(f, g)` asks whether some conjunction of f and some conjunction of g can be met by one event.

Taking apart multiplies: an AND of ten ORs of ten has 10**10 conjunctions. Past a bound the parts that would multiply
further are left out, which makes the form weaker, never stronger. Comparing multiplies too: every question is asked
with an `Effort`, and when that is used up the answer is that it cannot be told. Either way both questions err on the
side that routing allows.

The parts of an OR are not tried one by one: a part can be implied only if the conjunction speaks of the attribute of
one of its literals, and names a value of it if it is a list. `_Implication` finds them by that, and keeps what it has
worked out about the ORs of f while the conjunctions of g are compared with it. What takes longest with large filters is
to take them apart: a broker holds a new one against many others, so the forms and indexes of the last few are kept.

*Rules.*
1. `covers` answers yes only when it is so; `intersects` answers no only when it is so.
2. Both are exact on conjunctions with one literal per attribute, where `relations.py` is exact about the sets.
3. Nothing here assumes that an attribute has one value only: `Some` and `Only` are told apart.
4. The answer depends on the two filters and the steps given, never on how fast the machine is.
5. With more steps an answer only becomes more exact.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from godwit.filters.effort import Derived, Effort
from godwit.filters.filters import FALSE, TRUE, And, Filter, Literal, Missing, Only, Or, Some
from godwit.filters.relations import JOINED_PAIRWISE_MAX, is_disjoint, is_subset, unions
from godwit.filters.sets import Everything, Nothing, OneOf, Places, ValueSet
from godwit.filters.values import identity

CONJUNCTIONS_MAX = 256
NORMAL_FORM_SIZE_MAX = 32_768
SAME_ATTRIBUTE_MAX = 64
ACCESS_VALUES_MAX = 64
EFFORT_PER_CONJUNCTION = 4
PAIRS_PER_STEP = 8  # of literals on different attributes
LARGE = 32  # literals: what is derived from so many is remembered
REMEMBERED_MAX = 64  # filters

Conjunction = tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A filter as an OR of conjunctions. When `exact` is false it matches more than the filter, never less."""

    conjunctions: tuple[Conjunction, ...]
    exact: bool


NEVER = NormalForm((), True)
ALWAYS_OR_MORE = NormalForm(((),), False)  # the empty conjunction: everything


def normal_form(filter: Filter, conjunctions_max: int = CONJUNCTIONS_MAX, effort: Effort | None = None) -> NormalForm:
    """The filter as at most `conjunctions_max` satisfiable conjunctions, weakened where more would be needed."""
    effort = Effort() if effort is None else effort
    if isinstance(filter, Or):
        return _alternatives(filter.parts, conjunctions_max, effort)
    effort.left -= 2
    if isinstance(filter, And):
        return _product(filter.parts, conjunctions_max, effort)
    return NormalForm(((filter,),), True) if satisfiable((filter,), effort) else NEVER


def _alternatives(parts: tuple[Filter, ...], conjunctions_max: int, effort: Effort) -> NormalForm:
    conjunctions: dict[Conjunction, None] = {}
    exact = True
    for part in parts:
        form = normal_form(part, conjunctions_max, effort)
        exact = exact and form.exact
        conjunctions.update(dict.fromkeys(form.conjunctions))
        if len(conjunctions) > conjunctions_max or effort.is_over:
            return ALWAYS_OR_MORE
    return NormalForm(tuple(conjunctions), exact)


def _product(parts: tuple[Filter, ...], conjunctions_max: int, effort: Effort) -> NormalForm:
    """Multiply the parts out, literals first, then by size. What would lead past a bound is left out."""
    literals: Conjunction = tuple(part for part in parts if not isinstance(part, And | Or))
    if not satisfiable(literals, effort):
        return NEVER
    product, exact = [literals], True
    if len(literals) == len(parts):
        return NormalForm((literals,), True)
    forms = [normal_form(part, conjunctions_max, effort) for part in parts if isinstance(part, And | Or)]
    for form in sorted(forms, key=lambda form: len(form.conjunctions)):
        size = sum(map(len, product)) * len(form.conjunctions)
        pairs = len(product) * len(form.conjunctions)
        cost = 4 * pairs + sum(map(len, product)) * sum(map(len, form.conjunctions)) // 2
        if pairs > conjunctions_max or size > NORMAL_FORM_SIZE_MAX or not effort.spend(cost):
            exact = False
            continue
        exact = exact and form.exact
        product = [
            left + tuple(literal for literal in right if literal not in left)
            for left in product
            for right in form.conjunctions
            if compatible(left, right, effort)
        ]
    return NormalForm(tuple(dict.fromkeys(product)), exact)


def satisfiable(conjunction: Conjunction, effort: Effort | None = None) -> bool:
    """Whether some event could meet all literals at once; yes when that cannot be told."""
    effort = Effort() if effort is None else effort
    seen: dict[str, list[Literal]] = {}
    for literal in conjunction:
        if not isinstance(literal, Missing) and isinstance(literal.values, Nothing):
            return False
        others = seen.setdefault(literal.attribute, [])
        if len(others) < SAME_ATTRIBUTE_MAX and not effort.is_over:
            for other in others:
                effort.left -= literal.weight + other.weight
                if _exclude(literal, other):
                    return False
            others.append(literal)
    return True


def compatible(a: Sequence[Literal], b: Sequence[Literal], effort: Effort | None = None) -> bool:
    """Whether some event could meet `a` and `b`, each satisfiable alone; yes when that cannot be told."""
    effort = Effort() if effort is None else effort
    if not effort.spend(1 + len(a) * len(b) // PAIRS_PER_STEP):
        return True
    for x in a:
        attribute = x.attribute
        for y in b:
            if y.attribute == attribute:
                effort.left -= x.weight + y.weight
                if effort.left < 0:
                    return True
                if _exclude(x, y):
                    return False
    return True


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


# ---------------------------------------------------------------- whether a conjunction implies a filter


def conjunction_implies(conjunction: Conjunction, filter: Filter, effort: Effort | None = None) -> bool:
    """Whether every event that meets all of `conjunction` matches `filter`; no when that cannot be told."""
    return _Implication(Effort() if effort is None else effort).holds(_by_attribute(conjunction), filter)


_Given = dict[str, list[Literal]]
"""A conjunction: its literals by attribute."""
_Key = tuple[str, Any]
_ANY = "any value"


def _by_attribute(conjunction: Iterable[Literal]) -> _Given:
    given: _Given = {}
    for literal in conjunction:
        given.setdefault(literal.attribute, []).append(literal)
    return given


class _Implication:
    """Whether conjunctions imply one filter or another. What is found out about the ORs of a filter is kept."""

    __slots__ = ("_effort", "_indexes", "_kept")

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._indexes: dict[int, dict[_Key | None, list[Filter]]] = {}  # by the id of an OR, its parts
        self._kept: dict[tuple[int, str], tuple[list[ValueSet], list[ValueSet]]] = {}

    def holds(self, given: _Given, filter: Filter) -> bool:
        """Whether the conjunction implies the filter; no when that cannot be told."""
        effort = self._effort
        if effort.left < 0:
            return False
        if isinstance(filter, And):
            effort.left -= 3
            return all(self.holds(given, part) for part in filter.parts)
        if isinstance(filter, Or):
            return self._holds_one(given, filter)
        for literal in given.get(filter.attribute, ()):
            effort.left -= literal.weight + filter.weight
            if effort.left < 0:
                return False
            if implies(literal, filter):
                return True
        return False

    def _holds_one(self, given: _Given, choice: Or) -> bool:
        """Whether the conjunction implies one part of an OR, or several parts on one attribute together."""
        index = self._indexes.get(id(choice))
        if index is None:
            index = self._indexes[id(choice)] = _index_of(choice, self._effort)
        if any(self.holds(given, part) for part in _candidates(given, index)):
            return True
        return any(
            self._holds_together(literal, choice)
            for literals in given.values()
            for literal in literals
            if not isinstance(literal, Missing)
        )

    def _holds_together(self, literal: Some | Only, choice: Or) -> bool:
        """Whether the values that `literal` asks for lie in what several `Some`s of an OR ask for."""
        effort = self._effort
        key = (id(choice), literal.attribute)
        if key not in self._kept:
            sets = [
                part.values for part in choice.parts if isinstance(part, Some) and part.attribute == literal.attribute
            ]
            effort.left -= len(choice.parts) // PAIRS_PER_STEP
            self._kept[key] = (sets, [])
        sets, joined = self._kept[key]
        if len(sets) < 2 or effort.left < 0:
            return False
        if isinstance(literal.values, OneOf | Places):
            values = literal.values.values if isinstance(literal.values, OneOf) else literal.values.names
            if any(s.is_open for s in sets):
                return False
            for value in values:
                effort.left -= 1 + len(sets) // 2
                if effort.left < 0 or not any(s.contains(value) for s in sets):
                    return False
            return True
        if not joined:
            if not effort.spend(cost_of_unions(sets)):
                return False
            joined += unions(sets)
        effort.left -= len(joined) * literal.weight
        return any(is_subset(literal.values, values) for values in joined)


def cost_of_unions(sets: Sequence[ValueSet]) -> int:
    """The steps that `unions` takes at most, about."""
    others = sum(not isinstance(values, OneOf | Places) for values in sets)  # lists are joined all at once
    return sum(values.weight for values in sets) * (2 + min(others, JOINED_PAIRWISE_MAX)) // 2


def index_of_coverers(alternatives: Sequence[Filter], effort: Effort) -> "dict[_Key | None, list[Any]]":
    """Each alternative under one literal that what it covers must imply: under each of its values if it names a few."""
    index: dict[_Key | None, list[Any]] = {}
    for alternative in alternatives:
        for key in access_keys(alternative):
            index.setdefault(key, []).append(alternative)
    effort.left -= len(alternatives) // 2
    return index


def _index_of(choice: Or, effort: Effort) -> "dict[_Key | None, list[Any]]":
    return _indexes.of(choice, effort) if choice.size >= LARGE else index_of_coverers(choice.parts, effort)


_indexes: "Derived[Or, dict[_Key | None, list[Any]]]" = Derived(
    lambda choice, effort: index_of_coverers(choice.parts, effort), REMEMBERED_MAX
)


def access_keys(alternative: Filter) -> list[_Key | None]:
    """Where an alternative is found: whatever it covers has one of these keys among its `keys_of`, or is unlike it."""
    keys: list[_Key | None] = [None]
    for literal in alternative.parts if isinstance(alternative, And) else (alternative,):
        if isinstance(literal, And | Or):
            continue
        keys = [(literal.attribute, _ANY)]
        if not isinstance(literal, Missing) and isinstance(literal.values, OneOf | Places):
            members = literal.values.members
            if len(members) <= ACCESS_VALUES_MAX:
                return [(literal.attribute, (value,)) for value in members]
    return keys


def keys_of(literals: Iterable[Literal]) -> Iterator[_Key | None]:
    """The keys under which to look for what may cover a conjunction."""
    yield None
    for literal in literals:
        if not isinstance(literal, Missing) and isinstance(literal.values, OneOf | Places):
            value = literal.values.values[0] if isinstance(literal.values, OneOf) else literal.values.names[0]
            yield (literal.attribute, (identity(value),))
        yield (literal.attribute, _ANY)


def _candidates(given: _Given, index: dict[_Key | None, list[Filter]]) -> Iterator[Filter]:
    """The parts of an OR that a conjunction may imply."""
    for key in keys_of(literal for literals in given.values() for literal in literals):
        yield from index.get(key, ())


# ---------------------------------------------------------------- whether one filter covers or meets another


def covers(f: Filter, g: Filter, effort: Effort | None = None) -> bool:
    """Whether all that matches `g` matches `f`; no when that cannot be told."""
    if f in (g, TRUE):
        return True
    effort = Effort() if effort is None else effort
    implication = _Implication(effort)
    for conjunction in _conjunctions(g, effort):
        if not effort.spend(EFFORT_PER_CONJUNCTION) or not implication.holds(_by_attribute(conjunction), f):
            return False
    return not effort.is_over


def intersects(f: Filter, g: Filter, effort: Effort | None = None) -> bool:
    """Whether some event could match both; yes when that cannot be told."""
    effort = Effort() if effort is None else effort
    if f.size < g.size:
        f, g = g, f
    of_the_smaller = list(_conjunctions(g, effort))
    for a in _conjunctions(f, effort):
        for b in of_the_smaller:
            if effort.is_over or compatible(a, b, effort):
                return True
    return effort.is_over


def _conjunctions(filter: Filter, effort: Effort) -> Iterator[Conjunction]:
    """The conjunctions of a filter, those of each part of an OR for itself: an OR may have any number of parts.

    They end early when the effort is over.
    """
    for part in filter.parts if isinstance(filter, Or) else (filter,):
        if effort.is_over:
            return
        form = _forms.of(part, effort) if part.size >= LARGE else normal_form(part, effort=effort)
        yield from form.conjunctions


_forms: Derived[Filter, NormalForm] = Derived(lambda filter, effort: normal_form(filter, effort=effort), REMEMBERED_MAX)


def is_never(filter: Filter, effort: Effort | None = None) -> bool:
    """Whether no event can match; no when that cannot be told."""
    effort = Effort() if effort is None else effort
    return filter == FALSE or (next(_conjunctions(filter, effort), None) is None and not effort.is_over)
