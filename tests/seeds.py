"""Seeds of runs: the first few in every run of the tests, all others only where tests marked `slow` are run too."""

from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["few"]


def few(seeds: Sequence[int], quick: int) -> list[Any]:
    """Parameters for these seeds; those after the first `quick` are marked slow."""
    return [*seeds[:quick], *(pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[quick:])]
