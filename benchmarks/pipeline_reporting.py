"""What `pipeline.py` reports: our figures, those of others in the same run, and how many times ours they are."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks.measuring import Machine
from benchmarks.reporting import number


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `ratio` is compared with `target`; `is_full` says that the size is the one the target speaks of."""

    part: str
    what: str
    who: str
    runs: list[float]
    unit: str = "s"
    ratio: float | None = None
    ratio_means: str = ""
    target: float | None = None
    at_most: bool = False
    is_full: bool = True
    pairs: int | None = None
    bytes: int | None = None
    cpu_s: float | None = None
    note: str = ""
    more: dict[str, float] = field(default_factory=dict)

    @property
    def figure(self) -> float:
        """The median of the runs."""
        return median(self.runs)

    @property
    def verdict(self) -> str:
        """Whether the ratio reaches its target."""
        if self.target is None or self.ratio is None:
            return ""
        if not self.is_full:
            return "not at this size"
        reached = self.ratio <= self.target if self.at_most else self.ratio >= self.target
        return "reached" if reached else "missed"


def json_line(row: Row, machine: Machine) -> str:
    """A row as JSON, with what it depends on."""
    said = {**asdict(row), "figure": row.figure, "verdict": row.verdict, "machine": asdict(machine)}
    return json.dumps(said, ensure_ascii=False)


def cells(row: Row) -> list[str]:
    """A row for people."""
    spread = f" ({number(min(row.runs))} to {number(max(row.runs))})" if len(row.runs) > 1 else ""
    target = "" if row.target is None else f"{'≤' if row.at_most else '≥'} {number(row.target)}"
    ratio = f"{number(row.ratio)} {row.ratio_means}".strip() if row.ratio is not None else ""
    figure = f"{number(row.figure)} {row.unit}{spread}"
    return [row.what, row.who, figure, number(row.cpu_s), ratio, target, row.verdict, row.note]


HEADINGS = ("what", "who", "figure", "CPU s", "ratio", "target", "", "note")


def print_table(rows: Sequence[Row], machine: Machine, versions: str) -> None:
    """All rows, those of a work together."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    styles = {"reached": "green", "missed": "red"}
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading)
    what = ""
    for row in rows:
        if what not in ("", row.what):
            table.add_section()
        said = cells(row)
        said[0] = "" if row.what == what else row.what
        said[6] = f"[{styles.get(row.verdict, 'dim')}]{row.verdict}[/]"
        table.add_row(*said)
        what = row.what
    console.print(f"\n{machine.cpu}, {machine}, {versions}; commit {machine.commit}\n")
    console.print(table)


def markdown(rows: Sequence[Row], machine: Machine) -> str:
    """The rows as BENCHMARKS.md has them."""
    lines = [f"| {' | '.join([*cells(row), machine.commit])} |" for row in rows]
    return "\n".join(
        [
            "| what | who | figure | CPU s | ratio | target | verdict | note | commit |",
            "|---|---|---|---|---|---|---|---|---|",
            *lines,
        ]
    )
