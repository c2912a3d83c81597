"""Prints drawings to standard output or standard error."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from godwit.cli.terminal.drawings import Drawing, drawn
from godwit.cli.terminal.styled_text import Line, Text, coded, plain

__all__ = ["Console"]

WIDTH_ON_A_PIPE = 80
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Console:
    """A stream that drawings are printed to."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        self._is_stderr, self._width = stderr, width

    @property
    def stream(self) -> TextIO:
        """Where it prints to: what `sys` has now."""
        return sys.stderr if self._is_stderr else sys.stdout

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks at it. (rule 2 of the package)"""
        return bool(os.environ.get("FORCE_COLOR")) or self.stream.isatty()

    @property
    def has_colours(self) -> bool:
        """Whether styles are shown."""
        return self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns of a line."""
        return self._width or shutil.get_terminal_size((WIDTH_ON_A_PIPE, 24)).columns

    @property
    def height(self) -> int:
        """Lines that are visible."""
        return shutil.get_terminal_size((WIDTH_ON_A_PIPE, 24)).lines

    def print(self, what: "Drawing | str" = "", *, soft_wrap: bool = False) -> None:
        """Print a drawing. With `soft_wrap`, long lines of a text are left to the terminal."""
        drawing = drawn(what)
        lines = drawing.lines(None) if soft_wrap and isinstance(drawing, Text) else drawing.lines(self.width)
        self.stream.write("".join(f"{self.shown(line)}\n" for line in lines))
        self.stream.flush()

    def shown(self, line: Line) -> str:
        """A line as it is written."""
        return coded(line) if self.has_colours else plain(line)

    @contextmanager
    def status(self, word: str) -> Iterator[None]:
        """Show what is being done, on a terminal, while it lasts."""
        from godwit.cli.terminal.live import Live

        if not self.is_terminal:
            yield
            return
        with Live(self, lambda at: Text.assemble((SPINNER[int(at * 10) % len(SPINNER)], "green"), " ", word)):
            yield
