"""Ingest: converts files of many formats to a table, without losing a row.

*Theory.* One job reads (`staging.stage`), one writes (`staging.write_unit`), and the table is changed at the end
(`tables`). Before, a third job counts lines if files are split, so that every row keeps its number. Rows that cannot be
read go to the quarantine of the table, with file, line and reason.

*Rules.*
1. Rows read = rows written + rows in quarantine.
2. If nothing can be read nothing is written: an empty source, or one entirely of another format, is an error, and the
   table is unchanged.
3. Strict: the first bad row, in the order of files and lines, is an error, and nothing is written.
4. An event without an id is named by its file and its line (XML: its number in the file).
5. Names are unique: a file, or a run, whose name is already in the table is refused.

*Profile.* 245,190 quotes in PADRES text, packed by bzip2, take 5 s of one core: two fifths parsing, a fifth unpacking,
a fifth putting rows into columns, 0.1 s writing Parquet. 1,273,373 fixes in 60 packed files take 1.4 s of a core, half
of it writing a file for each day: Arrow reads them without Python. A packed file is one task; others are cut.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from godwit.errors import PipelineError
from godwit.pipeline import tables
from godwit.pipeline.columns import Form
from godwit.pipeline.formats import csv_rows
from godwit.pipeline.formats.by_line import LOG_FIELDS
from godwit.pipeline.formats.file_source import SOURCES, importable, source_of
from godwit.pipeline.formats.rows import Options
from godwit.pipeline.formats.splits import BROKEN_OFF, Split, counted, names, numbered, sources, splits
from godwit.pipeline.formats.track_rows import ais_columns
from godwit.pipeline.formats.xml_rows import elements
from godwit.pipeline.schemas import TABLES
from godwit.pipeline.staging import (
    NO_DAY_NUMBER,
    Slice,
    Staged,
    Unit,
    Work,
    check_columns,
    joined_forms,
    stage,
    write_unit,
)
from godwit.pipeline.worker_operators import ship_modules
from godwit.trace import FILE as TRACE_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FORMATS", "Report", "check", "ingest", "table_of"]

FORMATS: dict[str, str] = {
    "jsonl": "events",
    "csv": "events",
    "xml": "events",
    "padres": "events",
    "log": "events",
    "fixes": "fixes",
    "plt": "fixes",
    "gpx": "fixes",
    "nmea": "fixes",
    "ais": "fixes",
    "trace": "trace",
}
"""Each format, and its default table."""
BY_LINE = ("jsonl", "log", "padres", "csv", "fixes", "nmea", "ais")
CSV = ("csv", "ais")
FILE_ROWS_MIN, FILE_ROWS_MAX = 2**16, 2**20
FILE_BYTES_MAX = 2**29  # approximate, before compression: the memory of a writing task
DAYS_MANY, ROWS_OF_A_DAY_FEW = 100, 1_000  # with more days a file per day would be too small
TASKS_PER_CORE = 4
ELEMENTS_SHOWN = 8


@dataclass
class Report:
    """The result: `read` = `written` + the sum of `quarantined`, which is by kind of error."""

    table: str
    files: int = 0
    read: int = 0
    written: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    days: int = 0
    attributes: dict[str, Form] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # by step
    first_bad: str = ""  # of the quarantine: file, line and reason

    @property
    def warning(self) -> str:
        """A warning if events look like lines of an event log but have other keys."""
        if not any(name.startswith("attributes/") for name in self.attributes):
            return ""
        strange = sorted({name.partition("/")[0] for name in self.attributes} - LOG_FIELDS)
        if not strange:
            return ""
        return (
            f"some events have 'attributes' like a line of an event log, but also {', '.join(map(repr, strange[:5]))}, "
            "which such a line does not have: they were read as nested JSON, with attributes like "
            f"{min(name for name in self.attributes if name.startswith('attributes/'))!r}. "
            "Remove the other keys if these are events of a log"
        )


def ingest(
    spark: "SparkSession",
    given: Sequence[str],
    options: Options,
    out: str | Path,
    mode: tables.Mode = "new",
    table: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Convert files to a table, or add them to one. `tell` is called with each step."""
    table = table_of(options, table)
    paths = _traces(given) if table == "trace" else sources(given)
    clock = _Clock()
    cores = spark.sparkContext.defaultParallelism

    def run(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        slices = min(len(items), cores * TASKS_PER_CORE)
        return spark.sparkContext.parallelize(items, slices).map(function).collect() if items else []

    with tables.changing(out, table, mode) as change:
        tell("reading")
        pieces = _pieces(paths, options, table, cores, run)
        clock.done("plan")
        folder = str(change.staged.absolute())
        at_work = _for_workers(spark, options)
        staged: list[Staged] = run(stage, [Work(n, each, at_work, table, folder) for n, each in enumerate(pieces)])
        _check(staged, paths, options)
        if change.before is not None:
            _refuse_twice(change.folder, table, {each.publisher for each in pieces})
        clock.done("read")
        tell("writing")
        found = _forms(staged)
        check_columns(
            len({*found, *(change.before.attributes if change.before else ())}), f"{change.folder}, all in all,"
        )
        forms = tables.widen(change, found, run)
        units = _units(change, table, forms, staged, cores)
        read = sum(each.read for each in staged)
        written = sum(run(write_unit, units))
        if read != written:
            raise PipelineError(
                f"{read:,} rows were read and {written:,} written. This is a bug in Godwit; nothing was changed"
            )
        clock.done("write")
        change.commit(forms)
        clock.done("commit")
    bad = sum((each.bad for each in staged), Counter[str]())
    first = next(((each.split.path, each.first_bad) for each in staged if each.first_bad is not None), None)
    return Report(
        table,
        len(paths),
        read,
        read - bad.total(),
        dict(bad.most_common()),
        len({day for each in staged for day, _ in each.days if day != NO_DAY_NUMBER}),
        forms,
        clock.steps,
        "" if first is None else f"{Path(first[0]).name}:{first[1].line}: {first[1].reason}",
    )


def check(given: Sequence[str], options: Options, out: str | Path, mode: tables.Mode = "new", table: str = "") -> None:
    """Raise `PipelineError` if `ingest` would fail, as far as can be checked without Spark. Nothing is changed."""
    table = table_of(options, table)
    paths = _traces(given) if table == "trace" else sources(given)
    tables.check(out, table, mode)
    if mode == "append":
        tables.finish(out)
        _refuse_twice(Path(out), table, set(_runs(paths) if table == "trace" else names(paths)))
    if not all(path.is_file() for path in paths):  # a pipe can be read only once
        return
    if not any(path.stat().st_size for path in paths):
        raise PipelineError(f"{_where(paths)} is empty: there is nothing to write")
    if options.format in CSV:
        header = csv_rows.header(str(paths[0]), options)
        if options.format == "ais":
            ais_columns(header, str(paths[0]))


def table_of(options: Options, table: str = "") -> str:
    """The table of the result; `PipelineError` if the format does not allow it, or an option is missing."""
    usual = FORMATS.get(options.format) or _table_of_source(options.format)
    if options.format == "xml" and not options.row:
        raise PipelineError("XML needs --row: the name of the element that is a row")
    if table and table != usual and (usual != "events" or table != "fixes"):
        allowed = "events and fixes" if usual == "events" else usual
        raise PipelineError(f"{options.format} cannot become a table of {table}: allowed is {allowed}")
    for option, is_given, is_for in (
        ("--time", options.time, usual == "events"),
        ("--time-format", options.time_format, options.time),
        ("--map", options.names, usual == "events"),
        ("--point", options.points, usual == "events"),
        ("--row", options.row, options.format == "xml"),
        ("--delimiter", options.delimiter != ",", options.format in CSV),
        ("--skip-lines", options.skip_lines, options.format in CSV),
        ("--index-column", options.index != Options.index, options.format == "csv"),
    ):
        if is_given and not is_for:
            why = "it needs --time" if option == "--time-format" else f"the format {options.format} does not have it"
            raise PipelineError(f"{option} cannot be used: {why}")
    return table or usual


def _table_of_source(format: str) -> str:
    if ":" not in format and format not in SOURCES.names():
        allowed = ", ".join((*FORMATS, *SOURCES.names()))
        raise PipelineError(f"{format!r} is not a format: allowed are {allowed}, or module:Class of your own")
    return source_of(format).table


def _for_workers(spark: "SparkSession", options: Options) -> Options:
    """The same options, with the name of a source that workers can import."""
    if options.format in FORMATS:
        return options
    named = importable(options.format)
    ship_modules(spark, [named.partition(":")[0]])
    return replace(options, format=named)


class _Clock:
    """The duration of each step."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, step: str) -> None:
        now = time.perf_counter()
        self.steps[step], self._last = now - self._last, now


# ---------------------------------------------------------------- what is read


def _pieces(
    paths: list[Path], options: Options, table: str, cores: int, run: Callable[[Callable[[Any], Any], Any], list[Any]]
) -> list[Split]:
    found = splits(paths, cores * TASKS_PER_CORE, by_line=options.format in BY_LINE)
    if table == "trace":
        return [
            Split(each.path, run_name, given=each.given) for each, run_name in zip(found, _runs(paths), strict=True)
        ]
    cut = [each for each in found if each.end is not None]
    if not cut:
        return found
    counts = dict(zip(cut, run(counted, cut), strict=True))
    if options.format in CSV:
        quoted = {each.path for each, (_, quotes) in counts.items() if quotes}  # if a row may have several lines
        found = [each for each in found if each.path not in quoted or not each.start]
        found = [Split(each.path, each.publisher, given=each.given) if each.path in quoted else each for each in found]
    return numbered(found, [counts[each][0] if each in counts else 0 for each in found])


def _traces(given: Sequence[str]) -> list[Path]:
    """The files of traces: Parquet files, and `trace.parquet` in folders, at any depth."""
    found: dict[Path, None] = {}
    for name in given:
        path = Path(name)
        if path.is_dir():
            below = sorted(path.rglob(TRACE_FILE))
            if not below:
                raise PipelineError(f"there is no {TRACE_FILE} in {name}: `godwit simulate --trace` writes one")
            found.update(dict.fromkeys(below))
        else:
            found[path] = None
    return sources([str(path) for path in found])


def _runs(paths: Sequence[Path]) -> list[str]:
    """The name of each trace's run: its folder, or its file; the whole path if two have the same name."""
    names = [path.resolve().parent.name if path.name == TRACE_FILE else path.stem for path in paths]
    if len(set(names)) == len(names):
        return names
    return [(path.parent if path.name == TRACE_FILE else path.with_suffix("")).as_posix() for path in paths]


def _refuse_twice(folder: Path, table: str, names: set[str]) -> None:
    """Raise `PipelineError` if the table has a run, or events, with the name of an added one. (rule 5)"""
    column = {"trace": "run", "events": "publisher"}.get(table)
    for path in tables.files(folder) if column else ():
        there = pq.read_table(path, columns=[column], partitioning=None, read_dictionary=[column]).column(column)
        for name in sorted(names.intersection(there.unique().to_pylist())):
            what, whose = ("a run", "folder") if table == "trace" else ("events of a file", "file")
            raise PipelineError(f"the table has {what} {name!r} already: rename the {whose}, or use --overwrite")


def _check(staged: Sequence[Staged], paths: Sequence[Path], options: Options) -> None:
    """Raise `PipelineError` if there is nothing to write, or a forbidden bad row."""
    for each in staged:
        if each.failed:
            raise PipelineError(each.failed)
    faults = [(each.split, each.first_bad) for each in staged if each.first_bad is not None]
    if options.strict and faults:
        split, bad = faults[0]
        raise PipelineError(f"{split.given}:{bad.line}: {bad.reason}")
    where = _where(paths)
    read = sum(each.read for each in staged)
    if not read and options.format == "xml":
        names = elements(str(paths[0]))
        there = f"elements like rows are {', '.join(names[:ELEMENTS_SHOWN])}" if names else "it has no elements"
        raise PipelineError(f"there is no element <{options.row}> in {where}; {there}")
    if not read:
        raise PipelineError(f"{where} is empty: there is nothing to write")
    if read == sum(each.bad.total() for each in staged):
        split, bad = faults[0]
        if all(each.bad.keys() <= {BROKEN_OFF} for each in staged):
            said = bad.reason.removeprefix(f"{BROKEN_OFF}: ")
            raise PipelineError(f"{where} is broken, from line {bad.line} on: {said}")
        raise PipelineError(
            f"none of the {read:,} rows of {where} could be read as {options.format}; the first, "
            f"{Path(split.path).name}:{bad.line}: {bad.reason}"
        )


def _where(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


# ---------------------------------------------------------------- what is written


def _forms(staged: Sequence[Staged]) -> dict[str, tuple[Form, bool]]:
    found: dict[str, tuple[Form, bool]] = {}
    for each in staged:
        for name, form in each.forms.items():
            found[name] = joined_forms(found.get(name), form)
    return found


def _units(
    change: tables.TableChange, table: str, forms: dict[str, Form], staged: Sequence[Staged], cores: int
) -> list[Unit]:
    """The files to write: some for each day, and for the quarantine."""
    by_day: dict[int, list[Slice]] = {}
    for each in staged:
        for day, rows in each.days:
            by_day.setdefault(day, []).append(rows)
    total = sum(rows.count for slices in by_day.values() for rows in slices)
    size = min(max(total // (2 * cores), FILE_ROWS_MIN), FILE_ROWS_MAX)
    staged_bytes = sum(path.stat().st_size for path in change.staged.iterdir())
    size = max(min(size, total * FILE_BYTES_MAX // max(staged_bytes, 1)), 1)
    has_days = "day" in TABLES[table]
    flat = has_days and change.is_flat(len(by_day) > DAYS_MANY and total < len(by_day) * ROWS_OF_A_DAY_FEW)
    if flat or not has_days:
        by_day = {NO_DAY_NUMBER: _together(rows for each in staged for _, rows in each.days)}
    units = []
    for day in sorted(by_day):
        for chunk in _chunks(by_day[day], size):
            target = change.place(_day_name(day) if has_days and not flat else None)
            units.append(Unit(str(target.absolute()), table, tuple(chunk), forms, flat))
    for chunk in _chunks([rows for each in staged for rows in each.refused], size):
        target = change.new / tables.QUARANTINE / change.place().name
        units.append(Unit(str(target.absolute()), "quarantine", tuple(chunk), {}))
    return units


def _together(slices: Iterable[Slice]) -> list[Slice]:
    """The same rows in fewer slices: adjacent ones are joined."""
    found: list[Slice] = []
    for rows in slices:
        if found and found[-1].path == rows.path and found[-1].start + found[-1].count == rows.start:
            found[-1] = Slice(rows.path, found[-1].start, found[-1].count + rows.count)
        else:
            found.append(rows)
    return found


def _chunks(slices: Sequence[Slice], size: int) -> list[list[Slice]]:
    """Rows in groups of about `size`, in order."""
    found: list[list[Slice]] = []
    room = 0
    for rows in slices:
        if room <= 0:
            found.append([])
            room = size
        found[-1].append(rows)
        room -= rows.count
    return found


def _day_name(day: int) -> str:
    return tables.NO_DAY if day == NO_DAY_NUMBER else (date(1970, 1, 1) + timedelta(days=day)).isoformat()
