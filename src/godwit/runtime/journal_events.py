"""The events in a broker's journal, to inspect what it has handled.

*Theory.* A journal has the inputs of a broker since its last snapshot, and the snapshot has its machine, with the
queued events. So the events are those in the queues of that machine, then those in the messages after it, from clients
and from other brokers. Events that were handled before the snapshot and are in no queue are not stored any more: for
all events use `godwit sub --log`.

*Rules.*
1. Nothing is changed: the journal of a running broker is read as a copy (`journal_copies.py`).
2. One event may occur several times, from several neighbours or for several clients. An event log stores it once.
3. A journal of another format is refused, and so is a snapshot of another version. Reading runs no code from them.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from godwit.broker.broker_state import BrokerState
from godwit.broker.effects import Arrived, Heard
from godwit.codec.batch_chains import BatchDamage, first_chain
from godwit.codec.journal_entries import inputs_of
from godwit.codec.snapshots import MACHINE, unpack_parts
from godwit.errors import JournalError
from godwit.event_log import EventLog
from godwit.filters.events import Event
from godwit.runtime.journal import FILE, about, check_format
from godwit.runtime.journal_checks import verified
from godwit.runtime.journal_copies import copied
from godwit.runtime.journal_snapshots import newest

__all__ = ["events_in", "log_of"]

WRAPPED_IN = ("wish", "message", "frame")
AT_ONCE = 1_000


def log_of(journal: Path, folder: Path) -> int:
    """Write the events of a journal to an event log, each once; returns how many."""
    log, written, batch = EventLog(folder), 0, []
    try:
        for event in events_in(journal):
            batch.append(event)
            if len(batch) == AT_ONCE:
                written += len(log.append(batch))
                batch = []
        return written + len(log.append(batch))
    finally:
        log.close()


def events_in(journal: Path) -> Iterator[Event]:
    """The events in the journal in a folder: those queued at its last snapshot, then those received."""
    file = journal / FILE if journal.is_dir() else journal
    if not file.is_file():
        raise JournalError(f"there is no journal in {journal}: no {FILE}")
    known = about(file)
    check_format(file, known)
    try:
        with TemporaryDirectory() as folder, closing(sqlite3.connect(copied(file, Path(folder)))) as disk:
            start, chain = 0, first_chain(int(known["incarnation"]))
            if (snapshot := newest(disk)) is not None:
                start, chain = snapshot.number, snapshot.chain
                if not snapshot.is_whole:
                    raise JournalError(f"{file}: snapshot {start} is not as it was written")
                yield from _waiting(snapshot.data)
            for _, _, data, _ in verified(disk, start, chain):
                for input, _ in inputs_of(data):
                    if isinstance(input, Heard | Arrived):
                        yield from _within(input.message if isinstance(input, Heard) else input.frame)
    except (sqlite3.Error, BatchDamage) as error:
        raise JournalError(f"{file}: {error}") from None


def _waiting(snapshot: bytes) -> Iterator[Event]:
    """The events in the queues of a machine."""
    machine = unpack_parts(snapshot)[MACHINE]
    for session in machine.sessions.sessions if isinstance(machine, BrokerState) else ():
        for item in (*session.queue.sent, *session.queue.waiting):
            yield item.event


def _within(message: Any) -> Iterator[Event]:
    """The events that a message carries, however it is wrapped."""
    event = getattr(message, "event", None)
    if isinstance(event, Event):
        yield event
    for name in WRAPPED_IN:
        if (inner := getattr(message, name, None)) is not None:
            yield from _within(inner)
    items = getattr(message, "items", None)
    for item in items if isinstance(items, tuple) else ():
        yield from _within(item)
