"""A table of events as the source of a stream, and its description in the stream's output."""

from pathlib import Path
from typing import TYPE_CHECKING

from godwit.errors import PipelineError
from godwit.pipeline.row_ranges import RowRange, ranges_of
from godwit.pipeline.schemas import About, about, schema, write_about
from godwit.pipeline.source_log import files_of_batch, files_read
from godwit.pipeline.subscription_index import SubscriptionIndex
from godwit.pipeline.table_matching import learn
from godwit.pipeline.tables import files, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TableEvents", "shared_folder"]

SOURCE = "_source"
MAX_FILE_AGE = "36500d"  # by default Spark ignores files that are a week older than the newest


class TableEvents:
    """A table of events as a stream: its present files, then added files.

    If the attributes of a table change while a stream reads it, the stream ends with an error: a new attribute needs a
    restart, and after a change of a column's form the rewritten files would be read a second time.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        finish(self.folder)
        self.attributes = about(self.folder, "events").attributes
        self._frame: DataFrame | None = None

    def read(self, spark: "SparkSession", files_max: int | None = None) -> "DataFrame":
        """The streaming DataFrame; `files_max`: largest number of files in a batch."""
        reader = spark.readStream.schema(schema("events", self.attributes)).option("maxFileAge", MAX_FILE_AGE)
        limited = reader if files_max is None else reader.option("maxFilesPerTrigger", files_max)
        self._frame = limited.parquet(str(self.folder))
        return self._frame

    def is_source(self, events: "DataFrame") -> bool:
        """Whether this is the last DataFrame that `read` returned, unchanged: its rows are those of the files."""
        return events is self._frame

    def ranges(self, checkpoint: str | Path, batch: int) -> list[RowRange] | None:
        """The rows of a batch of the stream as ranges of files; None if Spark's record of its files cannot be read."""
        paths = files_of_batch(Path(checkpoint), batch)
        if paths is None:
            return None
        root = self.folder.resolve()
        return [each for path in paths for each in ranges_of(path.parent.resolve() / path.name, root)]

    def learn(self, index: SubscriptionIndex) -> None:
        """Optimise an index for the present events of the table: for `stream(learn=…)`."""
        learn(index, self.folder)

    def check(self) -> None:
        """Raise `PipelineError` if the attributes of the table have changed: for `stream(before_batch=…)`."""
        finish(self.folder)
        if about(self.folder, "events").attributes != self.attributes:
            raise PipelineError(f"the attributes of {self.folder} have changed: start the stream again")

    def waiting(self, checkpoint: str | Path) -> int:
        """The number of files of the table that no batch has read yet."""
        return max(0, len(files(self.folder)) - files_read(Path(checkpoint)))

    def check_output(self, out: str | Path) -> None:
        """Raise `PipelineError` if the table has changed since the last run of the stream that writes to `out`."""
        noted = shared_folder(out) / SOURCE
        before = about(noted, "events").attributes if noted.exists() else {}
        for name, form in before.items():
            if self.attributes.get(name) != form:
                raise PipelineError(
                    f"attribute {name!r} of {self.folder} was {form} and is {self.attributes.get(name, 'gone')}, so "
                    f"files were written again whose events are in {out}: begin another output"
                )

    def note(self, out: str | Path) -> None:
        """Store the description of the table in the output."""
        noted = shared_folder(out) / SOURCE
        noted.mkdir(parents=True, exist_ok=True)
        write_about(noted, About("events", attributes=self.attributes))


def shared_folder(path: str | Path) -> Path:
    """The folder of a path; `PipelineError` if it is not one that this machine and the workers share."""
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise PipelineError(f"{path} is not a folder that this machine and the workers share, which streams need")
    return Path(text).absolute()
