"""Reading subscriptions: from a file of JSON lines, a file of PADRES filters, or a table.

*Theory.* The first line decides the format: `{` begins JSON, anything else is PADRES. A line of JSON is as for `godwit
match`: an id, a filter as text or in its JSON form, and optionally a filter on the sender and the subscriber's own
context. `language` names another language of the filter. A line of PADRES has no id, and is named by its number.

*Rules.*
1. An error is a `PipelineError` that names file and line.
2. Ids are texts, and no two subscriptions have the same.
3. A query whose routable filter is exact is that filter; only others have an exact test.
4. Queries may call registered operators, if workers can import them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from godwit.errors import GodwitError, PipelineError
from godwit.filters.contexts import checked_context, checked_context_filter, of_sender
from godwit.filters.filters import Filter, all_of
from godwit.filters.language import from_json
from godwit.filters.references import bind, is_open, references_of
from godwit.languages import NATIVE, Query
from godwit.pipeline import padres, tables
from godwit.pipeline.schemas import about
from godwit.pipeline.subscription_index import Wanted, routable
from godwit.pipeline.worker_operators import OperatorSource, operator_sources, parse_in_driver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["read_subscriptions", "subscriptions_of", "wanted_of"]

LINE_BYTES_MAX = 4 * 2**20
TEXTS_REMEMBERED = 2**16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COLUMNS = ("subscription", "filter", "language")


class Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`{"id": 7, "filter": "price < 10"}`, and the optional fields of a subscription."""

    id: int | str
    filter: Any
    sender: Any = None
    context: Any = None
    language: str = NATIVE


_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def read_subscriptions(source: str | Path) -> dict[str, Wanted]:
    """The subscriptions of a file or a table, by id."""
    path = Path(source)
    if not path.exists():
        raise PipelineError(f"{source}: no such file or folder")
    found = _by_id(_of_table(path) if path.is_dir() else _of_file(path))
    if not found:
        raise PipelineError(f"{source} holds no subscription")
    return found


def subscriptions_of(frame: "DataFrame") -> dict[str, Wanted]:
    """The subscriptions of a DataFrame with the columns `subscription`, `filter` and, if there is one, `language`."""
    lacking = [name for name in ("subscription", "filter") if name not in frame.columns]
    if lacking:
        raise PipelineError(f"subscriptions need the columns subscription and filter: {lacking[0]} is missing")
    chosen = [name for name in COLUMNS if name in frame.columns]
    rows: Any = frame.select(*chosen).toArrow()
    return _by_id(_of_rows(rows, "the DataFrame"))


def wanted_of(text: str, language: str = NATIVE) -> Wanted:
    """Parse a text in a language: a filter, or, if that is not exact, a query."""
    return _parsed(text, language)


def _by_id(rows: Iterable[tuple[str, str, Wanted]]) -> dict[str, Wanted]:
    found: dict[str, Wanted] = {}
    for where, id, wanted in rows:
        if id in found:
            raise PipelineError(f"{where}: there is a subscription {id!r} already")
        found[id] = wanted
    return found


def _of_file(path: Path) -> Iterator[tuple[str, str, Wanted]]:
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
                id, wanted = _of_json(text) if is_json else (str(number), _of_padres(text.decode()))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, GodwitError) as error:
                raise PipelineError(f"{where}: {_why(error)}") from None
            yield where, id, wanted


def _of_json(text: bytes) -> tuple[str, Wanted]:
    line = _LINE.decode(text)
    wanted = _read(line.filter, line.language)
    filter = routable(wanted)
    if line.sender is not None:
        filter = all_of(filter, of_sender(checked_context_filter(_context_filter(line.sender))))
    if line.context is not None:
        if isinstance(wanted, Query):
            raise PipelineError(f"'context' is for filters alone, and this {wanted.language} query has an exact test")
        filter = bind(filter, checked_context(line.context))
    closed = _closed(filter)
    return str(line.id), replace(wanted, routable=closed) if isinstance(wanted, Query) else closed


def _of_table(folder: Path) -> Iterator[tuple[str, str, Wanted]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables.finish(folder)
    about(folder, "subscriptions")
    for file in tables.files(folder):
        try:
            chosen = [name for name in COLUMNS if name in pq.read_schema(file).names]
            rows = pq.read_table(file, columns=chosen, partitioning=None)
            wanted = pa.schema({name: pa.string() for name in dict.fromkeys((*chosen, *COLUMNS[:2]))})
            rows = rows.select(wanted.names).cast(wanted)
        except (pa.ArrowException, KeyError, OSError) as error:
            raise PipelineError(f"cannot read subscriptions from {file}: {_why(error)}") from None
        yield from _of_rows(rows, str(file))


def _of_rows(rows: Any, place: str) -> Iterator[tuple[str, str, Wanted]]:
    for number, row in enumerate(rows.to_pylist(), start=1):
        where = f"{place}, row {number}"
        id, text = row["subscription"], row["filter"]
        if id is None or text is None:
            raise PipelineError(f"{where}: a subscription has an id and a filter")
        try:
            wanted = _parsed(text, row.get("language") or NATIVE)
            _closed(routable(wanted))
        except GodwitError as error:
            raise PipelineError(f"{where}: {_why(error)}") from None
        yield where, str(id), wanted


def _read(source: Any, language: str) -> Wanted:
    if isinstance(source, str):
        return _parsed(source, language)
    return from_json(source) if language == NATIVE else _parsed(json.dumps(source), language)


def _context_filter(source: Any) -> Filter:
    if not isinstance(source, str):
        return from_json(source)
    wanted = _parsed(source, NATIVE)
    if isinstance(wanted, Query):
        raise PipelineError("'sender' must be a filter without an exact test")
    return wanted


def _parsed(text: str, language: str) -> Wanted:
    return _parsed_with(text, language, operator_sources())


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _parsed_with(text: str, language: str, operators: tuple[OperatorSource, ...]) -> Wanted:
    query = parse_in_driver(text, language, operators)
    if query.references:
        names = ", ".join(map(str, query.references))
        raise PipelineError(
            f"the exact test refers to {names}, the subscriber's own context, which only a client knows"
        )
    return query.routable if query.test is None else query  # rule 3


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
