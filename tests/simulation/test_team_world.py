"""A team over simulated brokers: peers move, brokers crash and lose their disks, links break, processes end; by seed.

One run is played for a seed, and every law is checked on it: peers that have met converge; nobody holds, is shown or
finds anything without a right; keys are with members alone; a search finds all that reachable peers may show, once.
"""

from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from godwit.filters.events import Event
from godwit.teamwork.machine import exchange, scope_keys, scope_log, search
from godwit.teamwork.machine.bus import Changes, Wanted, attributes_of
from godwit.teamwork.machine.changes import Change, hash_of, signed_bytes
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer import Peer
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow, StartSearch
from godwit.teamwork.machine.records import folded
from godwit.teamwork.machine.search import Asking
from tests.seeds import few
from tests.simulation.team_bus import SCOPE, TEAM
from tests.simulation.team_world import SimulatedPeer, TeamWorld
from tests.unit.teamwork.machine.team_of_peers import Keys

PRIVATE = "community/bob.2"
USERS = ("ann", "bob", "ann", "bob", "cid", "eve")
ANN, BOB, CID, EVE = 0, 1, 4, 5
MEMBERS = (0, 1, 2, 3)
STEPS = 40
SEEDS = range(10)
EVER = 1e12


def change(peer: SimulatedPeer, record: str, scope: str = SCOPE, **fields: object) -> None:
    peer.tell(ChangeRecord(scope, record, fields))


def ask(peer: SimulatedPeer, name: str) -> None:
    peer.tell(StartSearch(Asking(name, Wanted(("artefact",), words="report"), EVER)))


def forge(team: TeamWorld, number: int) -> None:
    """Eve sends a change to which she has no right, signed, in a community that she knows of."""
    eve = team.peers[EVE]
    forged = Change(SCOPE, eve.device, number, 1_000 + number, "eve", "artefact/0", {"title": "forged"})
    previous = eve.store.change(SCOPE, (eve.device, number - 1))
    forged = msgspec.structs.replace(forged, previous=hash_of(previous) if previous else b"")
    forged = msgspec.structs.replace(forged, signature=Keys(eve.device).sign(signed_bytes(forged)))
    eve.store.add(forged)
    message = Changes(eve.device, SCOPE, (forged,), {})
    event = Event(attributes_of(TEAM, message), payload=msgspec.msgpack.encode(message))
    team.world.command(eve.device, lambda watched, now: watched.client.publish(event, now))


def played(seed: int) -> TeamWorld:
    """Everything that happens in a run."""
    team = TeamWorld(seed, USERS, family="tree" if seed % 2 else "graph")
    peers, random = team.peers, team.random
    for peer in peers:
        peer.tell(Follow(SCOPE))
        peer.come()
    for place in (1, 3):
        peers[place].tell(Follow(PRIVATE))
    change(peers[ANN], "scope/self", sealed=True)
    change(peers[ANN], "member/bob", state="joined", role="editor")
    change(peers[ANN], "member/cid", state="joined", role="editor")
    team.pass_time(10.0)
    for step in range(STEPS):
        peer = peers[random.randrange(len(peers))]
        match random.choice(["change", "change", "change", "private", "search", "member", "forge"]):
            case "change":
                change(peer, f"artefact/{random.randrange(6)}", title=f"report {step}")
            case "private":
                shown = {"shown_to": ["ann"]} if random.random() < 0.5 else {}
                change(peers[random.choice((1, 3))], f"artefact/{step}", PRIVATE, title=f"report {step}", **shown)
            case "search":
                ask(peer, f"early {step}")
            case "member":
                change(peers[random.choice((0, 2))], "member/cid", state=random.choice(["joined", "left"]))
            case "forge":
                forge(team, team.peers[EVE].store.vector(SCOPE).get("d5", 0) + 1)
        team.break_something()
        team.pass_time(random.random() * 5)
    team.come_together()
    change(peers[ANN], "member/cid", state="left")
    team.come_together()
    change(peers[2], "artefact/after", title="report without cid")
    team.come_together()
    for place in (ANN, BOB, CID, EVE):
        ask(peers[place], "last")
    team.pass_time(30.0)
    return team


run = cache(played)


# ------------------------------------------------------------ the laws


def check_convergence(team: TeamWorld) -> None:
    stores = [team.peers[place].store for place in MEMBERS]
    for scope, those in ((SCOPE, stores), (PRIVATE, [stores[1], stores[3]])):
        vectors = [store.vector(scope) for store in those]
        assert all(vector == vectors[0] for vector in vectors)
        for kind in ("artefact", "member", "key"):
            records = [list(store.records(scope, kind)) for store in those]
            assert all(other == records[0] for other in records)


def titles(peer: SimulatedPeer, scope: str = SCOPE) -> set[str]:
    return {str(record.fields.get("title")) for record in peer.store.records(scope, "artefact")}


def check_rights(team: TeamWorld) -> None:
    for place in MEMBERS:
        assert "report without cid" in titles(team.peers[place])
        assert "forged" not in titles(team.peers[place])
    assert "report without cid" not in titles(team.peers[CID])
    assert titles(team.peers[EVE]) <= {"forged", "None"}
    for place in (0, 2, 4, 5):
        assert not titles(team.peers[place], PRIVATE)


def check_keys(team: TeamWorld) -> None:
    names = {record.name.partition("/")[2] for record in team.peers[ANN].store.records(SCOPE, "key")}
    in_use = team.peers[ANN].machine.keys.in_use(SCOPE)
    assert in_use is not None
    assert all(team.peers[place].ring.has(SCOPE, in_use) for place in MEMBERS)
    assert not team.peers[CID].ring.has(SCOPE, in_use)
    assert not any(team.peers[EVE].ring.has(SCOPE, name) for name in names)


def shown_records(team: TeamWorld, user: str) -> set[tuple[str, str]]:
    """What a user may see of all that there is."""
    names = set()
    for peer in team.peers[:4]:
        for scope, members in ((SCOPE, ("ann", "bob")), (PRIVATE, ("bob",))):
            for record in peer.store.records(scope, "artefact"):
                is_shown = user in members or user in record.fields.get("shown_to", ())
                if is_shown and "report" in str(record.fields):
                    names.add((scope, record.name))
    return names


def found(peer: SimulatedPeer, name: str) -> list[tuple[str, str]]:
    """What a search has found on other devices and here."""
    return [
        (each.scope, each.record) for progress in peer.progress if progress.search == name for each in progress.found
    ]


def check_searches(team: TeamWorld) -> None:
    for place in (ANN, BOB):
        peer = team.peers[place]
        assert sorted(found(peer, "last")) == sorted(shown_records(team, peer.user))
        others = {other.device for other in team.peers} - {peer.device}
        assert set(peer.machine.search.answered("last")) == others
    for name in {each.search for each in team.peers[EVE].progress}:
        assert all(scope == SCOPE for scope, _ in found(team.peers[EVE], name))  # what she has made herself
        answers = [each for each in team.peers[EVE].progress if each.device != "d5"]
        assert not any(each.found for each in answers)
    for peer in team.peers:
        for name in {each.search for each in peer.progress}:
            names = found(peer, name)
            assert len(names) == len(set(names))
            if peer.user != "bob":
                private = {each for each in names if each[0] == PRIVATE}
                assert private <= shown_records(team, peer.user)


LAWS = (check_convergence, check_rights, check_keys, check_searches)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", few(SEEDS, 5))
def test_a_law_holds_whatever_happens(seed: int, law: Callable[[TeamWorld], None]) -> None:
    law(run(seed))


def test_runs_are_repeated_from_their_seed() -> None:
    first, second = run(3), played(3)
    assert [peer.store.vector(SCOPE) for peer in first.peers] == [peer.store.vector(SCOPE) for peer in second.peers]
    assert first.travelled == second.travelled


# ------------------------------------------------------------ planted faults


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers what others lack."""
    monkeypatch.setattr(exchange.Exchange, "_answer", lambda self, scope, least: None)


def generous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are given to whoever asks."""
    monkeypatch.setattr(scope_keys, "Role", type("Everybody", (), {"NONE": None, "OWNER": Role.OWNER}))


def open_hearted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches show everything to everybody."""
    monkeypatch.setattr(Peer, "readable_scopes", lambda self, user: [SCOPE, PRIVATE])


def repetitive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is reported by everybody who has it."""
    monkeypatch.setattr(search._Open, "news", lambda self, found: tuple(found))


def lawless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes without a right count."""
    monkeypatch.setattr(scope_log, "folded", lambda name, changes, refusal: folded(name, changes))


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], Callable[[TeamWorld], None]] = {
    silent: check_convergence,
    generous: check_keys,
    open_hearted: check_searches,
    repetitive: check_searches,
    lawless: check_rights,
}


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_fault_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    def play_and_check() -> None:
        for seed in SEEDS:
            PLANTED[plant](played(seed))

    with pytest.raises(AssertionError):
        play_and_check()
