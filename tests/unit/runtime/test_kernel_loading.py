import asyncio
import threading
from pathlib import Path

import pytest

from godwit.matching import kernel_cache, late_kernels, numpy_kernels
from godwit.runtime import kernel_loading
from godwit.runtime.kernel_loading import KernelLoading
from tests.network.waiting import run, until

pytestmark = pytest.mark.usefixtures("postponed")


@pytest.fixture
def postponed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether Numba is still to be loaded: as if it were."""
    state = [True]
    monkeypatch.setattr(kernel_cache, "is_postponed", lambda: state[-1])
    monkeypatch.setattr(kernel_cache, "CACHE", None)
    monkeypatch.setattr(kernel_loading, "LOOK_S", 0.0)
    monkeypatch.setattr(numpy_kernels, "DEMAND", numpy_kernels.Demand())
    return state


def test_numba_is_loaded_when_it_is_wanted_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, postponed: list[bool]
) -> None:
    asked, done, said = iter([False, False, True]), list[str](), list[str]()
    monkeypatch.setattr(late_kernels, "is_wanted", lambda before: next(asked))
    monkeypatch.setattr(late_kernels, "prepare", lambda: done.append("prepared"))
    monkeypatch.setattr(late_kernels, "finish", lambda: done.append("finished"))
    monkeypatch.setattr(kernel_cache, "kernels_used", lambda: "those")

    async def scene() -> None:
        loading = KernelLoading(said.append)
        loading.start()
        await until(lambda: said)
        await loading.stop()

    run(scene)
    assert done == ["prepared", "finished"]
    assert said == ["those"]
    assert list(asked) == []


def test_kernels_that_must_be_compiled_first_are_announced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    monkeypatch.setattr(kernel_cache, "CACHE", tmp_path)
    monkeypatch.setattr(late_kernels, "is_wanted", lambda before: True)
    monkeypatch.setattr(late_kernels, "prepare", lambda: None)

    async def scene() -> None:
        loading = KernelLoading(said.append)
        loading.start()
        await until(lambda: len(said) == 2)
        await loading.stop()

    run(scene)
    assert said[0] == "NumPy, while Numba compiles the kernels (up to a minute, once)"


def test_what_cannot_be_loaded_is_said_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted() -> None:
        raise OSError("no space left")

    said: list[str] = []
    monkeypatch.setattr(late_kernels, "is_wanted", lambda before: True)
    monkeypatch.setattr(late_kernels, "prepare", planted)

    async def scene() -> None:
        loading = KernelLoading(said.append)
        loading.start()
        await until(lambda: said)
        await loading.stop()

    run(scene)
    assert said == ["NumPy: Numba cannot be loaded: OSError: no space left"]


def test_who_stops_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_loading, "LOOK_S", 3_600.0)
    monkeypatch.setattr(late_kernels, "is_wanted", lambda before: False)
    said: list[str] = []

    async def scene() -> None:
        loading = KernelLoading(said.append)
        loading.start()
        await asyncio.wait_for(loading.stop(), 60)

    run(scene)
    assert said == []


def test_nothing_is_done_where_numba_is_loaded_or_never_will_be(postponed: list[bool]) -> None:
    postponed.append(False)

    async def scene() -> None:
        loading = KernelLoading(lambda used: None)
        loading.start()
        assert len(asyncio.all_tasks()) == 1
        await loading.stop()

    run(scene)


def test_a_broker_that_stops_does_not_wait_for_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end = threading.Event(), threading.Event()

    def prepare() -> None:
        began.set()
        may_end.wait(60)

    monkeypatch.setattr(late_kernels, "is_wanted", lambda before: True)
    monkeypatch.setattr(late_kernels, "prepare", prepare)

    async def scene() -> None:
        loading = KernelLoading(lambda used: None)
        loading.start()
        await until(began.is_set)
        await loading.stop()

    run(scene)  # and the end of the loop, which would wait for threads of its own
    assert not may_end.is_set()
    may_end.set()
