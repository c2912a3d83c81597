"""The table of ways to move in the documentation is the one in the code."""

import godwit.baselines  # noqa: F401 (registers the mode `naive`, which the table has too)
from godwit.mobility.modes import MODES, table
from tests.conventions.repository import ROOT

PAGE = "docs/reference/modes.md"


def test_the_table_of_modes_is_the_one_in_the_code():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert table() in page, f"{PAGE} must contain this table:\n{table()}"


def test_the_table_has_a_row_for_each_mode_and_as_many_columns_in_each():
    lines = table().split("\n")
    assert len(lines) == len(MODES) + 2
    assert len({line.count("|") for line in lines}) == 1
