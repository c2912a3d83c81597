"""A real SMTP server that keeps what it gets, or refuses it, in a thread of its own."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiosmtpd.smtp import SMTP

from godwit.teamwork.notification_channels import MailServer

__all__ = ["MailInbox", "closed_port", "mail_server"]


class MailInbox:
    """What a mail server got."""

    def __init__(self) -> None:
        self.answer = "250 OK"
        self.mails: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if self.answer.startswith("250"):
            self.mails.append(envelope)
        return self.answer


@contextmanager
def closed_port() -> Iterator[tuple[socket.socket, MailServer]]:
    """A port at which a server refuses connections until it listens there; nobody else gets that port meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound, MailServer("127.0.0.1", bound.getsockname()[1], "peer@example.org")


@contextmanager
def mail_server(bound: socket.socket | None = None) -> Iterator[tuple[MailInbox, MailServer]]:
    """A server that runs, at a port of its own or one that was closed so far."""
    inbox, loop = MailInbox(), asyncio.new_event_loop()
    where: dict[str, Any] = {"host": "127.0.0.1", "port": 0} if bound is None else {"sock": bound}
    server = loop.run_until_complete(loop.create_server(lambda: SMTP(inbox, loop=loop), **where))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield inbox, MailServer("127.0.0.1", server.sockets[0].getsockname()[1], "peer@example.org")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()
