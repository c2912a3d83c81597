"""Users on real peers: made, changed, suspended; devices that are lost."""

from pathlib import Path
from typing import Any

import pytest

from godwit.errors import Refused
from godwit.teamwork.communities import Communities
from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import ChangeRecord, Happened, SetAvailability
from godwit.teamwork.people import People
from tests.unit.teamwork.live_team import Team, later, on_a_network


def test_users_are_made_changed_and_seen_by_all(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            People(ann).create("dan", {"name": "Dan", "skill": ["optics"]})
            People(bob).change_profile({"name": "Bob", "language": ["de", "en"]})
            await later(team)
            assert [user.name for user in People(bob).all()] == ["ann", "bob", "cid", "dan"]
            assert People(ann).get("bob").profile == {"name": "Bob", "language": ["de", "en"]}
            assert People(bob).get("dan").profile["skill"] == ["optics"]

    on_a_network(tmp_path, scene)


def test_who_is_here_is_seen_and_who_hides_is_not(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, cid):
            bob.do(SetAvailability("busy"))
            cid.do(SetAvailability("hidden"))
            await later(team)
            assert [user.presence for user in People(ann).all()] == ["available", "busy", ""]
            with pytest.raises(Refused, match="availability must be one of available, busy"):
                bob.do(SetAvailability("asleep"))

    on_a_network(tmp_path, scene)


def test_a_component_of_another_peer_is_told_that_a_user_was_created_and_a_community_changed(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, _, cid):
            heard: list[tuple[str, str]] = []

            def listen(happened: Any) -> None:
                if isinstance(happened, Happened) and not happened.added.refused:
                    heard.append((happened.added.change.user, happened.added.change.record))

            community = Communities(ann).create("Bridges")
            Communities(ann).add(community, "cid", Role.READER)
            await later(team)
            end = cid.listen(listen)
            People(ann).create("eve", {"name": "Eve"})
            Communities(ann).change(community, description="of steel")
            await later(team)
            assert {("ann", "member/eve"), ("ann", "user/eve"), ("ann", "scope/self")} <= set(heard)
            end()
            People(ann).create("fay", {})
            await later(team)
            assert ("ann", "member/fay") not in heard

    on_a_network(tmp_path, scene)


def test_a_suspended_user_can_change_nothing_until_resumed(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            People(ann).suspend("bob")
            await later(team)
            with pytest.raises(Refused, match="bob is not a member"):
                People(bob).change_profile({"name": "Robert"})
            People(ann).resume("bob")
            await later(team)
            People(bob).change_profile({"name": "Robert"})

    on_a_network(tmp_path, scene)


def test_a_device_that_was_lost_says_nothing_that_counts(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, cid):
            People(bob).change_profile({"name": "Bob"})
            await later(team)
            People(ann).end_device(bob.identity.device)
            await later(team)
            with pytest.raises(Refused, match="was ended after its change 1"):
                People(bob).change_profile({"name": "Thief"})
            assert People(cid).get("bob").profile == {"name": "Bob"}
            assert People(cid).devices("bob") == ()

    on_a_network(tmp_path, scene)


@pytest.mark.parametrize("name", ["", "a/b", "a.b", "a\nb", "it's", "x" * 101])
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            with pytest.raises(Refused, match="cannot be the name of a user"):
                People(ann).create(name, {})

    on_a_network(tmp_path, scene)


def test_only_an_owner_makes_users_and_a_profile_belongs_to_its_user(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (_, bob, _):
            with pytest.raises(Refused, match="only an owner may do this"):
                People(bob).create("eve", {})
            with pytest.raises(Refused, match="only its author may change it"):
                People(bob).change_profile({"name": "Carl"}, "cid")
            with pytest.raises(Refused, match="only an owner may do this"):
                People(bob).add_device("cid", "spy", DeviceKeys.made("spy").public_fields)
            with pytest.raises(Refused, match="there is no user 'eve'"):
                People(bob).get("eve")
            with pytest.raises(Refused, match="only an owner may do this"):
                bob.do(ChangeRecord(team.scope, "scope/self", {"join": "open"}))

    on_a_network(tmp_path, scene)
