"""A lost device, once its team has ended it: it reads nothing that is new, writes nothing, and is not answered."""

from io import BytesIO
from pathlib import Path

import pytest

from godwit.errors import Refused
from godwit.teamwork import Role, Team, join_team
from godwit.teamwork.machine.departures import Departures
from tests.unit.teamwork.open_teams import OpenTeams, play

SEALED = pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "plain"])


def texts(team: Team, scope: str) -> list[str]:
    return [each.text for each in team.messages.thread(scope)]


def can_read(teams: OpenTeams, team: Team, words: bytes) -> bool:
    """Whether a device has the keys to something that it has received."""
    received = (event.payload or b"" for event in teams.net.received(team.peer.identity.device))
    opened = (team.peer.ring.opened(payload) for payload in received)
    return any(isinstance(each, bytes) and words in each for each in opened)


async def phone_of_bob(teams: OpenTeams, ann: Team) -> None:
    """Bob's phone is invited and joins, in a folder of its own."""
    join_team(teams.folder / "phone", ann.invite("bob", device="phone"))


@SEALED
def test_an_ended_device_gets_nothing_new_of_communities_and_conversations(tmp_path: Path, is_sealed: bool) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, cid):
            await phone_of_bob(teams, ann)
            async with teams.open("phone", at="b3") as phone:
                community = ann.communities.create("Bridges", sealed=is_sealed)
                for user in ("bob", "cid"):
                    ann.communities.add(community, user, Role.EDITOR)
                talk = ann.messages.conversation(["bob"])
                for scope in (community, talk):
                    ann.messages.send(scope, "before")
                await teams.later(120.0)
                assert texts(phone, community) == texts(phone, talk) == ["before"]
                ann.people.end_device(phone.peer.identity.device)
                await teams.later()
                for scope, author in ((community, ann), (community, cid), (talk, bob)):
                    author.messages.send(scope, "top secret")
                bob.documents.add(community, BytesIO(b"secret"), "top secret.txt")
                await teams.later(120.0)
                assert texts(bob, community) == ["before", "top secret", "top secret"]
                assert texts(ann, talk) == ["before", "top secret"]
                assert texts(phone, community) == texts(phone, talk) == ["before"]
                assert not phone.documents.all(community)
                assert not can_read(teams, phone, b"top secret")
                assert not is_sealed or can_read(teams, phone, b"before")

    play(tmp_path, scene)


def test_what_an_ended_device_writes_and_asks_counts_nowhere(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, cid):
            await phone_of_bob(teams, ann)
            async with teams.open("phone", at="b3") as phone:
                community = ann.communities.create("Bridges")
                ann.communities.add(community, "bob", Role.EDITOR)
                cid.documents.add(cid.scope, BytesIO(b"steel"), "steel.txt")
                await teams.later(120.0)
                device = phone.peer.identity.device
                for pair in teams.net.links:
                    teams.net.cut(*pair)  # it does not hear of its end
                ann.people.end_device(device)
                phone.messages.send(community, "from the finder")
                for pair in teams.net.links:
                    teams.net.join(*pair)
                await teams.later(120.0)
                assert texts(ann, community) == texts(bob, community) == []
                with pytest.raises(Refused, match=f"the device {device} was ended"):
                    phone.messages.send(community, "again")
                asked = len(cid.audit.entries(user="bob"))
                searching = phone.search(words="steel", wait_s=3.0)
                await teams.later(10.0)
                await searching.finished()
                assert set(searching.progress.answered) <= {device}
                assert len(cid.audit.entries(user="bob")) == asked
                assert device not in bob.people.devices("bob")
                assert device not in bob.presence.of("bob")
                assert not bob.status().peers.keys() & {device}

    play(tmp_path, scene)


def test_a_device_that_is_not_known_cannot_be_ended(tmp_path: Path) -> None:
    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, _):
            with pytest.raises(
                Refused, match=f"there is no device 'bob-phone'; there are .*{bob.peer.identity.device}"
            ):
                ann.people.end_device("bob-phone")

    play(tmp_path, scene)


def test_a_device_that_goes_on_reading_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Departures, "on_record", lambda self, scope, name: None)
    with pytest.raises(AssertionError):
        test_an_ended_device_gets_nothing_new_of_communities_and_conversations(tmp_path, False)
