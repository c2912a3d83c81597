"""Where the time of a match goes: `python benchmarks/profile_matching.py W3`. Reaches into the index's private parts.

Each part is replaced by one that takes its time, which costs it about a quarter of a microsecond a call.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.matching import filled, match_all
from benchmarks.measuring import one_core, timed
from benchmarks.own_workload import own_workload
from benchmarks.workloads import SHARED_WORKLOADS, columns_of, shared_makers
from godwit.matching import IndexMatcher, batch_kernels
from godwit.matching.event_encoder import Encoder

SINGLE = {"encoding": (Encoder, "encode"), "kernel": (batch_kernels, "match_one"), "readying": (IndexMatcher, "_ready")}
BATCH = {
    "encoding": (Encoder, "encode_batch"),
    "kernel": (batch_kernels, "match_many"),
    "readying": (IndexMatcher, "_ready"),
}


@contextmanager
def clocked(parts: dict[str, tuple[Any, str]]) -> Iterator[dict[str, float]]:
    """Meanwhile, take the time that each part takes."""
    seconds = dict.fromkeys(parts, 0.0)

    def with_clock(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function, updated=())
        def run(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                seconds[name] += time.perf_counter() - start

        return run

    with ExitStack() as stack:
        for name, (owner, attribute) in parts.items():
            stack.enter_context(patch.object(owner, attribute, with_clock(name, getattr(owner, attribute))))
        yield seconds


def split(run: Callable[[], object], parts: dict[str, tuple[Any, str]], events: int) -> dict[str, float]:
    """Microseconds an event, in all and by part; what remains is the call itself and fetching ids."""
    whole = timed(run).seconds
    with clocked(parts) as seconds:
        clocked_whole = timed(run).seconds
    shares = {**seconds, "ids and call": clocked_whole - sum(seconds.values())}
    return {name: value / events * 1e6 for name, value in {"whole": whole, **shares}.items()}


def profile(
    workload: Annotated[str, typer.Argument(help="W1, W2u, W2z, W3 or own.")] = "W3",
    subscriptions: Annotated[int, typer.Option(help="How many.")] = 100_000,
    events: Annotated[int, typer.Option(help="How many.")] = 1_000,
    workloads: Annotated[Path, typer.Option(metavar="DIR", help="Where generate.py is.")] = SHARED_WORKLOADS,
) -> None:
    """Print how the time of a match divides, in microseconds an event."""
    makers = {"own": own_workload, **(shared_makers(workloads) or {})}
    made = makers[workload](subscriptions, events)
    matcher, checked, columns = filled(made.filters()), made.events(), columns_of(made.attributes)
    matches = match_all(matcher, checked)
    matcher.match_batch(columns)
    print(f"{workload}, {subscriptions:,} subscriptions, {matches / events:.1f} matches an event, µs an event")
    with one_core():
        for name, run, parts in (
            ("one by one", lambda: match_all(matcher, checked), SINGLE),
            ("as a batch", lambda: matcher.match_batch(columns), BATCH),
        ):
            times = split(run, parts, events)
            print(f"  {name:12}" + "  ".join(f"{part} {value:.2f}" for part, value in times.items()))


if __name__ == "__main__":
    typer.run(profile)
