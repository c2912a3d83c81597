"""Users who work on the peer of another one, without a peer of their own."""

from io import BytesIO
from pathlib import Path

import pytest

from godwit.errors import Refused
from godwit.teamwork import Role, new_team
from tests.unit.teamwork.open_teams import OpenTeams, play


def test_a_hosted_user_writes_by_a_device_of_its_own_also_after_a_restart(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        new_team(tmp_path / "ann", "ann")
        async with team.open("ann") as ann:
            ann.people.create("dan", {"name": "Dan"}, Role.EDITOR)
            ann.people.create("eve", {}, Role.READER)
            dan = await ann.host("dan")
            assert await ann.host("dan") is dan
            assert ann.as_user("dan") is dan
            await team.later()
            made = dan.documents.add(dan.scope, BytesIO(b"steel"), "plan.txt")
            await team.later()
            assert ann.documents.history(ann.scope, made.id)[0].user == "dan"
            with pytest.raises(Refused, match="this peer signs for ann alone"):
                ann.as_user("eve").messages.send(ann.scope, "hello")
            with pytest.raises(Refused, match="there is no user 'fay'"):
                await ann.host("fay")
            with pytest.raises(Refused, match="only an owner may do this"):
                await dan.host("eve")
        async with team.open("ann") as ann:
            dan = ann.as_user("dan")
            assert dan.documents.open(dan.scope, made.id).read_bytes() == b"steel"
            assert dan.people.devices("dan") == (dan.peer.identity.device,)
            await team.later()
            dan.messages.send(dan.scope, "hello")
            await team.later()
            assert [each.author for each in ann.messages.thread(ann.scope)] == ["dan"]

    play(tmp_path, scene)


def test_a_hosted_folder_that_is_broken_hinders_nobody_else(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        new_team(tmp_path / "ann", "ann")
        async with team.open("ann") as ann:
            for user in ("dan", "eve"):
                ann.people.create(user, {})
                await ann.host(user)
            broken = ann.as_user("dan").folder
        (broken / "device.json").write_text("{}")
        async with team.open("ann") as ann:
            assert any("a hosted user is missing" in fault for fault in ann.status().faults)
            assert ann.as_user("eve").status().device in ann.people.devices("eve")
            with pytest.raises(Refused, match="this peer signs for ann alone"):
                ann.as_user("dan").messages.send(ann.scope, "hello")

    play(tmp_path, scene)
