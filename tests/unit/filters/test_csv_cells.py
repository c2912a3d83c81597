"""Cells of tables without types: what each is taken for."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from godwit.cli.main import app
from godwit.filters.csv_cells import DIGITS_MAX, cell


def as_json(text: str) -> Any:
    """What JSON takes it for, if that is a bool or a number."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if type(found) in (bool, int, float) and math.isfinite(found) and text == text.strip() else None


@given(st.text("0123456789.-+eE truefalsTRUE", max_size=8) | st.integers().map(str) | st.floats().map(str))
def test_what_json_takes_for_a_bool_or_a_number_is_that_and_all_else_a_text(text: str) -> None:
    expected = as_json(text.lower()) if text.lower() in ("true", "false") else as_json(text)
    assert repr(cell(text)) == repr((text if expected is None else expected) if text else None) or cell(text) in (
        math.inf,
        -math.inf,
    )


@pytest.mark.parametrize("digits", [1_001, 5_000])
def test_a_number_of_very_many_digits_is_refused_in_a_sentence(tmp_path: Path, digits: int) -> None:
    assert cell("9" * digits) == math.inf
    (tmp_path / "a.csv").write_text(f"n\n{'9' * digits}\n")
    ran = CliRunner().invoke(app, ["match", "n > 3", str(tmp_path / "a.csv")])
    assert ran.exit_code
    assert "Traceback" not in ran.output
    assert ran.exception is None or isinstance(ran.exception, SystemExit)


def test_a_number_of_the_most_digits_is_an_int() -> None:
    text = "9" * DIGITS_MAX
    assert cell(text) == int(text)
    assert type(cell(text)) is int
