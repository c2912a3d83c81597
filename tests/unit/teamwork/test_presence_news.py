"""Presence as news: listeners and subscriptions of users hear who comes and goes, as far as it is shown to them."""

from pathlib import Path
from typing import Any

import pytest

from godwit.errors import Refused
from godwit.teamwork import Channel, Team, UserSubscription, join_team
from godwit.teamwork.machine.peer_effects import PresenceChanged
from tests.unit.teamwork.notifier_scene import SCOPE, Scene
from tests.unit.teamwork.notifier_scene import play as play_notifier
from tests.unit.teamwork.open_teams import OpenTeams, play

DESKTOP = Channel("desktop")
ALL = UserSubscription("all", "who is here", ("presence",), (DESKTOP,))
AVAILABLE = UserSubscription(
    "free", "bob is free", ("presence",), (DESKTOP,), query="//presence[user = 'bob' $and$ availability = 'available']"
)


def titles(team: Team, subscription: str) -> list[str]:
    """What a subscription has told, the oldest first."""
    told = reversed(team.subscriptions.notifications())
    return [each.notification.title for each in told if each.notification.subscription == subscription]


def test_a_user_is_notified_of_presence_that_is_shown_to_the_user(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, cid):
            heard: list[Any] = []
            ann.listen(heard.append)
            for team in (ann, cid):
                team.subscriptions.subscribe(ALL)
            ann.subscriptions.subscribe(AVAILABLE)
            bob.presence.set("busy", "in a review")
            await teams.later()
            bob.presence.set("available", shown_to=["ann"])
            await teams.later()
            bob.presence.set("hidden")
            await teams.later()
            device = bob.peer.identity.device
            assert PresenceChanged(ann.scope, "bob", device, "busy", "in a review") in heard
            assert PresenceChanged(ann.scope, "bob", device, "available") in heard
            assert [each for each in titles(ann, "all") if each != "bob is away"] == [
                "bob is busy: in a review",
                "bob is available",
            ]
            assert titles(ann, "all")[-1] == "bob is away"
            assert titles(ann, "free") == ["bob is available"]
            assert titles(cid, "all") == ["bob is busy: in a review", "bob is away"]
            announced = UserSubscription("x", "x", ("presence",), (Channel("message", "community/x"),))
            with pytest.raises(Refused, match="is not announced to community/x"):
                ann.subscriptions.subscribe(announced)

    play(tmp_path, scene)


def test_a_new_device_knows_at_once_who_is_online_and_also_when_it_is_started_again(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, _):
            bob.presence.set("busy", shown_to=["ann"])
            await teams.later()
            join_team(teams.folder / "dan", ann.invite("dan"))
            async with teams.open("dan", at="b1") as dan:
                await teams.later(4.0)
                assert [*dan.presence.of("ann").values()] == [*dan.presence.of("cid").values()] == ["available"]
                assert dan.presence.of("bob") == {}
            await teams.net.crash("b1")
            async with teams.open("dan", at="b1") as dan:
                assert [*dan.presence.of("cid").values()] == ["available"]
            await teams.net.restart("b1")

    play(tmp_path, scene)


def changed(device: str, availability: str, user: str = "bob") -> PresenceChanged:
    return PresenceChanged(SCOPE, user, device, availability)


def test_a_user_with_several_devices_comes_and_goes_once(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(ALL)
        for each in (
            changed("laptop", "busy"),
            changed("phone", "busy"),
            changed("phone", "available"),
            changed("laptop", ""),
            changed("phone", ""),
            changed("phone", ""),
            changed("own", "available", "ann"),
        ):
            stage.notifier(each)
        assert stage.titles() == ["bob is busy", "bob is available", "bob is away"]

    play_notifier(tmp_path, scene)


def test_presence_of_users_that_the_user_may_not_see_notifies_nobody(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(ALL)
        stage.hidden.add("user/bob")
        stage.notifier(changed("laptop", "available"))
        stage.hidden.clear()
        assert stage.titles() == []

    play_notifier(tmp_path, scene)


def test_a_record_that_pretends_to_be_presence_notifies_nobody(tmp_path: Path) -> None:
    async def scene(stage: Scene) -> None:
        stage.notifier.subscribe(ALL)
        stage.happens("bob", kind="presence", availability="available")
        assert stage.titles() == []

    play_notifier(tmp_path, scene)
