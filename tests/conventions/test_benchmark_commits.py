"""A commit that BENCHMARKS.md names is in the history, or listed as combined with others since."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,8}\b")


def is_there(commit: str) -> bool:
    asked = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def unknown(text: str) -> set[str]:
    """The commits that a text names and nobody can look at. Those of its paragraph on combined commits are known."""
    combined = "".join(part for part in text.split("\n\n") if part.startswith("Combined commits:"))
    named = set(COMMIT.findall(text)) - set(COMMIT.findall(combined))
    return {commit for commit in named if not is_there(commit)}


def test_each_commit_of_the_benchmarks_can_be_looked_at() -> None:
    if not is_there("a5b67102"):
        pytest.skip("this copy has no history, or not all of it")
    assert unknown((ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")) == set()


def test_a_commit_that_is_not_in_the_history_is_noticed() -> None:
    assert unknown("Combined commits: 1a2b3c4\nare old.\n\nMeasured on 1a2b3c4, and on 9f9f9f9f.") == {"9f9f9f9f"}
