"""A whole broker in one process: its machine, journal, links and listeners, from one configuration.

*Theory.* A broker server only starts and stops the parts. Each listener is one function in `LISTENERS`, which takes the
server and an address, and returns the address at which it listens and how it is closed.

*Rules.*
1. A server that cannot start releases all resources, and reports the reason in one line.
2. Stopping a server loses nothing: received inputs are handled and written, clients are told, and the journal ends with
   a snapshot. A killed server loses no more than its durability allows.
3. The machine of a journal is made with the settings that it had when the journal began (`MachineSettings`): only then
   does the replay give the same state. New neighbours, changed limits, and changed settings for mobile publishers are
   inputs like any other (`PublisherReconfigured`); other changes of these settings are refused.
4. A default listener that cannot be started is left out with a warning; a configured one is an error.
"""

import asyncio
import errno
import logging
import socket
import ssl
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from godwit.broker.broker import Broker
from godwit.errors import ConfigurationError, GodwitError, JournalError
from godwit.languages.query import LANGUAGES
from godwit.matching.kernel_cache import CACHE, COMPILED, has_compiled_kernels, is_postponed, kernels_used
from godwit.matching.warm_up import warm_up
from godwit.mobility import mobile_broker
from godwit.mobility.predictors import MovementModel
from godwit.mobility.publisher_presence import PublisherReconfigured
from godwit.runtime.authentication import Authenticator, LocalAuthenticator
from godwit.runtime.bridges.bridge_set import BridgeSet
from godwit.runtime.configuration import Configuration, MachineSettings, address_of
from godwit.runtime.dashboard_settings import dashboard_settings
from godwit.runtime.document_helper import DocumentHelper
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.journal import Journal, new_incarnation
from godwit.runtime.kernel_loading import KernelLoading
from godwit.runtime.line_limits import LineLimits
from godwit.runtime.link_authentication import LinkGuard
from godwit.runtime.log import LibraryLogHandler, Log, make_log
from godwit.runtime.memory_guard import MemoryGuard
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.node import Node
from godwit.runtime.rights_watch import RightsWatch
from godwit.runtime.security import ConfiguredAuthenticator
from godwit.runtime.security_log import RefusalObserver, SecurityLog
from godwit.runtime.tcp import Address, NativeServer
from godwit.runtime.tls import LinkSettings, TlsSettings, link_guard, link_secret, renew, server_context
from godwit.trace import Record

__all__ = ["BrokerServer", "RunningListener"]

LOGGED = {
    "fault": "warning",
    "lost": "warning",
    "died": "warning",
    "tail_lost": "warning",
    "refused": "info",
    "suspended": "warning",
    "session_ended": "debug",
}
"""The kinds of records that are logged, and at which level."""

RARE = ("died", "tail_lost")  # whose lines are always written: no peer can cause many

NO_MODEL = MovementModel({}).to_text()
QUERY_LISTENERS = ("mqtt", "http")  # listeners whose clients may let the broker test their queries


class Unavailable(GodwitError):
    """A part that is not installed."""


class RunningListener(NamedTuple):
    """A running listener. It may be closed twice."""

    address: Address
    close: Callable[[], Awaitable[None]]


class BrokerServer:
    """One broker: `start`, then `stop`."""

    def __init__(self, configuration: Configuration, log: Log | None = None, *, accept_loss: bool = False) -> None:
        said = configuration.settled.log
        self.configuration = configuration
        self.accept_loss = accept_loss  # data that the journal has lost
        self.log = log if log is not None else make_log(said.level, said.format)
        self.listening: dict[str, Address] = {}
        self.missing: dict[str, str] = {}  # listeners that were left out, and why
        self._lines = LineLimits()  # of peers
        self.on_records: list[Callable[[Record, float], None]] = [self._log_record]
        self.on_reload: Callable[[], Awaitable[dict[str, Any]]] | None = None  # reads the configuration again
        self.node: Node
        self.server: NativeServer
        self.guard: MemoryGuard
        self.authenticator: Authenticator
        self.tests: EdgeTests
        self.bridges: BridgeSet
        self.tls: ssl.SSLContext | None = None
        self.gateway: MqttGateway | None = None  # which also accepts MQTT over WebSocket
        self.audit = SecurityLog(self._warn)
        self._forward = LibraryLogHandler(self.log)
        self._parts = AsyncExitStack()  # parts to close, the last first
        self._is_stopping = False

    # ------------------------------------------------------------ the beginning

    async def start(self) -> dict[str, Address]:
        """Start all parts; returns the address of each listener."""
        asyncio.get_running_loop().set_exception_handler(self._on_exception)
        configuration = self.configuration
        operators = configuration.operators()
        self.authenticator = _authenticator(configuration, self._on_trouble)
        self._load_kernels()
        self._load_languages()
        self.tls, links = _tls(configuration)
        async with AsyncExitStack() as parts:
            logging.getLogger().addHandler(self._forward)
            parts.callback(lambda: logging.getLogger().removeHandler(self._forward))
            self.node = await self._node()
            self.log.info("matcher", kernels=kernels_used())
            self.node.watch = RefusalObserver(partial(self.audit.refused_by_machine, self.node.ports))
            kernels = KernelLoading(lambda used: self.log.info("matcher", kernels=used))
            kernels.start()
            parts.push_async_callback(kernels.stop)
            parts.push_async_callback(self.node.close)
            parts.push_async_callback(self.node.save)
            languages = configuration.settled.languages
            self.tests = EdgeTests(
                self.node,
                configuration.edge_limits(),
                operators,
                on_record=self._on_record,
                helper=DocumentHelper(languages.modules, languages.operators, self.node.urgency),
            )
            parts.push_async_callback(self.tests.close)
            watch = RightsWatch(self.node, self.authenticator)
            watch.start()
            parts.push_async_callback(watch.stop)
            self.server = _server(self, links)
            parts.push_async_callback(self.server.close)
            self.guard = MemoryGuard(self.node, self.server.memory, configuration.settled.limits.memory_bytes_max)
            self.guard.servers.append(self.server)
            self.guard.start()
            parts.callback(self.guard.stop)
            self.bridges = BridgeSet(self.node, configuration.name, self.log)
            for listener, start in LISTENERS.items():
                if (found := await self._listen(listener, start)) is not None:
                    self.listening[listener] = found.address
                    parts.push_async_callback(found.close)
            self._trace(parts)
            parts.push_async_callback(self.bridges.stop)
            await self.bridges.put(configuration.settled.bridge)
            self._parts = parts.pop_all()
        self.server.dial_all()
        self.log.info("started", broker=configuration.name, **{k: str(v) for k, v in self.listening.items()})
        return self.listening

    def _trace(self, parts: AsyncExitStack) -> None:
        """Start tracing, if it is configured. The library takes 0.3 s to load, and is an extra."""
        section = self.configuration.settled.telemetry
        if section.endpoint:
            from godwit.runtime.telemetry.span_export import Telemetry

            telemetry = Telemetry(self.node, self.configuration.name, **msgspec.structs.asdict(section))
            telemetry.start()
            parts.push_async_callback(telemetry.stop)

    async def _listen(self, listener: str, start: "Starter") -> RunningListener | None:
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

    def _load_kernels(self) -> None:
        """Have the matcher ready before anybody waits for it, unless Numba is to be loaded later."""
        if is_postponed():
            return
        if CACHE is not None and not has_compiled_kernels(CACHE):
            self.log.info("compiling the matcher", takes="up to a minute, once", cache=str(CACHE))
        if COMPILED:
            warm_up()

    def _load_languages(self) -> None:
        """Load the query languages: otherwise the first query would delay all clients by 50 ms."""
        if any(self.configuration.address(listener) is not None for listener in QUERY_LISTENERS):
            LANGUAGES.load_expected()

    async def _node(self) -> Node:
        """The machine from its journal, or a new one."""
        configuration = self.configuration
        durability = configuration.settled.journal.durability
        if durability == "memory":
            new = configuration.made(new_incarnation())
            self._log_model(new)
            return Node(lambda: _machine(new), on_record=self._on_record, on_trouble=self._on_trouble)
        journal = Journal(configuration.folder, configuration.name, durability, accept_loss=self.accept_loss)
        try:
            self._log_loss(journal)
            wanted = configuration.made(journal.incarnation)
            self._log_model(wanted)
            made = _recalled(journal, "made")
            if made is None:
                made = wanted
                _remember(journal, "made", wanted)
            now = _recalled(journal, "now") or made
            if changes := now.changes(wanted):
                raise ConfigurationError(
                    f"{journal.folder} is the journal of another configuration ({'; '.join(changes)}): go back to it, "
                    "or start with an empty one: set another journal.folder"
                )
            first = made
            node = Node(lambda: _machine(first), journal, on_record=self._on_record, on_trouble=self._on_trouble)
            await node.quiet()  # the machine has been told of a loss
            resettled = _resettled(wanted)
            if _resettled(now) != resettled:
                node.tell(resettled)
                await node.quiet()
                _remember(journal, "now", wanted)  # last: if it is missing, the machine is told again
            return node
        except GodwitError:
            journal.close()
            raise
        except Exception as error:
            journal.close()
            raise JournalError(
                f"{journal.folder} cannot be replayed by this version: {type(error).__name__}: {error}"
            ) from error

    def _log_loss(self, journal: Journal) -> None:
        """Log the loss of the journal once, when the broker continues without the lost data."""
        loss = journal.loss
        if loss is not None:
            goes_on = "as a new incarnation, with all that is left" if loss.incarnation else "with an empty journal"
            self.log.warning("journal loss", reason=loss.missing, batches=loss.batches, goes_on=goes_on)

    def _log_model(self, made: MachineSettings) -> None:
        """Reject a model whose places are not brokers: it would predict nothing, silently."""
        if made.publishers.model == NO_MODEL:
            file = self.configuration.settled.publishers.model
            self.log.warning("no model", reason=f"{file} has no predictions for clients of {made.name}")

    # ------------------------------------------------------------ while it runs

    def _on_record(self, record: Record, now: float) -> None:
        for listener in self.on_records:
            listener(record, now)

    def _log_record(self, record: Record, now: float) -> None:
        level = LOGGED.get(record.kind)
        if level is None:
            return
        more = {} if record.kind in RARE or level == "debug" else self._lines.room(record.peer)
        if more is not None:
            getattr(self.log, level)(record.kind, peer=record.peer, what=record.message, reason=record.detail, **more)

    def _warn(self, event: str, **fields: Any) -> None:
        self.log.warning(event, **fields)  # the log of that moment: a reload may replace it

    def _on_trouble(self, text: str) -> None:
        self.log.error("trouble", reason=text)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        error = about.get("exception")
        reason = about["message"] if error is None else f"{type(error).__name__}: {error}"
        self.log.error(
            "exception", reason=reason, traceback="".join(traceback.format_exception(error)) if error else ""
        )

    def on_linked(self, peer: str) -> None:
        """A link to a neighbour is up."""
        self.log.info("link up", peer=peer)

    def on_closed(self, name: str, reason: str) -> None:
        """A native connection has ended; `name` is that of a neighbour, or of a client's connection."""
        if name in self.server.neighbours:
            self.log.info("link down", peer=name, reason=reason or "the connection was lost")
        elif reason and not self._is_stopping and (more := self._lines.room("connections")) is not None:
            self.log.info("connection closed", connection=name, reason=reason, **more)

    async def reconfigure(self) -> None:
        """Apply the settings that can change while the machine runs. (rule 3)"""
        journal = self.node.journal
        wanted = self.configuration.made(journal.incarnation if isinstance(journal, Journal) else 0)
        self.node.tell(_resettled(wanted))
        await self.node.quiet()
        if isinstance(journal, Journal):
            await self.node.between_batches(partial(_remember, journal, "now", wanted))

    def renew_files(self) -> None:
        """Read certificates, the secret of links, users and keys of tokens again. SecurityError if one cannot be
        used."""
        tls, links = _tls_settings(self.configuration)
        for context in (self.tls, self.server.links.tls):
            if context is not None:
                renew(context, tls)
        self.server.links.renew_secret(link_secret(links))
        if isinstance(self.authenticator, ConfiguredAuthenticator):
            self.authenticator.read_again()

    def change_log(self, level: str, format: Literal["auto", "text", "json"]) -> None:
        """Set the log level."""
        self.log = make_log(level, format)
        logging.getLogger().removeHandler(self._forward)
        self._forward = LibraryLogHandler(self.log)
        logging.getLogger().addHandler(self._forward)

    def set_log_level(self, level: str) -> None:
        """Set the log level, until the next change of the configuration."""
        self.change_log(level, self.configuration.settled.log.format)

    async def reload(self) -> dict[str, Any]:
        """Read the configuration again. GodwitError: it cannot be used, and nothing was changed."""
        if self.on_reload is None:
            raise ConfigurationError("this broker does not know where its configuration came from")
        return await self.on_reload()

    # ------------------------------------------------------------ the end

    async def stop(self) -> None:
        """Close all connections, and write a snapshot."""
        self._is_stopping = True
        self.log.info("stopping", broker=self.configuration.name)
        await self._parts.aclose()
        self.log.info("stopped", broker=self.configuration.name)


# ---------------------------------------------------------------- parts


Starter = Callable[[BrokerServer, Address, ssl.SSLContext | None], Awaitable[RunningListener]]


async def _native(broker_server: BrokerServer, address: Address, tls: ssl.SSLContext | None) -> RunningListener:
    return RunningListener(
        await broker_server.server.listen(address.host, address.port, tls), broker_server.server.close
    )


async def _mqtt(broker_server: BrokerServer, address: Address, tls: ssl.SSLContext | None) -> RunningListener:
    configuration = broker_server.configuration
    gateway = broker_server.gateway = MqttGateway(
        broker_server.node,
        broker_server.authenticator,
        configuration.name,
        configuration.mqtt_settings(),
        traffic=configuration.traffic(),
        memory=broker_server.server.memory,
        rates=broker_server.server.rates,
        tests=broker_server.tests,
        audit=broker_server.audit,
    )
    broker_server.guard.servers.append(gateway)
    return RunningListener(await gateway.listen(address.host, address.port, tls), gateway.close)


async def _http(broker_server: BrokerServer, address: Address, tls: ssl.SSLContext | None) -> RunningListener:
    try:
        from godwit.runtime.http import HttpServer
    except ImportError as error:
        raise Unavailable(f"HTTP needs {error.name}, which is not installed: pip install godwit") from None
    configuration = broker_server.configuration
    settled = configuration.settled
    server = HttpServer(
        *(broker_server.node, broker_server.server, broker_server.authenticator),
        gateway=broker_server.gateway,
        tests=broker_server.tests,
        dashboard=dashboard_settings(settled, configuration.made(0).movements()),
        **msgspec.structs.asdict(settled.http),
    )
    server.administration.actions.process = broker_server
    server.metrics.bridges = lambda: broker_server.bridges.bridges
    broker_server.guard.servers.append(server)
    return RunningListener(await server.listen(address.host, address.port, tls), server.close)


LISTENERS: dict[str, Starter] = {"native": _native, "mqtt": _mqtt, "http": _http}


def _authenticator(
    configuration: Configuration, on_trouble: Callable[[str], None] = lambda text: None
) -> Authenticator:
    """The authenticator of the configuration."""
    security = configuration.settled.security
    if not security.users and not security.token_key and security.anonymous == "local":
        return LocalAuthenticator()
    try:
        from godwit.runtime.security import SecuritySettings, authenticator_from
    except ImportError as error:
        raise Unavailable(f"users and tokens need {error.name}, which is not installed: pip install godwit") from None
    settings = SecuritySettings(**msgspec.structs.asdict(security))
    literals_max = configuration.settled.limits.filter_literals_max
    return authenticator_from(settings, literals_max=literals_max, on_trouble=on_trouble)


def _tls(configuration: Configuration) -> tuple[ssl.SSLContext | None, LinkGuard]:
    """The TLS context of listeners, and the authentication of neighbours."""
    tls, links = _tls_settings(configuration)
    return server_context(tls, links), link_guard(configuration.name, links, tls)


def _tls_settings(configuration: Configuration) -> tuple[TlsSettings, LinkSettings]:
    links, tls = configuration.settled.links, configuration.settled.tls
    said = TlsSettings(tls.certificate, tls.key, tls.authorities, tls.client_certificates)
    return said, LinkSettings(tls=links.tls, secret=links.secret)


def _server(broker_server: BrokerServer, links: LinkGuard) -> NativeServer:
    """The native side: neighbours and clients."""
    configuration = broker_server.configuration
    neighbours = {
        name: address_of(neighbour.address) if neighbour.address else None
        for name, neighbour in configuration.neighbours().items()
    }
    server = NativeServer(
        configuration.name,
        broker_server.node,
        neighbours,
        authenticator=broker_server.authenticator,
        links=links,
        traffic=configuration.traffic(),
        audit=broker_server.audit,
        frame_bytes_max=configuration.settled.limits.frame_bytes_max,
        on_closed=broker_server.on_closed,
    )
    server.on_linked = broker_server.on_linked
    return server


def check_parts(configuration: Configuration) -> None:
    """Read the files of the configuration without starting anything. GodwitError: why it cannot be used."""
    configuration.operators()
    _authenticator(configuration)
    _tls(configuration)


def _machine(made: MachineSettings) -> Broker:
    return mobile_broker(
        made.name,
        made.neighbours,
        made.config,
        made.incarnation,
        movements=made.movements(),
        moving=made.publishers.config(),
    )


def _resettled(made: MachineSettings) -> PublisherReconfigured:
    """The settings that can be applied to a machine that was made with others."""
    return PublisherReconfigured(made.neighbours, made.config.limits, made.publishers)


def _recalled(journal: Journal, name: str) -> MachineSettings | None:
    text = journal.recall(name)
    return None if text is None else msgspec.json.decode(text, type=MachineSettings)


def _remember(journal: Journal, name: str, made: MachineSettings) -> None:
    journal.remember(name, msgspec.json.encode(made).decode())


def _why_not_listening(where: str, address: Address, error: OSError) -> str:
    """Why an address cannot be listened at, in one line."""
    if error.errno == errno.EADDRINUSE:
        return f"{where}: {address} is in use by another program; choose another port, or 0 for any"
    if error.errno == errno.EACCES:
        return f"{where}: {address} needs special rights: use a port from 1024 on"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{where}: {address.host} is not an address of this machine"
    return f"{where}: {address} cannot be listened at: {error.strerror or error}"


def folder_of(configuration: Configuration) -> Path | None:
    """The folder of the journal, if there is one."""
    return None if configuration.settled.journal.durability == "memory" else configuration.folder
