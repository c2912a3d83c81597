"""A search for a setting in which P2, P3 and P4 of `pubmob` hold at once, over the parameters that the paper leaves
open.

*Theory.* The paper does not say how large messages are, whether publishers move at the same moments, how long a broker
works on a message, how the three speeds are shared out, how long the warm-up is, or whether what happens at first
connections is counted. `AXES` has values for each; a `Choice` is one value of each. Four runs with the most
publishers, one for each algorithm, decide P2, P3 and P4 for a choice (`pubmob_bounds.py`). A third of the choices is
drawn. Each of the others differs in one step along one axis from the best one so far that still has such a neighbour;
the best is the one with the smallest sum of shortfalls.

Where no choice meets all conditions, `conflicts` names those pairs of conditions that some choices meet one by one and
no choice meets together: these contradict each other, as far as the search has looked.

*Rules.*
1. At most as many choices are tried as are asked for, and each once.
2. The same seed tries the same choices in the same order, however many processes run them.
3. A trace is deleted when Spark has read it: what is kept is `search.json`.
4. The bounds are those of the claims; nothing here has one.

*Bandwidth.* The paper gives it, and what counts is the time that a message takes on a link: half the bandwidth and
messages of half the size are the same setting, but for links to clients. It is an axis all the same, for a network
whose links are shared by both directions, or lose a part to headers.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from godwit.reproduce.city import MESSAGE_BYTES, AnalysedRun, Runs
from godwit.reproduce.claims import Setting
from godwit.reproduce.figures import Area, points
from godwit.reproduce.pubmob_bounds import (
    ALL_THERE,
    MODES,
    NEARLY_FOUR_S,
    Condition,
    cost_conditions,
    first_ratios,
    probe_conditions,
    stands_after,
    time_conditions,
)

__all__ = [
    "AXES",
    "Choice",
    "Trial",
    "best",
    "conflicts",
    "met_at_once",
    "next_choices",
    "search",
    "show",
    "trial_of",
    "write",
]

SUBSCRIBERS = 500
DURATION_S = 24.0
AT_ONCE = 4  # choices of which runs are made before Spark reads them
DRAWN_SHARE = 1 / 3  # of all choices
FORMAT = 2  # of search.json

Counted = Literal["after the warm-up", "from the beginning"]
COUNTED: tuple[Counted, ...] = ("after the warm-up", "from the beginning")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the open parameters."""

    event_bytes: int = MESSAGE_BYTES
    control_bytes: int = MESSAGE_BYTES
    phase_s: float | None = None  # within which all cross their first border; None: anywhere in their cells
    processing_ms: float = 0.0  # of a broker for each message
    speeds_kmh: tuple[int, ...] = (5, 50, 100)
    bandwidth_kbps: int = 256
    warmup_s: float = 12.0
    publishers: int = 250

    def changes(self) -> dict[str, Any]:
        """To the scenario of the city, by key."""
        phase = {} if self.phase_s is None else {"clients.roaming.phase_s": self.phase_s}
        return {
            "overlay.event_bytes": self.event_bytes,
            "overlay.control_bytes": self.control_bytes,
            "overlay.processing_ms": self.processing_ms,
            "overlay.bandwidth_kbps": self.bandwidth_kbps,
            "clients.roaming.speeds_kmh": list(self.speeds_kmh),
            **phase,
        }


AXES: dict[str, tuple[Any, ...]] = {
    "event_bytes": (100, 160, 200, 240, 280, 320, 400, 500, 600, 700),
    "control_bytes": (100, 160, 200, 240, 280, 320, 500, 700, 1_000, 1_500),
    "phase_s": (0.0, 2.0, 5.0, 10.0, None),
    "processing_ms": (0.0, 1.0, 2.0, 5.0),
    "speeds_kmh": ((50,), (5, 50, 100), (100,)),
    "bandwidth_kbps": (128, 256),
    "warmup_s": (4.0, 12.0),
    "publishers": (150, 250),
}
"""By field of a choice, the values that are tried, in an order in which neighbours are alike."""

BEGIN: tuple[Choice, ...] = (
    Choice(),  # what `godwit reproduce pubmob` runs
    Choice(event_bytes=320, control_bytes=320, phase_s=2.0),  # moves at the same time, links that are not full
)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the four runs of a choice, with one way to count."""

    choice: Choice
    counted: Counted
    cost: dict[str, float]  # by mode: messages for each move
    stands_after_s: dict[str, float]
    first_delivered: dict[str, float]
    median_s: dict[str, float]
    median_by_move_s: dict[str, tuple[float, ...]] = {}  # after the first move, the second, …; after the warm-up
    conditions: tuple[Condition, ...]

    @property
    def shortfall(self) -> float:
        """The sum of its shortfalls."""
        return sum(each.shortfall for each in self.conditions)

    def holds(self, claim: str) -> bool:
        """Whether all conditions of a claim are met."""
        return all(each.holds for each in self.conditions if each.claim == claim)


def search(setting: Setting, choices_max: int, told: Callable[[Trial], None] = lambda _: None) -> list[Trial]:
    """Try at most so many choices; two trials for each, by what is counted, in the order in which they were tried."""
    trials: list[Trial] = []
    rng = Random(f"{setting.seed}/pubmob-search")
    tried = 0
    while tried < choices_max:
        batch = next_choices([each.choice for each in trials], trials, rng, choices_max - tried, choices_max)
        if not batch:
            break
        for trial in _tried(setting, batch):
            trials.append(trial)
            told(trial)
        tried += len(batch)
        write(setting.folder, trials, setting.seed)
    return trials


def next_choices(
    done: Sequence[Choice], trials: Sequence[Trial], rng: Random, left: int, choices_max: int
) -> list[Choice]:
    """The choices to try next: those to begin with, then drawn ones, then neighbours of the best."""
    known, found = set(done), list[Choice]()
    drawn_until = max(len(BEGIN), round(DRAWN_SHARE * choices_max))
    for choice in _candidates(trials, rng, drawn_until):
        if len(found) == min(AT_ONCE, left):
            break
        if choice not in known:
            known.add(choice)
            found.append(choice)
    return found


def _candidates(trials: Sequence[Trial], rng: Random, drawn_until: int) -> Iterator[Choice]:
    yield from BEGIN
    if len(trials) < len(COUNTED) * drawn_until:
        while True:
            yield Choice(**{name: rng.choice(values) for name, values in AXES.items()})
    for trial in sorted(trials, key=_shortfall):
        yield from neighbours(trial.choice)


def neighbours(choice: Choice) -> Iterator[Choice]:
    """The choices that differ in one step along one axis."""
    for name, values in AXES.items():
        at = values.index(getattr(choice, name))
        for place in (at - 1, at + 1):
            if 0 <= place < len(values):
                yield msgspec.structs.replace(choice, **{name: values[place]})


def _tried(setting: Setting, batch: Sequence[Choice]) -> Iterator[Trial]:
    runs = Runs(setting)
    scenarios = [
        runs.scenario(
            mode,
            publishers=choice.publishers,
            subscribers=SUBSCRIBERS,
            duration_s=DURATION_S,
            warmup_s=choice.warmup_s,
            changes=choice.changes(),
        )
        for choice in batch
        for mode in MODES
    ]
    seen = iter(runs.run_at_once(scenarios, also=["by_move"]))
    for choice in batch:
        by_mode = {mode: next(seen) for mode in MODES}
        for counted in COUNTED:
            yield trial_of(choice, counted, by_mode)
    shutil.rmtree(setting.folder / "traces")  # (rule 3)


def trial_of(choice: Choice, counted: Counted, seen: dict[str, AnalysedRun]) -> Trial:
    """The result of four runs of a choice, by mode."""
    probes = {mode: run.measured if counted == COUNTED[0] else run.probes for mode, run in seen.items()}
    cost = {mode: run.each for mode, run in seen.items()}
    return Trial(
        choice=choice,
        counted=counted,
        cost=cost,
        stands_after_s={mode: stands_after(each) for mode, each in probes.items()},
        first_delivered=first_ratios(probes),
        median_s={mode: each.percentile(0.5) for mode, each in probes.items()},
        median_by_move_s={
            mode: tuple(each.median for _, each in sorted(run.figures.by_move.items())) for mode, run in seen.items()
        },
        conditions=(*cost_conditions(cost), *probe_conditions(probes), *time_conditions(probes)),
    )


# ---------------------------------------------------------------- what was found


def best(trials: Sequence[Trial]) -> Trial:
    """The trial with the paper's number of publishers that is nearest to meeting all conditions."""
    return min((each for each in trials if each.choice.publishers == max(AXES["publishers"])), key=_shortfall)


def _shortfall(trial: Trial) -> float:
    return trial.shortfall


def met_at_once(trials: Sequence[Trial]) -> dict[str, int]:
    """By condition, how many trials meet it."""
    return dict(Counter(each.text for trial in trials for each in trial.conditions if each.holds))


def conflicts(trials: Sequence[Trial]) -> list[tuple[str, str]]:
    """Pairs of conditions that are met one by one, and by no trial together."""
    together: set[tuple[str, str]] = set()
    for trial in trials:
        met = [each.text for each in trial.conditions if each.holds]
        together |= {(one, other) for one, other in combinations(met, 2)}
    alone = met_at_once(trials)
    order = [each.text for each in trials[0].conditions] if trials else []
    return [
        (one, other) for one, other in combinations(order, 2)
        if one in alone and other in alone and (one, other) not in together
    ]  # fmt: skip


def write(folder: Path, trials: Sequence[Trial], seed: int) -> Path:
    """Write all trials to `search.json`."""
    path = folder / "search.json"
    rows = [{**msgspec.to_builtins(each), "shortfall": each.shortfall} for each in trials]
    data = {"format": FORMAT, "seed": seed, "axes": AXES, "trials": rows}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    return path


def show(folder: Path, trials: Sequence[Trial]) -> tuple[Path, Path]:
    """Draw what P3 asks for of STANDARD and of PREFETCHING against each other, in all trials."""
    kinds: dict[str, list[tuple[float, float]]] = {"P4 holds": [], "P4 does not hold": []}
    for trial in trials:
        lost = 1 - trial.first_delivered["prefetching"]
        kinds["P4 holds" if trial.holds("P4") else "P4 does not hold"].append((trial.stands_after_s["standard"], lost))
    return points(
        folder,
        "search_p3_p4",
        {name: places for name, places in kinds.items() if places},
        title="What P3 asks for, and what was found: one point for each setting",
        x="seconds until all of STANDARD's probes arrive",
        y="PREFETCHING's first probes that are lost",
        area=Area("P3 asks for this", *NEARLY_FOUR_S, 0.0, 1 - ALL_THERE),
        y_near_zero=1 - ALL_THERE,
    )
