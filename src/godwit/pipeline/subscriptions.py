"""Reading subscriptions: from a file of JSON lines, a file of PADRES filters, or a table.

*Theory.* What a file holds is seen at its first line: `{` begins JSON, anything else is PADRES. A line of JSON is what
`godwit match` reads: an id, a filter in the language or in its JSON form, and perhaps what is asked of the sender and
the subscriber's own context. A line of PADRES is called by its number, for it has no name of its own.

*Rules.*
1. Whatever is wrong is one `PipelineError` that names file and line.
2. Ids are texts, and no two subscriptions have the same.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from godwit.errors import GodwitError, PipelineError
from godwit.filters.contexts import checked_context, checked_context_filter, of_sender
from godwit.filters.filters import Filter, all_of
from godwit.filters.language import from_json, parse
from godwit.filters.references import bind, is_open, references_of
from godwit.pipeline import padres, tables
from godwit.pipeline.schemas import about

__all__ = ["read_subscriptions"]

LINE_BYTES_MAX = 4 * 2**20
TEXTS_REMEMBERED = 2**16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`{"id": 7, "filter": "price < 10"}`, and what else a subscription may say."""

    id: int | str
    filter: Any
    sender: Any = None
    context: Any = None


_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def read_subscriptions(source: str | Path) -> dict[str, Filter]:
    """The subscriptions of a file or a table, by id."""
    path = Path(source)
    if not path.exists():
        raise PipelineError(f"there is no {source}")
    rows = _of_table(path) if path.is_dir() else _of_file(path)
    found: dict[str, Filter] = {}
    for where, id, filter in rows:
        if id in found:
            raise PipelineError(f"{where}: there is a subscription {id!r} already")
        found[id] = filter
    if not found:
        raise PipelineError(f"{source} holds no subscription")
    return found


def _of_file(path: Path) -> Iterator[tuple[str, str, Filter]]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error.strerror}") from None
    is_json: bool | None = None
    with file:
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX + 1), b""), start=1):
            where = f"{path}:{number}"
            if len(line) > LINE_BYTES_MAX:
                raise PipelineError(f"{where}: the line is longer than {LINE_BYTES_MAX:,} bytes")
            text = line.removeprefix(BYTE_ORDER_MARK).strip() if number == 1 else line.strip()
            if not text:
                continue
            if is_json is None:
                is_json = text.startswith(b"{")
            try:
                id, filter = _of_json(text) if is_json else (str(number), _of_padres(text.decode()))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, GodwitError) as error:
                raise PipelineError(f"{where}: {_why(error)}") from None
            yield where, id, filter


def _of_json(text: bytes) -> tuple[str, Filter]:
    line = _LINE.decode(text)
    filter = _read(line.filter)
    if line.sender is not None:
        filter = all_of(filter, of_sender(checked_context_filter(_read(line.sender))))
    if line.context is not None:
        filter = bind(filter, checked_context(line.context))
    return str(line.id), _closed(filter)


def _of_table(folder: Path) -> Iterator[tuple[str, str, Filter]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables.finish(folder)
    about(folder, "subscriptions")
    wanted = pa.schema({"subscription": pa.string(), "filter": pa.string()})
    for file in tables.files(folder):
        try:
            rows = pq.read_table(file, columns=wanted.names, partitioning=None).select(wanted.names).cast(wanted)
        except (pa.ArrowException, KeyError, OSError) as error:
            raise PipelineError(f"cannot read subscriptions from {file}: {_why(error)}") from None
        for number, (id, text) in enumerate(zip(*rows.to_pydict().values(), strict=True), start=1):
            where = f"{file}, row {number}"
            if id is None or text is None:
                raise PipelineError(f"{where}: a subscription has an id and a filter")
            try:
                yield where, id, _closed(_parsed(text))
            except GodwitError as error:
                raise PipelineError(f"{where}: {_why(error)}") from None


def _read(source: Any) -> Filter:
    return _parsed(source) if isinstance(source, str) else from_json(source)


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _parsed(text: str) -> Filter:
    return parse(text)


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _of_padres(text: str) -> Filter:
    return padres.filter_of(text)


def _closed(filter: Filter) -> Filter:
    if is_open(filter):
        names = ", ".join(map(str, references_of(filter)))
        raise PipelineError(f"the filter refers to {names}, the subscriber's own context, and the line does not say it")
    return filter


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "the JSON is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "a text that is not valid UTF-8"
    return " ".join(str(error).split())
