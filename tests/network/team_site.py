"""Peers of a team on a real broker, one of them with its HTTP API, for tests of the API and of the pages."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from godwit.runtime.users import Passwords
from godwit.teamwork import Role, Team, join_team, new_team, open_team
from godwit.teamwork.team_files import FileAddress
from godwit.teamwork.web_accounts import WebAccounts
from godwit.teamwork.web_api import WebApi
from godwit.teamwork.web_server import WebServer
from tests.network.http_broker import LIMIT_S, broker
from tests.network.waiting import until

__all__ = ["OWN", "Site", "serving_team", "team_site"]

OWN = {"x-godwit": "1"}
PEOPLE = {
    "bob": {"name": "Bob Brandt", "skill": ["welding", "bridges"], "role": ["engineer"], "language": ["de", "en"]},
    "cid": {"name": "Cid Castro", "skill": ["law"], "place": ["Lisbon"]},
}


class Site:
    """Ann's peer and its API, and the team at other peers."""

    def __init__(self, ann: Team, accounts: WebAccounts, server: WebServer, url: str) -> None:
        self.ann, self.accounts, self.server, self.url = ann, accounts, server, url
        self.teams: dict[str, Team] = {"ann": ann}

    def client(self, **more: Any) -> httpx.AsyncClient:
        """A thin client that nobody knows."""
        return httpx.AsyncClient(base_url=self.url, timeout=LIMIT_S, trust_env=False, **more)

    @asynccontextmanager
    async def login(self, user: str) -> AsyncIterator[httpx.AsyncClient]:
        """A browser of a user."""
        async with self.client(headers=OWN) as client:
            answer = await client.post("/api/login", json={"code": self.accounts.new_code(user)})
            assert answer.status_code == 200, answer.text
            yield client

    def program(self, user: str) -> httpx.AsyncClient:
        """A program of a user, with a token."""
        secret, _ = self.accounts.new_token(user, "test", 3600.0)
        return self.client(headers={"authorization": f"Bearer {secret}"})


@asynccontextmanager
async def serving_team(ann: Team, **more: Any) -> AsyncIterator[Site]:
    """The API of a peer, on a port of its own."""
    accounts = WebAccounts(ann.folder, Passwords(lambda hash, password: hash == f"hash of {password}"))
    server = WebServer(WebApi(ann, accounts, **more))
    address = await server.listen("127.0.0.1", 0)
    try:
        yield Site(ann, accounts, server, f"http://{address}")
    finally:
        await server.close()
        accounts.close()


@asynccontextmanager
async def team_site(folder: Path, *users: str, **more: Any) -> AsyncIterator[Site]:
    """Ann's peer and those of others, at one broker, who know each other."""
    async with AsyncExitStack() as stack:
        running, _ = await stack.enter_async_context(broker())
        new_team(folder / "ann", "ann", brokers=[str(running.native)])
        ann = await stack.enter_async_context(open_team(folder / "ann", files=FileAddress()))
        teams = {}
        for user, profile in PEOPLE.items():
            invitation = ann.invite(user, profile, role=Role.EDITOR)
            if user in users:
                join_team(folder / user, invitation)
                teams[user] = await stack.enter_async_context(open_team(folder / user, files=FileAddress()))
        ann.people.change_profile({"name": "Ann Archer", "skill": ["steel"], "role": ["lead"]})
        everybody = {"ann", *PEOPLE}
        for team in teams.values():
            await until(lambda team=team: {each.name for each in team.people.all()} == everybody)  # type: ignore[misc]
        site = await stack.enter_async_context(serving_team(ann, **more))
        site.teams |= teams
        yield site
