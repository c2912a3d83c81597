"""Server-sent events of the HTTP API: events of the team, and results of searches.

*Rules.*
1. An event of a scope goes to a stream only while its user has a role there. The role is looked up for each event.
2. A stream ends when its session or token does, and when the peer stops. A user has at most `STREAMS_MAX` of them.
3. What a client has not read yet is bounded: beyond `WAITING_MAX` events the stream forgets them and says `missed`,
   upon which a page asks again for all that it shows.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from godwit.runtime.http_requests import Problem
from godwit.runtime.server_sent_events import PLAIN_GREETING, ServerSentEvents
from godwit.teamwork.web_accounts import Key

__all__ = ["EventStream", "Streams"]

STREAMS_MAX = 32
WAITING_MAX = 1_000


class EventStream:
    """One stream, a source of `ServerSentEvents`."""

    def __init__(self, user: str, key: Key | None, on_gone: Callable[["EventStream"], None]) -> None:
        self.user, self.key = user, key
        self.response = ServerSentEvents(self)
        self._on_gone = on_gone
        self._waiting: deque[bytes] = deque()

    def tell(self, name: str, data: Any) -> None:
        """Send an event. (rule 3)"""
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.clear()
            name, data = "missed", {}
        self._waiting.append(b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data)))
        self.response.notice()

    def end(self) -> None:
        """Send what waits, and close."""
        self.response.end()

    # ------------------------------------------------------------ for the response

    def greeting(self) -> bytes:
        """The start of the stream."""
        return PLAIN_GREETING

    def next_part(self) -> bytes:
        """The bytes to write now; empty if there are none."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data

    def on_written(self) -> None:
        """The last part has been written."""

    def on_gone(self) -> None:
        """The response has ended."""
        self._on_gone(self)


class Streams:
    """All streams of a peer."""

    def __init__(self) -> None:
        self._open: set[EventStream] = set()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._open)

    def new(self, user: str, key: Key | None, on_gone: Callable[[], object] = lambda: None) -> EventStream:
        """A stream for a user. (rule 2)"""
        if sum(stream.user == user for stream in self._open) >= STREAMS_MAX:
            raise Problem(429, f"a user has at most {STREAMS_MAX} streams at a time: close one of them")

        def gone(stream: EventStream) -> None:
            self._open.discard(stream)
            on_gone()

        stream = EventStream(user, key, gone)
        self._open.add(stream)
        return stream

    def tell(self, name: str, data: Any, may_see: Callable[[str], bool]) -> None:
        """Send an event to the streams whose user may see it. (rule 1)"""
        for stream in list(self._open):
            if may_see(stream.user):
                stream.tell(name, data)

    def check(self, is_valid: Callable[[EventStream], bool]) -> None:
        """End streams whose session or token has ended. (rule 2)"""
        for stream in list(self._open):
            if not is_valid(stream):
                stream.end()

    def close(self) -> None:
        """End all of them."""
        for stream in list(self._open):
            stream.end()
