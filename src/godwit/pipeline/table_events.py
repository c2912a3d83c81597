"""A table of events as the source of a stream, and what the stream's output knows of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from godwit.errors import PipelineError
from godwit.pipeline.schemas import About, about, schema, write_about
from godwit.pipeline.subscription_index import SubscriptionIndex
from godwit.pipeline.table_matching import learn
from godwit.pipeline.tables import files, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TableEvents", "shared_folder"]

SOURCE = "_source"
MAX_FILE_AGE = "36500d"  # Spark leaves out files that are a week older than the newest: we leave out none


class TableEvents:
    """A table of events as a stream: all that is in it, then the files that are added to it.

    A table whose attributes change while a stream reads it ends the stream with an error: a new attribute needs another
    start, and where a column became wider, its files were written again and would come a second time.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        finish(self.folder)
        self.attributes = about(self.folder, "events").attributes

    def read(self, spark: "SparkSession", files_max: int | None = None) -> "DataFrame":
        """The streaming DataFrame; with `files_max`, so many files in a batch at most."""
        reader = spark.readStream.schema(schema("events", self.attributes)).option("maxFileAge", MAX_FILE_AGE)
        limited = reader if files_max is None else reader.option("maxFilesPerTrigger", files_max)
        return limited.parquet(str(self.folder))

    def learn(self, index: SubscriptionIndex) -> None:
        """Lay an index out for the events that are in the table now: for `stream(learn=…)`."""
        learn(index, self.folder)

    def check(self) -> None:
        """`PipelineError` when the table is not what it was: for `stream(before_batch=…)`."""
        finish(self.folder)
        if about(self.folder, "events").attributes != self.attributes:
            raise PipelineError(f"the attributes of {self.folder} have changed: start the stream again")

    def waiting(self, checkpoint: str | Path) -> int:
        """How many files of the table no batch has read yet."""
        return max(0, len(files(self.folder)) - _files_read(Path(checkpoint)))

    def check_output(self, out: str | Path) -> None:
        """`PipelineError` when the table is not what it was when the stream that wrote to `out` ran last."""
        noted = shared_folder(out) / SOURCE
        before = about(noted, "events").attributes if noted.exists() else {}
        for name, form in before.items():
            if self.attributes.get(name) != form:
                raise PipelineError(
                    f"attribute {name!r} of {self.folder} was {form} and is {self.attributes.get(name, 'gone')}, so "
                    f"files were written again whose events are in {out}: begin another output"
                )

    def note(self, out: str | Path) -> None:
        """Note in the output what the table is."""
        noted = shared_folder(out) / SOURCE
        noted.mkdir(parents=True, exist_ok=True)
        write_about(noted, About("events", attributes=self.attributes))


def shared_folder(path: str | Path) -> Path:
    """The folder of a path; `PipelineError` when it is none that this machine and the workers share."""
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise PipelineError(
            f"{path} is not a folder that this machine and the workers share: streams write to such a one"
        )
    return Path(text).absolute()


def _files_read(checkpoint: Path) -> int:
    """How many files Spark notes as read, by all batches: one a line, after a line with the version."""
    read = 0
    for folder in (checkpoint / "sources").glob("*"):
        notes = {path for path in folder.iterdir() if path.name.partition(".")[0].isdigit()}
        whole = max((int(path.stem) for path in notes if path.suffix == ".compact"), default=-1)
        for path in notes:
            number = int(path.name.partition(".")[0])
            if number > whole or (number == whole and path.suffix == ".compact"):
                read += path.read_bytes().count(b"\n")
    return read
