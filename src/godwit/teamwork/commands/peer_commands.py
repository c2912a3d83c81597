"""Commands about the peer itself: status, presence, subscriptions, notifications, audit."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from godwit.teamwork.audit_log import AuditEntry
from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.commands.references import community_of
from godwit.teamwork.machine.notification_rules import Channel, UserSubscription
from godwit.teamwork.names import new_id
from godwit.teamwork.team import Team

__all__ = ["COMMANDS"]

NOTIFICATIONS = 100  # that are listed


def status(team: Team) -> dict[str, Any]:
    """How the peer is."""
    return dict(msgspec.to_builtins(team.status()))


def presence(team: Team, availability: str, status: str, shown_to: Sequence[str]) -> dict[str, Any]:
    """How available the user is, for all or for some users."""
    for user in shown_to:
        team.people.get(user)
    team.presence.set(availability, status, shown_to)
    return {"user": team.user, "availability": availability, "status": status, "shown_to": list(shown_to)}


def subscribe(
    team: Team,
    name: str,
    kinds: Sequence[str],
    channels: Sequence[Mapping[str, str]],
    query: str,
    language: str,
    expires_s: float | None,
    digest_s: float,
    quiet: Sequence[int] | None,
    utc_offset_s: float,
) -> dict[str, Any]:
    """Notify the user of what happens. The answer has the secret that signs webhooks, if one is asked for."""
    subscription = UserSubscription(
        new_id(),
        name,
        tuple(kinds),
        tuple(_channel(team, **channel) for channel in channels),
        language,
        query,
        None if expires_s is None else team.peer.time() + expires_s,
        digest_s,
        None if quiet is None else (quiet[0], quiet[1]),
        utc_offset_s,
    )
    made = dict(msgspec.to_builtins(team.subscriptions.subscribe(subscription)))
    has_webhook = any(channel.kind == "webhook" for channel in subscription.channels)
    return {**made, "webhook_secret": team.webhook_secret} if has_webhook else made


def _channel(team: Team, kind: str, target: str = "") -> Channel:
    """A way to the user. A message goes to a community, or without one to the notes of the user."""
    return Channel(kind, community_of(team, target) if kind == "message" and target else target)


def subscriptions(team: Team) -> list[dict[str, Any]]:
    """What the user is notified of."""
    return list(msgspec.to_builtins(team.subscriptions.subscriptions))


def end_subscription(team: Team, subscription: str) -> dict[str, Any]:
    """Notify of this no longer."""
    team.subscriptions.end(subscription)
    return {"id": subscription, "ended": True}


def notifications(team: Team, only_unread: bool, marks: bool) -> list[dict[str, Any]]:
    """What the user was told, the newest last; `marks`: these count as read from now on."""
    told = team.subscriptions.notifications(NOTIFICATIONS, only_unread=only_unread)[::-1]
    if marks:
        team.subscriptions.mark([each.id for each in told])
    return [
        {**msgspec.to_builtins(each.notification), "read": each.read, "subscription_name": each.subscription_name}
        for each in told
    ]


def audit(team: Team, since: float, user: str) -> list[dict[str, Any]]:
    """Who was shown what, from a time on, to one user or to all."""
    found: list[AuditEntry] = []
    while page := team.audit.entries(found[-1].number if found else 0, user=user):
        found += page
    return list(msgspec.to_builtins([entry for entry in found if entry.time >= since]))


COMMANDS: Commands = {
    "status": status,
    "presence": presence,
    "subscribe": subscribe,
    "subscriptions": subscriptions,
    "end subscription": end_subscription,
    "notifications": notifications,
    "audit": audit,
}
