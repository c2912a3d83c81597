"""CSV: a header, then a row on each line, or on several if a quoted cell contains line breaks.

*Theory.* Cells have no types, so types are inferred, as everywhere in Godwit: true and false, numbers as in JSON, else
texts; an empty cell is a missing attribute. A task whose piece does not begin at the start of the file reads the header
first; only files without quotes are split (`splits.counted`), because in those a line is a row.

*Rules.*
1. A header names each column, and none twice; blank lines may precede it, and the lines to skip. The first name may be
   empty, as pandas writes it for its index: `Options.index` names that column.
2. A row of more than `LINE_BYTES_MAX` bytes, on any number of lines, is bad; the rest of it is read as other rows.
3. A row of too few or too many cells is bad; a blank line is not a row.
"""

import csv
from collections.abc import Iterator
from functools import lru_cache

from godwit.errors import BadEvent, PipelineError
from godwit.filters.csv_cells import cell
from godwit.filters.events import flattened
from godwit.pipeline.formats.rows import BadRow, Options, Row, refused
from godwit.pipeline.formats.splits import BROKEN_OFF, LINE_BYTES_MAX, Split, TruncatedFile, lines

__all__ = ["header", "rows"]

CELLS_REMEMBERED = 2**16
_cell = lru_cache(CELLS_REMEMBERED)(cell)


class _Text:
    """Lines for the csv module, as texts, and the number of the last line read."""

    def __init__(self, split: Split, skipped: int = 0) -> None:
        self._skipped = skipped
        self.number = self.first = split.lines_before
        self.size = 0  # of the lines of a row
        self.faults: list[BadRow] = []
        self.texts: list[str] = []
        self._lines = lines(split)

    @property
    def row(self) -> str:
        """The lines of a row, as they are in the file."""
        return "\n".join(self.texts)

    def __iter__(self) -> "_Text":
        return self

    def __next__(self) -> str:
        while True:
            self.number, line = next(self._lines)
            if self.number <= self._skipped:
                continue
            if line is None:
                reason = f"the line is longer than {LINE_BYTES_MAX:,} bytes"
                self.faults.append(refused(self.number, "too long", reason, ""))
                continue
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                self.faults.append(refused(self.number, "no UTF-8", f"byte {error.start + 1} of the line", line))
                continue
            if not self.texts:
                self.first, self.size = self.number, 0
            self.texts.append(text)
            self.size += len(line)
            if self.size > LINE_BYTES_MAX:
                raise csv.Error(f"a row of {self.size:,} bytes or more: allowed are {LINE_BYTES_MAX:,}")
            return text + "\n"


def header(path: str, options: Options, given: str = "") -> list[str]:
    """The names of the columns of a file; [] if it is empty. `given` is the user's path of it."""
    text, given = _Text(Split(path, ""), options.skip_lines), given or path
    try:
        found = next(filter(None, csv.reader(text, delimiter=options.delimiter, strict=True)), [])
    except TruncatedFile as error:
        raise PipelineError(f"{given} is damaged, or not compressed as its name says: {error}") from None
    except csv.Error as error:
        raise PipelineError(f"{given}:{text.number}: the header cannot be read: {error}") from None
    for fault in text.faults:
        raise PipelineError(f"{given}:{fault.line}: the header cannot be read: {fault.reason}")
    if len(found) > 1 and not found[0]:
        if options.index in found:
            raise PipelineError(
                f"{given}:{text.number}: column 1 of the header has no name, and {options.index!r} is the name of "
                "another: --index-column NAME names it"
            )
        found = [options.index, *found[1:]]
    for place, name in enumerate(found, start=1):
        if not name or name in found[: place - 1]:
            raise PipelineError(
                f"{given}:{text.number}: column {place} of the header is {name!r}: each needs a different name"
            )
    return found


def rows(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The rows of a file, or of a piece of one without quotes."""
    names = header(split.path, options, split.given)
    if not names:
        return
    text = _Text(split, options.skip_lines)
    reader = csv.reader(text, delimiter=options.delimiter, strict=True)
    if not split.start:
        next(filter(None, reader), None)
        text.texts.clear()
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield refused(text.first, "no CSV", error, text.row)
            row = []
        except TruncatedFile as error:
            yield refused(text.number + 1, BROKEN_OFF, f"the file cannot be read from here on ({error})", "")
            row = None
        is_whole = all(fault.line < text.first for fault in text.faults)
        yield from text.faults
        text.faults.clear()
        if row is None:
            return
        if row and is_whole:
            yield _row(names, row, text, options.text)
        elif row:
            yield refused(text.first, "no CSV", "a line within the row cannot be read", text.row)
        text.texts.clear()


def _row(names: list[str], row: list[str], text: _Text, as_it_is: str) -> Row | BadRow:
    if len(row) != len(names):
        reason = f"{len(row)} cells where the header has {len(names)} columns"
        return refused(text.first, "cells", reason, text.row)
    try:
        attributes = flattened(
            {
                name: value
                for name, held in zip(names, row, strict=True)
                if (value := _cell(held) if name != as_it_is else held or None) is not None
            }
        )
    except BadEvent as error:
        return refused(text.first, "bad event", error, text.row)
    return Row(text.first, text.first, attributes, size=text.size, text=text.row)
