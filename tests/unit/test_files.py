"""Files that are there wholly or not at all."""

import os
from pathlib import Path

import pytest

from godwit.files import synced, write_whole
from tests.unit.disk import recorded


def test_the_new_file_is_there_and_nothing_else(tmp_path: Path) -> None:
    for data in (b"old", b"new"):
        write_whole(tmp_path / "a.json", data)
        assert (tmp_path / "a.json").read_bytes() == data
    write_whole(tmp_path / "b", b"b", draft=".b.7")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b"]


def test_it_is_on_the_disk_before_it_has_its_name_and_the_name_before_we_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(monkeypatch, tmp_path) as done:
        write_whole(tmp_path / "a", b"data")
    assert done == [("fsync", "a.new"), ("rename", "a"), ("fsync", ".")]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_goes_wrong_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    write_whole(tmp_path / "a", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os if step == "fsync" else Path, step, full)
        with pytest.raises(OSError, match="No space left"):
            write_whole(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_what_is_not_there_cannot_be_on_the_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        synced([tmp_path / "nowhere"])
