"""Tables fit the width of the terminal."""

import pytest

from godwit.cli.terminal import Table, Text
from godwit.cli.terminal.drawings import line_width
from godwit.cli.terminal.styled_text import plain


def shown(table: Table, width: int = 80) -> list[str]:
    return [plain(line) for line in table.lines(width)]


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    table = Table("name", title="all")
    table.add_column("n", justify="right")
    table.add_row("ann", "7")
    table.add_row("bo", Text("1,000", "bold"))
    assert shown(table) == ["all", "name      n", "───────────", "ann       7", "bo    1,000"]


def test_a_grid_has_no_headings_and_a_section_a_line() -> None:
    table = Table.grid(gap=1)
    table.add_row("a", "b")
    table.add_section()
    table.add_row("cc", "d\ne")
    assert shown(table) == ["a  b", "────", "cc d", "   e"]


@pytest.mark.parametrize(("width", "has_room"), [(20, False), (30, True), (50, True)])
def test_in_a_narrow_terminal_cells_are_wrapped_and_names_are_not(width: int, has_room: bool) -> None:
    table = Table()
    table.add_column("name", no_wrap=True)
    table.add_column("filter")
    table.add_column("more")
    table.add_row("ann/phone", "kind = 'parking' AND cost < 3", "a longer remark")
    lines = table.lines(width)
    assert all(line_width(line) <= width for line in lines)
    assert any("ann/phone" in plain(line) for line in lines) == has_room


def test_columns_with_a_ratio_share_what_is_left() -> None:
    table = Table(show_lines=True)
    table.add_column("k", no_wrap=True)
    table.add_column("one", ratio=1)
    table.add_column("three", ratio=3)
    table.add_row("a", "x " * 20, "y " * 20)
    table.add_row("b", "", "")
    lines = shown(table, 45)
    assert lines[1] == "─" * 45
    assert lines[2] == "a  x x x x x   y y y y y y y y y y y y y y y"
    assert lines[-2] == "─" * 45


def test_a_row_has_the_style_of_its_cells_and_then_its_own() -> None:
    table = Table.grid()
    table.add_column(style="cyan")
    table.add_column()
    table.add_row("a", "b", style="bold")
    assert [piece for piece in table.lines(80)[0] if piece[0].strip()] == [("a", "cyan"), ("b", "bold")]
