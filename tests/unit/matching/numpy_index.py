"""The index with the kernel that runs where Numba is not installed, in a process that has Numba."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from godwit.filters.events import Event
from godwit.matching import batch_kernels, index_matcher, numpy_kernels
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import Columns, Matches, SubscriptionId

__all__ = ["NumpyIndexMatcher"]


@contextmanager
def without_numba() -> Iterator[None]:
    match_many: Any = batch_kernels.match_many
    with (
        patch.object(batch_kernels, "match_one", numpy_kernels.match_one),
        patch.object(batch_kernels, "match_many", getattr(match_many, "py_func", match_many)),
        patch.object(index_matcher, "COMPILED", False),
    ):
        yield


class NumpyIndexMatcher(IndexMatcher):
    """An index that never uses a compiled kernel to match."""

    def _match(self, event: Event) -> list[SubscriptionId]:
        with without_numba():
            return super()._match(event)

    def _match_batch(self, columns: Columns, length: int) -> Matches:
        with without_numba():
            return super()._match_batch(columns, length)
