"""What is reported: a row per figure, as a table on a terminal, JSON lines on a pipe, or Markdown for BENCHMARKS.md."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.measuring import SHARE_LOW, Machine


@dataclass(frozen=True, slots=True)
class Anchor:
    """What others reached, and what is wanted; events a second but for `Row.target` of other units."""

    target: float | None = None
    naive: float | None = None  # NumPy evaluation when the target was set: judge by the ratio to it
    prototype: str = ""
    peers: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `is_full` says that it was taken at the size its target speaks of."""

    name: str
    what: str
    figure: float
    unit: str
    anchor: Anchor = Anchor()
    naive: float | None = None
    unseen: float | None = None
    at_most: bool = False
    is_full: bool = True
    share: float = 1.0
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times faster than naive NumPy evaluation in the same run."""
        return self.figure / self.naive if self.naive else None

    @property
    def ratio_wanted(self) -> float | None:
        """What the ratio was to be when the target was set."""
        return self.anchor.target / self.anchor.naive if self.anchor.target and self.anchor.naive else None

    @property
    def verdict(self) -> str:
        """Whether the figure reaches its target."""
        if self.anchor.target is None:
            return ""
        if not self.is_full:
            return "not at this size"
        reached = self.figure <= self.anchor.target if self.at_most else self.figure >= self.anchor.target
        return "reached" if reached else "missed"


def number(value: float | None) -> str:
    """A number for people: three digits or so, thousands apart."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def json_line(row: Row, machine: Machine) -> str:
    """A row as JSON, with what it depends on."""
    derived = {"ratio": row.ratio, "ratio_wanted": row.ratio_wanted, "verdict": row.verdict}
    return json.dumps({**asdict(row), **derived, "machine": asdict(machine)}, ensure_ascii=False)


def print_tables(rows: Sequence[Row], machine: Machine) -> None:
    """Two tables: events a second, and everything else."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    styles = {"reached": "green", "missed": "red"}

    def table(title: str, *headings: str) -> Table:
        made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for heading in headings:
            is_text = heading in ("workload", "what", "verdict", "note", "others")
            made.add_column(heading, justify="left" if is_text else "right")
        return made

    speed = table(
        "Events a second, one core",
        *(
            "workload",
            "ours",
            "unseen",
            "naive",
            "ratio",
            "others",
            "prototype (C++)",
            "target",
            "its ratio",
            "verdict",
        ),
    )
    rest = table("Growth and cost", "what", "ours", "target", "verdict", "note")
    for row in rows:
        target, verdict = number(row.anchor.target), f"[{styles.get(row.verdict, 'dim')}]{row.verdict}[/]"
        ours = number(row.figure) + ("" if row.share >= SHARE_LOW else " *")
        if row.naive is None:
            rest.add_row(row.what, f"{ours} {row.unit}", f"{'≤' if row.at_most else '≥'} {target}", verdict, row.note)
        else:
            measured = ours, number(row.unseen), number(row.naive), number(row.ratio)
            others = row.anchor.peers, row.anchor.prototype, target, number(row.ratio_wanted)
            speed.add_row(row.what, *measured, *others, verdict)
    console.print(f"\n{machine.cpu}, {machine}; commit {machine.commit}\n")
    for each in (speed, rest):
        if each.row_count:
            console.print(each)
    if any(row.share < SHARE_LOW for row in rows):
        console.print("* shared its core with something else meanwhile: take this figure again on an idle machine")


def markdown(rows: Sequence[Row], machine: Machine) -> str:
    """The rows as BENCHMARKS.md has them."""
    where = f"{machine.cpu} | {machine.commit} |"
    speed = [f"| {row.what} | {number(row.figure)} | {number(row.ratio)} | {where}" for row in rows if row.naive]
    rest = [f"| {row.what} | {number(row.figure)} | {where}" for row in rows if not row.naive]
    return "\n".join(
        [
            *(
                "| workload | figure, events/s | ratio to naive NumPy | machine | commit |",
                "|---|---|---|---|---|",
                *speed,
                "",
            ),
            *("| what | figure | machine | commit |", "|---|---|---|---|", *rest, ""),
            *("| name | what it is |", "|---|---|", f"| {machine.cpu} | {machine} |"),
        ]
    )
