"""A notifier with a repository, channels that keep what they get, and a clock that a test moves."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from godwit.errors import FilterError
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.notification_rules import Channel, Notification, UserSubscription
from godwit.teamwork.machine.peer_effects import Happened
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.scope_log import ScopeLog
from godwit.teamwork.notification_channels import ChannelError
from godwit.teamwork.notification_queue import Batch, NotificationQueue
from godwit.teamwork.notifier import Notifier
from godwit.teamwork.repository import Repository
from godwit.testing.virtual_clock import VirtualClock
from tests.network.waiting import run
from tests.unit.teamwork.machine.team_of_peers import Keys

__all__ = ["MAIL", "PLANS", "SCOPE", "Scene", "Taken", "batch_of_one", "has_reported", "play"]

MAIL = Channel("mail", "ann@example.org")
PLANS = UserSubscription("1", "plans", ("artefact",), (MAIL,), query="plan")
SCOPE = "community/ann.1"


class Taken:
    """A channel that keeps batches, or fails as often as it is told to."""

    def __init__(self, faults: int = 0, *, is_final: bool = False) -> None:
        self.batches: list[Batch] = []
        self._faults, self._is_final = faults, is_final

    def send(self, batch: Batch) -> None:
        if self._faults:
            self._faults -= 1
            raise ChannelError("not now", is_final=self._is_final)
        self.batches.append(batch)


def matches(language: str, query: str, record: Record) -> bool:
    if query == "?":
        raise FilterError("a query does not begin with ?")
    return query in str(record.fields)


class Scene:
    """A notifier with a repository, channels, a clock and what it has reported."""

    def __init__(self, folder: Path, begins: float, **senders: Any) -> None:
        self.clock = VirtualClock()
        self.clock.move(begins)
        self.repository, self.queue = Repository(folder), NotificationQueue(folder)
        self.reports: list[str] = []
        self.hidden: set[str] = set()
        self.notifier = Notifier(
            *("ann", self.repository, self.queue, senders, matches, self._may_see, self.reports.append, self.clock),
            device="ann",
        )

    def _may_see(self, scope: str, record: str) -> bool:
        return record not in self.hidden

    def changed(self, title: str, user: str = "bob", kind: str = "artefact", **fields: Any) -> Happened:
        """A user has changed a record, and the peer has kept it."""
        log = ScopeLog(SCOPE, self.repository, Keys(user))
        with self.repository.transaction():
            if user != "ann" and log.governance.role(user) is Role.NONE and user != "eve":
                joined = {"state": "joined", "role": "editor"}
                log.add(log.make("ann", "ann", f"member/{user}", joined, 0.0))
            return Happened(log.add(log.make(user, user, f"{kind}/{title}", {"title": title, **fields}, 0.0)))

    def happens(self, title: str, user: str = "bob", kind: str = "artefact", **fields: Any) -> None:
        """The same, and the notifier is told."""
        self.notifier(self.changed(title, user, kind, **fields))

    def titles(self) -> list[str]:
        """What the user was told, the oldest first."""
        return [each.notification.title for each in reversed(self.notifier.notifications())]

    def close(self) -> None:
        self.queue.close()
        self.repository.close()


def batch_of_one(channel: Channel = MAIL) -> Batch:
    subscription = UserSubscription("1", "plans", ("artefact",), (channel,))
    notification = Notification("1", SCOPE, "artefact/1", "plan B\nBcc: all", 1e9, id=7)
    return Batch("p.1.7", subscription, channel, (7,), (notification,), 0, 1e9, left_out=2)


def has_reported(stage: Scene, count: int) -> bool:
    return len(stage.reports) == count


def play(
    folder: Path, scene: Callable[[Scene], Coroutine[Any, Any, None]], *, begins: float = 0.0, **senders: Any
) -> None:
    """Play a scene in a process of its own, so to say, which begins at a time (default: that of the clock)."""

    async def whole() -> None:
        stage = Scene(folder, begins, **senders)
        try:
            await scene(stage)
        finally:
            await stage.notifier.close()
            stage.close()

    run(whole)
