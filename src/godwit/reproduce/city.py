"""The city of [pubmob §4.1], and the figures of one run.

*What the paper gives.* 85 brokers: a tree of height 4 and degree 4 whose 64 leaves stand along a street, 0.5 km each;
256 kbps and 10 ms between brokers, 128 kbps to clients; each publisher one publication and an advertisement identical
to it; each subscriber one of the publications; 5, 50 or 100 km/h; 3 s out of reach between brokers; 20 publications in
4 s after each connection, the first after 200 ms; 5 proxies; a delay of 10 s; perfect prediction.

*What it leaves open, and we chose.* How large a message is: 500 bytes, for events and control alike. That decides how
full the links at the root are, and so how long trees take. We tried 500, 600, 700 and 1,000. With 250 publishers
STANDARD's stand after 2.0 s with 500 bytes, 2.8 s with 600, 3.4 s with 700 (the paper: nearly 4 s). But from 600 bytes
on PREFETCHING, whose events all arrive, fills these links to the brim: 50 messages a second where 53 fit, and a median
delivery of 3 s. How long a run lasts. Where publishers are when it begins: anywhere in their cells, so that their moves
are spread evenly over time.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import structs

from godwit.pipeline.analytics import TraceSource
from godwit.reproduce.claims import Setting
from godwit.reproduce.pubmob_metrics import Also, ProbeCounts, PubmobFigures, figures
from godwit.reproduce.traced_runs import traced, traced_by_processes
from godwit.simulator.scenario import Scenario, named, with_changes
from godwit.trace import FILE

__all__ = ["CLIENT_LATENCY_MS", "MESSAGE_BYTES", "PROXIES", "AnalysedRun", "Runs"]

MESSAGE_BYTES = 500
CLIENT_LATENCY_MS = 10
PROXIES = 5


class AnalysedRun:
    """A run and the figures of its trace: Spark computes them at the first use, for all new runs at once."""

    def __init__(self, scenario: Scenario, source: TraceSource, runs: "Runs") -> None:
        self.scenario, self.source = scenario, source
        self._runs = runs

    @property
    def figures(self) -> PubmobFigures:
        """The figures of its trace."""
        return self._runs.figures(self.source.run)

    @property
    def moves(self) -> int:
        """After the warm-up."""
        return self.figures.moves

    @property
    def total(self) -> int:
        """Tree-building cost."""
        return sum(self.figures.cost.values())

    @property
    def each(self) -> float:
        """Tree-building cost of one move."""
        return self.total / max(self.moves, 1)

    @property
    def each_second(self) -> float:
        """Tree-building cost of one second after the warm-up."""
        return self.total / self.scenario.run.duration_s

    @property
    def entries(self) -> dict[str, float]:
        """By broker, on average."""
        return self.figures.entries

    @property
    def mean_entries(self) -> float:
        """On average over all brokers."""
        return sum(self.entries.values()) / len(self.entries)

    @property
    def entries_by_depth(self) -> dict[int, float]:
        """By distance from the root, on average over the brokers there."""
        return self.figures.entries_by_depth(self.scenario.overlay.degree or 1)

    @property
    def probes(self) -> ProbeCounts:
        """Those of the whole run."""
        return self.figures.probes["all"]

    @property
    def first(self) -> ProbeCounts:
        """Those at the first connection of their publisher."""
        return self.figures.probes["first"]

    @property
    def measured(self) -> ProbeCounts:
        """Those after the warm-up, at brokers that a publisher has moved to."""
        return self.figures.probes["measured"]


class Runs:
    """The city with changes. A scenario is run once, even if experiments call it by several names."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._seen: dict[str, AnalysedRun] = {}
        self._same: dict[bytes, str] = {}  # by scenario without its name, the name of the run with it
        self._figures: dict[str, PubmobFigures] = {}
        self._also: dict[Also, set[str]] = {what: set() for what in get_args(Also)}  # the names of runs

    def seen(
        self,
        mode: str,
        *,
        publishers: int,
        subscribers: int,
        duration_s: float,
        warmup_s: float = 40.0,
        changes: dict[str, Any] | None = None,
        also: Collection[Also] = (),
    ) -> AnalysedRun:
        """A run in which publishers move by `mode`; `changes` to the scenario by key, and what else is computed."""
        scenario = self.scenario(
            mode,
            publishers=publishers,
            subscribers=subscribers,
            duration_s=duration_s,
            warmup_s=warmup_s,
            changes=changes,
        )
        same = self._same.setdefault(msgspec.json.encode(structs.replace(scenario, name="")), scenario.name)
        if same not in self._seen:
            folder = traced(scenario, self.setting.seed, self.setting.folder, self.setting.progress)[0]
            self._seen[same] = self._analysed(scenario, folder)
        for what in also:
            assert same not in self._figures, f"the figures of {same} are computed already"
            self._also[what].add(same)
        return self._seen[same]

    def run_at_once(self, scenarios: Sequence[Scenario], also: Collection[Also] = ()) -> list[AnalysedRun]:
        """Run new scenarios in several processes; returns all results in order. `also`: what else is computed."""
        new = {each.name: each for each in scenarios if each.name not in self._seen}
        setting = self.setting
        folders = traced_by_processes(
            list(new.values()), setting.seed, setting.folder, setting.progress, setting.processes
        )
        for scenario, folder in zip(new.values(), folders, strict=True):
            self._seen[scenario.name] = self._analysed(scenario, folder)
            for what in also:
                self._also[what].add(scenario.name)
        return [self._seen[each.name] for each in scenarios]

    def scenario(
        self,
        mode: str,
        *,
        publishers: int,
        subscribers: int,
        duration_s: float,
        warmup_s: float = 40.0,
        changes: Mapping[str, Any] | None = None,
    ) -> Scenario:
        """The scenario of such a run, named by its differences from others."""
        changes = {**self.setting.changes, **(changes or {})}
        said = "".join(f" {key.rpartition('.')[2]} {value}" for key, value in changes.items())
        name = f"{mode} {publishers} of {subscribers} {duration_s:g} after {warmup_s:g} s{said}"
        name = "".join(sign if sign.isalnum() or sign in "+.-" else "-" for sign in name)
        return with_changes(
            named("city"),
            [
                f"name={name}",
                f"clients.publishers={publishers}",
                f"clients.subscribers={subscribers}",
                "clients.publish_per_s=0",
                "clients.events=none",
                "clients.probes={count=20, first_ms=200, every_ms=200}",
                "clients.roaming={model='line', who='publishers', away_s=3}",
                f"clients.roaming.publisher_mode={mode}",
                f"clients.roaming.publishers={{proxies={PROXIES}, delay_s=10}}",
                f"overlay.control_bytes={MESSAGE_BYTES}",
                f"overlay.event_bytes={MESSAGE_BYTES}",
                f"overlay.client_latency_ms={CLIENT_LATENCY_MS}",
                f"run={{warmup_s={warmup_s}, duration_s={duration_s}, settle_s=15, judge=false, leave=false}}",
                *(f"{key}={value}" for key, value in changes.items()),
            ],
        )

    def _analysed(self, scenario: Scenario, folder: Path) -> AnalysedRun:
        return AnalysedRun(scenario, TraceSource(folder / FILE, scenario.name, scenario.run.warmup_s), self)

    def figures(self, run: str) -> PubmobFigures:
        """The figures of a run."""
        if run not in self._figures:
            waiting = [seen.source for seen in self._seen.values() if seen.source.run not in self._figures]
            self.setting.progress(f"Spark reads {len(waiting)} traces", 1.0)
            self._figures |= figures(self.setting.spark(), waiting, self._also)
        return self._figures[run]
