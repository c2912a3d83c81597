"""Which cases of a law run with every run of the tests; all others run where tests marked `slow` are run too."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest

__all__ = ["diagonal", "few", "slow"]


def few(cases: Iterable[Any], quick: int) -> list[Any]:
    """Parameters for these cases, such as seeds; those after the first `quick` are marked slow."""
    cases = list(cases)
    return [*cases[:quick], *map(slow, cases[quick:])]


def slow(*values: Any) -> Any:
    """One case that is marked slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def diagonal(*axes: Iterable[Any]) -> list[Any]:
    """Parameters for each combination of the values of some axes.

    As many as the longest axis is long are quick, so that each value of each axis is in one; all others are slow.
    """
    values: list[Sequence[Any]] = [list(axis) for axis in axes]
    longest = max(map(len, values))
    quick = {tuple(at % len(axis) for axis in values) for at in range(longest)}
    return [
        (pytest.param if at in quick else slow)(*(axis[nth] for axis, nth in zip(values, at, strict=True)))
        for at in product(*(range(len(axis)) for axis in values))
    ]
