"""Nobody sees a profile, artefact, message or search result without a right, by any path."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from godwit.errors import GodwitError, Refused
from godwit.teamwork import Channel, Grant, Role, Team, UserSubscription
from godwit.teamwork.access import Access, checked_grants
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.notification_queue import Batch
from tests.unit.teamwork.open_teams import OpenTeams, play

SECRET = "kryptonite"
KINDS = ("artefact", "message", "meeting", "user", "community", "scope", "member")


class Told:
    """A channel that remembers what it was given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def send(self, batch: Batch) -> None:
        self.batches.append(batch)


def reading(team: Team, scope: str, id: str, message: str, meeting: str) -> dict[str, Callable[[], Any]]:
    """All that a user can call to read, by name."""
    return {
        "people": team.people.all,
        "mine": team.communities.mine,
        "listed": team.communities.listed,
        "community": lambda: team.communities.get(scope),
        "documents": lambda: team.documents.all(scope),
        "document": lambda: team.documents.get(scope, id),
        "versions": lambda: team.documents.versions(scope, id),
        "history": lambda: team.documents.history(scope, id),
        "open": lambda: team.documents.open(scope, id).read_bytes(),
        "old version": lambda: team.documents.open(scope, id, 1).read_bytes(),
        "thread": lambda: team.messages.thread(scope),
        "message": lambda: team.messages.get(scope, message),
        "conversations": team.messages.conversations,
        "unread": team.messages.unread,
        "meetings": lambda: team.meetings.all(scope),
        "meeting": lambda: team.meetings.get(scope, meeting),
    }


async def leaks(team: OpenTeams, view: Team, ids: tuple[str, str, str, str], *, knew_scope: bool = False) -> list[str]:
    """The paths by which a user learns of the secret, or of the scope that holds it."""
    found = []
    for name, read in reading(view, *ids).items():
        try:
            seen = repr(read())
        except GodwitError as error:
            seen = str(error).replace(ids[0], "").replace(ids[1], "")
        if SECRET in seen or (ids[0] in seen and not knew_scope):
            found.append(name)
    for query, words in ((f"//keyword[. = '{SECRET}']", ""), ("", SECRET)):
        results = await team.found(view.search(query, words=words))
        found += ["search"] * bool(results)
    return found


def everything(ann: Team, scope: str) -> tuple[str, str, str, str]:
    """One of each in a scope of ann, all with the secret."""
    made = ann.documents.add(scope, BytesIO(SECRET.encode()), f"{SECRET}.txt", {"keyword": [SECRET]})
    ann.documents.change(scope, made.id, BytesIO(f"{SECRET} again".encode()))
    message = ann.messages.send(scope, f"about {SECRET}")
    meeting = ann.meetings.propose(scope, f"on {SECRET}", [1.0])
    return scope, made.id, message, meeting


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_nobody_but_members_sees_anything_by_any_path(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        told = Told()
        async with team.together(senders={"desktop": told}) as (ann, bob, cid):
            for each in (bob, cid):
                each.subscriptions.subscribe(UserSubscription("s", "all", KINDS, (Channel("desktop"),)))
            scope = ann.communities.create(f"On {SECRET}", listed=False)
            ann.communities.add(scope, "bob")
            ids = everything(ann, scope)
            await team.later()
            received = team.net.received(cid.peer.identity.device)
            assert all(SECRET.encode() not in (event.payload or b"") for event in received)
            assert SECRET.encode() not in stored_bytes(tmp_path / "cid")  # before anybody has searched for it
            assert {batch.notifications[0].scope for batch in told.batches} == {scope}
            assert await leaks(team, bob, ids) != []  # a member
            for view in (cid, ann.as_user("cid"), bob.as_user("cid")):
                assert await leaks(team, view, ids) == []
            assert [entry for entry in ann.audit.entries() if entry.user == "cid" and entry.scope == scope] == []

    play(tmp_path, scene)


def test_who_has_left_sees_nothing_of_it_any_more(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        told = Told()
        async with team.together(senders={"desktop": told}) as (ann, bob, _):
            bob.subscriptions.subscribe(UserSubscription("s", "all", KINDS, (Channel("desktop"),)))
            scope = ann.communities.create("Bridges", listed=False)
            ann.communities.add(scope, "bob")
            await team.later()
            ann.communities.remove(scope, "bob")
            await team.later()
            told.batches.clear()
            ids = everything(ann, scope)
            await team.later()
            assert told.batches == []
            assert SECRET.encode() not in stored_bytes(tmp_path / "bob")  # before bob has searched for it
            assert await leaks(team, bob, ids, knew_scope=True) == []
            assert await leaks(team, ann.as_user("bob"), ids) == []

    play(tmp_path, scene)


def test_who_was_suspended_in_the_team_sees_nothing_at_all(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            scope = ann.communities.create("Bridges")
            ann.communities.add(scope, "bob")
            ids = everything(ann, scope)
            ann.rights.show(scope, ids[1], ["bob"])
            await team.later()
            ann.people.suspend("bob")
            await team.later()
            for view in (ann.as_user("bob"), bob):
                assert await leaks_of_search(team, view) == []
                assert [user.profile for user in view.people.all()] == [{}]
                assert view.documents.all(scope) == []
                assert view.presence.of("ann") == {}

    play(tmp_path, scene)


def test_presence_that_is_shown_to_the_user_of_a_peer_is_not_shown_to_others_there(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            bob.presence.set("busy", "in a review", shown_to=["ann"])
            await team.later()
            device = bob.peer.identity.device
            assert ann.people.get("bob").presence == "busy"
            assert device in ann.presence.of("bob")
            view = ann.as_user("cid")
            assert view.presence.of("bob") == {}
            assert view.people.get("bob").presence == ""
            assert view.status().peers == {}

    play(tmp_path, scene)


async def leaks_of_search(team: OpenTeams, view: Team) -> list[Any]:
    """What a user finds, where searching is allowed."""
    try:
        return await team.found(view.search(words=SECRET))
    except Refused as error:
        return [] if "is not a member of the team" in str(error) else [error]


def test_a_gate_that_is_open_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, _, _):
            scope = ann.communities.create("Bridges", listed=False)
            ids = everything(ann, scope)
            with monkeypatch.context() as context:
                context.setattr(Access, "role", lambda self, user, scope: Role.READER)
                found = await leaks(team, ann.as_user("cid"), ids)
            assert {"documents", "history", "open", "old version", "thread", "meeting", "search"} <= set(found)

    play(tmp_path, scene)


# ------------------------------------------------------------ grants


def grants(scope: str) -> dict[str, tuple[Grant | str, bool]]:
    """Grants, and whether each is for cid."""
    return {
        "user": ("cid", True),
        "another user": ("bob", False),
        "community": (Grant(community=scope), True),
        "role too low": (Grant(community=scope, role="owner"), False),
        "query": (Grant(query="//skill[. = 'welding']"), True),
        "another query": (Grant(query="//skill[. = 'optics']"), False),
        "all must hold": (Grant(user="cid", query="//skill[. = 'optics']"), False),
        "nobody": (Grant(), False),
        "role in the team": (Grant(role="editor"), True),
        "owners of the team": (Grant(role="owner"), False),
    }


def test_a_document_is_shown_to_those_whom_a_grant_names(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, _, cid):
            cid.people.change_profile({"skill": ["welding"]})
            others = ann.communities.create("Others")
            ann.communities.add(others, "cid")
            scope = ann.communities.create("Bridges", listed=False)
            made = {}
            expected = set()
            for name, (grant, is_shown) in grants(others).items():
                document = ann.documents.add(scope, BytesIO(name.encode()), f"{name}.txt", {"keyword": ["k"]})
                ann.documents.change(scope, document.id, BytesIO(f"{name} 2".encode()))
                ann.rights.show(scope, document.id, [grant])
                made[document.id] = name
                expected |= {name} if is_shown else set()
            await team.later()
            found = await team.found(cid.search("//keyword[. = 'k']"))
            assert {made[each.id] for each in found} == expected
            view = ann.as_user("cid")
            assert {made[each.id] for each in view.documents.all(scope)} == expected
            for id, name in made.items():
                if name in expected:
                    assert view.documents.open(scope, id).read_bytes() == f"{name} 2".encode()
                    assert len(view.documents.history(scope, id)) == 1
                    assert len(view.documents.versions(scope, id)) == 1
                for version, text in ((1, name), (2, f"{name} 2")):
                    content = ann.documents.versions(scope, id)[version - 1].content
                    may = ann.access.may_read_content("cid", scope, f"artefact/{id}", content)
                    assert may is (name in expected and version == 2), text
                    assert ann.access.may_read_content("ann", scope, f"artefact/{id}", content)
            assert not ann.access.may_read_content("ann", scope, f"artefact/{id}", "00" * 32)
            for id in made:
                ann.rights.show(scope, id, [])
            await team.later()
            assert await team.found(cid.search("//keyword[. = 'k']")) == []

    play(tmp_path, scene)


def test_documents_of_a_scope_are_shown_by_what_they_are(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, _, cid):
            scope = ann.communities.create("Bridges", listed=False)
            for keyword in ("public", "private"):
                ann.documents.add(scope, BytesIO(b"x"), f"{keyword}.txt", {"keyword": [keyword], "title": "bridge"})
            message = ann.messages.send(scope, "bridge")
            ann.rights.show_scope(scope, [Grant(user="cid", what="//keyword[. = 'public']")])
            await team.later()
            found = await team.found(cid.search("//title[. = 'bridge']"))
            assert [each.name for each in found] == ["public.txt"]
            with pytest.raises(Refused, match="there is no message"):
                ann.as_user("cid").messages.get(scope, message)

    play(tmp_path, scene)


def test_the_team_limits_what_is_searched(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            public = Grant(what="artefact/keyword = 'public'", language="filter")
            ann.rights.limit_searches([public, Grant(role="owner")])
            for keyword in ("public", "private"):
                ann.documents.add(ann.scope, BytesIO(b"x"), f"{keyword}.txt", {"keyword": [keyword]})
            await team.later()
            found = await team.found(bob.search("artefact/keyword = 'public' AND artefact/size < 9", "filter"))
            assert [each.name for each in found] == ["public.txt"]
            with pytest.raises(Refused, match="no grant of search covers it"):
                bob.search("artefact/keyword = 'private'", "filter")
            with pytest.raises(Refused, match="no grant of search covers it"):
                bob.search(words="x")
            assert len(await team.found(ann.search(words="x"))) == 2

    play(tmp_path, scene)


def test_the_team_limits_what_is_subscribed_to(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            ann.rights.limit_subscriptions([Grant(what="artefact/keyword = 'public'", language="filter")])
            await team.later()
            wanted = UserSubscription("s", "all", ("artefact",), (Channel("desktop"),))
            public = "artefact/keyword = 'public' AND artefact/size < 9"
            bob.subscriptions.subscribe(replace(wanted, query=public, language="filter"))
            for beyond in (
                wanted,
                replace(wanted, query="//keyword"),
                replace(wanted, query="artefact/size < 9", language="filter"),
            ):
                with pytest.raises(Refused, match="no grant of subscribe covers it"):
                    bob.subscriptions.subscribe(beyond)
            ann.rights.limit_subscriptions(None)
            await team.later()
            bob.subscriptions.subscribe(wanted)

    play(tmp_path, scene)


def test_users_hear_of_communities_once_members_or_not(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            for each in (bob, cid):
                wanted = UserSubscription("s", "c", ("community",), (Channel("desktop"),), query="//about[. = 'steel']")
                each.subscriptions.subscribe(wanted)
            listed = ann.communities.create("Bridges")
            hidden = ann.communities.create("Merger", listed=False)
            for scope in (listed, hidden):
                ann.communities.add(scope, "bob")
            await team.later()
            for scope in (listed, hidden):
                ann.communities.change(scope, description="steel")
            await team.later()
            heard = [
                sorted(told.notification.title for told in each.subscriptions.notifications()) for each in (bob, cid)
            ]
            assert [[title.partition(" ")[0] for title in titles] for titles in heard] == [
                ["Bridges", "Merger"],
                ["Bridges"],
            ]

    play(tmp_path, scene)


def test_a_notification_that_waits_is_not_told_when_the_right_has_ended(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        told = Told()
        async with team.together(senders={"desktop": told}) as (ann, bob, _):
            scope = ann.communities.create("Bridges", sealed=False)
            ann.communities.add(scope, "bob")
            await team.later()
            bob.subscriptions.subscribe(
                UserSubscription("s", "all", ("artefact",), (Channel("desktop"),), digest_s=86_400.0)
            )
            ann.documents.add(scope, BytesIO(b"x"), f"{SECRET}.txt")
            kept = ann.documents.add(ann.scope, BytesIO(b"x"), "kept.txt")
            await team.later()
            assert len(bob.subscriptions.notifications()) == 2
            ann.communities.remove(scope, "bob")
            await team.later(90_000.0)
            [batch] = told.batches
            assert [each.record for each in batch.notifications] == [f"artefact/{kept.id}"]
            assert [each.notification.record for each in bob.subscriptions.notifications()] == [f"artefact/{kept.id}"]

    play(tmp_path, scene)


def test_what_is_no_grant_grants_nothing(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, _, _):
            scope = ann.communities.create("Bridges")
            made = ann.documents.add(scope, BytesIO(b"x"), "x.txt")
            for shown_to in (
                "cid", {"user": "cid"}, [5], [{"users": "cid"}], [{"query": "//[["}], [{"role": "king"}], [None], 7,
            ):  # fmt: skip
                ann.peer.do(ChangeRecord(scope, f"artefact/{made.id}", {"shown_to": shown_to}))
                assert not ann.access.may_see("cid", scope, f"artefact/{made.id}"), shown_to

    play(tmp_path, scene)


def test_a_grant_that_cannot_be_is_refused() -> None:
    with pytest.raises(Refused, match="a role is one of reader, editor, owner, not 'king'"):
        checked_grants([Grant(role="king")])
    with pytest.raises(GodwitError):
        checked_grants([Grant(query="//[[")])
    with pytest.raises(Refused, match="at most 100 grants"):
        checked_grants(["ann"] * 101)
