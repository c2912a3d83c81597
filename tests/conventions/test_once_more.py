"""What fails in `make test` is run once more by .ci/run, if it is little and the run was complete."""

import json
import sys
from pathlib import Path

import pytest

from tests import at_once, once_more

TEST = """
from pathlib import Path

def test_passes_the_second_time():
    seen = Path("seen")
    fails = not seen.exists()
    seen.touch()
    assert not fails

def test_fails():
    assert False
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(once_more, "PYTEST", [sys.executable, "-m", "pytest", "-q"])
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    return tmp_path


def failed_once(*names: str, complete: bool = True) -> None:
    cache = at_once.CACHES / "spark" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps({f"test_it.py::{name}": True for name in names}), encoding="utf-8")
    if complete:
        at_once.COMPLETE.touch()


def test_a_test_that_passes_the_second_time_is_forgiven_and_named(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "seen").touch()
    failed_once("test_passes_the_second_time")
    assert once_more.main() == 0
    assert capfd.readouterr().out.endswith(
        "UNSTABLE, failed once and passed once:\n  test_it.py::test_passes_the_second_time\n"
    )


@pytest.mark.parametrize(
    ("names", "complete"),
    [
        (["test_fails"], True),
        (["test_passes_the_second_time", "test_fails"], True),
        (["test_passes_the_second_time"], False),
        (["test_passes_the_second_time"] + [f"test_{n}" for n in range(once_more.FAILED_MAX)], True),
        ([], True),
    ],
    ids=["fails twice", "one of two fails twice", "cut off", "too many", "none"],
)
def test_nothing_else_is_forgiven(folder: Path, names: list[str], complete: bool) -> None:
    (folder / "seen").touch()
    failed_once(*names, complete=complete)
    assert once_more.main() != 0
