"""Documents over HTTP: XML and CloudEvents in `POST /events`.

*Rules.*
1. XML is recognised by its content type, CloudEvents by theirs (structured mode, batch) or by the header
   `ce-specversion` (binary mode).
2. If a document is not well formed, nothing is published: the answer names line and column, or its position in the
   batch.
"""

import re
from collections.abc import Mapping

from godwit.client.own_context import written
from godwit.errors import BadEvent, GodwitError
from godwit.filters.events import Event
from godwit.languages.cloud_events import HTTP
from godwit.languages.event_documents import Document, checked_attributes, mode_of
from godwit.runtime.document_helper import DocumentHelper
from godwit.runtime.http_events import EVENTS_MAX, BadBody, events_in

__all__ = ["posted_events"]

WHERE = re.compile(r"line (?P<line>\d+), column (?P<column>\d+): ")


async def posted_events(
    body: bytes, headers: Mapping[str, str], now: float, helper: DocumentHelper, user: str
) -> list[Event]:
    """The events in a body of any type. They have no publisher yet."""
    content_type = headers.get("content-type")
    mode = mode_of(content_type, headers, HTTP)
    if not mode:
        return events_in(body, now)
    try:
        documents = await helper.read(user, mode, body, content_type, headers, "http")
    except BadEvent as error:
        found = WHERE.match(str(error))
        if found is None:
            raise BadBody(1, str(error)) from None
        raise BadBody(int(found["line"]), str(error), int(found["column"])) from None
    if len(documents) > EVENTS_MAX:
        raise BadBody(EVENTS_MAX + 1, f"{len(documents)} events: at most {EVENTS_MAX} go in one request")
    return [_event(number, document, now) for number, document in enumerate(documents, start=1)]


def _event(number: int, document: Document, now: float) -> Event:
    try:
        made = Event(checked_attributes(document.attributes), "", 0, document.payload, document.content_type)
        return written(made, {}, None, published_at=now)
    except GodwitError as error:
        raise BadBody(number, str(error)) from None
