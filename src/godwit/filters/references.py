"""References to the subscriber's own context: `my.x` and `myloc` in a filter, and how they are filled in.

*Theory.* `urgency >= my.threshold` names no set of values until somebody says what `my.threshold` is. Until then the
literal holds an `OpenSet`: the builder that will make the set (`interval`, `one_of` ...) and its operands, some of them
`Reference`s. `bind` puts a subscriber's context in and gives an ordinary filter; when the context changes, the same
open filter is bound again [rebeca §5]. `myloc` is nothing but `my.location`, and `myloc(2)` asks the movement graph
what lies two steps around.

*Rules.*
1. An open set relates to no other set but itself, so `covers` and `intersects` of open filters hold for every context.
2. A reference that the context lacks, or whose value does not fit (a text where a number of metres is wanted), makes
   its literal `Some(attr, NOTHING)`, whatever its sign: unknown, in SQL's words, and neither it nor its NOT matches.
3. A reference with several values stands for any of them. Where that is one set, it is the union: `IN (my.roles)` is a
   list, `< my.limits` goes up to the highest, `WITHIN my.homes(2)` is around all. Otherwise (`LIKE my.patterns`,
   circles, limits of several kinds) the literal becomes an OR of one for each value, or under a complement an AND: so
   the NOT of a bound filter is the bound NOT, as rule 1 needs. Of values that do not fit the others are enough.
4. Equal open sets are equal: `IN (my.a, 1)` and `IN (1, my.a)` have the same operands in the same order.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from godwit.errors import BadValue, FilterError, Unbound
from godwit.filters import regions, sets
from godwit.filters.events import Attributes, values_of
from godwit.filters.filters import And, Filter, Literal, Missing, Or, Some, all_of, any_of, literals, only, some
from godwit.filters.relations import unions
from godwit.filters.sets import NOTHING, VALUES_PER_STEP, Complement, ValueSet, complement
from godwit.filters.values import ORDERED_KINDS, Kind, Point, Value, checked_value, distinct_sorted, identity, kind_of

LOCATION = "location"

Vicinity = Callable[[Value, int], ValueSet]
"""Returns the places within a number of steps from a place."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A value of the subscriber's own context: `my.threshold`, or `myloc`, which is `my.location`."""

    name: str

    def __str__(self) -> str:
        return "myloc" if self.name == LOCATION else f"my.{self.name}"


Operand = Value | Reference | None


@dataclass(frozen=True, slots=True, eq=False)
class OpenSet(ValueSet):
    """A set that waits for the subscriber's context: `builder` names how it is made, `operands` are what of."""

    builder: str
    operands: tuple[Operand, ...]
    _key: Any = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)  # known, as the next: a list may be long, and tests ask for each event
    _references: tuple[Reference, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        key = tuple(
            operand if operand is None or isinstance(operand, Reference) else identity(operand)
            for operand in self.operands
        )
        references = (operand for operand in self.operands if isinstance(operand, Reference))
        object.__setattr__(self, "_key", (self.builder, key))
        object.__setattr__(self, "_hash", hash(self._key))
        object.__setattr__(self, "_references", tuple(dict.fromkeys(references)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenSet) and self._key == other._key

    @property
    def is_open(self) -> bool:
        return True

    @property
    def weight(self) -> int:
        return 1 + len(self.operands) // VALUES_PER_STEP

    @property
    def references(self) -> tuple[Reference, ...]:
        """What has to be known before the set is."""
        return self._references

    def contains(self, value: Value) -> bool:
        raise Unbound(*map(str, self.references))


# ---------------------------------------------------------------- builders: an ordinary set, or an open one


def one_of(values: Iterable[Value | Reference]) -> ValueSet:
    """The finite set of `values`."""
    known: list[Value] = []
    unknown: set[Reference] = set()
    for value in values:
        if isinstance(value, Reference):
            unknown.add(value)
        else:
            known.append(value)
    if not unknown:
        return sets.one_of(known)
    return OpenSet("one_of", (*distinct_sorted(map(checked_value, known)), *sorted(unknown)))


def interval(low: Operand, high: Operand, *, low_open: bool = False, high_open: bool = False) -> ValueSet:
    """The values from `low` to `high`; None leaves that side unbounded."""
    if isinstance(low, Reference) or isinstance(high, Reference):
        return OpenSet("interval", (low, high, low_open and low is not None, high_open and high is not None))
    return sets.interval(low, high, low_open=low_open, high_open=high_open)


def like(pattern: str | Reference) -> ValueSet:
    """The texts that match a LIKE pattern."""
    return OpenSet("like", (pattern,)) if isinstance(pattern, Reference) else sets.like(pattern)


def circle(centre: Point | Reference, radius_m: float | Reference) -> ValueSet:
    """The points within `radius_m` metres of `centre`."""
    if isinstance(centre, Reference) or isinstance(radius_m, Reference):
        return OpenSet("circle", (centre, radius_m))
    return regions.circle(centre.lon, centre.lat, radius_m)


def vicinity(place: Reference, steps: int) -> ValueSet:
    """The places that lie at most `steps` steps of the movement graph from `place`."""
    if type(steps) is not int or steps < 0:
        raise BadValue(f"{steps!r} steps around {place}: it must be a whole number, 0 or more")
    return OpenSet("vicinity", (place, steps))


# ---------------------------------------------------------------- filters


def references_of(filter: Filter) -> tuple[Reference, ...]:
    """The references a filter makes, each once, in the order it is written."""
    found = (open_set_of(literal) for literal in literals(filter))
    return tuple(dict.fromkeys(name for values in found if values is not None for name in values.references))


def is_open(filter: Filter) -> bool:
    """Whether a filter must be bound before it can match."""
    if isinstance(filter, And | Or):
        return filter.is_open
    return not isinstance(filter, Missing) and filter.values.is_open


def bind(filter: Filter, context: Attributes, vicinity: Vicinity | None = None) -> Filter:
    """The filter for a subscriber in this context: `my.x` is context["x"], `myloc` is context["location"].

    `vicinity(place, steps)` says what lies around a place, for `myloc(2)`; without it only `myloc` can be bound.
    """
    return replaced(filter, lambda values: sets_made(values, context, vicinity))


def sets_made(values: OpenSet, context: Attributes, vicinity: Vicinity | None = None) -> list[ValueSet]:
    """The sets that an open set becomes, for any of several values; none when nothing fits. (rule 3)"""
    made: list[ValueSet] = []
    for operands in _choices(values, context):
        try:
            made.append(
                _BUILDERS[values.builder](*operands) if values.builder in _BUILDERS else _around(operands, vicinity)
            )
        except BadValue:
            continue
    return unions(made) if values.builder == "vicinity" and len(made) > 1 else made


def _choices(values: OpenSet, context: Attributes) -> Iterable[tuple[Any, ...]]:
    """The operands with values instead of references, as often as it takes to try all that may matter."""
    each: list[tuple[Any, ...]] = []
    for operand in values.operands:
        if not isinstance(operand, Reference):
            each.append((operand,))
        elif operand.name in context:
            each.append(tuple(map(checked_value, values_of(context[operand.name]))))
        else:
            return ()
    match values.builder:
        case "one_of":
            return (tuple(chain.from_iterable(each)),)
        case "interval":  # the lowest and the highest of a kind make an interval that holds all others
            each[0], each[1] = _furthest(each[0], lowest=True), _furthest(each[1], lowest=False)
        case "circle":  # as does the largest radius
            each[1] = _furthest(each[1], lowest=False)
    return product(*each)


def _furthest(values: tuple[Any, ...], *, lowest: bool) -> tuple[Any, ...]:
    """Of each kind that has an order the first or last."""
    if len(values) == 1:
        return values
    kinds: dict[Kind, list[Any]] = {}
    for value in values:
        kinds.setdefault(kind_of(value), []).append(value)
    return tuple((min if lowest else max)(alike) for kind, alike in kinds.items() if kind in ORDERED_KINDS)


def replaced(filter: Filter, change: Callable[[OpenSet], Sequence[ValueSet]]) -> Filter:
    """The filter with each open set replaced by any of what `change` makes of it; of nothing, by what never matches."""
    match filter:
        case And(parts=parts):
            return all_of(*(replaced(part, change) for part in parts))
        case Or(parts=parts):
            return any_of(*(replaced(part, change) for part in parts))
    waiting = open_set_of(filter)
    if waiting is None:
        return filter
    assert not isinstance(filter, Missing)
    made = change(waiting)
    if not made:
        return Some(filter.attribute, NOTHING)
    literal = some if isinstance(filter, Some) else only
    if isinstance(filter.values, Complement):
        return all_of(*(literal(filter.attribute, complement(values)) for values in made))
    return any_of(*(literal(filter.attribute, values) for values in made))


def open_set_of(literal: Literal) -> OpenSet | None:
    """The open set of a literal, also under a complement; None: it refers to nothing."""
    if isinstance(literal, Missing):
        return None
    values = literal.values.inner if isinstance(literal.values, Complement) else literal.values
    return values if isinstance(values, OpenSet) else None


def _around(operands: tuple[Any, ...], vicinity: Vicinity | None) -> ValueSet:
    place, steps = operands
    if vicinity is not None:
        return vicinity(place, steps)
    if steps:
        raise FilterError(
            f"the filter asks what lies {steps} steps around {place!r}, and there is no movement graph here to say it"
        )
    return sets.places([place]) if isinstance(place, str) else sets.one_of([place])


def _bound_interval(low: Value | None, high: Value | None, low_open: bool, high_open: bool) -> ValueSet:
    return sets.interval(low, high, low_open=low_open, high_open=high_open)


def _bound_like(pattern: Value) -> ValueSet:
    if not isinstance(pattern, str):
        raise BadValue(f"{pattern!r} is not a LIKE pattern")
    return sets.like(pattern)


def _bound_circle(centre: Value, radius_m: Value) -> ValueSet:
    if not isinstance(centre, Point):
        raise BadValue(f"{centre!r} is not a point to draw a circle around")
    return regions.circle(centre.lon, centre.lat, radius_m)  # type: ignore[arg-type]


def _bound_one_of(*values: Value) -> ValueSet:
    return sets.one_of(values)


_BUILDERS: dict[str, Callable[..., ValueSet]] = {
    "one_of": _bound_one_of,
    "interval": _bound_interval,
    "like": _bound_like,
    "circle": _bound_circle,
}
