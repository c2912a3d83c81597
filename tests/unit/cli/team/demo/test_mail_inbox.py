"""The mail server of the demonstration, with Python's own sender and with senders that do not keep to the protocol."""

import asyncio
import smtplib
from email.message import EmailMessage

import pytest

from godwit.cli.team.demo.mail_inbox import RECIPIENTS_MAX, MailInbox
from tests.network.waiting import run


def hand_in(port: int, text: str) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "peer@example.org", "ann@example.org", "Grüße"
    message.set_content(text)
    with smtplib.SMTP("127.0.0.1", port, timeout=60) as connection:
        connection.send_message(message)


def test_a_mail_comes_as_it_was_handed_in() -> None:
    async def scene() -> None:
        async with MailInbox() as inbox:
            await asyncio.to_thread(hand_in, inbox.port, "first\n.\n..dots\n.end\n")
            mail = await inbox.mail(timeout=60)
            assert (mail["Subject"], mail["To"]) == ("Grüße", "ann@example.org")
            assert mail.get_content().splitlines() == ["first", ".", "..dots", ".end"]

    run(scene())


@pytest.mark.parametrize(
    ("said", "answers"),
    [
        (b"NOOP\r\nRSET\r\nQUIT\r\n", [b"220", b"250", b"250", b"221"]),
        (b"DATA\r\nRCPT TO:<a@b>\r\nSING\r\nQUIT\r\n", [b"220", b"503", b"503", b"503", b"221"]),
        (b"MAIL FROM:<a@b>\r\nDATA\r\nQUIT\r\n", [b"220", b"250", b"503", b"221"]),
        (b"MAIL FROM:<a@b>\r\n" + b"RCPT TO:<a@b>\r\n" * (RECIPIENTS_MAX + 1) + b"QUIT\r\n", [b"452", b"221"]),
        (b"x" * 5_000, [b"220"]),
        (b"MAIL FROM:<a@b>\r\nRCPT TO:<a@b>\r\nDATA\r\nno end", [b"220", b"250", b"250", b"354"]),
    ],
)
def test_nothing_is_taken_of_a_sender_that_does_not_hand_in_a_mail(said: bytes, answers: list[bytes]) -> None:
    async def scene() -> None:
        async with MailInbox() as inbox:
            reader, writer = await asyncio.open_connection("127.0.0.1", inbox.port)
            writer.write(said)
            writer.write_eof()
            came = [line[:3] for line in (await reader.read()).splitlines()]
            assert came[-len(answers) :] == answers
            assert inbox.mails == []
            writer.close()

    run(scene())
