"""What commands of the pipeline show of what they have done."""

import json
import sys

import pytest

from godwit.cli.event_display import text_of
from godwit.cli.pipeline import analyse_command, ingest_command
from godwit.filters.events import event
from godwit.pipeline.ingest import Report

SPOILT = Report(
    "events",
    *(1, 5, 2),
    quarantined={"cells": 2, "no time": 1},
    seconds={"read": 2.0},
    first_bad="m.csv:3: no time: 'so\x1bon' is none",
)


def test_on_a_pipe_the_quarantine_is_part_of_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    ingest_command._show(SPOILT, "mixed")
    said = json.loads(capsys.readouterr().out)
    assert (said["quarantined"], said["quarantined_cells"], said["quarantined_no_time"]) == (3, 2, 1)
    assert (said["quarantine"], said["quarantined_first"]) == ("mixed/_quarantine", SPOILT.first_bad)
    ingest_command._show(Report("events", 1, 2, 2, seconds={"read": 2.0}), "mixed")
    assert not {"quarantine", "quarantined_first"} & json.loads(capsys.readouterr().out).keys()


def test_on_a_terminal_reasons_stand_below_how_many_were_not_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ingest_command._show(SPOILT, "mixed")
    shown = capsys.readouterr()
    rows = [line.rpartition(" ") for line in shown.out.splitlines()[1:]]  # below the title
    cells = [(name.rstrip(), held) for name, _, held in rows]
    assert cells[3:8] == [("read", "5"), ("written", "2"), ("not read", "3"), ("  cells", "2"), ("  no time", "1")]
    assert "rows per second" not in dict(cells)  # of five rows it says nothing
    assert "mixed/_quarantine. The first: m.csv:3: no time: 'so\\u001bon' is none" in shown.err


def test_an_event_of_the_past_has_its_day() -> None:
    quake = event({"mag": 4.5}, published_at=101_202_185.5, publisher="quakes", sequence=1)
    assert text_of(quake, has_day=True).plain == "1973-03-17 07:43:05.500  quakes  mag=4.5"
    assert "1973" not in text_of(quake).plain


def test_numbers_that_depend_on_the_order_of_a_sum_are_rounded() -> None:
    found = {
        "run": {"rows": 123_456_789, "latency_s": {"mean": 0.07674463853634934}, "entries": {"in_subs": 1083.9751}}
    }
    assert analyse_command._rounded(found) == {
        "run": {"rows": 123_456_789, "latency_s": {"mean": 0.0767446}, "entries": {"in_subs": 1083.98}}
    }
