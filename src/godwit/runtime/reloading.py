"""Reloading the configuration of a running broker (SIGHUP, `godwit reload`).

*Theory.* The new configuration is loaded and checked completely first: an invalid one changes nothing. Then it is
compared with the present one, key by key. `LIVE` has the keys that can change while the broker runs, and the functions
that apply them. Every other changed key keeps its value until the broker is restarted, and is reported. Files in the
configuration (users, certificates, keys of tokens, the secret of links) are read again even if their names are the
same.

*Rules.*
1. Connections stay open, unless the user file has changed their rights (`rights_watch.py`). Certificates, the secret
   and MQTT settings apply to new connections.
2. A new neighbour is connected; a removed one stays until the restart. Bridges start, stop and change at once.
3. A file that cannot be used is an error, as at the start; then nothing changes.
4. Authorities can be added. A removed one is trusted until the restart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from godwit.broker.limits import Limits
from godwit.errors import GodwitError
from godwit.runtime.broker_server import BrokerServer, check_parts
from godwit.runtime.config_sections import BrokerSettings
from godwit.runtime.configuration import Configuration, address_of

__all__ = ["Reloaded", "Reloading", "reload"]

Keys = tuple[str, ...]
Apply = Callable[[BrokerServer], Awaitable[None]]
MISSING = object()


class Reloaded(msgspec.Struct, frozen=True):
    """The result: the keys whose values have changed."""

    in_force: Keys  # in force now
    after_restart: Keys  # after a restart


async def reload(server: BrokerServer, new: Configuration) -> Reloaded:
    """Apply a configuration as far as possible. GodwitError if it is invalid; then nothing was changed."""
    check_parts(new)  # rule 3
    old = server.configuration
    before, after = dict(_keys(old.settled)), dict(_keys(new.settled))
    changed = [key for key in {**before, **after} if before.get(key, MISSING) != after.get(key, MISSING)]
    parts = {key: part for key in changed if key in after and (part := _part(key, server)) is not None}
    server.configuration = Configuration(_mixed(old.settled, new.settled, parts), new.where, new.is_said)
    server.renew_files()
    await LIVE["log"](server)  # also resets a level that an administrator has set
    for part in dict.fromkeys(parts.values()):
        await LIVE[part](server)
    return Reloaded(tuple(sorted(parts)), tuple(sorted(key for key in changed if key not in parts)))


class Reloading:
    """Reloads a configuration on request, one reload at a time, and logs the result."""

    def __init__(self, server: BrokerServer, read: Callable[[], Configuration]) -> None:
        self._server = server
        self._read = read
        self._task: asyncio.Task[None] | None = None
        self._is_asked_again = False
        self._turn = asyncio.Lock()

    def begin(self) -> None:
        """Reload now, or when the running reload has finished."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        else:
            self._is_asked_again = True

    async def now(self) -> dict[str, Any]:
        """Reload; returns the result. GodwitError if nothing was changed."""
        async with self._turn:
            try:
                found = await reload(self._server, self._read())
            except GodwitError as error:
                self._server.log.error("not reloaded", reason=str(error))
                raise
            told = msgspec.structs.asdict(found)
            self._server.log.info("reloaded", **told)
            return told

    async def _run(self) -> None:
        while True:
            self._is_asked_again = False
            with suppress(GodwitError):  # it is in the log
                await self.now()
            if not self._is_asked_again:
                return


# ---------------------------------------------------------------- which keys


MACHINE = tuple(f"limits.{name}" for name in Limits.__struct_fields__)


TLS = ("tls.certificate", "tls.key", "tls.authorities")


def _part(key: str, server: BrokerServer) -> str | None:
    """The function of `LIVE` that applies a key; None if it needs a restart."""
    if key in MACHINE:
        return "machine"
    if key in TLS:
        return None if server.tls is None else "files"
    section = key.partition(".")[0]
    return section if section in LIVE else None


def _keys(settled: BrokerSettings) -> Iterator[tuple[str, Any]]:
    """Each dotted key, and its value."""
    for section in BrokerSettings.__struct_fields__:
        found = getattr(settled, section)
        if isinstance(found, tuple):  # an array of tables is one key
            yield section, found
            continue
        fields = found if isinstance(found, dict) else msgspec.structs.asdict(found)
        for name, value in fields.items():
            yield f"{section}.{name}", value


def _mixed(old: BrokerSettings, new: BrokerSettings, live: Collection[str]) -> BrokerSettings:
    """The old settings with those values of the new ones."""
    sections: dict[str, Any] = {}
    for section in BrokerSettings.__struct_fields__:
        before, after = getattr(old, section), getattr(new, section)
        names = [key.partition(".")[2] for key in live if key.partition(".")[0] == section]
        if isinstance(before, tuple):
            sections[section] = after if section in live else before
        elif isinstance(before, dict):
            sections[section] = {**before, **{name: after[name] for name in names}}
        else:
            sections[section] = msgspec.structs.replace(before, **{name: getattr(after, name) for name in names})
    return BrokerSettings(**sections)


# ---------------------------------------------------------------- how


async def _machine(server: BrokerServer) -> None:
    await server.reconfigure()


async def _neighbours(server: BrokerServer) -> None:
    await server.reconfigure()
    for name, neighbour in server.configuration.neighbours().items():
        server.server.neighbours[name] = address_of(neighbour.address) if neighbour.address else None
    server.server.dial_all()


async def _files(server: BrokerServer) -> None:
    """They have been read again already."""


async def _log(server: BrokerServer) -> None:
    said = server.configuration.settled.log
    server.change_log(said.level, said.format)


async def _mqtt(server: BrokerServer) -> None:
    if server.gateway is not None:
        server.gateway.settings = server.configuration.mqtt_settings()


async def _bridges(server: BrokerServer) -> None:
    await server.bridges.put(server.configuration.settled.bridge)


LIVE: dict[str, Apply] = {
    "machine": _machine,
    "publishers": _machine,
    "neighbours": _neighbours,
    "files": _files,
    "log": _log,
    "mqtt": _mqtt,
    "bridge": _bridges,
}
"""The functions that apply keys while a broker runs."""
