"""A team on a network of three brokers in memory, for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import godwit.testing
from godwit.teamwork.device_keys import DeviceKeys, team_scope
from godwit.teamwork.live_peer import LivePeer
from godwit.teamwork.machine.peer import Identity
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow
from godwit.teamwork.machine.records import Record
from godwit.teamwork.repository import Repository
from tests.unit.teamwork.machine.team_of_peers import PlainIndex

__all__ = ["Team", "later", "on_a_network"]

ROUNDS = 12


def has_words(language: str, query: str, record: Record) -> bool:
    """A rule of a community: the fields of a profile have the words of the query, without its marks."""
    return query.strip("/'") in str(record.fields)


class Team:
    """Ann, bob and cid with one device each."""

    def __init__(self, net: Any, folder: Path) -> None:
        self.net, self.folder = net, folder
        self.keys = {user: DeviceKeys.made("laptop") for user in ("ann", "bob", "cid")}
        self.peers: list[LivePeer] = []
        self.scope = team_scope("ann", self.keys["ann"])

    @asynccontextmanager
    async def peer(self, user: str, at: str) -> AsyncIterator[LivePeer]:
        """A peer of a user, with what its folder holds."""
        keys = self.keys[user]
        folder = self.folder / user
        folder.mkdir(exist_ok=True)
        repository = Repository(folder)
        index: Any = PlainIndex(keys.device, repository)
        try:
            async with self.net.client(keys.device, at=at, mode="named", confirm="read") as client:
                identity = Identity(self.scope, user, keys.device)
                async with LivePeer(identity, repository, keys, index, client, self.net.clock, has_words) as peer:
                    peer.do(Follow(self.scope))
                    self.peers.append(peer)
                    yield peer
                    self.peers.remove(peer)
        finally:
            repository.close()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[tuple[LivePeer, LivePeer, LivePeer]]:
        """All three at their brokers, known to each other."""
        async with self.peer("ann", "b1") as ann, self.peer("bob", "b2") as bob, self.peer("cid", "b3") as cid:
            self.found(ann)
            await later(self)
            yield ann, bob, cid

    def found(self, peer: LivePeer) -> None:
        """Ann founds the team, and makes the devices of all known."""
        for user, keys in self.keys.items():
            fields = {"user": user, **keys.public_fields}
            peer.do(ChangeRecord(self.scope, f"device/{keys.device}", fields))
            if user != "ann":
                peer.do(ChangeRecord(self.scope, f"member/{user}", {"state": "joined", "role": "editor"}))


async def later(team: Team, seconds: float = 60.0) -> None:
    """Until everything has been sent that can be, and so much time has gone by."""
    for _ in range(ROUNDS):
        await team.net.settled()
        await asyncio.gather(*(peer.sent() for peer in team.peers if peer.client.state.kind == "attached"))
        await team.net.advance(seconds / ROUNDS)
    await team.net.settled()


def on_a_network(folder: Path, scene: Any) -> None:
    """Play a scene of a team."""

    async def run() -> None:
        async with godwit.testing.network(brokers=3) as net:
            await scene(Team(net, folder))

    asyncio.run(run())
