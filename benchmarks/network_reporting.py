"""What `network.py` reports: a figure of Godwit's, those of its peers in the same run beside it, and their ratios."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks.measuring import Machine
from benchmarks.reporting import number

BUSY = 0.9  # a generator that worked so much of the time may have been the limit


@dataclass(frozen=True, slots=True)
class Measured:
    """One broker's figure: the median of its runs."""

    runs: list[float]
    cpu_us: float | None = None  # of the broker's processes, for each event, delivery, session or move
    generator: float | None = None  # the share of the time that the load generator worked

    @property
    def figure(self) -> float:
        """The median."""
        return median(self.runs)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table. `is_full`: it was taken at the size that its target speaks of."""

    part: str
    what: str
    unit: str
    ours: Measured | None
    peers: dict[str, Measured] = field(default_factory=dict)
    per: str = "event"
    target: float | None = None
    at_most: bool = False
    is_full: bool = True
    note: str = ""
    faults: list[str] = field(default_factory=list)

    def ratio(self, name: str) -> float | None:
        """Ours, divided by a peer's."""
        figure = self.peers[name].figure
        return self.ours.figure / figure if self.ours and figure else None

    @property
    def verdict(self) -> str:
        """Whether the figure reaches its target."""
        if self.ours is None:
            return "failed"
        if self.target is None:
            return ""
        if not self.is_full:
            return "not at this size"
        figure = self.ours.figure
        return "reached" if (figure <= self.target if self.at_most else figure >= self.target) else "missed"


def json_line(line: Line, machine: Machine) -> str:
    """A row as JSON, with what it depends on."""
    figures = {"figure": line.ours.figure if line.ours else None, "verdict": line.verdict}
    ratios = {name: line.ratio(name) for name in line.peers}
    said = {**asdict(line), **figures, "ratios": ratios, "machine": asdict(machine)}
    for name, measured in line.peers.items():
        said["peers"][name]["figure"] = measured.figure
    return json.dumps(said, ensure_ascii=False)


def _peers(line: Line) -> str:
    cells = []
    for name, measured in line.peers.items():
        ratio, cost = line.ratio(name), measured.cpu_us
        times = f", ×{number(ratio)}" if ratio is not None else ""
        cells.append(f"{name} {number(measured.figure)}{times}" + (f", {number(cost)} µs" if cost is not None else ""))
    return "\n".join(cells)


def _note(line: Line) -> str:
    said = [line.note] if line.note else []
    by_name = {"Godwit": line.ours, **line.peers}
    said += [
        f"{name}: the generator was busy {each.generator:.0%}, so it may be the limit"
        for name, each in by_name.items()
        if each and each.generator and each.generator >= BUSY
    ]
    return "\n".join(said + line.faults)


def print_table(lines: Sequence[Line], machine: Machine, load: str, width: int | None = None) -> None:
    """All rows."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=width)
    styles = {"reached": "green", "missed": "red", "failed": "red"}
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in (
        "what",
        "Godwit",
        "CPU µs",
        "each",
        "peers: figure, ratio Godwit/peer, CPU µs",
        "target",
        "",
        "note",
    ):
        table.add_column(heading, justify="right" if heading in ("Godwit", "CPU µs", "target") else "left")
    part = ""
    for line in lines:
        if part not in ("", line.part):
            table.add_section()
        part, ours = line.part, line.ours
        target = "" if line.target is None else f"{'≤' if line.at_most else '≥'} {number(line.target)}"
        table.add_row(
            line.what,
            f"{number(ours.figure)} {line.unit}" if ours else "",
            number(ours.cpu_us) if ours else "",
            line.per if ours and ours.cpu_us is not None else "",
            _peers(line),
            target,
            f"[{styles.get(line.verdict, 'dim')}]{line.verdict}[/]",
            _note(line),
        )
    console.print(f"\n{machine.cpu}, {machine}; commit {machine.commit}\n{load}\n")
    console.print(table)
