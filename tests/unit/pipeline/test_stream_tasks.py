"""The tasks of a stream, without Spark: workers that read files find what they find in rows."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.pipeline import stream_tasks, tables
from godwit.pipeline.columns import Form, arrow_type
from godwit.pipeline.row_ranges import RowRange, ranges_of
from godwit.pipeline.schemas import about, arrow_schema
from godwit.pipeline.stream_tasks import TASKS_MAX, FileRows, StreamTask, divided
from godwit.pipeline.subscription_index import SubscriptionIndex
from tests.unit.filters.random_filters import random_attributes
from tests.unit.pipeline.test_table_matching import START, event_table, index_of


def rows_of(folder: Path) -> FileRows:
    forms = about(folder, "events").attributes
    ranges = [each for path in tables.files(folder) for each in ranges_of(path, folder)]
    return FileRows(divided(ranges, 2), forms, arrow_schema(forms))


def done(task: StreamTask, rows: FileRows) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, int]]:
    """The matches, the late events, and the sums of the counts."""
    task.attempt.mkdir(parents=True, exist_ok=True)
    numbers = pa.record_batch({"id": pa.array(range(len(rows.tasks)))})
    reports = [row for each in task.of_files(rows, iter([numbers])) for row in each.to_pylist()]
    matches: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    for report in reports:
        if report["file"] is not None:
            found = pq.read_table(task.out / report["file"], partitioning=None).to_pylist()
            (late if report["folder"] else matches).extend(found)
    counts = [report for report in reports if report["file"] is None]
    return matches, late, {name: sum(each[name] for each in counts) for name in ("events", "matched", "pairs", "late")}


@pytest.mark.parametrize("keeps_late", [False, True])
@pytest.mark.parametrize("kind", ["days", "flat", "int96"])
def test_workers_that_read_files_find_what_the_naive_matcher_finds(tmp_path: Path, kind: str, keeps_late: bool) -> None:
    draw, folder = Random(5), tmp_path / "events"
    rows = [event(random_attributes(draw)).attributes for _ in range(300)]
    event_table(folder, rows, flat=kind == "flat", int96=kind == "int96")
    index, naive = index_of(tmp_path / "index")
    before = START + timedelta(minutes=30)
    late_before_us = round(before.timestamp() * 1e6) if keeps_late else None
    matches, late, counts = done(StreamTask(tmp_path, tmp_path / "attempt", index, late_before_us), rows_of(folder))
    first = 100 if keeps_late else 0
    expected = {
        (f"p{number // 100 * 100}", number): sorted(map(str, ids))
        for number, row in enumerate(rows)
        if (ids := naive.match(event(row))) and number >= first
    }
    assert {(row["publisher"], row["sequence"]): sorted(row["subscriptions"]) for row in matches} == expected
    assert all(row["day"] == row["published_at"].date() for row in (*matches, *late))
    assert {row["sequence"] for row in late} == set(range(first))
    if late:
        assert set(late[0]) == set(rows_of(folder).schema.names)
    pairs = sum(map(len, expected.values()))
    assert counts == {"events": 300, "matched": len(expected), "pairs": pairs, "late": first}


def test_rows_without_a_day_get_that_of_their_time(tmp_path: Path) -> None:
    times = [datetime(1969, 12, 31, 23, tzinfo=UTC), datetime(2026, 11, 15, 1, tzinfo=UTC), None]
    days = [date(2000, 1, 1), None, None]
    own = {
        "publisher": pa.array(["p"] * 3),
        "sequence": pa.array(range(3)),
        "published_at": pa.array(times, arrow_type(Form("time"))),
        "x": pa.array([1, 1, 1]),
    }
    folder = tmp_path / "events"
    with tables.changing(folder, "events") as change:
        for place, columns in (
            (None, {**own, "day": pa.array(days)}),
            ("2026-11-17", own),
            ("__HIVE_DEFAULT_PARTITION__", own),
            ("__HIVE_DEFAULT_PARTITION__", {"x": own["x"]}),
        ):
            target = change.place(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns), target)
        change.commit({"x": Form("int")})
    index = SubscriptionIndex({"a": parse("x = 1")}).save(tmp_path / "index")
    matches, _, counts = done(StreamTask(tmp_path, tmp_path / "attempt", index, None), rows_of(folder))
    assert counts["events"] == len(matches) == 12
    found = [row["day"] for row in matches]
    of_time = [each and each.date() for each in times]
    expected = [days[0], of_time[1], None, *[date(2026, 11, 17)] * 3, *of_time, None, None, None]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_batch_has_few_tasks_and_each_row_is_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_tasks, "TASK_ROWS_MIN", 1)
    monkeypatch.setattr("godwit.pipeline.row_ranges.TASK_ROWS_MIN", 1)
    for files, slots in ((1, 2), (9, 100), (300, 4), (1_000, 1_000)):
        ranges = [RowRange(f"{number}", None, 0, 0, 7) for number in range(files)]
        tasks = divided(ranges, slots)
        assert len(tasks) <= TASKS_MAX
        rows = [(each.path, row) for task in tasks for each in task for row in range(each.first, each.last)]
        assert sorted(rows) == sorted((each.path, row) for each in ranges for row in range(7))
    assert divided([], 2) == []


def test_few_rows_are_one_task_of_many_files() -> None:
    ranges = [RowRange(f"{number}", None, 0, 0, 100) for number in range(99)]
    assert divided(ranges, 8) == [ranges]
