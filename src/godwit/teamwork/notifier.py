"""Watches what happens on a peer, and sends notifications when they are due.

*Rules.*
1. A change notifies when it was taken: of every kind that a subscription names, with a profile that its query matches,
   unless this user made it. Rights were checked before: what a peer does not hold, it cannot tell.
2. Batches go out one after another for each channel, at most one at a time; other channels do not wait.
3. What a channel refuses for good, or was tried for too long, is given up, and reported.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from godwit.errors import GodwitError, Refused
from godwit.runtime.clock import SYSTEM, Clock, Timer
from godwit.teamwork.machine.notification_rules import (
    Notification,
    UserSubscription,
    due_at,
    is_given_up,
    problem_of,
    retry_at,
)
from godwit.teamwork.machine.peer_effects import Happened
from godwit.teamwork.machine.records import Record
from godwit.teamwork.names import not_there
from godwit.teamwork.notification_channels import ChannelError, Sender
from godwit.teamwork.notification_queue import Batch, NotificationQueue

__all__ = ["Notifier"]

Matches = Callable[[str, str, Record], bool]


class Notifier:
    """The notifications of one peer: a listener of `LivePeer`."""

    def __init__(
        self,
        user: str,
        queue: NotificationQueue,
        senders: Mapping[str, Sender],
        matches: Matches,
        report: Callable[[str], None],
        clock: Clock = SYSTEM,
    ) -> None:
        self._user, self._queue, self._senders = user, queue, senders
        self._matches, self._report, self._clock = matches, report, clock
        self._timer: Timer | None = None
        self._is_closed = False
        self._busy: dict[str, asyncio.Task[None]] = {}  # by kind of channel
        self._subscriptions = {each.id: each for each in queue.subscriptions()}
        self._wake()

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

    def subscribe(self, subscription: UserSubscription) -> None:
        """Notify of this from now on."""
        if problem := problem_of(subscription):
            raise Refused(problem)
        missing = {channel.kind for channel in subscription.channels} - self._senders.keys()
        if missing:
            raise Refused(f"this peer has no channel {min(missing)!r}; it has {', '.join(sorted(self._senders))}")
        self._queue.put(subscription)
        self._subscriptions[subscription.id] = subscription

    def end(self, id: str) -> None:
        """Notify of this no longer."""
        if not self._queue.remove(id):
            raise not_there("subscription", id, self._subscriptions)
        del self._subscriptions[id]

    # ------------------------------------------------------------ what happens

    def __call__(self, happened: Any) -> None:
        """Something has happened on the peer. (rule 1)"""
        if not isinstance(happened, Happened) or happened.added.refused:
            return
        change, now = happened.added.change, self._clock.time()
        record = next((each for each in happened.added.records if each.name == change.record), None)
        if record is None or change.user == self._user:
            return
        for subscription in self._subscriptions.values():
            if self._wants(subscription, change.kind, record, now):
                title = str(record.fields.get("title") or record.fields.get("name") or record.name)
                notification = Notification(
                    subscription.id, change.scope, record.name, f"{title} ({change.kind}, by {change.user})", now
                )
                self._queue.add(subscription, notification, due_at(subscription, now))
        self._wake()

    def _wants(self, subscription: UserSubscription, kind: str, record: Record, now: float) -> bool:
        if kind not in subscription.kinds or (subscription.expires is not None and subscription.expires <= now):
            return False
        if not subscription.query:
            return True
        try:
            return self._matches(subscription.language, subscription.query, record)
        except GodwitError as error:
            self._report(f"subscription {subscription.name!r}: {error}")
            return False

    # ------------------------------------------------------------ sending

    def _wake(self) -> None:
        """Send what is due, and look again when the next one is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for batch in self._queue.due(self._clock.time()):
            self._begin(batch)
        due = self._queue.next_due()
        if due is not None and not self._busy:
            self._timer = self._clock.call_later(max(0.0, due - self._clock.time()), self._wake)

    def _begin(self, batch: Batch) -> None:
        kind = batch.channel.kind
        if kind not in self._busy:
            self._busy[kind] = asyncio.create_task(self._send(batch))
            self._busy[kind].add_done_callback(lambda _: self._on_done(kind))

    def _on_done(self, kind: str) -> None:
        del self._busy[kind]
        if not self._is_closed:
            self._wake()

    async def _send(self, batch: Batch) -> None:
        sender = self._senders.get(batch.channel.kind)
        try:
            if sender is None:
                raise ChannelError(f"this peer has no channel {batch.channel.kind!r}", is_final=True)
            await asyncio.to_thread(sender.send, batch)
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
