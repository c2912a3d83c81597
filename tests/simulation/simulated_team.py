"""Plays a scenario of a team in the simulator.

Files do not go through the machine of a peer: here a version is a change that names a hash, and nothing is fetched.
"""

from hashlib import sha256
from random import Random
from typing import Any

import msgspec

from godwit.filters.events import Event
from godwit.teamwork.machine.bus import Changes, Wanted, attributes_of
from godwit.teamwork.machine.changes import Change, hash_of, signed_bytes
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow, StartSearch
from godwit.teamwork.machine.search import Asking
from tests.simulation.team_bus import SCOPE, TEAM
from tests.simulation.team_laws import AFTER_CID, FORGED, Acknowledged, Outcome, PeerAtEnd, Searched
from tests.simulation.team_scenarios import (
    ANN,
    BOB,
    BOBS,
    CID,
    DOCUMENTS,
    EVE,
    OTHER_ANN,
    AddPrivate,
    Ask,
    Describe,
    Forge,
    Rest,
    SetMember,
    Step,
    StoreVersion,
    TeamScenario,
)
from tests.simulation.team_world import TeamWorld
from tests.unit.teamwork.machine.team_of_peers import Keys

__all__ = ["played"]

PRIVATE = "community/bob.2"
EVER = 1e12


class SimulatedTeam:
    """A team in the simulator, and what it has acknowledged."""

    def __init__(self, scenario: TeamScenario) -> None:
        self.world = TeamWorld(scenario.seed, scenario.homes, family=scenario.family)
        self.acknowledged: list[Acknowledged] = []
        self.stored: dict[str, int] = {}
        self._private = 0

    def change(self, place: int, record: str, scope: str = SCOPE, **fields: Any) -> None:
        peer, wanted = self.world.peers[place], ChangeRecord(scope, record, fields)
        if peer.machine.unsendable(wanted):
            return
        refused = len(peer.rejected)
        peer.tell(wanted)
        if len(peer.rejected) == refused:
            self.acknowledged += [Acknowledged(place, scope, record, *field) for field in fields.items()]

    def ask(self, place: int, name: str) -> None:
        self.world.peers[place].tell(StartSearch(Asking(name, Wanted(("artefact",), words="report"), EVER)))

    def begin(self) -> None:
        peers = self.world.peers
        for peer in peers:
            peer.tell(Follow(SCOPE))
            peer.come()
        for place in BOBS:
            peers[place].tell(Follow(PRIVATE))
        self.change(ANN, "scope/self", sealed=True)
        self.change(BOB, "scope/self", PRIVATE, sealed=True)
        self.change(ANN, "member/bob", state="joined", role="editor")
        self.change(ANN, "member/cid", state="joined", role="editor")
        for document in range(DOCUMENTS):
            self.change(ANN, f"artefact/{document}", title=f"report of document {document}")
        self.world.pass_time(10.0)

    def do(self, step: Step) -> None:
        match step:
            case Describe(place=place, document=document, title=title):
                self.change(place, f"artefact/{document}", title=title)
            case StoreVersion(place=place, document=document, seed=seed, size=size):
                content = sha256(Random(seed).randbytes(size)).hexdigest()
                self.stored[content] = size
                self.change(place, f"artefact/{document}", content=content)
            case AddPrivate(place=place, title=title, is_shown=is_shown):
                self._private += 1
                shown = {"shown_to": ["ann"]} if is_shown else {}
                self.change(place, f"artefact/{self._private}", PRIVATE, title=title, **shown)
            case Ask(place=place, name=name):
                self.ask(place, name)
            case SetMember(place=place, is_member=is_member):
                self.change(place, "member/cid", state="joined" if is_member else "left")
            case Forge(document=document):
                self._forge(document)
            case Rest(seconds=seconds):
                self.world.pass_time(seconds)
            case _:
                self.world.fail(step)

    def _forge(self, document: int) -> None:
        """Eve sends a change to which she has no right, signed, in a community that she knows of."""
        eve = self.world.peers[EVE]
        number = eve.store.vector(SCOPE).get(eve.device, 0) + 1
        forged = Change(SCOPE, eve.device, number, 1_000 + number, "eve", f"artefact/{document}", {"title": FORGED})
        previous = eve.store.change(SCOPE, (eve.device, number - 1))
        forged = msgspec.structs.replace(forged, previous=hash_of(previous) if previous else b"")
        forged = msgspec.structs.replace(forged, signature=Keys(eve.device).sign(signed_bytes(forged)))
        eve.store.add(forged)
        message = Changes(eve.device, SCOPE, (forged,), {})
        event = Event(attributes_of(TEAM, message), payload=msgspec.msgpack.encode(message))
        self.world.world.command(eve.device, lambda watched, now: watched.client.publish(event, now))

    def end(self) -> None:
        self.world.come_together()
        self.change(ANN, "member/cid", state="left")
        self.world.come_together()
        self.change(OTHER_ANN, "artefact/after", title=AFTER_CID)
        self.world.come_together()
        for place in (ANN, BOB, CID, EVE):
            self.ask(place, "last")
        self.world.pass_time(30.0)

    def outcome(self) -> Outcome:
        peers = [
            PeerAtEnd(peer.user, peer.device, peer.store, peer.machine.keys.in_use, peer.ring.has)
            for peer in self.world.peers
        ]
        searches = [
            self._searched(place, name)
            for place, peer in enumerate(self.world.peers)
            for name in dict.fromkeys(each.search for each in peer.progress)
        ]
        return Outcome(
            SCOPE, PRIVATE, "", peers, self.acknowledged, searches, self.stored, [], self.world.payloads
        )  # fmt: skip

    def _searched(self, place: int, name: str) -> Searched:
        peer = self.world.peers[place]
        answers = [each for each in peer.progress if each.search == name]
        return Searched(
            place,
            name,
            tuple((each.scope, each.record) for answer in answers for each in answer.found),
            tuple(each.scope for answer in answers if answer.device != peer.device for each in answer.found),
            frozenset(peer.machine.search.answered(name)),
        )


def played(scenario: TeamScenario) -> Outcome:
    """What a scenario ends with."""
    team = SimulatedTeam(scenario)
    team.begin()
    for step in scenario.steps:
        team.do(step)
    team.end()
    return team.outcome()
