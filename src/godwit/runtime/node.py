"""A broker's machine on a real clock and a real disk: inputs in, batch by batch; effects out, once they are safe.

*Theory.* Whatever comes (frames, messages, timers, connections) is an input. Inputs wait in lines, one for each link
and client (`intake.py`). In a turn of the event loop lines are served one after the other, `LINE_S` each, until nothing
waits or `TURN_S` is over. What was handled is written to the journal as one batch. While the disk works, the next turn
gathers the next batch: so under load batches grow, and the disk is asked as often as it can answer. The effects of a
batch are carried out when it is safe, and all that goes to one peer goes in one write: a neighbour is written to then,
a client that gets much at the latest after a few turns (`write_pacing.py`).

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
4. When a snapshot is due, inputs wait until the last batch is written and the machine's state is taken, and no longer:
   it is packed and written while the machine goes on (`snapshot_writer.py`). So that under constant load, too, the
   journal stays bounded, inputs wait when it has doubled meanwhile, or when the disk is nearly full. A snapshot that
   fails is tried again when the journal has doubled.
5. The clock never goes back: the machine's time is the later of the wall clock and what it was told last.
6. A turn is bounded: the loop reads, writes and answers others between two turns, whatever waits. Until the requests of
   a client that had nothing to do are safe and answered, those with a backlog get less of each turn: an event waits for
   about four turns. A peer whose line is long is not read until it is short again.
7. A machine whose journal has lost its last batches is told so, with the first inputs that are written then.
8. When a batch cannot be appended, a snapshot of the machine, which has handled it, is tried in its place: a disk that
   is full has a reserve for that.
9. What comes over a connection after the machine has closed it is dropped, also while that waits for the disk: it is no
   fault of a client that has come back over another connection.

*Profile.* See BENCHMARKS.md. How many messages go in one write is what decides at fan-out and at content filtering.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from time import perf_counter

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
    Send,
    StartTimer,
    StopTimer,
    TailLost,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.messages import Received
from godwit.codec.snapshots import DriverState, Packing, gone, open_ends, packing, unpack
from godwit.errors import JournalError, SnapshotError
from godwit.runtime.clock import SYSTEM, Clock
from godwit.runtime.intake import ClosedConnections, Intake
from godwit.runtime.journal_entries import JournalEntry, entry_of, inputs_of
from godwit.runtime.node_interfaces import Disk, Machine, NodeObserver, Port
from godwit.runtime.node_timers import NodeTimers
from godwit.runtime.snapshot_writer import SnapshotWriter
from godwit.runtime.write_pacing import WritePacing
from godwit.trace import Record

__all__ = ["Disk", "Machine", "Node", "NodeObserver", "Port", "client_line"]

SNAPSHOT_BYTES = 32 * 2**20
RETRY_S = 1.0
TURN_S = 0.008  # after which a turn ends, though more may wait: whoever comes now waits for three or four of them
URGENT_S = 0.002  # after which it ends for those with a backlog, while somebody waits who asks for little
LITTLE_MAX = 4  # inputs of such a client
LINE_S = 0.002  # after which it is the next line's turn


TIMERS = ""  # the line of timers and of what concerns all


def client_line(client: str) -> str:
    """The line of a client: over all of its connections its inputs stay in order."""
    return f"@{client}"


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
        self._saving: SnapshotWriter | None = None
        self._on_record = on_record
        self._on_trouble = on_trouble
        self.on_relief: list[Callable[[], None]] = []  # what to do when peers may be read again
        self.watch: NodeObserver | None = None  # who looks on
        self.writing_since = 0.0  # the batch that the disk works on; 0: none
        self.machine = make()
        self.ports: dict[str, Port] = {}  # links by the peer's name, clients by the connection's
        self.trouble = ""  # why nothing is taken in at present
        self.now = 0.0
        self._intake = Intake()
        self._entries: list[JournalEntry] = []  # handled, and not yet given to the journal
        self._effects: list[Effect] = []  # of these
        self._closed = ClosedConnections()
        self._pacing = WritePacing(clock)
        self._timers = NodeTimers(clock, lambda key: self.tell(TimerDue(key)))  # as far as the journal goes
        self._open: dict[Input, None] = {}  # links and connections, likewise, each as its end
        self._is_due = False  # a turn is
        self._is_writing = False
        self._is_urgent = False  # a client that had nothing to do has asked for something that is not yet in a batch
        self._is_batch_urgent = False  # the same, of the batch that is being written
        self._is_faulty = False  # the machine is, and must be made again
        self._has_held = False  # inputs back, and peers may not be read
        self._snapshot_bytes = SNAPSHOT_BYTES  # so much is written before the next one
        self._failures = 0  # of the disk, since it last worked
        self._is_closing = False
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._quiet = asyncio.Event()
        self._quiet.set()
        if journal is not None:
            assert self._writer is not None
            self._saving = SnapshotWriter(journal, self._writer, self._on_snapshot)
            self._recover(journal)

    # ------------------------------------------------------------ inputs

    def tell(self, input: Input, packed: bytes = b"", line: str = "") -> None:
        """The machine is to hear this; `packed`: the message in it, as it came; `line`: where it waits."""
        self._intake.put(line or _sender(input), input, packed)
        if not self._is_due:
            self._is_due = True
            self._quiet.clear()
            self._loop.call_soon(self._turn)

    def is_long(self, line: str) -> bool:
        """Whether a line is so long that whoever fills it should stop. (rule 6)"""
        found = self._intake.line(line)
        return found is not None and found.is_long

    def when_short(self, line: str, call: Callable[[], None]) -> None:
        """Call this when a line is short, after its next slice; soon if nothing waits in it."""
        found = self._intake.line(line)
        if found is not None:
            found.on_short += (call,)
        else:
            self._loop.call_soon(call)

    def _turn(self) -> None:
        """Handle what waits, for a while."""
        self._is_due = False
        if self._is_closed or self.holds():
            return
        intake, inputs = self._intake, list[tuple[Input, bytes]]()
        now = self.now = max(self.now, self._clock.time())
        handle, effects, entries, closed = self.machine.handle, self._effects, self._entries, self._closed
        has_journal = self._journal is not None
        input: Input | None = None
        began = at = perf_counter()
        try:
            while at - began < TURN_S and (line := intake.next(is_late=self._is_late(at - began))) is not None:
                ends, waiting = at + LINE_S, line.inputs
                if intake.is_new and len(waiting) <= LITTLE_MAX and _is_request(waiting[0][0]):
                    self._is_urgent = True
                while waiting and at < ends:
                    each = waiting.pop(0)
                    input, packed = each
                    line.bytes -= len(packed)
                    if closed and type(input) is Heard and input.connection in closed:  # rule 9
                        continue
                    inputs.append(each)
                    done = handle(input, now)
                    effects += done
                    if Close in map(type, done):
                        closed.close(effect.peer for effect in done if type(effect) is Close)
                    if has_journal:
                        entries.append(entry_of(input, packed, now))
                        if type(input) not in (Heard, Arrived):
                            _note(input, self._open)
                    at = perf_counter()
                intake.put_back(line)
        except Exception as error:
            assert line is not None
            intake.put_back(line)
            self._on_fault(input, error, line.name)
        if not intake:
            closed.forget()
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)
        if self.watch is not None:
            self.watch.on_turn(inputs, perf_counter() - began, now)
        if not has_journal:
            self._is_urgent = False
            self._carry_out(self._taken_effects())
            if not self._is_due:
                self._quiet.set()
        elif not self._is_writing:
            self._write()

    def _is_late(self, took_s: float) -> bool:
        """Whether a turn that has taken so long ends for those with a backlog. (rule 6)"""
        return took_s >= URGENT_S and (self._is_urgent or self._is_batch_urgent)

    @property
    def unsafe(self) -> int:
        """How many inputs are handled, and wait for the disk to be asked."""
        return len(self._entries)

    @property
    def unhandled(self) -> int:
        """How many inputs wait for their turn."""
        return len(self._intake)

    @property
    def unhandled_bytes(self) -> int:
        """Their size."""
        return self._intake.size

    @property
    def journal(self) -> Disk | None:
        """Where its inputs are kept."""
        return self._journal

    @property
    def is_held(self) -> bool:
        """Whether nothing is taken in at present."""
        return (
            bool(self.trouble)
            or self._is_faulty
            or (self._is_writing and self._is_snapshot_due())
            or (self._is_saving and self._is_overfull())
        )

    @property
    def _is_saving(self) -> bool:
        """Whether a snapshot is under way."""
        return self._saving is not None and self._saving.is_under_way

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
        self._is_batch_urgent, self._is_urgent = self._is_urgent, False
        if not self._entries:
            self._carry_out(self._taken_effects())
            self._rest()
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
            self._failures += 1
            if self._failures & (self._failures - 1) == 0 and not self._is_closing:  # now, and ever more rarely
                self._snapshot_instead(batch, effects)
                return
            self._try_again(batch, effects)
            return
        self.trouble, self._failures, self._is_batch_urgent = "", 0, False
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

    def _rest(self) -> None:
        """Nothing is to be done, unless a snapshot is under way."""
        if not self._is_saving:
            self._quiet.set()

    def _try_again(self, batch: bytes, effects: list[Effect]) -> None:
        self._clock.call_later(RETRY_S, self._append, batch, effects)
        if self._is_closing:  # nothing of it was acknowledged
            self._quiet.set()

    def _snapshot_instead(self, batch: bytes, effects: list[Effect]) -> None:
        """A batch cannot be appended. Where the disk is full, a snapshot that has it makes room. (rule 8)"""
        journal, writer = self._journal, self._writer
        assert journal is not None
        assert writer is not None
        timers = self._timers.times()
        assert self._saving is not None
        self._saving.drop()  # this one is newer
        for effect in (*effects, *self._effects):  # of all that the machine has handled
            if isinstance(effect, StartTimer):
                timers[effect.key] = effect.at
            elif isinstance(effect, StopTimer):
                timers.pop(effect.key, None)
        data = self._packing_with(timers).advance(lambda: False)
        assert data is not None
        done = self._loop.run_in_executor(writer, journal.snapshot, journal.number + 1, data)
        done.add_done_callback(lambda done: self._on_snapshot_instead(done, batch, effects))

    def _on_snapshot_instead(self, done: "asyncio.Future[None]", batch: bytes, effects: list[Effect]) -> None:
        if done.cancelled() or self._is_closed:
            return
        if done.exception() is not None:
            self._try_again(batch, effects)
            return
        self.trouble, self._failures = "", 0
        self._is_writing, self.writing_since = False, 0.0
        self._entries.clear()
        self._carry_out([*effects, *self._taken_effects()])
        if self._is_faulty:
            self._start_again()
        self._go_on()

    def _go_on(self) -> None:
        """Handle what has waited, as soon as it may be."""
        if self.is_held:
            return
        if self._has_held:
            self._has_held = False
            for read_on in self.on_relief:
                read_on()
        if self._intake and not self._is_due:
            self._turn()
        elif not self._intake and not self._is_writing:
            self._rest()

    def _is_snapshot_due(self) -> bool:
        journal = self._journal
        assert journal is not None
        return not self._is_saving and (journal.is_cramped or journal.bytes_since_snapshot > self._journal_bytes_max)

    def _is_overfull(self) -> bool:
        """Whether inputs must wait for the snapshot that is under way. (rule 4)"""
        journal = self._journal
        assert journal is not None
        return journal.is_cramped or journal.bytes_since_snapshot > 2 * self._journal_bytes_max

    @property
    def _journal_bytes_max(self) -> int:
        """Bytes after which a snapshot is due."""
        assert self._journal is not None
        return max(self._snapshot_bytes, self._journal.snapshot_bytes)

    def _snapshot(self) -> None:
        """Take the state of the whole machine, and have it written."""
        assert self._journal is not None
        assert self._saving is not None
        self._saving.begin(self._packing_with(self._timers.times()), self._journal.number)

    def _packing_with(self, timers: dict[TimerKey, float]) -> Packing:
        """The machine as it is, with these timers running."""
        due = self._intake.line(TIMERS)
        for input, _ in () if due is None else due.inputs:  # and not heard of yet: it must come due again if we die now
            if isinstance(input, TimerDue):
                timers.setdefault(input.key, self.now)
        return packing(self.machine, DriverState(timers, open_ends(self._open), self.now))

    def _on_snapshot(self, error: BaseException | None) -> None:
        if self._is_closed:
            return
        self._snapshot_bytes = SNAPSHOT_BYTES
        if error is not None:  # the batches are still there: nothing is lost
            assert self._journal is not None
            self._snapshot_bytes = 2 * self._journal.bytes_since_snapshot
            self._journal.is_cramped = False  # until it is looked for again
            self._on_trouble(f"no snapshot could be written: {error}")
        if self._is_faulty and not self._is_writing:
            self._start_again()
        self._go_on()

    def _recover(self, journal: Disk) -> None:
        """Make the machine again as it was. Called before anything is open."""
        self.machine, self._open = self._make(), {}
        self._timers.replace({})
        after = 0
        if (snapshot := journal.last_snapshot()) is not None:
            after = snapshot[0]
            try:
                driver = unpack(snapshot[1], self.machine)
            except SnapshotError as error:
                raise JournalError(f"{journal.where}: snapshot {after}: {error}. Nothing was changed") from None
            self.now = driver.now
            self._timers.replace(driver.timers)
            self._open = gone(driver.open)
        for batch in journal.batches(after):
            for input, self.now in inputs_of(batch):
                if isinstance(input, TimerDue):
                    self._timers.forget(input.key)
                _note(input, self._open)
                for effect in self.machine.handle(input, self.now):
                    self._timers.note(effect)
                    if type(effect) is Close:
                        self._open.pop(Closed(effect.peer), None)
        self._timers.run()
        for end in list(self._open):
            self.tell(end)
        if journal.loss is not None and journal.loss.incarnation:  # rule 7
            self.tell(TailLost(journal.loss.incarnation, journal.loss.since))

    def _on_fault(self, input: Input | None, error: Exception, line: str) -> None:
        """The machine has a fault. (rule 3)"""
        text = f"{type(error).__name__} in the broker's machine, at {type(input).__name__}: {error}"
        self._on_trouble(text)
        if self._journal is None:
            name = _sender(input)
            if name != TIMERS:
                self._intake.drop(line)
            if (port := self.ports.pop(name, None)) is not None:
                self.tell(LinkDown(name) if hasattr(input, "peer") else Closed(name), line=line)
                port.close("the broker could not handle what came")
            return
        self._is_faulty = True
        if not self._is_writing:
            self._start_again()

    def _start_again(self) -> None:
        """Make the machine again from the journal, and let all peers go; later, if a snapshot is under way."""
        assert self._journal is not None
        if self._is_saving:
            return
        self._is_faulty = False
        self._timers.stop()
        self._pacing.stop()
        self._entries.clear()
        self._effects.clear()
        for port in list(self.ports.values()):
            port.close("the broker starts again")
        self.ports.clear()
        self._intake.clear()  # of connections that are closed now
        self._closed.clear()
        self._recover(self._journal)

    # ------------------------------------------------------------ effects

    def _carry_out(self, effects: list[Effect]) -> None:
        if self.watch is not None and effects:
            self.watch.on_effects(effects, self.now)
        port_of, told = self.ports.get, list[Port]()
        links: dict[Port, None] = {}
        for effect in effects:
            kind = type(effect)
            if kind is Tell:  # most of what is done
                port = port_of(effect.connection)  # type: ignore[union-attr]
                if port is not None:
                    port.send(effect.message)  # type: ignore[union-attr]
                    told.append(port)
            elif kind is Send:
                port = port_of(effect.peer)  # type: ignore[union-attr]
                if port is not None:
                    port.send(effect.frame)  # type: ignore[union-attr]
                    links[port] = None
            elif kind is Trace:
                if self._on_record is not None:
                    self._on_record(effect.record, self.now)  # type: ignore[union-attr]
            elif kind is Close:
                self._open.pop(Closed(effect.peer), None)  # type: ignore[union-attr]
                self._closed.gone(effect.peer)  # type: ignore[union-attr]
                port = self.ports.pop(effect.peer, None)  # type: ignore[union-attr]
                if port is not None:
                    links.pop(port, None)
                    port.close(effect.reason)  # type: ignore[union-attr]
            else:
                self._timers.note(effect)
        self._timers.run()
        for port in links:
            port.flush()
        self._pacing.flush(told, turn_follows=self._is_due or bool(self._entries))

    async def between_batches(self, work: Callable[[], None]) -> None:
        """Do something with the journal, in the thread that writes it."""
        await self._loop.run_in_executor(self._writer, work)

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
        if self._saving is not None:
            self._saving.drop()
        self._timers.stop()
        self._pacing.stop()
        for port in list(self.ports.values()):
            port.close("the broker stops")
        if self._writer is not None and self._journal is not None:
            self._writer.shutdown(wait=True)
            self._journal.close()

    def abandon(self) -> None:
        """Stop at once, as if the process were killed: nothing more is handled, written or sent."""
        self._is_closed = True
        if self._saving is not None:
            self._saving.drop()
        self._timers.stop()
        self._pacing.stop()
        self.ports.clear()
        self._intake.clear()
        self._quiet.set()
        if self._writer is not None:
            self._writer.shutdown(wait=False, cancel_futures=True)


# ---------------------------------------------------------------- where inputs come from


def _sender(input: Input | None) -> str:
    """The link or connection that an input came over; `TIMERS`: it is a timer's."""
    return str(getattr(input, "connection", getattr(input, "peer", TIMERS)))


def _is_request(input: Input) -> bool:
    """Whether a client waits for what comes of an input."""
    return type(input) is Heard and type(input.message) is not Received


def _note(input: Input, open: dict[Input, None]) -> None:
    """Keep in mind what is open, as what is to be heard when it is gone."""
    if isinstance(input, LinkUp):
        open[LinkDown(input.peer)] = None
    elif isinstance(input, Opened):
        open[Closed(input.connection)] = None
    elif isinstance(input, LinkDown | Closed):
        open.pop(input, None)
