"""Why one filter covers another, or not; why two intersect, or not: explanations for people.

*Theory.* `algebra.covers(f, g)` takes g apart into conjunctions and looks in each for literals that imply those of f.
`why_covers` goes the same way and writes down what it finds: for each literal that f wants, the literal of g that gives
it. A no is better shown by an event: one that g matches and f does not. `example` looks for it among the few values
that matter, which are the bounds of the sets in question and their neighbours, one for each way the literals can come
out.

*Rules.*
1. The answers are those of `algebra`; only the reasons are added, and those of at most `CASES_MAX` cases.
2. An example is checked against the filters themselves before it is given. That none is found proves nothing.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations, islice, product
from typing import Any

from godwit.filters.algebra import Conjunction, conjunction_implies, implies, normal_form, satisfiable
from godwit.filters.events import Attributes
from godwit.filters.filters import And, Filter, Literal, Missing, Or, literals
from godwit.filters.references import is_open
from godwit.filters.regions import Circle, Polygon, Region
from godwit.filters.sets import (
    Complement,
    Interval,
    Like,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    TopicPattern,
    ValueSet,
)
from godwit.filters.topic_patterns import ANY_LEVEL, SEPARATOR
from godwit.filters.values import Kind, Point, Value, identity

SAMPLES_MAX = 40
EVENTS_MAX = 4_096
CASES_MAX = 100
EXAMPLES_TRIED_MAX = 64


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the wide filter, and the literal of the narrow one that implies it; None when nothing does."""

    wanted: Filter
    given: Literal | None


@dataclass(frozen=True, slots=True)
class Case:
    """One way to match the narrow filter, and what each part of the wide one has from it."""

    conjunction: Conjunction
    steps: tuple[Step, ...]

    @property
    def holds(self) -> bool:
        """Whether the wide filter matches in this case."""
        return all(step.given is not None for step in self.steps)


@dataclass(frozen=True, slots=True)
class CoveringExplanation:
    """Whether a filter covers another, case by case. `example` matches the narrow one and not the wide one."""

    answer: bool
    cases: tuple[Case, ...]
    example: Attributes | None = None


@dataclass(frozen=True, slots=True)
class IntersectionExplanation:
    """Whether two filters intersect. `example` matches both; `clashes` are literals that exclude each other."""

    answer: bool
    clashes: tuple[tuple[Literal, Literal], ...]
    example: Attributes | None = None


def why_covers(f: Filter, g: Filter) -> CoveringExplanation:
    """Whether all that matches `g` matches `f`, and why."""
    answer = f.covers(g)
    cases = tuple(Case(conjunction, tuple(_steps(conjunction, f))) for conjunction in _conjunctions(g))
    failing = [] if answer else [case for case in cases if not case.holds]
    found = (
        example(case.conjunction, literals(f), lambda held: g.holds(held) and not f.holds(held))
        for case in failing[:EXAMPLES_TRIED_MAX]
    )
    return CoveringExplanation(answer, cases, _first(found))


def _steps(conjunction: Conjunction, f: Filter) -> Iterator[Step]:
    match f:
        case And(parts=parts):
            for part in parts:
                yield from _steps(conjunction, part)
        case Or(parts=parts):
            implied = next((part for part in parts if conjunction_implies(conjunction, part)), None)
            if implied is None:  # no part alone, but perhaps several together
                yield Step(f, next((x for x in conjunction if conjunction_implies((x,), f)), None))
            else:
                yield from _steps(conjunction, implied)
        case _:
            yield Step(f, next((literal for literal in conjunction if implies(literal, f)), None))


def why_intersects(f: Filter, g: Filter) -> IntersectionExplanation:
    """Whether some event could match both, and why."""
    pairs = list(product(_conjunctions(f), _conjunctions(g)))
    if f.intersects(g):
        meeting = (a + b for a, b in pairs[:EXAMPLES_TRIED_MAX] if satisfiable(a + b))
        found = (example(joined, (), lambda held: f.holds(held) and g.holds(held)) for joined in meeting)
        return IntersectionExplanation(True, (), _first(found))
    clashes = dict.fromkeys(clash for a, b in pairs if (clash := _clash(a, b)) is not None)
    return IntersectionExplanation(False, tuple(islice(clashes, EXAMPLES_TRIED_MAX)))


def _clash(a: Conjunction, b: Conjunction) -> tuple[Literal, Literal] | None:
    """A literal of `a` and one of `b` that exclude each other."""
    return next(((x, y) for x in a for y in b if not satisfiable((x, y))), None)


def _conjunctions(filter: Filter) -> list[Conjunction]:
    """The ways to match a filter, or the first of them when they are many."""
    parts = filter.parts if isinstance(filter, Or) else (filter,)
    return list(islice((conjunction for part in parts for conjunction in normal_form(part).conjunctions), CASES_MAX))


def _first(found: Iterable[Attributes | None]) -> Attributes | None:
    return next((held for held in found if held is not None), None)


# ---------------------------------------------------------------- examples


def example(
    conjunction: Conjunction, others: Iterable[Literal], is_wanted: Callable[[Attributes], bool]
) -> Attributes | None:
    """Attributes that meet `conjunction` and are wanted, tried in all ways that matter to `others`; or None."""
    concerned: dict[str, list[Literal]] = {}
    for literal in (*conjunction, *others):
        if is_open(literal):
            return None
        concerned.setdefault(literal.attribute, []).append(literal)
    choices = [
        [(name, held) for held in _choices(concerned[name], [x for x in conjunction if x.attribute == name])]
        for name in concerned
    ]
    for chosen in islice(product(*choices), EVENTS_MAX):
        attributes: Attributes = {name: held for name, held in chosen if held is not None}
        if is_wanted(attributes):
            return attributes
    return None


def _choices(concerned: list[Literal], met: list[Literal]) -> list[Any]:
    """What one attribute may hold to meet `met`: one choice for each way the `concerned` literals can come out."""
    sampled = list({identity(value): value for value in _samples(concerned)}.values())[:SAMPLES_MAX]
    chosen: dict[tuple[bool, ...], Any] = {}
    for held in (None, *sampled, *combinations(sampled, 2)):
        attributes: Attributes = {} if held is None else {concerned[0].attribute: held}
        if all(literal.holds(attributes) for literal in met):
            chosen.setdefault(tuple(literal.holds(attributes) for literal in concerned), held)
    return list(chosen.values())


def _samples(concerned: list[Literal]) -> Iterator[Value]:
    for literal in concerned:
        if not isinstance(literal, Missing):
            yield from _near(literal.values)
    yield from (0, "other", True, Point(0, 0), datetime(2026, 1, 1, tzinfo=UTC))


def _near(values: ValueSet) -> Iterator[Value]:
    """Values in a set, at its border and just outside."""
    match values:
        case Complement(inner):
            yield from _near(inner)
        case OneOf(values=members):
            for member in members[:8]:
                yield from (member, *_neighbours(member))
        case Places(names):
            yield from names[:8]
        case Interval(kind=kind, low=low, high=high):
            yield from _between(kind, low, high)
            for end in (low, high):
                if end is not None:
                    yield from (end, *_neighbours(end))
        case Prefix(text):
            yield from (text, f"{text}x")
        case Suffix(text):
            yield from (text, f"x{text}")
        case Substring(text):
            yield from (text, f"x{text}x")
        case Like(segments=segments):
            fixed = ["".join(character or "x" for character in segment) for segment in segments]
            yield from ("".join(fixed), "x".join(fixed))
        case TopicPattern(levels=(levels, _)):
            one = SEPARATOR.join("x" if level == ANY_LEVEL else level for level in levels)
            yield from (one, f"{one}/x", one.rpartition(SEPARATOR)[0], f"$x/{one}", one.replace("x", "y"))
        case Region():
            yield from _landmarks(values)


def _between(kind: Kind, low: Any, high: Any) -> Iterator[Value]:
    if low is not None and high is not None and kind is not Kind.TEXT:
        yield low + (high - low) / 2


def _neighbours(value: Value) -> Iterator[Value]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (value - 1, value + 1, math.nextafter(value, -math.inf), math.nextafter(value, math.inf))
        case str():
            yield from (value[:-1], f"{value}x", f"{value}\0")
        case datetime():
            for step in (-1, 1):
                try:
                    yield value + timedelta(seconds=step)
                except OverflowError:
                    continue


def _landmarks(region: Region) -> Iterator[Value]:
    west, south, east, north = region.bounds
    if isinstance(region, Circle):
        yield region.centre
    elif west <= east:
        yield Point((west + east) / 2, (south + north) / 2)
    yield from (Point(lon, lat) for lon in (west, east) for lat in (south, north))
    if isinstance(region, Polygon):
        yield from region.corners[:8]


# ---------------------------------------------------------------- one event


def failing(filter: Filter, attributes: Attributes) -> tuple[Filter, ...]:
    """The smallest parts of a filter that keep it from matching; of alternatives, those of each. Empty: it matches."""
    if filter.holds(attributes):
        return ()
    match filter:
        case And(parts=parts) | Or(parts=parts):
            return tuple(dict.fromkeys(found for part in parts for found in failing(part, attributes)))
    return (filter,)
