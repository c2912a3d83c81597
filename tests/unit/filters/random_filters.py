"""Filters and events drawn from a seed, with values that collide: for tests that need hundreds of them at once.

The laws in tests/property draw few and shrink what fails; here the number matters, and that a run can be repeated in
another process.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from godwit.filters.events import event
from godwit.filters.filters import Filter, all_of, any_of, missing, negation, only, present, some
from godwit.filters.regions import box, circle, polygon
from godwit.filters.sets import (
    ValueSet,
    all_of_kind,
    complement,
    ends_with,
    holds_text,
    interval,
    like,
    one_of,
    places,
    starts_with,
)
from godwit.filters.values import Kind, Point
from godwit.matching.matcher import Matcher

NUMBER_NAMES, TEXT_NAMES, OTHER_NAMES = ("price", "volume", "speed"), ("symbol", "place"), ("where", "seen", "open")
NAMES = NUMBER_NAMES + TEXT_NAMES + OTHER_NAMES
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def number(draw: Random) -> Any:
    return draw.choice([draw.randrange(20), draw.randrange(40) / 2, draw.randrange(1_000)])


def text(draw: Random) -> str:
    return "".join(draw.choice("abcé") for _ in range(draw.randrange(1, 5)))


def point(draw: Random) -> Point:
    return Point(draw.choice([-180, 180, draw.randrange(-180, 181), draw.uniform(-10, 10)]), draw.randrange(-90, 91))


def moment(draw: Random) -> datetime:
    return NEW_YEAR + timedelta(minutes=draw.randrange(100))


def value(draw: Random, name: str) -> Any:
    if draw.random() < 0.05:
        return draw.choice([True, False, 0, 1, "", "a"])
    if name in NUMBER_NAMES:
        return number(draw)
    if name in TEXT_NAMES:
        return text(draw)
    return {"where": point, "seen": moment, "open": lambda draw: draw.random() < 0.5}[name](draw)


def value_set(draw: Random, name: str) -> ValueSet:
    kind = draw.randrange(6)
    if kind == 0 or name == "open":
        return one_of([value(draw, name) for _ in range(draw.choice([1, 1, 2, 3, 30]))])
    if name in NUMBER_NAMES or name == "seen":
        make = number if name in NUMBER_NAMES else moment
        low, high = sorted([make(draw), make(draw)])
        ends: Any = draw.choice([(low, high), (low, None), (None, high)])
        return interval(*ends, low_open=draw.random() < 0.5, high_open=draw.random() < 0.5)
    if name in TEXT_NAMES:
        made: list[ValueSet] = [
            starts_with(text(draw)),
            ends_with(text(draw)),
            holds_text(text(draw)),
            like(f"{text(draw)}%{text(draw)}"),
            like(f"_{text(draw)}%"),
            places([text(draw), text(draw)]),
            all_of_kind(Kind.TEXT),
            interval(*sorted(["a" + text(draw), "b" + text(draw)])),
        ]
        return draw.choice(made)
    west, south = draw.randrange(-180, 170), draw.randrange(-90, 80)
    return draw.choice(
        [
            box(west, south, west + 10, south + 10),
            box(170, south, -170, south + 10),
            circle(west, south, draw.choice([0, 300_000, 3_000_000])),
            polygon([(west, south), (west + 10, south), (west, south + 10)]),
        ]
    )


def literal(draw: Random) -> Filter:
    name = draw.choice(NAMES)
    if draw.random() < 0.08:
        return draw.choice([present, missing])(name)
    values = value_set(draw, name)
    if draw.random() < 0.2:
        values = complement(values)
    return (only if draw.random() < 0.2 else some)(name, values)


def random_filter(draw: Random, depth: int = 2) -> Filter:
    """A literal, or a few filters one level less deep put together."""
    if not depth or draw.random() < 0.2:
        return literal(draw)
    parts = [random_filter(draw, depth - 1) for _ in range(draw.choice([1, 2, 2, 3, 10]))]
    made = (all_of if draw.random() < 0.6 else any_of)(*parts)
    return negation(made) if draw.random() < 0.1 else made


def random_attributes(draw: Random) -> dict[str, Any]:
    """What an event has: some of the names, now and then with several values."""
    return {
        name: [value(draw, name) for _ in range(draw.randrange(2, 5))] if draw.random() < 0.1 else value(draw, name)
        for name in NAMES
        if draw.random() < 0.7
    }


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The same events as a batch."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names} or {"nothing": [None] * len(rows)}


def assert_same(matcher: Matcher, naive: Matcher, rows: Iterable[Mapping[str, Any]]) -> None:
    """Both say the same of each event, by itself and in a batch, and name nobody twice."""
    rows = list(rows)
    expected = [_sorted(naive.match(event(row))) for row in rows]
    assert [_sorted(matcher.match(event(row))) for row in rows] == expected
    assert [_sorted(ids) for ids in matcher.match_batch(columns_of(rows))] == expected
    assert len(matcher) == len(naive)


def _sorted(ids: Iterable[Any]) -> list[Any]:
    return sorted(ids, key=lambda id: (type(id).__name__, repr(id)))
