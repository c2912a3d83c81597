"""The trace of an event: every broker computes the same, without further messages.

*Theory.* No two events have the same publisher and sequence number. So the ids of trace and spans are hashes of these:
a broker knows the neighbour that an event came from, and can compute the id of its span. An event may name a trace of
its publisher by the attribute `traceparent` (W3C Trace Context, which CloudEvents has under the same name): then its
spans are in that trace, below the publisher's span.

*Rules.*
1. The ids depend only on the event and on the names of brokers.
2. Whether an event is traced depends only on its trace, too, so all brokers with the same ratio trace the same events.
   A `traceparent` decides by its own flag.
3. An invalid `traceparent` is ignored.
"""

import re
from hashlib import blake2b

import msgspec

from godwit.filters.events import Event

__all__ = ["TRACEPARENT", "TraceContext", "hop_span", "is_sampled", "trace_named", "trace_of", "traceparent_of"]

TRACEPARENT = "traceparent"
FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
TEXT_MAX = 256
TRACE_BYTES, SPAN_BYTES = 16, 8
SAMPLED = 1
PARTS = 2**64  # that a ratio is counted in


class TraceContext(msgspec.Struct, frozen=True):
    """The trace of an event, the span of its publication, and the span of its publisher, if it named one."""

    trace: int
    publication: int
    publisher: int = 0
    flag: bool | None = None  # whether its publisher traces it; None: it named no trace


def trace_of(event: Event) -> TraceContext:
    """The trace that an event belongs to."""
    publication = _hash(SPAN_BYTES, *event.id)
    said = event.attributes.get(TRACEPARENT)
    if isinstance(said, str) and len(said) <= TEXT_MAX and (found := FORM.fullmatch(said)):
        trace, span, flags = (int(each, 16) for each in found.groups())
        return TraceContext(trace, publication, span, bool(flags & SAMPLED))
    return TraceContext(_hash(TRACE_BYTES, *event.id), publication)


def traceparent_of(event: Event) -> str:
    """The span of an event's publication as W3C text, for a receiver that continues the trace."""
    found = trace_of(event)
    flags = SAMPLED if found.flag is None else int(found.flag)
    return f"00-{found.trace:032x}-{found.publication:016x}-{flags:02x}"


def hop_span(event: Event, broker: str) -> int:
    """The span of an event at a broker."""
    return _hash(SPAN_BYTES, *event.id, broker)


def is_sampled(context: TraceContext, ratio: float) -> bool:
    """Whether an event is traced, at this ratio. (rule 2)"""
    if context.flag is not None:
        return context.flag
    return context.trace % PARTS < ratio * PARTS


def trace_named(*parts: str | int | float) -> int:
    """The trace of something other than an event."""
    return _hash(TRACE_BYTES, *parts)


def _hash(size: int, *parts: str | int | float) -> int:
    """A number of this many bytes that is never 0."""
    data = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=size).digest()) or 1
