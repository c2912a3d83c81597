"""Documents: stored, changed on both sides, locked, moved, deleted; what stays of them, and who may do what."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import ContentError, NotHere, ProfileError, Refused
from godwit.teamwork import Limits, Role, Team
from godwit.teamwork.documents import Document
from godwit.teamwork.machine.peer_effects import ChangeRecord
from tests.unit.teamwork.open_teams import OpenTeams, play


def add(team: Team, scope: str, text: str = "hello", name: str = "plan.txt", **fields: Any) -> Document:
    return team.documents.add(scope, BytesIO(text.encode()), name, fields)


def community(teams: tuple[Team, Team, Team], role: Role = Role.EDITOR) -> str:
    """A community of ann with bob."""
    id = teams[0].communities.create("Bridges")
    teams[0].communities.add(id, "bob", role)
    return id


def test_a_document_is_stored_with_its_profile_and_seen_by_members(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            scope = community((ann, bob, cid))
            path = tmp_path / "plan.md"
            path.write_text("# The bridge\n\nsteel")
            made = ann.documents.add(scope, path, fields={"keyword": ["bridge"], "title": "Our bridge"})
            assert (made.name, made.type, made.size, made.version) == ("plan.md", "text/markdown", 19, 1)
            assert made.fields["keyword"] == ["bridge"]
            assert made.fields["title"] == "Our bridge"
            assert ann.documents.open(scope, made.id).read_bytes() == path.read_bytes()
            await team.later()
            [seen] = bob.documents.all(scope)
            assert seen.fields == made.fields
            assert not seen.is_here
            with pytest.raises(NotHere, match="not at this peer: fetch it first"):
                bob.documents.open(scope, made.id)
            assert cid.documents.all(scope) == []
            with pytest.raises(Refused, match="there is no document"):
                cid.documents.get(scope, made.id)

    play(tmp_path, scene)


def test_versions_are_kept_and_what_a_user_has_given_stays(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            scope = community((ann, bob, cid))
            made = add(ann, scope, "one", keyword=["mine"])
            changed = ann.documents.change(scope, made.id, BytesIO(b"two"))
            assert changed.version == 2
            assert changed.fields["keyword"] == ["mine"]
            versions = ann.documents.versions(scope, made.id)
            assert [(each.number, each.user, each.size, each.is_here) for each in versions] == [
                (1, "ann", 3, True),
                (2, "ann", 3, True),
            ]
            assert ann.documents.open(scope, made.id, 1).read_bytes() == b"one"
            assert ann.documents.open(scope, made.id).read_bytes() == b"two"
            manifest = ann.contents.manifest(bytes.fromhex(versions[1].content))
            assert manifest is not None
            assert versions[1].root == manifest.root.hex()
            with pytest.raises(Refused, match="there is no version '7'; there are 1, 2"):
                ann.documents.open(scope, made.id, 7)
            ann.documents.set_fields(scope, made.id, {"keyword": None, "description": "new", "name": "b.txt"})
            seen = ann.documents.get(scope, made.id)
            assert "keyword" not in seen.fields
            assert (seen.name, seen.fields["description"]) == ("b.txt", "new")
            history = ann.documents.history(scope, made.id)
            assert [("content" in each.fields, each.user) for each in history] == [
                (True, "ann"),
                (True, "ann"),
                (False, "ann"),
            ]

    play(tmp_path, scene)


def test_of_two_versions_made_apart_one_is_current_and_the_other_is_reported(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            scope = community((ann, bob, cid))
            made = add(ann, scope, "first")
            await team.later()
            await bob.peer.client.move()
            await team.net.settled()
            ann.documents.change(scope, made.id, BytesIO(b"of ann"))
            bob.documents.change(scope, made.id, BytesIO(b"of bob, in the train"))
            await bob.peer.client.move("b2")
            await team.later()
            ours, theirs = ann.documents.get(scope, made.id), bob.documents.get(scope, made.id)
            assert ours.content == theirs.content
            assert len(ours.conflicts) == 1
            assert ours.conflicts == theirs.conflicts
            assert {ours.version, *ours.conflicts} == {2, 3}
            assert ann.documents.versions(scope, made.id)[ours.version - 1].content == ours.content
            [lost] = [each for each in ann.documents.versions(scope, made.id) if each.is_conflict]
            assert {lost.size, ours.size} == {len(b"of ann"), len(b"of bob, in the train")}
            assert [each.lost for each in ann.documents.history(scope, made.id) if each.lost]
            ann.documents.change(scope, made.id, BytesIO(b"both"))
            assert ann.documents.get(scope, made.id).conflicts == ()

    play(tmp_path, scene)


def test_a_locked_document_is_changed_by_its_holder_alone(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            scope = community((ann, bob, cid))
            ann.communities.add(scope, "cid", Role.EDITOR)
            await team.later()
            made = add(bob, scope)
            bob.documents.lock(scope, made.id)
            await team.later()
            assert cid.documents.get(scope, made.id).locked_by == "bob"
            for refused in (
                lambda: cid.documents.set_fields(scope, made.id, {"title": "x"}),
                lambda: cid.documents.change(scope, made.id, BytesIO(b"x")),
                lambda: cid.documents.lock(scope, made.id),
                lambda: cid.documents.unlock(scope, made.id),
                lambda: cid.documents.delete(scope, made.id),
                lambda: cid.documents.move(scope, made.id, cid.scope),
            ):
                with pytest.raises(Refused, match="locked by bob"):
                    refused()
            assert cid.documents.all(cid.scope) == []
            bob.documents.set_fields(scope, made.id, {"title": "mine"})
            ann.documents.unlock(scope, made.id)  # she owns the community
            await team.later()
            assert cid.documents.set_fields(scope, made.id, {"title": "now"}).fields["title"] == "now"

    play(tmp_path, scene)


def test_a_document_that_is_moved_is_there_with_all_versions_and_not_here(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            scope = community((ann, bob, cid))
            await team.later()
            made = add(bob, scope, "one", keyword=["bridge"])
            bob.documents.change(scope, made.id, BytesIO(b"two"))
            moved = bob.documents.move(scope, made.id, bob.scope)
            assert moved.fields["keyword"] == ["bridge"]
            assert [each.user for each in bob.documents.versions(bob.scope, made.id)] == ["bob", "bob"]
            assert bob.documents.open(bob.scope, made.id, 1).read_bytes() == b"one"
            assert bob.documents.all(scope) == []
            await team.later()
            assert [each.id for each in cid.documents.all(cid.scope)] == [made.id]
            assert ann.documents.all(scope) == []
            back = bob.documents.move(bob.scope, made.id, scope)
            assert (back.version, bob.documents.open(scope, made.id).read_bytes()) == (2, b"two")
            with pytest.raises(Refused, match=r"is in .* already"):
                bob.documents.move(scope, made.id, scope)

    play(tmp_path, scene)


def test_a_deleted_document_leaves_its_history_and_no_content(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, _, _):
            scope = ann.communities.create("Bridges")
            made, kept = add(ann, scope, "gone"), add(ann, scope, "kept")
            ann.documents.delete(scope, made.id)
            assert [each.id for each in ann.documents.all(scope)] == [kept.id]
            with pytest.raises(Refused, match="there is no document"):
                ann.documents.get(scope, made.id)
            assert len(ann.documents.history(scope, made.id)) == 2
            assert ann.collect() == 0  # too young
            assert ann.collect(unused_s=-1e9) == len("gone")
            assert [name.hex() for name in ann.contents.names()] == [kept.content]

    play(tmp_path, scene)


def test_old_versions_are_collected_but_not_those_that_lost(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            scope = community((ann, bob, cid))
            made = add(ann, scope, "v0")
            await team.later()
            await bob.peer.client.move()
            await team.net.settled()
            bob.documents.change(scope, made.id, BytesIO(b"of bob"))
            for number in range(1, 6):
                ann.documents.change(scope, made.id, BytesIO(b"v%d" % number))
            assert ann.collect(versions_kept=2, unused_s=-1e9) == 8
            assert [each.is_here for each in ann.documents.versions(scope, made.id)] == [False] * 4 + [True] * 2
            await bob.peer.client.move("b2")
            await team.later()
            [lost] = bob.documents.get(scope, made.id).conflicts
            assert bob.collect(versions_kept=1, unused_s=-1e9) == 0
            assert bob.documents.open(scope, made.id, lost).read_bytes() == b"of bob"

    play(tmp_path, scene)


def test_bad_names_and_fields_and_missing_rights_are_refused_before_anything_is_stored(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            scope = community((ann, bob, cid), Role.READER)
            await team.later()
            for name in ("", "a/b", "a\nb", "..", "x" * 300):
                with pytest.raises(Refused, match="cannot be the name of a document"):
                    add(ann, scope, name=name)
            with pytest.raises(ProfileError, match="there is no element artefact/colour: allowed are"):
                add(ann, scope, colour="red")
            with pytest.raises(Refused, match="comes from the file itself"):
                add(ann, scope, size=7)
            with pytest.raises(Refused, match="the role of bob is reader, and editor is needed"):
                add(bob, scope)
            with pytest.raises(Refused, match="cid is not a member"):
                add(cid, scope)
            assert [*ann.contents.names(), *bob.contents.names(), *cid.contents.names()] == []
            made = add(ann, scope)
            with pytest.raises(Refused, match="must have a name"):
                ann.documents.set_fields(scope, made.id, {"name": None})

    play(tmp_path, scene)


def test_an_empty_file_is_a_document_and_too_much_is_refused(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together(limits=Limits(1_000, 600)) as (ann, _, _):
            empty = add(ann, ann.scope, "")
            assert ann.documents.open(ann.scope, empty.id).read_bytes() == b""
            with pytest.raises(ContentError, match="at least 601 bytes; 600 are allowed"):
                add(ann, ann.scope, "x" * 601)
            add(ann, ann.scope, "y" * 600)
            with pytest.raises(ContentError, match="there is no room for"):
                add(ann, ann.scope, "z" * 500)
            with pytest.raises(Refused, match="a change has at most"):
                add(ann, ann.scope, "a", description="d" * 2**21)
            assert len(ann.documents.all(ann.scope)) == 2
            assert ann.status().bytes_used == 601

    play(tmp_path, scene)


def test_changes_of_a_stranger_that_are_no_documents_do_no_harm(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            strange: list[dict[str, Any]] = [
                {"content": 5},
                {"content": "zz" * 32, "name": "x"},
                {"content": "00" * 32, "size": "much", "name": 7, "version": None, "root": 1, "given": 3},
                {"name": "without content"},
            ]
            for number, fields in enumerate(strange):
                bob.peer.do(ChangeRecord(bob.scope, f"artefact/{number}", fields))
            await team.later()
            [seen] = ann.documents.all(ann.scope)
            assert (seen.id, seen.size, seen.version) == ("2", 0, 1)
            ann.documents.set_fields(ann.scope, "2", {"title": "x"})
            ann.collect(unused_s=-1e9)

    play(tmp_path, scene)
