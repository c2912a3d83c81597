"""Documents over HTTP: XML and CloudEvents in `POST /events`.

*Rules.*
1. XML is recognised by its content type, CloudEvents by theirs (structured mode, batch) or by the header
   `ce-specversion` (binary mode).
2. If a document is not well formed, nothing is published: the answer names line and column, or its position in the
   batch.
3. A batch is read in parts of about `PART_BYTES`: other documents, of this user too, are read between two parts.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from godwit.client.own_context import written
from godwit.errors import BadEvent, GodwitError
from godwit.filters.events import Event
from godwit.languages.cloud_events import HTTP
from godwit.languages.event_documents import Document, checked_attributes, mode_of
from godwit.runtime.document_helper import SMALL_BYTES, DocumentHelper
from godwit.runtime.http_events import EVENTS_MAX, BadBody, checked_separators, events_in, steps_through

__all__ = ["posted_events"]

PART_BYTES = 2**15
WHERE = re.compile(r"line (?P<line>\d+), column (?P<column>\d+): ")


async def posted_events(
    body: bytes, headers: Mapping[str, str], now: float, helper: DocumentHelper, user: str
) -> list[Event]:
    """The events in a body of any type. They have no publisher yet."""
    content_type = headers.get("content-type")
    mode = mode_of(content_type, headers, HTTP)
    if not mode:
        if len(body) <= SMALL_BYTES:
            return events_in(body, now)
        async with helper.long_work.task(user) as step:
            events: list[Event] = []
            for event in steps_through(body, now):
                if event is not None:
                    events.append(event)
                await step()
            return events
    if mode == "batch" and len(body) > SMALL_BYTES:
        return await _batch(body, content_type, now, helper, user)
    try:
        documents = await helper.read(user, mode, body, content_type, headers, "http")
    except BadEvent as error:
        found = WHERE.match(str(error))
        if found is None:
            raise BadBody(1, str(error)) from None
        raise BadBody(int(found["line"]), str(error), int(found["column"])) from None
    return [_event(number, document, now) for number, document in enumerate(documents, start=1)]


async def _batch(body: bytes, content_type: str | None, now: float, helper: DocumentHelper, user: str) -> list[Event]:
    """The events of a large batch of CloudEvents. (rule 3)"""
    async with helper.long_work.task(user) as step:
        for _ in checked_separators(body):
            await step()
    try:
        packed = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadBody(1, f"a batch of CloudEvents is a JSON array of objects: {error}") from None
    if len(packed) > EVENTS_MAX:
        raise BadBody(EVENTS_MAX + 1, f"{len(packed)} events: at most {EVENTS_MAX} go in one request")
    events: list[Event] = []
    for part in _parts(packed):
        try:
            documents = await helper.read(user, "batch", b"[" + b",".join(part) + b"]", content_type, {}, "http")
        except BadEvent as error:
            raise BadBody(len(events) + 1, f"in the {len(part)} events from here on: {error}") from None
        events += [_event(number, document, now) for number, document in enumerate(documents, start=len(events) + 1)]
    return events


def _parts(packed: list[msgspec.Raw]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for raw in packed:
        part.append(bytes(raw))
        size += len(raw)
        if size > PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _event(number: int, document: Document, now: float) -> Event:
    try:
        made = Event(checked_attributes(document.attributes), "", 0, document.payload, document.content_type)
        return written(made, {}, None, published_at=now)
    except GodwitError as error:
        raise BadBody(number, str(error)) from None
