"""Files of a stream are merged: each row stays there once, wherever the process that merges them is killed."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.errors import PipelineError
from godwit.pipeline import match_files, stream_compaction
from godwit.pipeline.batch_ledger import BatchLedger, BatchPlan, Counts, Written, file_name
from godwit.pipeline.match_files import MatchWriter, merge_matches
from godwit.pipeline.stream_compaction import Compactor, compact, settled_generation
from godwit.pipeline.subscription_index import MatchPart
from tests.unit.pipeline.test_batch_ledger import KILLER, STREAM, Killed

WHEN = datetime(2026, 11, 15, 12, tzinfo=UTC)
Row = tuple[int, date | None, tuple[str, ...]]


class Ids:
    """An open index, as far as a writer looks at it."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = pa.array(ids)


def write_matches(folder: Path, first: int, ids: list[str], day: date | None = date(2026, 11, 15)) -> str:
    """Five events, the nth with n + 1 subscriptions; returns the file's name."""
    index: Any = Ids(ids)
    batch = pa.record_batch(
        {
            "publisher": pa.array(["p"] * 5),
            "sequence": pa.array(range(first, first + 5), pa.int64()),
            "published_at": pa.array([WHEN] * 5, pa.timestamp("us", tz="UTC")),
            "day": pa.array([day] * 5, pa.date32()),
        }
    )
    offsets = np.cumsum([0, *range(1, 6)], dtype=np.int32)
    members = np.concatenate([np.arange(count) % len(ids) for count in range(1, 6)]).astype(np.uint8)
    with MatchWriter(folder, index, has_day=True) as writer:
        writer.take(MatchPart(np.arange(5), offsets, members), batch)
    return writer.name


def put_batches(out: Path, number: int, first: int = 0) -> None:
    """Complete batches, each with a file of matches and one of late events."""
    (out / "_late").mkdir(parents=True, exist_ok=True)
    ledger = BatchLedger(out)
    with ledger.held():
        for batch in range(first, first + number):
            entry = ledger.begin(batch, STREAM, lambda _: BatchPlan(index="i", version="", subscriptions=1, began_us=0))
            folder = ledger.attempt(entry)
            name = write_matches(folder, 5 * batch, [f"s{batch}", "common", "third", "fourth", "fifth"])
            pq.write_table(
                pa.table({"sequence": pa.array([batch], pa.int64()), "day": pa.array([WHEN.date()])}),
                folder / "late.parquet",
            )
            below = folder.relative_to(out)
            files = (
                (f"{below}/{name}", file_name(batch, 0)),
                (f"{below}/late.parquet", f"_late/{file_name(batch, 1)}"),
            )
            ledger.complete(entry, Written(files, Counts(6, 5, 15, 1)))


def rows(out: Path) -> "Counter[Row]":
    found: Counter[Row] = Counter()
    for path in out.glob("*.parquet"):
        for row in pq.read_table(path, partitioning=None).to_pylist():
            found[(row["sequence"], row["day"], tuple(row["subscriptions"]))] += 1
    return found


def late(out: Path) -> "Counter[int]":
    tables = [pq.read_table(path, partitioning=None) for path in (out / "_late").glob("*.parquet")]
    return Counter(value for table in tables for value in table.column("sequence").to_pylist())


def compacted(out: Path, after: int) -> Compactor:
    with BatchLedger(out).held():
        found = Compactor(out, after)
        found.settle()
        found.after_batch()
    return found


def names(out: Path) -> list[str]:
    return sorted(path.name for path in out.glob("*.parquet"))


@pytest.mark.parametrize("portion", [1, 7, 1_000_000])
def test_merged_files_hold_the_same_rows_in_the_same_order(
    tmp_path: Path, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [tmp_path / write_matches(tmp_path, 5 * n, [f"s{n}", "b", "a"][: n + 1]) for n in range(4)]
    expected = [row for path in made for row in pq.read_table(path).to_pylist()]
    monkeypatch.setattr(match_files, "PAIRS_WRITTEN", portion)
    assert merge_matches(made, tmp_path / "merged.parquet") == 20
    assert pq.read_table(tmp_path / "merged.parquet").to_pylist() == expected


def test_files_are_merged_past_a_count_and_level_by_level(tmp_path: Path) -> None:
    put_batches(tmp_path, 3)
    before = rows(tmp_path)
    compacted(tmp_path, 4)
    assert rows(tmp_path) == before
    assert len(names(tmp_path)) == 3  # too few
    for first in (3, 4, 8, 12):
        put_batches(tmp_path, 1 if first == 3 else 4, first)
        before = rows(tmp_path)
        compacted(tmp_path, 4)
        assert rows(tmp_path) == before
    assert [name[:3] for name in names(tmp_path)] == ["a02"]  # four of level 1 became one of level 2
    assert late(tmp_path) == Counter(range(16))
    assert len(list((tmp_path / "_late").glob("*.parquet"))) == 1


def test_a_batch_that_is_not_complete_is_not_merged(tmp_path: Path) -> None:
    put_batches(tmp_path, 3)
    with BatchLedger(tmp_path).held():
        BatchLedger(tmp_path).begin(3, STREAM, lambda _: BatchPlan(index="", version="", subscriptions=1, began_us=0))
    stray = write_matches(tmp_path, 15, ["x"])
    (tmp_path / stray).rename(tmp_path / file_name(3, 0))
    compact(tmp_path)
    assert [name[:1] for name in names(tmp_path)] == ["a", "b"]


def killed_everywhere(folder: Path) -> Iterator[Path]:
    """Outputs whose compaction was killed before its nth change of the disk, for every n."""
    for number in range(1000):
        out = folder / str(number)
        put_batches(out, 3)
        try:
            with KILLER.at(number, out):
                compact(out)
        except Killed:
            yield out
            continue
        assert number > 5
        return


def test_killed_at_any_change_of_the_disk_each_row_is_there_once(tmp_path: Path) -> None:
    put_batches(tmp_path / "whole", 3)
    expected = rows(tmp_path / "whole")
    for out in killed_everywhere(tmp_path):
        assert settled_generation(out) >= 0  # what a reader does first
        assert rows(out) == expected
        compact(out)
        assert rows(out) == expected
        assert late(out) == Counter(range(3))
        assert len(names(out)) == 1
        assert not list(out.glob("_compacting/*"))


def test_a_compaction_that_forgets_old_files_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own test: the same check with a decision that removes nothing."""
    put_batches(tmp_path, 3)
    expected = rows(tmp_path)
    monkeypatch.setattr(stream_compaction.Compactor, "_name", lambda self, path: path.relative_to(self.out).as_posix())
    whole = stream_compaction.Decision
    monkeypatch.setattr(stream_compaction, "Decision", lambda **more: whole(**{**more, "removed": ()}))
    with BatchLedger(tmp_path).held():
        found = Compactor(tmp_path)
        found._merge("", found._files("", 0), 1)
    assert rows(tmp_path) != expected


def test_an_output_with_a_folder_for_each_day_is_rewritten(tmp_path: Path) -> None:
    put_batches(tmp_path, 2)
    expected = rows(tmp_path)
    for path in tmp_path.glob("*.parquet"):  # as earlier versions wrote it
        table = pq.read_table(path).drop_columns(["day"])
        (tmp_path / "day=2026-11-15").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "day=2026-11-15" / path.name)
        path.unlink()
    assert stream_compaction.has_day_folders(tmp_path)
    compact(tmp_path)
    assert rows(tmp_path) == expected
    assert not stream_compaction.has_day_folders(tmp_path)
    assert not list(tmp_path.glob("day=*"))


def test_a_merge_takes_a_bounded_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_compaction, "FILES_MERGED", 3)
    put_batches(tmp_path, 8)
    expected = rows(tmp_path)
    taken: list[int] = []
    put = Compactor._put

    def noted(self: Compactor, decision: stream_compaction.Decision) -> None:
        taken.append(len(decision.removed))
        put(self, decision)

    monkeypatch.setattr(Compactor, "_put", noted)
    compact(tmp_path)
    assert max(taken) == 3
    assert rows(tmp_path) == expected
    assert len(names(tmp_path)) == 1


def test_what_cannot_be_compacted_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not the output of a stream"):
        compact(tmp_path)
    with pytest.raises(PipelineError, match="compaction past 1 files: it must be at least 2, or 0 for none"):
        Compactor(tmp_path, 1)
    put_batches(tmp_path, 1)
    (tmp_path / "_compaction.json").write_text(
        '{"generation": 1, "state": "decided", "removed": ["../thesis.parquet"]}'
    )
    with pytest.raises(PipelineError, match=r"names '\.\./thesis\.parquet', which is not a file of"):
        compact(tmp_path)
    with BatchLedger(tmp_path).held(), pytest.raises(PipelineError, match="another stream writes to"):
        compact(tmp_path)
