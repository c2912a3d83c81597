"""The inbox of a user on this device: notifications, read or unread, and meetings with a reminder due.

Both are tables in the file of the notification queue, so that notifications and pending messages are stored in one
transaction.

*Rules.*
1. Every notification is here from the moment at which it is made. Quiet hours and digests hold back what is sent.
2. At most `TOLD_MAX` are kept: beyond that the oldest goes, those that were read first.
3. A reminder is told once for each time that is chosen for its meeting. That it was told is noted until the meeting is
   over.
"""

from collections.abc import Iterable

import msgspec

from godwit.teamwork.machine.notification_rules import Notification, Reminder, how_to_end
from godwit.teamwork.sqlite_file import SqliteFile

__all__ = ["Inbox", "Reminders", "Told"]

TOLD_MAX = 10_000


class Told(msgspec.Struct, frozen=True):
    """Something that a user was told."""

    notification: Notification
    subscription_name: str
    read: float | None
    """When; None: not yet."""

    @property
    def id(self) -> int:
        return self.notification.id

    @property
    def to_end(self) -> str:
        """How to end the subscription that caused it."""
        return how_to_end(self.notification.subscription)


class Inbox:
    """The list of notifications."""

    SCHEMA = """
CREATE TABLE told (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, read REAL, body BLOB NOT NULL);
CREATE INDEX told_by_read ON told (read IS NULL, number);
"""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def add(self, name: str, notification: Notification) -> Notification:
        """Keep a notification of a subscription of this name; the notification with its identifier."""
        body = msgspec.msgpack.encode(notification)
        number = self._file.run("INSERT INTO told (name, body) VALUES (?, ?)", (name, body)).lastrowid or 0
        [count] = self._file.row("SELECT count(*) FROM told")
        if count > TOLD_MAX:  # (rule 2)
            oldest = "SELECT number FROM told ORDER BY read IS NULL, number LIMIT ?"
            self._file.run(f"DELETE FROM told WHERE number IN ({oldest})", [count - TOLD_MAX])
        return msgspec.structs.replace(notification, id=number)

    def newest(self, count: int, before: int | None = None, *, only_unread: bool = False) -> list[Told]:
        """The newest ones, of those before an identifier, if one is given."""
        unread = "AND read IS NULL" if only_unread else ""
        rows = self._file.rows(
            f"SELECT number, name, read, body FROM told WHERE (? IS NULL OR number < ?) {unread} "
            "ORDER BY number DESC LIMIT ?",
            (before, before, count),
        )
        return [
            Told(msgspec.structs.replace(msgspec.msgpack.decode(body, type=Notification), id=number), name, read)
            for number, name, read, body in rows
        ]

    def unread(self) -> int:
        """How many were not read."""
        return int(self._file.row("SELECT count(*) FROM told WHERE read IS NULL")[0])

    def mark(self, ids: Iterable[int], now: float | None) -> None:
        """Note that these were read now; None: that they were not. Identifiers that are not there are ignored."""
        self._file.run_many("UPDATE told SET read = ? WHERE number = ?", [(now, id) for id in ids])


class Reminders:
    """Meetings of which the user is to be reminded, and those of which the user was."""

    SCHEMA = """
CREATE TABLE reminders (
    scope TEXT, record TEXT, due REAL NOT NULL, begins REAL NOT NULL, ends REAL NOT NULL,
    is_told INTEGER NOT NULL DEFAULT 0, body BLOB NOT NULL, PRIMARY KEY (scope, record)
) WITHOUT ROWID;
CREATE INDEX reminders_by_due ON reminders (is_told, due);
"""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def put(self, reminder: Reminder) -> None:
        """Remind of this meeting, unless the user was reminded of it at this time. (rule 3)"""
        body = msgspec.msgpack.encode(reminder)
        self._file.run(
            "INSERT INTO reminders (scope, record, due, begins, ends, body) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (scope, record) DO UPDATE SET is_told = is_told AND begins = excluded.begins, "
            "due = excluded.due, begins = excluded.begins, ends = excluded.ends, body = excluded.body",
            (reminder.scope, reminder.record, reminder.due, reminder.begins, reminder.ends, body),
        )

    def remove(self, scope: str, record: str) -> None:
        """Do not remind of this meeting."""
        self._file.run("DELETE FROM reminders WHERE scope = ? AND record = ?", (scope, record))

    def next_due(self) -> float | None:
        """When the next one is due."""
        [due] = self._file.row("SELECT min(due) FROM reminders WHERE NOT is_told")
        return None if due is None else float(due)

    def due(self, now: float) -> list[Reminder]:
        """Of what to remind now. Meetings that are over are forgotten."""
        self._file.run("DELETE FROM reminders WHERE ends <= ?", [now])
        rows = self._file.rows("SELECT body FROM reminders WHERE NOT is_told AND due <= ? ORDER BY due", [now])
        return [msgspec.msgpack.decode(body, type=Reminder) for (body,) in rows]

    def told(self, reminder: Reminder) -> None:
        """The user was reminded of this."""
        self._file.run(
            "UPDATE reminders SET is_told = 1 WHERE scope = ? AND record = ?", (reminder.scope, reminder.record)
        )
