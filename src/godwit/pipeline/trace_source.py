"""A simulation's trace as a table, read by workers: a task for each row group of its file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition

from godwit.errors import PipelineError
from godwit.trace import FILE, schema

__all__ = ["TraceReader"]


class TraceReader(DataSourceReader):
    """The trace in a folder; the column `run` is the folder's name."""

    def __init__(self, folder: Path) -> None:
        self.file = (folder / FILE if folder.is_dir() else folder).absolute()
        self.run = self.file.parent.name
        try:
            with pq.ParquetFile(self.file) as found:
                self.groups = found.num_row_groups
                names = found.schema_arrow.names
        except (OSError, pa.ArrowInvalid) as error:
            raise PipelineError(f"cannot read the trace {self.file}: {error}") from None
        if names != schema().names:
            raise PipelineError(f"{self.file} is not a trace: its columns are {', '.join(names)}")

    def partitions(self) -> Sequence[InputPartition]:
        """One for each row group."""
        return [InputPartition(group) for group in range(max(self.groups, 1))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a group."""
        if partition.value >= self.groups:
            return
        with pq.ParquetFile(self.file) as found:
            for batch in found.read_row_group(partition.value).to_batches():
                plain = pa.schema([(field.name, _plain(field.type)) for field in batch.schema])
                columns = batch.cast(plain).columns
                run = pa.array([self.run] * batch.num_rows, type=pa.string())
                yield pa.RecordBatch.from_arrays([run, *columns], names=["run", *batch.schema.names])


def _plain(type: Any) -> Any:
    return type.value_type if pa.types.is_dictionary(type) else type
