"""Write coalescing: which clients are written to after a turn of the node, and which wait for more messages.

*Theory.* A write costs a system call here and a read there, and the client then confirms what it has read: together the
work of ten deliveries. A node under load has turns of a few milliseconds, one after the other, and in each of them
nearly every client gets a few messages. So while another turn follows, a client that gets a *stream* is written to when
`PIECE` messages wait for it, or after a time: `WRITE_S` for each stream, and at the latest at the end of the present
*window* of `WINDOW_S`. So all streams together are written to about 400 times a second, and one or two streams hardly
wait. A stream is a client that got `STREAM_MIN` messages or more in each of the last two windows. A single window may
contain the backlog of a client after a pause.

*Rules.*
1. When no turn follows, nothing is delayed: an idle node writes at once.
2. Nothing is delayed for longer than `WINDOW_S`, even if the next turn does not happen.
3. A client with occasional messages is written to after every turn.
4. Windows follow each other while there are streams. Otherwise there is no window, no timer, and nothing is counted.

*Profile.* Turns without this rule wrote 580 times and read 280 confirmations for 1,000 events of content filtering (50
receivers, 4.7 copies an event). A stream was first defined by the size of its last two writes: then short turns, which
make short writes, left no streams, and a broker was a fifth slower or faster by chance. Before `WRITE_S` a single
stream waited for the end of its window, too: up to 25 of the 46 ms that its events took while another client subscribed
a thousand times.
"""

from godwit.runtime.clock import Clock, Timer
from godwit.runtime.node_interfaces import Port

__all__ = ["WritePacing"]

WINDOW_S = 0.025
WRITE_S = 0.002_5
STREAM_MIN = 4  # messages in a window: 160 a second
PIECE = 64


class WritePacing:
    """The ports of clients with waiting messages, and those with streams."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: dict[Port, int] = {}  # messages of each that are not written yet; to be read only
        self._in_window: dict[Port, int] = {}  # messages to each in this window
        self._busy: frozenset[Port] = frozenset()  # those with many messages in the window before
        self._streams: frozenset[Port] = frozenset()  # those with many messages in the two windows before
        self._timer: Timer | None = None  # the end of the window
        self._due_at = 0.0  # the time at which all waiting messages are written

    def flush(self, sent: list[Port], *, turn_follows: bool) -> None:
        """A turn has sent messages through these ports: a port is listed once for each message."""
        if self._timer is None and len(sent) >= STREAM_MIN:
            self._timer = self._clock.call_later(WINDOW_S, self._end_window)
        waiting, counts, streams = self.waiting, self._in_window, self._streams
        if self._timer is not None:
            for port in sent:  # a Counter's `update` takes longer for a few than all the rest
                counts[port] = counts.get(port, 0) + 1
        if not streams and not waiting:  # at low rates
            for port in dict.fromkeys(sent):
                port.flush()
            return
        for port in sent:
            waiting[port] = waiting.get(port, 0) + 1
        if not turn_follows or not streams or self._clock.time() >= self._due_at:
            self._write_all()
            return
        due = [port for port, count in waiting.items() if count >= PIECE or port not in streams]
        for port in due:
            del waiting[port]
            port.flush()

    def stop(self) -> None:
        """All ports are closed, or about to be, which writes queued messages."""
        self.waiting.clear()
        self._in_window.clear()
        self._busy = self._streams = frozenset()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_window(self) -> None:
        counts, self._in_window = self._in_window, {}
        busy = frozenset(port for port, count in counts.items() if count >= STREAM_MIN)
        self._streams, self._busy = busy & self._busy, busy
        self._write_all()
        self._timer = self._clock.call_later(WINDOW_S, self._end_window) if busy else None

    def _write_all(self) -> None:
        if self._streams:
            self._due_at = self._clock.time() + WRITE_S * len(self._streams)
        waiting, self.waiting = self.waiting, {}
        for port in waiting:
            port.flush()
