"""Notifications on real servers: mail, webhooks, attempts, digests, and what is told about their cause."""

import asyncio
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import Refused
from godwit.teamwork.machine.notification_rules import LOST_CHANGES, REMINDERS, Channel, Notification, UserSubscription
from godwit.teamwork.notification_channels import ChannelError, MailChannel, MailServer, WebhookChannel
from godwit.teamwork.notification_queue import WAITING_MAX, Batch, NotificationQueue
from tests.network.waiting import until
from tests.unit.teamwork.mail_server import mail_server
from tests.unit.teamwork.notifier_scene import MAIL, PLANS, Scene, Taken, batch_of_one, has_reported, play


class Hook(BaseHTTPRequestHandler):
    """A receiver of webhooks."""

    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.got.append((dict(self.headers), body))
        self.send_response(server.status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def web_server(status: int = 204) -> Iterator[tuple[Any, str]]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.got, server.status = [], status
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_mail_says_what_happened_why_it_came_and_how_to_end_it(tmp_path: Path) -> None:
    with mail_server() as (inbox, server):

        async def scene(stage: Scene) -> None:
            stage.notifier.subscribe(PLANS)
            stage.happens("plan A")
            stage.happens("menu")
            stage.happens("plan of mine", user="ann")
            await until(lambda: inbox.mails)
            [envelope] = inbox.mails
            text = envelope.content.decode()
            assert envelope.rcpt_tos == ["ann@example.org"]
            assert "Subject: plans: plan A (artefact, by bob)" in text
            assert "because of your subscription 'plans' (1)" in text
            assert "godwit team subscribe --end 1" in text
            await until(lambda: stage.queue.next_due() is None)

        play(tmp_path, scene, mail=MailChannel(server))


def test_a_header_cannot_be_smuggled_into_a_mail(tmp_path: Path) -> None:
    with mail_server() as (inbox, server):
        MailChannel(server).send(batch_of_one())
        headers = inbox.mails[0].content.decode().partition("\r\n\r\n")[0]
        assert not any(line.startswith("Bcc") for line in headers.splitlines())


@pytest.mark.parametrize(("answer", "is_final"), [("451 later", False), ("550 no such user", True)])
def test_a_mail_server_that_refuses_is_quoted(answer: str, is_final: bool) -> None:
    with mail_server() as (inbox, server):
        inbox.answer = answer
        with pytest.raises(ChannelError, match=answer[:3]) as caught:
            MailChannel(server).send(batch_of_one())
        assert caught.value.is_final is is_final


def test_a_mail_server_that_is_down_is_named() -> None:
    with pytest.raises(ChannelError, match=r"cannot hand in mail at 127\.0\.0\.1:1") as caught:
        MailChannel(MailServer("127.0.0.1", 1)).send(batch_of_one())
    assert not caught.value.is_final


def test_a_webhook_is_signed_and_numbered() -> None:
    with web_server() as (server, url):
        WebhookChannel(b"secret").send(batch_of_one(Channel("webhook", url)))
        [(headers, body)] = server.got
        assert headers["X-Godwit-Signature"] == f"sha256={hmac.new(b'secret', body, sha256).hexdigest()}"
        document = json.loads(body)
        assert headers["X-Godwit-Delivery"] == document["id"] == "p.1.7"
        assert document["subscription"] == {"id": "1", "name": "plans", "to_end": "godwit team subscribe --end 1"}
        assert [each["id"] for each in document["notifications"]] == [7]
        assert document["left_out"] == 2


@pytest.mark.parametrize(("status", "is_final"), [(500, False), (429, False), (410, True), (302, False)])
def test_a_webhook_that_is_not_taken_is_tried_again_if_that_makes_sense(status: int, is_final: bool) -> None:
    with web_server(status) as (_, url), pytest.raises(ChannelError, match=str(status)) as caught:
        WebhookChannel(b"secret").send(batch_of_one(Channel("webhook", url)))
    assert caught.value.is_final is is_final


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/x", "nonsense"])
def test_a_webhook_goes_to_the_web_alone(url: str) -> None:
    with pytest.raises(ChannelError, match="a webhook needs a URL with http or https"):
        WebhookChannel(b"secret").send(batch_of_one(Channel("webhook", url)))


def test_a_channel_that_fails_is_tried_again_and_nothing_is_lost(tmp_path: Path) -> None:
    taken = Taken(faults=3)

    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.happens("plan A")
        for count in (1, 2, 3):
            await until(partial(has_reported, stage, count))
            stage.clock.move(stage.clock.time() + 4000)
        await until(lambda: taken.batches)
        assert taken.batches[0].attempts == 3
        assert stage.reports == ["will try again: not now"] * 3

    play(tmp_path, scene, mail=taken)


def test_what_is_refused_for_good_is_given_up_and_reported(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.happens("plan A")
        await until(lambda: stage.reports)
        assert stage.reports == ["gave up 1 notifications of 'plans': not now"]
        assert stage.queue.next_due() is None

    play(tmp_path, scene, mail=Taken(faults=1, is_final=True))


def test_subscriptions_and_what_waits_survive_the_process(tmp_path: Path) -> None:
    async def before(stage: Scene) -> None:
        stage.notifier.subscribe(UserSubscription("1", "plans", ("artefact",), (MAIL,), digest_s=3600.0))
        stage.happens("plan A")
        stage.happens("plan B")

    taken = Taken()

    async def after(stage: Scene) -> None:
        assert [each.name for each in stage.notifier.subscriptions] == ["plans", LOST_CHANGES.name, REMINDERS.name]
        stage.clock.move(stage.clock.time() + 7200)
        await until(lambda: taken.batches)
        assert [each.title for each in taken.batches[0].notifications] == [
            "plan A (artefact, by bob)",
            "plan B (artefact, by bob)",
        ]

    play(tmp_path, before, mail=Taken())
    play(tmp_path, after, mail=taken)


def test_a_subscription_that_was_ended_or_has_expired_notifies_nobody(tmp_path: Path) -> None:
    taken = Taken()

    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.notifier.end("1")
        with pytest.raises(Refused, match="there is no subscription '1'"):
            stage.notifier.end("1")
        stage.notifier.subscribe(UserSubscription("2", "old", ("artefact",), (MAIL,), expires=stage.clock.time() - 1))
        stage.happens("plan A")
        assert stage.queue.next_due() is None

    play(tmp_path, scene, mail=taken)


def test_too_many_that_wait_are_counted(tmp_path: Path) -> None:
    queue = NotificationQueue(tmp_path)
    queue.put(PLANS)
    for number in range(WAITING_MAX + 5):
        queue.add(PLANS, Notification("1", "s", f"artefact/{number}", str(number), 0.0), 0.0)
    [batch] = queue.due(1.0)
    assert (len(batch.numbers), batch.left_out, batch.notifications[0].title) == (WAITING_MAX, 5, "5")
    queue.told_of_left_out(batch)
    assert queue.due(1.0)[0].left_out == 0
    queue.close()


def test_what_cannot_be_subscribed_to_is_refused(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        with pytest.raises(Refused, match="this peer has no channel 'message'; it has desktop, mail"):
            stage.notifier.subscribe(UserSubscription("1", "x", ("artefact",), (Channel("message"),)))
        for target in ("ann", "ann@example.org, bob@example.org", "ann@example.org\nBcc: eve@example.org"):
            with pytest.raises(Refused, match="a mail channel needs one address"):
                stage.notifier.subscribe(UserSubscription("1", "x", ("artefact",), (Channel("mail", target),)))
        with pytest.raises(Refused, match="a subscription needs at least one kind"):
            stage.notifier.subscribe(UserSubscription("1", "x", (), (MAIL,)))
        stage.notifier.subscribe(UserSubscription("1", "odd", ("artefact",), (MAIL,), query="?"))
        stage.happens("plan A")
        assert stage.reports == ["subscription 'odd': a query does not begin with ?"]

    play(tmp_path, scene, mail=Taken())


def test_a_channel_that_hangs_delays_no_other(tmp_path: Path) -> None:
    release = threading.Event()

    class Hangs:
        def send(self, batch: Batch) -> None:
            release.wait(60)

    taken = Taken()

    async def scene(stage: Scene) -> None:
        channels = (MAIL, Channel("webhook", "http://x/"))
        stage.notifier.subscribe(UserSubscription("1", "plans", ("artefact",), channels))
        stage.happens("plan A")
        await until(lambda: taken.batches)
        release.set()
        await asyncio.to_thread(lambda: None)

    play(tmp_path, scene, mail=Hangs(), webhook=taken)
