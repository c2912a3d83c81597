"""Queues of inputs for the machine, one for each link and client: the backlog of one does not delay others.

*Theory.* Every link and every client has a line of its own, in which its inputs stay in order. The lines of one user
are a *party*; a link is one by itself. Parties take turns, each with a slice of time for its next line, so a user with
many clients has no more than one with a single client. As in fair queueing (RFC 8290), a party that had nothing to do
is *new* and is served before those that have used up a slice; when it is empty it goes behind those, so that one which
is always nearly empty does not hold up those that are busy. Where nobody is busy, it is forgotten at once.

Behind many busy parties it would wait for long when it has something again. So when those with a backlog have had their
time of a turn (`urgency.py`), parties without one are served out of turn, and keep their places.

*Rules.*
1. Inputs of one line are handled in the order of arrival.
2. Between two slices of a busy party every other busy party has had one, and so have its own other lines. Out of turn
   a party has `EARLY_S` at most between two slices.
3. A transport stops filling a line that is too long (`is_long`), until it is short again (`when_short`).
4. Inputs of a connection that the machine has closed are dropped. Its name is kept until the transport has closed the
   connection and nothing waits; names of connections are never reused.
"""

from collections.abc import Callable, Iterable

from godwit.broker.effects import Input
from godwit.runtime.node_inputs import party_of

__all__ = ["ClosedConnections", "Intake", "Line"]

COUNT_MAX = 1_024  # inputs in a line, beyond which its peer is not read
BYTES_MAX = 2**20  # and their size
EARLY_S = 0.002  # as much as a slice of a line


class Line:
    """The inputs of one link or client."""

    __slots__ = ("bytes", "inputs", "name", "on_short")

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[tuple[Input, bytes]] = []
        self.bytes = 0
        self.on_short: tuple[Callable[[], None], ...] = ()

    @property
    def is_long(self) -> bool:
        """Whether no more should be added."""
        return len(self.inputs) > COUNT_MAX or self.bytes > BYTES_MAX

    @property
    def is_short(self) -> bool:
        """Whether there is room again."""
        return len(self.inputs) <= COUNT_MAX // 2 and self.bytes <= BYTES_MAX // 2

    def tell_short(self) -> None:
        """Call those who wait for room."""
        told, self.on_short = self.on_short, ()
        for tell in told:
            tell()


class Party:
    """The lines of one user, or one link, in which inputs wait."""

    __slots__ = ("early_s", "has_backlog", "lines", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[str, Line] = {}  # the next one first
        self.has_backlog = False  # its last slice was not long enough, or those out of turn have used up their time
        self.early_s = 0.0  # what it was served out of turn, since its last slice


class Intake:
    """All lines of a node."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._new: dict[str, Party] = {}
        self._busy: dict[str, Party] = {}
        self._light: dict[str, Party] = {}  # of the busy ones, those without a backlog that have something again
        self.is_new = False  # of the party whose line was returned last: it is new
        self.is_light = False  # it has no backlog
        self._is_early = False  # it is served out of turn

    def __len__(self) -> int:
        return sum(len(line.inputs) for line in self._lines.values())

    @property
    def size(self) -> int:
        """The bytes of all waiting inputs."""
        return sum(line.bytes for line in self._lines.values())

    def __bool__(self) -> bool:
        """Whether there is a party to serve; it may have nothing."""
        return bool(self._new or self._busy)

    def put(self, name: str, input: Input, packed: bytes) -> bool:
        """Add an input to the line of that name; returns whether the line is long now."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = Line(name)
            whose = party_of(name)
            party = self._new.get(whose)
            if party is None and (not self._busy or (party := self._busy.get(whose)) is None):
                party = self._new[whose] = Party(whose)
            elif not party.has_backlog and whose in self._busy:
                self._light[whose] = party
            party.lines[name] = line
        line.inputs.append((input, packed))
        line.bytes += len(packed)
        return line.bytes > BYTES_MAX or len(line.inputs) > COUNT_MAX

    @property
    def has_light(self) -> bool:
        """Whether a party without a backlog waits behind others."""
        return bool(self._light)

    def line(self, name: str) -> Line | None:
        """The line of that name, if there is one."""
        return self._lines.get(name)

    def next(self, *, is_late: bool = False) -> Line | None:
        """The next line; `put_back` must follow. None if nothing waits, or, with `is_late`, only parties with a
        backlog."""
        while parties := self._new or (self._light if is_late else self._busy):
            party = next(iter(parties.values()))
            for line in party.lines.values():
                self.is_new, self._is_early = parties is self._new, parties is self._light
                self.is_light = not party.has_backlog
                return line
            del parties[party.name]  # it had nothing for a full round, and is forgotten
        return None

    def put_back(self, line: Line, took_s: float = 0.0) -> bool:
        """A line has had its slice, which took so long; returns whether there is a party to serve."""
        parties = self._new if self.is_new else self._busy
        name = party_of(line.name)
        party = parties[name] if self._is_early else parties.pop(name)
        self._light.pop(name, None)
        del party.lines[line.name]
        if line.inputs:
            party.lines[line.name] = line
        else:
            del self._lines[line.name]
        if line.on_short and line.is_short:
            line.tell_short()
        party.early_s = party.early_s + took_s if self._is_early else 0.0
        if party.lines or self._is_early or (self.is_new and self._busy):
            party.has_backlog = bool(party.lines) or party.early_s >= EARLY_S
            self._busy[name] = party
            return True
        return bool(self._new or self._busy)

    def drop(self, name: str) -> None:
        """Drop the inputs of a line."""
        line = self.line(name)
        if line is not None:
            line.inputs.clear()
            line.bytes = 0

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()
        self._new.clear()
        self._busy.clear()
        self._light.clear()


class ClosedConnections:
    """Connections that the machine has closed, of which inputs may still wait or arrive. (rule 4)"""

    def __init__(self) -> None:
        self._open: set[str] = set()  # still open in the transport
        self._gone: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._open or self._gone)

    def __contains__(self, connection: str) -> bool:
        return connection in self._open or connection in self._gone

    def close(self, connections: Iterable[str]) -> None:
        """The machine has closed them."""
        self._open.update(connections)

    def gone(self, connection: str) -> None:
        """The transport has closed it: no more inputs arrive."""
        self._open.discard(connection)
        self._gone.add(connection)

    def forget(self) -> None:
        """Nothing waits."""
        self._gone.clear()

    def clear(self) -> None:
        """All connections are closed, and all inputs dropped."""
        self._open.clear()
        self._gone.clear()
