"""`godwit match`: which subscriptions does each event of a file match?

Subscriptions are loaded first. Events are then matched in batches: all that have arrived are a batch, and are answered
at once, so an endless pipe works.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

from godwit.cli.query_options import OperatorModules, load_operators
from godwit.cli.signatures import BadParameter, Option, echo
from godwit.cli.terminal import Console, Progress, Table

if TYPE_CHECKING:
    from godwit.cli.input_files import BadLines, Lines, Named
    from godwit.filters.events import Attributes, Event
    from godwit.filters.filters import Filter
    from godwit.languages import Query
    from godwit.matching import Matcher

__all__ = ["match", "matcher_named"]

PIPE = "-"
BATCH_EVENTS_MIN = 16  # fewer are matched one by one
BATCH_CELLS_MAX = 2**22


class MatcherName(StrEnum):
    """The matchers to choose from."""

    INDEX = "index"
    NAIVE = "naive"
    BDD = "bdd"


def matcher_named(name: str) -> "Matcher":
    """A new matcher of that name."""
    from godwit import matching

    matcher: Matcher = getattr(matching, f"{name.capitalize()}Matcher")()
    return matcher


@dataclass
class Totals:
    """What `--count` shows."""

    subscriptions: int = 0
    events: int = 0
    matching_pairs: int = 0
    seconds: float = 0.0

    @property
    def events_per_second(self) -> float:
        """Events read, checked and matched in a second."""
        return round(self.events / self.seconds, 1) if self.seconds else 0.0


def match(
    subscriptions: Annotated[
        str,
        Option(metavar="FILE", help='JSON lines such as {"id": 7, "filter": "price < 10"}; - is standard input.'),
    ],
    events: Annotated[
        str,
        Option(
            metavar="FILE",
            help='JSON lines such as {"id": 3, "attributes": {"price": 4}}, or a table whose name ends in .csv; '
            "- is standard input.",
        ),
    ],
    csv: Annotated[bool, Option("--csv", help="Read events as CSV, whatever the file name.")] = False,
    count: Annotated[bool, Option("--count", help="Print totals and speed instead of the matches.")] = False,
    strict: Annotated[bool, Option("--strict", help="Stop at the first bad line.")] = False,
    operators: OperatorModules = None,
    matcher: Annotated[MatcherName, Option(help="Matching algorithm; all give the same answers.")] = MatcherName.INDEX,
) -> None:
    """List the subscriptions that each event of a file matches.

    Prints {"event": 3, "subscriptions": [7, 9]} for each event, with the subscriptions in the order of their file. A
    bad line is reported with its number and skipped. In a CSV table the header names the attributes; numbers and true
    and false are recognised, an empty cell is a missing attribute, and the column id is optional.

    An event may have the sender's context and a filter on the receiver's, {"sender": {"battery": 80}, "to": "role =
    'medic'"}; a subscription may have a filter on the sender's context and its own context, {"sender": "battery > 20",
    "context": {"role": "medic"}}. The language of its filter may be another, {"language": "xql"}; an event may be an
    XML document, {"id": 3, "xml": "<…>"}.

    Example: godwit match --subscriptions filters.jsonl --events events.csv
    """
    from godwit.cli import input_files
    from godwit.filters.events import Event

    if subscriptions == events == PIPE:
        raise BadParameter("only one of --subscriptions and --events can be standard input")
    load_operators(operators)
    with progress() as bar:
        faults = input_files.BadLines(partial(report, bar), strict)
        names, filters, contexts, queries = load(subscriptions, faults, bar)
        engine = matcher_named(matcher)
        bar.add_task("building the index; the first run also compiles it", total=None)
        engine.add_many(enumerate(filters))  # numbers in the order of the file
        engine.match(Event({}))  # work deferred to the first event is not part of the speed
    with progress(is_shown=count or not sys.stdout.isatty()) as bar:
        faults.report = partial(report, bar)
        totals, before = Totals(len(filters)), faults.skipped
        read = input_files.csv_events if csv or events.lower().endswith(".csv") else input_files.json_events
        answers = _answers(events, read, engine, filters, contexts, queries, faults, bar, totals)
        try:
            if count:
                for _ in answers:
                    pass
            else:
                _print_answers(answers, names)
        except KeyboardInterrupt:  # the way to end an endless pipe
            if not count:
                raise
    if not totals.events and faults.skipped > before:
        echo(f"{events} has no events: it must be JSON lines, or a table whose name ends in .csv", err=True)
    if faults.skipped:
        echo(f"skipped {faults.skipped} bad {'line' if faults.skipped == 1 else 'lines'}", err=True)
    if count:
        _show_totals(totals, faults.skipped)


Loaded = tuple[list[bytes], list["Filter"], list["Attributes"], dict[int, "Query"]]


def load(file: str, faults: "BadLines", bar: "Progress") -> Loaded:
    """The ids (as JSON), filters and contexts of a file of subscriptions; and, by number, queries with an exact
    test."""
    import msgspec

    from godwit.cli import input_files

    with opened(file) as (stream, name, size):
        task = bar.add_task("subscriptions", total=size)
        lines = input_files.Lines(stream, name, lambda length: bar.advance(task, length))
        found = list(input_files.subscriptions(lines, faults))
    return (
        [msgspec.json.encode(each.id) for each in found],
        [each.filter for each in found],
        [each.context for each in found],
        {number: each.query for number, each in enumerate(found) if each.query.test is not None},
    )


Answer = tuple[int | str, list[int]]


def _answers(
    file: str,
    read: "Callable[[Lines, BadLines], Iterator[Named | None]]",
    matcher: "Matcher",
    filters: list["Filter"],
    contexts: list["Attributes"],
    queries: dict[int, "Query"],
    faults: "BadLines",
    bar: "Progress",
    totals: Totals,
) -> Iterator[list[Answer]]:
    """For each batch of events their ids, and the numbers of the subscriptions that match and are addressed."""
    from godwit.cli import input_files
    from godwit.filters.filters import attributes_of

    attributes = list(dict.fromkeys(name for filter in dict.fromkeys(filters) for name in attributes_of(filter)))
    with opened(file) as (stream, name, size):
        task = bar.add_task("events", total=size)
        lines = input_files.Lines(stream, name, lambda length: bar.advance(task, length))
        started = time.perf_counter()
        for batch in input_files.batches(read(lines, faults), lines):
            matched = [
                sorted(_wanting(event, numbers if event.to is None else _meant(event.to, numbers, contexts), queries))
                for (_, event), numbers in zip(
                    batch, _matched(matcher, [event for _, event in batch], attributes), strict=True
                )
            ]
            totals.events += len(batch)
            totals.matching_pairs += sum(map(len, matched))
            totals.seconds = time.perf_counter() - started
            yield [(id, numbers) for (id, _), numbers in zip(batch, matched, strict=True)]


def _matched(matcher: "Matcher", events: list["Event"], attributes: list[str]) -> Iterable[Any]:
    """The numbers each event matches; many events are matched as columns of the attributes that filters use."""
    if not attributes or len(events) < BATCH_EVENTS_MIN or len(events) * len(attributes) > BATCH_CELLS_MAX:
        return map(matcher.match, events)
    return matcher.match_batch({name: [event.attributes.get(name) for event in events] for name in attributes})


def _meant(to: "Filter", numbers: Iterable[int], contexts: list["Attributes"]) -> list[int]:
    return [number for number in numbers if to.holds(contexts[number])]


def _wanting(event: "Event", numbers: Iterable[int], queries: dict[int, "Query"]) -> Iterable[int]:
    """The subscriptions whose query matches, among those whose routable filter does."""
    if not queries:
        return numbers
    from godwit.errors import FilterError
    from godwit.languages import Subject

    subject = Subject(event)

    def wants(number: int) -> bool:
        try:
            return number not in queries or queries[number].wants(subject)
        except FilterError:  # no test can be made: as in a client, it matches nothing
            return False

    return filter(wants, numbers)


def _print_answers(answers: Iterable[list[Answer]], names: list[bytes]) -> None:
    import msgspec

    for batch in answers:
        for id, numbers in batch:
            listed = b", ".join([names[number] for number in numbers])
            sys.stdout.buffer.write(b'{"event": %b, "subscriptions": [%b]}\n' % (msgspec.json.encode(id), listed))
        sys.stdout.buffer.flush()


def _show_totals(totals: Totals, skipped: int) -> None:
    """A table for people, a line of JSON for a pipe."""
    rows = {
        "events": totals.events,
        "subscriptions": totals.subscriptions,
        "matching_pairs": totals.matching_pairs,
        "events_per_second": totals.events_per_second,
        "skipped": skipped,
    }
    if not sys.stdout.isatty():
        import json

        echo(json.dumps(rows))
        return

    table = Table(show_header=False, title="godwit match")
    table.add_column(style="cyan")
    table.add_column(justify="right", style="bold")
    for label, number in rows.items():
        table.add_row(label.replace("_", " "), f"{number:,}")
    Console().print(table)


def report(bar: Progress, message: str) -> None:
    """Print a line on standard error, above the progress bar if there is one."""
    bar.print(message)


@contextmanager
def progress(*, is_shown: bool = True) -> Iterator[Progress]:
    """A progress bar on standard error if that is a terminal and `is_shown`; it is removed at the end."""
    with Progress(disable=not (is_shown and sys.stderr.isatty())) as bar:
        yield bar


@contextmanager
def opened(file: str) -> Iterator[tuple[IO[bytes], str, int | None]]:
    """A file or standard input, its name in messages, and its size in bytes if known."""
    from godwit.errors import GodwitError

    if file == PIPE:
        yield sys.stdin.buffer, "stdin", None
        return
    path = Path(file)
    try:
        stream = path.open("rb")
    except OSError as error:
        raise GodwitError(f"cannot read {file}: {error.strerror}") from None
    with stream:
        yield stream, file, path.stat().st_size or None
