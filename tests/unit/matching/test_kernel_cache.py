"""Compiled kernels go to a folder that can be written, and come only from one that nobody else writes to."""

import tempfile
from pathlib import Path

import pytest

from godwit.matching import kernel_cache
from godwit.matching.kernel_cache import cache_folder, has_compiled_kernels


@pytest.fixture(autouse=True)
def nothing_is_writable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Every usual place is a file, in which no folder can be made; for root, too, who may write everywhere."""
    blocked = tmp_path / "blocked"
    blocked.touch()
    for variable in ("NUMBA_CACHE_DIR", "CACHE_DIRECTORY", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(kernel_cache, "MODULES", blocked)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(blocked))
    return tmp_path


def test_without_a_folder_that_can_be_written_there_is_no_cache() -> None:
    assert cache_folder() is None


def test_without_a_folder_for_temporary_files_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert cache_folder() is None


def test_the_folder_of_the_modules_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_cache, "MODULES", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "__pycache__"


def test_what_the_user_has_set_is_used_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "set"))
    assert cache_folder() == tmp_path / "set"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "blocked"))
    assert cache_folder() is None


@pytest.mark.parametrize("variable", ["CACHE_DIRECTORY", "XDG_CACHE_HOME"])
def test_variables_of_systemd_and_desktops_are_followed(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    assert cache_folder() == tmp_path / "godwit"


def test_a_folder_to_which_others_may_write_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "godwit").mkdir()
    (tmp_path / "godwit").chmod(0o777)
    assert cache_folder() is None


def test_a_link_to_another_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "godwit").symlink_to(tmp_path / "elsewhere")
    assert cache_folder() is None


def test_compiled_kernels_are_found_by_their_index(tmp_path: Path) -> None:
    assert not has_compiled_kernels(tmp_path)
    (tmp_path / "matching").mkdir()
    (tmp_path / "matching" / "compiled_kernels.match_one-300.py311.nbi").touch()
    assert has_compiled_kernels(tmp_path)
