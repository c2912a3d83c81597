"""Notifications that wait to be sent, and their user subscriptions, on the disk of the peer.

*Rules.*
1. The file says how far the repository was followed (`Place`), and is written together with the notifications that
   come from it. So a change notifies once, whenever the process ends.
2. A notification stays until its channel has taken it or it was given up. What is sent together is written down before
   the first attempt (`begin`), and all attempts send the same under the same identifier; others wait until it is taken.
   So what goes out twice, because a process ended or a connection broke, can be told by its identifier.
3. At most `WAITING_MAX` wait for one subscription and channel. Beyond that the oldest goes, and is counted: the next
   notification says how many were left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from godwit.teamwork.machine.changes import ChangeId
from godwit.teamwork.machine.notification_rules import Channel, Notification, UserSubscription
from godwit.teamwork.notification_inbox import Inbox, Reminders
from godwit.teamwork.record_news import Place
from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["Batch", "NotificationQueue"]

FILE = "notifications.sqlite"
WAITING_MAX = 1_000
DOUBTFUL_MAX = 10_000
IDENTITY, PLACE, DEFAULTS = "identity", "place", "defaults"
OPEN = """EXISTS (
    SELECT 1 FROM waiting AS other WHERE other.delivery
    AND other.subscription = waiting.subscription AND other.channel = waiting.channel
)"""
LAYOUT = Layout(
    "godwit: notifications of a peer",
    2,
    f"""
CREATE TABLE notes (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE doubtful (
    number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT, device TEXT, change INTEGER, UNIQUE (scope, device, change)
);
{Inbox.SCHEMA}
{Reminders.SCHEMA}
CREATE TABLE subscriptions (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE waiting (
    number INTEGER PRIMARY KEY AUTOINCREMENT, subscription TEXT NOT NULL, channel BLOB NOT NULL,
    due REAL NOT NULL, first REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, delivery INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL
);
CREATE INDEX waiting_by_due ON waiting (due);
CREATE INDEX waiting_by_channel ON waiting (subscription, channel);
CREATE TABLE left_out (subscription TEXT, channel BLOB, count INTEGER NOT NULL, PRIMARY KEY (subscription, channel));
""",
)


class Batch(msgspec.Struct, frozen=True):
    """Notifications of one subscription that go out together by one channel."""

    id: str
    """The same in all attempts; no other batch has it, of this peer or another."""
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
        self.inbox, self.reminders = Inbox(self._file), Reminders(self._file)
        self.is_new = self._note(IDENTITY) is None
        """Whether the file was made just now."""
        if self.is_new:
            self._put_note(IDENTITY, uuid4().hex)
        self._identity = str(self._note(IDENTITY))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Change several things at once, or none of them. May be nested."""
        if self._file.in_transaction:
            yield
        else:
            with self._file.transaction():
                yield

    # ------------------------------------------------------------ following the repository

    @property
    def place(self) -> Place | None:
        """How far the repository was followed; None: not at all."""
        known = self._note(PLACE)
        return None if known is None else msgspec.convert(known, Place)

    def go_on(self, place: Place) -> None:
        """The repository was followed until there. (rule 1)"""
        self._put_note(PLACE, place)

    def doubtful(self) -> set[tuple[str, ChangeId]]:
        """Changes that were refused until now, with their scopes."""
        rows = self._file.rows("SELECT scope, device, change FROM doubtful")
        return {(scope, (device, number)) for scope, device, number in rows}

    def doubt(self, scope: str, changes: Iterable[ChangeId]) -> None:
        """Changes that may be told of later. The oldest are forgotten beyond `DOUBTFUL_MAX`."""
        statement = "INSERT OR IGNORE INTO doubtful (scope, device, change) VALUES (?, ?, ?)"
        self._file.run_many(statement, [(scope, *each) for each in changes])
        newest = "SELECT number FROM doubtful ORDER BY number DESC LIMIT 1 OFFSET ?"
        self._file.run(f"DELETE FROM doubtful WHERE number <= ({newest})", [DOUBTFUL_MAX])

    def believe(self, scope: str, changes: Iterable[ChangeId]) -> None:
        """Changes that were told of."""
        statement = "DELETE FROM doubtful WHERE scope = ? AND device = ? AND change = ?"
        self._file.run_many(statement, [(scope, *each) for each in changes])

    def _note(self, name: str) -> Any:
        found = self._file.row("SELECT body FROM notes WHERE name = ?", [name])
        return msgspec.msgpack.decode(found[0]) if found else None

    def _put_note(self, name: str, value: Any) -> None:
        self._file.run("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, msgspec.msgpack.encode(value)))

    def is_told(self, scope: str, change: ChangeId) -> bool:
        """Whether the user was told that this change was lost."""
        return self._note(_lost(scope, change)) is not None

    def tell_of_lost(self, scope: str, change: ChangeId) -> None:
        """The user was told that this change was lost."""
        self._put_note(_lost(scope, change), True)

    # ------------------------------------------------------------ subscriptions

    def adopt(self, defaults: Sequence[UserSubscription]) -> None:
        """Put each of these subscriptions that was not here before; one that was ended does not come back."""
        known = self._note(DEFAULTS) or ([] if self.is_new else ["reminders"])  # files of earlier versions had this one
        for each in defaults:
            if each.id not in known:
                self.put(each)
        self._put_note(DEFAULTS, sorted({*known, *(each.id for each in defaults)}))

    def subscriptions(self) -> list[UserSubscription]:
        """All user subscriptions, by identifier."""
        rows = self._file.rows("SELECT body FROM subscriptions ORDER BY id")
        return [msgspec.msgpack.decode(body, type=UserSubscription) for (body,) in rows]

    def put(self, subscription: UserSubscription) -> None:
        """Store a subscription, replacing the one with that identifier."""
        row = (subscription.id, msgspec.msgpack.encode(subscription))
        self._file.run("INSERT OR REPLACE INTO subscriptions VALUES (?, ?)", row)

    def remove(self, id: str) -> bool:
        """End a subscription, with all that waits for it; whether there was one."""
        with self.transaction():
            for table in ("waiting", "left_out"):
                self._file.run(f"DELETE FROM {table} WHERE subscription = ?", [id])
            return self._file.run("DELETE FROM subscriptions WHERE id = ?", [id]).rowcount > 0

    # ------------------------------------------------------------ notifications

    def add(self, subscription: UserSubscription, notification: Notification, due: float) -> None:
        """Tell the user, and let it go out by all channels of the subscription, not before `due`."""
        with self.transaction():
            body = msgspec.msgpack.encode(self.inbox.add(subscription.name, notification))
            for channel in subscription.channels:
                key = msgspec.msgpack.encode(channel)
                self._file.run(
                    "INSERT INTO waiting (subscription, channel, due, first, body) VALUES (?, ?, ?, ?, ?)",
                    (subscription.id, key, due, due, body),
                )
                self._make_room(subscription.id, key)

    def _make_room(self, id: str, key: bytes) -> None:
        """Let the oldest go that are not being sent. (rule 3)"""
        of_channel = "subscription = ? AND channel = ?"
        [count] = self._file.row(f"SELECT count(*) FROM waiting WHERE {of_channel}", (id, key))
        if count > WAITING_MAX:
            oldest = f"SELECT number FROM waiting WHERE {of_channel} AND NOT delivery ORDER BY number LIMIT ?"
            removed = self._file.run(
                f"DELETE FROM waiting WHERE number IN ({oldest})", (id, key, count - WAITING_MAX)
            ).rowcount
            self._file.run(
                "INSERT INTO left_out VALUES (?, ?, ?) "
                "ON CONFLICT (subscription, channel) DO UPDATE SET count = count + excluded.count",
                (id, key, removed),
            )

    def next_due(self) -> float | None:
        """When the next one is due, of those that need not wait for others."""
        [due] = self._file.row(f"SELECT min(due) FROM waiting WHERE delivery OR NOT {OPEN}")
        return None if due is None else float(due)

    def waits_for(self, subscription: str) -> bool:
        """Whether something waits for a subscription."""
        return self._file.row("SELECT 1 FROM waiting WHERE subscription = ? LIMIT 1", [subscription]) is not None

    def due(self, now: float) -> list[Batch]:
        """What is to go out now; of each subscription and channel, what was begun before all else. (rule 2)"""
        subscriptions = {each.id: each for each in self.subscriptions()}
        batches = []
        groups = self._file.rows(
            "SELECT subscription, channel, max(delivery) FROM waiting "
            f"WHERE due <= ? AND (delivery OR NOT {OPEN}) GROUP BY subscription, channel",
            [now],
        )
        for id, key, delivery in groups:
            rows = self._file.rows(
                "SELECT number, attempts, first, body FROM waiting "
                "WHERE subscription = ? AND channel = ? AND due <= ? AND delivery = ? ORDER BY number",
                (id, key, now, delivery),
            )
            if id not in subscriptions:
                self.sent([number for number, *_ in rows])
                continue
            left_out = self._file.row("SELECT count FROM left_out WHERE subscription = ? AND channel = ?", (id, key))
            batches.append(
                Batch(
                    f"{self._identity}.{id}.{rows[0][0]}",
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

    def begin(self, batch: Batch) -> None:
        """A batch is about to be sent: from now on it stays as it is. (rule 2)"""
        delivery = batch.numbers[0]
        with self.transaction():
            self._file.run_many(
                "UPDATE waiting SET delivery = ? WHERE number = ?", [(delivery, number) for number in batch.numbers]
            )

    def sent(self, numbers: Sequence[int]) -> None:
        """A channel has taken these, or they were given up."""
        with self.transaction():
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
        with self.transaction():
            self._file.run_many(
                "UPDATE waiting SET due = ?, attempts = attempts + 1 WHERE number = ?",
                [(due, number) for number in numbers],
            )


def _lost(scope: str, change: ChangeId) -> str:
    return f"lost {scope} {change[0]} {change[1]}"
