"""Opening the folder of a peer by its settings, also for one command. [motion §2]

*Rules.*
1. One process has the folder: `godwit team serve` (`team_server.py`), or a command, when nobody serves it.
2. A peer starts and works without a broker.
3. What is done by one command is handed to a broker before the process ends, if one is there within `ATTACH_S`;
   otherwise it waits in the folder for the next start.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from godwit.errors import ConfigurationError, ProfileError
from godwit.runtime.configuration import address_of
from godwit.teamwork.commands import run
from godwit.teamwork.content_files import Limits
from godwit.teamwork.notification_channels import MailServer
from godwit.teamwork.peer_settings import BrokerSection, PeerSettings, read_settings
from godwit.teamwork.profile_schema import STANDARD, Schema, extended
from godwit.teamwork.team import Team, open_team
from godwit.teamwork.team_files import FileAddress

__all__ = ["opened", "run_here", "settings_of"]

ATTACH_S = 3.0
HAND_OVER_S = 3.0
ASKS_OTHERS = frozenset({"search", "get document"})
"""Commands that are of little use before a broker is met."""


def settings_of(
    folder: Path,
    brokers: Sequence[str] | None = None,
    pages: str | None = None,
    files: str | None = None,
    schema: str | None = None,
) -> PeerSettings:
    """The settings of a folder, with overrides. ConfigurationError lists all errors."""
    found = read_settings(folder)
    if schema is not None:
        found = msgspec.structs.replace(found, schema=schema and str(Path(schema).absolute()))
    said = {name: value for name, value in {"pages": pages, "files": files}.items() if value is not None}
    listen = msgspec.structs.replace(found.listen, **said)
    settings = msgspec.structs.replace(found, brokers=tuple(brokers or found.brokers), listen=listen)
    faults = []
    for key, text in {"listen.pages": listen.pages, "listen.files": listen.files}.items():
        if text:
            try:
                address_of(text)
            except ValueError as error:
                faults.append(f"{key}: {error}")
    try:
        _schema(folder, settings.schema)
    except ConfigurationError as error:
        faults += error.faults
    if faults:
        raise ConfigurationError(*faults)
    return settings


@asynccontextmanager
async def opened(folder: Path, settings: PeerSettings, *, gives_files: bool = False) -> AsyncIterator[Team]:
    """The team of a folder, as its settings say."""
    listen, mail, limits = settings.listen, settings.mail, settings.limits
    files = address_of(listen.files) if gives_files and listen.files else None
    async with open_team(
        folder,
        brokers=settings.brokers,
        login=_login(settings.broker),
        mail=MailServer(**msgspec.structs.asdict(mail)) if mail.host else None,
        files=None if files is None else FileAddress(files.host, files.port, listen.announced),
        limits=Limits(limits.disk_bytes_max, limits.file_bytes_max),
        versions_kept=limits.versions_kept,
        schema=_schema(folder, settings.schema),
    ) as team:
        yield team


def _schema(folder: Path, file: str) -> Schema:
    """The elements of profiles, with those of a file."""
    try:
        return extended(STANDARD, folder / file) if file else STANDARD
    except ProfileError as error:
        raise ConfigurationError(f"schema: {error}") from None


def _login(broker: BrokerSection) -> dict[str, Any]:
    """How brokers know the peer, as options of `godwit.connect`."""
    tls = _trusting(broker.ca) if broker.ca else broker.tls or None
    return {"user": broker.user, "password": broker.password, "token": broker.token, "tls": tls}


def _trusting(file: str) -> Any:
    import ssl

    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"broker.ca: cannot read certificates from {file}: {error}") from None


# ------------------------------------------------------------ one command


def run_here(folder: Path, command: str, arguments: Mapping[str, Any], show: Callable[[Any], None]) -> None:
    """Open a folder for one command; `show` is given each answer as it comes."""
    asyncio.run(_run_here(folder, command, arguments, show))


async def _run_here(folder: Path, command: str, arguments: Mapping[str, Any], show: Callable[[Any], None]) -> None:
    async with opened(folder, settings_of(folder)) as team:
        if command in ASKS_OTHERS:
            await _is_attached(team)
        async with aclosing(run(team, command, arguments)) as answers:
            async for answer in answers:
                show(answer)
        if team.status().waiting and await _is_attached(team):  # (rule 3)
            with suppress(TimeoutError):
                await team.peer.sent(HAND_OVER_S)


async def _is_attached(team: Team) -> bool:
    """Whether a broker is there: when one is, or each was tried once, or after `ATTACH_S`."""
    client = team.peer.client
    failed = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(ATTACH_S):
            async for state in client.states():
                failed += bool(state.reason)
                if state.kind == "attached" or failed >= len(client.seeds):
                    break
    return client.state.kind == "attached"
