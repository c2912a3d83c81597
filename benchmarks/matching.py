"""How fast matching is, beside naive NumPy evaluation in the same run. `make bench`, or this file with `--help`.

Everything runs on one core, without garbage collection, and is the median of three runs. Filters are made and events
checked before the clock starts. What the index finds is compared with what naive evaluation finds, event by event.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import Timing, median_of, one_core, this_machine, timed, undisturbed
from benchmarks.numpy_evaluation import NumpyEvaluator
from benchmarks.own_workload import growing_subscriptions, growing_workload, own_workload
from benchmarks.reporting import Anchor, Row, json_line, markdown, number, print_tables
from benchmarks.workloads import ROOT, SHARED_WORKLOADS, Workload, columns_of, numbered_filters, shared_makers
from godwit.filters import Event
from godwit.matching import BddMatcher, IndexMatcher, Matcher

ANCHORS = {
    "W1": Anchor(3_600, 72, "3,590 (11,200)", "be-tree 69, a-tree 39"),
    "W2u": Anchor(6_500, 207, "6,030 (13,600)", "be-tree 33, PADRES 19"),
    "W2z": Anchor(8_500, 194, "8,110 (12,100)", "be-tree 204, PADRES 12"),
    "W3": Anchor(25_000, 410, "20,500 (71,900)", "be-tree 160, Lucene 10"),
    "W1-batch": Anchor(20_000, 72, "15,100 (33,200)"),
    "W3-batch": Anchor(40_000, 410, "18,600 (90,500)"),
    "bdd": Anchor(peers="SPEAR, 2001: 64 at 100,000"),
}
TITLES = {
    "W1": "W1: Boolean formulas, much shared",
    "W2u": "W2u: wide ranges, nothing selective",
    "W2z": "W2z: conjunctions, Zipf",
    "W3": "W3: stock, parking, fleet; strings and boxes",
    "own": "our own mix",
}
GROWTH = "time per event at {:,} subscriptions, over that at {:,}, matches fixed"
BATCHED = ("W1", "W3", "own")


class Part(StrEnum):
    """What can be measured."""

    W1 = "W1"
    W2U = "W2u"
    W2Z = "W2z"
    W3 = "W3"
    OWN = "own"
    GROWTH = "growth"
    ADDS = "adds"
    MEMORY = "memory"
    BDD = "bdd"


OURS = (Part.OWN, Part.GROWTH)  # the others need the shared workloads
USUAL = tuple(part for part in Part if part is not Part.OWN)


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    subscriptions: int = 100_000
    events: int = 1_000
    batch: int = 10_000
    growth: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    own: int = 20_000
    bdd: int = 10_000
    adds_after: int = 20_000
    adds: int = 3_000
    naive_seconds: float = 5.0
    repeat: int = 3

    @property
    def is_full(self) -> bool:
        return replace(self, repeat=FULL.repeat) == FULL


FULL = Scale()
QUICK = Scale(10_000, 200, 2_000, (1_000, 10_000, 100_000), 5_000, 2_000, 2_000, 500, 1.0)


class Disagreement(Exception):
    """Two ways to match found different subscriptions."""


class Bench:
    """One run. Each method measures one part and yields its rows."""

    def __init__(self, scale: Scale, folder: Path, log: Callable[[str], None]) -> None:
        self.scale, self.folder, self.log = scale, folder, log
        self.makers = {"own": own_workload, **(shared_makers(folder) or {})}

    def rows(self, part: Part) -> Iterator[Row]:
        """The rows of one part."""
        match part:
            case Part.GROWTH:
                yield from self.growth()
            case Part.ADDS:
                yield from self.adds()
            case Part.MEMORY:
                yield self.memory()
            case Part.BDD:
                yield self.bdd()
            case _:
                yield from self.workload(part)

    # ------------------------------------------------------------ events a second

    def workload(self, name: str) -> Iterator[Row]:
        """One workload: event by event, then as a batch."""
        scale = self.scale
        count = scale.own if name == "own" else scale.subscriptions
        batch = scale.batch if name in BATCHED else 2 * scale.events
        self.log(f"{name}: making {count:,} subscriptions and {batch:,} events")
        made = self.makers[name](count, batch)
        events = made.events()
        naive, found = self.naive(made)
        plain, found_plainly = self.naive(made, shared=False)
        fewer = min(len(found), len(found_plainly))
        agree(f"{name}: naive evaluation, shared and plain", found[:fewer], found_plainly[:fewer])
        matcher = IndexMatcher()
        matcher.add_many(made.filters())
        self.log(f"{name}: matching event by event")
        single = self.single(matcher, events[: scale.events])
        agree_with(matcher, events, found, name)
        counts: list[int] = []
        unseen = timed(lambda: counts.extend(len(matcher.match(each)) for each in events[scale.events :]))
        row = Row(
            name, TITLES[name], scale.events / single.seconds, "events/s", ANCHORS.get(name, Anchor()), naive,
            unseen=len(counts) / unseen.seconds, is_full=scale.is_full, share=single.share,
            note=f"{sum(counts) / len(counts):.1f} matches an event; "
            f"naive NumPy that shares no predicate: {plain:,.0f} events/s",
        )  # fmt: skip
        yield row
        if name not in BATCHED:
            return
        self.log(f"{name}: matching a batch of {batch:,}")
        columns = columns_of(made.attributes)
        matches = matcher.match_batch(columns)  # warms up
        agree(f"{name}: batch and single", [len(matches[n]) for n in range(scale.events, batch)], counts)
        timing = median_of([timed(lambda: matcher.match_batch(columns)) for _ in range(scale.repeat)])
        yield replace(
            row, name=f"{name}-batch", what=f"{name}, batches of {batch:,} events", figure=batch / timing.seconds,
            anchor=ANCHORS.get(f"{name}-batch", Anchor()), unseen=None, share=timing.share,
        )  # fmt: skip

    def naive(self, made: Workload, shared: bool = True) -> tuple[float, list[list[int]]]:
        """Events a second of naive NumPy evaluation, and what it found for the first events."""
        self.log("  naive NumPy evaluation" + ("" if shared else ", no predicate shared"))
        evaluator = NumpyEvaluator(made.expressions, shared)
        evaluator.match(made.attributes[0])
        found = []
        with undisturbed():
            start = time.perf_counter()
            for attributes in made.attributes[: self.scale.events]:
                found.append(evaluator.match(attributes))
                if time.perf_counter() - start > self.scale.naive_seconds:
                    break
            seconds = time.perf_counter() - start
        return len(found) / seconds, [each.tolist() for each in found]

    def single(self, matcher: Matcher, events: list[Event]) -> Timing:
        """The time to match all events one by one, the second time they come."""
        match_all(matcher, events)
        return median_of([timed(lambda: match_all(matcher, events)) for _ in range(self.scale.repeat)])

    def bdd(self) -> Row:
        """SPEAR's way, on SPEAR's kind of workload."""
        count = self.scale.bdd
        self.log(f"bdd: {count:,} subscriptions of W1")
        made = self.makers["W1"](count, self.scale.events)
        naive, found = self.naive(made)
        matcher = BddMatcher()
        matcher.add_many(made.filters())
        events = made.events()
        timing = self.single(matcher, events)
        agree_with(matcher, events, found, "bdd")
        speed = len(events) / timing.seconds
        return Row(
            "bdd", f"W1, {count:,} subscriptions, BDD", speed, "events/s", ANCHORS["bdd"], naive, share=timing.share
        )

    # ------------------------------------------------------------ growth and cost

    def growth(self) -> Iterator[Row]:
        """Ever more subscriptions, of which always about as many match."""
        seconds: dict[int, float] = {}
        notes, shares = [], []
        for count in self.scale.growth:
            self.log(f"growth: {count:,} subscriptions")
            made = growing_workload(count, self.scale.events)
            events = made.events()
            matcher = IndexMatcher()
            pairs = numbered_filters(growing_subscriptions(count))
            while chunk := list(islice(pairs, 10_000)):
                matcher.add_many(chunk)
            timing = self.single(matcher, events)
            seconds[count] = timing.seconds / len(events)
            shares.append(timing.share)
            matches = match_all(matcher, events) / len(events)
            notes.append(f"{count:,}: {seconds[count] * 1e6:.1f} µs, {matches:.1f} matches")
            if count == len(made.expressions):
                agree_with(matcher, events, self.naive(made)[1], "growth")
        least, most = self.scale.growth[0], self.scale.growth[-1]
        yield Row(
            "growth", GROWTH.format(most, least), seconds[most] / seconds[least], "times", Anchor(3), at_most=True,
            is_full=self.scale.is_full, share=min(shares), note="; ".join(notes),
        )  # fmt: skip

    def adds(self) -> Iterator[Row]:
        """In bulk, up to the first match; and one by one with a match after each."""
        scale = self.scale
        self.log(f"adds: {scale.subscriptions:,} of W3 in bulk, {scale.adds:,} one by one after {scale.adds_after:,}")
        made = self.makers["W3"](scale.subscriptions, scale.events)
        filters, events = made.filters(), made.events()
        match_all(filled(filters[:1_000]), events)

        def in_bulk() -> None:
            filled(filters).match(events[0])

        timing = median_of([timed(in_bulk) for _ in range(scale.repeat)])
        yield Row(
            "adds-bulk", "adds a second, in bulk", len(filters) / timing.seconds, "adds/s", Anchor(50_000),
            is_full=scale.is_full, share=timing.share, note=f"{len(filters):,} of W3 until the first match is done",
        )  # fmt: skip
        first, last = scale.adds_after, scale.adds_after + scale.adds
        timings = []
        for _ in range(scale.repeat):
            matcher = filled(filters[:first])
            match_all(matcher, events)

            def one_by_one(matcher: IndexMatcher = matcher) -> None:
                for (id, filter), each in zip(filters[first:last], cycle(events)):
                    matcher.add(id, filter)
                    matcher.match(each)

            timings.append(timed(one_by_one))
        timing = median_of(timings)
        yield Row(
            "adds-single", "adds a second, one by one with matching between", scale.adds / timing.seconds, "adds/s",
            Anchor(5_000), is_full=scale.is_full, share=timing.share,
            note=f"after {first:,} of W3, each followed by a match",
        )  # fmt: skip

    def memory(self) -> Row:
        """What a subscription of W3 takes, in a process of its own."""
        count = self.scale.subscriptions
        self.log(f"memory: {count:,} subscriptions of W3")
        command = [sys.executable, str(ROOT / "benchmarks" / "memory.py"), "W3", f"--subscriptions={count}"]
        run = subprocess.run([*command, f"--workloads={self.folder}"], check=True, stdout=subprocess.PIPE, text=True)
        taken: dict[str, Any] = json.loads(run.stdout)
        reachable = taken["reachable"] / count
        resident = reachable if taken["resident"] is None else taken["resident"] / count
        return Row(
            "memory", "bytes a subscription, W3", resident, "bytes", Anchor(300), at_most=True,
            is_full=self.scale.is_full, note=f"by growth of the process; its objects add up to {reachable:.0f}",
        )  # fmt: skip


def agree(what: str, expected: object, found: object) -> None:
    """Both found the same."""
    if expected != found:
        raise Disagreement(f"{what} disagree: {str(expected)[:200]} and {str(found)[:200]}")


def agree_with(matcher: Matcher, events: list[Event], found: list[list[int]], what: str) -> None:
    """For each of the first events the matcher finds what naive evaluation found."""
    for place, expected in enumerate(found):
        ids: list[Any] = matcher.match(events[place])
        agree(f"{what}, event {place}: naive evaluation and {type(matcher).__name__}", expected, sorted(ids))


def match_all(matcher: Matcher, events: list[Event]) -> int:
    """Match events one by one; the number of matches."""
    match = matcher.match
    return sum([len(match(each)) for each in events])


def filled(filters: list[Any]) -> IndexMatcher:
    """A new index with these subscriptions."""
    matcher = IndexMatcher()
    matcher.add_many(filters)
    return matcher


def main(
    only: Annotated[list[Part] | None, typer.Option(help="What to measure; may be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the size, to see that all works.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of which the median is taken.")] = FULL.repeat,
    workloads: Annotated[Path, typer.Option(metavar="DIR", help="Where generate.py is.")] = SHARED_WORKLOADS,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, as on a pipe.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The tables of BENCHMARKS.md.")] = False,
) -> None:
    """Measure matching. Prints a table on a terminal and JSON lines on a pipe; progress goes to standard error."""
    start = time.perf_counter()

    def log(message: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s  {message}", file=sys.stderr, flush=True)

    bench = Bench(replace(QUICK if quick else FULL, repeat=repeat), workloads, log)
    parts = tuple(only or USUAL)
    if "W3" not in bench.makers:
        log(f"No generate.py in {workloads}: the shared workloads are skipped. Say where it is with --workloads DIR.")
        parts = tuple(part for part in only or OURS if part in OURS)
    machine, as_json = this_machine(), not as_markdown and (as_json or not sys.stdout.isatty())
    rows = []
    with one_core():
        for part in parts:
            for row in bench.rows(part):
                rows.append(row)
                log(f"  {row.what}: {number(row.figure)} {row.unit}")
                if as_json:
                    print(json_line(row, machine), flush=True)
    if as_markdown:
        print(markdown(rows, machine))
    elif not as_json:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
