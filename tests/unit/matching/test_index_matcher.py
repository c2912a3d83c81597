"""The index where it could go wrong: labels without room, garbage, growth, large filters and events, batches.

What random filters show is in tests/property/test_matching_laws.py; here each test aims at one place. The naive
matcher says what is right.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pytest

from godwit.errors import BadEvent
from godwit.filters.events import ATTRIBUTES_MAX, VALUES_MAX, event
from godwit.filters.filters import (
    DEPTH_MAX,
    LITERALS_MAX,
    Filter,
    all_of,
    any_of,
    missing,
    negation,
    only,
    present,
    some,
)
from godwit.filters.regions import box, circle, polygon
from godwit.filters.sets import (
    ValueSet,
    at_least,
    at_most,
    between,
    complement,
    ends_with,
    holds_text,
    interval,
    less_than,
    like,
    more_than,
    one_of,
    starts_with,
)
from godwit.filters.values import Point
from godwit.matching import event_encoder, masks, substrings
from godwit.matching.index_matcher import DEAD_SPARE, SAMPLE, STAMP_MAX, IndexMatcher
from godwit.matching.kernels import DEAD
from godwit.matching.labels import GAP_MIN
from godwit.matching.matcher import Matcher, SubscriptionId
from godwit.matching.naive_matcher import NaiveMatcher
from tests.seeds import slow
from tests.unit.filters.random_filters import NEW_YEAR, assert_same, columns_of, random_attributes, random_filter

Row = Mapping[str, Any]


class Pair:
    """An index and the naive matcher, told the same and asked the same."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self.index, self.naive = IndexMatcher(), NaiveMatcher()
        self.add_many(enumerate(filters))

    @property
    def both(self) -> tuple[Matcher, Matcher]:
        return self.index, self.naive

    def add(self, id: SubscriptionId, filter: Filter, expires: float | None = None) -> None:
        for each in self.both:
            each.add(id, filter, expires)

    def add_many(self, subscriptions: Iterable[tuple[SubscriptionId, Filter]]) -> None:
        subscriptions = list(subscriptions)
        for each in self.both:
            each.add_many(subscriptions)

    def replace(self, id: SubscriptionId, filter: Filter) -> None:
        for each in self.both:
            each.replace(id, filter)

    def remove(self, id: SubscriptionId) -> None:
        for each in self.both:
            each.remove(id)

    def check(self, rows: Iterable[Row]) -> None:
        assert_same(self.index, self.naive, rows)

    def check_values(self, *values: Any, name: str = "x") -> None:
        """Each value by itself, all of them together, and no value at all."""
        self.check([*({name: value} for value in values), {name: list(values)}, {"other": 1}])


def sizes(index: IndexMatcher) -> dict[str, int]:
    """How much an index holds, live and dead."""
    layout, compiler = index._layout, index._compiler
    return {
        "ids": len(index._ids),
        "stamps": len(layout.stamps),
        "rows": len(layout.rows),
        "tests": len(layout.tests),
        "nodes": len(layout.nodes),
        "records": len(layout.records),
        "table": len(layout.table),
        "formulas": len(compiler.nodes),
        "residuals": len(compiler.residuals),
        "constants": sum(len(c.labels) for slot in compiler.slots for c in slot.constants.values()),
        "slots": len(compiler.slots),
    }


# ---------------------------------------------------------------- labels: a gap that shrinks

STEPS = 250

CONSTANTS: dict[str, Callable[[int], Any]] = {
    "ascending": lambda n: n,
    "descending": lambda n: -n,
    "ascending into a gap": lambda n: -(2.0**-n) if n else 0,
    "descending into a gap": lambda n: 2.0**-n if n else 0,
    "from both sides into a gap": lambda n: (-0.5) ** n,
    "beyond 2**53": lambda n: 2**53 + n if n % 2 else float(2**53 + n),
    "beyond 2**53, from far away": lambda n: (2**63 + n) if n % 3 else 1e300 * n,
    "small, then beyond 2**53": lambda n: n / 7 if n < STEPS // 2 else 2**60 + n,
    "texts into a gap": lambda n: "a" * n + "b" if n else "a" * STEPS,
    "texts downwards": lambda n: "b" * (STEPS - n),
    "texts beyond ASCII": lambda n: "é" * (n % 7) + chr(0xD700 + 5 * n if n < 50 else 0x1F600 + n),
    "times": lambda n: NEW_YEAR + timedelta(microseconds=(-1) ** n * (STEPS - n)),
    "points into a gap": lambda n: Point(2.0**-n, 0.5**n) if n else Point(0, 0),
}


def set_around(constant: Any, number: int) -> ValueSet:
    """An equality, or a range that ends at the constant."""
    if isinstance(constant, Point):
        return (one_of([constant]), complement(one_of([constant])))[number % 2]
    return (less_than, at_most, more_than, at_least, lambda value: one_of([value]))[number % 5](constant)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_come_one_by_one_find_room_between_the_others(name: str) -> None:
    pair, constants = Pair(), [CONSTANTS[name](n) for n in range(STEPS)]
    for n, constant in enumerate(constants):
        pair.add(n, some("x", set_around(constant, n)))
        around = constants[max(0, n - 2) : n + 2]  # the last one is no constant yet
        for row in ({"x": value} for value in around):
            assert set(pair.index.match(event(row))) == set(pair.naive.match(event(row)))
    pair.check_values(*constants)
    [labelled] = pair.index._compiler.columns["x"].slot.constants.values()
    assert list(labelled.keys) == sorted(labelled.keys)
    assert min(np.diff(np.array(labelled.labels))) >= GAP_MIN
    assert labelled.low < labelled.labels[0] < labelled.labels[-1] < labelled.high


@pytest.mark.parametrize("name", [name for name in CONSTANTS if "gap" in name])
def test_labels_move_when_a_gap_is_full_and_all_tests_move_with_them(name: str) -> None:
    first, *rest = [CONSTANTS[name](n) for n in range(100)]
    pair = Pair([some("x", set_around(first, 4)), any_of(*(some("x", set_around(first, n)) for n in range(12)))])
    pair.add("listed", some("x", one_of([first, *rest[:20]])))
    pair.check_values(first, *rest)
    moves = set()
    for n, constant in enumerate(rest):
        pair.add(("new", n), some("x", set_around(constant, n)))
        pair.index.match(event({"x": constant}))
        moves.add(pair.index._compiler.columns["x"].slot.label(first))
    assert len(moves) > 2
    pair.check_values(first, *rest)


def test_all_kinds_of_constants_share_an_attribute() -> None:
    values = [True, False, 0, 1, 1.5, 2**60, "", "a", NEW_YEAR, NEW_YEAR + timedelta(1), Point(0, 0), Point(1, 0)]
    pair = Pair(
        literal("x", make([value])) for value in values for literal in (some, only) for make in (one_of, none_of)
    )
    pair.add_many((value, some("x", at_least(value))) for value in values if type(value) in (float, str))
    pair.check_values(*values, -1, 2.0**60, 2**60 + 1, "b", Point(0, 1))


def none_of(values: Iterable[Any]) -> ValueSet:
    return complement(one_of(values))


def test_bools_are_no_numbers_whatever_was_asked_before() -> None:
    pair = Pair([some("x", one_of([value])) for value in (0, 1, False, True, 2)])
    pair.add_many([("number", some("x", at_least(0))), ("not 1", some("x", none_of([1])))])
    for values in ([1, True, 1.0, 0, False, -0.0], [True, 1, False, 0], [0.0, False, 1.0, True], [2, 2.0]):
        pair.check({"x": value} for value in values)
    columns = {"x": np.array([True, False])}
    assert [set(ids) for ids in pair.index.match_batch(columns)] == [
        set(ids) for ids in pair.naive.match_batch(columns)
    ]


def test_what_the_encoder_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_encoder, "MEMO_MAX", 10)
    pair = Pair(some("x", at_most(n)) for n in range(30))
    pair.check({"x": n, "unknown": n} for n in range(40))
    assert len(pair.index._encoder.memo) <= 10


# ---------------------------------------------------------------- garbage and growth


def one_of_a_kind(draw: Random, number: int) -> Filter:
    """A filter with constants that no other has."""
    fresh = draw.uniform(0, 100)
    return all_of(
        some("price", interval(fresh, fresh + draw.choice([0.01, 50]))),
        any_of(some("symbol", one_of([f"s{number}"])), some("volume", less_than(fresh)), missing("symbol")),
        *([some("where", circle(fresh, 0, 3_000_000))] if number % 3 == 0 else []),
        *([some("volume", one_of([fresh, number, 1]))] if number % 5 == 0 else []),
    )


def test_thousands_of_changes_leave_no_garbage() -> None:
    draw, pair = Random(5), Pair()
    live = 150
    pair.add_many((n, one_of_a_kind(draw, n)) for n in range(live))
    rows = [{"price": n, "symbol": f"s{n}", "volume": n % 9, "where": Point(n, 0)} for n in range(0, 100, 7)]
    largest: dict[str, int] = {}
    for step in range(3_000):
        id = draw.randrange(live)
        if step % 3:
            pair.replace(id, one_of_a_kind(draw, live + step))
        else:
            pair.remove(id)
            pair.add(id, one_of_a_kind(draw, live + step))
        if step % 40 == 0:
            pair.index.match(event(rows[0]))
            largest = {name: max(size, largest.get(name, 0)) for name, size in sizes(pair.index).items()}
        if step % 500 == 0:
            pair.check(rows)
    pair.check(rows)
    allowed = 4 * (2 * live + DEAD_SPARE)
    per_subscription = {"tests": 30, "records": 20, "constants": 6, "table": 30}
    assert {name: size for name, size in largest.items() if size > allowed * per_subscription.get(name, 1)} == {}


def test_nothing_is_left_when_all_are_gone() -> None:
    draw, pair = Random(6), Pair()
    pair.add_many((n, one_of_a_kind(draw, n)) for n in range(DEAD_SPARE + 100))
    pair.check([{"price": 50, "volume": 3}])
    for n in range(DEAD_SPARE + 100):
        pair.remove(n)
    pair.check([{"price": 50, "volume": 3}])
    left = sizes(pair.index)
    for name in ("ids", "rows", "nodes", "formulas", "residuals", "constants"):
        assert left[name] == 0, name
    pair.add(1, one_of_a_kind(draw, 1))
    pair.check([{"price": price} for price in range(100)])


def test_compaction_keeps_shared_formulas_lists_and_doubts_of_those_that_stay() -> None:
    draw, pair = Random(7), Pair()
    shared = any_of(*(all_of(some("price", at_least(n)), some("volume", at_most(n))) for n in range(12)))
    kept = {
        "formula": shared,
        "twice": all_of(some("symbol", one_of(["a", "b", "c"])), shared),
        "list": some("symbol", one_of([f"s{n}" for n in range(40)])),
        "doubt": any_of(some("where", circle(0, 0, 1_000_000)), all_of(some("symbol", like("a%b%c")), shared)),
    }
    pair.add_many((n, all_of(one_of_a_kind(draw, n), shared)) for n in range(DEAD_SPARE + 500))
    pair.add_many(kept.items())
    rows = [random_attributes(draw) for _ in range(60)] + [{"symbol": "axbxc", "where": Point(0, 1)}, {"symbol": "s39"}]
    pair.check(rows)
    for n in range(DEAD_SPARE + 500):
        pair.remove(n)
    pair.check(rows)
    pair.index.prepare()
    assert len({*pair.index._layout.rows[:, 2].tolist()}) == len(kept)
    pair.add_many(((name, "again"), filter) for name, filter in kept.items())
    pair.check(rows)
    assert pair.index._layout.node_count < 40


def test_attributes_and_substrings_that_nobody_asks_for_are_forgotten() -> None:
    index = IndexMatcher()
    for n in range(DEAD_SPARE + 200):
        index.add(n, all_of(some(f"x{n}", at_most(n)), some("name", holds_text(f"t{n}"))))
    index.match(event({"name": "t1"}))
    for n in range(1, DEAD_SPARE + 200):
        index.remove(n)
    assert index.match(event({"name": "t0", "x0": 0})) == [0]
    index.prepare()
    assert len(index._compiler.slots) < 100
    assert index.match(event({"name": "t0", "x0": 0})) == [0]


def wide(draw: Random, number: int) -> Filter:
    """Nothing in it is selective: it belongs into the bitmaps."""
    names = draw.sample([f"a{n}" for n in range(60)], 3)
    return all_of(*(some(name, interval(*sorted([draw.random(), draw.random() + 1]))) for name in names))


@pytest.mark.parametrize("make", [one_of_a_kind, wide, lambda draw, number: random_filter(draw)])
def test_an_index_that_grows_one_by_one_is_right_all_the_way(make: Callable[[Random, int], Filter]) -> None:
    draw, pair = Random(8), Pair()
    rows = [random_attributes(draw) | {f"a{n}": draw.random() * 2 for n in range(60)} for _ in range(8)]
    for number in range(600):
        pair.add(number, make(draw, number))
        if number % 3 == 0:
            pair.index.match(event(rows[0]))
        if number % 150 == 149:
            pair.check(rows)


def test_many_at_once_then_one_by_one() -> None:
    draw = Random(9)
    pair = Pair(random_filter(draw) for _ in range(400))
    rows = [random_attributes(draw) for _ in range(2 * SAMPLE)]  # enough to lay out by what events pass
    pair.check(rows)
    for number in range(100):
        pair.add(("later", number), random_filter(draw))
        pair.index.match(event(rows[number]))
    pair.check(rows[:20])


# ---------------------------------------------------------------- large filters


def assert_large(filter: Filter, rows: Sequence[Row]) -> None:
    """Alone, and among others."""
    pair = Pair([filter])
    pair.check(rows)
    pair.add_many([("other", some("x0", at_most(3))), ("same", filter), ("not", negation(filter))])
    pair.check(rows)
    pair.remove(0)
    pair.check(rows)


ROWS_OF_ONE_NAME: list[Row] = [{"x0": n} for n in (0, 1, 7, 8, 9, 4_999, 9_999, 10_000, "t7", -1)]


@pytest.mark.parametrize("count", [8, 9, 17, 1_000, slow(10_000)])
@pytest.mark.parametrize("literal", [some, only])
def test_many_alternatives_on_one_attribute(count: int, literal: Callable[[str, ValueSet], Filter]) -> None:
    assert_large(any_of(*(literal("x0", one_of([n])) for n in range(count))), [*ROWS_OF_ONE_NAME, {"x0": [9_999, -1]}])
    assert_large(any_of(*(literal("x0", between(3 * n, 3 * n + 1)) for n in range(count))), ROWS_OF_ONE_NAME)


@pytest.mark.parametrize("combine", [any_of, slow(all_of)])
def test_a_filter_with_as_many_literals_as_allowed(combine: Callable[..., Filter]) -> None:
    names = [f"x{n % 100}" for n in range(LITERALS_MAX)]
    sets = [one_of([n, "a"]) if n % 2 else at_most(n) for n in range(LITERALS_MAX)]
    filter = combine(*(some(name, values) for name, values in zip(names, sets, strict=True)))
    rows: list[Row] = [
        {"x1": 101}, {"x1": 100}, {"x0": 0, "x1": 1}, {"x0": 19_900}, {"x0": 19_901}, {f"x{n}": 0 for n in range(100)},
        {f"x{n}": [0, *range(n, LITERALS_MAX, 200)] for n in range(50)}, {f"x{n}": ["a", 0] for n in range(100)},
    ]  # fmt: skip
    assert_large(filter, rows)


def test_alternatives_of_conjunctions_beyond_what_becomes_rows() -> None:
    def pairs(n: int) -> Filter:
        return all_of(some("x0", at_least(n)), some("x1", at_most(n)), some("x2", one_of([n % 3, "t"])))

    rows: list[Row] = [{"x0": a, "x1": b, "x2": c} for a in (0, 50, 5_000) for b in (0, 49, 4_999) for c in (0, 1, "t")]
    for count in (8, 9, 2_000):
        assert_large(any_of(*map(pairs, range(count))), rows)


def test_a_filter_nested_as_deep_as_allowed() -> None:
    filter: Filter = some("x0", at_least(0))
    for level in range(1, DEPTH_MAX):
        combine = any_of if level % 2 else all_of
        filter = combine(some(f"x{level % 10}", one_of([level])), filter)
    assert filter.depth == DEPTH_MAX
    rows: list[Row] = [
        {"x0": 5},
        {"x9": 99},
        {f"x{n}": 90 + n for n in range(10)},
        {f"x{n}": [*range(n, 100, 10)] for n in range(10)},
    ]
    assert_large(filter, rows)


def test_formulas_shared_by_many_and_more_of_them_than_bitmaps_have_columns() -> None:
    draw = Random(10)
    formulas = [
        any_of(
            *(all_of(*(some(f"x{draw.randrange(6)}", at_most(draw.randrange(9))) for _ in range(2))) for _ in range(9))
        )
        for _ in range(700)
    ]
    pair = Pair(all_of(*draw.sample(formulas, 2), some(f"x{draw.randrange(6)}", at_least(1))) for _ in range(1_400))
    pair.check({f"x{n}": draw.randrange(10) for n in range(6) if draw.random() < 0.8} for _ in range(10))


# ---------------------------------------------------------------- large events


def test_an_event_with_as_many_attributes_as_allowed() -> None:
    pair = Pair(some(f"x{n}", at_most(n)) for n in range(0, 2 * ATTRIBUTES_MAX, 3))
    pair.add_many(
        [("missing", missing("x7")), ("absent", missing("y")), ("both", all_of(present("x1"), present("x999")))]
    )
    pair.check([{f"x{n}": n for n in range(ATTRIBUTES_MAX)}, {f"x{n}": n + 1 for n in range(1, ATTRIBUTES_MAX)}])


def test_attributes_with_hundreds_of_values() -> None:
    sets: list[ValueSet] = [
        at_most(5),
        between(100, 200),
        one_of([150, 1_000]),
        one_of(range(0, 2_000, 7)),
        at_least(399),
    ]
    pair = Pair(
        literal("x", each) for values in sets for each in (values, complement(values)) for literal in (some, only)
    )
    pair.add_many(((name, n), some(name, holds_text(str(n)))) for n in range(100) for name in "xy")
    pair.check(
        [{"x": [*range(400)]}, {"x": [*range(100, 200)], "y": [f"{n}" for n in range(300)]}, {"x": ["150", 150]}]
    )


def test_an_event_of_as_many_values_as_allowed_each_of_which_leads_to_many_buckets() -> None:
    """By equality and by bins of every width, forwards and backwards: nobody may write past the list of buckets."""
    texts = [f"{n:04}"[::-1] + f"{n:04}" for n in range(VALUES_MAX - 1)]
    ordered = sorted(texts)
    sets = [one_of([text]) for text in texts[::3]]
    for width in (30, 300, 1_200):
        sets += [between(ordered[low], ordered[low + width]) for low in range(0, len(texts) - width, width // 2)]
    for digits in (1, 2, 3):
        ends = [f"{n:0{digits}}" for n in range(10**digits)]
        sets += [make(end) for end in ends for make in (starts_with, ends_with)]
    pair = Pair(some("x", values) for values in sets)
    for _ in range(2 * SAMPLE):
        pair.index.match(event({"x": "none of them"}))  # so that wide ranges look selective
    everything = event({"x": texts})
    expected = {number for number, values in enumerate(sets) if any(map(values.contains, texts))}
    assert set(pair.index.match(everything)) == expected
    assert set(pair.index.match_batch({"x": [texts]})[0]) == expected
    pair.check([{"x": text} for text in texts[:20]])


# ---------------------------------------------------------------- texts


def test_patterns_within_patterns() -> None:
    texts = ["a", "ab", "abc", "b", "bc", "bcd", "é", "éa", "😀", "a😀", "aa", "aaa"]
    pair = Pair(some("x", holds_text(text)) for text in texts)
    pair.add_many((("not", text), negation(some("x", holds_text(text)))) for text in texts)
    pair.add_many((("only", text), only("x", holds_text(text))) for text in texts)
    pair.add_many((("some not", text), some("x", complement(holds_text(text)))) for text in texts)
    rows = [*texts, "", "xabcdx", "abab", "zzz", "aéa", "a😀é", "\u00c3a", "c", 1, True]
    pair.check_values(*rows)
    pair.check([{"x": values} for values in (["abc", "b"], ["", 1], ["aaa", "aa", "a"], ["é", "éa"])])


def test_patterns_that_come_one_by_one() -> None:
    draw, pair = Random(11), Pair()
    texts = [
        "".join(draw.choice("abé") for _ in range(draw.randrange(1, 6)))
        for _ in range(3 * substrings.FRESH_PATTERNS_MAX)
    ]
    asked = ["".join(draw.choice("abcé") for _ in range(12)) for _ in range(6)]
    for number, text in enumerate(texts):
        pair.add(number, some("x", holds_text(text)))
        row = {"x": asked[number % len(asked)]}
        assert set(pair.index.match(event(row))) == set(pair.naive.match(event(row)))
    pair.check_values(*asked, *texts[:10])


def test_beginnings_ends_and_patterns_with_holes() -> None:
    draw = Random(12)
    texts = [
        *("", "a", "ab", "ba", "aba", "abab", "aXb", "aXbc", "é", "éa", "aé", "%", "_", "a%b", "a_b", "\0", "a\0"),
        *("\U0010ffff", "\U0010ffffa", "a\U0010ffff", "\ud7ff", "\ud7ffx", "\ue000"),
    ]
    sets = [make(text) for text in texts if text for make in (starts_with, ends_with, holds_text)]
    sets += [
        like(pattern) for pattern in ("a%b", "_b%", "%a_", "a_b", "_", "__", "a%b%c", r"a\%b", r"%\_%", "%é_%", "_%")
    ]
    pair = Pair(some("x", values) for values in sets)
    pair.add_many(
        (("not", n), literal("x", complement(values)))
        for n, values in enumerate(sets)
        for literal in [draw.choice([some, only])]
    )
    pair.add_many((("only", n), only("x", values)) for n, values in enumerate(sets))
    pair.add_many((("with", n), all_of(some("x", values), some("y", at_most(n)))) for n, values in enumerate(sets))
    pair.check_values(*texts, 7)
    pair.check({"x": draw.sample(texts, 3), "y": draw.randrange(60)} for _ in range(30))


# ---------------------------------------------------------------- places


def test_regions_with_one_and_with_several_points() -> None:
    regions: list[ValueSet] = [
        box(0, 0, 10, 10), box(10, 10, 20, 20), box(170, -10, -170, 10), box(180, -5, -180, 5), box(-180, -90, 180, 90),
        box(5, 5, 5, 5), circle(5, 5, 500_000), circle(180, 0, 500_000), circle(0, 90, 1_000_000), circle(5, 5, 0),
        polygon([(0, 0), (10, 0), (0, 10)]), polygon([(-180, -10), (-170, 0), (-180, 10)]),
    ]  # fmt: skip
    pair = Pair(
        literal("x", each) for region in regions for each in (region, complement(region)) for literal in (some, only)
    )
    for n in range(len(regions)):
        others = [some("y", at_most(m)) for m in range(9)]
        pair.add(("or", n), any_of(*(some("x", each) for each in regions[n:]), *others))
    pair.add(("and", 0), all_of(*(only("x", each) for each in (regions[0], regions[6], regions[10]))))
    places = [
        *((5, 5), (0, 0), (10, 10), (10, 0), (0, 10), (4, 4), (6, 6), (15, 15), (180, 0), (-180, 0), (175, 0)),
        *((-175, 0), (-170, 10), (170, -10), (169.9, 0), (0, 89), (180, 89), (50, -50)),
    ]
    points = [Point(lon, lat) for lon, lat in places]
    pair.check_values(*points, "not a point", 5)
    pair.check({"x": [a, b]} for a in points[::2] for b in points[1::3])
    # longitude in one box, latitude in another, but no single point in both
    pair.check([{"x": [Point(5, 50), Point(50, 5)]}, {"x": [Point(175, 50), Point(0, 0)], "y": 3}])


def test_missing_and_present() -> None:
    pair = Pair(
        [missing("x"), present("x"), all_of(missing("x"), missing("y")), any_of(missing("x"), some("x", at_most(3)))]
    )
    pair.add_many(
        [("with", all_of(missing("x"), some("y", one_of([1])))), ("never seen", missing("z")), ("seen", present("z"))]
    )
    pair.add_many((n, all_of(missing("x"), some("y", at_least(n)))) for n in range(10, 200))
    pair.check([{}, {"x": 1}, {"y": 1}, {"x": [1, 2]}, {"x": 5, "y": 150}, {"y": 150}, {"z": ""}, {"x": False}])


# ---------------------------------------------------------------- batches

BLOCKS = 2 * masks.EVENTS + 77


def shared_tests(draw: Random, number: int) -> Filter:
    """A conjunction of a few out of not many tests."""
    return all_of(*(draw.choice(SHARED) for _ in range(draw.randrange(1, 4))))


SHARED: list[Filter] = [
    *(some(name, values(n)) for name in ("x", "y") for n in range(0, 20, 3) for values in (at_most, at_least)),
    *(only(name, complement(one_of([n, n + 1]))) for name in ("x", "y") for n in range(0, 20, 5)),
    *(some("name", each) for each in (starts_with("a"), ends_with("b"), holds_text("ab"), like("a%c"), like("_b%"))),
    *(some("where", region) for region in (box(0, 0, 9, 9), box(170, -9, -170, 9), circle(5, 5, 600_000))),
    any_of(*(all_of(some("x", one_of([n])), some("y", at_most(n))) for n in range(12))),
    any_of(*(some("where", circle(n, 0, 300_000)) for n in range(9)), some("x", at_most(1))),
    missing("x"),
    present("y"),
]  # fmt: skip


def shared_row(draw: Random) -> dict[str, Any]:
    def one(make: Callable[[], Any]) -> Any:
        return [make() for _ in range(draw.randrange(2, 4))] if draw.random() < 0.1 else make()

    row = {
        "x": one(lambda: draw.randrange(21)),
        "y": one(lambda: draw.choice([draw.randrange(20), 0.5, "a", True])),
        "name": one(lambda: "".join(draw.choice("abc") for _ in range(draw.randrange(4)))),
        "where": one(
            lambda: Point(draw.choice([180, draw.randrange(-180, 180), draw.randrange(10)]), draw.randrange(-9, 10))
        ),
    }
    return {name: value for name, value in row.items() if draw.random() < 0.8}


def assert_batch(pair: Pair, rows: Sequence[Row]) -> None:
    found = list(pair.index.match_batch(columns_of(rows)))
    assert [sorted(ids, key=repr) for ids in found] == [sorted(pair.naive.match(event(row)), key=repr) for row in rows]


def test_a_batch_of_several_blocks_where_tests_are_shared() -> None:
    draw = Random(13)
    pair = Pair(shared_tests(draw, n) for n in range(600))
    rows = [shared_row(draw) for _ in range(BLOCKS)]
    assert_batch(pair, rows)
    assert pair.index._turns_round(len(rows))
    assert not pair.index._turns_round(10)
    for n in range(0, 600, 3):
        pair.remove(n)
    for n in range(1, 600, 30):
        pair.replace(n, shared_tests(draw, n))
    assert_batch(pair, rows[: masks.EVENTS])
    pair.add_many((("new", n), any_of(*(shared_tests(draw, n) for _ in range(12)))) for n in range(3))
    assert_batch(pair, rows[: masks.EVENTS + 1])
    assert pair.index._turns_round(masks.EVENTS)


@pytest.mark.parametrize("most", [1, 50, 5_000])
def test_very_many_matches_of_a_block_come_in_parts(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(masks, "MATCHES_MAX", most)
    draw = Random(16)
    pair = Pair(shared_tests(draw, n) for n in range(300))
    rows = [shared_row(draw) for _ in range(masks.EVENTS + 40)]
    assert pair.index._turns_round(len(rows))
    assert_batch(pair, rows)
    batch = pair.index._encoded(columns_of(rows), len(rows))
    pieces = [(len(events), len(numbers)) for events, _, numbers, _ in pair.index._pieces_by_masks(batch)]
    assert sum(events for events, _ in pieces) == len(rows)
    assert all(numbers <= most for events, numbers in pieces if events > 1)
    assert most > 1 or len(pieces) > 2  # how many matches need no further test depends on the order of a set


def test_a_batch_of_several_blocks_where_no_test_is_shared() -> None:
    draw = Random(14)
    pair = Pair(
        all_of(
            some("x", interval(*sorted([draw.uniform(0, 20), draw.uniform(0, 21)]))),
            some("name", one_of([f"n{n}", "a"])),
        )
        for n in range(300)
    )
    pair.add_many((("doubt", n), some("where", circle(draw.uniform(0, 9), 0, 300_000 + n))) for n in range(60))
    rows = [shared_row(draw) for _ in range(BLOCKS)]
    assert_batch(pair, rows)
    assert not pair.index._turns_round(len(rows))


def test_arrays_as_columns_in_both_kinds_of_batch() -> None:
    draw = Random(15)
    length = masks.EVENTS + 20
    rng = np.random.default_rng(15)
    columns = {
        "x": rng.integers(0, 20, length),
        "y": rng.random(length) * 20,
        "flag": rng.random(length) < 0.5,
        "big": np.array([2**63 + n for n in range(length)], dtype=np.uint64),
        "small": rng.integers(0, 20, length).astype(np.int8),
    }
    constants: dict[str, Sequence[Any]] = {
        "flag": [True, False],
        "big": [2**63 + n for n in (0, 1, 500)],
        "small": range(20),
    }
    literals: list[Filter] = [some(name, one_of([value])) for name in constants for value in constants[name]]
    literals += [some("big", at_most(2**63 + 100)), some("big", more_than(float(2**63))), *SHARED[:20]]
    shared = Pair(all_of(*draw.sample(literals, 2)) for _ in range(500))
    unique = Pair(some(draw.choice(["x", "y", "big"]), at_most(draw.uniform(0, 2**64))) for _ in range(100))
    for pair in (shared, unique):
        expected = [set(ids) for ids in pair.naive.match_batch(columns)]
        assert [set(ids) for ids in pair.index.match_batch(columns)] == expected
    assert shared.index._turns_round(length)
    assert not unique.index._turns_round(length)


def test_a_bad_batch_is_refused_and_changes_nothing() -> None:
    pair = Pair([some("x", at_most(3)), some("y", at_most(3)), some("where", circle(0, 0, 100_000))])
    pair.check([{"x": 1}, {"y": 1}])
    bad_batches: list[dict[str, list[Any]]] = [
        {"x": [1, float("nan")]},
        {"x": [1], "unasked": [float("inf")]},
        {"x": [1, [2, {}]]},
        {"x": [1], "y": []},
    ]
    for bad in bad_batches:
        with pytest.raises(BadEvent):
            pair.index.match_batch(bad)
    pair.check([{"x": 1}, {"y": 1}, {"x": [1, 9], "where": Point(0, 0)}])


# ---------------------------------------------------------------- ids, stamps, expiry

IDS: list[SubscriptionId] = [
    *(
        0,
        -1,
        2**63 - 1,
        -(2**63),
        2**63,
        -(2**63) - 1,
        2**64,
        10**40,
        "0",
        "",
        "é",
        (),
        (1,),
        ("a", 1),
        ("a", ("b", 2**70)),
    ),
    *(None, 1.5, frozenset({1}), NEW_YEAR, Point(1, 2), b"x"),
]


@pytest.mark.parametrize("order", [1, -1])
def test_ids_come_back_as_they_were_given(order: int) -> None:
    pair = Pair()
    for id in IDS[::order]:
        pair.add(id, some("x", at_most(5)))
        assert id in pair.index
        assert pair.index.match(event({"x": 1}))[-1] in IDS
    pair.check([{"x": 1}, {"x": 9}])
    for found in (pair.index.match(event({"x": 1})), pair.index.match_batch({"x": [1]})[0]):
        assert {(type(id), id) for id in found} == {(type(id), id) for id in IDS}
    for id in IDS[::3]:
        pair.remove(id)
    pair.check([{"x": 1}])


def test_plain_ints_stay_python_ints() -> None:
    pair = Pair([some("x", at_most(5))] * 3)
    assert {type(id) for id in pair.index.match(event({"x": 1}))} == {int}
    assert pair.index.match_batch({"x": [1, 9]}).ids.dtype == np.int64


def test_stamps_start_again_when_they_run_out() -> None:
    draw = Random(16)
    pair = Pair(shared_tests(draw, n) for n in range(120))
    pair.add_many((("any", n), any_of(some("x", at_most(n)), some("where", circle(n, 0, 900_000)))) for n in range(20))
    rows = [shared_row(draw) for _ in range(40)]
    pair.check(rows)
    for n in range(0, 120, 4):
        pair.remove(n)
    for before_the_end in (3, 1, 39, 40, 41):
        pair.index._stamp = STAMP_MAX - before_the_end
        pair.check(rows)
        assert pair.index._stamp < STAMP_MAX
    for before_the_end in (len(rows), 5):
        pair.index._stamp = STAMP_MAX - before_the_end
        assert_batch(pair, rows)
    stamps = pair.index._layout.stamps
    assert np.count_nonzero(stamps == DEAD) == 30
    assert stamps[stamps != DEAD].max() < STAMP_MAX


def test_what_has_expired_matches_no_more() -> None:
    pair = Pair()
    for n in range(50):
        pair.add(n, some("x", at_most(n)), expires=n % 10)
    pair.replace(3, some("x", at_most(1)))  # for good
    for now in (0, 4, 4, 11):
        found = {frozenset(each.match(event({"x": 1}), now=now)) for each in pair.both}
        assert len(found) == 1
        pair.check([{"x": n} for n in (0, 1, 30)])
    assert pair.index.match(event({"x": 1})) == [3]
    assert len(pair.index) == 1
