"""Files of documents between peers: fetched by members and by those to whom they are shown, and by nobody else."""

import asyncio
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from godwit.errors import NotHere, Refused
from godwit.teamwork import FileAddress, Role, Team
from godwit.teamwork.commands import run
from godwit.teamwork.file_requests import Asker
from godwit.teamwork.manifests import Manifest
from tests.unit.teamwork.open_teams import OpenTeams, play

DATA = Random(1).randbytes(3 * 2**20 + 17)
FILES = FileAddress()


async def fetched(team: OpenTeams, getting: "asyncio.Task[Path]") -> bytes:
    await team.later(1.0)
    async with asyncio.timeout(60):
        return (await getting).read_bytes()


def test_a_member_fetches_what_was_stored_and_finds_its_text(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together(files=FILES) as (ann, bob, _):
            scope = ann.communities.create("Bridges")
            ann.communities.add(scope, "bob", Role.EDITOR)
            large = ann.documents.add(scope, BytesIO(DATA), "plan.bin")
            small = ann.documents.add(scope, BytesIO(b"of steel"), "plan.txt")
            ann.documents.change(scope, large.id, BytesIO(b"newer"))
            await team.later()
            told: list[tuple[int, int]] = []
            getting = asyncio.create_task(bob.documents.fetch(scope, large.id, 1, lambda *said: told.append(said)))
            assert await fetched(team, getting) == DATA
            assert told[-1] == (len(DATA), len(DATA))
            assert await fetched(team, asyncio.create_task(bob.documents.fetch(scope, large.id))) == b"newer"
            assert await fetched(team, asyncio.create_task(bob.documents.fetch(scope, small.id))) == b"of steel"
            ways = [(entry.user, entry.way, entry.record) for entry in ann.audit.entries() if entry.way == "file"]
            assert ("bob", "file", f"artefact/{large.id}") in ways
            await bob.quiet()
            await ann.peer.client.move()
            await team.net.settled()
            assert [each.id for each in await team.found(bob.search(words="steel"))] == [small.id]

    play(tmp_path, scene)


def test_a_document_that_is_shown_to_one_user_is_fetched_by_that_user(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together(files=FILES) as (ann, bob, cid):
            scope = ann.communities.create("Bridges", listed=False)
            made = ann.documents.add(scope, BytesIO(b"old"), "plan.txt", {"keyword": ["k"]})
            ann.documents.change(scope, made.id, BytesIO(b"new"))
            ann.rights.show(scope, made.id, ["cid"])
            await team.later()
            [found] = await team.found(cid.search("//keyword[. = 'k']"))
            assert await fetched(team, asyncio.create_task(cid.documents.fetch_found(found))) == b"new"
            with pytest.raises(Refused, match="there is no document"):
                await cid.documents.fetch(scope, made.id)
            with pytest.raises(Refused, match="this peer signs for bob alone"):
                await bob.as_user("cid").documents.fetch_found(found)

    play(tmp_path, scene)


def test_a_document_that_is_shown_to_one_user_is_got_by_its_name(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together(files=FILES) as (ann, bob, cid):
            scope = ann.communities.create("Bridges", listed=False)
            made = ann.documents.add(scope, BytesIO(b"old"), "plan.txt")
            ann.documents.change(scope, made.id, BytesIO(b"new"))
            ann.rights.show(scope, made.id, ["cid"])
            await team.later()

            async def got(by: Team, **asked: Any) -> Any:
                return [answer async for answer in run(by, "get document", {"version": None, **asked})][-1]

            async def played(by: Team, **asked: Any) -> Any:
                getting = asyncio.create_task(got(by, **asked))
                await team.later(10.0)
                async with asyncio.timeout(60):
                    return await getting

            for word in ("plan.txt", made.id):
                answer = await played(cid, document=word)
                assert (answer["id"], answer["name"], answer["scope"]) == (made.id, "plan.txt", scope)
                assert Path(answer["path"]).read_bytes() == b"new"
            with pytest.raises(Refused, match="in its current version alone"):
                await played(cid, document="plan.txt", version=1)
            with pytest.raises(Refused, match=r"there is no document 'plan\.txt'"):
                await played(bob, document="plan.txt")

    play(tmp_path, scene)


def test_nobody_gets_a_file_without_a_right(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together(files=FILES) as (ann, bob, cid):
            scope = ann.communities.create("Bridges")
            ann.communities.add(scope, "bob")
            made = ann.documents.add(scope, BytesIO(b"secret"), "plan.txt")
            await team.later()
            [version] = ann.documents.versions(scope, made.id)
            name = bytes.fromhex(version.content)

            def refused(user: Team, record: str = made.id) -> str:
                asker = Asker(user.user, user.peer.identity.device)
                return ann.files.permission(asker, scope, f"artefact/{record}", name).refused

            assert refused(bob) == ""
            assert "cid has no right" in refused(cid)
            assert "has no right" in refused(bob, "other")
            assert (
                "is not a device of"
                in ann.files.permission(
                    Asker("bob", cid.peer.identity.device), scope, f"artefact/{made.id}", name
                ).refused
            )
            assert ann.files.permission(
                Asker("bob", bob.peer.identity.device), scope, f"artefact/{made.id}", name
            ).must_be_sealed
            ann.communities.remove(scope, "bob")
            assert "bob has no right" in refused(bob)
            ann.communities.add(scope, "bob")
            ann.people.end_device(bob.peer.identity.device)
            assert "was ended" in refused(bob)

    play(tmp_path, scene)


def test_a_file_that_nobody_gives_is_not_here(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):  # nobody serves files
            made = ann.documents.add(ann.scope, BytesIO(b"x"), "plan.txt")
            await team.later()
            [version] = bob.documents.versions(bob.scope, made.id)
            assert (
                version.root == Manifest(bytes.fromhex(version.content), 1, bytes.fromhex(version.content)).root.hex()
            )
            getting = asyncio.create_task(bob.documents.fetch(bob.scope, made.id))
            await team.later()
            getting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await getting
            with pytest.raises(NotHere):
                bob.documents.open(bob.scope, made.id)

    play(tmp_path, scene)
