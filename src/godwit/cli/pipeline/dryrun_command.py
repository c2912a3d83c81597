"""`godwit pipeline dryrun`: the past events that a filter or query would have matched, by day."""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.pipeline.spark_runner import Debug, Master, one_line_errors, session, show_summary, tell
from godwit.cli.query_options import OperatorModules, load_operators
from godwit.cli.signatures import Argument, Option, echo
from godwit.cli.terminal import Console, Text

if TYPE_CHECKING:
    from godwit.pipeline.dryrun import Day, DryRun
    from godwit.pipeline.subscription_index import Wanted

__all__ = ["dryrun"]

NATIVE = "filter"  # as `godwit.languages` has it, which is loaded only where it is needed

BARS_MAX = 40
BAR_WIDTH = 40
EIGHTHS = " ▏▎▍▌▋▊▉"
NO_DAY = "no time"
# Examples of values by name; for other names, a number.
EXAMPLES = {"location": """'location:={"lon": 8.54, "lat": 47.378}'"""}


def dryrun(
    events: Annotated[str, Argument(metavar="EVENTS", help="Folder of a table of events.")],
    filter: Annotated[str, Option(metavar="FILTER", help="Filter, as text or JSON, or query of --language.")],
    language: Annotated[
        str, Option(metavar="NAME", help="Language of the filter: xql, xpath, cesql, cql2-text or cql2-json.")
    ] = NATIVE,
    sample: Annotated[int, Option(metavar="N", min=0, max=10_000, help="Number of matching events to show.")] = 5,
    context: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="Subscriber's context: the values of my.x; repeatable."),
    ] = None,
    out: Annotated[str, Option(metavar="TABLE", help="Folder for a table of the events that match.")] = "",
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an existing table.")] = False,
    operators: OperatorModules = None,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Show how many and which events of a table a filter would have matched.

    Example: godwit pipeline dryrun quakes --filter "mag >= 4.5"
    """
    with one_line_errors(debug):
        from godwit.pipeline.schemas import about

        load_operators(operators)
        wanted = _wanted(filter, language, context)
        about(events, "events")  # wrong options are reported before Spark starts
        _check_out(events, out, overwrite)
    with session(master, "dryrun", debug) as spark:
        from godwit.pipeline.dryrun import dry_run, matching

        started = time.monotonic()
        tell("counting")
        found = dry_run(spark, events, wanted, sample)
        if out:
            from godwit.pipeline.tables import read, write

            tell("writing")
            write(matching(read(spark, events, "events"), wanted), out, "events", "overwrite" if overwrite else "new")
        seconds = time.monotonic() - started
    _show(found, wanted, round(seconds, 3), out)


def _wanted(text: str, language: str, context: list[str] | None) -> "Wanted":
    from godwit.cli.filter_command import bound
    from godwit.errors import PipelineError
    from godwit.filters.language import read
    from godwit.filters.references import is_open, references_of
    from godwit.languages import Query
    from godwit.pipeline.subscriptions import wanted_of

    is_text = language != NATIVE or not text.lstrip().startswith("{")
    found = wanted_of(text, language) if is_text else read(text)
    if isinstance(found, Query):
        if context:
            raise PipelineError("--context is for filters alone, and this query has an exact test")
        return found
    found = bound(found, context)
    if is_open(found):
        open_ones = list(references_of(found))
        example = " ".join(f"--context {EXAMPLES.get(each.name, f'{each.name}=4')}" for each in open_ones)
        raise PipelineError(
            f"the filter refers to the subscriber's {', '.join(map(str, open_ones))}: give a value, as in {example}"
        )
    return found


def _check_out(events: str, out: str, overwrite: bool) -> None:
    from pathlib import Path

    from godwit.errors import PipelineError
    from godwit.pipeline import tables
    from godwit.pipeline.schemas import ABOUT

    if not out:
        return
    if Path(out).resolve() == Path(events).resolve():
        raise PipelineError(f"--out is {out}, which is the table that is read: use another folder")
    if not overwrite and Path(out, ABOUT).exists():
        raise PipelineError(f"there is a table in {out} already: --overwrite replaces it")
    tables.check(out, "events", "overwrite" if overwrite else "new")


def _show(found: "DryRun", wanted: "Wanted", seconds: float, out: str) -> None:
    from godwit.filters.language import to_text
    from godwit.languages import Query

    asked: dict[str, Any]
    if isinstance(wanted, Query):
        asked = {"language": wanted.language, "query": wanted.text, "filter": to_text(wanted.routable)}
        asked["residues"] = found.residues
    else:
        asked = {"filter": to_text(wanted)}
    summary: dict[str, Any] = {
        **asked,
        "matched": found.matched,
        "events": found.events,
        "days": len(found.days),
        "seconds": seconds,
    }
    if found.unknown:
        summary["unknown_attributes"] = list(found.unknown)
    if out:
        summary["out"] = out
    if sys.stdout.isatty():
        _draw(found)
    else:
        _print_lines(found)
    show_summary("dry run", summary)


def _print_lines(found: "DryRun") -> None:
    from godwit.filters.json_lines import line_of

    for day in found.days:
        echo(json.dumps({"day": day.day and str(day.day), "matched": day.matched, "events": day.events}))
    for event in found.sample:
        echo(json.dumps({"event": line_of(event)}, ensure_ascii=False))


# ---------------------------------------------------------------- on a terminal


def _draw(found: "DryRun") -> None:
    from godwit.cli.event_display import text_of

    console = Console()
    for line in bars(found.days):
        console.print(Text(line))
    if found.sample:
        console.print(Text(f"the first {len(found.sample)} of {found.matched:,}:", style="dim"))
    for event in found.sample:
        console.print(text_of(event, has_day=True), soft_wrap=True)


def bars(days: Sequence["Day"]) -> list[str]:
    """A bar for each day with the number of matches; for each month or year if there are too many days."""
    rows = grouped(days)
    most = max((matched for _, matched, _ in rows), default=0)
    figures = [f"{matched:,} of {events:,}" for _, matched, events in rows]
    name_width = max((len(name) for name, _, _ in rows), default=0)
    return [
        f"{name:<{name_width}}  {bar(matched, most):<{BAR_WIDTH}}  {figure}"
        for (name, matched, _), figure in zip(rows, figures, strict=True)
    ]


def bar(count: int, most: int) -> str:
    """A bar in eighths of a character; a value above 0 is always visible."""
    eighths = max(1, round(8 * BAR_WIDTH * count / most)) if count else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def grouped(days: Iterable["Day"]) -> list[tuple[str, int, int]]:
    """Name, matched and events of each bar."""
    days = list(days)
    for digits in (10, 7, 4):  # 2026-11-15, 2026-11, 2026
        found: dict[str, list[int]] = {}
        for day in days:
            sums = found.setdefault(str(day.day)[:digits] if day.day else NO_DAY, [0, 0])
            sums[0] += day.matched
            sums[1] += day.events
        if len(found) <= BARS_MAX:
            break
    return [(name, matched, events) for name, (matched, events) in found.items()]
