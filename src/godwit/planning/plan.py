"""A complete plan: settings, their evidence, and configuration files, from traces and positions.

*Theory.* Four steps: read and tally the traces, assess the placement, simulate the busiest hour, write the files. The
results, in a folder:

| file | is |
|---|---|
| `plan.json` | the whole plan, as one document |
| `brokers/NAME.toml` | the configuration of each broker |
| `evidence/` | the scenario that was simulated, with its files |

*Rules.*
1. Nothing is written to a folder with other files: it must be empty, new, or have a `plan.json`.
2. Configuration files of an earlier plan for other brokers are removed.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from godwit import __version__
from godwit.broker.reductions import reductions
from godwit.errors import BadValue
from godwit.files import write_whole
from godwit.mobility.extensions import mode_names, mode_of
from godwit.mobility.modes import NOTHING
from godwit.pipeline.mobility.cells import GRID_DEGREES, BrokerPlacement, GridCells, brokers_of
from godwit.pipeline.mobility.cleaning import CleaningOptions
from godwit.pipeline.mobility.globe import DEGREE_M
from godwit.planning.assessment import Assessment, Rates, assess
from godwit.planning.broker_links import PlannedLink, planned_links
from godwit.planning.configuration_files import addresses_of, configuration_files
from godwit.planning.evidence import MODES, REDUCTIONS, Choice, Evidence, chosen, gather
from godwit.planning.trace_readers import Engine, TraceReader
from godwit.settings import nearest

__all__ = ["Plan", "PlanSettings", "check_out", "make_plan", "placement_of"]

FILE = "plan.json"
BROKERS, EVIDENCE = "brokers", "evidence"
CELLS_IN_RADIUS = 2  # cells of gaps along the radius of the smallest area

Tell = Callable[[str, float], None]
"""Called with each step that begins, and the progress."""


class PlanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a plan, besides traces and positions."""

    rates: Rates = Rates()
    cleaning: CleaningOptions = msgspec.field(default_factory=CleaningOptions)
    modes: tuple[str, ...] = MODES
    reductions: tuple[str, ...] = REDUCTIONS
    seed: int = 1

    def __post_init__(self) -> None:
        for what, named, known in (("mode", self.modes, _modes()), ("reduction", self.reductions, list(reductions()))):
            for name in named:
                if name not in known:
                    raise BadValue(f"{what} {name!r}: allowed is {', '.join(known)}{nearest(name, known)}")
            if not named:
                raise BadValue(f"no {what} to simulate: allowed is {', '.join(known)}")
        if not 0 < self.rates.events_per_s <= 10_000:
            raise BadValue(f"{self.rates.events_per_s:g} events a second: allowed is above 0 and up to 10,000")
        if not 0 < self.rates.wanted <= 1:
            raise BadValue(f"wanted is {self.rates.wanted:g}: allowed is a share above 0 and up to 1")


def _modes() -> list[str]:
    """Modes of mobile subscribers that leave nothing behind at the old broker."""
    return [name for name in mode_names() if mode_of(name).suits("subscribers") and mode_of(name).leaves == NOTHING]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The result. `choice` is None if no simulated setting is safe."""

    version: str
    engine: Engine  # the engine that read the traces
    assessment: Assessment
    links: tuple[PlannedLink, ...]
    evidence: Evidence
    choice: Choice | None
    files: dict[str, str]  # by file name, the text of each broker's configuration

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON, with the names of the files instead of their texts."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found | {"files": list(self.files)}


def placement_of(file: str, radius_m: float | None) -> tuple[BrokerPlacement, float]:
    """The placement in a CSV file, and the side in degrees of the cells for its gaps."""
    radii_m = brokers_of(file, radius_m, GridCells(1.0)).radii_m
    degrees = min(max(min(radii_m) / CELLS_IN_RADIUS / DEGREE_M, GRID_DEGREES[0]), GRID_DEGREES[1])
    return brokers_of(file, radius_m, GridCells(degrees)), degrees


def make_plan(
    reader: TraceReader,
    engine: Engine,
    brokers_file: str,
    radius_m: float | None,
    settings: PlanSettings,
    out: Path | None = None,
    tell: Tell = lambda word, done: None,
) -> Plan:
    """Make a plan, and write it to `out`."""
    placement, degrees = placement_of(brokers_file, radius_m)
    tell("tallying positions", 0.05)
    tallies = reader.tally(placement, settings.cleaning)
    assessment = assess(tallies, reader.unread, placement, degrees, settings.rates)
    links = planned_links(placement, assessment.pairs)
    addresses = addresses_of(brokers_file)
    configuration_files(assessment.brokers, links, addresses, MODES[0], REDUCTIONS[0])  # errors before long runs
    with TemporaryDirectory() as scratch:
        evidence = gather(
            reader,
            assessment,
            placement,
            settings.rates,
            Path(scratch) if out is None else out / EVIDENCE,
            modes=settings.modes,
            reductions=settings.reductions,
            seed=settings.seed,
            tell=lambda word, done: tell(word, 0.2 + 0.75 * done),
        )
    choice = chosen(evidence)
    files = {}
    if choice is not None:
        files = configuration_files(assessment.brokers, links, addresses, choice.mode, choice.reduction)
    plan = Plan(
        version=__version__,
        engine=engine,
        assessment=assessment,
        links=links,
        evidence=evidence,
        choice=choice,
        files=files,
    )
    if out is not None:
        tell("writing files", 0.98)
        _write(plan, out)
    return plan


# ---------------------------------------------------------------- the folder


def check_out(out: Path) -> None:
    """Raise BadValue if a plan must not or cannot be written to a folder. (rule 1)"""
    if out.exists() and not out.is_dir():
        raise BadValue(f"{out} is not a folder: use another --out")
    if out.is_dir() and any(out.iterdir()) and not (out / FILE).exists():
        raise BadValue(f"{out} has other files, and no {FILE}: use an empty or new folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / FILE, b"{}\n")
    except OSError as error:
        raise BadValue(f"cannot write to {out}: {error.strerror or error}") from None


def _write(plan: Plan, out: Path) -> None:
    folder = out / BROKERS
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.toml"):  # (rule 2)
        if old.name not in plan.files:
            old.unlink()
    for name, text in plan.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_whole(out / FILE, msgspec.json.format(msgspec.json.encode(plan.to_data()), indent=2) + b"\n")
