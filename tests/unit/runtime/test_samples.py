"""Samples are taken when somebody asks, not more often than they should, and for a day."""

from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from godwit.broker.effects import Trace
from godwit.runtime import relocation_gaps, samples
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.gc_tuning import process_bytes
from godwit.runtime.relocation_gaps import RelocationGaps
from godwit.runtime.samples import BOUNDS_S, COARSE_STEP_S, DAY_S, FINE_S, SAMPLES_MAX, STEP_S, Drops, Samples, Series
from godwit.trace import Record


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[Samples, ActivityMonitor, Clock]:
    session = SimpleNamespace(connection="c", queue=[1, 2])
    node: Any = SimpleNamespace(machine=SimpleNamespace(sessions=[session]), unhandled=3, unsafe=4, watch=None)
    activity, clock = ActivityMonitor(node), Clock()
    return Samples(node, activity, lambda: 77, clock), activity, clock


def test_a_sample_says_how_the_broker_fares() -> None:
    taken, activity, _ = made()
    activity.inputs, activity.counts = 5, {"lost": 2, "published": 9}
    [row] = taken.since(0)["samples"]
    assert (row["at"], row["inputs"], row["records"]["lost"]) == (1_000.0, 5, 2)
    assert (row["sessions"], row["attached"], row["queued"], row["held_bytes"]) == (1, 1, 2, 77)
    assert (row["pending_inputs"], row["unwritten_inputs"]) == (3, 4)


def test_a_sample_says_how_much_memory_the_process_has() -> None:
    taken, _, _ = made()
    [row] = taken.since(0)["samples"]
    assert row["process_bytes"] == pytest.approx(process_bytes(), rel=0.5)


def test_a_sample_says_how_long_clients_waited_for_their_sessions() -> None:
    taken, activity, clock = made()
    began = [Trace(Record("relocating", client)) for client in ("ann", "bob", "eve")]
    activity.on_effects(list(began), 10.0)
    assert sum(taken.since(0)["samples"][-1]["gap_s"]) == 0
    activity.on_effects([Trace(Record("relocated", "ann"))], 10.02)
    activity.on_effects([Trace(Record("relocating", "bob"))], 20.0)  # the first time it was given up
    activity.on_effects([Trace(Record("relocated", "bob")), Trace(Record("relocated", "nobody"))], 20.3)
    clock.now += STEP_S
    gaps = taken.since(0)["samples"][-1]["gap_s"]
    assert {bound: count for bound, count in zip((*BOUNDS_S, inf), gaps, strict=True) if count} == {0.025: 1, 0.5: 1}
    clock.now += STEP_S
    assert taken.since(0)["samples"][-1]["gap_s"] == gaps, "a gap was counted twice"


def test_relocations_that_never_end_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relocation_gaps, "OPEN_MAX", 2)
    _, activity, _ = made()
    gaps = RelocationGaps(activity)
    activity.on_effects([Trace(Record("relocating", client)) for client in ("ann", "bob", "eve")], 10.0)
    gaps.counts()
    activity.on_effects([Trace(Record("relocated", client)) for client in ("ann", "bob", "eve")], 11.0)
    assert sum(gaps.counts()) == 2


def test_samples_are_taken_when_asked_for_and_only_then() -> None:
    taken, _, clock = made()
    assert len(taken) == 0
    taken.since(0)
    clock.now += STEP_S / 2
    assert len(taken.since(0)["samples"]) == 1
    clock.now += STEP_S
    assert [row["at"] for row in taken.since(1_000.0)["samples"]] == [clock.now]


def test_samples_are_kept_for_a_day_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    series = Series(lambda now: {"inputs": int(now)}, clock)
    asked = int(1.25 * DAY_S / STEP_S)
    for _ in range(asked):
        clock.now += STEP_S
        series.since(clock.now - 1)
        assert len(series) <= SAMPLES_MAX < asked / 10
    monkeypatch.setattr(samples, "ROWS_MAX", SAMPLES_MAX)
    times = [row["at"] for row in series.since(0)]
    assert clock.now - DAY_S <= times[0] <= clock.now - DAY_S + COARSE_STEP_S
    assert times[-1] == clock.now
    hour_ago = clock.now - FINE_S
    steps = [(earlier, later - earlier) for earlier, later in pairwise(times)]
    assert {step for at, step in steps if at >= hour_ago} == {STEP_S}
    assert {step for at, step in steps if at < hour_ago - COARSE_STEP_S} == {COARSE_STEP_S}


def test_a_sample_of_yesterday_is_forgotten() -> None:
    taken, _, clock = made()
    taken.since(0)
    clock.now += DAY_S + 1
    assert len(taken.since(0)["samples"]) == 1
    assert len(taken) == 1


def test_an_answer_of_many_samples_is_thinned_and_keeps_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "ROWS_MAX", 4)
    taken, activity, clock = made()
    for number in range(10):
        activity.inputs = number
        taken.since(0)
        clock.now += STEP_S
    clock.now -= STEP_S
    rows = taken.since(0)["samples"]
    assert len(rows) <= 4
    assert [row["inputs"] for row in rows] == [0, 3, 6, 9]


def test_drops_are_sums_by_reason() -> None:
    _, activity, clock = made()
    activity.counts, activity.refusals = {"purged": 3, "published": 9}, 2
    [row] = Drops(activity, clock).since(0)["samples"]
    assert (row["counts"]["purged"], row["counts"]["refused"], row["counts"]["lost"]) == (3, 2, 0)
    assert "published" not in row["counts"]
