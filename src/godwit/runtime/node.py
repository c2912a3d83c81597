"""A broker's machine on a real clock and disk: inputs are handled in batches; effects are sent when these are safe.

*Theory.* Frames, messages, timers and connections are inputs. Inputs wait in queues (lines), one for each link and
client; links and users take turns (`intake.py`). In a turn of the event loop lines are served one after the other,
`LINE_S` each, until nothing waits or `TURN_S` is over. The handled inputs are written to the journal as one batch.
While the disk works, the next turn collects the next batch: so under load batches grow, and the disk writes as often as
it can. The effects of a batch are carried out when it is safe, and all messages to one peer are one write: to a
neighbour at once, to a client with much traffic at the latest after a few turns (`write_pacing.py`).

After a crash the machine is restored from its last snapshot (its state and that of this driver, by name:
`codec/snapshots.py`) and the batches after it; then it is told that all links and connections that were open are
closed. Links and sessions resend what was not acknowledged.

*Rules.*
1. No effect of an input leaves before the input is in the journal. (`durability` defines what that means.)
2. While the disk fails, no inputs are accepted: the batch waits and is retried, `trouble` has the reason, and peers are
   not read (`holds`) until `on_relief`.
3. An exception in the machine is a bug. The effects of that batch are dropped: when pending writes are safe, the
   machine is restored from the journal, and all connections are closed. Without a journal only the peer that sent the
   input is disconnected, and the inputs of others are handled.
4. When a snapshot is due, inputs wait only until the last batch is written and the machine's state is copied: it is
   encoded and written while the machine continues (`snapshot_writer.py`). To keep the journal bounded under constant
   load, inputs also wait when it has doubled meanwhile, or when the disk is nearly full. A failed snapshot is retried
   when the journal has doubled.
5. The machine's time is the latest of the wall clock, the last time it was given and the time that a due timer was set
   for: it never goes back, and no timer is early.
6. A turn is bounded: the event loop reads, writes and answers others between two turns, whatever waits. Until the
   requests of a client with little traffic are safe and answered, clients with a backlog get less (`urgency.py`): an
   event waits for about four turns. A peer whose line is long is not read until it is short again. While the disk
   works, no more than `BATCH_BYTES_MAX` are handled: others wait for the next batch, too.
7. A machine whose journal has lost its last batches is told of it in the first new batch. One that is restored from a
   journal of its inputs is told that it was (`Restarted`): the journal may have lost some unnoticed.
8. If a batch cannot be appended, a snapshot of the machine, which has handled it, is tried: the reserve is for that.
9. Inputs of a connection after the machine has closed it are dropped, also while the closing waits for the disk.
10. With a `ChangeRecorder`, the journal has what that says of each turn, and not the inputs. It says nothing of a turn
    without an input, or with a fault: the machine may be a new one, which has not gone on yet with what it held. Timers
    and connections are those of this life: none are restored.
11. A note and the request after it are in one batch. A gateway notes that it has a message, and publishes it: after a
    crash both must be known, or neither (`mqtt/session_notes.py`).

*Profile.* See BENCHMARKS.md. For fan-out and content filtering the number of messages per write is decisive.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import msgspec

from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    LinkDown,
    Restarted,
    Send,
    TailLost,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.codec.journal_entries import JournalEntry, entry_of, inputs_of
from godwit.codec.snapshots import DriverState, Packing, gone, open_ends, packing, unpack
from godwit.errors import JournalError, SnapshotError
from godwit.runtime.clock import SYSTEM, Clock
from godwit.runtime.intake import ClosedConnections, Intake, Line
from godwit.runtime.node_inputs import TIMERS, client_line, has_request, is_note, note_open, sender_of
from godwit.runtime.node_interfaces import ChangeRecorder, Disk, Machine, NodeObserver, Port
from godwit.runtime.node_timers import NodeTimers
from godwit.runtime.snapshot_writer import SnapshotWriter
from godwit.runtime.urgency import Urgency
from godwit.runtime.write_pacing import WritePacing
from godwit.trace import Record

__all__ = ["Disk", "Machine", "Node", "NodeObserver", "Port", "client_line"]

SNAPSHOT_BYTES = 32 * 2**20
RETRY_S = 1.0
BATCH_BYTES_MAX = 2**20  # of inputs, more or less, that are handled while the disk works
TURN_S = 0.008  # largest duration of a turn: a new input waits for three or four of them
LITTLE_MAX = 4  # inputs of such a client
LINE_S = 0.002  # slice of one line


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
        recorder: ChangeRecorder | None = None,
    ) -> None:
        self._make = make
        self.journal = journal
        self._recorder, self._read = recorder, inputs_of if recorder is None else recorder.read
        self._clock = clock
        self._writer = writer if journal is None or writer is not None else ThreadPoolExecutor(1, "journal")
        self._saving: SnapshotWriter | None = None
        self._on_record, self._on_trouble = on_record, on_trouble
        self.on_relief: list[Callable[[], None]] = []  # called when peers may be read again
        self.watch: NodeObserver | None = None  # the observer
        self.writing_since = 0.0  # start of the present write; 0: none
        self.machine = make()
        self.ports: dict[str, Port] = {}  # links by the peer's name, clients by the connection's
        self.trouble = ""  # why no inputs are accepted at present
        self.now = 0.0
        self._intake = Intake()
        self._entries: list[JournalEntry] = []  # handled, and not yet given to the journal
        self._batch_bytes = 0  # of these
        self._effects: list[Effect] = []  # of these
        self._closed = ClosedConnections()
        self._pacing, self.urgency = WritePacing(clock), Urgency()
        self._timers = NodeTimers(clock, self._on_due)  # as far as the journal goes
        self._open: dict[Input, None] = {}  # links and connections, likewise, each as its end
        self._is_due = self._is_writing = False  # a turn, a batch
        self._is_faulty = False  # the machine is broken, and must be restored
        self._has_held = False  # inputs back, and peers may not be read
        self._snapshot_bytes = SNAPSHOT_BYTES  # so much is written before the next one
        self._failures = 0  # of the disk, since it last worked
        self._is_closing = self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self.is_quiet = True  # all inputs are handled and safe, and their effects carried out
        self._on_quiet: list[asyncio.Future[None]] = []  # of those who wait for that
        if journal is not None:
            assert self._writer is not None
            self._saving = SnapshotWriter(journal, self._writer, self._go_on, self._on_snapshot)
            self._recover(journal)

    # ------------------------------------------------------------ inputs

    def tell(self, input: Input, packed: bytes = b"", line: str = "") -> bool:
        """Add an input for the machine; `packed`: its encoded message, as received; `line`: its queue.

        Returns whether that is so long that its transport should stop reading. (rule 6)
        """
        if not self._is_due:
            self._is_due = True
            self.is_quiet = False
            self._loop.call_soon(self._turn)
        return self._intake.put(line or sender_of(input), input, packed)

    def _on_due(self, key: TimerKey, at: float) -> None:
        self.now = max(self.now, at)  # rule 5
        self.tell(TimerDue(key))

    def is_long(self, line: str) -> bool:
        """Whether a line is so long that its transport should stop reading. (rule 6)"""
        found = self._intake.line(line)
        return found is not None and found.is_long

    def when_short(self, line: str, call: Callable[[], None]) -> None:
        """Call this when a line is short, after its next slice; soon if it is empty."""
        found = self._intake.line(line)
        if found is not None:
            found.on_short += (call,)
        else:
            self._loop.call_soon(call)

    def _turn(self) -> None:
        """Handle waiting inputs, for one turn."""
        self._is_due = False
        if self._is_closed or (self.journal is not None and self.holds()):
            return
        intake, urgency = self._intake, self.urgency
        inputs: list[tuple[Input, bytes]] = []
        now = self.now = max(self.now, self._clock.time())
        handle, effects, entries, closed = self.machine.handle, self._effects, self._entries, self._closed
        has_journal, has_closed, recorder = self.journal is not None, bool(closed), self._recorder
        input: Input | None = None
        line: Line | None = None
        has_more, measured, room = True, self._clock.work, BATCH_BYTES_MAX - self._batch_bytes
        began = at = measured()
        try:
            while has_more and (took_s := at - began) < TURN_S and room > 0:
                is_late = took_s >= urgency.left_s and (urgency.is_on or intake.has_light)  # rule 6
                line = intake.next(is_late=is_late)
                if line is None:
                    has_more = bool(intake)
                    break
                slice_began, ends, waiting = at, at + LINE_S, line.inputs
                if intake.is_light and 0 < len(waiting) <= LITTLE_MAX and not urgency.is_new:
                    urgency.is_new = has_request(waiting)
                while waiting and (at < ends or (ends and is_note(input))):
                    if at >= ends:
                        ends = 0.0  # one more: what a note belongs to (rule 11)
                    each = waiting.pop(0)
                    input, packed = each
                    line.bytes -= (size := len(packed))
                    room -= size
                    if has_closed and type(input) is Heard and input.connection in closed:  # rule 9
                        continue
                    inputs.append(each)
                    done = handle(input, now)
                    effects += done
                    if done and Close in map(type, done):
                        closed.close(effect.peer for effect in done if type(effect) is Close)
                        has_closed = True
                    if has_journal:
                        if recorder is None:
                            entries.append(entry_of(input, packed, now))
                        if type(input) not in (Heard, Arrived):
                            note_open(input, self._open)
                    at = measured()
                has_more = intake.put_back(line, at - slice_began)
        except Exception as error:
            assert line is not None
            intake.put_back(line)
            self._on_fault(input, error, line.name)
            has_more = bool(intake)
            if recorder is not None:
                recorder = None
                effects.clear()  # also if the restart waits for a snapshot: nothing of the turn is written
        if recorder is not None and inputs:  # rule 10
            entries += recorder.of_turn(now)
        if not has_more:
            closed.forget()
        elif not self._is_writing or (room > 0 and not urgency.uses_up(at - began)):
            if not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._turn)
        elif room > 0:
            urgency.rest_backlog(self._clock, self._go_on)
        if self.watch is not None:
            self.watch.on_turn(inputs, at - began, now)
        self._batch_bytes = BATCH_BYTES_MAX - room if has_journal else 0
        if not has_journal:
            urgency.end()
            if effects or self._pacing.waiting:  # there are none of confirmations
                self._carry_out(self._taken_effects())
            if not self._is_due:
                self._be_quiet()
        elif not self._is_writing:
            self._write()

    @property
    def unsafe(self) -> int:
        """The number of handled inputs that are not given to the disk yet."""
        return len(self._entries)

    @property
    def unhandled(self) -> int:
        """The number of waiting inputs."""
        return len(self._intake)

    @property
    def unhandled_bytes(self) -> int:
        """Their size."""
        return self._intake.size

    @property
    def is_held(self) -> bool:
        """Whether no inputs are accepted at present."""
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
        """Whether peers must not be read now; if so, `on_relief` follows. Never without a journal."""
        if self.journal is None:
            return False
        if is_held := self.is_held:
            self._has_held = True
        return is_held

    def _taken_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # ------------------------------------------------------------ the journal

    def _write(self) -> None:
        """Write the handled inputs to the journal; carry out their effects when they are safe."""
        self.urgency.begin_batch()
        self._batch_bytes = 0
        if not self._entries:
            self.urgency.end()
            self._carry_out(self._taken_effects())
            self._rest()
            return
        entries, self._entries = self._entries, []
        effects = self._taken_effects()
        self._is_writing, self.writing_since = True, self.now
        self._append(msgspec.msgpack.encode(entries), effects)

    def _append(self, batch: bytes, effects: list[Effect]) -> None:
        assert self.journal is not None
        assert self._writer is not None
        if self._is_closed:  # it waits for a retry
            return
        written = self._loop.run_in_executor(self._writer, self.journal.append, batch)
        written.add_done_callback(lambda done: self._on_written(done, batch, effects))

    def _on_written(self, done: "asyncio.Future[int]", batch: bytes, effects: list[Effect]) -> None:
        if done.cancelled() or self._is_closed:
            return
        if (error := done.exception()) is not None:  # rule 2
            if not self.trouble:
                self._on_trouble(str(error))
            self.trouble = str(error) or type(error).__name__
            self._failures += 1
            if self._failures & (self._failures - 1) == 0 and not self._is_closing:  # at once, then less and less often
                self._snapshot_instead(batch, effects)
                return
            self._try_again(batch, effects)
            return
        self.trouble, self._failures = "", 0
        self.urgency.end_batch(has_more=bool(self._entries))
        if self.watch is not None:
            self.watch.on_written(max(0.0, self._clock.time() - self.writing_since), len(batch))
        self._is_writing, self.writing_since = False, 0.0
        if effects or self._pacing.waiting:
            self._carry_out(effects)
        if self._is_faulty:
            self._start_again()
        elif self._entries or self._effects:
            self._write()
        elif self._is_snapshot_due():
            self._snapshot()
        self._go_on()

    def _rest(self) -> None:
        """Be quiet, unless something is left to do."""
        if not (self._is_due or self._intake or self._is_saving):
            self._be_quiet()

    def _be_quiet(self) -> None:
        """Tell those who wait in `quiet`."""
        self.is_quiet = True
        while self._on_quiet:
            waiter = self._on_quiet.pop(0)
            if not waiter.done():
                waiter.set_result(None)

    def _try_again(self, batch: bytes, effects: list[Effect]) -> None:
        self._clock.call_later(RETRY_S, self._append, batch, effects)
        if self._is_closing:  # it was not acknowledged
            self._be_quiet()

    def _snapshot_instead(self, batch: bytes, effects: list[Effect]) -> None:
        """A batch cannot be appended. If the disk is full, a snapshot that includes it makes room. (rule 8)"""
        journal, writer = self.journal, self._writer
        assert journal is not None
        assert writer is not None
        timers = self._timers.times_after((*effects, *self._effects))  # of all that the machine has handled
        assert self._saving is not None
        self._saving.drop()  # this one is newer
        pieces = self._packing_with(timers).advance(lambda: False)
        assert pieces is not None
        done = self._loop.run_in_executor(writer, journal.snapshot, journal.number + 1, b"".join(pieces))
        done.add_done_callback(lambda done: self._on_snapshot_instead(done, batch, effects))

    def _on_snapshot_instead(self, done: "asyncio.Future[None]", batch: bytes, effects: list[Effect]) -> None:
        if done.cancelled() or self._is_closed:
            return
        if done.exception() is not None:
            self._try_again(batch, effects)
            return
        self.trouble, self._failures = "", 0
        self._is_writing, self.writing_since = False, 0.0
        self.urgency.end()
        self._entries.clear()
        self._carry_out([*effects, *self._taken_effects()])
        if self._is_faulty:
            self._start_again()
        self._go_on()

    def _go_on(self) -> None:
        """Handle waiting inputs as soon as possible."""
        if self._is_closed or self.is_held:
            return
        if self._has_held:
            self._has_held = False
            for read_on in self.on_relief:
                read_on()
        if self._intake and not self._is_due:
            self._turn()
        elif not self._is_writing:
            self._rest()

    def _is_snapshot_due(self) -> bool:
        journal = self.journal
        assert journal is not None
        return not self._is_saving and (journal.is_cramped or journal.bytes_since_snapshot > self._journal_bytes_max)

    def _is_overfull(self) -> bool:
        """Whether inputs must wait for the snapshot that is under way. (rule 4)"""
        journal = self.journal
        assert journal is not None
        return journal.is_cramped or journal.bytes_since_snapshot > 2 * self._journal_bytes_max

    @property
    def _journal_bytes_max(self) -> int:
        """Bytes after which a snapshot is due."""
        assert self.journal is not None
        return max(self._snapshot_bytes, self.journal.snapshot_bytes)

    def _snapshot(self) -> None:
        """Copy the state of the machine, and write it."""
        assert self.journal is not None
        assert self._saving is not None
        self._saving.begin(self._packing_with(self._timers.times()), self.journal.number)

    def _packing_with(self, timers: dict[TimerKey, float]) -> Packing:
        """The present machine, with these timers running."""
        waiting = () if (due := self._intake.line(TIMERS)) is None else due.inputs
        for input, _ in waiting:  # due but not handled yet: it must be due again after a crash
            if isinstance(input, TimerDue):
                timers.setdefault(input.key, self.now)
        return packing(self.machine, DriverState(timers, open_ends(self._open), self.now))

    def _on_snapshot(self, error: BaseException | None) -> None:
        if self._is_closed:
            return
        self._snapshot_bytes = SNAPSHOT_BYTES
        if error is not None:  # the batches are still there: nothing is lost
            assert self.journal is not None
            self._snapshot_bytes = 2 * self.journal.bytes_since_snapshot
            self.journal.is_cramped = False  # until the next check
            self._on_trouble(f"no snapshot could be written: {error}")
        if self._is_faulty and not self._is_writing:
            self._start_again()
        self._go_on()

    def _recover(self, journal: Disk) -> None:
        """Restore the machine. Called before anything is open."""
        self.machine, self._open = self._make(), {}
        self._timers.replace({})
        after, read = 0, self._read
        if (snapshot := journal.last_snapshot()) is not None:
            after = snapshot[0]
            try:
                driver = unpack(snapshot[1], self.machine)
            except SnapshotError as error:
                raise JournalError(
                    f"{journal.where}: snapshot {after}: {error}. Either start the version of Godwit that wrote it to "
                    "drain it, or move the folder away and start with an empty journal. The snapshot and the batches "
                    "after it were not changed"
                ) from None
            self.now = driver.now
            if self._recorder is None:  # rule 10
                self._timers.replace(driver.timers)
                self._open = gone(driver.open)
        is_again = snapshot is not None
        for batch in journal.batches(after):
            is_again = True
            for input, self.now in read(batch):
                if isinstance(input, TimerDue):
                    self._timers.forget(input.key)
                note_open(input, self._open)
                for effect in self.machine.handle(input, self.now):
                    self._timers.note(effect)
                    if type(effect) is Close:
                        self._open.pop(Closed(effect.peer), None)
        self._timers.run()
        if is_again and self._recorder is None:
            self.tell(Restarted())
        for end in list(self._open):
            self.tell(end)
        if journal.loss is not None and journal.loss.incarnation:  # rule 7
            self.tell(TailLost(journal.loss.incarnation, journal.loss.since))

    def _on_fault(self, input: Input | None, error: Exception, line: str) -> None:
        """The machine has raised an exception. (rule 3)"""
        self._on_trouble(f"{type(error).__name__} in the broker's machine, at {type(input).__name__}: {error}")
        if self.journal is None:
            name = sender_of(input)
            if name != TIMERS:
                self._intake.drop(line)
            if (port := self.ports.pop(name, None)) is not None:
                self.tell(LinkDown(name) if hasattr(input, "peer") else Closed(name), line=line)
                port.close("the broker could not handle the message")
            return
        self._is_faulty = True
        if not self._is_writing:
            self._start_again()

    def _start_again(self) -> None:
        """Restore the machine from the journal, and close all connections; later, if a snapshot is under way."""
        assert self.journal is not None
        if self._is_saving:
            return
        self._is_faulty = False
        self._timers.stop()
        self._pacing.stop()
        self.urgency.end()
        self._entries.clear()
        self._effects.clear()
        for port in list(self.ports.values()):
            port.close("the broker restarts")
        self.ports.clear()
        self._intake.clear()  # of connections that are closed now
        self._closed.clear()
        self._recover(self.journal)

    # ------------------------------------------------------------ effects

    def _carry_out(self, effects: list[Effect]) -> None:
        if self.watch is not None and effects:
            self.watch.on_effects(effects, self.now)
        port_of = self.ports.get
        told: list[Port] = []
        links: dict[Port, None] = {}
        for effect in effects:
            kind = type(effect)
            if kind is Tell:  # the most frequent effect
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
        """Run a function on the journal, in its writer thread."""
        await self._loop.run_in_executor(self._writer, work)

    # ------------------------------------------------------------ the end

    async def quiet(self) -> None:
        """Wait until `is_quiet`."""
        if not self.is_quiet:
            waiter = self._loop.create_future()
            self._on_quiet.append(waiter)
            await waiter

    async def save(self) -> None:
        """Write a snapshot now, so that the next start is quick. If it fails, nothing is lost."""
        if self.journal is None or self.trouble:
            return
        await self.quiet()
        if self.journal.bytes_since_snapshot:
            self.is_quiet = False
            self._snapshot()
            await self.quiet()

    async def close(self) -> None:
        """Handle the waiting inputs, unless the disk fails, and close everything."""
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
        if self._writer is not None and self.journal is not None:
            self._writer.shutdown(wait=True)
            self.journal.close()

    def abandon(self) -> None:
        """Stop at once, as if the process were killed: nothing more is handled, written or sent."""
        self._is_closed = True
        if self._saving is not None:
            self._saving.drop()
        self._timers.stop()
        self._pacing.stop()
        self.ports.clear()
        self._intake.clear()
        self._be_quiet()
        if self._writer is not None:
            self._writer.shutdown(wait=False, cancel_futures=True)
