"""Rows of files are divided into tasks: each row in one, and shorter ones at the end."""

from random import Random

import pytest

from godwit.pipeline import row_ranges
from godwit.pipeline.row_ranges import RowRange, as_tasks, task_sizes


def test_every_row_is_in_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ranges, "TASK_ROWS_MIN", 1)
    draw = Random(1)
    for _ in range(50):
        pieces = [RowRange(f"{n}", None, 0, 0, draw.randrange(1, 60)) for n in range(draw.randrange(1, 9))]
        slots = draw.randrange(1, 5)
        tasks = as_tasks(pieces, slots)
        rows = [(piece.path, row) for task in tasks for piece in task for row in range(piece.first, piece.last)]
        assert rows == [(piece.path, row) for piece in pieces for row in range(piece.last)]


def test_tasks_come_in_rounds_that_take_half_of_what_is_left() -> None:
    sizes = list(task_sizes(1_000_000, 2))
    assert sizes == [250_000, 250_000, 125_000, 125_000, 125_000, 125_000]
    assert list(task_sizes(245_190, 2)) == [122_595, 122_595]  # few: one for each slot
    assert list(task_sizes(1, 4)) == [1, 0, 0, 0]
    long = list(task_sizes(100_000_000, 2))
    assert sum(long) == 100_000_000
    assert max(long) == row_ranges.TASK_ROWS_MAX
    assert sorted(long, reverse=True) == long
