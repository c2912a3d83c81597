"""The published position of an event log, and the name and numbers of its events.

*Theory.* `godwit pub --log` publishes a log under one name, and records its position from time to time. Events have the
same numbers each time, so events that are published again after a kill are dropped by the sessions that have them.

*Rule.* One process at a time publishes a log; others may read and write it.
"""

from pathlib import Path

from godwit.errors import EventLogError
from godwit.event_log.log_format import ABOUT, PUBLISHED, PUBLISHING, Position, about_log, read_json, write_json
from godwit.event_log.segment_files import first_position, gone_before
from godwit.locking import locked

__all__ = ["PublishProgress"]


class PublishProgress:
    """The published position of a log, and the name and numbers of its events. To be closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / ABOUT).exists():
            raise EventLogError(f"{folder} is not an event log: there is no {ABOUT} in it")
        about = about_log(folder)
        self._lock = locked(folder, PUBLISHING, EventLogError, "being published by process {}")
        self.meant = str(about.get("publisher", ""))  # the publisher name that the author of the log chose
        self.publisher = ""
        self.first = 0  # the number of the first event in the log
        self.keeps = False  # events have been published under this name before, and keep their numbers
        self.events = 0
        self.position = first_position(folder)
        path = folder / PUBLISHED
        try:
            if path.exists():
                said = read_json(path)
                self.publisher, self.first, self.keeps = said["publisher"], said["first"], said["keeps"]
                self.events, self.position = said["events"], Position(said["segment"], said["bytes"])
        except (EventLogError, KeyError, TypeError):
            self._lock.close()
            raise EventLogError(f"{path} has no valid position") from None

    def begin(self, publisher: str, first: int, *, keeps: bool) -> None:
        """Set the name and the first number, before anything is published."""
        assert not self.publisher
        self.publisher, self.first, self.keeps = publisher, first, keeps
        self.reached(self.position, 0)

    def skip_removed(self) -> str:
        """Continue at the first existing segment, if the present one was removed; returns a description of what is
        skipped."""
        gone = gone_before(self.folder, self.position, first_position(self.folder).segment)
        if gone:
            self.reached(first_position(self.folder), 0)
        return gone

    def reached(self, position: Position, events: int) -> None:
        """Brokers have acknowledged `events` more events, up to a position."""
        self.position, self.events = position, self.events + events
        data = {"publisher": self.publisher, "first": self.first, "keeps": self.keeps, "events": self.events}
        write_json(self.folder / PUBLISHED, {**data, **self.position._asdict()})

    def close(self) -> None:
        """Unlock the log."""
        self._lock.close()
