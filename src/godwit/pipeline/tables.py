"""Tables on disk: reading, creating, appending and replacing, with atomic changes.

*Theory.* A writer puts its files into `_writing/new` within the table's folder, in their final layout. Then it writes
`_commit.json`: the files to remove, and the new content of `_godwit.json`. This decides the change: renaming the files,
removing the old ones and writing `_godwit.json` can be repeated as often as needed, by any later process. A writer that
is killed before leaves only a folder `_writing`, which the next one removes. All files of the change are on the disk
before `_commit.json` is written, and its steps before it is removed.

*Rules.*
1. A change is atomic, even if its writer is killed, interrupted or out of disk space at any moment, or the power fails.
2. There is one writer at a time; a second one is refused with an error. Reading needs no lock.
3. A folder that is not a Godwit table is never written to or removed, nor are other files below a table. A failed
   creation leaves no new folder behind.
4. File names are never reused in a table, so that a repeated change does no harm.
5. If an attribute gets values of another form, its column is widened in all files; a file may lack the column of an
   attribute that none of its events has, which readers treat as missing.
6. The day of a row is the name of its folder, as in Spark; a table of many days with few rows each is *flat*: its files
   are in the table's folder, and the day is a column. Spark reads both alike.
7. Bad rows are in the `_quarantine` of the table, which is also a table and part of the same change.
"""

import fcntl
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from godwit.errors import PipelineError
from godwit.files import synced, write_whole
from godwit.pipeline.columns import (
    EXACT_MAX,
    Form,
    arrow_type,
    attribute_of,
    column_of,
    form_of_arrow,
    from_arrow,
    joined,
    to_arrow,
)
from godwit.pipeline.schemas import ABOUT, TABLES, About, about, schema, write_about

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "NO_DAY",
    "QUARANTINE",
    "Mode",
    "TableChange",
    "changing",
    "check",
    "column",
    "files",
    "plain",
    "read",
    "spark_path",
    "widened",
    "write",
]

Mode = Literal["new", "append", "overwrite"]
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # the folder of rows without a time, as in Spark
QUARANTINE = "_quarantine"
GROWING = ("events", "fixes", "trace")  # tables that can be appended to
GROUP_ROWS = 2**17
_WRITING, _COMMIT, _LOCK = "_writing", "_commit.json", "_lock"
_UNDECIDED = f"{_COMMIT}.new"
_NUMBERED = re.compile(r"(\d{6,})-\d{5,}\.parquet")


# ---------------------------------------------------------------- reading


def read(spark: "SparkSession", folder: str | Path, table: str | None = None) -> "DataFrame":
    """The table in a folder, with its described columns; `PipelineError` if it is not a `table`."""
    finish(folder)
    found = about(folder, table)
    wanted = schema(found.table, found.attributes)
    frame = spark.read.schema(wanted).parquet(spark_path(folder))
    return frame.select([column(name) for name in wanted.names])  # Spark puts the day last


def plain(frame: "DataFrame") -> "DataFrame":
    """A view of a DataFrame whose columns need no backticks in SQL: `User/Address/Zip` is `User_Address_Zip`.

    Characters other than letters, digits and `_` become `_`; of two columns whose names would be equal, or differ only
    in case, the later one gets a number: `a_b_2`.
    """
    taken: set[str] = set()
    chosen = []
    for name in frame.columns:
        stem = re.sub(r"\W", "_", name)
        stem = f"_{stem}" if not stem or stem[0].isdigit() else stem
        new, number = stem, 2
        while new.lower() in taken:
            new, number = f"{stem}_{number}", number + 1
        taken.add(new.lower())
        chosen.append(column(name).alias(new))
    return frame.select(chosen)


def spark_path(path: str | Path) -> str:
    """A path escaped for Spark, in which brackets and stars are patterns."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path))


def column(name: str) -> "Column":
    """A column by its exact name, with any characters."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def files(folder: str | Path) -> list[Path]:
    """The Parquet files of a table, in order: those in its folder and in those of its days, as Spark reads them.

    Other files below are not part of the table.
    """
    root = Path(folder)
    found = [*root.glob("*.parquet"), *root.glob("day=*/*.parquet")]
    return sorted(path for path in found if not path.name.startswith(("_", ".")))


# ---------------------------------------------------------------- changes


@dataclass
class TableChange:
    """A change of a table in progress: put files under `new`, name those to remove, then `commit`."""

    folder: Path
    table: str
    before: About | None  # None: the table is new, or replaced
    number: int  # number of this write to the table
    removed: list[str] = field(default_factory=list)
    named: int = 0

    @property
    def new(self) -> Path:
        """The folder for the files of this change, in their final layout."""
        return self.folder / _WRITING / "new"

    @property
    def staged(self) -> Path:
        """The folder for temporary files of this change."""
        return self.folder / _WRITING / "staged"

    def is_flat(self, wish: bool) -> bool:
        """Whether the table has no folders of days: as before, and in a new table as requested."""
        if self.before is None or not (known := files(self.folder)):
            return wish
        return known[0].parent == self.folder

    def place(self, day: str | None = None) -> Path:
        """The path of the next file of this change; `day`: in the folder of that day."""
        self.named += 1
        folder = self.new if day is None else self.new / f"day={day}"
        return folder / f"{self.number:06d}-{self.named:05d}.parquet"

    def commit(self, attributes: Mapping[str, Form] | None = None) -> None:
        """Carry out the change, and write the new description of the table."""
        said = About(self.table, attributes=dict(attributes or {}))
        data = {
            "removed": self.removed,
            "table": said.table,
            "attributes": {name: str(form) for name, form in said.attributes.items()},
            "quarantine": (self.new / QUARANTINE).is_dir(),
        }
        written = sorted(self.new.rglob("*"), reverse=True)  # files before their folders
        synced([*written, self.new, self.new.parent])
        assert f"{_COMMIT}.new" == _UNDECIDED
        write_whole(self.folder / _COMMIT, json.dumps(data).encode())
        _carry_out(self.folder)
        synced([self.folder.parent])  # which may be new


@contextmanager
def changing(folder: str | Path, table: str, mode: Mode = "new") -> Iterator[TableChange]:
    """A change of the table in a folder, which is undone unless it is committed."""
    root = Path(folder)
    check(root, table, mode)  # before there is a lock in it
    made = [each for each in (root, *root.parents) if not each.exists()]
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(f"cannot write a table to {folder}: {error.strerror or error}") from None
    with _locked(root):
        if (root / _COMMIT).exists():
            _carry_out(root)
        change = _begun(root, table, mode)
        try:
            yield change
        finally:
            if not (root / _COMMIT).exists():  # otherwise it is decided, and the next process completes it
                shutil.rmtree(root / _WRITING, ignore_errors=True)
                if made and not (root / ABOUT).exists():
                    shutil.rmtree(root, ignore_errors=True)
                    for above in made[1:]:
                        with suppress(OSError):  # another process has put files there
                            above.rmdir()


def check(folder: str | Path, table: str, mode: Mode = "new") -> None:
    """Raise `PipelineError` if such a change is not possible in a folder, as far as can be checked. Nothing is
    changed."""
    root = Path(folder)
    for above in root.resolve().parents:
        if (above / ABOUT).exists() and not root.resolve().relative_to(above).parts[0].startswith("_"):
            raise PipelineError(
                f"{folder} is within the table {above}, and would become part of it: use another folder"
            )
    if root.exists() and not root.is_dir():
        raise PipelineError(f"cannot write a table to {folder}: it is not a folder")
    if (root / _COMMIT).exists():  # a decided change is carried out first
        return
    if (root / ABOUT).exists():
        if mode == "new":
            more = "--append adds to it, " if table in GROWING else ""
            raise PipelineError(f"there is a table in {root} already: {more}--overwrite replaces it")
        about(root, table if mode == "append" else None)
    elif root.is_dir() and (others := sorted({path.name for path in root.iterdir()} - {_WRITING, _LOCK, _UNDECIDED})):
        raise PipelineError(f"{root} is not a Godwit table, and not empty ({others[0]}, …): nothing is written to it")


def finish(folder: str | Path) -> None:
    """Complete a change whose writer was killed after it was decided."""
    root = Path(folder)
    if (root / _COMMIT).exists():
        with _locked(root, wait=True):
            if (root / _COMMIT).exists():
                _carry_out(root)


def _begun(root: Path, table: str, mode: Mode) -> TableChange:
    check(root, table, mode)
    (root / _UNDECIDED).unlink(missing_ok=True)
    before = about(root) if (root / ABOUT).exists() else None
    shutil.rmtree(root / _WRITING, ignore_errors=True)
    known = [*files(root), *files(root / QUARANTINE)]
    numbers = [int(found[1]) for path in known if (found := _NUMBERED.fullmatch(path.name))]
    change = TableChange(root, table, before if mode == "append" else None, max(numbers, default=0) + 1)
    if mode == "overwrite":
        change.removed = [path.relative_to(root).as_posix() for path in known]
    change.new.mkdir(parents=True)
    change.staged.mkdir()
    return change


def _carry_out(root: Path) -> None:
    """Carry out `_commit.json`, or the rest of it."""
    data = _decided(root)
    for path in (root / name for name in data["removed"]):
        path.unlink(missing_ok=True)
        if path.parent != root and path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
    new = root / _WRITING / "new"
    changed = {root}
    for path in sorted(new.rglob("*.parquet")):
        target = root / path.relative_to(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        changed |= {folder for folder in target.parents if folder.is_relative_to(root)}
    synced(sorted(changed, reverse=True))
    write_about(root, About(data["table"], attributes=data["attributes"]))
    if data["quarantine"]:
        write_about(root / QUARANTINE, About("quarantine"))
    shutil.rmtree(root / _WRITING, ignore_errors=True)
    (root / _COMMIT).unlink(missing_ok=True)
    synced([root])  # before other files under `_writing` could be confused with its files


def _decided(root: Path) -> dict[str, Any]:
    """The content of `_commit.json`. It may come from elsewhere, so only files of the table may be removed."""
    try:
        data = json.loads((root / _COMMIT).read_text(encoding="utf-8"))
        folders = {(root / name).parent.resolve() for name in data["removed"]}
        if not all(folder.is_relative_to(root.resolve()) for folder in folders):
            raise ValueError("it names files that are not of the table")
        forms = {name: Form.parse(form) for name, form in data["attributes"].items()}
        return {
            "removed": data["removed"],
            "table": data["table"],
            "attributes": forms,
            "quarantine": data["quarantine"],
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{root / _COMMIT} is invalid: {error}") from None


@contextmanager
def _locked(root: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock the table for this process; the lock ends with the process."""
    try:
        lock = (root / _LOCK).open("w")
    except OSError as error:
        raise PipelineError(f"cannot write to {root}: {error.strerror or error}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise PipelineError(f"another process is writing to {root}: try again when that is done") from None
        yield


# ---------------------------------------------------------------- DataFrames


def write(frame: "DataFrame", folder: str | Path, table: str, mode: Mode = "new") -> None:
    """Write a DataFrame as a table: create, append or replace. Missing columns are null."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import to_arrow_type

    own = TABLES[table]
    forms = {}
    for each in frame.schema.fields:
        if each.name in own:
            continue
        name = attribute_of(each.name)
        if table != "events" or name is None:
            raise PipelineError(f"a table of {table} has no column {each.name!r}: it has {', '.join(own)}")
        forms[name] = form_of_arrow(each.name, to_arrow_type(each.dataType))
    with changing(folder, table, mode) as change:
        old = change.before.attributes if change.before else {}
        for name, form in forms.items():
            if old.get(name, form) != form:
                raise PipelineError(
                    f"attribute {name!r} is {old[name]} in {folder} and {form} in what is added: cast it first"
                )
        wanted = schema(table, forms)
        there = set(frame.columns)
        chosen = [
            (column(each.name) if each.name in there else functions.lit(None)).cast(each.dataType).alias(each.name)
            for each in wanted.fields
        ]
        writer = frame.select(chosen).write
        if "day" in own and not change.is_flat(False):
            writer = writer.partitionBy("day")
        written = change.staged / "spark"
        writer.parquet(str(written))
        for path in files(written):
            target = change.new / path.relative_to(written).parent / change.place().name
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        change.commit({**old, **forms})


# ---------------------------------------------------------------- widening


def widened(array: Any, name: str, form: Form) -> Any:
    """A column with the same values in a wider form."""
    if array.type == arrow_type(form):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(form))
    if form == Form("float") and form_of_arrow(name, array.type) == Form("int"):
        return array.cast(pa.float64())
    return to_arrow(form, from_arrow(name, array))


def widen(
    change: TableChange,
    forms: Mapping[str, tuple[Form, bool]],
    run: Callable[[Callable[[Any], Any], Sequence[Any]], Any],
) -> dict[str, Form]:
    """The forms of the table with the added events; their forms are given with whether their ints are exact as floats.

    Files of the table whose columns must be wider are rewritten; `run(function, items)` does that for all of them.
    """
    old = change.before.attributes if change.before else {}
    there = files(change.folder)
    after = dict(old)
    for name, (form, exact) in forms.items():
        if name in old and old[name] != form:
            if {old[name].kind, form.kind} == {"int", "float"}:
                exact = exact and (old[name].kind != "int" or _is_exact(there, column_of(name)))
            form = joined(old[name], form, exact=exact)
        after[name] = form
    changed = {name: form for name, form in after.items() if name in old and old[name] != form}
    work: list[tuple[str, str, dict[str, Form]]] = []
    for path in there if changed else ():
        if any(column_of(name) in pq.read_schema(path).names for name in changed):
            place = path.relative_to(change.folder)
            target = change.new / place.parent / change.place().name
            change.removed.append(place.as_posix())
            work.append((str(path), str(target), {column_of(name): form for name, form in changed.items()}))
    if work:
        run(rewritten, work)
    return after


def rewritten(item: tuple[str, str, dict[str, Form]]) -> None:
    """Rewrite a file with some columns in wider forms."""
    path, target, forms = item
    found = pq.read_table(path, partitioning=None)
    for place, name in enumerate(found.schema.names):
        if name in forms:
            found = found.set_column(place, name, widened(found.column(name).combine_chunks(), name, forms[name]))
    save(found, target)


def save(found: Any, target: str | Path) -> None:
    """Write a file of a table."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(found, target, compression="zstd", row_group_size=GROUP_ROWS)


def _is_exact(paths: Sequence[Path], name: str) -> bool:
    """Whether all ints of a column are exact as floats, by the statistics of the files."""
    paths_of = (name, f"{name}.list.element", f"{name}.list.item")
    largest = 0
    for path in paths:
        meta = pq.read_metadata(path)
        for group in range(meta.num_row_groups):
            for place in range(meta.num_columns):
                found = meta.row_group(group).column(place)
                if found.path_in_schema in paths_of and found.statistics and found.statistics.has_min_max:
                    largest = max(largest, abs(found.statistics.min), abs(found.statistics.max))
    return largest <= EXACT_MAX
