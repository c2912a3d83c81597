"""The file server of a peer: gives files to other peers of its team, over HTTP/1.1. [motion §2: shared documents at
every peer]

*Theory.* The server reads files by the name of their content (`content_files.py`) and hands them to the network without
a copy (`os.sendfile`). Who asks is known by a signature of the device (`file_requests.py`). Whether that user may read
a file is decided for each request, by `MayRead`: a right that ends in the middle of a transfer ends the transfer.

*Rules.*
1. Nothing is given without a right. A file that is not here and one that may not be read get the same answer.
2. Before the first byte of a file goes out on a connection, the audit has been told. If that fails, no byte goes.
3. A file that must be sealed is given in its sealed form alone.
4. Connections are bounded: in all, of one user, of one device. Those whose device is not known yet are few, and the
   oldest goes first; so strangers cannot keep the team out.
5. A connection that is idle, or whose other end does not read, is closed after `idle_s`.
6. The event loop never waits for the disk: what is not in memory is read by a thread.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from godwit.errors import TransferError
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.file_connection import FileConnection
from godwit.teamwork.file_requests import Asker
from godwit.teamwork.file_rights import AskingDevices, MayRead, Shown

__all__ = ["FileServer", "ServerLimits"]

BACKLOG = 128
PAUSE_S = 0.5  # when the system has no more handles for connections
SOMEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}  # for documentation: nothing is sent there
ANYWHERE = {"": "0.0.0.0", "0.0.0.0": "0.0.0.0", "::": "::"}


class ServerLimits(msgspec.Struct, frozen=True):
    """Bounds of a file server."""

    connections_max: int = 256
    strangers_max: int = 32
    """Connections on which nobody has signed a request yet."""
    connections_per_user_max: int = 16
    connections_per_device_max: int = 8
    idle_s: float = 30.0


DEFAULT_LIMITS = ServerLimits()


class FileServer:
    """Serves the files of a folder to those who may read them."""

    def __init__(
        self,
        files: ContentFiles,
        device: str,
        devices: AskingDevices,
        may_read: MayRead,
        audit: Callable[[Shown], None],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        announced_hosts: Sequence[str] = (),
        limits: ServerLimits = DEFAULT_LIMITS,
    ) -> None:
        """`port` 0: any that is free. `announced_hosts`: under which other peers find this one (default: by `host`)."""
        self.files, self.device, self.devices, self.limits = files, device, devices, limits
        self.may_read, self.audit = may_read, audit
        self._host, self._port, self._announced_hosts = host, port, tuple(announced_hosts)
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[FileConnection, asyncio.Task[None]] = {}
        self._strangers: dict[FileConnection, None] = {}
        self._of_user: Counter[str] = Counter()
        self._of_device: Counter[str] = Counter()
        self.faults: deque[str] = deque(maxlen=100)
        """What went wrong with rights, audit or files."""

    # ------------------------------------------------------------ coming and going

    async def __aenter__(self) -> Self:
        host = ANYWHERE.get(self._host, self._host)
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, self._port), family=family, backlog=BACKLOG)
        except (OSError, OverflowError) as error:
            raise TransferError(f"cannot give files at {host}:{self._port}: {error}") from error
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._listener), name="file server")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._accepting is not None
        assert self._listener is not None
        tasks = [self._accepting, *self._connections.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
        self._listener = None

    @property
    def port(self) -> int:
        """The port that it listens to."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    def addresses(self) -> tuple[str, ...]:
        """Where other peers find it now: `HOST:PORT`. A peer that moves has others tomorrow."""
        if self._listener is None:
            return ()
        hosts = self._announced_hosts
        if not hosts and self._host not in ANYWHERE:
            hosts = (self._host,)
        if not hosts:
            families = [socket.AF_INET6, socket.AF_INET] if self._host == "::" else [socket.AF_INET]
            hosts = tuple(host for family in families if (host := _own_host(family))) or ("127.0.0.1",)
        return tuple(f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}" for host in hosts)

    # ------------------------------------------------------------ connections

    @property
    def idle_s(self) -> float:
        return self.limits.idle_s

    def report(self, fault: str) -> None:
        self.faults.append(fault)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(listener)
            except OSError as error:
                self.faults.append(f"cannot accept a connection: {error}")
                await asyncio.sleep(PAUSE_S)
                continue
            connected.setblocking(False)
            with suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin(FileConnection(self, connected))

    def _begin(self, connection: FileConnection) -> None:
        """Serve a connection, if there is room for it. (rule 4)"""
        limits = self.limits
        if self._strangers and len(self._strangers) >= limits.strangers_max:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            self._connections[oldest].cancel()
        is_full = len(self._connections) >= limits.connections_max
        task = asyncio.create_task(connection.refuse() if is_full else connection.serve())
        self._connections[connection] = task
        self._strangers[connection] = None
        task.add_done_callback(lambda _: self._end(connection))

    def _end(self, connection: FileConnection) -> None:
        del self._connections[connection]
        self._strangers.pop(connection, None)
        if connection.asker is not None:
            self._of_user[connection.asker.user] -= 1
            self._of_device[connection.asker.device] -= 1
            self._of_user, self._of_device = +self._of_user, +self._of_device

    def admit(self, connection: FileConnection, asker: Asker) -> bool:
        """Count a connection for its asker, unless that has too many. (rule 4)"""
        limits = self.limits
        if (
            self._of_user[asker.user] >= limits.connections_per_user_max
            or self._of_device[asker.device] >= limits.connections_per_device_max
        ):
            return False
        self._strangers.pop(connection, None)
        self._of_user[asker.user] += 1
        self._of_device[asker.device] += 1
        return True


def _own_host(family: socket.AddressFamily) -> str:
    """The address of this machine on the network that leads elsewhere; empty if there is none."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((SOMEWHERE[family], 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])
