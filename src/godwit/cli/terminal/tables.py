"""Tables: columns as wide as they need to be, or narrower with wrapped cells if the terminal is."""

from collections.abc import Iterator
from dataclasses import dataclass

from godwit.cli.terminal.drawings import Drawing, drawn, line_width
from godwit.cli.terminal.styled_text import Line, Text

__all__ = ["Table"]

NATURAL = 1_000_000
WIDTH_MIN = 6
"""Columns are not made narrower than this, as long as another one can be."""


@dataclass
class Column:
    """A column, and how its cells are set."""

    heading: str
    style: str = ""
    justify: str = "left"
    no_wrap: bool = False
    width: int | None = None
    width_min: int = 0
    ratio: int = 0


class Table:
    """Rows below headings. `show_lines` separates the rows by lines."""

    def __init__(
        self, *headings: str, title: str = "", show_header: bool = True, show_lines: bool = False, gap: int = 2
    ) -> None:
        self._columns = [Column(heading) for heading in headings]
        self._rows: list[tuple[list[Drawing], str]] = []
        self._sections: set[int] = set()  # rows that have a line above them
        self._title, self._show_header, self._show_lines, self._gap = title, show_header, show_lines, gap

    @classmethod
    def grid(cls, gap: int = 2) -> "Table":
        """A table without headings."""
        return cls(show_header=False, gap=gap)

    def add_column(
        self,
        heading: str = "",
        *,
        style: str = "",
        justify: str = "left",
        no_wrap: bool = False,
        width: int | None = None,
        min_width: int = 0,
        ratio: int = 0,
    ) -> None:
        """Add a column. Columns with a `ratio` share what the others leave of the terminal's width."""
        self._columns.append(Column(heading, style, justify, no_wrap, width, min_width, ratio))

    def add_row(self, *cells: "Drawing | str", style: str = "") -> None:
        """Add a row; columns that are not there yet are made."""
        while len(self._columns) < len(cells):
            self._columns.append(Column(""))
        self._rows.append(([self._styled(cell, place) for place, cell in enumerate(cells)], style))

    def add_section(self) -> None:
        """The next row has a line above it."""
        self._sections.add(len(self._rows))

    def _styled(self, cell: "Drawing | str", place: int) -> Drawing:
        return Text(cell, self._columns[place].style) if isinstance(cell, str) else drawn(cell)

    def lines(self, width: int) -> list[Line]:
        """Title, headings, rows."""
        widths = self._widths(width)
        whole = sum(widths) + self._gap * (len(widths) - 1)
        found: list[Line] = Text(self._title, "bold").lines(width) if self._title else []
        if self._show_header:
            found += self._set([Text(column.heading, "bold") for column in self._columns], widths, "")
            found.append([("─" * whole, "dim")])
        for place, (cells, style) in enumerate(self._rows):
            if place and (self._show_lines or place in self._sections):
                found.append([("─" * whole, "dim")])
            found += self._set(cells, widths, style)
        return found

    def _set(self, cells: list[Drawing], widths: list[int], style: str) -> Iterator[Line]:
        """The lines of a row: each cell set in its column."""
        drawn_cells = [cell.lines(wide) for cell, wide in zip(cells, widths, strict=False)]
        for number in range(max(map(len, drawn_cells), default=0)):
            line: Line = []
            for place, lines in enumerate(drawn_cells):
                part = lines[number] if number < len(lines) else []
                space = " " * max(widths[place] - line_width(part), 0)
                justify = getattr(cells[place], "justify", "") or self._columns[place].justify
                line += [(space, ""), *part] if justify == "right" else [*part, (space, "")]
                line.append((" " * self._gap, ""))
            yield _stripped([(text, its or style) for text, its in line])

    def _widths(self, width: int) -> list[int]:
        room = width - self._gap * (len(self._columns) - 1)
        widths = [self._natural(place) for place in range(len(self._columns))]
        ratios = [column.ratio for column in self._columns]
        if any(ratios):
            left = max(room - sum(wide for wide, ratio in zip(widths, ratios, strict=True) if not ratio), sum(ratios))
            return [left * ratio // sum(ratios) if ratio else wide for wide, ratio in zip(widths, ratios, strict=True)]
        fixed = {place for place, column in enumerate(self._columns) if column.no_wrap or column.width is not None}
        for kept, least in ((fixed, WIDTH_MIN), (set[int](), WIDTH_MIN), (set[int](), 1)):
            lowest = [wide if place in kept else min(wide, least) for place, wide in enumerate(widths)]
            while sum(widths) > room and widths != lowest:
                place = max(
                    (each for each in range(len(widths)) if widths[each] > lowest[each]), key=widths.__getitem__
                )
                widths[place] -= 1
        return widths

    def _natural(self, place: int) -> int:
        column = self._columns[place]
        if column.width is not None:
            return column.width
        cells = [cells[place] for cells, _ in self._rows if place < len(cells)]
        heading = [Text(column.heading)] if self._show_header else []
        wide = max((line_width(line) for cell in [*heading, *cells] for line in cell.lines(NATURAL)), default=0)
        return max(wide, column.width_min)


def _stripped(line: Line) -> Line:
    """A line without the spaces at its end."""
    while line and not line[-1][0].strip(" "):
        line = line[:-1]
    return line
