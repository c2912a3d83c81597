"""Filters: Boolean combinations of literals on one attribute each, always in negation normal form.

*Theory.* For an attribute with the values V a literal says one of three things: `Some(attr, S)`: some v in V lies in S;
`Only(attr, S)`: V is not empty and every v lies in S; `Missing(attr)`: V is empty. There is no NOT node: negation is
carried out at once, down to the literals, where it maps `Some(S)` to `Only(not S)` and back. So a missing attribute
matches neither a comparison nor its negation, which is SQL's three-valued logic without a third value.

Two literals on one attribute are two literals: `zip > 1000 AND zip < 2000` may be met by two different zips of one
event, `zip BETWEEN 1000 AND 2000` needs a single zip that does both.

*Rules.*
1. `~~f == f`, to the letter. For this `IS NOT NULL` is `Some(attr, EVERYTHING)`, whose negation is `Missing(attr)`; and
   `Only(attr, NOTHING)`, which no event can meet, is written `Some(attr, NOTHING)`.
2. `And` and `Or` are flat: no And directly in an And, no single part, no part twice. Equality ignores the order.
3. Size and depth are bounded when a filter is made, so whatever walks one may recurse.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from godwit.errors import FilterTooBig
from godwit.filters.events import Attributes, Event
from godwit.filters.sets import EVERYTHING, NOTHING, ValueSet, complement

LITERALS_MAX = 20_000
DEPTH_MAX = 100
DEPTH_USUAL = 2  # of a conjunction of literals
SIZES = 2**15  # more than there are sizes
COMPARED_MAX = 4  # parts of a combination


class _Holds(Protocol):
    """The method that every class of filters has."""

    def holds(self, attributes: Attributes) -> bool:
        """Whether checked attributes meet this filter."""


class _Node:
    """What literals and combinations share."""

    __slots__ = ()

    def matches(self: _Holds, event: Event) -> bool:
        """Whether `event` meets this filter."""
        return self.holds(event.attributes)

    def covers(self, other: "Filter") -> bool:
        """Whether all that matches `other` matches this; no when that cannot be told."""
        from godwit.filters.algebra import covers

        return covers(self, other)  # type: ignore[arg-type]

    def intersects(self, other: "Filter") -> bool:
        """Whether some event could match both; yes when that cannot be told."""
        from godwit.filters.algebra import intersects

        return intersects(self, other)  # type: ignore[arg-type]

    def __and__(self, other: "Filter") -> "Filter":
        return all_of(self, other)  # type: ignore[arg-type]

    def __or__(self, other: "Filter") -> "Filter":
        return any_of(self, other)  # type: ignore[arg-type]

    def __invert__(self) -> "Filter":
        return negation(self)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class _OnValues(_Node):
    """A literal with a value set."""

    attribute: str
    values: ValueSet
    _hash: int | None = field(init=False, repr=False)  # None: nobody has asked; most literals are never asked

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", None)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", self.unkept_hash())
        return self._hash  # type: ignore[return-value]

    def unkept_hash(self) -> int:
        """The hash, which is not kept for the next time: an int of its size takes 48 bytes."""
        return hash((type(self).__name__, self.attribute, self.values)) if self._hash is None else self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other) and self.attribute == other.attribute and self.values == other.values
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.attribute, self.values))  # another process hashes texts differently

    @property
    def size(self) -> int:
        return 1

    @property
    def weight(self) -> int:
        """What a comparison with this literal costs: 1, and more for a long list of values."""
        values: object = self.values  # of another type where a caller is wrong: refused where it comes in
        return values.weight if isinstance(values, ValueSet) else 1

    @property
    def is_open(self) -> bool:
        """Whether its values refer to the client's own context."""
        values: object = self.values
        return isinstance(values, ValueSet) and values.is_open

    @property
    def depth(self) -> int:
        return 1


class Some(_OnValues):
    """Some value of the attribute lies in the set."""

    __slots__ = ()

    def holds(self, attributes: Attributes) -> bool:
        value = attributes.get(self.attribute)
        if value is None:
            return False
        if type(value) is tuple:
            return self.values.contains_some(value)
        return self.values.contains(value)  # type: ignore[arg-type]


class Only(_OnValues):
    """The attribute has values, and each lies in the set. Make one with `only`, which knows `NOTHING`."""

    __slots__ = ()

    def holds(self, attributes: Attributes) -> bool:
        value = attributes.get(self.attribute)
        if value is None:
            return False
        if type(value) is tuple:
            return self.values.contains_every(value)
        return self.values.contains(value)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Missing(_Node):
    """The attribute has no value."""

    attribute: str

    def unkept_hash(self) -> int:
        """The hash, as other filters give it."""
        return hash(self)

    def holds(self, attributes: Attributes) -> bool:
        return self.attribute not in attributes

    @property
    def size(self) -> int:
        return 1

    @property
    def weight(self) -> int:
        return 1

    @property
    def depth(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class _Combination(_Node):
    """Several filters combined. Make one with `all_of` or `any_of`, which keep it flat."""

    parts: tuple["Filter", ...]
    _shape: int = field(init=False, repr=False)  # size, depth and `is_open`: one field, because there are very many
    weight: int = field(init=False, repr=False)
    _hash: int | None = field(init=False, repr=False)  # None: nobody has asked
    memory: int | None = field(init=False, repr=False)  # what `memory_size` has found for a large one

    def __post_init__(self) -> None:
        size = weight = is_open = 0
        depth = 2 if self.parts else 1
        for part in self.parts:
            weight += part.weight
            if isinstance(part, _Combination):
                size += part.size
                depth = max(depth, part.depth + 1)
                is_open |= part.is_open
            else:
                size += 1
                if not isinstance(part, Missing):
                    is_open |= part.is_open
        if size > LITERALS_MAX:
            raise FilterTooBig(
                f"a filter of {size} literals: at most {LITERALS_MAX} are allowed (a list after IN is one)"
            )
        if depth > DEPTH_MAX:
            raise FilterTooBig(f"a filter nested {depth} deep: at most {DEPTH_MAX} levels of AND in OR are allowed")
        object.__setattr__(self, "_shape", ((depth - DEPTH_USUAL) * SIZES + size) * 2 + is_open)
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "_hash", None)
        object.__setattr__(self, "memory", None)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", self.unkept_hash())
        return self._hash  # type: ignore[return-value]

    @property
    def size(self) -> int:
        return (self._shape >> 1) % SIZES

    @property
    def depth(self) -> int:
        return (self._shape >> 1) // SIZES + DEPTH_USUAL

    @property
    def is_open(self) -> bool:
        """Whether some literal refers to the client's own context."""
        return self._shape & 1 == 1

    def keep_memory(self, size: int) -> None:
        """Remember what `memory_size` has found."""
        object.__setattr__(self, "memory", size)

    def unkept_hash(self) -> int:
        """The hash, which is kept neither here nor in the parts."""
        if self._hash is not None:
            return self._hash
        return hash((type(self).__name__, frozenset([part.unkept_hash() for part in self.parts])))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other)
            and len(self.parts) == len(other.parts)  # no part is there twice
            and self._shape == other._shape
            and self.weight == other.weight
            and (
                self.parts == other.parts
                or (hash(self) == hash(other) and frozenset(self.parts) == frozenset(other.parts))
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.parts,))


class And(_Combination):
    """Every part matches. `And(())` matches every event."""

    __slots__ = ()

    def holds(self, attributes: Attributes) -> bool:
        for part in self.parts:  # noqa: SIM110 (a loop is twice as fast as all())
            if not part.holds(attributes):
                return False
        return True


class Or(_Combination):
    """Some part matches. `Or(())` matches no event."""

    __slots__ = ()

    def holds(self, attributes: Attributes) -> bool:
        for part in self.parts:  # noqa: SIM110
            if part.holds(attributes):
                return True
        return False


Literal = Some | Only | Missing
Filter = Some | Only | Missing | And | Or

TRUE = And(())
FALSE = Or(())


def have_same_order(f: Filter, g: Filter) -> bool:
    """Whether two equal filters also have their parts in the same order: so every question takes the same steps."""
    if f is g:
        return True
    if not isinstance(f, _Combination) or not isinstance(g, _Combination):
        return f == g
    return type(f) is type(g) and len(f.parts) == len(g.parts) and all(map(have_same_order, f.parts, g.parts))


def some(attribute: str, values: ValueSet) -> Literal:
    """Some value of `attribute` lies in `values`."""
    return Some(attribute, values)


def only(attribute: str, values: ValueSet) -> Literal:
    """`attribute` has values and each lies in `values`."""
    return Some(attribute, NOTHING) if values == NOTHING else Only(attribute, values)


def missing(attribute: str) -> Literal:
    """`attribute` has no value."""
    return Missing(attribute)


def present(attribute: str) -> Literal:
    """`attribute` has a value."""
    return Some(attribute, EVERYTHING)


def all_of(*filters: Filter) -> Filter:
    """Every one of `filters` matches."""
    return _flat(And, filters)


def any_of(*filters: Filter) -> Filter:
    """At least one of `filters` matches."""
    return _flat(Or, filters)


def _flat(combination: type[And] | type[Or], filters: Iterable[Filter]) -> Filter:
    parts: list[Filter] = []
    for part in filters:
        if type(part) is combination:
            parts += part.parts
        else:
            parts.append(part)
    if len(parts) == 2:  # as most combinations
        return parts[0] if parts[0] == parts[1] else combination(tuple(parts))
    if not parts:
        return TRUE if combination is And else FALSE
    if len(parts) > COMPARED_MAX:
        parts = list(dict.fromkeys(parts))
    elif len(parts) > 1:  # compared with each other: so nobody has to hash them
        parts = [part for place, part in enumerate(parts) if part not in parts[:place]]
    if len(parts) == 1:
        return parts[0]
    return combination(tuple(parts))


def negation(filter: Filter) -> Filter:
    """NOT `filter`, carried down to its literals."""
    match filter:
        case Some(attribute=attribute, values=values):
            return Missing(attribute) if values == EVERYTHING else Only(attribute, complement(values))
        case Only(attribute=attribute, values=values):
            return Some(attribute, complement(values))
        case Missing(attribute=attribute):
            return Some(attribute, EVERYTHING)
        case And(parts=parts):
            return any_of(*(negation(part) for part in parts))
        case Or(parts=parts):
            return all_of(*(negation(part) for part in parts))


def literals(filter: Filter) -> Iterator[Literal]:
    """Every literal of a filter, in the order it is written."""
    if isinstance(filter, And | Or):
        for part in filter.parts:
            yield from literals(part)
    else:
        yield filter


def attributes_of(filter: Filter) -> tuple[str, ...]:
    """The attributes a filter speaks of, each once, in the order it is written."""
    return tuple(dict.fromkeys(literal.attribute for literal in literals(filter)))
