"""A mail server that stores messages in memory: the part of SMTP (RFC 5321) that a sender needs.

It is only for the demonstration: it has no extensions and no authentication.
"""

import asyncio
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import Self

__all__ = ["MailInbox"]

LINE_BYTES_MAX = 2_000
MAIL_BYTES_MAX = 2**20
RECIPIENTS_MAX = 100
ANSWERS = {
    "HELO": "250 godwit",
    "EHLO": "250 godwit",
    "NOOP": "250 OK",
    "RSET": "250 OK",
    "QUIT": "221 goodbye",
}


class MailInbox:
    """The server, from `async with` until its end."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.port = 0
        self._came = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0, limit=LINE_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def mail(self, timeout: float) -> EmailMessage:
        """Wait for the first mail."""
        async with asyncio.timeout(timeout):
            await self._came.wait()
        return self.mails[0]

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except (ConnectionError, ValueError, asyncio.IncompleteReadError):
            pass  # a sender that disconnects, or sends an invalid line, has delivered nothing
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender, recipients = "", list[str]()
        _answer(writer, "220 godwit")
        while line := await reader.readline():
            words = line.decode(errors="replace").strip()
            verb = words[:4].upper()
            if verb in ANSWERS:
                _answer(writer, ANSWERS[verb])
                if verb == "QUIT":
                    return
                sender, recipients = "", []
            elif words.upper().startswith("MAIL FROM:"):
                sender, recipients = words[10:], []
                _answer(writer, "250 OK")
            elif words.upper().startswith("RCPT TO:") and sender:
                is_room = len(recipients) < RECIPIENTS_MAX
                recipients += [words[8:]] if is_room else []
                _answer(writer, "250 OK" if is_room else "452 too many recipients")
            elif verb == "DATA" and recipients:
                _answer(writer, "354 end with a line of one dot")
                self._take(await _data(reader))
                _answer(writer, "250 OK")
                sender, recipients = "", []
            else:
                _answer(writer, "503 not now")

    def _take(self, data: bytes) -> None:
        self.mails.append(message_from_bytes(data, policy=policy.default))
        self._came.set()


def _answer(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(f"{text}\r\n".encode())


async def _data(reader: asyncio.StreamReader) -> bytes:
    """The lines up to the one with a dot alone; a leading dot of other lines is doubled in SMTP."""
    data = bytearray()
    while (line := await reader.readline()) not in (b".\r\n", b".\n"):
        if not line or len(data) > MAIL_BYTES_MAX:
            raise ValueError("the mail has no end, or is too long")
        data += line[1:] if line.startswith(b".") else line
    return bytes(data)
