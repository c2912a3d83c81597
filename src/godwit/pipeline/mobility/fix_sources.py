"""Fixes from tables that `ingest` has made, and from files of positions, which are ingested on the way.

*Theory.* A *fix* is where a client was at a moment. Besides tables of fixes, two forms are read as they are: CSV with
`time`, `id`, `lon`, `lat` and perhaps `occupied`, which is what the simulator's `trace` reads too; and the text of taxi
archives, a file for each cab. They become a table beside what is mined. Any other form is for `ingest` first.

*Rules.*
1. The name of a file says its form: `.csv`, or `.csv` with the name of a compression, is CSV. All others are text.
2. What cannot be read is in the quarantine of the table, and is counted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from godwit.errors import PipelineError
from godwit.pipeline import tables
from godwit.pipeline.formats.rows import Options
from godwit.pipeline.formats.splits import sources as files_of
from godwit.pipeline.ingest import ingest
from godwit.pipeline.schemas import ABOUT, about

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "sorted_out"]

CSV = Options(format="csv", time="time", names=(("id", "client"),))
TEXT = Options(format="fixes")
COLUMNS = ("client", "at", "lon", "lat", "occupied")


def read(spark: "SparkSession", sources: Sequence[str], folder: Path) -> "tuple[DataFrame, int]":
    """The fixes in tables, files and folders of files, and how many lines could not be read.

    What is not a table yet becomes one in `folder`.
    """
    given, files = sorted_out(sources)
    if files and any(Path(table).resolve() == folder.resolve() for table in given):
        raise PipelineError(f"{folder} is read, and would be replaced by what the files become: take another --out")
    forms = ((TEXT, [file for file in files if not _is_csv(file)]), (CSV, [file for file in files if _is_csv(file)]))
    mode: tables.Mode = "overwrite"
    unread = 0
    for options, named in forms:
        if named:
            report = ingest(spark, [str(file) for file in named], options, folder, mode, "fixes")
            unread += sum(report.quarantined.values())
            mode = "append"
    frames = [
        tables.read(spark, table, "fixes").select(*COLUMNS) for table in [*given, *([str(folder)] if files else [])]
    ]
    found = frames[0]
    for frame in frames[1:]:
        found = found.unionByName(frame)
    return found, unread


def sorted_out(sources: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Which are tables of fixes, and which files are meant by the others; `PipelineError` when one is neither."""
    given = [source for source in sources if (Path(source) / ABOUT).exists()]
    for table in given:
        about(table, "fixes")
    return given, files_of([source for source in sources if source not in given])


def _is_csv(file: Path) -> bool:
    return ".csv" in file.suffixes[-2:]
