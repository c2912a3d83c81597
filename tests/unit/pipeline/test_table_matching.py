"""What a task of `match_table` does, without Spark: rows cut in any way, and matched and written in any portions."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.errors import PipelineError
from godwit.filters.events import Attributes, event
from godwit.filters.language import parse
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.pipeline import match_files, row_ranges, tables
from godwit.pipeline.columns import attribute_of, form_of_arrow
from godwit.pipeline.row_ranges import RowRange, ranges_of
from godwit.pipeline.schemas import about
from godwit.pipeline.subscription_index import IndexFile, SubscriptionIndex
from godwit.pipeline.table_matching import learn, match_table, work_off
from tests.property.test_arrow_laws import record_batch
from tests.seeds import diagonal
from tests.unit.filters.random_filters import random_attributes, random_filter

START = datetime(2026, 11, 14, 23, tzinfo=UTC)
QUOTED = '"a.b" > 1'


@pytest.fixture
def rows() -> list[Attributes]:
    draw = Random(5)
    return [event(random_attributes(draw)).attributes for _ in range(300)]


def event_table(folder: Path, rows: list[Attributes], *, flat: bool = False, int96: bool = False) -> None:
    """A table of two days and several files and row groups; no file has a column that its events have no value for."""
    whole = record_batch(rows)
    forms = {}
    with tables.changing(folder, "events") as change:
        for first in range(0, len(rows), 100):
            part = whole.slice(first, 100)
            columns = {
                name: part.column(name)
                for name in part.schema.names
                if part.column(name).null_count < len(part) and attribute_of(name) is not None
            }
            for name, column in columns.items():
                forms[str(attribute_of(name))] = form_of_arrow(name, column.type)
            times = [START + timedelta(hours=first / 100)] * len(part)
            own = {
                "publisher": pa.array([f"p{first}"] * len(part)),
                "sequence": pa.array(range(first, first + len(part))),
                "published_at": pa.array(times, type=pa.timestamp("us", tz="UTC")),
            }
            if flat:
                own["day"] = pa.array([each.date() for each in times])
            target = change.place(None if flat else times[0].date().isoformat())
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                pa.table({**own, **columns}), target, row_group_size=35, use_deprecated_int96_timestamps=int96
            )
        change.commit(forms)


def index_of(folder: Path, count: int = 80) -> tuple[IndexFile, NaiveMatcher]:
    draw = Random(7)
    filters = {f"s{number}": random_filter(draw) for number in range(count)}
    filters |= {f"t{number}": filters[f"s{number}"] for number in range(0, count, 3)}
    naive = NaiveMatcher()
    naive.add_many(filters.items())
    return SubscriptionIndex(filters).save(folder), naive


def pieces_of(folder: Path) -> list[RowRange]:
    return [piece for path in tables.files(folder) for piece in ranges_of(path, folder)]


@pytest.mark.parametrize(("kind", "portion"), diagonal(["days", "flat", "int96"], [7, 1, 1_000_000]))
def test_a_task_writes_what_the_naive_matcher_says(
    tmp_path: Path, rows: list[Attributes], kind: str, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_ranges, "ROWS_AT_ONCE", portion)
    for name in ("PAIRS_WRITTEN", "ROWS_WRITTEN"):
        monkeypatch.setattr(match_files, name, portion)
    events = tmp_path / "events"
    event_table(events, rows, flat=kind == "flat", int96=kind == "int96")
    index, naive = index_of(tmp_path / "index")
    forms = about(events, "events").attributes
    expected = {
        (f"p{number // 100 * 100}", number): sorted(map(str, ids))
        for number, row in enumerate(rows)
        if (ids := naive.match(event(row)))
    }
    found: dict[tuple[str, int], list[str]] = {}
    done = list(work_off(pieces_of(events), index, forms, str(tmp_path)))
    for each in done:
        day = each.day
        table = pq.read_table(tmp_path / str(each.file), partitioning=None)
        assert each.matched == table.num_rows
        assert each.pairs == sum(map(len, table.column("subscriptions").to_pylist()))
        for row in table.to_pylist():
            assert (row["publisher"], row["sequence"]) not in found
            found[row["publisher"], row["sequence"]] = sorted(row["subscriptions"])
            assert row["published_at"] == START + timedelta(hours=row["sequence"] // 100)
            assert row.get("day", row["published_at"].date()).isoformat() == (day or row["day"].isoformat())
    assert found == expected
    assert sum(each[0] for each in done) == len(rows)
    counted = list(work_off(pieces_of(events), index, forms, None))
    assert [each[:3] for each in counted] == [each[:3] for each in done]


def test_an_index_that_has_learnt_from_a_table_finds_the_same(tmp_path: Path, rows: list[Attributes]) -> None:
    event_table(tmp_path / "events", rows)
    draw = Random(9)
    index = SubscriptionIndex({str(number): random_filter(draw) for number in range(300)})
    forms = about(tmp_path / "events").attributes
    plain = list(work_off(pieces_of(tmp_path / "events"), index.save(tmp_path), forms, None))
    learn(index, tmp_path / "events")
    file = index.save(tmp_path)
    layout = file.open().matcher._layout
    before = layout.table
    assert list(work_off(pieces_of(tmp_path / "events"), file, forms, None)) == plain
    assert layout.table is before  # not laid out anew in the worker


def test_ids_are_written_as_numbers_into_those_that_are_used(tmp_path: Path, rows: list[Attributes]) -> None:
    event_table(tmp_path / "events", rows)
    index, _ = index_of(tmp_path / "index")
    forms = about(tmp_path / "events").attributes
    for done in work_off(pieces_of(tmp_path / "events"), index, forms, str(tmp_path)):
        group = pq.read_metadata(tmp_path / str(done.file)).row_group(0)
        places = {group.column(place).path_in_schema: place for place in range(group.num_columns)}
        assert "RLE_DICTIONARY" in group.column(places["subscriptions.list.element"]).encodings


def test_events_with_no_column_that_filters_name(tmp_path: Path) -> None:
    from godwit.filters.filters import missing

    event_table(tmp_path / "events", [{"x": 1}, {"x": 2}])
    index = SubscriptionIndex({"a": missing("y")}).save(tmp_path / "index")
    [done] = work_off(pieces_of(tmp_path / "events"), index, {}, None)
    assert (done.events, done.matched, done.pairs) == (2, 2, 2)


@pytest.mark.parametrize("filters", [{"a": "a > 1"}, {"b": QUOTED}, {"a": "a > 1", "b": QUOTED}])
def test_a_column_whose_name_begins_another(tmp_path: Path, filters: dict[str, str]) -> None:
    """In Parquet `a.b` may be a part of `a`; here it is an attribute of its own."""
    rows: list[Attributes] = [{"a": 1, "a.b": 2, "a.b.c": 1}, {"a": 2, "a.b": 1, "a.b.c": 1}]
    event_table(tmp_path / "events", rows)
    index = SubscriptionIndex({id: parse(text) for id, text in filters.items()})
    learn(index, tmp_path / "events")
    file, forms = index.save(tmp_path / "index"), about(tmp_path / "events").attributes
    [done] = work_off(pieces_of(tmp_path / "events"), file, forms, None)
    assert (done.events, done.matched, done.pairs) == (2, len(filters), len(filters))


def test_matches_never_take_the_place_of_their_events(tmp_path: Path) -> None:
    event_table(tmp_path / "events", [{"x": 1}])
    index, _ = index_of(tmp_path / "index", 3)
    nowhere: Any = None
    with pytest.raises(PipelineError, match="would replace it"):
        match_table(nowhere, tmp_path / "events", index, tmp_path / "index" / ".." / "events", "overwrite")


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    event_table(tmp_path / "events", [{"x": 1}])
    [file] = tables.files(tmp_path / "events")
    file.write_bytes(b"PAR1 it is not PAR1")
    with pytest.raises(PipelineError, match=rf"cannot read {file}: "):
        learn(SubscriptionIndex(), tmp_path / "events")


def test_a_worker_that_does_not_see_the_table_says_so(tmp_path: Path) -> None:
    index, _ = index_of(tmp_path, 3)
    gone: list[Any] = [RowRange(str(tmp_path / "gone.parquet"), None, 0, 0, 5)]
    with pytest.raises(PipelineError, match=r"a worker cannot find .*gone\.parquet: the table must be in a folder"):
        list(work_off(gone, index, {}, None))
