"""What is no longer used goes, also where objects hold on to each other."""

import gc
import weakref
from collections.abc import Callable

import pytest

from godwit.runtime import gc_tuning


class Knot:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def tended(monkeypatch):
    """All that other tests have left stays aside: to search it each time would take seconds."""
    threshold, callbacks = gc.get_threshold(), list(gc.callbacks)
    gc.freeze()
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
    yield monkeypatch
    gc.callbacks[:] = callbacks
    gc.set_threshold(*threshold)
    gc.collect()
    gc.freeze()  # as it was: see tests/conftest.py


def test_new_knots_go_by_themselves(tended):
    tended.setattr(gc_tuning, "YOUNG_MAX", 100)
    gc_tuning.tune_garbage_collector()
    known = weakref.ref(Knot())
    kept: list[list[None]] = [[] for _ in range(300)]
    assert known() is None
    assert len(kept) == 300


class Loop:
    """What asks to be called later is called when the test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.calls.append(call)


QUIET, BUSY = 0.01, 0.5  # seconds of work, from look to look


def looked_at(tended: pytest.MonkeyPatch, sizes: list[int | None], work: list[float]) -> tuple[list[str], bool]:
    """The searches that are made while a knot goes out of use, and whether it is gone when no look is due any more."""
    loop, worked, searched = Loop(), [sum(work[:count]) for count in range(len(work) + 1)], list[str]()
    tended.setattr(gc_tuning, "YOUNG_MAX", 100)
    tended.setattr(gc_tuning, "WAITING_MAX", 400)
    tended.setattr(gc_tuning, "YOUNG_SEARCHES", 2)
    tended.setattr(gc_tuning, "process_bytes", lambda: sizes.pop(0) if len(sizes) > 1 else sizes[0])
    tended.setattr("godwit.runtime.gc_tuning.time.process_time", lambda: worked.pop(0))
    tended.setattr("godwit.runtime.gc_tuning.asyncio.get_running_loop", lambda: loop)
    gc_tuning.tune_garbage_collector()
    knot = Knot()
    known = weakref.ref(knot)
    kept: list[list[None]] = [[] for _ in range(150)]
    del knot  # it has outlived a search
    while not loop.calls:
        kept.append([])

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            searched.append(("new", "second", "all")[info["generation"]])

    gc.callbacks.append(note)
    tended.setattr(gc, "unfreeze", lambda: searched.append("unfrozen"))
    while loop.calls:
        assert known() is not None
        loop.calls.pop()()
    return searched, known() is None


@pytest.mark.parametrize(
    ("sizes", "work", "searched"),
    [
        ([1_000, 2_000], [QUIET], ["second"]),
        ([1_000, 2_000], [BUSY, BUSY, QUIET], ["second"]),  # quiet at last
        ([1_000, 4_100], [QUIET], ["unfrozen", "all"]),
        ([1_000, 4_100, 8_100], [BUSY, BUSY], ["unfrozen", "all"]),  # never quiet, and very large
        ([None], [BUSY], ["unfrozen", "all"]),  # nobody knows how large it is
    ],
)
def test_old_knots_go_in_a_quiet_moment_by_a_short_search_or_when_the_process_is_large(tended, sizes, work, searched):
    assert looked_at(tended, sizes, work) == (searched, True)


def test_what_waits_for_a_quiet_moment_for_too_long_is_put_aside_unsearched(tended):
    tended.setattr(gc_tuning, "YOUNG_MAX", 100)
    tended.setattr(gc_tuning, "WAITING_MAX", 400)
    tended.setattr("godwit.runtime.gc_tuning.asyncio.get_running_loop", Loop)
    gc_tuning.tune_garbage_collector()
    kept: list[list[None]] = [[] for _ in range(2_000)]
    assert len(gc.get_objects(1)) + len(gc.get_objects(2)) < 1_000 < len(kept)
