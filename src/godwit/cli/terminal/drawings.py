"""Drawings made of others: stacked, indented, framed, side by side, and trees."""

from typing import Protocol

from godwit.cli.terminal.styled_text import Line, Text, plain, width_of

__all__ = ["Beside", "Drawing", "Framed", "Indented", "Stacked", "Tree", "drawn", "line_width"]


class Drawing(Protocol):
    """What can be printed."""

    def lines(self, width: int) -> list[Line]:
        """Its lines, none wider than `width` if that is possible."""


def drawn(what: "Drawing | str") -> Drawing:
    """A text is a drawing, too."""
    return Text(what) if isinstance(what, str) else what


def line_width(line: Line) -> int:
    """Columns that a line takes."""
    return width_of(plain(line))


class Stacked:
    """Drawings below each other."""

    def __init__(self, *parts: "Drawing | str") -> None:
        self._parts = [drawn(part) for part in parts]

    def lines(self, width: int) -> list[Line]:
        """The lines of all parts."""
        return [line for part in self._parts for line in part.lines(width)]


class Indented:
    """A drawing some columns to the right."""

    def __init__(self, part: "Drawing | str", by: int) -> None:
        self._part, self._by = drawn(part), by

    def lines(self, width: int) -> list[Line]:
        """Its lines behind spaces."""
        return [[(" " * self._by, ""), *line] for line in self._part.lines(max(width - self._by, 1))]


class Framed:
    """A drawing in a frame with a title."""

    def __init__(self, part: "Drawing | str", title: str = "", style: str = "dim") -> None:
        self._part, self._title, self._style = drawn(part), title, style

    def lines(self, width: int) -> list[Line]:
        """Its lines, as wide as its widest one."""
        inside = self._part.lines(max(width - 4, 1))
        wide = max((line_width(line) for line in inside), default=0)
        wide = max(wide, width_of(self._title) + 2)
        title = f" {self._title} " if self._title else ""
        sides, style = ("│ ", self._style), self._style
        rows = [[sides, *line, (" " * (wide - line_width(line)), ""), (" │", style)] for line in inside]
        head = f"╭─{title}{'─' * (wide - width_of(title))}─╮"
        return [[(head, style)], *rows, [(f"╰{'─' * (wide + 2)}╯", style)]]


class Beside:
    """Two drawings side by side if there is room, else below each other."""

    def __init__(self, left: "Drawing | str", right: "Drawing | str", gap: int = 1) -> None:
        self._left, self._right, self._gap = drawn(left), drawn(right), gap

    def lines(self, width: int) -> list[Line]:
        """The lines of both."""
        left, right = self._left.lines(width), self._right.lines(width)
        wide = max(map(line_width, left), default=0) + self._gap
        if wide + max(map(line_width, right), default=0) > width:
            return [*left, *right]
        rows = max(len(left), len(right))
        left += [[] for _ in range(rows - len(left))]
        right += [[] for _ in range(rows - len(right))]
        return [
            [*one, (" " * (wide - line_width(one)), ""), *other] if other else one
            for one, other in zip(left, right, strict=True)
        ]


class Tree:
    """A drawing with branches below it."""

    def __init__(self, label: "Drawing | str", *, guide_style: str = "dim") -> None:
        self._label, self._guide_style = drawn(label), guide_style
        self._branches: list[Tree] = []

    def add(self, label: "Drawing | str") -> "Tree":
        """Add a branch, and return it."""
        branch = Tree(label, guide_style=self._guide_style)
        self._branches.append(branch)
        return branch

    def lines(self, width: int) -> list[Line]:
        """The label, and each branch behind a guide."""
        found = self._label.lines(width)
        for place, branch in enumerate(self._branches):
            is_last = place == len(self._branches) - 1
            guide, rest = ("└── ", "    ") if is_last else ("├── ", "│   ")
            for line in branch.lines(max(width - 4, 1)):
                found.append([(guide, self._guide_style), *line])
                guide = rest
        return found
