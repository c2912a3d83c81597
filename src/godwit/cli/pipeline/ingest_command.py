"""`godwit pipeline ingest`: convert files of many formats to a table."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from godwit.cli.own_modules import allow_modules_here
from godwit.cli.pipeline.spark_runner import Debug, Master, one_line_errors, session, show_summary, tell
from godwit.cli.signatures import Argument, Option, echo
from godwit.errors import PipelineError

if TYPE_CHECKING:
    from godwit.pipeline.ingest import Report
    from godwit.pipeline.tables import Mode

__all__ = ["ingest"]

RATE_ROWS_MIN = 10_000


class TableKind(StrEnum):
    """The tables that rows may become."""

    events = "events"
    fixes = "fixes"
    trace = "trace"


def ingest(
    sources: Annotated[list[str], Argument(metavar="SOURCE", help="Files, or folders of files.")],
    format: Annotated[
        str,
        Option(
            metavar="FORMAT",
            help="Format of the files: jsonl, csv, xml, padres, log, fixes, plt, gpx, nmea, ais, trace, "
            "the name of an installed source, or module:Class.",
        ),
    ],
    out: Annotated[str, Option(metavar="TABLE", help="The folder of the table.")],
    table: Annotated[
        TableKind | None, Option(help="Kind of table: events or, for jsonl, csv, xml, padres and log, fixes.")
    ] = None,
    time: Annotated[str, Option(metavar="ATTRIBUTE", help="Attribute with the time of publication.")] = "",
    time_format: Annotated[
        str, Option(metavar="FORMAT", help="Format of that time: a strptime format, or s, ms, us, ns since 1970.")
    ] = "",
    map: Annotated[
        list[str] | None, Option(metavar="OLD=NEW", help="Rename an attribute; OLD= removes it. Repeatable.")
    ] = None,
    point: Annotated[
        list[str] | None, Option(metavar="LON,LAT=NAME", help="Combine two attributes to one point; repeatable.")
    ] = None,
    row: Annotated[str, Option(metavar="ELEMENT", help="XML: name of the element that is a row.")] = "",
    delimiter: Annotated[str, Option(metavar="CHAR", help="CSV: delimiter between cells.")] = ",",
    skip_lines: Annotated[
        int, Option(metavar="N", min=0, max=10_000, help="CSV: number of lines before the header to skip.")
    ] = 0,
    index_column: Annotated[
        str, Option(metavar="NAME", help="CSV: name of the first column if the header has none for it.")
    ] = "index",
    append: Annotated[bool, Option("--append", help="Add to an existing table.")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an existing table.")] = False,
    strict: Annotated[bool, Option("--strict", help="Stop at the first bad row, and write nothing.")] = False,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Convert files to a table, or add them to one.

    Rows that cannot be read go to TABLE/_quarantine, with file, line and reason.

    Example: godwit pipeline ingest quakes.csv --format csv --time time --out quakes
    """
    if format == "log" and (journals := _journals(sources)):
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="godwit-") as folder:
            logs = [each for each in sources if each not in journals] + _logs_of(journals, folder)
            ingest(
                *(logs, format, out, table, time, time_format, map, point, row, delimiter),
                *(skip_lines, index_column, append, overwrite, strict, master, debug),
            )
        return
    allow_modules_here()
    with one_line_errors(debug):
        from godwit.pipeline.formats.rows import Options
        from godwit.pipeline.ingest import check
        from godwit.pipeline.ingest import ingest as run

        options = Options(
            format=format,
            row=row,
            time=time,
            time_format=time_format,
            names=tuple(_named(each) for each in map or ()),
            points=tuple(_pointed(each) for each in point or ()),
            delimiter=_delimiter(delimiter),
            skip_lines=skip_lines,
            index=_index(index_column),
            strict=strict,
        )
        wanted = table.value if table else ""
        mode = _mode(append, overwrite)
        check(sources, options, out, mode, wanted)  # wrong options are reported before Spark starts
    with session(master, "ingest", debug) as spark:
        report = run(spark, sources, options, out, mode, wanted, tell)
    _show(report, out)
    if report.warning:
        echo(f"warning: {report.warning}", err=True)


def _journals(sources: list[str]) -> list[str]:
    """The sources that are brokers' journals."""
    from pathlib import Path

    return [source for source in sources if Path(source, "journal.sqlite").is_file()]


def _logs_of(journals: list[str], folder: str) -> list[str]:
    """The events of brokers' journals, as event logs in a folder."""
    from pathlib import Path

    from godwit.runtime.journal_events import log_of

    found = []
    for number, journal in enumerate(journals, start=1):
        log = Path(folder, str(number))
        if log_of(Path(journal), log):
            found.append(str(log))
    if not found:
        raise PipelineError(f"there are no events in {', '.join(journals)}")
    return found


def _mode(append: bool, overwrite: bool) -> "Mode":
    if append and overwrite:
        raise PipelineError("--append and --overwrite exclude each other: give one")
    return "append" if append else "overwrite" if overwrite else "new"


def _named(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not old or not equals:
        raise PipelineError(f"--map is {text!r}: it must be OLD=NEW, or OLD= to leave the attribute out")
    return old, new


def _pointed(text: str) -> tuple[str, str, str]:
    places, _, name = text.partition("=")
    lon, _, lat = places.partition(",")
    if not (lon and lat and name):
        raise PipelineError(f"--point is {text!r}: it must be LON,LAT=NAME")
    return lon, lat, name


def _index(text: str) -> str:
    if not text:
        raise PipelineError("--index-column is empty: it must be a name; --map NAME= removes the column")
    return text


def _delimiter(text: str) -> str:
    char = "\t" if text == "\\t" else text
    if len(char) != 1 or char in '"\r\n':
        raise PipelineError(
            f"--delimiter is {text!r}: it must be one character, and neither a quote nor an end of line"
        )
    return char


def _show(report: "Report", out: str) -> None:
    rows: dict[str, object] = {
        "table": report.table,
        "out": out,
        "files": report.files,
        "read": report.read,
        "written": report.written,
        "quarantined": sum(report.quarantined.values()),
        **{f"quarantined_{kind.replace(' ', '_')}": count for kind, count in report.quarantined.items()},
    }
    if report.quarantined:
        rows |= {"quarantine": f"{out}/_quarantine", "quarantined_first": report.first_bad}
    if report.days:
        rows["days"] = report.days
    if report.attributes:
        rows["attributes"] = len(report.attributes)
    total = sum(report.seconds.values())
    rows |= {f"seconds_{step}": round(seconds, 3) for step, seconds in report.seconds.items()}
    rows |= {"seconds": round(total, 3), "rows_per_second": round(report.read / total)}
    show_summary("ingest", _for_people(report, rows) if sys.stdout.isatty() else rows)
    if report.quarantined and sys.stdout.isatty():
        from godwit.cli.event_display import safe

        echo(f"Rows that could not be read are in {out}/_quarantine. The first: {safe(report.first_bad)}", err=True)


def _for_people(report: "Report", rows: dict[str, object]) -> dict[str, object]:
    """The summary for a terminal, without the text below the table; the rate of few rows is left out."""
    shown: dict[str, object] = {}
    for name, value in rows.items():
        if name == "quarantined":
            shown["not read"] = value
            shown |= {f"  {kind}": count for kind, count in report.quarantined.items()}
        elif not name.startswith("quarantine") and (name != "rows_per_second" or report.read >= RATE_ROWS_MIN):
            shown[name] = value
    return shown
