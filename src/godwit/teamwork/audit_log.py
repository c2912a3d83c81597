"""The audit log: which records this peer has shown to which user; durable, bounded, written before anything is shown.
[motion §2.1]

*Rules.*
1. `show` returns when the entry is on the disk. Whatever leaves the peer for another user leaves after it.
2. At most `ENTRIES_MAX` entries are kept. The oldest go first; `dropped` says how many have gone.
3. What the user of the peer reads on it is not recorded. A record that another user views again within `AGAIN_S` is not
   recorded again.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from time import time

import msgspec

from godwit.teamwork.machine.peer_effects import Happened, PeerReport
from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["AuditEntry", "AuditLog"]

FILE = "audit.sqlite"
VIEW = "view"
ENTRIES_MAX = 100_000
SPARE = 1_000  # entries over the limit before the oldest go, so that not every entry removes one
ENTRIES_AT_ONCE = 1_000
AGAIN_S = 60.0
REMEMBERED_MAX = 10_000
LAYOUT = Layout(
    "godwit: audit log of a peer",
    1,
    """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, user TEXT NOT NULL, way TEXT NOT NULL,
    scope TEXT NOT NULL, record TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX entries_by_user ON entries (user, number)
""",
)


class AuditEntry(msgspec.Struct, frozen=True):
    """Something was shown to somebody."""

    number: int
    time: float
    user: str
    """To whom."""
    way: str
    """search, file, view (by a thin client), member (a role, which shows all of a scope), refused (nothing shown)"""
    scope: str
    record: str
    detail: str = ""
    """What else is known: a device, a content, a role."""


class AuditLog:
    """The log in the folder of a peer. A listener of `LivePeer`, for roles that are given and taken."""

    def __init__(
        self, folder: Path, user: str, now: Callable[[], float] = time, *, entries_max: int = ENTRIES_MAX
    ) -> None:
        """`user`: whose peer it is; `now`: the time of day."""
        self._file = SqliteFile(folder / FILE, LAYOUT)
        self._user, self._now, self._entries_max = user, now, entries_max
        self._viewed: dict[tuple[str, str, str], float] = {}  # by user, scope and record, when it was recorded last

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def show(self, what: Iterable[tuple[str, str]], to: str, way: str = VIEW, detail: str = "") -> None:
        """These records, by scope and name, are about to be shown to a user. (rules 1 and 3)"""
        if to == self._user:
            return
        now = self._now()
        rows = [(now, to, way, scope, record, detail) for scope, record in what]
        if way == VIEW:
            rows = [row for row in rows if not self._was_viewed(to, *row[3:5], now)]
        if not rows:
            return
        with self._file.transaction():
            self._file.run_many(
                "INSERT INTO entries (time, user, way, scope, record, detail) VALUES (?, ?, ?, ?, ?, ?)", rows
            )
            first, last = self._file.row("SELECT min(number), max(number) FROM entries")
            if last - first >= self._entries_max + min(SPARE, self._entries_max):
                self._file.run("DELETE FROM entries WHERE number <= ?", [last - self._entries_max])

    def _was_viewed(self, user: str, scope: str, record: str, now: float) -> bool:
        """Whether a view was recorded lately; it is from now on. (rule 3)"""
        before = self._viewed.get((user, scope, record))
        if before is not None and now - AGAIN_S < before <= now:
            return True
        if len(self._viewed) >= REMEMBERED_MAX:
            self._viewed.clear()
        self._viewed[user, scope, record] = now
        return False

    def entries(
        self, since: int = 0, *, user: str = "", count: int = ENTRIES_AT_ONCE, newest: bool = False
    ) -> list[AuditEntry]:
        """Entries after a number, the earliest first; of one user, if told. `newest`: the latest first."""
        of_user, values = (" AND user = ?", [since, user, count]) if user else ("", [since, count])
        order = "number DESC" if newest else "number"
        statement = f"SELECT * FROM entries WHERE number > ?{of_user} ORDER BY {order} LIMIT ?"
        return [AuditEntry(*row) for row in self._file.rows(statement, values)]

    @property
    def dropped(self) -> int:
        """How many entries have gone. (rule 2)"""
        [first] = self._file.row("SELECT min(number) FROM entries")
        return 0 if first is None else int(first) - 1

    def __call__(self, happened: PeerReport) -> None:
        """Record a role in a scope: it shows all of it to the user, by copies at the user's own peers."""
        if not isinstance(happened, Happened) or happened.added.refused or happened.added.change.kind != "member":
            return
        change = happened.added.change
        said = " ".join(str(change.fields[name]) for name in ("state", "role") if name in change.fields)
        user = change.record.partition("/")[2]
        self.show([(change.scope, change.record)], user, "member", f"{said} (by {change.user})")
