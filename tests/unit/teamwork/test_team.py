"""A team as a program uses it: founded, joined, opened again after a kill; as another user sees it."""

import asyncio
import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from godwit.errors import Refused, RepositoryError
from godwit.teamwork import Role, join_team, new_team, open_team
from tests.conventions.repository import ROOT
from tests.unit.teamwork.open_teams import OpenTeams, play

PROGRAM = Path(__file__).with_name("killed_team.py")
ROUNDS, LINES = 2, 5


def killed(folder: Path, lines: int) -> list[list[str]]:
    """What a team acknowledged before it was killed."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen([sys.executable, str(PROGRAM), str(folder)], stdout=subprocess.PIPE, env=variables) as team:
        assert team.stdout is not None
        said = [team.stdout.readline() for _ in range(lines)]
        team.kill()
        said += team.stdout.readlines()
    return [json.loads(line) for line in said if line.endswith(b"\n")]


def test_what_was_acknowledged_survives_a_kill_and_is_found(tmp_path: Path) -> None:
    new_team(tmp_path / "ann", "ann")
    said = [each for _ in range(ROUNDS) for each in killed(tmp_path / "ann", LINES)]
    assert len(said) >= ROUNDS * LINES

    async def scene(team: OpenTeams) -> None:
        async with team.open("ann") as ann:
            shown = {(entry.scope, entry.record) for entry in ann.audit.entries()}
            for scope, document, message, text in said:
                assert ann.documents.open(scope, document).read_text() == text
                assert ann.messages.get(scope, message).attachments == (document,)
                assert (scope, document) in shown
            found = await team.found(ann.search(words="report", kinds=["artefact"], limit=1000))
            assert {(scope, document) for scope, document, _, _ in said} <= {(each.scope, each.id) for each in found}

    play(tmp_path, scene)


def test_a_team_is_founded_joined_and_opened_again(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            assert [user.name for user in bob.people.all()] == ["ann", "bob", "cid"]
            bob.people.change_profile({"skill": ["welding"]})
            await team.later(1000.0)  # until all have said again that they are here
            assert ann.people.get("bob").profile["skill"] == ["welding"]
            await team.later()  # what they said is sent
            status = bob.status()
            assert (status.user, status.role, status.connection, status.broker) == ("bob", "editor", "attached", "b2")
            assert status.waiting == 0
            assert sorted(status.peers.values()) == ["ann", "bob", "cid"]
            assert not status.faults
        async with team.open("bob", at="b3") as bob:
            assert bob.people.get("bob").profile["skill"] == ["welding"]
            found = await team.found(bob.search("//skill[. = 'welding']"))
            assert [(each.kind, each.id, each.name) for each in found] == [("user", "bob", "Bob")]

    play(tmp_path, scene)


def test_a_second_device_of_a_user_has_the_same_rights(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            scope = ann.communities.create("Bridges")
            ann.communities.add(scope, "bob", Role.EDITOR)
            made = ann.documents.add(scope, BytesIO(b"steel"), "plan.txt")
            join_team(tmp_path / "phone", ann.invite("bob", device="phone"))
            async with team.open("phone", at="b1") as phone:
                await team.later()
                phone.communities.join(scope)
                await team.later()
                assert [each.id for each in phone.documents.all(scope)] == [made.id]
            with pytest.raises(Refused, match="only an owner may do this"):
                bob.invite("eve")

    play(tmp_path, scene)


def test_a_folder_is_opened_once_at_a_time(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        new_team(tmp_path / "ann", "ann")
        async with team.open("ann"):
            with pytest.raises(RepositoryError, match="runs already"):
                async with team.open("ann"):
                    pass
        async with team.open("ann") as ann:
            assert ann.people.get("ann").devices

    play(tmp_path, scene)


def test_another_user_reads_what_is_his_and_changes_nothing(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, _, _):
            scope = ann.communities.create("Bridges")
            ann.communities.add(scope, "bob", Role.EDITOR)
            made = ann.documents.add(scope, BytesIO(b"steel"), "plan.txt")
            bob = ann.as_user("bob")
            assert ann.as_user("ann") is ann
            assert bob.documents.open(scope, made.id).read_bytes() == b"steel"
            assert [each.id for each in bob.communities.mine()] == [scope]
            found = await team.found(bob.search(words="steel"))
            assert [each.id for each in found] == [made.id]
            for refused in (
                lambda: bob.documents.add(scope, BytesIO(b"x"), "x.txt"),
                lambda: bob.messages.send(scope, "x"),
                lambda: bob.people.change_profile({"name": "x"}),
                lambda: bob.communities.create("x"),
                lambda: bob.presence.set("busy"),
                bob.collect,
                lambda: bob.subscriptions.subscriptions,
            ):
                with pytest.raises(Refused, match="this peer signs for ann alone"):
                    refused()
            with pytest.raises(Refused, match="there is no user 'eve'"):
                ann.as_user("eve")
            ways = {(entry.user, entry.way) for entry in ann.audit.entries() if entry.record == f"artefact/{made.id}"}
            assert ways == {("bob", "view"), ("bob", "file"), ("bob", "search")}

    play(tmp_path, scene)


def test_a_team_closes_without_a_broker_and_keeps_what_was_not_sent(tmp_path: Path) -> None:
    async def scene() -> None:
        new_team(tmp_path / "ann", "ann", brokers=["127.0.0.1:1"])
        for waiting in (1, 2):
            async with open_team(tmp_path / "ann") as team:
                team.people.change_profile({"name": f"Ann {waiting}"})
                assert team.status().waiting == waiting + 1

    asyncio.run(scene())


def test_a_community_cannot_include_itself_because_rules_see_profiles_of_users_only(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, _):
            id = ann.communities.create("Optics", join="rule", rule="//name[. = 'Optics']")
            with pytest.raises(Refused, match="'community' is no element"):
                ann.communities.create("Every community", join="rule", rule="//community")
            await teams.later()
            assert ann.communities.get(id).members == {"ann": "owner"}
            bob.people.change_profile({"name": "Optics"})
            await teams.later()
            assert ann.communities.get(id).members == {"ann": "owner", "bob": "reader"}
            assert not ann.peer.faults

    play(tmp_path, scene)
