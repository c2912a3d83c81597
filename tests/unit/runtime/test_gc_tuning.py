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
    threshold, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield monkeypatch
    gc.callbacks[:] = callbacks
    gc.set_threshold(*threshold)
    gc.unfreeze()
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


@pytest.mark.parametrize(
    ("sizes", "worked", "looks"),
    [
        ([None], [0.0, 9.0, 18.0], 1),  # nobody knows how large it is
        ([1_000, 2_000], [0.0, 0.01], 1),  # quiet
        ([1_000, 2_000], [0.0, 0.5, 1.0, 1.01], 3),  # quiet at last
        ([1_000, 2_000, 2_000, 4_100], [0.0, 0.5, 1.0, 1.5], 2),  # never quiet, and large
    ],
)
def test_old_knots_go_in_a_quiet_moment_or_when_the_process_is_large(tended, sizes, worked, looks):
    loop = Loop()
    tended.setattr(gc_tuning, "YOUNG_MAX", 100)
    tended.setattr(gc_tuning, "YOUNG_SEARCHES", 2)
    tended.setattr(gc_tuning, "LOOK_EVERY", 2)
    tended.setattr(gc_tuning, "GROWTH_BYTES_MIN", 1)
    tended.setattr(gc_tuning, "_size", lambda: sizes.pop(0) if len(sizes) > 1 else sizes[0])
    tended.setattr("godwit.runtime.gc_tuning.time.process_time", lambda: worked.pop(0))
    tended.setattr("godwit.runtime.gc_tuning.asyncio.get_running_loop", lambda: loop)
    gc_tuning.tune_garbage_collector()
    knot = Knot()
    known = weakref.ref(knot)
    kept: list[list[None]] = [[] for _ in range(300)]
    del knot
    while not loop.calls:
        kept += [[] for _ in range(300)]
    taken = 0
    while loop.calls:
        assert known() is not None  # it has outlived a search, and was put aside
        loop.calls.pop()()
        taken += 1
    assert known() is None
    assert taken == looks
