"""Ways to a user: mail, webhook, desktop, and messages of the team itself. [motion §2.1: "special messages and e-mail"]

A channel takes a batch or raises `ChannelError`, with a reason and whether another attempt makes sense. Each runs in a
thread with a time limit of its own, so a mail server that hangs delays nobody else.
"""

import asyncio
import json
import re
import smtplib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from godwit.errors import GodwitError, Refused
from godwit.teamwork.machine.notification_rules import Channel, how_to_end
from godwit.teamwork.messages import Messages
from godwit.teamwork.notification_queue import Batch
from godwit.webhook_post import WebhookError, WebhookPoster, is_webhook

__all__ = [
    "ChannelError",
    "MailChannel",
    "MailServer",
    "MessageChannel",
    "Sender",
    "WebhookChannel",
    "problem_of_target",
    "summary",
    "text_of",
]

TIMEOUT_S = 30.0
SHOWN_MAX = 50
MAIL_ADDRESS = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+")


class ChannelError(GodwitError):
    """A batch was not taken."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Sender(Protocol):
    """Sends batches by one kind of channel; called in a thread."""

    def send(self, batch: Batch) -> None:
        """Send, or raise `ChannelError`."""
        ...


def summary(batch: Batch) -> str:
    """One line."""
    first, count = batch.notifications[0], len(batch.notifications)
    more = f" and {count - 1} more" if count > 1 else ""
    return f"{batch.subscription.name}: {first.title}{more}"


def text_of(batch: Batch) -> str:
    """What happened, which subscription caused the notification, and how to end it."""
    lines = [
        f"{datetime.fromtimestamp(each.time, UTC):%Y-%m-%d %H:%M} UTC  {each.title}  ({each.record} in {each.scope})"
        for each in batch.notifications[:SHOWN_MAX]
    ]
    hidden = len(batch.notifications) - SHOWN_MAX
    if hidden > 0:
        lines.append(f"… and {hidden} more")
    if batch.left_out:
        lines.append(f"{batch.left_out} earlier notifications were left out: too many were waiting.")
    subscription = batch.subscription
    lines += [
        "",
        f"You receive this because of your subscription {subscription.name!r} ({subscription.id}).",
        f"To end it: {how_to_end(subscription.id)}",
    ]
    return "\n".join(lines)


class MailServer(msgspec.Struct, frozen=True):
    """Where mail is handed in."""

    host: str
    port: int = 25
    sender: str = "godwit@localhost"
    user: str = ""
    password: str = ""
    starttls: bool = False


class MailChannel:
    """Mail by SMTP."""

    def __init__(self, server: MailServer) -> None:
        self._server = server

    def send(self, batch: Batch) -> None:
        server, message = self._server, EmailMessage()
        message["From"] = server.sender
        message["To"] = _one_line(batch.channel.target)
        message["Subject"] = _one_line(summary(batch))
        message["Date"] = formatdate(batch.notifications[-1].time)
        message["Message-ID"] = f"<{quote(batch.id, safe='.')}@godwit.invalid>"  # the same in all attempts
        message.set_content(text_of(batch))
        try:
            with smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S) as connection:
                if server.starttls:
                    connection.starttls(context=ssl.create_default_context())
                if server.user:
                    connection.login(server.user, server.password)
                connection.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            code, said = next(iter(error.recipients.values()))
            raise ChannelError(
                f"the mail server refuses {batch.channel.target}: {said!r}", is_final=code >= 500
            ) from error
        except smtplib.SMTPResponseException as error:
            reason = f"the mail server answers {error.smtp_code}: {error.smtp_error!r}"
            raise ChannelError(reason, is_final=error.smtp_code >= 500 and error.smtp_code != 535) from error
        except (smtplib.SMTPException, OSError) as error:
            raise ChannelError(f"cannot hand in mail at {server.host}:{server.port}: {error}") from error


class WebhookChannel:
    """A signed POST of JSON (`webhook_post.py`), with the secret of the peer."""

    def __init__(self, secret: bytes) -> None:
        self._poster = WebhookPoster(secret)

    def send(self, batch: Batch) -> None:
        body = json.dumps(self._document(batch), ensure_ascii=False).encode()
        try:
            self._poster.post(batch.channel.target, body, batch.id)
        except WebhookError as error:
            raise ChannelError(str(error), is_final=error.is_final) from error

    def _document(self, batch: Batch) -> Mapping[str, Any]:
        notifications = [msgspec.to_builtins(notification) for notification in batch.notifications]
        subscription = {
            "id": batch.subscription.id,
            "name": batch.subscription.name,
            "to_end": how_to_end(batch.subscription.id),
        }
        return {
            "id": batch.id,
            "subscription": subscription,
            "left_out": batch.left_out,
            "notifications": notifications,
        }


class MessageChannel:
    """A message of the team: to a community or conversation, or, without a target, to the user's own notes.

    It has the identifier of the batch, so that a second attempt changes nothing.
    """

    def __init__(self, messages: Messages, loop: asyncio.AbstractEventLoop) -> None:
        """`loop`: where the peer runs; batches are sent in another thread."""
        self._messages, self._loop = messages, loop

    def send(self, batch: Batch) -> None:
        future = asyncio.run_coroutine_threadsafe(self._post(batch), self._loop)
        try:
            future.result(TIMEOUT_S)
        except Refused as error:
            raise ChannelError(f"no message was sent: {error}", is_final=True) from error
        except TimeoutError as error:
            raise ChannelError("the peer is busy") from error

    async def _post(self, batch: Batch) -> None:
        scope = batch.channel.target or self._messages.notes()
        self._messages.send(
            scope, f"{summary(batch)}\n\n{text_of(batch)}", id=sha256(batch.id.encode()).hexdigest()[:16]
        )


def _one_line(text: str) -> str:
    """A text as a header: line breaks would begin another one."""
    return " ".join(text.split())[:200]


def problem_of_target(channel: Channel) -> str:
    """Why a channel can reach nobody, or nothing."""
    if channel.kind == "webhook" and not is_webhook(channel.target):
        return f"a webhook needs a URL with http or https, not {channel.target!r}"
    if channel.kind == "mail" and not MAIL_ADDRESS.fullmatch(channel.target):
        return f"a mail channel needs one address, as ann@example.org, not {channel.target!r}"
    return ""
