"""How fast teamwork is. `--help` says more.

Part `index`: searches over the profiles of one peer. Times are of one process on one core, without garbage collection:
wall-clock time, which is what somebody who searches waits for. Queries that select more than 100 profiles are left out
of the figures and counted. Every profile is looked at to check a sample of the answers.

Part `network`: a search over a thousand peers (`teamwork_network.py`). Part `load`: what a peer of a thousand does in
an hour (`teamwork_load.py`). Part `transfer`: files from peer to peer (`teamwork_transfer.py`).
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import one_core, this_machine, undisturbed
from benchmarks.reporting import Anchor, Row, json_line, markdown, number, print_tables
from benchmarks.teamwork_load import FULL_LOAD, LoadScale, peer_load
from benchmarks.teamwork_network import FULL_SEARCH, SearchScale, search_over_peers
from benchmarks.teamwork_profiles import ProfileWorkload
from benchmarks.teamwork_transfer import FULL_TRANSFER, TransferScale, transfer_rows
from godwit.languages import Query, parse_query
from godwit.languages.xml_documents import xml_event
from godwit.teamwork.profile_index import ProfileIndex, Rights

SELECTED_MAX = 100
BATCH = 20_000
FILE = "index.sqlite"

Log = Callable[[str, float], None]
"""A message, and how much of the part is done, from 0 to 1."""


class Part(StrEnum):
    """What can be measured."""

    INDEX = "index"
    NETWORK = "network"
    LOAD = "load"
    TRANSFER = "transfer"


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    profiles: int = 1_000_000
    queries: int = 2_000
    compared: int = 20  # queries, by looking at some profiles
    compared_profiles: int = 20_000
    network: SearchScale = FULL_SEARCH
    load: LoadScale = FULL_LOAD
    transfer: TransferScale = FULL_TRANSFER

    @property
    def is_full(self) -> bool:
        return self == FULL


FULL = Scale()
QUICK = Scale(
    *(20_000, 300, 10, 5_000),
    SearchScale(50, 1_000, 3, 4),
    LoadScale(minutes=1.0, idle_s=2.0),
    TransferScale(20 * 10**6, 1, is_full=False),
)


class Disagreement(Exception):
    """The index has not found what is there."""


class Bench:
    """One run. Each method measures one part and yields its rows."""

    def __init__(self, scale: Scale, folder: Path, log: Log) -> None:
        self.scale, self.folder, self.log = scale, folder, log

    def rows(self, part: Part) -> Iterator[Row]:
        """The rows of one part."""
        measure: dict[Part, Callable[[], Iterator[Row]]] = {
            Part.INDEX: self.index,
            Part.NETWORK: self.network,
            Part.LOAD: self.load,
            Part.TRANSFER: self.transfer,
        }
        yield from measure[part]()

    # ------------------------------------------------------------ many peers

    def network(self) -> Iterator[Row]:
        """A search over many peers. Their indexes are not kept for the next run."""
        with TemporaryDirectory(prefix="godwit-bench-") as scratch:
            yield from search_over_peers(self.scale.network, Path(scratch), self.log)

    def load(self) -> Iterator[Row]:
        """An hour of a peer of many."""
        with TemporaryDirectory(prefix="godwit-bench-") as scratch:
            yield from peer_load(self.scale.load, Path(scratch), self.log)

    def transfer(self) -> Iterator[Row]:
        """Files from peer to peer."""
        return transfer_rows(self.scale.transfer, self.log)

    # ------------------------------------------------------------ the index of profiles

    def index(self) -> Iterator[Row]:
        """Fill an index, then ask it."""
        made = ProfileWorkload(self.scale.profiles)
        index = ProfileIndex(self.folder / FILE)
        try:
            if len(index) != self.scale.profiles:
                yield self._filling(index, made)
            queries = [(kind, parse_query(text, "xql")) for kind, text in made.queries(self.scale.queries)]
            self._compare(index, made, queries)
            yield from self._asking(index, queries)
        finally:
            index.close()

    def _filling(self, index: ProfileIndex, made: ProfileWorkload) -> Row:
        entries, done, start = made.entries(), 0, time.process_time()
        while batch := list(islice(entries, BATCH)):
            index.put_many(batch)
            done += len(batch)
            self.log(f"index: {done:,} profiles", 0.8 * done / made.count)
        seconds = time.process_time() - start
        size = sum(path.stat().st_size for path in self.folder.glob(f"{FILE}*"))
        note = f"with drawing them; {size / done:,.0f} bytes a profile on the disk"
        return Row("index-filling", "profile index: profiles a second put", done / seconds, "profiles/s", note=note)

    def _asking(self, index: ProfileIndex, queries: list[tuple[str, Query]]) -> Iterator[Row]:
        taken: dict[str, list[float]] = {}
        many = 0
        with undisturbed():
            for place, (kind, query) in enumerate(queries):
                start = time.perf_counter()
                found = index.search(query, limit=SELECTED_MAX)
                seconds = time.perf_counter() - start
                if found.is_complete:
                    taken.setdefault(kind, []).append(seconds * 1_000)
                else:
                    many += 1
                if place % 100 == 0:
                    self.log(f"index: {place:,} queries", 0.85 + 0.15 * place / len(queries))
        every = [each for times in taken.values() for each in times]
        cuts = quantiles(every, n=100)
        slowest = {kind: max(times) for kind, times in taken.items()}
        note = (
            f"{len(every):,} queries; {many} that select more than {SELECTED_MAX} left out; the slowest of each kind: "
        )
        note += ", ".join(f"{kind} {milliseconds:.1f}" for kind, milliseconds in slowest.items())
        what = f"profile index, {self.scale.profiles:,} profiles: XQL query"
        yield Row("index-median", f"{what}, median", cuts[49], "ms", at_most=True, is_full=self.scale.is_full)
        yield Row(
            "index-p99", f"{what}, 99 of 100 are faster", cuts[98], "ms", Anchor(50.0),
            at_most=True, is_full=self.scale.is_full, note=note,
        )  # fmt: skip

    def _compare(self, index: ProfileIndex, made: ProfileWorkload, queries: list[tuple[str, Query]]) -> None:
        """What the index finds of some profiles is what each query finds among them."""
        self.log("index: comparing", 0.82)
        sample = list(islice(made.entries(), self.scale.compared_profiles))
        known = {each.record for each in sample}
        events = [(each.record, xml_event(each.document)) for each in sample]
        rights = Rights(None, lambda scope, record: record in known)
        for _, query in queries[: self.scale.compared]:
            found = {each.record for each in index.search(query, rights, limit=len(sample)).results}
            expected = {record for record, event in events if query.matches(event)}
            if found != expected:
                raise Disagreement(f"{query.text}: {sorted(found ^ expected)[:5]}")


def main(
    only: Annotated[list[Part] | None, typer.Option(help="What to measure; may be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small size, to see that all works.")] = False,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the index is kept for the next run (default: nowhere).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, as on a pipe.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The tables of BENCHMARKS.md.")] = False,
) -> None:
    """Measure teamwork. Prints a table on a terminal and JSON lines on a pipe; progress goes to standard error."""
    start = time.perf_counter()
    machine, as_json = this_machine(), not as_markdown and (as_json or not sys.stdout.isatty())
    rows = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with (
        TemporaryDirectory(prefix="godwit-bench-") as scratch,
        one_core(),
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=1.0)

        def log(message: str, done: float) -> None:
            progress.update(task, description=message, completed=done)
            if not console.is_terminal:
                print(f"{time.perf_counter() - start:6.1f} s  {message}", file=sys.stderr, flush=True)

        bench = Bench(QUICK if quick else FULL, folder or Path(scratch), log)
        for part in tuple(only or Part):
            for row in bench.rows(part):
                rows.append(row)
                log(f"{row.what}: {number(row.figure)} {row.unit}", 1.0)
                if as_json:
                    print(json_line(row, machine), flush=True)
    if as_markdown:
        print(markdown(rows, machine))
    elif not as_json:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
