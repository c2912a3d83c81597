"""A mail server that is down for a day: each notification arrives once, also if the peer is started again meanwhile."""

import re
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from godwit.teamwork.machine.notification_rules import RETRY_MAX_S
from godwit.teamwork.notification_channels import MailChannel
from godwit.teamwork.notification_queue import NotificationQueue
from godwit.testing.virtual_clock import BEGINS_AT
from tests.network.waiting import until
from tests.unit.teamwork.mail_server import MailInbox, closed_port, mail_server
from tests.unit.teamwork.notifier_scene import PLANS, Scene, has_reported, play

HOUR_S = 3600.0
HOURS = 24


async def wait(stage: Scene, end: float) -> None:
    """Let time pass while the server is down. Each attempt that is due is made, and fails."""
    while (due := stage.queue.next_due()) is not None and due <= end:
        reported = len(stage.reports)
        if due > stage.clock.time():
            stage.clock.move(due)
        await until(partial(has_reported, stage, reported + 1))
    stage.clock.move(end)


def hours(first: int, last: int) -> Callable[[Scene], Coroutine[Any, Any, None]]:
    """Some hours in each of which a plan is changed."""

    async def scene(stage: Scene) -> None:
        if first == 0:
            stage.notifier.subscribe(PLANS)
        for hour in range(first, last):
            stage.happens(f"plan {hour}.")
            await wait(stage, BEGINS_AT + (hour + 1) * HOUR_S)
        assert stage.reports
        assert all(report.startswith("will try again: cannot hand in mail at") for report in stage.reports)

    return scene


def plans(inbox: MailInbox) -> Counter[str]:
    """How often each plan was told of, in the texts of all mails."""
    texts = [mail.content.decode().partition("\r\n\r\n")[2] for mail in inbox.mails]
    return Counter(plan for text in texts for plan in re.findall(r"(plan \d+)\. \(", text))


def whole_day(folder: Path) -> Counter[str]:
    """What arrives after a day without a server, and with a peer that is started again at noon."""
    with closed_port() as (bound, server):
        channel = MailChannel(server)
        play(folder, hours(0, HOURS // 2), mail=channel)
        noon = BEGINS_AT + HOURS // 2 * HOUR_S
        play(folder, hours(HOURS // 2, HOURS), begins=noon, mail=channel)
        with mail_server(bound) as (inbox, _):

            async def morning(stage: Scene) -> None:
                while (due := stage.queue.next_due()) is not None:
                    stage.clock.move(max(due, stage.clock.time()))
                    mails = len(inbox.mails)
                    await until(lambda: len(inbox.mails) > mails)  # noqa: B023 (awaited at once)
                    await until(lambda: stage.queue.next_due() != due)
                assert stage.clock.time() <= BEGINS_AT + HOURS * HOUR_S + RETRY_MAX_S
                assert not stage.reports

            play(folder, morning, begins=BEGINS_AT + HOURS * HOUR_S, mail=channel)
            return plans(inbox)


def test_a_mail_server_that_is_down_for_a_day_gets_each_notification_once(tmp_path: Path) -> None:
    assert whole_day(tmp_path) == {f"plan {hour}": 1 for hour in range(HOURS)}


def test_a_queue_that_forgets_what_it_tried_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NotificationQueue, "failed", lambda self, numbers, due: self.sent(numbers))
    assert whole_day(tmp_path) != {f"plan {hour}": 1 for hour in range(HOURS)}
