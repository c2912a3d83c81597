"""Evidence for a choice: the same clients simulated in each mode of moving, with each reduction of routing tables.

*Theory.* The simulator gets the brokers of the plan, their links, and the hour of the trace that has most moves, run in
`DURATION_S` simulated seconds. Half of the clients publish, half subscribe, and all move. The same seed gives the same
moves, events and filters in every run, so that rows differ by mode and reduction alone.

*Rules.*
1. The *gap* of a hand-over is the time from a client's connection to another broker until its session has arrived.
2. A row is *safe* if nothing was lost, delivered twice or out of order, and no other law was broken.
3. The scenario and its files stay in a folder: `godwit simulate` runs each row again.
4. What was cut from the trace is in `Setup`: clients, brokers, time.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from godwit.mobility.extensions import mode_of
from godwit.pipeline.mobility.cells import BrokerPlacement
from godwit.planning.assessment import Assessment, Rates
from godwit.planning.broker_links import planned_links
from godwit.planning.movement_tallies import HOUR_S
from godwit.planning.trace_readers import Fix, TraceReader
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, load, with_changes
from godwit.simulator.summary import percentile_ms
from godwit.trace import Record

__all__ = ["MODES", "REDUCTIONS", "Choice", "Evidence", "EvidenceRow", "Setup", "chosen", "gather"]

MODES = ("relocate", "ask", "named", "carry")
REDUCTIONS = ("flooding", "identity", "covering", "merging")
BROKERS_MAX = 64
CLIENTS_MAX = 24
DURATION_S = 120.0
SETTLE_S = 60.0
EVENTS_MAX = 1_500  # of a run, published
MARGIN_SHARE = 0.05  # of the range, by which another broker must be nearer
ALIKE = 1.02  # smaller differences are not significant
SUBSCRIPTIONS = 4  # of each subscriber, with the planned selectivity together


class EvidenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    mode: str
    reduction: str
    safe: bool
    lost: int
    duplicated: int
    out_of_order: int
    broken: tuple[str, ...]  # laws
    messages: int
    bytes_sent: int
    table_entries: int
    moves: int
    gap_p50_ms: float | None
    gap_p99_ms: float | None
    replay: str


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated part of the trace."""

    brokers: int
    brokers_of: int
    clients: int
    clients_of: int
    begins_s: float  # in the trace
    seconds: float  # of the trace
    speedup: float
    publishers: int
    events_per_s: float  # of each publisher
    wanted: float
    seed: int
    folder: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All runs, and their setup."""

    setup: Setup | None
    rows: tuple[EvidenceRow, ...]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A mode and a reduction, and why."""

    mode: str
    reduction: str
    reasons: tuple[str, ...]


# ---------------------------------------------------------------- running


def gather(
    reader: TraceReader,
    assessment: Assessment,
    placement: BrokerPlacement,
    rates: Rates,
    folder: Path,
    *,
    modes: Sequence[str] = MODES,
    reductions: Sequence[str] = REDUCTIONS,
    seed: int = 1,
    tell: Callable[[str, float], None] = lambda word, done: None,
) -> Evidence:
    """Run every mode with every reduction. `tell` is called with each run that begins, and the progress."""
    seconds = min(float(HOUR_S), max(assessment.ends_s - assessment.begins_s, 1.0))
    begins_s = max(min(float(assessment.busiest_hour_s), assessment.ends_s - seconds), assessment.begins_s)
    fixes = reader.sample(begins_s, begins_s + seconds + 1, CLIENTS_MAX)
    clients = len({fix.client for fix in fixes})
    if clients < 2 or len(placement.brokers) < 2:
        return Evidence(setup=None, rows=())
    setup = Setup(
        brokers=min(len(placement.brokers), BROKERS_MAX),
        brokers_of=len(placement.brokers),
        clients=clients,
        clients_of=assessment.clients,
        begins_s=begins_s,
        seconds=round(seconds, 1),
        speedup=round(max(seconds / DURATION_S, 1.0), 3),
        publishers=clients // 2,
        events_per_s=round(min(rates.events_per_s, EVENTS_MAX / (clients // 2) / DURATION_S), 3),
        wanted=rates.wanted,
        seed=seed,
        folder=str(folder),
    )
    scenario = _scenario(setup, fixes, assessment, placement, folder)
    pairs = [(mode, reduction) for mode in modes for reduction in reductions]
    rows = []
    for number, (mode, reduction) in enumerate(pairs):
        tell(f"simulating {mode} with {reduction} ({number + 1} of {len(pairs)})", number / len(pairs))
        rows.append(_row(scenario, mode, reduction, seed, folder))
    return Evidence(setup=setup, rows=tuple(rows))


def _scenario(
    setup: Setup, fixes: Sequence[Fix], assessment: Assessment, placement: BrokerPlacement, folder: Path
) -> Scenario:
    """Write the scenario with its files, and load it. (rule 3)"""
    folder.mkdir(parents=True, exist_ok=True)
    busiest = sorted(assessment.brokers, key=lambda each: (-each.served, each.broker))[: setup.brokers]
    chosen_brokers = {each.broker for each in busiest}
    links = planned_links(placement, assessment.pairs, chosen_brokers)
    rows = [each for each in assessment.brokers if each.broker in chosen_brokers]
    positions = [f"{_cell(each.broker)},{each.lon},{each.lat}" for each in rows]
    (folder / "brokers.csv").write_text("\n".join(["broker,lon,lat", *positions]) + "\n", encoding="utf-8")
    listed = {"brokers": [each.broker for each in rows], "links": [{"a": link.a, "b": link.b} for link in links]}
    (folder / "links.json").write_bytes(msgspec.json.format(msgspec.json.encode(listed), indent=1))
    lines = [f"{fix.at_s!r},{_cell(fix.client)},{fix.lon!r},{fix.lat!r}" for fix in fixes]
    (folder / "fixes.csv").write_text("\n".join(["time,id,lon,lat", *lines]) + "\n", encoding="utf-8")
    range_m = max(median(each.radius_m for each in rows), 1.0)
    file = folder / "scenario.toml"
    file.write_text(_toml(setup, range_m), encoding="utf-8")
    return load(str(file))


def _cell(text: str) -> str:
    """A text as a cell of CSV."""
    return '"' + text.replace('"', '""') + '"' if any(each in text for each in ',"\r\n') else text


def _toml(setup: Setup, range_m: float) -> str:
    return f"""\
description = "The busiest hour of a trace, for a plan"

[overlay]
kind = "file"
file = "links.json"
positions = "brokers.csv"

[routing]
reduction = "covering"

[clients]
publishers = {setup.publishers}
subscribers = {setup.clients - setup.publishers}
subscriptions = {SUBSCRIPTIONS}
publish_per_s = {setup.events_per_s}

[clients.roaming]
model = "trace"
file = "fixes.csv"
speedup = {setup.speedup}
away_s = 0.5
range_m = {min(range_m, 100_000.0)}
margin_m = {round(range_m * MARGIN_SHARE, 3)}

[workload]
kind = "random"
selectivity = {setup.wanted / SUBSCRIPTIONS}

[run]
duration_s = {DURATION_S}
settle_s = {SETTLE_S}
"""


def _row(scenario: Scenario, mode: str, reduction: str, seed: int, folder: Path) -> EvidenceRow:
    publisher_mode = mode if mode_of(mode).for_all else "relocate"
    changes = [
        f"clients.roaming.subscriber_mode={mode}",
        f"clients.roaming.publisher_mode={publisher_mode}",
        f"routing.reduction={reduction}",
    ]
    gaps = HandoverGaps()
    summary = Simulation(with_changes(scenario, changes), seed, gaps).run()
    found = sorted(gaps.seconds)
    words = ["godwit simulate", str(folder / "scenario.toml"), f"--seed {seed}", *(f"--set {each}" for each in changes)]
    return EvidenceRow(
        mode=mode,
        reduction=reduction,
        safe=summary.passed and not (summary.lost or summary.duplicated or summary.out_of_order),
        lost=summary.lost,
        duplicated=summary.duplicated,
        out_of_order=summary.out_of_order,
        broken=tuple(sorted({violation.law for violation in summary.violations})),
        messages=summary.messages_sent,
        bytes_sent=summary.bytes_sent,
        table_entries=summary.table_entries,
        moves=summary.moves,
        gap_p50_ms=percentile_ms(found, 0.5),
        gap_p99_ms=percentile_ms(found, 0.99),
        replay=" ".join(words),
    )


class HandoverGaps:
    """A sink that keeps only the gaps of hand-overs. (rule 1)"""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._connected: dict[str, float] = {}

    def write(self, at: float, node: str, record: Record) -> None:
        """See `TraceSink`."""
        if record.kind == "link_up":
            self._connected[node] = at
        elif record.kind == "relocated" and record.peer in self._connected:
            self.seconds.append(at - self._connected[record.peer])


# ---------------------------------------------------------------- choosing


def chosen(evidence: Evidence) -> Choice | None:
    """The mode with the shortest gap and the reduction with the fewest bytes, of the safe ones; None if there are none.

    A mode with weaker guarantees (`mobility/modes.py`) may have been lucky: it is used only if no other is safe.
    """
    if evidence.setup is None:
        return Choice(
            mode="relocate",
            reduction="covering",
            reasons=("nothing was simulated, as it takes two brokers and two clients: these are the defaults",),
        )
    safe = [row for row in evidence.rows if row.safe]
    if not safe:
        return None
    unsafe = sorted({row.mode for row in evidence.rows} - {row.mode for row in safe})
    promised = [row for row in safe if _promises_all(row.mode)]
    lucky = sorted({row.mode for row in safe} - {row.mode for row in promised}) if promised else []
    safe = promised or safe
    by_mode = {row.mode: [each for each in safe if each.mode == row.mode] for row in safe}
    gaps = {mode: median(row.gap_p99_ms or 0.0 for row in rows) for mode, rows in by_mode.items()}
    messages = {mode: min(row.messages for row in rows) for mode, rows in by_mode.items()}
    shortest = min(gaps.values())
    near = [mode for mode in gaps if gaps[mode] <= shortest * ALIKE]
    mode = min(near, key=lambda each: messages[each])
    rows = by_mode[mode]
    fewest = min(row.bytes_sent for row in rows)
    alike = [row for row in rows if row.bytes_sent <= fewest * ALIKE]
    row = min(alike, key=lambda each: (each.table_entries, each.reduction != "covering"))
    reasons = [f"{mode}: 99 of 100 hand-overs take at most {gaps[mode]:,.0f} ms, the shortest of {', '.join(gaps)}"]
    if unsafe:
        reasons.append(f"not {', '.join(unsafe)}: events were lost, delivered twice or out of order")
    if lucky:
        reasons.append(f"not {', '.join(lucky)}: no fault was seen, but the order of events is not promised")
    reasons.append(
        f"{row.reduction}: {row.bytes_sent:,} bytes and {row.messages:,} messages; "
        + ", ".join(f"{each.reduction} {each.bytes_sent:,} bytes" for each in rows if each is not row)
    )
    return Choice(mode=mode, reduction=row.reduction, reasons=tuple(reasons))


def _promises_all(mode: str) -> bool:
    promised = mode_of(mode)
    return promised.complete and promised.unique and promised.ordered
