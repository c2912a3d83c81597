"""Drawings that change in place: a live picture, and bars that show progress."""

import os
import threading
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Self

from godwit.cli.terminal.console import Console
from godwit.cli.terminal.drawings import Drawing, Stacked
from godwit.cli.terminal.styled_text import Line, Text

__all__ = ["Live", "Progress", "Task", "clock_of"]

PER_S = 8
BAR_WIDTH = 40
HIDE, SHOW, CLEAR_LINE, CLEAR_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[J"


class Live:
    """Draws again and again at the same place, from a thread. `draw` gets the seconds since the start."""

    def __init__(self, console: Console, draw: Callable[[float], Drawing], *, transient: bool = True) -> None:
        self._console, self._draw, self._transient = console, draw, transient
        self._began, self._height = monotonic(), 0
        self._over, self._lock = threading.Event(), threading.RLock()
        self._thread = threading.Thread(target=self._redraw, daemon=True)
        self._can_move = os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to draw."""
        if self._can_move:
            self._write(HIDE)
            self._thread.start()

    def stop(self) -> None:
        """Draw for the last time; a transient picture is removed."""
        self._over.set()
        if not self._can_move:
            if not self._transient:
                self._console.print(self._draw(monotonic() - self._began))
            return
        self._thread.join()
        with self._lock:
            if self._transient:
                self._show()
                self._put([])
            else:
                self._put(self._draw(monotonic() - self._began).lines(self._console.width))
            self._write(SHOW)

    def print(self, what: "Drawing | str") -> None:
        """Print something above the picture."""
        with self._lock:
            self._put([])
            self._console.print(what, soft_wrap=True)
            if self._can_move and not self._over.is_set():
                self._show()

    def _redraw(self) -> None:
        while not self._over.is_set():
            with self._lock:
                self._show()
            self._over.wait(1 / PER_S)

    def _show(self) -> None:
        lines = self._draw(monotonic() - self._began).lines(self._console.width)
        self._put(lines[: max(self._console.height - 1, 1)])  # what has left the screen cannot be drawn again

    def _put(self, lines: list[Line]) -> None:
        """Replace the picture by these lines."""
        up = f"\x1b[{self._height}A\r" if self._height else ""
        shown = "".join(f"{CLEAR_LINE}{self._console.shown(line)}\n" for line in lines)
        if self._can_move:
            self._write(f"{up}{shown}{CLEAR_BELOW}")
        self._height = len(lines)

    def _write(self, text: str) -> None:
        self._console.stream.write(text)
        self._console.stream.flush()


class Task:
    """Work that is partly done. `total` is None if it is not known."""

    def __init__(self, description: str, total: float | None, **fields: Any) -> None:
        self.description, self.total, self.completed, self.fields = description, total, 0.0, fields
        self._began = monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return monotonic() - self._began

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return min(self.completed / self.total, 1.0) if self.total else 0.0


def clock_of(seconds: float) -> str:
    """A duration as hours, minutes and seconds."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def percentage(task: Task) -> str:
    """Behind a bar: its percentage and its time."""
    return f"{task.share:>4.0%}  {clock_of(task.elapsed_s)}"


class Progress:
    """A bar for each task, on standard error. With `disable`, nothing is drawn."""

    def __init__(
        self, tail: Callable[[Task], str] = percentage, *, transient: bool = True, disable: bool = False
    ) -> None:
        self._tail, self.disable = tail, disable
        self._tasks: list[Task] = []
        self.console = Console(stderr=True)
        self._live = Live(self.console, self._drawn, transient=transient)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to draw."""
        if not self.disable:
            self._live.start()

    def stop(self) -> None:
        """End drawing."""
        if not self.disable:
            self._live.stop()

    def print(self, what: str) -> None:
        """Print a line above the bars."""
        if self.disable:
            self.console.print(what, soft_wrap=True)
        else:
            self._live.print(what)

    def add_task(self, description: str, total: float | None, **fields: Any) -> Task:
        """A new bar."""
        task = Task(description, total, **fields)
        self._tasks.append(task)
        return task

    @staticmethod
    def advance(task: Task, by: float = 1) -> None:
        """More of a task is done."""
        task.completed += by

    @staticmethod
    def update(task: Task, *, description: str | None = None, completed: float | None = None, **fields: Any) -> None:
        """Change what is known of a task."""
        task.description = task.description if description is None else description
        task.completed = task.completed if completed is None else completed
        if "total" in fields:
            task.total = fields.pop("total")
        task.fields |= fields

    def _drawn(self, at: float) -> Drawing:
        wide = max((len(task.description) for task in self._tasks), default=0)
        return Stacked(*(_bar(task, at, wide, self._tail(task)) for task in list(self._tasks)))


def _bar(task: Task, at: float, wide: int, tail: str) -> Text:
    head = f"{task.description:>{wide}} " if wide else ""
    if task.total is None:
        place = int(at * PER_S) % BAR_WIDTH
        parts = [("━" * place, "dim"), ("━━━"[: BAR_WIDTH - place], "magenta")]
        parts.append(("━" * max(BAR_WIDTH - place - 3, 0), "dim"))
    else:
        done = int(task.share * BAR_WIDTH)
        parts = [("━" * done, "green" if done == BAR_WIDTH else "magenta"), ("━" * (BAR_WIDTH - done), "dim")]
    return Text.assemble(head, *parts, f" {tail}")
