"""Roots: the filters that a neighbour has been told, so arranged that few must be asked whether they cover another.

*Theory.* Most filters are conjunctions that want one of a few values of some attribute. Such a filter can cover
another, or be covered by it, only if the two share such a value. So it is found by its values; only filters of other
forms are asked one by one.

*Rules.*
1. What is left out covers nothing that is asked for, and is covered by nothing that is asked for.
2. Candidates come in an order that depends on nothing but the order of `add` and `remove`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from godwit.filters.filters import And, Filter, Missing, Only, Some
from godwit.filters.sets import OneOf

__all__ = ["Choices", "CoveringIndex", "IndexedFilter", "choices_of"]

VALUES_MAX = 16  # of one attribute; a filter that takes more is not found by them

Choices = dict[str, tuple[Any, ...]]
"""By attribute, the few values that a filter wants one of."""


class IndexedFilter(Protocol):
    """What is arranged: something with a filter, the attributes that it asks about, and its choices."""

    filter: Filter
    attributes: frozenset[str]
    choices: Choices | None


Root = TypeVar("Root", bound=IndexedFilter)


def choices_of(filter: Filter) -> Choices | None:
    """The choices of a conjunction with one literal for each attribute; None for a filter of another form."""
    found: Choices = {}
    asked: dict[str, None] = {}
    for literal in filter.parts if isinstance(filter, And) else (filter,):
        if not isinstance(literal, Some | Only | Missing) or literal.attribute in asked:
            return None
        asked[literal.attribute] = None
        if not isinstance(literal, Missing) and isinstance(literal.values, OneOf):
            values = literal.values.values
            if 0 < len(values) <= VALUES_MAX:
                found[literal.attribute] = values
    return found


class CoveringIndex(Generic[Root]):
    """Filters, found by their values where they have any."""

    def __init__(self) -> None:
        self._all: dict[Filter, Root] = {}
        self._others: dict[Filter, Root] = {}  # that are not found by values
        self._by_value: dict[tuple[str, Any], dict[Filter, Root]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Root]:
        return iter(self._all.values())

    def add(self, root: Root) -> None:
        """Take one in."""
        self._all[root.filter] = root
        if not root.choices:
            self._others[root.filter] = root
        for key in _keys(root.choices):
            self._by_value.setdefault(key, {})[root.filter] = root

    def remove(self, root: Root) -> None:
        """Take one out."""
        del self._all[root.filter]
        self._others.pop(root.filter, None)
        for key in _keys(root.choices):
            place = self._by_value[key]
            del place[root.filter]
            if not place:
                del self._by_value[key]

    def that_may_cover(self, asked: IndexedFilter) -> Iterator[Root]:
        """Those that may cover a filter. They can ask for no attribute that it does not ask for."""
        if asked.choices is None:
            found: Iterable[Root] = self._all.values()
        else:  # what covers it and is found by values takes all its values of an attribute, so also the first
            found = self._found([(attribute, values[0]) for attribute, values in asked.choices.items()])
        return (root for root in found if root.attributes <= asked.attributes)

    def that_may_be_covered_by(self, asked: IndexedFilter) -> Iterator[Root]:
        """Those that a filter may cover. They ask for every attribute that it asks for."""
        if not asked.choices:
            found: Iterable[Root] = self._all.values()
        else:  # what it covers wants some of its values, of each attribute
            attribute, values = next(iter(asked.choices.items()))
            found = self._found([(attribute, value) for value in values])
        return (root for root in found if asked.attributes <= root.attributes)

    def _found(self, keys: list[tuple[str, Any]]) -> Iterator[Root]:
        yield from self._others.values()
        seen: dict[Filter, None] = {}
        for key in keys:
            for filter, root in self._by_value.get(key, {}).items():
                if filter not in seen:
                    seen[filter] = None
                    yield root


def _keys(choices: Choices | None) -> list[tuple[str, Any]]:
    """Where a filter is found. Equal values of different kinds share a place: it is only where to look."""
    return [(attribute, value) for attribute, values in (choices or {}).items() for value in values]
