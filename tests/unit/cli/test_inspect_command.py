"""Answers of a broker as tables, for people."""

import pytest

from godwit.cli import inspect_command

QUEUED = {"number": 1, "event": "van:1", "for": ["a/+"], "attributes": {"n": 3}, "queued_at": 1_795_064_676.8}


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_command, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TZ", "UTC")


def test_rows_are_a_table_with_times_to_read_and_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    inspect_command.list_rows("queued events", {"events": [QUEUED], "more": 2})
    head, _, row, count = capsys.readouterr().out.splitlines()
    assert head.split() == ["number", "event", "for", "attributes", "queued", "at"]
    assert row.split()[:4] == ["1", "van:1", "a/+", "n=3"]
    assert row.split()[4].startswith("2026-11-")
    assert count == "1 queued event, and 2 more"


def test_without_rows_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    inspect_command.list_rows("retained events", [])
    assert capsys.readouterr().out == "no retained events\n"
