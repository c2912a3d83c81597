"""A whole broker in one process: its machine, journal, links and listeners, from one configuration.

*Theory.* A station puts the parts together and takes them apart again, and does nothing else. Each listener is one
function in `LISTENERS`, which is given the station and an address and answers where it listens and how it is closed.

*Rules.*
1. A station that cannot start has let go of all it had taken, and says in one line what was in its way.
2. Who stops a station loses nothing: what has come is handled and written, clients are told, and the journal ends with
   a snapshot. A station that is killed loses no more than its durability says.
3. The machine of a journal is made as it was made when the journal began (`Made`): what is replayed gives the same
   state only so. What the configuration says now is put in force after that.
4. A listener that nobody has asked for, and that cannot be had, is left out with a word; one that was asked for is a
   fault.
"""

import asyncio
import errno
import socket
import ssl
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module, util
from pathlib import Path
from time import time
from typing import Any, NamedTuple

import msgspec

from godwit.errors import ConfigurationError, GodwitError, JournalError
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.matching.index import IndexMatcher
from godwit.mobility import MobileBroker
from godwit.runtime.admission import Door, OpenDoor
from godwit.runtime.configuration import Configuration, Made, address_of
from godwit.runtime.journal import Journal
from godwit.runtime.log import Log, make_log
from godwit.runtime.node import Node
from godwit.runtime.tcp import Address, Server
from godwit.trace import Record

__all__ = ["Listening", "Station"]

LOGGED = {"fault": "warning", "lost": "warning", "died": "warning", "refused": "info", "session_ended": "debug"}
"""The kinds of records that are logged, and at which level."""


class Unavailable(GodwitError):
    """A part that this installation does not have."""


class Listening(NamedTuple):
    """A listener at work. It may be closed twice."""

    address: Address
    close: Callable[[], Awaitable[None]]


class Station:
    """One broker: `start`, then `stop`."""

    def __init__(self, configuration: Configuration, log: Log | None = None) -> None:
        said = configuration.settled.log
        self.configuration = configuration
        self.log = log if log is not None else make_log(said.level, said.format)
        self.listening: dict[str, Address] = {}
        self.missing: dict[str, str] = {}  # listeners that were left out, and why
        self.on_records: list[Callable[[Record, float], None]] = [self._log_record]
        self.node: Node
        self.server: Server
        self.door: Door
        self.tls: ssl.SSLContext | None = None
        self._parts = AsyncExitStack()  # what is to be closed, the last first
        self._is_stopping = False

    # ------------------------------------------------------------ the beginning

    async def start(self) -> dict[str, Address]:
        """Make everything and listen; where, by listener."""
        asyncio.get_running_loop().set_exception_handler(self._on_exception)
        configuration = self.configuration
        self.door = _door(configuration)
        _warm_up()
        self.tls = _tls(configuration)
        async with AsyncExitStack() as parts:
            self.node = self._node()
            parts.push_async_callback(self.node.close)
            parts.push_async_callback(self.node.save)
            self.server = _server(self)
            parts.push_async_callback(self.server.close)
            for listener, start in LISTENERS.items():
                if (found := await self._listen(listener, start)) is not None:
                    self.listening[listener] = found.address
                    parts.push_async_callback(found.close)
            self._parts = parts.pop_all()
        self.server.dial_all()
        self.log.info("started", broker=configuration.name, **{k: str(v) for k, v in self.listening.items()})
        return self.listening

    async def _listen(self, listener: str, start: "Starter") -> Listening | None:
        configuration = self.configuration
        address = configuration.address(listener)
        if address is None:
            return None
        try:
            tls = self.tls if listener in configuration.settled.tls.listeners else None
            return await start(self, address, tls)
        except OSError as error:
            raise ConfigurationError(
                _why_not_listening(configuration.where(("listen", listener)), address, error)
            ) from None
        except Unavailable as error:
            if configuration.is_said(("listen", listener)):
                raise ConfigurationError(f"{configuration.where(('listen', listener))}: {error}") from None
            self.missing[listener] = str(error)
            return None

    def _node(self) -> Node:
        """The machine, as its journal has it or as a new one."""
        configuration = self.configuration
        wanted = configuration.made(incarnation=int(time() * 1_000))
        durability = configuration.settled.journal.durability
        if durability == "memory":
            return Node(lambda: _machine(wanted), on_record=self._on_record, on_trouble=self._on_trouble)
        journal = Journal(configuration.folder, configuration.name, durability)
        try:
            made = _recalled(journal)
            if made is None:
                journal.remember("made", msgspec.json.encode(wanted).decode())
                made = wanted
            elif changes := made.changes(wanted):
                raise ConfigurationError(
                    f"{journal.folder} was begun with another configuration ({', '.join(changes)}): go back to it, or "
                    "begin anew with another journal.folder"
                )
            return Node(lambda: _machine(made), journal, on_record=self._on_record, on_trouble=self._on_trouble)
        except GodwitError:
            journal.close()
            raise
        except Exception as error:
            journal.close()
            raise JournalError(
                f"{journal.folder} cannot be replayed by this version: {type(error).__name__}: {error}"
            ) from error

    # ------------------------------------------------------------ while it runs

    def _on_record(self, record: Record, now: float) -> None:
        for listener in self.on_records:
            listener(record, now)

    def _log_record(self, record: Record, now: float) -> None:
        level = LOGGED.get(record.kind)
        if level is not None:
            getattr(self.log, level)(record.kind, peer=record.peer, what=record.message, reason=record.detail)

    def _on_trouble(self, text: str) -> None:
        self.log.error("trouble", reason=text)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        error = about.get("exception")
        reason = about["message"] if error is None else f"{type(error).__name__}: {error}"
        self.log.error(
            "exception", reason=reason, traceback="".join(traceback.format_exception(error)) if error else ""
        )

    def on_linked(self, peer: str) -> None:
        """There is a connection to a neighbour."""
        self.log.info("link up", peer=peer)

    def on_closed(self, name: str, reason: str) -> None:
        """A native connection has ended; `name` is that of a neighbour, or of a client's connection."""
        if name in self.server.neighbours:
            self.log.info("link down", peer=name, reason=reason)
        elif reason and not self._is_stopping:
            self.log.info("connection closed", connection=name, reason=reason)

    # ------------------------------------------------------------ the end

    async def stop(self) -> None:
        """Let everybody go, and write down what there is."""
        self._is_stopping = True
        self.log.info("stopping", broker=self.configuration.name)
        await self._parts.aclose()
        self.log.info("stopped", broker=self.configuration.name)


# ---------------------------------------------------------------- parts


Starter = Callable[[Station, Address, ssl.SSLContext | None], Awaitable[Listening]]


async def _native(station: Station, address: Address, tls: ssl.SSLContext | None) -> Listening:
    return Listening(await station.server.listen(address.host, address.port, tls), station.server.close)


async def _mqtt(station: Station, address: Address, tls: ssl.SSLContext | None) -> Listening:
    module = _module("godwit.runtime.mqtt_gateway", "the MQTT gateway")
    settings = station.configuration.mqtt_settings()
    gateway = module.Gateway(station.node, station.door, station.configuration.name, settings)
    return Listening(await gateway.listen(address.host, address.port, tls), gateway.close)


async def _http(station: Station, address: Address, tls: ssl.SSLContext | None) -> Listening:
    module = _module("godwit.runtime.http", "the HTTP server")
    raise Unavailable(f"the HTTP server is not joined to the broker yet ({module.__name__})")


LISTENERS: dict[str, Starter] = {"native": _native, "mqtt": _mqtt, "http": _http}


def _module(name: str, what: str) -> Any:
    if util.find_spec(name) is None:
        raise Unavailable(f"this version does not have {what}")
    return import_module(name)


def _door(configuration: Configuration) -> Door:
    """Who may come in."""
    security = configuration.settled.security
    for key, said in (
        (("security", "users"), security.users),
        (
            ("security", "tokens"),
            any((security.tokens.secret_file, security.tokens.key_file, security.tokens.jwks_file)),
        ),
    ):
        if said:
            raise ConfigurationError(f"{configuration.where(key)}: this version does not have users and tokens")
    return OpenDoor()


def _tls(configuration: Configuration) -> ssl.SSLContext | None:
    """What listeners show to who connects."""
    tls = configuration.settled.tls
    if not tls.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        at = configuration.where(("tls", "certificate"))
        raise ConfigurationError(
            f"{at}: {tls.certificate} and {tls.key} are no certificate and its key: {error}"
        ) from None
    return context


def _server(station: Station) -> Server:
    """The native side: neighbours and clients."""
    configuration = station.configuration
    if configuration.settled.links.tls:
        raise ConfigurationError(
            f"{configuration.where(('links', 'tls'))}: this version does not have TLS between brokers"
        )
    limits = configuration.settled.limits
    server = Server(
        configuration.name,
        station.node,
        {
            name: address_of(neighbour.address) if neighbour.address else None
            for name, neighbour in configuration.neighbours().items()
        },
        frame_bytes_max=limits.frame_bytes_max,
        connections_max=limits.connections_max,
        on_closed=station.on_closed,
    )
    server.on_linked = station.on_linked
    return server


def _warm_up() -> None:
    """Have the matching kernels loaded, or compiled, before anybody waits for them."""
    matcher = IndexMatcher()
    matcher.add(1, parse("price < 10"))
    matcher.match(event({"price": 1}))


def _machine(made: Made) -> MobileBroker:
    return MobileBroker(made.name, made.neighbours, made.config, made.incarnation, movements=made.movements())


def _recalled(journal: Journal) -> Made | None:
    text = journal.recall("made")
    return None if text is None else msgspec.json.decode(text, type=Made)


def _why_not_listening(where: str, address: Address, error: OSError) -> str:
    """Why no connections can be taken there, in one line."""
    if error.errno == errno.EADDRINUSE:
        return f"{where}: {address} is in use by another program; choose another port, or 0 for any"
    if error.errno == errno.EACCES:
        return f"{where}: {address} is not for every user: ports from 1024 on are"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{where}: {address.host} is no address of this machine"
    return f"{where}: {address} cannot be listened at: {error.strerror or error}"


def folder_of(configuration: Configuration) -> Path | None:
    """Where the journal is, if there is one."""
    return None if configuration.settled.journal.durability == "memory" else configuration.folder
