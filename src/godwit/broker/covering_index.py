"""Roots: the filters that were sent to a neighbour, arranged so that few of them must be tested for covering another
filter.

*Theory.* Most filters are conjunctions that want one of a few values of some attribute. Such a filter can cover
another, or be covered by it, only if the two share such a value. So it is found by its values. Filters of other forms
are looked at one by one, but most are put aside by their *signs*: whatever a pattern such as `LIKE '%ab_c%'` covers has
all its pairs of neighbouring characters, so each pair is a bit, and one operation on two integers says no.

*Rules.*
1. What is left out covers nothing that is asked for, and is covered by nothing that is asked for.
2. Candidates come in an order that depends on nothing but the order of `add` and `remove`.
3. Each filter that is looked at is a step of the effort. When the effort is used up there are no more candidates.
4. Signs do not depend on the process: the steps are the same in a replay.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from zlib import crc32

from godwit.filters.effort import Effort
from godwit.filters.filters import And, Filter, Missing, Only, Some
from godwit.filters.sets import Like, Nothing, OneOf, Places, Prefix, Substring, Suffix, TopicPattern, ValueSet

__all__ = ["Choices", "CoveringIndex", "IndexedFilter", "Signs", "choices_of", "signs_of"]

VALUES_MAX = 16  # of one attribute; a filter that takes more is not found by them
SIGN_BITS = 256
SIGNED_LENGTH_MAX = 1_024  # characters of a text
ALL_SIGNS = (1 << SIGN_BITS) - 1


class Signs(NamedTuple):
    """Bits that all must be among the signs a filter `has`, for one with these to cover it (`asks`)."""

    asks: int
    has: int


Choices = dict[str, tuple[Any, ...]]
"""By attribute, the few values that a filter wants one of."""


class IndexedFilter(Protocol):
    """What is arranged: something with a filter, the attributes that it asks about, and its choices."""

    filter: Filter
    attributes: frozenset[str]
    choices: Choices | None
    signs: Signs


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


def signs_of(filter: Filter) -> Signs:
    """The signs of a conjunction with one literal for each attribute; else those that rule nothing out."""
    asks = has = 0
    seen: dict[str, None] = {}
    for literal in filter.parts if isinstance(filter, And) else (filter,):
        if not isinstance(literal, Some | Only | Missing) or literal.attribute in seen:
            return Signs(0, ALL_SIGNS)
        seen[literal.attribute] = None
        if not isinstance(literal, Missing):
            found = _signs_of_set(literal.attribute, literal.values)
            if isinstance(literal.values, Suffix | Substring | Like | TopicPattern) and found != ALL_SIGNS:
                asks |= found
            has |= found
    return Signs(asks, has)


def _signs_of_set(attribute: str, values: ValueSet) -> int:
    """The pairs of characters that every text of a set holds. Other sets than those of texts match no pattern."""
    match values:
        case Prefix(text=text) | Suffix(text=text) | Substring(text=text):
            return _signs_of_text(attribute, text)
        case Like(segments=segments):
            signs = 0
            for segment in segments:
                signs |= _signs_of_text(attribute, segment)
            return signs
        case TopicPattern(levels=(levels, _)):
            signs = 0
            for run in "/".join(levels).split("+"):
                signs |= _signs_of_text(attribute, run)
            return signs
        case OneOf(values=members) | Places(names=members) if len(members) <= VALUES_MAX:
            signs = ALL_SIGNS
            for value in members:
                signs &= _signs_of_text(attribute, value) if isinstance(value, str) else 0
            return signs
        case OneOf() | Places() | Nothing():
            return ALL_SIGNS
    return 0


def _signs_of_text(attribute: str, text: "str | tuple[str | None, ...]") -> int:
    """The signs of its pairs of characters; all, when it is too long to look at."""
    if len(text) > SIGNED_LENGTH_MAX:
        return ALL_SIGNS
    signs = 0
    for a, b in pairwise(text):
        if a is not None and b is not None:
            signs |= 1 << crc32(f"{attribute}\0{a}{b}".encode()) % SIGN_BITS
    return signs


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

    def that_may_cover(self, asked: IndexedFilter, effort: Effort) -> Iterator[Root]:
        """Those that may cover a filter. They can ask for no attribute that it does not ask for."""
        if asked.choices is None:
            found: Iterable[Root] = self._all.values()
        else:  # what covers it and is found by values takes all its values of an attribute, so also the first
            found = self._found([(attribute, values[0]) for attribute, values in asked.choices.items()])
        lacking = ~asked.signs.has
        for root in found:
            if not effort.spend(1):
                return
            if not root.signs.asks & lacking and root.attributes <= asked.attributes:
                yield root

    def that_may_be_covered_by(self, asked: IndexedFilter, effort: Effort) -> Iterator[Root]:
        """Those that a filter may cover. They ask for every attribute that it asks for."""
        if not asked.choices:
            found: Iterable[Root] = self._all.values()
        else:  # what it covers wants some of its values, of each attribute
            attribute, values = next(iter(asked.choices.items()))
            found = self._found([(attribute, value) for value in values])
        wanted = asked.signs.asks
        for root in found:
            if not effort.spend(1):
                return
            if not wanted & ~root.signs.has and asked.attributes <= root.attributes:
                yield root

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
