"""Possible values of a client's own state: which values a filter must allow for, and where.

*Theory.* `location = myloc` means one set of events at the border broker, where the client's state is known, and more
the further away a broker is. What a broker h hops away lets through now reaches the border later, and what it knows of
the client is old: in between pass the way of the news there and the way of the event back, the round trips of all links
between, `elapsed_s`. A client that stays `dwell_s` at least before it changes its state again can have changed it
`elapsed_s // dwell_s + 1` times meanwhile: the news may have set out just before the first change, and the event come
just after the last. So that broker allows for all that is possible after so many *steps*. `Movements` knows what that
is for each attribute (`movement_graphs.py`) and puts it into the filter.

*Rules.*
1. A filter that is loosened matches whatever any possible state would make it match: each literal for itself gets the
   union of its possible sets, or under a complement the intersection.
2. More steps never match less.
3. With no step the state is as it is: that is the exact test, and a reference without a value makes its literal match
   nothing. A reference with several values means any of them. With steps, a value that is not known, or of which
   nobody says how it changes, may be anything.
4. Where possible values are equal for two states, they are equal for all steps from there on.
5. A change of state costs no more than a bounded number of literals for each filter: see the bounds below. So a filter
   of more than `FOLLOWED_WEIGHT_MAX` literals is loosened for any state, and no change of it is told.

*Paper.* [rebeca §5.1, §5.3]. *Symbols.* Δ → `dwell_s`; δ_i → the round trip of link i; F_i → the filter loosened for
`elapsed_s` = δ_1 + … + δ_i; myloc → `my.location`.
*Departures.* The paper takes a step whenever the sum of the δ_i passes a multiple of Δ, and one at the first hop: that
is the rule `paper`, max(1, elapsed_s // dwell_s). With δ as round trips it is one step short when the news sets out
just before a change; `tests/simulation/test_walking.py` shows what that loses. The rule `bound` is ours. The paper's Δ
is an average; a guarantee needs the shortest stay. Numbers, points and any other state are ours: "dynamic filters" are
future work in [rebeca §6].
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from godwit.broker.exact_tests import OPEN_SETS_MAX
from godwit.errors import BadValue, FilterTooBig
from godwit.filters import regions, sets
from godwit.filters.events import Attributes
from godwit.filters.filters import FALSE, And, Filter, Missing, Or, Some, all_of, any_of, literals, only, some
from godwit.filters.references import OpenSet, Reference, is_open, references_of, replaced, sets_made
from godwit.filters.relations import unions
from godwit.filters.sets import EVERYTHING, NOTHING, Complement, ValueSet, complement
from godwit.filters.values import Kind, Point, Value, kind_of
from godwit.mobility.movement_graphs import Drift, Movement, MovementGraph

__all__ = [
    "ANYTHING",
    "PLACES_UNITED_MAX",
    "AnyValue",
    "Movements",
    "Possible",
    "PossibleArea",
    "PossibleRange",
    "PossibleValues",
    "Rule",
    "State",
    "steps",
]

STEPS_MAX = 1_000_000
OPEN_LITERALS_MAX = 128
"""How many literals of a filter may refer to the client's own state: each is bound again whenever that changes."""
BOUND_LITERALS_MAX = OPEN_SETS_MAX
"""How many literals these may become, by references with several values; a filter of more matches nothing."""
FOLLOWED_WEIGHT_MAX = 64
"""How large a filter may be for its states to be followed, in literals; of a larger one any state is possible."""

PLACES_UNITED_MAX = 4_096
"""How many places several clients, or one at several places, may be at; above that, anything is possible."""

State = Attributes
Rule = Literal["bound", "paper", "anything"]
"""How many steps to allow for: `bound` and `paper` see above, `anything`: any number, as with flooding."""


def steps(elapsed_s: float, dwell_s: float, rule: Rule = "bound") -> int:
    """How often a client that stays for `dwell_s` can have changed its state in `elapsed_s`. [rebeca §5.3]"""
    if elapsed_s >= STEPS_MAX * dwell_s:
        return STEPS_MAX
    passed = math.floor(elapsed_s / dwell_s)
    return passed + 1 if rule == "bound" else max(1, passed)


# ---------------------------------------------------------------- what may be


@dataclass(frozen=True, slots=True)
class PossibleValues:
    """One of these values."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class PossibleRange:
    """A number from `low` to `high`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PossibleArea:
    """A point within so many metres."""

    centre: Point
    metres: float


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Any value, or none."""


ANYTHING = AnyValue()
Possible = PossibleValues | PossibleRange | PossibleArea | AnyValue
Possibilities = Mapping[str, Possible]
"""By the name of a reference, what it may be. A name that is missing has no value, and will have none."""


class Movements:
    """How each attribute of a client's state can change, by its name; the same at all brokers of a network."""

    def __init__(self, movements: Mapping[str, Movement] | None = None, rule: Rule = "bound") -> None:
        self.movements = dict(movements or {})
        self.rule: Rule = rule

    def why_not(self, filter: Filter) -> str | None:
        """Why nobody here can say what a filter means, or None."""
        count_open = 0
        for literal in literals(filter):
            waiting = _open_set(literal)
            count_open += waiting is not None
            if count_open > OPEN_LITERALS_MAX:
                return f"more than {OPEN_LITERALS_MAX} literals of the filter refer to your own state (my.x, myloc)"
            if waiting is not None and waiting.builder == "vicinity":
                place, count = waiting.operands
                assert isinstance(place, Reference)
                if count and not isinstance(self.movements.get(place.name), MovementGraph):
                    return (
                        f"the filter asks what lies {count} steps around {place}, and there is no movement graph of it"
                    )
        return None

    def exact(self, filter: Filter, state: State) -> Filter:
        """The filter of a client whose state is just this: F_0. [rebeca §5.1: "perfect client-side filtering"]"""
        left = BOUND_LITERALS_MAX

        def made(waiting: OpenSet) -> list[ValueSet]:
            nonlocal left
            found = self.made(waiting, state)
            left -= len(found)
            if left < 0:
                raise FilterTooBig(f"a filter of more than {BOUND_LITERALS_MAX} literals for the values of its state")
            return found

        try:
            return replaced(filter, made)
        except FilterTooBig:  # by the many values that its references have
            return FALSE

    def made(self, waiting: OpenSet, state: State) -> list[ValueSet]:
        """The sets of a literal that refers to the client's state, when it is just this: any of them."""
        return sets_made(waiting, state, partial(self._near, waiting))

    def _near(self, waiting: OpenSet, place: Value, count: int) -> ValueSet:
        return self._around(waiting, PossibleValues((place,)))

    def weakest(self, filter: Filter) -> Filter:
        """The filter of a client in any state."""
        if not is_open(filter):
            return filter
        return self.loosened(filter, dict.fromkeys((name.name for name in references_of(filter)), ANYTHING))

    def possible(
        self,
        filter: Filter,
        state: State,
        elapsed_s: float | None,
        dwell_s: float | None,
        names: tuple[str, ...] | None = None,
    ) -> Possibilities:
        """What the references of a filter may be when `state` is `elapsed_s` old; None: nobody knows.

        `names`: of the references, where they are known already.
        """
        if names is None:
            names = tuple(reference.name for reference in references_of(filter))
        is_large = filter.weight > FOLLOWED_WEIGHT_MAX
        if is_large or elapsed_s is None or dwell_s is None or self.rule == "anything":
            return dict.fromkeys(names, ANYTHING)
        count = self.steps_within(elapsed_s, dwell_s)
        return {name: self._after(name, state[name], count) if name in state else ANYTHING for name in names}

    def steps_within(self, elapsed_s: float, dwell_s: float) -> int:
        """How many steps to allow for, by the rule of this network."""
        return steps(elapsed_s, dwell_s, self.rule)

    def united(self, filter: Filter) -> str | None:
        """The reference whose values may be united over clients with this filter, so that nothing else comes in.

        There must be one reference to a place of a movement graph. With two, a client at a and one at b would let in
        what is at a by the one and at b by the other.
        """
        waiting = [each for each in map(_open_set, literals(filter)) if each is not None]
        if len(waiting) != 1 or waiting[0].builder not in ("one_of", "vicinity"):
            return None
        references = waiting[0].references
        is_place = len(references) == 1 and isinstance(self.movements.get(references[0].name), MovementGraph)
        return references[0].name if is_place else None

    def _after(self, name: str, value: Value | tuple[Value, ...], count: int) -> Possible:
        movement = self.movements.get(name)
        if type(value) is tuple:
            if not isinstance(movement, MovementGraph) or not all(map(movement.has, value)):
                return ANYTHING
            places = movement.ploc_of_any(value, count, PLACES_UNITED_MAX)
            return ANYTHING if places is None else PossibleValues(places)
        assert not isinstance(value, tuple)
        match movement:
            case MovementGraph() if movement.has(value):
                return PossibleValues(movement.ploc(value, count))
            case Drift(step_max=step_max) if isinstance(value, Point):
                return PossibleArea(value, count * step_max)
            case Drift(step_max=step_max) if kind_of(value) is Kind.NUMBER:
                return PossibleRange(value - count * step_max, value + count * step_max)  # type: ignore[operator]
        return ANYTHING

    def loosened(self, filter: Filter, possible: Possibilities) -> Filter:
        """The filter for all that is possible. (rule 1)"""
        match filter:
            case And(parts=parts):
                return all_of(*(self.loosened(part, possible) for part in parts))
            case Or(parts=parts):
                return any_of(*(self.loosened(part, possible) for part in parts))
        waiting = _open_set(filter)
        if waiting is None:
            return filter
        assert not isinstance(filter, Missing)
        if any(reference.name not in possible for reference in waiting.references):
            return Some(filter.attribute, NOTHING)
        try:
            values = self._values(waiting, possible, is_complement=isinstance(filter.values, Complement))
        except BadValue:  # a value that does not fit, such as a text for a number of metres
            return Some(filter.attribute, NOTHING)
        return (some if isinstance(filter, Some) else only)(filter.attribute, values)

    def _values(self, waiting: OpenSet, possible: Possibilities, *, is_complement: bool) -> ValueSet:
        operands = [possible[o.name] if isinstance(o, Reference) else PossibleValues((o,)) for o in waiting.operands]  # type: ignore[arg-type]
        is_known = all(isinstance(operand, PossibleValues) and len(operand.values) == 1 for operand in operands)
        if waiting.builder == "vicinity":
            values = self._around(waiting, operands[0])
        elif is_known:
            values = _BUILDERS[waiting.builder](*(operand.values[0] for operand in operands))  # type: ignore[union-attr]
        elif is_complement:
            values = _common(waiting.builder, operands)
        else:
            values = _any(waiting.builder, operands)
        if is_complement:
            return complement(values) if is_known else complement(values if waiting.builder == "interval" else NOTHING)
        return values

    def _around(self, waiting: OpenSet, place: Possible) -> ValueSet:
        reference, count = waiting.operands
        if not isinstance(place, PossibleValues):
            return EVERYTHING
        graph = self.movements.get(reference.name) if isinstance(reference, Reference) else None
        found = place.values
        if count:
            if not isinstance(graph, MovementGraph) or not all(graph.has(value) for value in found):
                raise BadValue(f"{found[0]!r} is not a place of a movement graph")
            found = graph.around(found, count)  # type: ignore[arg-type]
        names = [value for value in found if isinstance(value, str)]
        return sets.places(names) if len(names) == len(found) else sets.one_of(found)


def _open_set(literal: Filter) -> OpenSet | None:
    if isinstance(literal, Missing | And | Or):
        return None
    values = literal.values.inner if isinstance(literal.values, Complement) else literal.values
    return values if isinstance(values, OpenSet) else None


# ---------------------------------------------------------------- sets of what may be


def _interval(low: Any, high: Any, low_open: bool, high_open: bool) -> ValueSet:
    return sets.interval(low, high, low_open=low_open, high_open=high_open)


def _circle(centre: Any, radius_m: Any) -> ValueSet:
    if not isinstance(centre, Point):
        raise BadValue(f"{centre!r} is not a point to draw a circle around")
    return regions.circle(centre.lon, centre.lat, radius_m)


def _like(pattern: Any) -> ValueSet:
    if not isinstance(pattern, str):
        raise BadValue(f"{pattern!r} is not a LIKE pattern")
    return sets.like(pattern)


_BUILDERS: dict[str, Callable[..., ValueSet]] = {
    "one_of": lambda *values: sets.one_of(values),
    "interval": _interval,
    "circle": _circle,
    "like": _like,
}


ORDERED = (Kind.NUMBER, Kind.TIME, Kind.TEXT)
NO_END: Possible = PossibleValues((None,))  # type: ignore[arg-type]


def _any(builder: str, operands: list[Possible]) -> ValueSet:
    """All that lies in one of the sets that `builder` may make."""
    if any(operand is ANYTHING for operand in operands) and builder != "interval":
        return EVERYTHING
    if builder == "one_of":
        joined = unions([_as_set(operand) for operand in operands])
        return joined[0] if len(joined) == 1 else EVERYTHING
    if builder == "interval":
        low, high = _end(operands[0], least=True), _end(operands[1], least=False)
        return EVERYTHING if low is high is None else _interval_or(low, high, operands, EVERYTHING)
    if builder == "circle" and isinstance(operands[0], PossibleValues | PossibleArea):
        radius = _end(operands[1], least=False)
        if isinstance(operands[0], PossibleValues) and len(operands[0].values) > 1:
            return EVERYTHING
        centre = operands[0].centre if isinstance(operands[0], PossibleArea) else operands[0].values[0]
        metres = operands[0].metres if isinstance(operands[0], PossibleArea) else 0.0
        if isinstance(radius, int | float) and not isinstance(radius, bool):
            return _circle(centre, radius + metres)
    return EVERYTHING


def _common(builder: str, operands: list[Possible]) -> ValueSet:
    """What lies in all of the sets that `builder` may make, or less. Only intervals are worth the trouble."""
    if builder != "interval" or any(operand is ANYTHING for operand in operands):
        return NOTHING
    low, high = _end(operands[0], least=False), _end(operands[1], least=True)
    unknown = [end for end, operand in ((low, operands[0]), (high, operands[1])) if end is None and operand != NO_END]
    return NOTHING if unknown else _interval_or(low, high, operands, NOTHING)


def _interval_or(low: Any, high: Any, operands: list[Possible], otherwise: ValueSet) -> ValueSet:
    low_open, high_open = (operand.values[0] for operand in operands[2:])  # type: ignore[union-attr]
    try:
        return _interval(low, high, bool(low_open) and low is not None, bool(high_open) and high is not None)
    except BadValue:
        return otherwise


def _end(operand: Possible, *, least: bool) -> Any:
    """The least or greatest that an operand may be; None when it has no such end."""
    match operand:
        case PossibleRange(low=low, high=high):
            return low if least else high
        case PossibleValues(values=values) if len(values) == 1:
            return values[0]
        case PossibleValues(values=values) if (kinds := {kind_of(value) for value in values}) and len(kinds) == 1:
            return None if kinds.isdisjoint(ORDERED) else (min if least else max)(values)  # type: ignore[type-var]
    return None


def _as_set(operand: Possible) -> ValueSet:
    match operand:
        case PossibleValues(values=values):
            return sets.one_of(values)
        case PossibleRange(low=low, high=high):
            return sets.interval(low, high)
        case PossibleArea(centre=centre, metres=metres):
            return regions.circle(centre.lon, centre.lat, metres)
    return EVERYTHING
