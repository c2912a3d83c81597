"""Event logs at the command line: `godwit sub --log` fills one, `godwit pub --log` publishes one.

*Rules.*
1. An event is confirmed to the broker after it was written to the log: if the process is killed at any moment, no event
   is missing or duplicated.
2. A retry publishes under the same client name and sequence numbers: if the process is killed at any moment, each event
   reaches each session once.
3. With a size or age limit the oldest events are removed while the log is written, and also while no events arrive.
4. Losses that brokers report are printed on standard error: a queue that was full, a session that was forgotten.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from godwit.cli.signatures import echo
from godwit.errors import BadEvent, EventLogError, FilterError, GodwitError, Refused
from godwit.event_log import EventLog, Position, PublishProgress, Retention, lines_from
from godwit.event_log.log_format import segment_file
from godwit.filters.json_lines import whole_event_of

if TYPE_CHECKING:
    from godwit.filters.events import Event
    from godwit.runtime.network_client import NetworkClient, Subscription

__all__ = ["LogCapture", "capturing", "publish_log", "publishing"]

BATCH_EVENTS_MAX = 4_096  # written to the disk at once
TIDY_EVERY_S = 60.0
PUBLISHED_EVENTS_MAX = 512  # events that brokers may have before the position is stored


# ---------------------------------------------------------------- into a log


class LogCapture:
    """The log to which the events of a subscription are written."""

    def __init__(self, log: EventLog, *, is_known: bool) -> None:
        self.log = log
        self.name = log.name
        self._is_known = is_known  # the log has been filled before

    def attached(self, client: "NetworkClient") -> None:
        """A broker has accepted the connection, for the first time or again. (rule 4)"""
        if self._is_known and not client.was_known:
            _warn(f"no broker has a session of {self.name} any more: what was published since is not in the log")
        self._is_known = True
        if (receipt := client.receipt) is not None:
            gone = sum(receipt.purged.values()) + len(receipt.lost) + receipt.lost_more
            if gone:
                _warn(f"{gone:,} events are not in the log: the broker's queue was full while the client was away")

    async def take_all(self, client: "NetworkClient", subscription: "Subscription", wanted: int | None) -> int:
        """Write events as they arrive, up to this number; returns how many there were."""
        written = 0
        with self._tidied():
            while wanted is None or written < wanted:
                most = BATCH_EVENTS_MAX if wanted is None else min(BATCH_EVENTS_MAX, wanted - written)
                events = await subscription.waiting(most)
                if not events:
                    break
                written += len(self.log.append(events))
                subscription.take(len(events))  # rule 1
        return written

    @contextmanager
    def _tidied(self) -> Iterator[None]:
        """Remove events that are too old from time to time. (rule 3)"""
        if self.log.keep.seconds is None:
            yield
            return
        from asyncio import get_running_loop

        loop = get_running_loop()

        def tidy() -> None:
            with suppress(OSError):  # writing the next event fails, too, and reports it
                self.log.tidy()
            timers[0] = loop.call_later(TIDY_EVERY_S, tidy)

        timers = [loop.call_later(TIDY_EVERY_S, tidy)]
        try:
            yield
        finally:
            timers[0].cancel()


@contextmanager
def capturing(folder: str, name: str, user: str, keep: Retention) -> Iterator[LogCapture]:
    """A log to write to, by a client with this name, or by the client that has written to it before."""
    log = EventLog(Path(folder), keep=keep)
    try:
        known = log.name
        if name and known and name != known:
            raise EventLogError(f"{folder} is the log of client {known!r}: use --name {known}, or another folder")
        if not known:
            log.name = name or f"{user}/log-{token_hex(6)}".removeprefix("/")
        yield LogCapture(log, is_known=bool(known))
    finally:
        log.close()


def _warn(text: str) -> None:
    echo(f"warning: {text}", err=True)


# ---------------------------------------------------------------- out of a log


@contextmanager
def publishing(folder: str, name: str, user: str, skip_removed: bool) -> Iterator[PublishProgress]:
    """The published position of a log, by a client with this name, or by the one that has published it before."""
    state = PublishProgress(Path(folder))
    try:
        if skip_removed and (gone := state.skip_removed()):
            _warn(f"{folder}: {gone} was removed before it was published, and is skipped")
        known = state.publisher
        if name and known and name != known:
            raise EventLogError(f"{folder} is published as {known!r} already: use --name {known}, or no --name")
        if not known:
            name = name or state.meant or f"{user}/log-{token_hex(6)}".removeprefix("/")
            first = next((event for _, event, _ in _events(state)), None)
            state.begin(name, int(time() * 1e6), keeps=first is not None and first.publisher == name)
        yield state
    finally:
        state.close()


async def publish_log(
    client: "NetworkClient",
    state: PublishProgress,
    said: dict[str, Any],
    strict: bool,
    on_event: "Callable[[Event], None]",
) -> tuple[int, int]:
    """Publish the events after the stored position; returns how many there were, and how many of them were refused."""
    published = refused = 0
    events = _events(state)
    last = 0
    while batch := list(islice(events, PUBLISHED_EVENTS_MAX)):
        asked = []
        for at, (where, event, _) in enumerate(batch):
            number = event.sequence if state.keeps else state.first + state.events + at
            if state.keeps and (event.publisher != state.publisher or number <= last):
                raise EventLogError(
                    f"{where}: event {event.publisher}:{event.sequence} is none of {state.publisher}'s, or not above "
                    f"number {last}: a log is published under the numbers that it holds, or under none of them"
                )
            last = number
            await client.room()
            plain = replace(event, attributes=_unstamped(event), published_at=None)
            asked.append((where, client.publish(plain, number=number, **said)))
        for where, each in asked:
            try:
                await each
            except Refused as error:
                refused += 1
                if strict:
                    raise GodwitError(f"{where}: refused: {error}") from None
                _warn(f"{where}: refused: {error}")
            if each.event is not None:
                on_event(each.event)
        state.reached(batch[-1][2], len(batch))
        published += len(batch)
    return published, refused


def _events(state: PublishProgress) -> "Iterator[tuple[str, Event, Position]]":
    """The events after the stored position, each with its place in the log and the position after it."""
    for line, position in lines_from(state.folder, state.position):
        where = f"{state.folder}/{segment_file(position.segment)}, before byte {position.bytes}"
        try:
            yield where, whole_event_of(msgspec.json.decode(line)), position
        except (msgspec.DecodeError, BadEvent, FilterError) as error:
            raise EventLogError(f"{where}: {error}") from None


def _unstamped(event: "Event") -> Any:
    """Its attributes without the context of the first publisher: this client has its own."""
    return {name: value for name, value in event.attributes.items() if not name.startswith("sender.")}
