"""Accepts HTTP connections for an application, with the protocols and bounds of `http_protocols.py`.

It is shared by brokers and peers of a team.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from godwit.runtime.http_protocols import HEAD_S, MEMORY, SLICES, HttpProtocol
from godwit.runtime.read_slices import ReadSlices
from godwit.runtime.tcp import Address
from godwit.runtime.urgency import Urgency

__all__ = ["HttpListener"]

STOP_S = 5.0


class HttpListener:
    """The sockets of one application. `bounds`: the shared limits of its connections; `sockets`: the settings of
    WebSockets."""

    def __init__(
        self, application: Any, bounds: Mapping[str, Any], urgency: Urgency | None = None, **sockets: Any
    ) -> None:
        self.listening: list[Address] = []
        slices = ReadSlices(urgency=urgency)
        self._bounds = {**bounds, SLICES: slices}
        bounds[MEMORY].undecoded.append(lambda: slices.size)
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._config = uvicorn.Config(
            application,
            http=HttpProtocol,
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            **{"ws": "none", **sockets},
        )
        self._config.load()

    @property
    def connections(self) -> list[Any]:
        """The open connections."""
        return list(self._state.connections)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Address:
        """Listen at an address. With port 0, the system chooses one."""
        server = await asyncio.get_running_loop().create_server(
            lambda: HttpProtocol(config=self._config, server_state=self._state, app_state=dict(self._bounds)),
            host,
            port,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HEAD_S,
        )
        self._servers.append(server)
        taken = Address(*server.sockets[0].getsockname()[:2])
        self.listening.append(taken)
        return taken

    def stop_listening(self) -> None:
        """Stop listening. Open connections stay."""
        for server in self._servers:
            server.close()

    async def close_connections(self) -> None:
        """Close all connections: running requests have `STOP_S` to finish."""
        for connection in self.connections:
            connection.shutdown()
        if tasks := list(self._state.tasks):
            await asyncio.wait(tasks, timeout=STOP_S)
        for task in self._state.tasks:
            task.cancel()
