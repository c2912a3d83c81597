"""Inputs that wait for the machine, in lines: one client's backlog does not hold up the others.

*Theory.* Every link and every client has a line of its own, in which its inputs stay in order. Lines take turns, each
for a slice of time. As in fair queueing (RFC 8290), a line that had nothing to do is *new* and is served before those
that have used up a slice; when it is empty it goes behind the others, so that a line which is always nearly empty does
not hold up those that are busy.

*Rules.*
1. Inputs of one line are handled in the order in which they came.
2. Between two slices of a busy line every other busy line has had one.
3. A line that is too long is known to whoever fills it (`is_long`), who stops until it is short again (`when_short`).
4. Of a connection that the machine has closed nothing more is handled. Its name is kept until the connection is closed
   and nothing waits; names of connections are never used again.
"""

from collections.abc import Callable, Iterable

from godwit.broker.effects import Input

__all__ = ["ClosedConnections", "Intake", "Line"]

COUNT_MAX = 1_024  # inputs in a line, past which its peer is not read
BYTES_MAX = 2**20  # and their size


class Line:
    """The inputs of one link or client."""

    __slots__ = ("bytes", "has_backlog", "inputs", "name", "on_short")

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[tuple[Input, bytes]] = []
        self.bytes = 0
        self.has_backlog = False  # its last slice was not long enough
        self.on_short: tuple[Callable[[], None], ...] = ()

    @property
    def is_long(self) -> bool:
        """Whether no more should be put into it."""
        return len(self.inputs) > COUNT_MAX or self.bytes > BYTES_MAX

    @property
    def is_short(self) -> bool:
        """Whether there is room again."""
        return len(self.inputs) <= COUNT_MAX // 2 and self.bytes <= BYTES_MAX // 2

    def tell_short(self) -> None:
        """Tell who waits that there is room."""
        told, self.on_short = self.on_short, ()
        for tell in told:
            tell()


class Intake:
    """All lines of a node."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._new: dict[str, Line] = {}
        self._busy: dict[str, Line] = {}
        self._is_new = False  # the line that was given out last was

    def __len__(self) -> int:
        return sum(len(line.inputs) for line in self._lines.values())

    @property
    def size(self) -> int:
        """The bytes of all that waits."""
        return sum(line.bytes for line in self._lines.values())

    def __bool__(self) -> bool:
        """Whether there is a line to look at: nothing may wait in it."""
        return bool(self._new or self._busy)

    def put(self, name: str, input: Input, packed: bytes) -> None:
        """Let an input wait in the line of that name."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = self._new[name] = Line(name)
        line.inputs.append((input, packed))
        line.bytes += len(packed)

    def line(self, name: str) -> Line | None:
        """The line of that name, if there is one."""
        return self._lines.get(name)

    def next(self, *, is_late: bool = False) -> Line | None:
        """The line whose turn it is; `put_back` must follow. None: nothing waits; `is_late`: or it has a backlog."""
        while self._new or self._busy:
            self._is_new = bool(self._new)
            lines = self._new or self._busy
            name, line = next(iter(lines.items()))
            if is_late and line.has_backlog:
                return None
            del lines[name]
            if line.inputs:
                return line
            self._end(line)  # it was empty for a whole round
        return None

    @property
    def is_new(self) -> bool:
        """Whether the line that was given out last had nothing to do before."""
        return self._is_new

    def put_back(self, line: Line) -> None:
        """A line has had its slice."""
        line.has_backlog = bool(line.inputs)
        if line.inputs or self._is_new:
            self._busy[line.name] = line
            if line.on_short and line.is_short:
                line.tell_short()
        else:
            self._end(line)

    def _end(self, line: Line) -> None:
        del self._lines[line.name]
        line.tell_short()

    def drop(self, name: str) -> None:
        """Forget what waits in a line."""
        line = self._lines.get(name)
        if line is not None:
            line.inputs.clear()
            line.bytes = 0

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()
        self._new.clear()
        self._busy.clear()


class ClosedConnections:
    """Connections that the machine has closed, of which inputs may still wait or come. (rule 4)"""

    def __init__(self) -> None:
        self._open: set[str] = set()  # still open on the outside
        self._gone: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._open or self._gone)

    def __contains__(self, connection: str) -> bool:
        return connection in self._open or connection in self._gone

    def close(self, connections: Iterable[str]) -> None:
        """The machine has closed them."""
        self._open.update(connections)

    def gone(self, connection: str) -> None:
        """It is closed on the outside: nothing more comes."""
        self._open.discard(connection)
        self._gone.add(connection)

    def forget(self) -> None:
        """Nothing waits."""
        self._gone.clear()

    def clear(self) -> None:
        """All connections are closed, and what waited is gone."""
        self._open.clear()
        self._gone.clear()
