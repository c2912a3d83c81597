"""Fixes from tables of `ingest`, and from files of positions, which are ingested first.

*Theory.* A *fix* is the position of a client at a time. Besides tables of fixes, two formats are read directly: CSV
with `time`, `id`, `lon`, `lat` and perhaps `occupied`, which is what the simulator's `trace` reads too; and the text of
taxi archives, a file for each cab. They are converted to a table beside the results. For any other format use `ingest`
first.

*Rules.*
1. The name of a file determines its format: `.csv`, or `.csv` with a suffix of a compression, is CSV. All others are
   text.
2. Lines that cannot be read are in the quarantine of the table, and are counted.
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
    """The fixes in tables, files and folders of files, and the number of unreadable lines.

    Files are converted to a table in `folder`.
    """
    given, files = sorted_out(sources)
    if files and any(Path(table).resolve() == folder.resolve() for table in given):
        raise PipelineError(f"{folder} is read, and would be replaced by the result: use another --out")
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
    """The tables of fixes among the inputs, and the files of the others; `PipelineError` if one is neither."""
    given = [source for source in sources if (Path(source) / ABOUT).exists()]
    for table in given:
        about(table, "fixes")
    return given, files_of([source for source in sources if source not in given])


def _is_csv(file: Path) -> bool:
    return ".csv" in file.suffixes[-2:]
