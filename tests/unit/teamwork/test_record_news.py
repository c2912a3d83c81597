"""Notifications follow the repository: none is lost and none is made twice, whenever the process ends."""

from pathlib import Path

import pytest

from godwit.teamwork import notifier as notifier_module
from godwit.teamwork.machine.scope_log import ScopeLog
from godwit.teamwork.record_news import Place, now_at
from tests.unit.teamwork.machine.team_of_peers import Keys
from tests.unit.teamwork.notifier_scene import PLANS, SCOPE, Scene, Taken, play


def test_a_change_notifies_although_the_process_ended_before_the_notifier_heard_of_it(tmp_path: Path) -> None:
    async def before(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.happens("plan A")
        stage.changed("plan B")  # kept, and then the process ends

    async def after(stage: Scene) -> None:
        assert stage.titles() == ["plan A (artefact, by bob)", "plan B (artefact, by bob)"]
        stage.notifier.follow()
        assert len(stage.titles()) == 2

    play(tmp_path, before, mail=Taken())
    play(tmp_path, after, mail=Taken())


def test_a_process_that_ends_while_it_makes_notifications_makes_them_once(tmp_path: Path) -> None:
    class Ends(Exception):
        pass

    async def before(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        for number in range(5):
            stage.changed(f"plan {number}")
        taken = 0

        def may_see(scope: str, record: str) -> bool:
            nonlocal taken
            taken += 1
            if taken == 3:
                raise Ends
            return True

        stage.notifier._may_see = may_see
        with pytest.raises(Ends):
            stage.notifier.follow()

    async def after(stage: Scene) -> None:
        assert stage.titles() == [f"plan {number} (artefact, by bob)" for number in range(5)]

    play(tmp_path, before, mail=Taken())
    play(tmp_path, after, mail=Taken())


def test_several_changes_of_a_record_are_one_notification_if_they_come_together(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.changed("plan A", size=1)
        stage.changed("plan A", size=2)
        stage.notifier.follow()
        assert len(stage.titles()) == 1
        stage.happens("plan A", size=3)
        assert len(stage.titles()) == 2

    play(tmp_path, scene, mail=Taken())


def test_a_change_of_another_is_not_hidden_by_a_change_of_the_user_that_came_with_it(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.changed("plan A")
        stage.changed("plan A", user="ann", size=2)
        stage.notifier.follow()
        assert stage.titles() == ["plan A (artefact, by bob)"]
        stage.happens("plan A", user="ann", size=3)
        assert len(stage.titles()) == 1

    play(tmp_path, scene, mail=Taken())


def test_a_change_without_a_right_notifies_when_the_right_becomes_known_and_only_then(tmp_path: Path) -> None:
    async def first(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.happens("plan of eve", user="eve")
        stage.happens("plan of eve", user="eve", size=2)
        assert stage.titles() == []

    async def second(stage: Scene) -> None:
        ann = ScopeLog(SCOPE, stage.repository, Keys("ann"))
        joined = ann.make("ann", "ann", "member/eve", {"state": "joined", "role": "editor"}, 0.0)
        change = ann.make("a0", "ann", "member/eve", {"state": "joined", "role": "editor"}, 0.0)
        early = type(joined)(SCOPE, "a0", 1, 1, "ann", "member/eve", dict(change.fields))  # before what eve has made
        ann.add(early)
        stage.notifier.follow()
        assert stage.titles() == ["plan of eve (artefact, by eve)"]
        ann.add(ann.make("ann", "ann", "member/eve", {"state": "left"}, 0.0))
        stage.notifier.follow()
        assert len(stage.titles()) == 1

    play(tmp_path, first, mail=Taken())
    play(tmp_path, second, mail=Taken())


def test_a_subscription_hears_of_nothing_that_was_there_before(tmp_path: Path) -> None:
    async def before(stage: Scene) -> None:
        stage.happens("plan A")
        stage.changed("plan B")
        stage.notifier.subscribe(PLANS)

    async def after(stage: Scene) -> None:
        assert stage.titles() == []

    play(tmp_path, before, mail=Taken())
    play(tmp_path, after, mail=Taken())


def test_nobody_is_notified_of_what_the_user_may_not_see(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.hidden.add("artefact/plan A")
        stage.happens("plan A")
        assert stage.titles() == []

    play(tmp_path, scene, mail=Taken())


def test_another_repository_is_followed_from_now_on_and_reported(tmp_path: Path) -> None:
    async def before(stage: Scene) -> None:
        stage.notifier.subscribe(PLANS)
        stage.changed("plan A")

    async def after(stage: Scene) -> None:
        assert stage.reports == ["the repository is another one: notifications begin with what happens from now on"]
        stage.happens("plan B")
        assert stage.titles() == ["plan B (artefact, by bob)"]

    play(tmp_path, before, mail=Taken())
    for path in tmp_path.glob("repository*"):
        path.unlink()
    play(tmp_path, after, mail=Taken())


def test_a_notifier_that_forgets_where_it_was_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begins_now(self: notifier_module.Notifier) -> Place:
        return now_at(self._repository)

    monkeypatch.setattr(notifier_module.Notifier, "_place_to_go_on", begins_now)
    with pytest.raises(AssertionError):
        test_a_change_notifies_although_the_process_ended_before_the_notifier_heard_of_it(tmp_path)
