"""Errors: what they say, and that they survive the trip to another process."""

import pickle

import pytest

from godwit.errors import BadEvent, BadValue, FilterError, FilterSyntaxError, FilterTooBig, GodwitError, Unbound


def test_syntax_error_draws_the_line_with_a_caret() -> None:
    error = FilterSyntaxError("a value is missing", 2, 10, "price < 10\nAND cost < ", ("a number", "a text", "my.x"))
    assert str(error) == (
        "line 2, column 10: a value is missing\n"
        "  AND cost < \n"
        "           ^\n"
        "expected a number, a text or my.x"
    )  # fmt: skip


def test_syntax_error_in_a_filter_of_a_megabyte_shows_only_the_part_around_the_fault() -> None:
    error = FilterSyntaxError("no such operator", 1, 500_001, "x" * 500_000 + "?" + "y" * 500_000)
    _, excerpt, caret = str(error).split("\n")
    assert len(excerpt) < 120
    assert excerpt[caret.index("^")] == "?"


@pytest.mark.parametrize("source", ["", "\t\t\x1b[31m", "a\r\nb"])
@pytest.mark.parametrize("line", [1, 2, 9])
def test_syntax_error_can_be_shown_wherever_it_points(source: str, line: int) -> None:
    shown = str(FilterSyntaxError("odd", line, 99, source))
    assert "^" in shown
    assert "\x1b" not in shown


def test_syntax_error_lists_a_dozen_choices_and_counts_the_rest() -> None:
    shown = str(FilterSyntaxError("odd", 1, 1, "?", tuple(f"choice{n}" for n in range(20))))
    assert shown.endswith("choice11 or 8 more")


@pytest.mark.parametrize("error", [FilterSyntaxError("odd", 1, 2, "a b", ("AND",)), Unbound("my.x", "myloc")])
def test_errors_survive_pickling(error: GodwitError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_a_wrong_value_is_a_value_error_too() -> None:
    for kind in (BadValue, BadEvent, FilterError, FilterSyntaxError, FilterTooBig, Unbound):
        assert issubclass(kind, GodwitError)
        assert issubclass(kind, ValueError)
