"""Notifications that wait to go out, and the user subscriptions they belong to, on the disk of the peer.

*Rules.*
1. A notification is in the file before anybody is told of the change that caused it, and stays until its channel has
   taken it or it was given up. After a crash it may go out twice: it bears its number, so a receiver can tell.
2. At most `WAITING_MAX` wait for one subscription and channel. Beyond that the oldest goes, and is counted: the next
   notification says how many were left out.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from godwit.teamwork.machine.notification_rules import Channel, Notification, UserSubscription
from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["Batch", "NotificationQueue"]

FILE = "notifications.sqlite"
WAITING_MAX = 1_000
LAYOUT = Layout(
    "godwit: notifications of a peer",
    1,
    """
CREATE TABLE subscriptions (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE waiting (
    number INTEGER PRIMARY KEY AUTOINCREMENT, subscription TEXT NOT NULL, channel BLOB NOT NULL,
    due REAL NOT NULL, first REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, body BLOB NOT NULL
);
CREATE INDEX waiting_by_due ON waiting (due);
CREATE INDEX waiting_by_channel ON waiting (subscription, channel);
CREATE TABLE left_out (subscription TEXT, channel BLOB, count INTEGER NOT NULL, PRIMARY KEY (subscription, channel));
""",
)


class Batch(msgspec.Struct, frozen=True):
    """Notifications of one subscription that go out together by one channel."""

    subscription: UserSubscription
    channel: Channel
    numbers: tuple[int, ...]
    notifications: tuple[Notification, ...]
    attempts: int
    first: float
    """When the oldest of them was due."""
    left_out: int = 0


class NotificationQueue:
    """The file in the folder of a peer."""

    def __init__(self, folder: Path) -> None:
        self._file = SqliteFile(folder / FILE, LAYOUT)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    # ------------------------------------------------------------ subscriptions

    def subscriptions(self) -> list[UserSubscription]:
        """All user subscriptions, by identifier."""
        rows = self._file.rows("SELECT body FROM subscriptions ORDER BY id")
        return [msgspec.msgpack.decode(body, type=UserSubscription) for (body,) in rows]

    def put(self, subscription: UserSubscription) -> None:
        """Keep a subscription, in place of the one with that identifier."""
        row = (subscription.id, msgspec.msgpack.encode(subscription))
        self._file.run("INSERT OR REPLACE INTO subscriptions VALUES (?, ?)", row)

    def remove(self, id: str) -> bool:
        """End a subscription, with all that waits for it; whether there was one."""
        with self._file.transaction():
            for table in ("waiting", "left_out"):
                self._file.run(f"DELETE FROM {table} WHERE subscription = ?", [id])
            return self._file.run("DELETE FROM subscriptions WHERE id = ?", [id]).rowcount > 0

    # ------------------------------------------------------------ notifications

    def add(self, subscription: UserSubscription, notification: Notification, due: float) -> None:
        """Let a notification go out by all channels of its subscription, not before `due`."""
        with self._file.transaction():
            for channel in subscription.channels:
                key = msgspec.msgpack.encode(channel)
                self._file.run(
                    "INSERT INTO waiting (subscription, channel, due, first, body) VALUES (?, ?, ?, ?, ?)",
                    (subscription.id, key, due, due, msgspec.msgpack.encode(notification)),
                )
                self._make_room(subscription.id, key)

    def _make_room(self, id: str, key: bytes) -> None:
        """Let the oldest go. (rule 2)"""
        of_channel = "subscription = ? AND channel = ?"
        [count] = self._file.row(f"SELECT count(*) FROM waiting WHERE {of_channel}", (id, key))
        if count > WAITING_MAX:
            oldest = f"SELECT number FROM waiting WHERE {of_channel} ORDER BY number LIMIT ?"
            self._file.run(f"DELETE FROM waiting WHERE number IN ({oldest})", (id, key, count - WAITING_MAX))
            self._file.run(
                "INSERT INTO left_out VALUES (?, ?, ?) "
                "ON CONFLICT (subscription, channel) DO UPDATE SET count = count + excluded.count",
                (id, key, count - WAITING_MAX),
            )

    def next_due(self) -> float | None:
        """When the next one is due."""
        [due] = self._file.row("SELECT min(due) FROM waiting")
        return None if due is None else float(due)

    def due(self, now: float) -> list[Batch]:
        """What is to go out now."""
        subscriptions = {each.id: each for each in self.subscriptions()}
        batches = []
        groups = self._file.rows("SELECT DISTINCT subscription, channel FROM waiting WHERE due <= ?", [now])
        for id, key in groups:
            rows = self._file.rows(
                "SELECT number, attempts, first, body FROM waiting "
                "WHERE subscription = ? AND channel = ? AND due <= ? ORDER BY number",
                (id, key, now),
            )
            if id not in subscriptions:
                self.sent([number for number, *_ in rows])
                continue
            left_out = self._file.row("SELECT count FROM left_out WHERE subscription = ? AND channel = ?", (id, key))
            batches.append(
                Batch(
                    subscriptions[id],
                    msgspec.msgpack.decode(key, type=Channel),
                    tuple(number for number, *_ in rows),
                    tuple(msgspec.msgpack.decode(body, type=Notification) for *_, body in rows),
                    max(attempts for _, attempts, *_ in rows),
                    min(first for _, _, first, _ in rows),
                    left_out[0] if left_out else 0,
                )
            )
        return batches

    def sent(self, numbers: Sequence[int]) -> None:
        """A channel has taken these, or they were given up."""
        self._file.run_many("DELETE FROM waiting WHERE number = ?", [(number,) for number in numbers])

    def told_of_left_out(self, batch: Batch) -> None:
        """The user has been told how many were left out."""
        key = msgspec.msgpack.encode(batch.channel)
        self._file.run(
            "UPDATE left_out SET count = count - ? WHERE subscription = ? AND channel = ?",
            (batch.left_out, batch.subscription.id, key),
        )

    def failed(self, numbers: Sequence[int], due: float) -> None:
        """A channel did not take these: try again then."""
        self._file.run_many(
            "UPDATE waiting SET due = ?, attempts = attempts + 1 WHERE number = ?",
            [(due, number) for number in numbers],
        )
