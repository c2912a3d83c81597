"""How far an event log has been published, and under which name and numbers.

*Theory.* `godwit pub --log` publishes a log under one name, and records now and then how far it is. Events have the
same numbers each time, so what is published again after the process was killed is dropped by the sessions that got it.

*Rule.* One process at a time publishes a log; others may read and write it.
"""

from pathlib import Path

from godwit.errors import EventLogError
from godwit.event_log.log_format import ABOUT, PUBLISHED, PUBLISHING, Position, about_log, read_json, write_json
from godwit.event_log.segment_files import first_position, gone_before
from godwit.locking import locked

__all__ = ["PublishProgress"]


class PublishProgress:
    """How far a log is published, and under which name and numbers. To be closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / ABOUT).exists():
            raise EventLogError(f"{folder} is not an event log: there is no {ABOUT} in it")
        about = about_log(folder)
        self._lock = locked(folder, PUBLISHING, EventLogError, "being published by process {}")
        self.meant = str(about.get("publisher", ""))  # the name that whoever made the log wants it to have
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
            raise EventLogError(f"{path} does not say how far the log is published") from None

    def begin(self, publisher: str, first: int, *, keeps: bool) -> None:
        """Publish it under this name, from this number on: before anything is published."""
        assert not self.publisher
        self.publisher, self.first, self.keeps = publisher, first, keeps
        self.reached(self.position, 0)

    def skip_removed(self) -> str:
        """Go on at the first segment that is there, if the one that was reached is gone: what is skipped, in words."""
        gone = gone_before(self.folder, self.position, first_position(self.folder).segment)
        if gone:
            self.reached(first_position(self.folder), 0)
        return gone

    def reached(self, position: Position, events: int) -> None:
        """Brokers have all that is before a position, which were so many events more."""
        self.position, self.events = position, self.events + events
        data = {"publisher": self.publisher, "first": self.first, "keeps": self.keeps, "events": self.events}
        write_json(self.folder / PUBLISHED, {**data, **self.position._asdict()})

    def close(self) -> None:
        """Let others publish it."""
        self._lock.close()
