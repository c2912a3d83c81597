"""The index of the pipeline gives what the naive matcher gives, whatever form the columns of a batch have.

Events become columns as a table has them; what the index finds and counts in those is held to what the naive matcher
finds in the events.
"""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import BadEvent, SubscriptionError
from godwit.filters.events import Attributes, event
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.matching.packed_columns import (
    DictionaryColumn,
    MaskedColumn,
    PackedColumn,
    PointColumn,
    TimeColumn,
    UnionColumn,
)
from godwit.pipeline.arrow_columns import ColumnReader
from godwit.pipeline.columns import Form, column_of, form_of_values, from_arrow, joined, to_arrow
from godwit.pipeline.subscription_index import OpenIndex, SubscriptionIndex
from tests.property import strategies as draw
from tests.unit.filters.random_filters import random_attributes, random_filter

NAMES = ("x", "sender.x", "day")


def record_batch(events: list[Attributes], coded: bool = False) -> Any:
    """Events as a table has them; with `coded`, texts as a dictionary."""
    columns: dict[str, Any] = {"publisher": pa.array(["p"] * len(events))}
    for name in dict.fromkeys(name for each in events for name in each):
        form: Form | None = None
        for each in events:
            if name in each:
                new = form_of_values(each[name])
                form = new if form is None else joined(form, new, exact=False)
        assert form is not None
        array = to_arrow(form, [each.get(name) for each in events])
        columns[column_of(name)] = array.dictionary_encode() if coded and str(form) == "text" else array
    return pa.record_batch(columns)


def found_by(opened: OpenIndex, columns: Any, length: int) -> list[list[str]]:
    """Who matches each event, in order; each piece is checked on the way."""
    found: list[list[str]] = [[] for _ in range(length)]
    for part in opened.parts(columns, length):
        assert len(part.offsets) == len(part.events) + 1
        assert (np.diff(part.offsets) > 0).all()
        ids = opened.ids.take(pa.array(part.members)).to_pylist()
        for place, row in enumerate(part.events.tolist()):
            assert not found[row]
            found[row] = sorted(ids[part.offsets[place] : part.offsets[place + 1]])
    return found


def check(filters: dict[str, Filter], rows: list[Attributes], coded: bool) -> None:
    naive = NaiveMatcher()
    naive.add_many(filters.items())
    expected = [sorted(map(str, naive.match(event(row)))) for row in rows]
    batch = record_batch(rows, coded)
    with TemporaryDirectory() as folder:
        file = SubscriptionIndex(filters).save(folder)
        opened = file.open()
        columns = ColumnReader(file.attributes).read(batch)
        assert found_by(opened, columns, len(rows)) == expected
        assert opened.counts(columns, len(rows)).tolist() == [len(ids) for ids in expected]


@given(
    st.lists(draw.filters(names=NAMES), min_size=1, max_size=12),
    st.lists(draw.attributes(NAMES), min_size=1, max_size=12),
    st.booleans(),
)
def test_a_table_is_matched_as_its_events_are(filters: list[Filter], rows: list[Any], coded: bool) -> None:
    twice = {f"{number}{copy}": filter for number, filter in enumerate(filters) for copy in "ab"}
    check(twice, [event(row).attributes for row in rows], coded)


@pytest.mark.parametrize("seed", range(6))
def test_many_filters_and_events_of_every_kind(seed: int) -> None:
    from_seed = Random(seed)
    filters = {str(number): random_filter(from_seed) for number in range(150)}
    check(filters, [event(random_attributes(from_seed)).attributes for _ in range(400)], coded=seed % 2 == 0)


def test_a_batch_with_another_dictionary_is_matched_by_its_own() -> None:
    matcher = IndexMatcher()
    matcher.add_many({text: parse(f"x = '{text}'") for text in "ab"}.items())
    for texts in (["a", "b"], ["b", "a"], ["c", "a"]):
        columns: Any = {"x": DictionaryColumn(texts, np.array([0, 1]))}
        found = matcher.match_batch(columns)
        assert [sorted(map(str, ids)) for ids in found] == [[text] if text in "ab" else [] for text in texts]


@given(st.lists(draw.attributes(NAMES), min_size=1, max_size=8), st.booleans())
def test_columns_hold_what_the_slow_way_reads(rows: list[Any], coded: bool) -> None:
    batch = record_batch([event(row).attributes for row in rows], coded)
    columns = ColumnReader(NAMES).read(batch)
    for name in NAMES:
        if (at := batch.schema.get_field_index(column_of(name))) >= 0:
            held = columns[name]
            plain = held.tolist() if isinstance(held, PackedColumn) else held
            assert plain == list(from_arrow(column_of(name), batch.column(at)))
            for part in held.parts if isinstance(held, UnionColumn) else (held,):
                assert isinstance(part, list | DictionaryColumn | MaskedColumn | PointColumn | TimeColumn)


@given(st.data())
def test_an_index_that_changes_is_the_one_made_anew(data: st.DataObject) -> None:
    few = st.sampled_from([parse("x > 1"), parse("x > 2"), parse("x = 'a'"), parse("x IS NOT NULL")])
    wanted = st.dictionaries(st.sampled_from("abcdef"), few, max_size=6)
    index = SubscriptionIndex()
    before: dict[str, Filter] = {}
    rows: list[Attributes] = [{"x": 3}, {"x": 2}, {"x": "a"}, {}]
    for after in data.draw(st.lists(wanted, min_size=1, max_size=4)):
        changed = index.change_to(after)
        assert changed == sum(before.get(id) != after.get(id) for id in {**before, **after})
        assert index.subscriptions == after
        assert len(index._numbers) == len(set(after.values()))
        naive = NaiveMatcher()
        naive.add_many(after.items())
        with TemporaryDirectory() as folder:
            file = index.save(folder)
            columns = ColumnReader(file.attributes).read(record_batch(rows))
            assert found_by(file.open(), columns, len(rows)) == [
                sorted(map(str, naive.match(event(row)))) for row in rows
            ]
        before = after


def test_an_id_is_known_once_and_must_be_known_to_go(tmp_path: Path) -> None:
    index = SubscriptionIndex({"a": parse("x > 1")})
    with pytest.raises(SubscriptionError, match="'a' already exists"):
        index.add_many({"a": parse("x > 2")})
    with pytest.raises(SubscriptionError, match="no subscription 'b'"):
        index.remove("b")
    assert len(index) == 1
    assert "a" in index


def test_what_is_written_is_named_by_what_it_holds(tmp_path: Path) -> None:
    one, same = (
        SubscriptionIndex({"a": parse("x > 1")}).save(tmp_path),
        SubscriptionIndex({"a": parse("x > 1")}).save(tmp_path),
    )
    other = SubscriptionIndex({"a": parse("x > 2")}).save(tmp_path)
    assert one == same
    assert one.name != other.name
    assert one.open() is same.open()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{file.name}{ending}" for file in (one, other) for ending in ("", ".ids")
    )
    one.remove()
    other.remove()
    assert not list(tmp_path.iterdir())


def test_filters_that_are_gone_leave_nobody_behind(tmp_path: Path) -> None:
    many = {f"m{number}": parse("x > 0") for number in range(100)}
    index = SubscriptionIndex(many | {f"s{number}": parse(f"x > {number + 1}") for number in range(50)})
    for number in range(50):
        index.remove(f"s{number}")
    opened = index.save(tmp_path).open()
    assert sorted(opened.ids.to_pylist()) == sorted(many)
    assert found_by(opened, {"x": np.array([7])}, 1) == [sorted(many)]


def test_to_learn_from_events_makes_nothing_but_a_layout(tmp_path: Path) -> None:
    index = SubscriptionIndex(
        {str(number): parse(f"x = {number} AND y > 3") for number in range(20)} | {"a": parse("x>1 AND y>1")}
    )
    index.learn({"x": np.arange(100), "y": np.arange(100)}, 100)
    assert index._matcher._tallies is None
    assert len(index._matcher._sample) == 64


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (
            MaskedColumn(np.array([1.0, np.nan, np.nan]), np.array([True, False, True])),
            "row 2: .*nan.* is not a finite",
        ),
        (TimeColumn(np.array([0, 0, 2**62]), np.array([True, False, True])), "row 2: no time in the years 1 to 9999"),
        (
            PointColumn(np.array([0, 0, 181.0]), np.zeros(3), np.array([True, False, True])),
            "row 2: .*181.* is not a place",
        ),
        (DictionaryColumn(["a", "b" * 70_000], np.array([0, -1, 1])), "row 2: a text of 70000 characters"),
    ],
)
def test_what_is_no_value_is_refused_with_its_row(column: PackedColumn, reason: str) -> None:
    matcher = IndexMatcher()
    matcher.add(1, parse("x IS NOT NULL"))
    with pytest.raises(BadEvent, match=f"column 'x', {reason}"):
        matcher.match_batch({"x": column})
