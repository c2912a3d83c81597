"""How fast subscriptions in other languages are: documents a second, growth, residues, parsing. `--help` says more.

Times are processor time of one process, without garbage collection, medians of `--repeat` runs: so it matters less what
else the machine does. Each ratio is of one run. What the index finds is compared with each query alone, lxml's or ours.
"""

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from lxml import etree
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.language_queries import FORMS, NATIVE_TWINS, twin_events
from benchmarks.measuring import one_core, this_machine, undisturbed
from benchmarks.reporting import Anchor, Row, json_line, markdown, number, print_tables
from benchmarks.xml_workload import SHARED_XML, Subscription, XmlWorkload, xml_workload
from godwit.filters import Event
from godwit.languages import Query, parse_query
from godwit.languages.query_index import QueryIndex
from godwit.languages.xml_documents import parsed_document, xml_subject

XML_LANGUAGES = "XPath and XQL"
TOGETHER = 32  # documents that are matched at a time


class Part(StrEnum):
    """What can be measured."""

    DOCUMENTS = "documents"
    GROWTH = "growth"
    EXACT = "exact"
    PARSING = "parsing"


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    subscriptions: int = 100_000
    growth: tuple[int, ...] = (1_000, 10_000, 100_000)
    compared: int = 12  # documents, with each query alone
    lxml_documents: int = 3
    filters: int = 50_000
    events: int = 2_000
    queries: int = 1_000  # of each form
    repeat: int = 3

    @property
    def is_full(self) -> bool:
        return replace(self, repeat=FULL.repeat) == FULL


FULL = Scale()
QUICK = Scale(5_000, (500, 5_000), 4, 1, 2_000, 500, 200)


class Disagreement(Exception):
    """Two ways to match found different subscriptions."""


def seconds(run: Callable[[], object], repeat: int) -> float:
    """Processor time of a run, the median of some."""
    taken = []
    for _ in range(repeat):
        with undisturbed():
            start = time.process_time()
            run()
            taken.append(time.process_time() - start)
    return median(taken)


class Bench:
    """One run. Each method measures one part and yields its rows."""

    def __init__(self, scale: Scale, made: XmlWorkload | None, log: Callable[[str], None]) -> None:
        self.scale, self.made, self.log = scale, made, log

    def rows(self, part: Part) -> Iterator[Row]:
        """The rows of one part."""
        if part in (Part.DOCUMENTS, Part.GROWTH) and self.made is None:
            self.log(f"{part}: skipped, there are no documents. Say where they are with --xml DIR.")
            return
        measure: dict[Part, Callable[[], Iterator[Row]]] = {
            Part.DOCUMENTS: self.documents,
            Part.GROWTH: self.growth,
            Part.EXACT: self.exact,
            Part.PARSING: self.parsing,
        }
        yield from measure[part]()

    # ------------------------------------------------------------ documents

    def documents(self) -> Iterator[Row]:
        """Bytes in, subscriptions out; beside lxml, which evaluates one expression after another."""
        assert self.made is not None
        scale, documents = self.scale, self.made.documents
        subscriptions = self.made.subscriptions(scale.subscriptions)
        index, queries = self.filled(subscriptions)
        self.log(f"documents: matching {len(documents):,}")
        outcomes = [index.match(xml_subject(data)) for data in documents]
        wanted = sum(len(each.wanted) for each in outcomes)
        residues = sum(len(each.residues) for each in outcomes)
        taken = seconds(lambda: match_all(index, documents), scale.repeat) / len(documents)
        together = seconds(lambda: match_in_groups(index, documents), scale.repeat) / len(documents)
        parsing = seconds(lambda: [parsed_document(data) for data in documents], scale.repeat) / len(documents)
        self.compare(index, subscriptions, queries, documents)
        lxml = self.lxml(subscriptions, documents)
        yield Row(
            "documents", f"{XML_LANGUAGES}, {scale.subscriptions:,} subscriptions, CAP and SIRI of 1 to 3 kB",
            1 / taken, "documents/s", Anchor(5_000, 5, peers="lxml one by one"), lxml, is_full=scale.is_full,
            note=f"one process; {wanted / len(documents):.0f} matches a document of {index.query_count:,} different "
            f"queries; {taken * 1e6:.0f} µs a document, {parsing * 1e6:.0f} of them parsing; {together * 1e6:.0f} if "
            f"{TOGETHER} are matched at a time",
        )  # fmt: skip
        yield Row(
            "residues", "residues, of what is matched", 100 * residues / wanted, "%", Anchor(1), at_most=True,
            is_full=scale.is_full, note=f"{residues:,} of {wanted:,}; [motion §6]: 2.7 to 3.6 %",
        )  # fmt: skip

    def filled(self, subscriptions: list[Subscription]) -> tuple[QueryIndex, dict[tuple[str, str], Query]]:
        """An index of these subscriptions, by place, and their queries."""
        self.log(f"  parsing {len(subscriptions):,} subscriptions")
        queries = {key: parse_query(key[1], key[0]) for key in {(each.language, each.text) for each in subscriptions}}
        self.log(f"  an index of {len(queries):,} different queries")
        index = QueryIndex()
        index.add_many((place, queries[each.language, each.text]) for place, each in enumerate(subscriptions))
        return index, queries

    def compare(
        self,
        index: QueryIndex,
        subscriptions: list[Subscription],
        queries: dict[tuple[str, str], Query],
        documents: list[bytes],
    ) -> None:
        """For some documents, what each query alone wants, without its filter: lxml's XPath, and our own XQL."""
        self.log(f"  each query alone, on {self.scale.compared} documents")
        for data in random.Random(2).sample(documents, self.scale.compared):
            subject = xml_subject(data)
            wanted = {key for key, query in queries.items() if query.wants(subject)}
            expected = {place for place, each in enumerate(subscriptions) if (each.language, each.text) in wanted}
            found = set(index.match(xml_subject(data)).wanted)
            if found != expected:
                raise Disagreement(f"{len(found)} and {len(expected)} subscriptions want {data[:200]!r}")

    def lxml(self, subscriptions: list[Subscription], documents: list[bytes]) -> float:
        """Documents a second of lxml: each is parsed, and every subscription is evaluated as compiled XPath."""
        self.log("  lxml, one by one")
        compiled: dict[str, Any] = {}
        for text in {each.xpath for each in subscriptions}:
            test: Any = parse_query(text, "xpath").test
            compiled[text] = test.compiled()
        every = [compiled[each.xpath] for each in subscriptions]

        def evaluate() -> None:
            for data in documents[: self.scale.lxml_documents]:
                tree = etree.fromstring(data).getroottree()
                for expression in every:
                    expression(tree)

        return self.scale.lxml_documents / seconds(evaluate, 1)

    def growth(self) -> Iterator[Row]:
        """Ever more subscriptions, of which always as many match: the others want other documents."""
        assert self.made is not None
        documents, least = self.made.documents, self.scale.growth[0]
        base = self.made.subscriptions(least)
        others = self.made.subscriptions(self.scale.growth[-1] - least, seed=2, elsewhere=True)
        taken: dict[int, float] = {}
        notes = []
        for count in self.scale.growth:
            self.log(f"growth: {count:,} subscriptions")
            index, _ = self.filled(base + others[: count - least])
            matches = sum(len(index.match(xml_subject(data)).wanted) for data in documents) / len(documents)
            taken[count] = seconds(partial(match_all, index, documents), self.scale.repeat) / len(documents)
            notes.append(f"{count:,}: {taken[count] * 1e6:.0f} µs, {matches:.1f} matches")
        most = self.scale.growth[-1]
        yield Row(
            "growth", f"{XML_LANGUAGES}: time at {most:,} subscriptions, over that at {least:,}, matches fixed",
            taken[most] / taken[least], "times", Anchor(3), at_most=True, is_full=self.scale.is_full,
            note="; ".join(notes),
        )  # fmt: skip

    # ------------------------------------------------------------ languages that filters say entirely

    def exact(self) -> Iterator[Row]:
        """Subscriptions whose exact part is empty, beside native filters of the same meaning."""
        events = twin_events(self.scale.events)
        for language, twins in NATIVE_TWINS.items():
            self.log(f"exact: {language}")
            draw = random.Random(3)
            pairs = [twins(draw) for _ in range(self.scale.filters)]
            index = QueryIndex()
            index.add_many((place, parse_query(text, language)) for place, (text, _) in enumerate(pairs))
            native = QueryIndex()
            native.add_many((place, parse_query(text)) for place, (_, text) in enumerate(pairs))
            for each in events:
                if sorted(index.match(each).wanted) != sorted(native.match(each).wanted):  # type: ignore[type-var]
                    raise Disagreement(f"{language} and native filters on {each}")
            ratios = []
            for turn in range(4 * self.scale.repeat + 2):  # in turn, so that both meet the same machine and caches
                order = [index, native] if turn % 2 else [native, index]
                taken = {id(each): seconds(partial(match_events, each, events), 1) for each in order}
                ratios.append(taken[id(index)] / taken[id(native)])
            yield Row(
                f"exact-{language}", f"{language}: time for an event, over that of native filters", median(ratios),
                "times", Anchor(1.05), at_most=True, is_full=self.scale.is_full,
                note=f"{self.scale.filters:,} subscriptions, whose filter says all",
            )  # fmt: skip

    # ------------------------------------------------------------ parsing

    def parsing(self) -> Iterator[Row]:
        """Queries a second from text to filter and test, for each form of each language."""
        for language, forms in FORMS.items():
            self.log(f"parsing: {language}")
            rates = {}
            for name, form in forms.items():
                texts = [form(place) for place in range(self.scale.queries)]
                parse_query(texts[0], language)
                rates[name] = len(texts) / seconds(partial(parse_all, texts, language), self.scale.repeat)
            slowest = min(rates, key=lambda name: rates[name])
            yield Row(
                f"parsing-{language}", f"{language}: queries a second parsed and translated, slowest form ({slowest})",
                rates[slowest], "queries/s", Anchor(5_000), is_full=self.scale.is_full,
                note=", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()),
            )  # fmt: skip


def match_all(index: QueryIndex, documents: Iterable[bytes]) -> None:
    """Match documents, from bytes on."""
    for data in documents:
        index.match(xml_subject(data))


def match_in_groups(index: QueryIndex, documents: list[bytes]) -> None:
    """The same, some at a time, as they wait in a busy broker."""
    for first in range(0, len(documents), TOGETHER):
        index.match_many([xml_subject(data) for data in documents[first : first + TOGETHER]])


def parse_all(texts: list[str], language: str) -> None:
    """Parse and translate queries."""
    for text in texts:
        parse_query(text, language)


def match_events(index: QueryIndex, events: list[Event]) -> None:
    """Match events."""
    for each in events:
        index.match(each)


def main(
    only: Annotated[list[Part] | None, typer.Option(help="What to measure; may be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small size, to see that all works.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of which the median is taken.")] = FULL.repeat,
    xml: Annotated[Path, typer.Option(metavar="DIR", help="Where cap/ and siri/ are.")] = SHARED_XML,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, as on a pipe.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The tables of BENCHMARKS.md.")] = False,
) -> None:
    """Measure languages. Prints a table on a terminal and JSON lines on a pipe; progress goes to standard error."""
    start = time.perf_counter()
    machine, as_json = this_machine(), not as_markdown and (as_json or not sys.stdout.isatty())
    parts = tuple(only or Part)
    rows = []
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with one_core(), Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(parts))

        def log(message: str) -> None:
            progress.update(task, description=message)
            if not console.is_terminal:
                print(f"{time.perf_counter() - start:6.1f} s  {message}", file=sys.stderr, flush=True)

        bench = Bench(replace(QUICK if quick else FULL, repeat=repeat), xml_workload(xml), log)
        for part in parts:
            for row in bench.rows(part):
                rows.append(row)
                log(f"  {row.what}: {number(row.figure)} {row.unit}")
                if as_json:
                    print(json_line(row, machine), flush=True)
            progress.advance(task)
    if as_markdown:
        print(markdown(rows, machine))
    elif not as_json:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
