"""Operations of the HTTP API: subscriptions and notifications of the user."""

from typing import Annotated, Any, Literal

import msgspec

from godwit.errors import Refused
from godwit.teamwork.machine.notification_rules import Channel, Notification, UserSubscription
from godwit.teamwork.names import new_id
from godwit.teamwork.notification_inbox import Told
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP
from godwit.teamwork.web_calls import ROWS, Call, Limit, Operation

__all__ = ["OPERATIONS"]

EXCERPT_CHARS = 80
Kind = Literal["artefact", "message", "user", "community", "meeting", "reminder", "presence", "lost"]
KINDS = {"community": "listing"}
"""Kinds of records whose name for users is another."""


class NewSubscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subscription to be made. Without a query, every change of these kinds notifies."""

    name: str
    kinds: list[Kind]
    channels: list[Channel]
    language: Annotated[str, msgspec.Meta(description=LANGUAGE_HELP)] = DEFAULT
    query: str = ""
    expires: float | None = None
    digest_s: float = 0.0
    quiet: tuple[int, int] | None = None
    utc_offset_s: float = 0.0


class MadeSubscription(UserSubscription, frozen=True):
    """A subscription that was made."""

    webhook_secret: str = ""
    """The secret that signs webhooks of this peer, in hexadecimal; only if a channel is a webhook."""


def subscriptions(call: Call) -> list[UserSubscription]:
    """The subscriptions of the user."""
    return list(call.team.subscriptions.subscriptions)


def subscribe(call: Call) -> MadeSubscription:
    """Make a subscription."""
    said: NewSubscription = call.takes
    fields: dict[str, Any] = {name: getattr(said, name) for name in said.__struct_fields__}
    fields |= {"kinds": tuple(KINDS.get(kind, kind) for kind in said.kinds), "channels": tuple(said.channels)}
    made: UserSubscription = call.team.subscriptions.subscribe(UserSubscription(new_id(), **fields))
    has_webhook = any(channel.kind == "webhook" for channel in made.channels)
    return MadeSubscription(
        **msgspec.structs.asdict(made), webhook_secret=call.team.webhook_secret if has_webhook else ""
    )


def end_subscription(call: Call) -> None:
    """End a subscription."""
    call.team.subscriptions.end(call.part("id"))


class NotificationShown(msgspec.Struct, frozen=True):
    """A notification, the subscription that caused it, and how to end that."""

    id: int
    title: str
    scope: str
    record: str
    time: float
    read: float | None
    subscription: str
    subscription_name: str
    to_end: str


class NotificationList(msgspec.Struct, frozen=True):
    """Notifications, the newest first, and how many were not read."""

    items: list[NotificationShown]
    unread: int


class NotificationQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which notifications are asked for: those before an identifier, if one is given."""

    limit: Limit = ROWS
    before: int = 0
    only_unread: bool = False


class ReadNotifications(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Identifiers of notifications that the user has read."""

    ids: list[int]


def notifications(call: Call) -> NotificationList:
    """What the user was notified of, the newest first."""
    asked, notifier = call.query, call.team.subscriptions
    found = notifier.notifications(asked.limit, asked.before or None, only_unread=asked.only_unread)
    return NotificationList([_shown(call, each) for each in found], notifier.unread)


def mark_notifications(call: Call) -> None:
    """Mark notifications as read."""
    call.team.subscriptions.mark(call.takes.ids)


def _shown(call: Call, told: Told) -> NotificationShown:
    said = told.notification
    return NotificationShown(
        *(said.id, _title(call, said), said.scope, said.record, said.time, told.read),
        *(said.subscription, told.subscription_name, told.to_end),
    )


def _title(call: Call, said: Notification) -> str:
    """A message is told by how it begins, as long as the user may read it; all else as it was told."""
    kind, _, id = said.record.partition("/")
    if kind != "message":
        return said.title
    try:
        message = call.team.messages.get(said.scope, id)
    except Refused:
        return said.title
    return f"{message.author}: {message.text[:EXCERPT_CHARS]}"


OPERATIONS = (
    Operation("GET", "/api/subscriptions", subscriptions, "List subscriptions.", gives=list[UserSubscription]),
    Operation(
        *("POST", "/api/subscriptions", subscribe, "Make a subscription."),
        *(NewSubscription, MadeSubscription),
        status=201,
    ),
    Operation("DELETE", "/api/subscriptions/{id}", end_subscription, "End a subscription.", status=204),
    Operation(
        *("GET", "/api/notifications", notifications, "List notifications, the newest first."),
        gives=NotificationList,
        query=NotificationQuery,
    ),
    Operation(
        *("POST", "/api/notifications/read", mark_notifications, "Mark notifications as read."),
        takes=ReadNotifications,
        status=204,
    ),
)
