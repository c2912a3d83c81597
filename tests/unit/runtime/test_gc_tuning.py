"""What is no longer used goes, also where objects hold on to each other."""

import asyncio
import gc
import weakref

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


def test_new_knots_go_by_themselves(tended):
    tended.setattr(gc_tuning, "YOUNG_MAX", 100)
    gc_tuning.tune_garbage_collector()
    known = weakref.ref(Knot())
    kept: list[list[None]] = [[] for _ in range(300)]
    assert known() is None
    assert len(kept) == 300


@pytest.mark.parametrize("size", [None, 1_000])
def test_old_knots_go_when_the_process_grows_or_after_a_while(tended, size):
    sizes = [None] * 1_000 if size is None else [size, 10 * size]
    tended.setattr(gc_tuning, "YOUNG_MAX", 100)
    tended.setattr(gc_tuning, "YOUNG_SEARCHES", 10)
    tended.setattr(gc_tuning, "LOOK_EVERY", 2)
    tended.setattr(gc_tuning, "GROWTH_BYTES_MIN", 1)
    tended.setattr(gc_tuning, "_size", lambda: sizes.pop(0) if len(sizes) > 1 else sizes[0])

    async def live() -> None:
        gc_tuning.tune_garbage_collector()
        knot = Knot()
        known = weakref.ref(knot)
        kept: list[list[None]] = [[] for _ in range(300)]
        del knot
        assert known() is not None  # it has outlived a search, and was put aside
        turns = 0
        while known() is not None:
            kept += [[] for _ in range(300)]
            turns += 1
            assert turns < 1_000
            loop = asyncio.get_running_loop()
            turned = loop.create_future()
            loop.call_soon(turned.set_result, None)
            await turned

    asyncio.run(live())
