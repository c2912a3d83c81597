"""Formats of files that other packages add to `godwit pipeline ingest`.

*Theory.* A source turns one file into rows. It is found by the name of its entry point in the group `godwit.sources`,
or as `module:Name` (`registry.py`). Workers import it; a module that is not installed is sent to them. Its rows are
checked like those of any other format: a row that cannot be an event or a fix goes to the quarantine.

*Rules.*
1. A source reads a whole file: files are not cut into pieces for it.
2. A `ValueError` while a file is read ends that file, as a bad row with the reason. Rows before it stay.
3. A name of a built-in format always means that format.
"""

from collections.abc import Iterator, Mapping
from typing import IO, Any, Protocol

from godwit.errors import ConfigurationError, GodwitError, PipelineError
from godwit.filters.events import flattened
from godwit.pipeline.formats.rows import BadRow, Options, Row, refused
from godwit.pipeline.formats.splits import BROKEN, BROKEN_OFF, Split, opened
from godwit.registry import Registry

__all__ = ["SOURCES", "FileSource", "importable", "rows", "source_of"]

TABLES = ("events", "fixes")
ROW_BYTES_ASSUMED = 1_000  # of memory, if only the source knows the size of a row


class FileSource(Protocol):
    """A format of files. `table`: the resulting table, `events` or `fixes`."""

    table: str

    def read(self, file: IO[bytes], name: str) -> Iterator[Mapping[str, Any] | BadRow]:
        """The rows of a file, already decompressed; `name` is the path of the file.

        A row of events is its attributes, nested or not. A row of fixes has `client`, `at`, `lon` and `lat`. A row that
        cannot be read is a `BadRow` with its line and the reason.
        """


SOURCES: Registry[type[FileSource]] = Registry("source", "godwit.sources", by_module=True)


def source_of(name: str) -> FileSource:
    """The source of that name; `PipelineError` if there is none, or if it is not one."""
    try:
        made = SOURCES.part(name)()
    except ConfigurationError as error:
        raise PipelineError(str(error)) from None
    table = getattr(made, "table", None)
    if table not in TABLES or not callable(getattr(made, "read", None)):
        raise PipelineError(
            f"the source {name!r} needs a method 'read' and an attribute 'table', which is {table!r}: "
            f"allowed is {' or '.join(map(repr, TABLES))}"
        )
    return made


def importable(name: str) -> str:
    """The same source as `module:Name`, for workers that may not see which packages the driver has installed."""
    part = SOURCES.part(name)
    return f"{part.__module__}:{part.__qualname__}"


def rows(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The rows of a file in the format of a source."""
    source, number = source_of(options.format), 0
    try:
        with opened(split.path) as file:
            for number, given in enumerate(source.read(file, split.path), start=1):
                yield _checked(number, given)
    except (ValueError, *BROKEN) as error:  # rule 2
        yield refused(number + 1, BROKEN_OFF, f"the file cannot be read from here on ({error})", "")


def _checked(number: int, given: Any) -> Row | BadRow:
    if isinstance(given, BadRow):
        return refused(given.line, given.kind, given.reason.partition(": ")[2], given.text)
    try:
        return Row(number, number, flattened(given), None, ROW_BYTES_ASSUMED, repr(dict(given)))
    except GodwitError as error:
        return refused(number, "bad event", error, repr(given))
