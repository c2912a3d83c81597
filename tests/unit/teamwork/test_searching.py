"""A search answers all that reachable peers may show, once; and says who has not answered."""

from contextlib import AsyncExitStack
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from godwit.errors import GodwitError, Refused
from godwit.teamwork import Role, SearchProgress, Team, join_team
from godwit.teamwork.machine.bus import Answers, Found, signed_bytes_of
from godwit.teamwork.machine.peer_effects import EventCame
from godwit.teamwork.machine.presence import Presence
from godwit.teamwork.record_index import RecordIndex
from tests.unit.teamwork.open_teams import OpenTeams, play

USERS = ("ann", "bob", "cid")
SEEDS = range(2)


class Truth:
    """What was made, and who may see it at which peer."""

    def __init__(self) -> None:
        self.members: dict[str, set[str]] = {}
        self.made: dict[tuple[str, str], tuple[str, set[str]]] = {}
        """By scope and document, its maker and to whom it is shown."""

    def visible(self, asker: str, reachable: set[str]) -> set[tuple[str, str]]:
        """Documents of the asker's own scopes, and those that a reachable member may show."""
        found = set()
        for (scope, id), (_, shown_to) in self.made.items():
            members = self.members[scope]
            if asker in members or (asker in shown_to and members & reachable):
                found.add((scope, id))
        return found


async def made(team: OpenTeams, teams: dict[str, Team], random: Random) -> Truth:
    """Communities with some members, documents in them, some of them shown to others."""
    truth = Truth()
    for founder in USERS:
        for listed in (True, False):
            scope = teams[founder].communities.create(f"Of {founder}", listed=listed)
            others = random.sample([user for user in USERS if user != founder], random.randrange(3))
            for user in others:
                teams[founder].communities.add(scope, user, Role.EDITOR)
            truth.members[scope] = {founder, *others}
    await team.later()
    for scope, members in truth.members.items():
        for _ in range(2):
            maker = random.choice(sorted(members))
            fields = {"keyword": ["wanted" if random.random() < 0.8 else "other"]}
            text = f"about steel {random.random()}".encode()
            document = teams[maker].documents.add(scope, BytesIO(text), "plan.txt", fields)
            shown_to = set(random.sample(USERS, random.randrange(3)))
            if shown_to:
                teams[maker].rights.show(scope, document.id, sorted(shown_to))
            if fields["keyword"] == ["wanted"]:
                truth.made[scope, document.id] = (maker, shown_to)
    await team.later()
    return truth


async def found_by(team: OpenTeams, searcher: Team) -> list[tuple[str, str]]:
    return [(each.scope, each.id) for each in await team.found(searcher.search("//keyword[. = 'wanted']"))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_search_finds_all_that_reachable_peers_may_show_once(tmp_path: Path, seed: int) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as opened:
            teams = dict(zip(USERS, opened, strict=True))
            truth = await made(team, teams, Random(seed))
            for asker in USERS:
                found = await found_by(team, teams[asker])
                assert len(found) == len(set(found))
                assert set(found) == truth.visible(asker, set(USERS) - {asker}), asker
        async with AsyncExitStack() as stack:
            teams = {user: await stack.enter_async_context(team.open(user)) for user in ("bob", "cid")}
            await team.later()
            for asker, other in (("bob", "cid"), ("cid", "bob")):
                found = await found_by(team, teams[asker])
                assert len(found) == len(set(found))
                assert set(found) == truth.visible(asker, {other}), asker

    play(tmp_path, scene)


def test_a_peer_that_holds_something_back_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as opened:
            teams = dict(zip(USERS, opened, strict=True))
            truth = await made(team, teams, Random(0))
            with monkeypatch.context() as context:
                find = RecordIndex.find
                context.setattr(RecordIndex, "find", lambda *args, **options: find(*args, **options)[1:])
                missed = [
                    asker
                    for asker in USERS
                    if set(await found_by(team, teams[asker])) != truth.visible(asker, set(USERS) - {asker})
                ]
            assert missed

    play(tmp_path, scene)


def test_an_answer_in_the_name_of_another_is_not_taken(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            searching = ann.search(words="steel")
            lie = Found(ann.scope, "artefact/1", b'<artefact id="1"><name>steel</name></artefact>')
            answer = Answers(cid.peer.identity.device, "cid", ann.peer.identity.device, searching.id, (lie,))
            signature = bob.peer.devices.sign(signed_bytes_of(answer))
            ann.peer.tell(EventCame(msgspec.msgpack.encode(msgspec.structs.replace(answer, signature=signature))))
            assert cid.peer.identity.device not in searching.progress.answered
            assert await team.found(searching) == []
            assert cid.peer.identity.device in searching.progress.answered

    play(tmp_path, scene)


def test_the_text_of_documents_is_found_at_peers_that_have_them_and_ranked(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            for name, text in (("a.txt", "steel " * 20), ("b.txt", "steel and " + "wood " * 50), ("c.txt", "stone")):
                ann.documents.add(ann.scope, BytesIO(text.encode()), name)
            await team.later()
            searching = bob.search(words="steel")
            found = await team.found(searching)
            assert [each.name for each in found] == ["a.txt", "b.txt"]
            assert {each.device for each in found} == {ann.peer.identity.device}
            assert [each async for each in searching] == found
            assert searching.is_over

    play(tmp_path, scene)


def test_people_and_communities_are_found_by_their_profiles(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            bob.people.change_profile({"skill": ["welding", "optics"], "place": ["Porto"]})
            listed = ann.communities.create("Bridges", description="steel and stone")
            hidden = ann.communities.create("Merger", description="steel", listed=False)
            await team.later()
            [person] = await team.found(cid.search("/user[skill = 'welding' and place = 'Porto']"))
            assert (person.kind, person.id) == ("user", "bob")
            assert [each.id for each in await team.found(cid.search(words="steel"))] == [listed]
            of_ann = await team.found(ann.search(words="steel", kinds=["community"]))
            assert sorted(each.id for each in of_ann) == sorted([listed, hidden])
            assert await team.found(ann.search(words="steel", kinds=["user"])) == []
            [one] = await team.found(ann.search(words="steel", scopes=[hidden]))
            assert one.id == hidden

    play(tmp_path, scene)


def test_a_search_in_a_community_asks_the_peers_of_its_members_and_no_others(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            devices = {each.user: each.peer.identity.device for each in (ann, bob, cid)}
            scope = ann.communities.create("Bridges")
            ann.communities.add(scope, "bob")
            await team.later()

            def asked(user: str) -> int:
                events = team.net.received(devices[user])
                return sum(event.attributes.get("message") == "question" for event in events)

            searching = ann.search(words="steel", scopes=[scope])
            assert set(searching.progress.waiting) == {devices["bob"]}
            await team.found(searching)
            assert set(searching.progress.answered) == {devices["ann"], devices["bob"]}
            assert (asked("ann"), asked("bob"), asked("cid")) == (0, 1, 0)
            for scopes in (None, [scope, ann.scope]):
                searching = ann.search(words="steel", scopes=scopes)
                await team.found(searching)
                assert set(searching.progress.answered) == set(devices.values())
            assert (asked("ann"), asked("bob"), asked("cid")) == (0, 3, 2)
            cid.search(words="steel", scopes=[scope])  # no member: cid does not know whom to ask
            await team.later()
            assert (asked("ann"), asked("bob")) == (1, 4)

    play(tmp_path, scene)


def test_progress_is_told_in_numbers() -> None:
    progress = SearchProgress(4, ("a",), tuple("bcdefghij"), ("k", "l", "m"), {})
    assert str(progress) == "4 found; 12 peers have not answered; 3 are away"
    assert str(SearchProgress(0, (), (), ("k",), {})) == "0 found; 1 peer has not answered; 1 is away"


def test_progress_lists_who_has_not_answered_and_who_is_away(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            devices = {each.user: each.peer.identity.device for each in (ann, bob, cid)}
            searching = ann.search(words="steel")
            progress = searching.progress
            assert progress.answered == (devices["ann"],)
            assert set(progress.waiting) == {devices["bob"], devices["cid"]}
            assert str(progress) == "0 found; 2 peers have not answered; 0 are away"
            await team.found(searching)
            assert searching.progress.waiting == ()
            await cid.peer.client.move()
            await team.later(3600.0)
            searching = ann.search(words="steel")
            await team.later(10.0)
            assert searching.progress.away == (devices["cid"],)
            assert set(searching.progress.answered) == {devices["ann"], devices["bob"]}

    play(tmp_path, scene)


def test_a_fresh_peer_waits_for_peers_of_which_it_knows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, cid):
            made = bob.documents.add(bob.scope, BytesIO(b"steel"), "plan.txt")
            cid.presence.set("hidden")
            monkeypatch.setattr(Presence, "_answer", lambda self, asker, *, is_for_all: None)
            join_team(team.folder / "dan", ann.invite("dan"))
            async with team.open("dan", at="b1") as dan:
                await team.later(10.0)
                assert dan.presence.of("bob") == {}
                await bob.peer.client.move()
                searching = dan.search(words="steel")
                await team.later(3.0)
                assert not searching.is_over
                assert searching.progress.waiting == (bob.peer.identity.device,)
                await bob.peer.client.move("b2")
                await team.later(1.0)
                assert [each.id for each in searching.results] == [made.id]
                await searching.finished()
                again = dan.search(words="steel")  # who has answered is waited for, as well
                assert {*again.progress.waiting} == {each.peer.identity.device for each in (ann, bob, cid)}
                await bob.peer.client.move()
                await team.later(4.0)
                assert not again.is_over

    play(tmp_path, scene)


def test_a_search_that_stays_open_is_answered_by_a_peer_that_comes_back(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, bob, _):
            await bob.peer.client.move()
            await team.net.settled()
            made = bob.documents.add(bob.scope, BytesIO(b"steel"), "plan.txt")
            searching, short = ann.search(words="steel", stays_open=True), ann.search(words="steel")
            await team.later()
            assert short.is_over
            assert not searching.is_over
            await bob.peer.client.move("b2")
            await team.later()
            result = await anext(searching)
            assert result.id == made.id
            assert short.results == []
            searching.end()
            searching.end()
            with pytest.raises(StopAsyncIteration):
                await anext(searching)

    play(tmp_path, scene)


def test_a_search_that_stays_open_goes_on_after_the_peer_was_closed(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together():
            pass
        async with team.open("bob") as bob:
            await bob.peer.client.move()
            await team.net.settled()
            async with team.open("ann") as ann:
                first, second = (ann.search(words="steel", stays_open=True, scopes=each) for each in (None, ["other"]))
                third = ann.search(words="steel", stays_open=True)
                third.end()
                await team.later()
            assert first.is_over
            made = bob.documents.add(bob.scope, BytesIO(b"steel"), "plan.txt")
            async with team.open("ann") as ann:
                assert {each.id for each in ann.searches} == {first.id, second.id}
                await bob.peer.client.move("b2")
                await team.later()
                results = {each.id: [result.id for result in each.results] for each in ann.searches}
                assert results == {first.id: [made.id], second.id: []}
                await team.later(8 * 86_400.0)
                assert ann.searches == []
            async with team.open("ann") as ann:
                assert ann.searches == []

    play(tmp_path, scene)


def test_a_search_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async def scene(team: OpenTeams) -> None:
        async with team.together() as (ann, _, _):
            bad: list[tuple[Any, str]] = [
                ({}, "needs a query or words"),
                ({"text": "//[["}, "column"),
                ({"text": "//a", "language": "klingon"}, "klingon"),
                ({"words": "!!"}, "has no word"),
                ({"words": "x", "kinds": ["message"]}, "looks for artefact, user, community, not for 'message'"),
                ({"words": "x", "kinds": []}, "at least one kind"),
                ({"words": "x", "limit": 0}, "limit must be"),
            ]
            for options, why in bad:
                for asker in (ann, ann.as_user("bob")):
                    with pytest.raises(GodwitError, match=why):
                        asker.search(**options)
            assert isinstance(Refused(""), GodwitError)

    play(tmp_path, scene)
