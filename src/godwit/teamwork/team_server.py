"""A running peer: the team of a folder, its file server, its pages, and its user's commands. [motion §2]"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from godwit.errors import ConfigurationError
from godwit.runtime.configuration import address_of
from godwit.runtime.tcp import Address
from godwit.teamwork.command_channel import CommandChannel
from godwit.teamwork.commands import run
from godwit.teamwork.desktop_notices import DesktopNotices
from godwit.teamwork.peer_opening import opened
from godwit.teamwork.peer_settings import PeerSettings
from godwit.teamwork.team import Team
from godwit.teamwork.web_accounts import WebAccounts
from godwit.teamwork.web_api import WebApi
from godwit.teamwork.web_server import WebServer

__all__ = ["Served", "serving"]


class Served(msgspec.Struct, frozen=True):
    """A peer that runs."""

    team: Team
    pages: str = ""
    """Where its web pages are; empty if it has none."""
    login: str = ""
    """A link by which the user of the peer comes in, once."""
    files: tuple[str, ...] = ()
    """Where other devices get documents."""


@asynccontextmanager
async def serving(folder: Path, settings: PeerSettings) -> AsyncIterator[Served]:
    """Run the peer of a folder."""
    async with AsyncExitStack() as stack:
        team = await stack.enter_async_context(opened(folder, settings, gives_files=True))
        await stack.enter_async_context(DesktopNotices(team.subscriptions, team.peer.faults.append))
        pages, login = "", ""
        if settings.listen.pages:
            accounts = WebAccounts(folder)
            stack.callback(accounts.close)
            pages = await stack.enter_async_context(_pages(team, accounts, address_of(settings.listen.pages)))
            login = f"{pages}/team/login#{accounts.new_code(team.user)}"
        commands = partial(run, team)
        await stack.enter_async_context(CommandChannel(folder, commands, {"pages": pages}))
        yield Served(team, pages, login, team.status().files)


@asynccontextmanager
async def _pages(team: Team, accounts: WebAccounts, at: Address) -> AsyncIterator[str]:
    """Web pages and HTTP API; their URL."""
    server = WebServer(WebApi(team, accounts))
    try:
        yield f"http://{await _listening(server, at)}"
    finally:
        await server.close()


async def _listening(server: WebServer, at: Address) -> Address:
    try:
        return await server.listen(at.host, at.port)
    except OSError as error:
        fault = f"listen.pages: cannot listen at {at}: {error.strerror or error}; choose another port with --pages"
        raise ConfigurationError(fault) from None
