"""Events as CloudEvents for receivers, in whatever form they were published.

*Rules.*
1. An event that was published as a CloudEvent is returned unchanged, without the attributes that brokers added.
2. An event with attributes that no CloudEvent can have (a name with `/`, 2.5) is the data of a CloudEvent: a JSON
   object, as server-sent events write it. So is, over HTTP in binary mode, an event with more headers than common
   clients take.
"""

from godwit.errors import BadEvent
from godwit.filters.events import Event
from godwit.languages.cloud_events import HTTP, BinaryMode, to_binary, to_structured
from godwit.languages.event_documents import as_cloud_event
from godwit.runtime.wire import JSON

__all__ = ["batch", "binary", "structured"]

HEADERS_MAX = 64  # the client of Python's library takes 100, proxies less
HEADERS_LENGTH_MAX = 16_384


def structured(event: Event) -> bytes:
    """An event as a CloudEvent in JSON."""
    try:
        return to_structured(as_cloud_event(event) or event)
    except BadEvent:
        return to_structured(_as_data(event))


def batch(events: list[Event]) -> bytes:
    """Events as a batch of CloudEvents in JSON."""
    return b"[%b]" % b",".join([structured(event) for event in events])


def binary(event: Event, mode: BinaryMode = HTTP) -> tuple[dict[str, str], bytes]:
    """An event as a CloudEvent in binary mode: headers, and the body."""
    try:
        headers, body = to_binary(as_cloud_event(event) or event, mode)
    except BadEvent:
        return to_binary(_as_data(event), mode)
    if mode is HTTP and (len(headers) > HEADERS_MAX or sum(map(len, headers.values())) > HEADERS_LENGTH_MAX):
        return to_binary(_as_data(event), mode)
    return headers, body


def _as_data(event: Event) -> Event:
    """An event whose payload is the whole of another. (rule 2)"""
    return Event({}, event.publisher, event.sequence, JSON.event(event), "application/json")
