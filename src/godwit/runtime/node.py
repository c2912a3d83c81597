"""A broker's machine on a real clock and a real disk: inputs in, batch by batch; effects out, once they are safe.

*Theory.* Whatever comes (frames, messages, timers, connections) is an input. Inputs are gathered for one turn of the
event loop, handled one after the other, and written to the journal as one batch. While the disk works, the next turn
gathers the next batch: so under load batches grow, and the disk is asked as often as it can answer. The effects of a
batch are carried out when it is safe, and all that goes to one peer goes in one write.

After a crash the machine is made again from its last snapshot (its state and that of this driver, by name:
`codec/snapshots.py`) and the batches behind it; then it hears that every link
and connection which it thinks open is gone. Links and sessions say again what was not acknowledged.

*Rules.*
1. No effect of an input leaves before the input is in the journal. (`durability` says what that is worth.)
2. While the disk fails, nothing is taken in: the batch waits and is tried again, `trouble` says why, and peers are not
   read (`holds`) until `on_relief`.
3. A machine that raises has a fault of its own. What it did with that batch is forgotten: when what is being written is
   safe, it is made again from the journal, and all peers are let go. Without a journal only the peer that sent it is,
   and what others have sent is handled.
4. When a snapshot is due, inputs wait until it is written: so under constant load, too, the journal stays bounded. One
   that fails is tried again when the journal has doubled.
5. The clock never goes back: the machine's time is the later of the wall clock and what it was told last.

*Profile.* See BENCHMARKS.md. One joined write for each peer and turn is what decides at fan-out.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from time import perf_counter
from typing import Any, Protocol, cast

import msgspec

from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    LinkDown,
    LinkUp,
    Opened,
    Reconfigured,
    Send,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.codec.snapshots import DriverState, gone, open_ends, pack, unpack
from godwit.errors import JournalError, SnapshotError
from godwit.mobility.publisher_presence import PublisherReconfigured
from godwit.runtime.clock import SYSTEM, Clock, Timer
from godwit.runtime.wire import NATIVE
from godwit.trace import Record

__all__ = ["Disk", "Machine", "Node", "NodeObserver", "Port"]

SNAPSHOT_BYTES = 32 * 2**20
RETRY_S = 1.0
TURN_INPUTS = 512  # handled together, unless one read of a socket has brought more


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """An input in the journal."""

    at: float  # when the machine heard it
    kind: str
    name: str  # the peer or connection that it came from
    data: bytes  # the message in it, or all of it


ENTRIES: msgspec.msgpack.Decoder[list[JournalEntry]] = msgspec.msgpack.Decoder(list[JournalEntry])


class Machine(Protocol):
    """What a node runs."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what is to be done because of it, in order."""

    def snapshot(self) -> msgspec.Struct:
        """All of its state, as a struct of a kind that `godwit.codec` knows."""

    def restore(self, state: Any) -> None:
        """Go on from that state, in a machine freshly made with the same settings."""


class Disk(Protocol):
    """Where a node keeps its inputs: a journal (`journal.py`), or what does the same."""

    where: str  # names it in errors
    number: int
    bytes_since_snapshot: int
    snapshot_bytes: int

    def append(self, data: bytes) -> int:
        """Write a batch; its number, once it is safe."""

    def snapshot(self, number: int, data: bytes) -> None:
        """The machine as it was after batch `number`: what is older goes."""

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in it, and the machine."""

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches behind a number, in order, without a hole."""

    def close(self) -> None:
        """Let go of it."""


class Port(Protocol):
    """The near end of a link or of a client's connection."""

    def send(self, message: Any) -> None:
        """Have a message written at the next `flush`."""

    def flush(self) -> None:
        """Write what was sent, in one go."""

    def close(self, reason: str) -> None:
        """Write what was sent, and close."""


class NodeObserver(Protocol):
    """Sees what a node does, and changes nothing. The lists are no longer changed when they are shown."""

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """The machine has handled these, and took so long."""

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """These are carried out now."""

    def on_written(self, took_s: float, size: int) -> None:
        """The journal has a batch of so many bytes."""


class Node:
    """One machine, its journal, its timers and its peers."""

    def __init__(
        self,
        make: Callable[[], Machine],
        journal: Disk | None = None,
        *,
        on_record: Callable[[Record, float], None] | None = None,
        on_trouble: Callable[[str], None] = lambda text: None,
        clock: Clock = SYSTEM,
        writer: Executor | None = None,
    ) -> None:
        self._make = make
        self._journal = journal
        self._clock = clock
        self._writer = writer if journal is None or writer is not None else ThreadPoolExecutor(1, "journal")
        self._on_record = on_record
        self._on_trouble = on_trouble
        self.on_relief: list[Callable[[], None]] = []  # what to do when peers may be read again
        self.watch: NodeObserver | None = None  # who looks on
        self.writing_since = 0.0  # the batch that the disk works on; 0: none
        self.machine = make()
        self.ports: dict[str, Port] = {}  # links by the peer's name, clients by the connection's
        self.trouble = ""  # why nothing is taken in at present
        self.now = 0.0
        self._inputs: list[tuple[Input, bytes]] = []
        self._entries: list[JournalEntry] = []  # handled, and not yet given to the journal
        self._effects: list[Effect] = []  # of these
        self._asked: dict[TimerKey, float] = {}  # the timers that run, as far as the journal goes
        self._open: dict[Input, None] = {}  # links and connections, likewise, each as its end
        self._timers: dict[TimerKey, Timer] = {}
        self._is_due = False  # a turn is
        self._is_writing = False
        self._is_faulty = False  # the machine is, and must be made again
        self._has_held = False  # inputs back, and peers may not be read
        self._snapshot_bytes = SNAPSHOT_BYTES  # so much is written before the next one
        self._is_closing = False
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._quiet = asyncio.Event()
        self._quiet.set()
        if journal is not None:
            self._recover(journal)

    # ------------------------------------------------------------ inputs

    def tell(self, input: Input, packed: bytes = b"") -> None:
        """The machine is to hear this; `packed`: the message in it, as it came."""
        self._inputs.append((input, packed))
        if not self._is_due:
            self._is_due = True
            self._quiet.clear()
            self._loop.call_soon(self._turn)

    def relieve(self) -> None:
        """Take the turn now if `TURN_INPUTS` wait for it. For whoever reads sockets, when all of a read is told.

        In one turn of the loop many sockets can be read; what they brought takes memory until the machine has it.
        """
        if self._is_due and len(self._inputs) >= TURN_INPUTS:
            self._turn()

    def _turn(self) -> None:
        """Handle what has come since the last turn."""
        self._is_due = False
        if self._is_closed or self.holds():
            return
        inputs, self._inputs = self._inputs, []
        rest = iter(inputs)
        now = self.now = max(self.now, self._clock.time())
        handle, effects, entries = self.machine.handle, self._effects, self._entries
        input: Input | None = None
        began = perf_counter()
        try:
            for input, packed in rest:
                effects += handle(input, now)
                if self._journal is not None:
                    entries.append(_entry(input, packed, now))
                    if type(input) not in (Heard, Arrived):
                        _note(input, self._open)
        except Exception as error:
            self._on_fault(input, error, list(rest))
        if self.watch is not None:
            self.watch.on_turn(inputs, perf_counter() - began, now)
        if self._journal is None:
            self._carry_out(self._taken_effects())
            if not self._is_due:
                self._quiet.set()
        elif not self._is_writing:
            self._write()

    @property
    def unsafe(self) -> int:
        """How many inputs are handled, and wait for the disk to be asked."""
        return len(self._entries)

    @property
    def unhandled(self) -> int:
        """How many inputs wait for their turn."""
        return len(self._inputs)

    @property
    def journal(self) -> Disk | None:
        """Where its inputs are kept."""
        return self._journal

    @property
    def is_held(self) -> bool:
        """Whether nothing is taken in at present."""
        return bool(self.trouble) or self._is_faulty or (self._is_writing and self._is_snapshot_due())

    def holds(self) -> bool:
        """Whether peers must not be read now; if so, `on_relief` follows."""
        self._has_held = self._has_held or self.is_held
        return self.is_held

    def _taken_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # ------------------------------------------------------------ the journal

    def _write(self) -> None:
        """Give the journal what has been handled; carry its effects out when it is safe."""
        if not self._entries:
            self._carry_out(self._taken_effects())
            self._quiet.set()
            return
        entries, self._entries = self._entries, []
        effects = self._taken_effects()
        self._is_writing, self.writing_since = True, self.now
        self._append(msgspec.msgpack.encode(entries), effects)

    def _append(self, batch: bytes, effects: list[Effect]) -> None:
        assert self._journal is not None
        assert self._writer is not None
        if self._is_closed:  # it was to be tried again
            return
        written = self._loop.run_in_executor(self._writer, self._journal.append, batch)
        written.add_done_callback(lambda done: self._on_written(done, batch, effects))

    def _on_written(self, done: "asyncio.Future[int]", batch: bytes, effects: list[Effect]) -> None:
        if done.cancelled() or self._is_closed:
            return
        error = done.exception()
        if error is not None:  # rule 2
            if not self.trouble:
                self._on_trouble(str(error))
            self.trouble = str(error) or type(error).__name__
            self._clock.call_later(RETRY_S, self._append, batch, effects)
            if self._is_closing:  # nothing of it was acknowledged
                self._quiet.set()
            return
        self.trouble = ""
        if self.watch is not None:
            self.watch.on_written(max(0.0, self._clock.time() - self.writing_since), len(batch))
        self._is_writing, self.writing_since = False, 0.0
        self._carry_out(effects)
        if self._is_faulty:
            self._start_again()
        elif self._entries:
            self._write()
        elif self._is_snapshot_due():
            self._snapshot()
        self._go_on()

    def _go_on(self) -> None:
        """Handle what has waited, as soon as it may be."""
        if self.is_held:
            return
        if self._has_held:
            self._has_held = False
            for read_on in self.on_relief:
                read_on()
        if self._inputs and not self._is_due:
            self._turn()
        elif not self._inputs and not self._is_writing:
            self._quiet.set()

    def _is_snapshot_due(self) -> bool:
        journal = self._journal
        assert journal is not None
        return journal.bytes_since_snapshot > max(self._snapshot_bytes, journal.snapshot_bytes)

    def _snapshot(self) -> None:
        """Write the whole machine. Inputs wait meanwhile, in memory and on the wire."""
        journal, writer = self._journal, self._writer
        assert journal is not None
        assert writer is not None
        asked = dict(self._asked)
        for input, _ in self._inputs:  # due, and not heard of yet: it must come due again if we die now
            if isinstance(input, TimerDue):
                asked.setdefault(input.key, self.now)
        data = pack(self.machine, DriverState(asked, open_ends(self._open), self.now))
        self._is_writing = True
        done = self._loop.run_in_executor(writer, journal.snapshot, journal.number, data)
        done.add_done_callback(self._on_snapshot)

    def _on_snapshot(self, done: "asyncio.Future[None]") -> None:
        if done.cancelled() or self._is_closed:
            return
        self._is_writing = False
        self._snapshot_bytes = SNAPSHOT_BYTES
        if (error := done.exception()) is not None:  # the batches are still there: nothing is lost
            assert self._journal is not None
            self._snapshot_bytes = 2 * self._journal.bytes_since_snapshot
            self._on_trouble(f"no snapshot could be written: {error}")
        if self._entries:
            self._write()
        self._go_on()

    def _recover(self, journal: Disk) -> None:
        """Make the machine again as it was. Called before anything is open."""
        self.machine, self._asked, self._open = self._make(), {}, {}
        after = 0
        if (snapshot := journal.last_snapshot()) is not None:
            after = snapshot[0]
            try:
                driver = unpack(snapshot[1], self.machine)
            except SnapshotError as error:
                raise JournalError(f"{journal.where}: snapshot {after}: {error}. Nothing was changed") from None
            self._asked, self.now = dict(driver.timers), driver.now
            self._open = gone(driver.open)
        for batch in journal.batches(after):
            for entry in ENTRIES.decode(batch):
                input, self.now = _input(entry), entry.at
                if isinstance(input, TimerDue):
                    self._asked.pop(input.key, None)
                _note(input, self._open)
                for effect in self.machine.handle(input, self.now):
                    self._note_timer(effect)
                    if type(effect) is Close:
                        self._open.pop(Closed(effect.peer), None)
        for key, at in self._asked.items():
            self._start(key, at)
        for end in list(self._open):
            self.tell(end)

    def _on_fault(self, input: Input | None, error: Exception, unhandled: list[tuple[Input, bytes]]) -> None:
        """The machine has a fault. (rule 3)"""
        text = f"{type(error).__name__} in the broker's machine, at {type(input).__name__}: {error}"
        self._on_trouble(text)
        if self._journal is None:
            name = _sender(input)
            self._inputs[:0] = [(other, packed) for other, packed in unhandled if not name or _sender(other) != name]
            if (port := self.ports.pop(name, None)) is not None:
                self.tell(LinkDown(name) if hasattr(input, "peer") else Closed(name))
                port.close("the broker could not handle what came")
            elif self._inputs and not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._turn)
            return
        self._is_faulty = True
        if not self._is_writing:
            self._start_again()

    def _start_again(self) -> None:
        """Make the machine again from the journal, and let all peers go."""
        assert self._journal is not None
        self._is_faulty = False
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self._entries.clear()
        self._effects.clear()
        for port in list(self.ports.values()):
            port.close("the broker starts again")
        self.ports.clear()
        self._inputs.clear()  # of connections that are closed now
        self._recover(self._journal)

    # ------------------------------------------------------------ effects

    def _carry_out(self, effects: list[Effect]) -> None:
        if self.watch is not None and effects:
            self.watch.on_effects(effects, self.now)
        ports = self.ports
        touched: dict[Port, None] = {}
        for effect in effects:
            kind = type(effect)
            if kind is Tell or kind is Send:
                name, message = (effect.connection, effect.message) if kind is Tell else (effect.peer, effect.frame)  # type: ignore[union-attr]
                port = ports.get(name)
                if port is not None:
                    port.send(message)
                    touched[port] = None
            elif kind is Trace:
                if self._on_record is not None:
                    self._on_record(effect.record, self.now)  # type: ignore[union-attr]
            elif kind is Close:
                self._open.pop(Closed(effect.peer), None)  # type: ignore[union-attr]
                port = ports.pop(effect.peer, None)  # type: ignore[union-attr]
                if port is not None:
                    touched.pop(port, None)
                    port.close(effect.reason)  # type: ignore[union-attr]
            else:
                self._note_timer(effect)
                if kind is StartTimer:
                    self._start(effect.key, effect.at)  # type: ignore[union-attr]
                elif kind is StopTimer and (handle := self._timers.pop(effect.key, None)) is not None:  # type: ignore[union-attr]
                    handle.cancel()
        for port in touched:
            port.flush()

    def _note_timer(self, effect: Effect) -> None:
        if isinstance(effect, StartTimer):
            self._asked[effect.key] = effect.at
        elif isinstance(effect, StopTimer):
            self._asked.pop(effect.key, None)

    def _start(self, key: TimerKey, at: float) -> None:
        if (running := self._timers.pop(key, None)) is not None:
            running.cancel()
        self._timers[key] = self._clock.call_later(max(0.0, at - self._clock.time()), self._on_timer, key, at)

    def _on_timer(self, key: TimerKey, at: float) -> None:
        self._timers.pop(key, None)
        if self._asked.get(key) == at:
            del self._asked[key]
            self.tell(TimerDue(key))

    # ------------------------------------------------------------ the end

    async def quiet(self) -> None:
        """Until all that has come is handled and safe, and its effects are carried out."""
        await self._quiet.wait()

    @property
    def is_quiet(self) -> bool:
        """Whether it is so now."""
        return self._quiet.is_set()

    async def save(self) -> None:
        """Write a snapshot now, so that the next start is quick. One that fails is no loss."""
        if self._journal is None or self.trouble:
            return
        await self.quiet()
        if self._journal.bytes_since_snapshot:
            self._quiet.clear()
            self._snapshot()
            await self.quiet()

    async def close(self) -> None:
        """Handle what has come, unless the disk fails, and let go of everything."""
        self._is_closing = True
        if not self.trouble:
            await self.quiet()
        self._is_closed = True
        for handle in self._timers.values():
            handle.cancel()
        for port in list(self.ports.values()):
            port.close("the broker stops")
        if self._writer is not None and self._journal is not None:
            self._writer.shutdown(wait=True)
            self._journal.close()

    def abandon(self) -> None:
        """Stop at once, as if the process were killed: nothing more is handled, written or sent."""
        self._is_closed = True
        for handle in self._timers.values():
            handle.cancel()
        self.ports.clear()
        self._inputs.clear()
        self._quiet.set()
        if self._writer is not None:
            self._writer.shutdown(wait=False, cancel_futures=True)


# ---------------------------------------------------------------- inputs on disk


def _entry(input: Input, packed: bytes, now: float) -> JournalEntry:
    kind = type(input)
    if kind is Arrived:
        return JournalEntry(now, "arrived", input.peer, packed)  # type: ignore[union-attr]
    if kind is Heard:
        return JournalEntry(now, "heard", input.connection, packed)  # type: ignore[union-attr]
    if kind is Opened:
        return JournalEntry(now, "opened", input.connection, msgspec.msgpack.encode(input.asserted))  # type: ignore[union-attr]
    return JournalEntry(now, kind.__name__, "", msgspec.msgpack.encode(input))


def _input(entry: JournalEntry) -> Input:
    kind, name, data = entry.kind, entry.name, entry.data
    if kind == "opened":
        return Opened(name, NATIVE.attributes(msgspec.msgpack.decode(data)))
    if kind == "arrived":
        return Arrived(name, NATIVE.decode(data))
    if kind == "heard":
        return Heard(name, NATIVE.decode(data))
    return cast(Input, _DECODERS[kind].decode(data))


_DECODERS: dict[str, Any] = {
    kind.__name__: msgspec.msgpack.Decoder(kind)
    for kind in (LinkUp, LinkDown, Closed, TimerDue, Reconfigured, PublisherReconfigured)
}


def _sender(input: Input | None) -> str:
    """The link or connection that an input came over; "": it is a timer's."""
    return str(getattr(input, "connection", getattr(input, "peer", "")))


def _note(input: Input, open: dict[Input, None]) -> None:
    """Keep in mind what is open, as what is to be heard when it is gone."""
    if isinstance(input, LinkUp):
        open[LinkDown(input.peer)] = None
    elif isinstance(input, Opened):
        open[Closed(input.connection)] = None
    elif isinstance(input, LinkDown | Closed):
        open.pop(input, None)
