"""`GET /trace`: trace records of a broker as server-sent events."""

from collections.abc import Callable
from typing import Any

import msgspec

from godwit.runtime.activity_monitor import ActivityMonitor, TraceListener
from godwit.runtime.authentication import Principal
from godwit.runtime.server_sent_events import PLAIN_GREETING, ServerSentEvents
from godwit.trace import Record

__all__ = ["TraceStream"]

TAKEN_MAX = 1_000  # records in one write


class TraceStream:
    """The source of a response: records of a client, of an event, or all.

    `last`: the number of earlier records to begin with, as far as they are kept. It ends when `principal` has ended, or
    is no administrator any more.
    """

    def __init__(
        self,
        activity: ActivityMonitor,
        node: str,
        principal: Principal,
        listener: TraceListener,
        last: int,
        on_end: Callable[["TraceStream"], None],
    ) -> None:
        self.response = ServerSentEvents(self)
        self._activity = activity
        self._node = node
        self._listener = listener
        self._on_end = on_end
        before = [(at, record) for at, record in activity.records if listener.wants(record)] if last else []
        listener.records.extend(before[-last:] if last else ())
        listener.notice = self.response.notice
        activity.listeners[listener] = None
        self._end = principal.end_with_token()
        principal.on_end += (lambda reason: self.end(),)
        principal.on_change += (lambda: None if principal.is_admin else self.end(),)

    def end(self) -> None:
        """End the response: the broker stops, or the principal may not read it any more."""
        self.response.end()

    def greeting(self) -> bytes:
        """A comment."""
        return PLAIN_GREETING

    def next_part(self) -> bytes:
        """The records since the last part."""
        records = self._listener.records
        parts = [_line(self._node, *records.popleft()) for _ in range(min(len(records), TAKEN_MAX))]
        if self._listener.missed and not records:
            parts.append(b'event: missed\ndata: {"missed": %d}\n\n' % self._listener.missed)
            self._listener.missed = 0
        return b"".join(parts)

    def on_written(self) -> None:
        """Nothing to do: records are not confirmed."""

    def on_gone(self) -> None:
        """Stop listening."""
        if self._end is not None:
            self._end.cancel()
        self._activity.listeners.pop(self._listener, None)
        self._on_end(self)


def _line(node: str, at: float, record: Record) -> bytes:
    shown: dict[str, Any] = {"at": at, "node": node}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if value not in ("", -1) and not (name == "size" and value == 0):
            shown[name] = value
    return b"data: %s\n\n" % msgspec.json.encode(shown)
