"""The list of what a user was told, and reminders: durable, and once."""

from pathlib import Path
from typing import Any

import pytest

from godwit.teamwork import notification_inbox
from godwit.teamwork.machine.notification_rules import REMINDERS, Channel, UserSubscription
from godwit.teamwork.notification_queue import Batch
from tests.network.waiting import until
from tests.unit.teamwork.notifier_scene import PLANS, Scene, Taken, play

NOW = 1_700_000_000.0  # when the clock of a scene begins
HOUR_S = 3600.0


def test_what_was_told_is_listed_read_or_not_and_says_how_to_end_it(tmp_path: Path) -> None:
    async def before(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        for number in range(3):
            stage.happens(f"plan {number}")
        assert stage.notifier.unread == 3
        newest, *_ = stage.notifier.notifications()
        assert (newest.notification.title, newest.subscription_name) == ("plan 2 (artefact, by bob)", "plans")
        assert newest.to_end == "godwit team subscribe --end 1"
        stage.notifier.mark([newest.id, 999])

    async def after(stage: Scene) -> None:
        assert [each.read for each in stage.notifier.notifications()] == [NOW, None, None]
        assert [each.notification.title[:6] for each in stage.notifier.notifications(only_unread=True)] == [
            "plan 1",
            "plan 0",
        ]
        newest, *_ = stage.notifier.notifications(1)
        assert len(stage.notifier.notifications(before=newest.id)) == 2
        stage.notifier.mark([newest.id], read=False)
        assert stage.notifier.unread == 3
        stage.notifier.end("1")
        assert len(stage.notifier.notifications()) == 3

    play(tmp_path, before, mail=Taken())
    play(tmp_path, after, mail=Taken())


def test_the_list_is_bounded_and_what_was_read_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification_inbox, "TOLD_MAX", 3)

    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        for number in range(3):
            stage.happens(f"plan {number}")
        stage.notifier.mark([stage.notifier.notifications()[0].id])
        stage.happens("plan 3")
        assert [title[:6] for title in stage.titles()] == ["plan 0", "plan 1", "plan 3"]
        stage.happens("plan 4")
        assert [title[:6] for title in stage.titles()] == ["plan 1", "plan 3", "plan 4"]

    play(tmp_path, scene, mail=Taken())


def test_desktop_notifications_are_shown_by_those_who_listen_and_one_that_fails_is_reported(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        shown: list[Batch] = []

        def fail(batch: Batch) -> None:
            raise ZeroDivisionError

        stage.notifier.listen(fail)
        stop = stage.notifier.listen(shown.append)
        stage.notifier.subscribe(UserSubscription("1", "plans", ("artefact",), (Channel("desktop"),)))
        stage.happens("plan A")
        await until(lambda: shown)
        assert shown[0].notifications[0].title == "plan A (artefact, by bob)"
        assert stage.reports == ["a notification could not be shown: ZeroDivisionError()"]
        stop()
        stage.happens("plan B")
        await until(lambda: stage.queue.next_due() is None)
        assert len(shown) == 1
        assert stage.notifier.unread == 2

    play(tmp_path, scene)


def meeting(stage: Scene, **fields: Any) -> None:
    stage.happens("review", kind="meeting", times=[NOW + HOUR_S], duration_s=HOUR_S, **fields)


def let_pass(stage: Scene, until_s: float) -> None:
    while stage.clock.move(NOW + until_s):
        pass


def test_a_user_is_reminded_of_a_meeting_once(tmp_path: Path) -> None:
    async def before(stage: Scene) -> None:
        meeting(stage)
        let_pass(stage, 0.9 * HOUR_S)
        assert stage.titles() == []  # no time was chosen
        meeting(stage, chosen=NOW + HOUR_S)
        [told] = stage.notifier.notifications()
        assert (told.notification.title, told.notification.details["begins"]) == ("review (meeting)", NOW + HOUR_S)
        assert told.to_end == "godwit team subscribe --end reminders"

    async def after(stage: Scene) -> None:
        let_pass(stage, 0.95 * HOUR_S)
        meeting(stage, chosen=NOW + HOUR_S, agenda="changed")
        assert len(stage.titles()) == 1
        meeting(stage, chosen=NOW + 5 * HOUR_S)
        let_pass(stage, 4 * HOUR_S)
        assert len(stage.titles()) == 1
        let_pass(stage, 4.8 * HOUR_S)
        assert len(stage.titles()) == 2

    play(tmp_path, before)
    play(tmp_path, after)


def test_a_reminder_is_told_by_the_next_process_unless_the_meeting_is_over(tmp_path: Path) -> None:
    async def before(stage: Scene) -> None:
        meeting(stage, chosen=NOW + HOUR_S)
        stage.happens("later", kind="meeting", duration_s=HOUR_S, chosen=NOW + 5 * HOUR_S)

    async def after(stage: Scene) -> None:
        let_pass(stage, 5.5 * HOUR_S)
        assert stage.titles() == ["later (meeting)"]

    play(tmp_path, before)
    play(tmp_path, after, begins=NOW + 4 * HOUR_S)


@pytest.mark.parametrize("why", ["cancelled", "declined", "hidden", "ended"])
def test_nobody_is_reminded_of_a_meeting_that_does_not_concern_them(tmp_path: Path, why: str) -> None:
    async def scene(stage: Scene) -> None:
        meeting(stage, chosen=NOW + HOUR_S)
        if why == "cancelled":
            meeting(stage, cancelled=True)
        elif why == "declined":
            answers = [[NOW + HOUR_S, "no"]]
            stage.happens("review.ann", user="ann", kind="answer", author="ann", answers=answers)
        elif why == "hidden":
            stage.hidden.add("meeting/review")
        else:
            stage.notifier.end(REMINDERS.id)
        let_pass(stage, 2 * HOUR_S)
        assert stage.titles() == []

    play(tmp_path, scene)
