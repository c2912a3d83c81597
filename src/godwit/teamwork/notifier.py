"""The notifier: follows the changes of a peer, lists them for its user, and sends notifications when they are due.
[motion §2.1]

*Theory.* The notifier follows the repository (`record_news.py`), and keeps how far it has come together with what it
makes of it. So a process that ends at any moment loses no notification, and makes none twice.

*Rules.*
1. A record notifies when a change of another user has set something in it: of every kind that a subscription names,
   with a profile that its query matches, if the user may see the record; then, and when the notification goes out.
2. A user who has ended nothing is reminded of meetings (`notification_rules.REMINDERS`).
3. Batches go out one after another for each channel, at most one at a time; other channels do not wait.
4. A message that a channel refuses permanently, or that was retried for too long, is given up, and reported.
5. Presence notifies when a user of whom this peer is shown it comes, goes, or is available in another way, whatever
   the number of devices. It is not a record: one of that kind, which another program may make, causes no notification.
6. What the user has changed and another change has replaced is told in the same way (`lost_changes.py`). A change that
   is refused is told also to a user who has no role there any more: it is the user's own.
7. `desktop` needs no server: those who show notifications to the user are told (`listen`), and what nobody has shown is
   in the list of `notifications`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from godwit.errors import GodwitError, Refused
from godwit.runtime.clock import SYSTEM, Clock, Timer
from godwit.teamwork.lost_changes import lost_changes
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.notification_rules import (
    DEFAULTS,
    LOST,
    LOST_CHANGES,
    PRESENCE,
    REMINDER,
    Notification,
    Reminder,
    UserSubscription,
    due_at,
    is_given_up,
    problem_of,
    reminder_of,
    retry_at,
)
from godwit.teamwork.machine.peer_effects import Happened, PresenceChanged
from godwit.teamwork.machine.records import Record
from godwit.teamwork.meetings import answers_of
from godwit.teamwork.names import not_there
from godwit.teamwork.notification_channels import ChannelError, Sender, problem_of_target
from godwit.teamwork.notification_inbox import Told
from godwit.teamwork.notification_queue import Batch, NotificationQueue
from godwit.teamwork.query_languages import full_name
from godwit.teamwork.record_news import FollowedRepository, News, Place, news_since, now_at

__all__ = ["Notifier"]

SUBSCRIPTIONS_MAX = 1_000
UNWRITTEN_MAX = 1_000  # revisions without a notification, before the place is written
DESKTOP = "desktop"
LOST_SHOWN_MAX = 1_000  # notifications that are looked through
AWAY = "away"

Matches = Callable[[str, str, Record], bool]
"""Whether a query of a language matches the profile of a record."""
MaySee = Callable[[str, str], bool]
"""Whether the user may see the record of a scope and name now."""


class Notifier:
    """The notifications of one user on one peer: a listener of `LivePeer`."""

    def __init__(
        self,
        user: str,
        repository: FollowedRepository,
        queue: NotificationQueue,
        senders: Mapping[str, Sender],
        matches: Matches,
        may_see: MaySee,
        report: Callable[[str], None],
        clock: Clock = SYSTEM,
        check: Callable[[UserSubscription], None] = lambda subscription: None,
        device: str = "",
    ) -> None:
        """`check` refuses subscriptions that the user may not make; `device` is this one."""
        self._check, self._device = check, device
        self._user, self._repository, self._queue, self._senders = user, repository, queue, senders
        self._matches, self._may_see, self._report, self._clock = matches, may_see, report, clock
        self._timer: Timer | None = None
        self._is_closed = False
        self._busy: dict[str, asyncio.Task[None]] = {}  # by kind of channel
        self._shown_by: list[Callable[[Batch], None]] = []
        self._here: dict[str, dict[str, tuple[str, str]]] = {}  # by user and device: how available, and the status
        queue.adopt(DEFAULTS)
        self._subscriptions = {each.id: each for each in queue.subscriptions()}
        self._place = self._place_to_go_on()
        self._doubtful = queue.doubtful()
        self.follow()

    def _place_to_go_on(self) -> Place:
        """Where the repository was followed to; from now on, if that was another repository."""
        known, now = self._queue.place, now_at(self._repository)
        if known is not None and known.repository == now.repository:
            return known
        if known is not None:
            self._report("the repository is another one: notifications begin with what happens from now on")
        self._queue.go_on(now)
        return now

    async def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._busy.values()):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    # ------------------------------------------------------------ subscriptions

    @property
    def subscriptions(self) -> list[UserSubscription]:
        """All subscriptions, by identifier."""
        return [self._subscriptions[id] for id in sorted(self._subscriptions)]

    def subscribe(self, subscription: UserSubscription) -> UserSubscription:
        """Add a subscription, or replace the one with that identifier; returns it as stored."""
        subscription = replace(subscription, language=full_name(subscription.language))
        if problem := problem_of(subscription):
            raise Refused(problem)
        channels = {DESKTOP, *self._senders}
        if missing := {channel.kind for channel in subscription.channels} - channels:
            how = "; mail needs a server in the settings of the peer (mail.host)" if min(missing) == "mail" else ""
            raise Refused(f"this peer has no channel {min(missing)!r}; it has {', '.join(sorted(channels))}{how}")
        for channel in subscription.channels:
            if problem := problem_of_target(channel):
                raise Refused(problem)
        if subscription.id not in self._subscriptions and len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise Refused(f"there are {SUBSCRIPTIONS_MAX:,} subscriptions: end one of them first")
        self._check(subscription)
        self.follow()
        with self._queue.transaction():
            self._queue.put(subscription)
            self._queue.go_on(self._place)  # what was there before is no news for it
        self._subscriptions[subscription.id] = subscription
        return subscription

    def end(self, id: str) -> None:
        """Notify of this no longer."""
        if not self._queue.remove(id):
            raise not_there("subscription", id, self._subscriptions)
        del self._subscriptions[id]

    def _forget_expired(self, now: float) -> None:
        """Remove subscriptions that have expired and for which nothing waits. [motion §2.1, requirement 2]"""
        for id, subscription in list(self._subscriptions.items()):
            if _has_expired(subscription, now) and not self._queue.waits_for(id):
                self.end(id)

    # ------------------------------------------------------------ what was sent

    def notifications(self, count: int = 100, before: int | None = None, *, only_unread: bool = False) -> list[Told]:
        """What the user was told, and may see now, the newest first; of those before an identifier, if it is given."""
        told = self._queue.inbox.newest(count, before, only_unread=only_unread)
        return [each for each in told if self._is_shown(each.notification)]

    @property
    def unread(self) -> int:
        """How many notifications were not read."""
        return self._queue.inbox.unread()

    @property
    def lost(self) -> tuple[str, ...]:
        """Changes of the user that were replaced, as far as the user has not read it."""
        unread = self.notifications(LOST_SHOWN_MAX, only_unread=True)
        return tuple(each.notification.title for each in unread if each.notification.subscription == LOST_CHANGES.id)

    def mark(self, ids: Iterable[int], *, read: bool = True) -> None:
        """Note that the user has read these, or has not."""
        with self._queue.transaction():
            self._queue.inbox.mark(ids, self._clock.time() if read else None)

    def listen(self, show: Callable[[Batch], None]) -> Callable[[], None]:
        """Have what is due by the channel `desktop` shown, until the function that is returned is called. (rule 7)"""
        self._shown_by.append(show)
        return lambda: self._shown_by.remove(show)

    # ------------------------------------------------------------ what happens

    def __call__(self, happened: Any) -> None:
        """Something has happened on the peer."""
        if isinstance(happened, Happened):
            self.follow()
        elif isinstance(happened, PresenceChanged):
            self._on_presence(happened)

    def follow(self) -> None:
        """Tell the user of everything that is new in the repository, and send what is due."""
        now, reached = self._clock.time(), now_at(self._repository)
        if reached != self._place:
            with self._queue.transaction():
                told = [self._take(news, now) for news in news_since(self._repository, self._place, self._doubtful)]
                if any(told) or reached.revision - self._place.revision > UNWRITTEN_MAX:
                    self._queue.go_on(reached)
            if any(told):
                self._doubtful = self._queue.doubtful()
            self._place = reached
        self._wake()

    def _take(self, news: News, now: float) -> bool:
        """Make notifications of one record; whether something was written."""
        scope, record = news.scope, news.record
        kind = self._kind_of(record)
        is_written = kind == "meeting"
        if is_written:
            self._plan_reminder(scope, record)
        if news.refused:
            self._queue.doubt(scope, news.refused)
            is_written = True
        if believed := [each.id for each in news.changes if (scope, each.id) in self._doubtful]:
            self._queue.believe(scope, believed)
            is_written = True
        change = next((each for each in news.changes if each.user != self._user), None)
        if change is not None and kind != PRESENCE and self._may_see(scope, record.name):
            for subscription in self._subscriptions.values():
                if self._wants(subscription, kind, record, now):
                    self._queue.add(
                        subscription, _notification(subscription, change, record, now), due_at(subscription, now)
                    )
                    is_written = True
        return self._tell_of_lost(scope, record, now) or is_written

    def _tell_of_lost(self, scope: str, record: Record, now: float) -> bool:
        """Tell the user of changes that lost against others; whether there were some. (rule 6)"""
        if not (record.conflicts or record.refused):
            return False
        is_told, may_see = partial(self._queue.is_told, scope), self._may_see(scope, record.name)
        lost = lost_changes(self._repository, scope, record, self._user, self._device, is_told)
        lost = [each for each in lost if each.refused or may_see]
        for each in lost:
            self._queue.tell_of_lost(scope, each.change.id)
            details = {"fields": list(each.fields), "by": each.by, "refused": each.refused}
            for subscription in self._subscriptions.values():
                if self._wants(subscription, LOST, record, now):
                    notification = Notification(subscription.id, scope, record.name, each.title(record), now, details)
                    self._queue.add(subscription, notification, due_at(subscription, now))
        return bool(lost)

    def _is_shown(self, notification: Notification) -> bool:
        """Whether the user may see now what was noted. (rules 1 and 6)"""
        return bool(notification.details.get("refused")) or self._may_see(notification.scope, notification.record)

    def _kind_of(self, record: Record) -> str:
        """The kind of a record, as subscriptions name it.

        Members hear of a community by its own record, others by what the team is told of it.
        """
        kind = record.name.partition("/")[0]
        if kind == "scope":
            return "community" if "join" in record.fields else kind
        if kind == "listing" and not self._may_see(str(record.fields.get("id")), "scope/self"):
            return "community"
        return kind

    def _wants(self, subscription: UserSubscription, kind: str, record: Record, now: float) -> bool:
        if kind not in subscription.kinds or _has_expired(subscription, now):
            return False
        if not subscription.query:
            return True
        try:
            return self._matches(subscription.language, subscription.query, record)
        except GodwitError as error:
            self._report(f"subscription {subscription.name!r}: {error}")
            return False

    # ------------------------------------------------------------ presence

    def _on_presence(self, changed: PresenceChanged) -> None:
        """Tell the user who has come or gone. (rule 5)"""
        devices = self._here.setdefault(changed.user, {})
        before = _best(devices)
        if changed.availability:
            devices[changed.device] = changed.availability, changed.status
        else:
            devices.pop(changed.device, None)
        if not devices:
            del self._here[changed.user]
        said, record = _best(devices), f"user/{changed.user}"
        if said == before or changed.user == self._user or not self._may_see(changed.scope, record):
            return
        now = self._clock.time()
        fields = {"user": changed.user, "availability": said[0], "status": said[1]}
        profile = Record(f"{PRESENCE}/{changed.user}", fields, {}, ())
        title = f"{changed.user} is {said[0]}" + (f": {said[1]}" if said[1] else "")
        with self._queue.transaction():
            for subscription in self._subscriptions.values():
                if self._wants(subscription, PRESENCE, profile, now):
                    notification = Notification(subscription.id, changed.scope, record, title, now)
                    self._queue.add(subscription, notification, due_at(subscription, now))
        self._wake()

    # ------------------------------------------------------------ reminders

    def _plan_reminder(self, scope: str, record: Record) -> None:
        reminder = reminder_of(scope, record.name, record.fields)
        if reminder is None:
            self._queue.reminders.remove(scope, record.name)
        else:
            self._queue.reminders.put(reminder)

    def _remind(self, now: float) -> None:
        """Tell the user of meetings that begin soon, each once. (rule 2)"""
        with self._queue.transaction():
            for reminder in self._queue.reminders.due(now):
                self._queue.reminders.told(reminder)
                if not self._is_expected(reminder):
                    continue
                for subscription in self._subscriptions.values():
                    if REMINDER in subscription.kinds and not _has_expired(subscription, now):
                        notification = Notification(
                            subscription.id, reminder.scope, reminder.record, f"{reminder.title} (meeting)", now,
                            {"begins": reminder.begins, "ends": reminder.ends},
                        )  # fmt: skip
                        self._queue.add(subscription, notification, now)  # a reminder that waits is none

    def _is_expected(self, reminder: Reminder) -> bool:
        """Whether the user may see the meeting and has not declined its time."""
        if not self._may_see(reminder.scope, reminder.record):
            return False
        id = reminder.record.partition("/")[2]
        answer = self._repository.record(reminder.scope, f"answer/{id}.{self._user}")
        return answer is None or answers_of(answer).get(reminder.begins) != "no"

    # ------------------------------------------------------------ sending

    def _wake(self) -> None:
        """Send what is due, and look again when the next one is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.time()
        due = self._queue.reminders.next_due()
        if due is not None and due <= now:
            self._remind(now)
        self._forget_expired(now)
        for batch in self._queue.due(now):
            self._begin(batch)
        next_ones = [each for each in (self._queue.reminders.next_due(), self._next_batch()) if each is not None]
        if next_ones:
            self._timer = self._clock.call_later(max(0.0, min(next_ones) - now), self._wake)

    def _next_batch(self) -> float | None:
        """When the next batch is due; while one is being sent, its end is waited for."""
        return None if self._busy else self._queue.next_due()

    def _begin(self, batch: Batch) -> None:
        kind = batch.channel.kind
        if kind not in self._busy:
            self._queue.begin(batch)
            self._busy[kind] = asyncio.create_task(self._send(batch))
            self._busy[kind].add_done_callback(lambda _: self._on_done(kind))

    def _on_done(self, kind: str) -> None:
        del self._busy[kind]
        if not self._is_closed:
            self._wake()

    async def _send(self, batch: Batch) -> None:
        numbered = zip(batch.numbers, batch.notifications, strict=True)
        shown = [(number, each) for number, each in numbered if self._is_shown(each)]
        try:
            if shown:  # rights may have ended while it waited
                numbers, notifications = zip(*shown, strict=True)
                await self._hand_over(replace(batch, numbers=numbers, notifications=notifications))
        except ChannelError as error:
            now = self._clock.time()
            if error.is_final or is_given_up(batch.first, now):
                self._queue.sent(batch.numbers)
                self._report(f"gave up {len(batch.numbers)} notifications of {batch.subscription.name!r}: {error}")
            else:
                self._queue.failed(batch.numbers, retry_at(batch.subscription, batch.attempts + 1, now))
                self._report(f"will try again: {error}")
            return
        self._queue.sent(batch.numbers)
        if batch.left_out:
            self._queue.told_of_left_out(batch)

    async def _hand_over(self, batch: Batch) -> None:
        kind = batch.channel.kind
        if kind in self._senders:
            await asyncio.to_thread(self._senders[kind].send, batch)
        elif kind != DESKTOP:
            raise ChannelError(f"this peer has no channel {kind!r}", is_final=True)
        if kind == DESKTOP:
            for show in list(self._shown_by):
                try:
                    show(batch)
                except Exception as error:  # one page that fails hides nothing from another
                    self._report(f"a notification could not be shown: {error!r}")


def _best(devices: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """How available a user with these devices is."""
    return min(devices.values(), default=(AWAY, ""))  # "available" comes first, also by the alphabet


def _has_expired(subscription: UserSubscription, now: float) -> bool:
    return subscription.expires is not None and subscription.expires <= now


def _notification(subscription: UserSubscription, change: Change, record: Record, now: float) -> Notification:
    title = str(record.fields.get("title") or record.fields.get("name") or record.name)
    return Notification(subscription.id, change.scope, record.name, f"{title} ({change.kind}, by {change.user})", now)
