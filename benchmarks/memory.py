"""Bytes a subscription, taken in a process of its own: `python benchmarks/memory.py W3 --subscriptions 100000`.

Filters are made as they are added and then forgotten, so what remains is the index. It is measured twice: by how much
the process has grown, and by adding up all objects the index reaches.
"""

import ctypes
import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Annotated, Any

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.own_workload import own_workload
from benchmarks.workloads import SHARED_WORKLOADS, Workload, numbered_filters, shared_makers
from godwit.matching import IndexMatcher

CHUNK = 1_000
EVENTS = 200
NOT_DATA = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def built(workload: Workload) -> IndexMatcher:
    """An index with all of a workload, in which every event has been matched."""
    matcher = IndexMatcher()
    pairs = numbered_filters(workload.expressions)
    while chunk := list(islice(pairs, CHUNK)):
        matcher.add_many(chunk)
    del chunk, pairs
    for event in workload.events():
        matcher.match(event)
    return matcher


def resident_bytes() -> int | None:
    """What the process takes now, after giving back what it can; None where the system does not say."""
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def reachable_bytes(thing: object) -> int:
    """The size of all objects that `thing` leads to, arrays and constants included, each once."""
    return sum(map(sys.getsizeof, _reachable(thing)))


def _reachable(thing: object) -> Iterator[object]:
    seen: set[int] = set()
    pending: list[Any] = [thing]
    while pending:
        each = pending.pop()
        if id(each) in seen or isinstance(each, NOT_DATA):
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, np.ndarray):  # a view's own size leaves out its data
            pending += [each.base] if each.base is not None else each.tolist() if each.dtype == object else []
        else:
            pending += gc.get_referents(each)


def measure(
    workload: Annotated[str, typer.Argument(help="W1, W2u, W2z, W3 or own.")] = "W3",
    subscriptions: Annotated[int, typer.Option(help="How many.")] = 100_000,
    workloads: Annotated[Path, typer.Option(metavar="DIR", help="Where generate.py is.")] = SHARED_WORKLOADS,
) -> None:
    """Print as JSON how many bytes the index takes."""
    built(own_workload(2_000, EVENTS))  # loads all that is loaded once
    makers = {"own": own_workload, **(shared_makers(workloads) or {})}
    made = makers[workload](subscriptions, EVENTS)
    before = resident_bytes()
    matcher = built(made)
    after = resident_bytes()
    resident = after - before if after is not None and before is not None else None
    print(json.dumps({"resident": resident, "reachable": reachable_bytes(matcher)}))


if __name__ == "__main__":
    typer.run(measure)
