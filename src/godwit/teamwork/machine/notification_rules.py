"""Rules of notifications: their subscriptions, and when they may be sent. [motion §2.1: user subscriptions]

*Rules.*
1. A subscription that has expired notifies nobody.
2. With a digest, notifications wait for the next multiple of its length, and go out together.
3. In quiet hours nothing goes out; what is due then goes out when they are over. They are in minutes of the user's day,
   and may go over midnight.
4. What could not be sent is tried again after a minute, then after twice as long each time, up to six hours, and is
   given up after a week.
5. A meeting whose time was chosen is reminded of `remind_s` before it begins, once for each time that is chosen. One
   that is over, was cancelled, or that the user has declined is not reminded of.
6. Presence is told to the user to whom it is shown: a subscription to it does not announce it to a community.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

__all__ = [
    "DEFAULTS",
    "LOST",
    "LOST_CHANGES",
    "PRESENCE",
    "REMINDER",
    "REMINDERS",
    "REMIND_S",
    "Channel",
    "Notification",
    "Reminder",
    "UserSubscription",
    "due_at",
    "how_to_end",
    "is_given_up",
    "problem_of",
    "reminder_of",
    "retry_at",
]

RETRY_S, RETRY_MAX_S = 60.0, 6 * 3600.0
GIVE_UP_S = 7 * 86_400.0
DAY_MINUTES = 24 * 60
CHANNEL_KINDS: Mapping[str, str] = {"mail": "an address", "webhook": "a URL", "message": "", "desktop": ""}
"""By kind of channel, what its target must be."""
REMINDER = "reminder"
"""The kind that a subscription names to be reminded of meetings."""
REMIND_S = 900.0
PRESENCE = "presence"
"""The kind of subscription that reports when users come online, go offline or change their availability."""


LOST = "lost"
"""The kind that reports changes of the user that lost against another one (`lost_changes.py`)."""


class Channel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A way to a user."""

    kind: str
    target: str = ""


class UserSubscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user wants to hear of: a query over what happens."""

    id: str
    name: str
    kinds: tuple[str, ...]
    """Kinds of records: artefact, message, user, community, meeting. Beside them `reminder`: a meeting is about to
    begin; `presence`: somebody has come, has gone, or is available in another way; and `lost`: a change of the user
    was replaced by one that was made at the same time."""
    channels: tuple[Channel, ...]
    language: str = "xql"
    query: str = ""
    """Empty: every change of these kinds."""
    expires: float | None = None
    digest_s: float = 0.0
    quiet: tuple[int, int] | None = None
    """Minutes of the day: from, until."""
    utc_offset_s: float = 0.0
    """Of the user's day."""


class Notification(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened, for one subscription."""

    subscription: str
    scope: str
    record: str
    title: str
    time: float
    details: dict[str, Any] = {}
    id: int = 0
    """Given when it is kept: the same in all attempts to send it, by all channels."""


class Reminder(msgspec.Struct, frozen=True):
    """A meeting of which the user is to be reminded."""

    scope: str
    record: str
    title: str
    due: float
    begins: float
    ends: float


REMINDERS = UserSubscription("reminders", "meetings that begin soon", (REMINDER,), (Channel("desktop"),))
LOST_CHANGES = UserSubscription("lost-changes", "your changes that were replaced", (LOST,), (Channel("desktop"),))
DEFAULTS = (REMINDERS, LOST_CHANGES)
"""The subscriptions that every user has until they are ended or replaced."""


def how_to_end(subscription: str) -> str:
    """What a user does to end a subscription."""
    return f"godwit team subscribe --end {subscription}"


def reminder_of(scope: str, record: str, fields: Mapping[str, Any]) -> Reminder | None:
    """When to remind of a meeting with these fields; None if it does not take place, or at no time yet. (rule 5)"""
    chosen, duration_s, remind_s = fields.get("chosen"), fields.get("duration_s", 3600.0), fields.get("remind_s")
    numbers = [each for each in (chosen, duration_s) if isinstance(each, int | float) and isfinite(each)]
    if fields.get("cancelled") or len(numbers) < 2:
        return None
    begins, lasts_s = map(float, numbers)
    before_s = float(remind_s) if isinstance(remind_s, int | float) and isfinite(remind_s) else REMIND_S
    title = str(fields.get("title", record))
    return Reminder(scope, record, title, begins - before_s, begins, begins + lasts_s)


def problem_of(subscription: UserSubscription) -> str:
    """Why a subscription cannot be, or nothing."""
    if not subscription.kinds:
        return "a subscription needs at least one kind of record"
    if not subscription.channels:
        return f"a subscription needs at least one channel: {', '.join(CHANNEL_KINDS)}"
    for channel in subscription.channels:
        if channel.kind not in CHANNEL_KINDS:
            return f"a channel is one of {', '.join(CHANNEL_KINDS)}, not {channel.kind!r}"
        if CHANNEL_KINDS[channel.kind] and not channel.target:
            return f"a {channel.kind} channel needs {CHANNEL_KINDS[channel.kind]}"
        if PRESENCE in subscription.kinds and channel.kind == "message" and channel.target:  # (rule 6)
            return f"presence is shown to you, and is not announced to {channel.target}: use a message to yourself"
    if not 0 <= subscription.digest_s <= GIVE_UP_S:
        return f"a digest collects for 0 to {GIVE_UP_S:,.0f} seconds, not {subscription.digest_s:g}"
    if subscription.quiet is not None and not all(0 <= minute < DAY_MINUTES for minute in subscription.quiet):
        return f"quiet hours are two minutes of the day, 0 to {DAY_MINUTES - 1}, not {subscription.quiet}"
    return ""


def due_at(subscription: UserSubscription, now: float) -> float:
    """When something that happens now may go out. (rules 2 and 3)"""
    at = now
    if subscription.digest_s > 0:
        at = (now // subscription.digest_s + 1) * subscription.digest_s
    return _after_quiet(subscription, at)


def retry_at(subscription: UserSubscription, attempts: int, now: float) -> float:
    """When to try again after so many attempts. (rules 3 and 4)"""
    wait_s = min(RETRY_S * 2 ** min(attempts - 1, 30), RETRY_MAX_S)
    return _after_quiet(subscription, now + wait_s)


def is_given_up(first: float, now: float) -> bool:
    """Whether something that was first due then is not tried again. (rule 4)"""
    return now - first > GIVE_UP_S


def _after_quiet(subscription: UserSubscription, at: float) -> float:
    """The first moment from `at` on that is not in quiet hours."""
    if subscription.quiet is None or subscription.quiet[0] == subscription.quiet[1]:
        return at
    begin, end = subscription.quiet
    minute = (at + subscription.utc_offset_s) / 60 % DAY_MINUTES
    is_quiet = begin <= minute < end if begin < end else minute >= begin or minute < end
    return at + (end - minute) % DAY_MINUTES * 60 if is_quiet else at
