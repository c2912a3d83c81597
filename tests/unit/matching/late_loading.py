"""Numba loaded late, in a process of its own: `python -m tests.unit.matching.late_loading loads` or `fails`."""

import sys
import threading
from collections.abc import Iterator
from random import Random
from types import FunctionType
from unittest.mock import patch

from godwit.matching import kernel_cache

kernel_cache.postpone()  # before anything imports the kernels

from godwit.filters.events import event  # noqa: E402
from godwit.filters.language import parse  # noqa: E402
from godwit.matching import kernels, late_kernels, warm_up  # noqa: E402
from godwit.matching.index_matcher import IndexMatcher  # noqa: E402
from godwit.matching.naive_matcher import NaiveMatcher  # noqa: E402
from tests.unit.filters.random_filters import random_attributes, random_filter  # noqa: E402
from tests.unit.matching.every_kernel import check_single, pair  # noqa: E402


def plain() -> Iterator[str]:
    """The kernels that are called by their names and are not compiled."""
    postponed = {function for function, _ in kernels.POSTPONED}
    for name, module in list(sys.modules.items()):
        for kernel, each in vars(module).items() if name.startswith(late_kernels.PACKAGE) else ():
            if isinstance(each, FunctionType) and (each in postponed or hasattr(each, "plain")):
                yield f"{name}.{kernel}"


def indices() -> tuple[IndexMatcher, NaiveMatcher]:
    draw = Random(1)
    return pair(random_filter(draw) for _ in range(150))


def agree(index: IndexMatcher, naive: NaiveMatcher, count: int = 30) -> None:
    draw = Random(2)
    check_single(index, naive, [random_attributes(draw) for _ in range(count)])


def loads() -> None:
    """Matches while a thread loads Numba."""
    index, naive = indices()
    agree(index, naive)
    assert "numba" not in sys.modules
    assert kernel_cache.is_postponed()
    loading = threading.Thread(target=late_kernels.prepare)
    loading.start()
    turns = 0
    while loading.is_alive():
        agree(index, naive, 1)
        turns += 1
    print("matched meanwhile" if turns else "did not match meanwhile")
    assert not kernels.COMPILED
    late_kernels.finish()
    agree(index, naive)
    print(kernel_cache.kernels_used())
    print(", ".join(plain()) or "none is plain")


def fails() -> None:
    """Numba cannot be loaded; later it can."""

    def planted() -> None:
        raise OSError("planted")

    index, naive = indices()
    with patch.object(warm_up, "warm_up", planted):
        try:
            late_kernels.load()
        except OSError as error:
            print(error)
    assert not any(hasattr(each, "plain") for each in vars(kernels).values())
    late_kernels.finish()
    assert kernel_cache.is_postponed()
    agree(index, naive)
    print("goes on")
    large()


def large() -> None:
    """So many rows that to place them without Numba would take longer than to load it."""
    index = IndexMatcher()
    index.add_many((n, parse(f"a = {n}")) for n in range(late_kernels.PLAIN_ROWS_MAX + 1))
    assert index.match(event({"a": 7})) == [7]
    print(kernel_cache.kernels_used())


if __name__ == "__main__":
    {"loads": loads, "fails": fails}[sys.argv[1]]()
