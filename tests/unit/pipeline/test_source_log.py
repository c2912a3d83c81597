"""The files of a batch, from the record that Spark leaves in a checkpoint."""

import json
from pathlib import Path

import pytest

from godwit.pipeline.source_log import files_of_batch, files_read


def note_batch(checkpoint: Path, batch: int, last_list: int, version: str = "v1") -> None:
    path = checkpoint / "offsets" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{version}\n{{"batchWatermarkMs":0}}\n{{"logOffset":{last_list}}}')


def note_list(checkpoint: Path, name: str, files: dict[str, int], version: str = "v1") -> None:
    path = checkpoint / "sources" / "0" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": file, "timestamp": 5, "batchId": number}) for file, number in files.items()]
    path.write_text("\n".join([version, *lines]))


def test_a_batch_has_the_files_of_its_lists(tmp_path: Path) -> None:
    for batch, last in enumerate([0, 2, 3]):  # the driver was killed between list 1 and the record of batch 1
        note_batch(tmp_path, batch, last)
    for number in range(4):
        note_list(tmp_path, str(number), {f"file:///t/{number}.parquet": number})
    assert [files_of_batch(tmp_path, batch) for batch in range(3)] == [
        [Path("/t/0.parquet")],
        [Path("/t/1.parquet"), Path("/t/2.parquet")],
        [Path("/t/3.parquet")],
    ]
    assert files_of_batch(tmp_path, 3) is None
    assert files_read(tmp_path) == 4


def test_lists_that_were_merged_give_the_same_files(tmp_path: Path) -> None:
    files = {f"file:///t/{number}.parquet": number // 2 for number in range(20)}
    note_list(tmp_path, "9.compact", files)
    note_list(tmp_path, "9", {"file:///t/not-yet-removed.parquet": 9})
    note_list(tmp_path, "10", {"file:///t/20.parquet": 10})
    note_list(tmp_path, ".10.crc", {})
    for batch in range(11):
        note_batch(tmp_path, batch, batch)
    assert files_of_batch(tmp_path, 4) == [Path("/t/8.parquet"), Path("/t/9.parquet")]
    assert files_of_batch(tmp_path, 10) == [Path("/t/20.parquet")]
    assert files_read(tmp_path) == 21


def test_names_are_decoded(tmp_path: Path) -> None:
    note_batch(tmp_path, 0, 0)
    note_list(tmp_path, "0", {"file:///t/day=2026-11-15/part%201%25%23%C3%A4.parquet": 0})
    assert files_of_batch(tmp_path, 0) == [Path("/t/day=2026-11-15/part 1%#ä.parquet")]


@pytest.mark.parametrize("damage", ["offsets", "lists", "elsewhere", "two sources", "text", "gone"])
def test_a_record_in_an_unknown_form_is_none(tmp_path: Path, damage: str) -> None:
    note_batch(tmp_path, 0, 0, "v2" if damage == "offsets" else "v1")
    file = "hdfs://host/t/0.parquet" if damage == "elsewhere" else "file:///t/0.parquet"
    note_list(tmp_path, "0", {file: 0}, "v2" if damage == "lists" else "v1")
    if damage == "two sources":
        path = tmp_path / "offsets" / "0"
        path.write_text(path.read_text() + '\n{"logOffset":0}')
    if damage == "text":
        (tmp_path / "sources" / "0" / "0").write_text("v1\nnot JSON")
    if damage == "gone":
        (tmp_path / "sources" / "0" / "0").unlink()
    assert files_of_batch(tmp_path, 0) is None
