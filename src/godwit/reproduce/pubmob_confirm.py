"""The most informative settings for P3 and P4 of `pubmob`, each repeated with several seeds.

*Theory.* The search (`pubmob_search.py`) tries many settings with one seed and short runs. What it found rests on a few
of them. These are repeated here, with the same four runs and the same bounds, once for each seed.

*Rules.*
1. The settings are fixed. No result changes them.
2. A condition counts as met by a setting only if every seed meets it; how many seeds do is kept beside it.
3. A trace is deleted when Spark has read it: what is kept is `confirmed.json`.
4. Connections of the warm-up have no probes, which nobody would count (as in `pubmob_runs.py`).
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec
from msgspec import structs

from godwit.reproduce.city import Runs
from godwit.reproduce.claims import Setting
from godwit.reproduce.figures import Area, points
from godwit.reproduce.pubmob_bounds import MODES, NEARLY_FOUR_S
from godwit.reproduce.pubmob_search import DURATION_S, SUBSCRIBERS, Choice, Trial, trial_of

__all__ = [
    "SETTINGS",
    "ConfirmedSetting",
    "SeedTrial",
    "confirm",
    "met_by_seed",
    "rows",
    "show",
    "spans",
    "write",
]

FORMAT = 2  # of confirmed.json
LONGER_S = 40.0  # as long as those of `--full`


class ConfirmedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A repeated setting, and the reason."""

    key: str
    why: str
    choice: Choice
    duration_s: float = DURATION_S


SETTINGS: tuple[ConfirmedSetting, ...] = (
    ConfirmedSetting(
        key="A",
        why="publishers move together, events of 320 bytes: P4 was once seen to hold",
        choice=Choice(event_bytes=320, control_bytes=320, phase_s=2.0),
    ),
    ConfirmedSetting(
        key="B",
        why="publishers move together: with one seed, the setting nearest to P3",
        choice=Choice(event_bytes=250, control_bytes=200, phase_s=5.0),
    ),
    ConfirmedSetting(
        key="C",
        why="publishers move together, smaller messages, so that links are less full",
        choice=Choice(event_bytes=160, control_bytes=160, phase_s=2.0),
    ),
    ConfirmedSetting(
        key="D",
        why="publishers move at different times: of such settings the nearest to P3",
        choice=Choice(event_bytes=700, control_bytes=500),
    ),
    ConfirmedSetting(
        key="E",
        why="the one setting of the search in which STANDARD was slowest",
        choice=Choice(event_bytes=100, control_bytes=200, phase_s=5.0, publishers=150),
    ),
    *(
        ConfirmedSetting(
            key=key,
            why=f"publishers move together, messages of {size} bytes: in and around the region in which P4 holds",
            choice=Choice(event_bytes=size, control_bytes=size, phase_s=2.0),
        )
        for key, size in (("F", 100), ("G", 120), ("H", 130), ("I", 140))
    ),
    ConfirmedSetting(
        key="J",
        why="H in a run of 40 s, in which more moves are those of some publishers only",
        choice=Choice(event_bytes=130, control_bytes=130, phase_s=2.0),
        duration_s=LONGER_S,
    ),
    ConfirmedSetting(
        key="K",
        why="J with publishers of equal speed, so that all of them make every move together",
        choice=Choice(event_bytes=130, control_bytes=130, phase_s=2.0, speeds_kmh=(100,)),
        duration_s=LONGER_S,
    ),
)


class SeedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a setting with one seed, counted after the warm-up."""

    key: str
    seed: int
    trial: Trial


def confirm(
    setting: Setting,
    seeds: Sequence[int],
    settings: Sequence[ConfirmedSetting] = SETTINGS,
    told: Callable[[SeedTrial], None] = lambda _: None,
) -> list[SeedTrial]:
    """Repeat every setting with every seed; seed by seed."""
    found: list[SeedTrial] = []
    for seed in seeds:
        for each in settings:
            found.append(_tried(structs.replace(setting, seed=seed), each))
            told(found[-1])
            write(setting.folder, found)
    return found


def _tried(setting: Setting, each: ConfirmedSetting) -> SeedTrial:
    runs = Runs(setting)
    scenarios = [
        runs.scenario(
            mode,
            publishers=each.choice.publishers,
            subscribers=SUBSCRIBERS,
            duration_s=each.duration_s,
            warmup_s=each.choice.warmup_s,
            changes={**each.choice.changes(), "clients.probes.from_s": each.choice.warmup_s},  # (rule 4)
        )
        for mode in MODES
    ]
    by_mode = dict(zip(MODES, runs.run_at_once(scenarios, also=["by_move"]), strict=True))
    trial = trial_of(each.choice, "after the warm-up", by_mode)
    shutil.rmtree(setting.folder / "traces")  # (rule 3)
    return SeedTrial(key=each.key, seed=setting.seed, trial=trial)


def met_by_seed(found: Sequence[SeedTrial]) -> dict[str, dict[str, int]]:
    """By setting and condition, how many seeds meet it. (rule 2)"""
    met: dict[str, dict[str, int]] = {}
    for one in found:
        conditions = met.setdefault(one.key, {})
        for each in one.trial.conditions:
            conditions[each.text] = conditions.get(each.text, 0) + each.holds
    return met


def spans(found: Sequence[SeedTrial], key: str, value: Callable[[Trial], Mapping[str, float]]) -> dict[str, str]:
    """By mode, the least, the median and the most of a figure over the seeds of a setting, in words."""
    trials = [each.trial for each in found if each.key == key]
    return {mode: _span([value(trial)[mode] for trial in trials]) for mode in MODES}


def _span(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def rows(found: Sequence[SeedTrial]) -> Iterator[dict[str, object]]:
    """As plain data."""
    for each in found:
        yield msgspec.to_builtins(each)


def write(folder: Path, found: Sequence[SeedTrial]) -> Path:
    """Write all trials to `confirmed.json`."""
    path = folder / "confirmed.json"
    data = {"format": FORMAT, "settings": SETTINGS, "trials": list(rows(found))}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    return path


def show(folder: Path, found: Sequence[SeedTrial]) -> tuple[Path, Path]:
    """Draw how long STANDARD takes against how its median compares with PREFETCHING's: one point for each seed."""
    places: dict[str, list[tuple[float, float]]] = {}
    for each in found:
        trial = each.trial
        ratio = trial.median_s["standard"] / trial.median_s["prefetching"]
        places.setdefault(f"setting {each.key}", []).append((trial.stands_after_s["standard"], ratio))
    return points(
        folder,
        "confirmed_p3_p4",
        places,
        title="P3 against P4: one point for each seed of a setting",
        x="seconds until all of STANDARD's probes arrive",
        y="STANDARD's median / PREFETCHING's",
        area=Area("P3 and P4 ask for this", *NEARLY_FOUR_S, 1.0, 2.0),
    )
