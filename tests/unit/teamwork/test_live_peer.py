"""Peers on brokers: offline, at another broker, after the end of their process, sealed or not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import Refused, RepositoryError
from godwit.teamwork.live_peer import LivePeer
from godwit.teamwork.machine.bus import Wanted
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow, Happened, SearchAnswered, StartSearch
from godwit.teamwork.machine.search import Asking
from godwit.teamwork.repository import Repository
from tests.unit.teamwork.live_team import Team, later, on_a_network

LONG = "long " * 10_000


def title(peer: LivePeer, scope: str, record: str = "artefact/1") -> Any:
    known = peer.repository.record(scope, record)
    return known.fields.get("title") if known else None


def test_a_change_goes_to_the_other_peer_and_back(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann, team.peer("bob", "b3") as bob:
            team.found(ann)
            await later(team)
            bob.do(ChangeRecord(team.scope, "artefact/1", {"title": "plan"}))
            await later(team)
            assert title(ann, team.scope) == "plan"
            assert not [*ann.faults, *bob.faults]

    on_a_network(tmp_path, scene)


def test_what_is_changed_offline_goes_out_at_another_broker(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            async with team.peer("bob", "b3") as bob:
                await later(team)
                await bob.client.move()
                await team.net.settled()
                bob.do(ChangeRecord(team.scope, "artefact/1", {"title": "from the train"}))
                ann.do(ChangeRecord(team.scope, "artefact/2", {"title": "from the office"}))
                await later(team)
                assert title(ann, team.scope) is None
                await bob.client.move("b2")
                await later(team)
                assert title(ann, team.scope) == "from the train"
                assert title(bob, team.scope, "artefact/2") == "from the office"

    on_a_network(tmp_path, scene)


def test_a_peer_that_comes_back_has_what_it_had_and_gets_what_it_missed(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            async with team.peer("bob", "b3") as bob:
                await later(team)
                bob.do(ChangeRecord(team.scope, "artefact/1", {"title": "mine"}))
                await later(team)
            ann.do(ChangeRecord(team.scope, "artefact/2", {"title": "news"}))
            await later(team)
            async with team.peer("bob", "b2") as bob:
                assert title(bob, team.scope) == "mine"
                await later(team)
                assert title(bob, team.scope, "artefact/2") == "news"

    on_a_network(tmp_path, scene)


def test_what_was_done_before_any_broker_was_met_goes_out_when_one_is(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        await team.net.crash("b1")
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            ann.do(ChangeRecord(team.scope, "artefact/1", {"title": "plan"}))
        await team.net.restart("b1")
        async with team.peer("ann", "b1"), team.peer("bob", "b2") as bob:
            await later(team)
            assert title(bob, team.scope) == "plan"

    on_a_network(tmp_path, scene)


def test_nothing_is_sent_before_its_answers_would_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann, team.peer("bob", "b3") as bob:
            team.found(ann)
            await later(team)
            is_given, is_taken, replace = asyncio.Event(), asyncio.Event(), bob.client.replace

            async def slowly(*arguments: Any) -> None:
                is_given.set()
                await is_taken.wait()
                await replace(*arguments)

            monkeypatch.setattr(bob.client, "replace", slowly)
            bob.do(Follow("community/ann.2"))
            bob.do(ChangeRecord(team.scope, "artefact/1", {"title": "plan"}))
            await is_given.wait()
            for _ in range(10):
                await team.net.settled()
                await asyncio.gather(ann.sent())
                await team.net.advance(1.0)
            assert title(ann, team.scope) is None
            is_taken.set()
            await later(team)
            assert title(ann, team.scope) == "plan"

    on_a_network(tmp_path, scene)


def test_a_sealed_community_is_read_by_its_members(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        scope = "community/ann.1"
        async with team.peer("ann", "b1") as ann, team.peer("bob", "b3") as bob:
            team.found(ann)
            await later(team)
            for peer in (ann, bob):
                peer.do(Follow(scope))
            ann.do(ChangeRecord(scope, "scope/self", {"name": "Merger", "sealed": True}))
            ann.do(ChangeRecord(scope, "member/bob", {"state": "joined", "role": "editor"}))
            ann.do(ChangeRecord(scope, "artefact/1", {"title": "secret plan"}))
            await later(team)
            assert title(bob, scope) == "secret plan"
            ann.do(ChangeRecord(scope, "member/bob", {"state": "left"}))
            ann.do(ChangeRecord(scope, "artefact/1", {"title": "without bob"}))
            await later(team)
            assert title(bob, scope) == "secret plan"
            travelled = b"".join(event.payload or b"" for event in team.net.received(team.keys["bob"].device))
            assert b"without bob" not in travelled

    on_a_network(tmp_path, scene)


def test_a_search_is_answered_by_other_peers(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        scope = "community/bob.1"
        found: list[tuple[str, str]] = []

        def listen(happened: Any) -> None:
            if isinstance(happened, SearchAnswered):
                found.extend((happened.progress.device, each.record) for each in happened.progress.found)

        async with team.peer("ann", "b1") as ann, team.peer("bob", "b3") as bob:
            team.found(ann)
            await later(team)
            bob.do(ChangeRecord(scope, "artefact/1", {"title": "report", "shown_to": ["ann"]}))
            bob.do(ChangeRecord(scope, "artefact/2", {"title": "report"}))
            ann.listen(listen)
            ann.do(StartSearch(Asking("s1", Wanted(("artefact",), words="report"), team.net.now + 60)))
            await later(team, 1.0)
            assert found == [(team.keys["bob"].device, "artefact/1")]

    on_a_network(tmp_path, scene)


def test_a_command_without_a_right_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann, team.peer("bob", "b3") as bob:
            team.found(ann)
            await later(team)
            with pytest.raises(Refused, match="only an owner may do this"):
                bob.do(ChangeRecord(team.scope, "member/eve", {"state": "joined"}))
            assert bob.repository.record(team.scope, "member/eve") is None

    on_a_network(tmp_path, scene)


def test_a_listener_hears_what_happens_until_it_ends_and_may_fail(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        heard: list[str] = []

        def fail(happened: Any) -> None:
            raise ZeroDivisionError

        def listen(happened: Any) -> None:
            if isinstance(happened, Happened):
                heard.append(happened.added.change.record)

        async with team.peer("ann", "b1") as ann:
            ann.listen(fail)
            end = ann.listen(listen)
            ann.do(ChangeRecord(team.scope, "user/ann", {"name": "Ann"}))
            end()
            ann.do(ChangeRecord(team.scope, "user/ann", {"name": "Anna"}))
            assert heard == ["user/ann"]
            assert any("ZeroDivisionError" in fault for fault in ann.faults)

    on_a_network(tmp_path, scene)


def test_an_input_that_could_not_be_kept_leaves_the_peer_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            put = Repository.put

            def full(*args: Any) -> None:
                put(*args)
                raise RepositoryError("there is no room")

            with monkeypatch.context() as context:
                context.setattr(Repository, "put", full)
                with pytest.raises(RepositoryError, match="there is no room"):
                    ann.do(ChangeRecord(team.scope, "member/bob", {"state": "left"}))
            assert ann.machine.governance(team.scope).role("bob") is Role.EDITOR
            bob.do(ChangeRecord(team.scope, "artefact/1", {"title": "plan"}))
            ann.do(ChangeRecord(team.scope, "artefact/2", {"title": "report"}))
            await later(team)
            assert title(ann, team.scope) == "plan"
            assert title(bob, team.scope, "artefact/2") == "report"

    on_a_network(tmp_path, scene)


def test_a_peer_whose_disk_was_full_takes_all_that_came_meanwhile_when_there_is_room(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            bob.repository.limit(1)
            with pytest.raises(RepositoryError, match="there is no room"):
                bob.do(ChangeRecord(team.scope, "artefact/1", {"title": "of bob", "description": LONG}))
            for number in range(2, 5):
                fields = {"title": f"of ann, {number}", "description": LONG}
                ann.do(ChangeRecord(team.scope, f"artefact/{number}", fields))
            await ann.sent()
            await team.net.advance(600.0)
            assert title(bob, team.scope, "artefact/2") is None
            assert [fault for fault in bob.faults if "there is no room" in fault]
            assert len(bob.faults) < 5  # one is told once, not at each attempt
            bob.repository.limit(10**9)
            await team.net.advance(60.0)
            await later(team)
            assert [title(bob, team.scope, f"artefact/{number}") for number in range(2, 5)] == [
                f"of ann, {number}" for number in range(2, 5)
            ]
            bob.do(ChangeRecord(team.scope, "artefact/1", {"title": "of bob"}))
            await later(team)
            assert title(ann, team.scope) == "of bob"

    on_a_network(tmp_path, scene)


def test_what_a_full_disk_could_not_take_comes_again_after_the_end_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(team: Team) -> None:
        scope = "community/ann.1"

        def full() -> Any:
            raise RepositoryError("there is no room")

        async with team.peer("ann", "b1") as ann:
            async with team.peer("bob", "b3") as bob:
                team.found(ann)
                await later(team)
                monkeypatch.setattr(bob.repository, "transaction", full)
                ann.do(ChangeRecord(scope, "member/bob", {"state": "joined", "role": "editor"}))
                await later(team)
            async with team.peer("bob", "b3") as bob:
                await later(team)
                assert scope in bob.scopes

    on_a_network(tmp_path, scene)


def test_an_event_that_cannot_be_handled_is_reported_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            receive = bob.receive

            def fails(payload: bytes) -> None:
                if b"the first" in payload:
                    raise ZeroDivisionError
                receive(payload)

            monkeypatch.setattr(bob, "receive", fails)
            ann.do(ChangeRecord(team.scope, "artefact/1", {"title": "the first"}))
            await later(team)
            assert any("ZeroDivisionError" in fault for fault in bob.faults)
            assert title(bob, team.scope) is None
            monkeypatch.undo()
            ann.do(ChangeRecord(team.scope, "artefact/2", {"title": "the second"}))
            await later(team)  # bob lacks the first change, and asks for it
            assert title(bob, team.scope) == "the first"
            assert title(bob, team.scope, "artefact/2") == "the second"

    on_a_network(tmp_path, scene)


def test_a_scope_that_is_followed_while_no_broker_answers_is_subscribed_to_when_one_does(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        scope = "community/ann.1"
        await team.net.crash("b1")
        async with team.peer("ann", "b1") as ann, team.peer("bob", "b3") as bob:
            team.found(ann)
            await team.net.settled()  # ann has asked to be subscribed, and nobody has answered
            ann.do(Follow(scope))
            ann.do(ChangeRecord(scope, "member/bob", {"state": "joined", "role": "editor"}))
            await team.net.restart("b1")
            await later(team)
            bob.do(ChangeRecord(scope, "artefact/1", {"title": "plan"}))
            await later(team)
            assert title(ann, scope) == "plan"

    on_a_network(tmp_path, scene)


def test_a_change_waits_for_the_key_of_its_scope_and_never_leaves_unsealed(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        scope = "community/ann.1"
        async with team.together() as (ann, bob, cid):
            for peer in (ann, bob, cid):
                peer.do(Follow(scope))
            ann.do(ChangeRecord(scope, "scope/self", {"name": "Merger", "sealed": True}))
            ann.do(ChangeRecord(scope, "member/bob", {"state": "joined", "role": "editor"}))
            await later(team)
            name = bob.machine.keys.in_use(scope)
            assert name is not None
            await ann.client.move()  # nobody can give the key
            bob.repository.settings.put(f"key {scope} {name}", None)
            bob.do(ChangeRecord(scope, "artefact/1", {"title": "secret plan"}))
            bob.do(ChangeRecord(team.scope, "artefact/2", {"title": "lunch"}))
            await later(team)
            assert title(cid, team.scope, "artefact/2") == "lunch"
            assert len(bob.repository.outbox) == 1
            travelled = b"".join(event.payload or b"" for event in team.net.received(team.keys["cid"].device))
            assert b"secret plan" not in travelled
            await ann.client.move("b2")
            await later(team)
            assert title(ann, scope) == "secret plan"
            assert len(bob.repository.outbox) == 0

    on_a_network(tmp_path, scene)
