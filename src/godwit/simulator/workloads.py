"""Workloads: filters of subscriptions, attributes of events, and advertisements.

*Theory.* A workload answers three questions: the filter of the k-th subscription, the attributes of a publisher's k-th
event, and an advertisement of a publisher. There are five kinds.

- **random**: events have a topic, with a Zipf distribution, and numbers; a filter has some topics and ranges of some
  numbers. *Selectivity* is the probability that an event of a random publisher matches a filter. It is exact by
  construction: a filter's topics have together a probability p of at least the selectivity s, and its ranges match s/p,
  an equal share each. Starts of ranges are on a grid and there are three widths, so that equal, covering and mergeable
  filters are common.
- **publications** [pubmob §4]: each publisher has one publication, and a subscriber subscribes to one of them.
- **mixed**: all kinds of filters (OR, NOT, several values, missing attributes, texts, regions) over few values: to find
  bugs, not for measurements.
- **places** [rebeca §3.3]: events have a place of the movement graph on which subscribers walk; a filter selects one
  service at most `radius` steps away.
- **files**: subscriptions and events in the format of `godwit match`.

*Rules.*
1. An advertisement matches every event of its publisher, in each of its variants.
2. Random choices use the caller's `Random`, in an order that depends on nothing else.
3. Attributes are valid for an `Event`.

*Symbols.* s → `selectivity`; Zipf's exponent → `skew`; [pubmob §4] locality x → `locality`.
"""

import bisect
from collections.abc import Sequence
from itertools import accumulate, chain
from random import Random
from typing import Annotated, Literal, Protocol

import msgspec

from godwit.errors import ScenarioError
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter, all_of, any_of, missing, negation, only, present, some
from godwit.filters.references import LOCATION, Reference, vicinity
from godwit.filters.regions import box, circle
from godwit.filters.sets import (
    ValueSet,
    at_least,
    between,
    complement,
    ends_with,
    holds_text,
    interval,
    less_than,
    one_of,
    starts_with,
)
from godwit.filters.values import Point, Value

__all__ = [
    "MixedWorkload",
    "PlacesWorkload",
    "Publications",
    "RandomWorkload",
    "Workload",
    "WorkloadSpec",
    "Zipf",
    "workload_of",
]

NUMBER_MAX = 9_999  # numbers of random events are whole, from 0
GRID = 100  # starts of ranges are multiples of it
HOMES = 4  # the first number of a publisher's events lies in one quarter of the numbers
TOPICS_EACH = 5  # topics of a publisher, one of them perhaps twice
TOPICS_DRAWN_MAX = 100  # for one filter; if they are too unlikely, the most popular join them
SIZES = (0.5, 1.0, 1.5)  # of a filter's range beside the one that gives the selectivity; their mean is 1


class WorkloadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The workload section of a scenario."""

    kind: Literal["random", "publications", "mixed", "files", "places"] = "random"
    selectivity: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.1  # random: how likely an event matches a filter
    skew: Annotated[float, msgspec.Meta(ge=0, le=4)] = 0.0  # random: Zipf's exponent; 0 makes all topics alike
    topics: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 20
    attributes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3  # random: numbers an event has
    predicates: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2  # random: numbers a filter asks about
    locality: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0  # publications: share of publishers with the same one
    radius: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0  # places: steps around a walker that concern it
    subscriptions_file: str = ""
    events_file: str = ""


class Workload(Protocol):
    """The interface of a workload."""

    def filter(self, k: int, rng: Random) -> Filter:
        """The filter of the k-th subscription; a replaced filter has a new k."""

    def attributes(self, publisher: int, k: int, rng: Random) -> Attributes:
        """The attributes of the k-th event of a publisher."""

    def advertisement(self, publisher: int, variant: int = 0) -> Filter:
        """A filter that matches all events of the publisher: variant 0 is the narrowest, others are wider."""


def workload_of(spec: WorkloadSpec, publishers: int, rng: Random, places: Sequence[Value] = ()) -> Workload:
    """The workload of a scenario with this number of publishers."""
    match spec.kind:
        case "random":
            return RandomWorkload(spec, publishers, rng)
        case "publications":
            return Publications(publishers, spec.locality, rng)
        case "places":
            return PlacesWorkload(spec, publishers, places, rng)
        case "mixed":
            return MixedWorkload(publishers, rng)
        case "files":
            from godwit.simulator.workload_files import workload_from_files

            return workload_from_files(spec.subscriptions_file, spec.events_file, publishers)
    raise ScenarioError(f"workload.kind is {spec.kind!r}")


class Zipf:
    """Numbers from 0 to n-1, the i-th as likely as 1/(i+1)**exponent."""

    def __init__(self, n: int, exponent: float) -> None:
        weights = list(accumulate((i + 1) ** -exponent for i in range(n)))
        self._up_to: list[float] = [weight / weights[-1] for weight in weights]

    def draw(self, rng: Random) -> int:
        """One of them."""
        return min(bisect.bisect_right(self._up_to, rng.random()), len(self._up_to) - 1)

    def probability(self, number: int) -> float:
        """How likely it is."""
        return self._up_to[number] - self._up_to[number - 1] if number else self._up_to[0]


# ---------------------------------------------------------------- random


class _Home(msgspec.Struct, frozen=True):
    """The range of a publisher's events: its topics, and the bounds of the first number."""

    topics: tuple[int, ...]
    low: int
    high: int


class RandomWorkload:
    """Filters and events with a chosen selectivity and skew."""

    def __init__(self, spec: WorkloadSpec, publishers: int, rng: Random) -> None:
        if spec.predicates > spec.attributes:
            raise ScenarioError(
                f"workload.predicates is {spec.predicates}: allowed is a whole number from 1 to {spec.attributes}, "
                "which workload.attributes is"
            )
        self._spec = spec
        self._zipf = Zipf(spec.topics, spec.skew)
        self._topics = tuple(f"t{number}" for number in range(spec.topics))
        self._names = tuple(f"x{number}" for number in range(spec.attributes))
        self._homes = tuple(self._home(rng) for _ in range(publishers))

    def _home(self, rng: Random) -> _Home:
        """Random topics and a random quarter: over all publishers, events are distributed as if there were no
        ranges."""
        topics = tuple(self._zipf.draw(rng) for _ in range(TOPICS_EACH))
        quarter = rng.randrange(HOMES)
        width = (NUMBER_MAX + 1) // HOMES
        return _Home(topics, quarter * width, (quarter + 1) * width - 1)

    def filter(self, k: int, rng: Random) -> Filter:
        """Some topics and some ranges that together match an event with the chosen probability."""
        wanted: dict[int, None] = {}
        probability = 0.0
        for number in chain((self._zipf.draw(rng) for _ in range(TOPICS_DRAWN_MAX)), range(len(self._topics))):
            if number not in wanted:
                wanted[number] = None
                probability += self._zipf.probability(number)
            if probability >= self._spec.selectivity:
                break
        rest = min(self._spec.selectivity / probability, 1.0)
        if rest * SIZES[-1] <= 1:
            rest *= rng.choice(SIZES)
        width = max(1, round(rest ** (1 / self._spec.predicates) * (NUMBER_MAX + 1)))
        names = rng.sample(self._names, self._spec.predicates)
        ranges = [some(name, self._range(width, rng)) for name in sorted(names)]
        return all_of(some("topic", one_of([self._topics[number] for number in wanted])), *ranges)

    def _range(self, width: int, rng: Random) -> ValueSet:
        low = min(GRID * rng.randrange(NUMBER_MAX // GRID + 1), NUMBER_MAX + 1 - width)
        return between(low, low + width - 1)

    def attributes(self, publisher: int, k: int, rng: Random) -> Attributes:
        """A topic of the publisher, and numbers."""
        home = self._homes[publisher]
        said: dict[str, Value] = {"topic": self._topics[rng.choice(home.topics)]}
        for name in self._names:
            said[name] = rng.randint(0, NUMBER_MAX)
        said[self._names[0]] = rng.randint(home.low, home.high)
        return said

    def advertisement(self, publisher: int, variant: int = 0) -> Filter:
        """Its topics and its quarter; in turn both, the topics alone, the quarter alone."""
        home = self._homes[publisher]
        topics = some("topic", one_of([self._topics[number] for number in home.topics]))
        quarter = some(self._names[0], between(home.low, home.high))
        return (all_of(topics, quarter), topics, quarter)[variant % 3]


# ---------------------------------------------------------------- publications


class Publications:
    """Each publisher has one publication, and a subscriber subscribes to that of one publisher. [pubmob §4]"""

    def __init__(self, publishers: int, locality: float, rng: Random) -> None:
        order = list(range(publishers))
        rng.shuffle(order)
        alike = set(order[: round(locality * publishers)])  # [pubmob §4.3] x% of the publishers publish the same
        self._said = tuple(f"publication {-1 if number in alike else number}" for number in range(publishers))

    def filter(self, k: int, rng: Random) -> Filter:
        """A random publication."""
        return some("publication", one_of([rng.choice(self._said) if self._said else "none"]))

    def attributes(self, publisher: int, k: int, rng: Random) -> Attributes:
        """The publisher's publication, whatever its number."""
        return {"publication": self._said[publisher]}

    def advertisement(self, publisher: int, variant: int = 0) -> Filter:
        """Exactly the publication: a wider filter would intersect every subscription to one more value.

        Other variants include a few more.
        """
        return only("publication", one_of({self._said[publisher], *self._said[: variant % 4]}))


# ---------------------------------------------------------------- places


class PlacesWorkload:
    """Services at places: a walker subscribes to one service near its place. [rebeca §3.3: parking]"""

    def __init__(self, spec: WorkloadSpec, publishers: int, places: Sequence[Value], rng: Random) -> None:
        self._places = places
        self._radius = spec.radius
        self._services = tuple(f"t{number}" for number in range(spec.topics))
        self._said = tuple(rng.choice(self._services) for _ in range(publishers))

    def filter(self, k: int, rng: Random) -> Filter:
        """A service, at most this number of steps from the walker."""
        service = rng.choice(self._said or self._services)
        return all_of(some("service", one_of([service])), some("location", vicinity(Reference(LOCATION), self._radius)))

    def attributes(self, publisher: int, k: int, rng: Random) -> Attributes:
        """Its service, at a random place."""
        return {"service": self._said[publisher], "location": rng.choice(self._places), "cost": rng.randrange(10)}

    def advertisement(self, publisher: int, variant: int = 0) -> Filter:
        """Its service; other variants include a few more."""
        return some("service", one_of({self._said[publisher], *self._services[: variant % 4]}))


# ---------------------------------------------------------------- mixed

KINDS = ("alert/ice", "alert/flood", "parking", "van")
TEXTS = ("a", "ab", "abc", "b", "ba", "é")
NUMBERS = 20
AWAY = 0.15  # share of events in which an attribute is missing
SEVERAL = 0.15  # share of attributes with several values


class MixedWorkload:
    """All kinds of filters, over so few values that all relations between filters occur."""

    def __init__(self, publishers: int, rng: Random) -> None:
        self._homes = tuple((rng.choice(KINDS), rng.randrange(0, NUMBERS, 5)) for _ in range(publishers))

    def filter(self, k: int, rng: Random) -> Filter:
        """A literal, or a combination of a few, sometimes negated."""
        return _mixed_filter(rng, depth=2)

    def attributes(self, publisher: int, k: int, rng: Random) -> Attributes:
        """The publisher's kind, a price in its range, and other attributes that may be missing or have several
        values."""
        kind, price = self._homes[publisher]
        said: dict[str, Value | tuple[Value, ...]] = {"kind": kind, "price": rng.randrange(price, price + 10)}
        for name in ("speed", "tag", "place", "open"):
            if rng.random() >= AWAY:
                several = rng.random() < SEVERAL
                said[name] = (_value(name, rng), _value(name, rng)) if several else _value(name, rng)
        return said

    def advertisement(self, publisher: int, variant: int = 0) -> Filter:
        """Its kind and its prices, one of the two, or an OR with another kind."""
        kind, price = self._homes[publisher]
        kinds, prices = some("kind", one_of([kind])), some("price", between(price, price + 9))
        other = some("kind", one_of([KINDS[variant % len(KINDS)]]))
        return (all_of(kinds, prices), kinds, prices, any_of(all_of(kinds, prices), other))[variant % 4]


def _value(name: str, rng: Random) -> Value:
    match name:
        case "kind":
            return rng.choice(KINDS)
        case "price" | "speed":
            return rng.choice([rng.randrange(NUMBERS), rng.randrange(2 * NUMBERS) / 2])
        case "tag":
            return rng.choice(TEXTS)
        case "place":
            return Point(rng.randrange(10), rng.randrange(10))
    return rng.random() < 0.5


def _mixed_filter(rng: Random, depth: int) -> Filter:
    if not depth or rng.random() < 0.25:
        return _mixed_literal(rng)
    parts = [_mixed_filter(rng, depth - 1) for _ in range(rng.choice([2, 2, 3]))]
    made = (all_of if rng.random() < 0.5 else any_of)(*parts)
    return negation(made) if rng.random() < 0.1 else made


def _mixed_literal(rng: Random) -> Filter:
    name = rng.choice(("kind", "kind", "price", "price", "speed", "tag", "place", "open"))
    if rng.random() < 0.08:
        return rng.choice([present, missing])(name)
    values = _mixed_set(name, rng)
    if rng.random() < 0.15:
        values = complement(values)
    return (only if rng.random() < 0.15 else some)(name, values)


def _mixed_set(name: str, rng: Random) -> ValueSet:
    if name == "open" or rng.random() < 0.25:
        return one_of([_value(name, rng) for _ in range(rng.choice([1, 1, 2, 3]))])
    if name in ("price", "speed"):
        low = rng.randrange(NUMBERS)
        high = low + rng.randrange(1, NUMBERS // 2)
        drawn: Sequence[ValueSet] = (
            interval(low, high, low_open=rng.random() < 0.3, high_open=rng.random() < 0.3),
            at_least(low),
            less_than(high),
        )
        return rng.choice(drawn)
    if name in ("tag", "kind"):
        text = rng.choice(TEXTS) if name == "tag" else rng.choice(("alert/", "a", "p", "van"))
        return rng.choice((starts_with, ends_with, holds_text))(text)
    west, south = rng.randrange(10), rng.randrange(10)
    if rng.random() < 0.5:
        return circle(west, south, rng.choice([100_000, 400_000]))
    return box(west, south, west + rng.randrange(1, 6), south + rng.randrange(1, 6))
