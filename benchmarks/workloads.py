"""What is matched: subscriptions as neutral expressions, and how these become filters, events and columns.

An expression is a list such as `["and", ["=", "sym", "S3"], ["between", "price", 1.0, 2.5]]`. The shared workloads (W1,
W2u, W2z, W3) come from a `generate.py` outside this repository; `own_workload.py` has those that are always there.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from godwit.filters import (
    Event,
    Filter,
    event,
)
from godwit.matching.matcher import Columns
from godwit.simulator.workload_files import filter_of_expression as filter_of

ROOT = Path(__file__).resolve().parents[1]
SHARED_WORKLOADS = ROOT.parent / "shared" / "workloads"

Expression = list[Any]


@dataclass(frozen=True)
class Workload:
    """Subscriptions and events; subscription number i has the id i."""

    expressions: Sequence[Expression]
    attributes: Sequence[Mapping[str, Any]]

    def filters(self) -> list[tuple[int, Filter]]:
        """What `add_many` takes."""
        return list(numbered_filters(self.expressions))

    def events(self) -> list[Event]:
        """The events, checked."""
        return [event(each) for each in self.attributes]


def shared_makers(folder: Path) -> dict[str, Callable[[int, int], Workload]] | None:
    """For each shared workload what makes it, given numbers of subscriptions and events; None where there is none."""
    file = folder / "generate.py"
    if not file.is_file():
        return None
    generate = _imported(file)
    makers = {"W1": generate.w1, "W2u": generate.w2u, "W2z": generate.w2z, "W3": generate.w3}

    def maker(name: str) -> Callable[[int, int], Workload]:
        return lambda subscriptions, events: Workload(*makers[name](subscriptions, events)[1:])

    return {name: maker(name) for name in makers}


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("shared_workloads", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the folder is not ours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def numbered_filters(expressions: Iterable[Expression]) -> Iterator[tuple[int, Filter]]:
    """Pairs of id and filter, made as they are asked for."""
    return enumerate(map(filter_of, expressions))


def columns_of(attributes: Sequence[Mapping[str, Any]]) -> Columns:
    """Events as a batch: arrays where every event has a number or every event has a bool, else lists with None."""
    names = dict.fromkeys(name for each in attributes for name in each)
    return {name: _column([each.get(name) for each in attributes]) for name in names}


def _column(values: list[Any]) -> Any:
    kinds = {type(value) for value in values}
    return np.array(values) if kinds == {bool} or kinds <= {int, float} else values
