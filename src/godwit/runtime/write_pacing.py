"""Which clients are written to after a turn of the node, and which wait for more.

*Theory.* A write costs a call of the system here and a read there, and a client that has read confirms what came. On
the whole that is the work of ten deliveries. A node under load has turns of a few milliseconds, one after the other,
and in each of them a little goes to nearly every client. So while another turn follows, a client that gets a *stream*
is written to when `PIECE` messages wait for it, or when it is time: after `WRITE_S` for each stream that there is, and
at the end of the present *window* of `WINDOW_S`. So all streams together are written to about 400 times a second, and
where there are one or two of them, they hardly wait. A stream is a client that got `STREAM_MIN` messages or more in
each of the last two windows. One window alone may have held what a client was owed after a pause.

*Rules.*
1. When no turn follows, nothing is put off: a node that has time writes at once.
2. Nothing is put off for longer than `WINDOW_S`, whatever becomes of the turn that was to follow.
3. A client that gets a message now and then is written to after every turn.
4. Windows follow each other while clients get much. Otherwise there is no window, no timer, and nothing is counted.

*Profile.* Turns without this rule wrote 580 times and read 280 confirmations for 1,000 events of content filtering (50
receivers, 4.7 copies an event). A stream was first known by how much its last two writes had: then short turns, which
make short writes, left nobody a stream, and a broker was a fifth slower or quicker by chance. Before `WRITE_S` a single
stream waited for the end of its window, too: up to 25 of the 46 ms that its events took while another client subscribed
a thousand times.
"""

from collections import Counter

from godwit.runtime.clock import Clock, Timer
from godwit.runtime.node_interfaces import Port

__all__ = ["WritePacing"]

WINDOW_S = 0.025
WRITE_S = 0.002_5
STREAM_MIN = 4  # messages in a window: 160 a second
PIECE = 64


class WritePacing:
    """The ports of clients for which something waits, and those that get a stream."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: Counter[Port] = Counter()  # messages that wait for each
        self._in_window: Counter[Port] = Counter()  # messages to each in this window
        self._busy: frozenset[Port] = frozenset()  # those that got much in the window before
        self._streams: frozenset[Port] = frozenset()  # those that got much in the two windows before
        self._timer: Timer | None = None  # the end of the window
        self._due_at = 0.0  # when all that waits is written

    def flush(self, sent: list[Port], *, turn_follows: bool) -> None:
        """A turn has sent messages through these ports: a port is named once for each of them."""
        waiting = self._waiting
        waiting.update(sent)
        if self._timer is None and len(sent) >= STREAM_MIN:
            self._timer = self._clock.call_later(WINDOW_S, self._end_window)
        if self._timer is not None:
            self._in_window.update(sent)
        streams = self._streams
        if not turn_follows or not streams or self._clock.time() >= self._due_at:
            self._write_all()
            return
        due = [port for port, count in waiting.items() if count >= PIECE or port not in streams]
        for port in due:
            del waiting[port]
            port.flush()

    def stop(self) -> None:
        """All ports are closed, or are going to be, which writes what was sent."""
        self._waiting.clear()
        self._in_window.clear()
        self._busy = self._streams = frozenset()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_window(self) -> None:
        counts, self._in_window = self._in_window, Counter()
        busy = frozenset(port for port, count in counts.items() if count >= STREAM_MIN)
        self._streams, self._busy = busy & self._busy, busy
        self._write_all()
        self._timer = self._clock.call_later(WINDOW_S, self._end_window) if busy else None

    def _write_all(self) -> None:
        if self._streams:
            self._due_at = self._clock.time() + WRITE_S * len(self._streams)
        waiting, self._waiting = self._waiting, Counter()
        for port in waiting:
            port.flush()
