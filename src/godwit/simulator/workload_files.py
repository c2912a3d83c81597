"""A workload from two files of JSON lines, in the form that `godwit match` reads or as neutral expressions.

    {"id": 7, "filter": "price < 10"}                       {"id": 7, "expr": ["<", "price", 10]}
    {"id": 3, "attributes": {"price": 4}}                   {"id": 3, "attrs": {"price": 4}}

*Theory.* Subscriptions are used in the order of the file, and again from its beginning at its end. Events are
distributed to the publishers in turn. The advertisement of a publisher is computed from its events: for each attribute
that all of them have, its values.

*Rules.*
1. An invalid line is an error with file and number: a run never starts with a part of its workload.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from godwit.errors import GodwitError, ScenarioError
from godwit.filters.events import Attributes, flattened
from godwit.filters.filters import TRUE, Filter, all_of, any_of, negation, some
from godwit.filters.language import from_json, parse
from godwit.filters.references import is_open
from godwit.filters.sets import (
    EVERYTHING,
    ValueSet,
    at_least,
    at_most,
    between,
    complement,
    ends_with,
    holds_text,
    less_than,
    more_than,
    one_of,
    starts_with,
)
from godwit.filters.values import Value

__all__ = ["FileWorkload", "filter_of_expression", "workload_from_files"]

VALUES_LISTED_MAX = 16  # in an advertisement; more become a range, or are left out
LITERALS_MAX = 4  # of an advertisement: enough to tell publishers apart

SETS: dict[str, Callable[..., ValueSet]] = {
    "=": lambda value: one_of([value]),
    "!=": lambda value: complement(one_of([value])),
    "in": one_of,
    "<": less_than,
    "<=": at_most,
    ">": more_than,
    ">=": at_least,
    "between": between,
    "prefix": starts_with,
    "suffix": ends_with,
    "contains": holds_text,
    "exists": lambda: EVERYTHING,
}


class SubscriptionLine(msgspec.Struct):
    """A subscription: one of the two ways to say its filter."""

    filter: Any = None
    expr: list[Any] | None = None


class EventLine(msgspec.Struct):
    """An event: its attributes under one of two names."""

    attributes: dict[str, Any] | None = None
    attrs: dict[str, Any] | None = None


class FileWorkload:
    """Subscriptions of a file, and events distributed to the publishers."""

    def __init__(self, filters: Sequence[Filter], events: Sequence[Attributes], publishers: int) -> None:
        self._filters = filters
        self._hands = [events[publisher::publishers] or events for publisher in range(publishers)]
        self._advertised = [_advertised(hand) for hand in self._hands]

    def filter(self, k: int, rng: Random) -> Filter:
        """The k-th of the file."""
        return self._filters[k % len(self._filters)]

    def attributes(self, publisher: int, k: int, rng: Random) -> Attributes:
        """The k-th event of the publisher."""
        hand = self._hands[publisher]
        return hand[k % len(hand)]

    def advertisement(self, publisher: int, variant: int = 0) -> Filter:
        """What all its events have in common; other variants leave something out."""
        literals = self._advertised[publisher]
        return all_of(*literals[: max(len(literals) - variant % 3, 0)]) if literals else TRUE


def workload_from_files(subscriptions: str, events: str, publishers: int) -> FileWorkload:
    """The workload of two files."""
    filters = [_filter(line, at) for at, line in _decoded(subscriptions, SubscriptionLine)]
    said = [_attributes(line, at) for at, line in _decoded(events, EventLine)]
    for file, found in ((subscriptions, filters), (events, said)):
        if not found:
            raise ScenarioError(f"{file}: the file is empty")
    return FileWorkload(filters, said, publishers)


def filter_of_expression(expression: Any) -> Filter:
    """The filter of a neutral expression such as `["and", ["=", "sym", "S3"], ["<", "price", 2.5]]`."""
    match expression:
        case ["and", *parts]:
            return all_of(*map(filter_of_expression, parts))
        case ["or", *parts]:
            return any_of(*map(filter_of_expression, parts))
        case ["not", part]:
            return negation(filter_of_expression(part))
        case [str(operator), str(attribute), *constants] if operator in SETS:
            try:
                return some(attribute, SETS[operator](*constants))
            except TypeError:
                pass
    raise ScenarioError(f"{str(expression)[:60]} is not an expression")


def _decoded(file: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """Each line that is not blank, decoded, with file and number."""
    decoder = msgspec.json.Decoder(kind)
    try:
        with Path(file).open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.isspace():
                    continue
                try:
                    yield f"{file}:{number}", decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    raise ScenarioError(f"{file}:{number}: {error}") from None
    except OSError as error:
        raise ScenarioError(f"{file}: {error.strerror}") from None


def _filter(line: SubscriptionLine, at: str) -> Filter:
    try:
        if line.expr is not None:
            return filter_of_expression(line.expr)
        found = _parsed(line.filter) if isinstance(line.filter, str) else from_json(line.filter)
        if is_open(found):
            raise ScenarioError(
                "the filter refers to a subscriber's own state, and there is no subscriber to bind it to"
            )
        return found
    except (GodwitError, RecursionError) as error:
        raise ScenarioError(f"{at}: {error}") from None


@cache
def _parsed(text: str) -> Filter:
    return parse(text)


def _attributes(line: EventLine, at: str) -> Attributes:
    try:
        return flattened(line.attributes if line.attributes is not None else line.attrs or {})
    except GodwitError as error:
        raise ScenarioError(f"{at}: {error}") from None


def _advertised(events: Sequence[Attributes]) -> list[Filter]:
    """For attributes that all events have, a set that holds the values."""
    names = [name for name in events[0] if all(name in each for each in events)]
    return [
        some(name, _hull([value for each in events for value in _values(each[name])])) for name in names[:LITERALS_MAX]
    ]


def _values(held: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    return held if isinstance(held, tuple) else (held,)


def _hull(values: list[Value]) -> ValueSet:
    listed = one_of(values[: VALUES_LISTED_MAX * 64]) if len(values) <= VALUES_LISTED_MAX * 64 else EVERYTHING
    if len(getattr(listed, "members", values)) <= VALUES_LISTED_MAX:
        return listed
    if all(type(value) in (int, float) for value in values):
        return between(min(values), max(values))  # type: ignore[type-var]
    return EVERYTHING
