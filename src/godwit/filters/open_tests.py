"""Tests of an open filter on its subscriber's own context, for one event and one context.

*Theory.* To bind a filter makes a copy of it, with a set for each reference. Most of these sets are never asked: the
event has no such attribute, or another part has decided already. So here nothing is copied. A literal that refers to
the context is asked only when the event has its attribute; its set is made then, once for all literals with the same
reference, and kept until the context changes. A set of single values is not made at all: its members are looked up.

*Rules.*
1. The answer is that of the bound filter (`references.bind`), whatever was asked before.
2. No more than `count_sets` says is made in one context. Who bounds that bounds the work of the first events in it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from godwit.filters.events import Attributes, values_of
from godwit.filters.filters import And, Filter, Missing, Only, Or, Some, literals
from godwit.filters.references import OpenSet, Reference, open_set_of
from godwit.filters.sets import Complement, ValueSet, complement
from godwit.filters.values import ORDERED_KINDS, identity

__all__ = ["OpenTests", "Shape", "count_sets", "shapes_of"]

Shape = tuple[str, tuple[str | None, ...]]
"""How an open set is made: its builder, and the name of each reference among its operands."""

Made = Callable[[OpenSet, Attributes], Sequence[ValueSet]]
"""Makes the sets of an open set in a context."""

ENDS_MAX = len(ORDERED_KINDS)  # of several values, one of each kind is tried as the end of an interval


def shapes_of(filter: Filter) -> Counter[Shape]:
    """How the open sets of a filter are made, and how many are made alike."""
    found: Counter[Shape] = Counter()
    for literal in literals(filter):
        waiting = open_set_of(literal)
        if waiting is not None:
            found[_shape(waiting)] += 1
    return found


def _shape(waiting: OpenSet) -> Shape:
    if waiting.builder == "one_of":
        return "one_of", ()
    return waiting.builder, tuple(each.name if isinstance(each, Reference) else None for each in waiting.operands)


def count_sets(shapes: Iterable[tuple[Shape, int]], context: Attributes) -> int:
    """How many sets may be made in a context, at most, of open sets that are made like that."""
    total = 0
    for (builder, names), count in shapes:
        for place, name in enumerate(names):
            several = 1 if name is None else len(values_of(context.get(name, ())))
            is_end = builder == "interval" or (builder == "circle" and place == 1)
            count *= min(several, ENDS_MAX) if is_end else several
        total += count
    return total


class OpenTests:
    """Answers for filters of one subscriber, in its present context."""

    __slots__ = ("_context", "_identities", "_known", "_made", "_sets")

    def __init__(self, made: Made, context: Attributes) -> None:
        self._made, self._context = made, context
        self._sets: dict[tuple[OpenSet, bool], list[ValueSet]] = {}
        self._identities: dict[str, frozenset[Any]] = {}  # of the values of the context, by name
        self._known: dict[OpenSet, frozenset[Any]] = {}  # of the operands, without references

    def holds(self, filter: Filter, attributes: Attributes) -> bool:
        """Whether checked attributes meet the filter in this context."""
        if isinstance(filter, And | Or):
            is_or = isinstance(filter, Or)
            for part in filter.parts:
                if type(part) is Some or type(part) is Only:  # most of them: without a value neither matches
                    found = part.attribute in attributes and self._literal_holds(part, attributes)
                else:
                    found = self.holds(part, attributes)
                if found is is_or:
                    return is_or
            return not is_or
        if isinstance(filter, Missing):
            return filter.holds(attributes)
        return filter.attribute in attributes and self._literal_holds(filter, attributes)

    def _literal_holds(self, literal: Some | Only, attributes: Attributes) -> bool:
        """Whether a literal holds, whose attribute is there."""
        waiting = open_set_of(literal)
        if waiting is None:
            return literal.holds(attributes)
        value, is_some = attributes[literal.attribute], type(literal) is Some
        is_complement = isinstance(literal.values, Complement)
        if waiting.builder == "one_of":
            return self._is_one_of(waiting, values_of(value), is_some=is_some, is_complement=is_complement)
        sets = self._sets_of(waiting, is_complement=is_complement)
        if type(value) is not tuple:
            answers = (each.contains(value) for each in sets)  # type: ignore[arg-type]
        elif is_some:
            answers = (each.contains_some(value) for each in sets)
        else:
            answers = (each.contains_every(value) for each in sets)
        return bool(sets) and all(answers) if is_complement else any(answers)

    def _is_one_of(self, waiting: OpenSet, values: Sequence[Any], *, is_some: bool, is_complement: bool) -> bool:
        if any(name.name not in self._context for name in waiting.references):
            return False
        known = self._known.get(waiting)
        if known is None:
            operands = (each for each in waiting.operands if not isinstance(each, Reference))
            known = self._known[waiting] = frozenset(identity(each) for each in operands)  # type: ignore[arg-type]
        groups = [known, *(self._identities_of(name.name) for name in waiting.references)]
        found = (any(identity(value) in group for group in groups) != is_complement for value in values)
        return any(found) if is_some else all(found)

    def _identities_of(self, name: str) -> frozenset[Any]:
        found = self._identities.get(name)
        if found is None:
            found = self._identities[name] = frozenset(map(identity, values_of(self._context[name])))
        return found

    def _sets_of(self, waiting: OpenSet, *, is_complement: bool) -> list[ValueSet]:
        found = self._sets.get((waiting, is_complement))
        if found is None:
            made = self._made(waiting, self._context)
            found = [complement(each) for each in made] if is_complement else list(made)
            self._sets[waiting, is_complement] = found
        return found
