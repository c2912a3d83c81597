"""Takes HTTP connections for an application, with the protocols and bounds of `http_protocols.py`.

What a broker and a peer of a team have in common: where they listen, and how connections end.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from godwit.runtime.http_protocols import HEAD_S, HttpProtocol
from godwit.runtime.tcp import Address

__all__ = ["HttpListener"]

STOP_S = 5.0


class HttpListener:
    """The sockets of one application. `bounds` is what its connections share, `sockets` the settings of WebSockets."""

    def __init__(self, application: Any, bounds: Mapping[str, Any], **sockets: Any) -> None:
        self.listening: list[Address] = []
        self._bounds = dict(bounds)
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
        """Those that are open."""
        return list(self._state.connections)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Address:
        """Take connections there. With port 0, the system chooses one."""
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
        """Take no more connections. Those that are open stay."""
        for server in self._servers:
            server.close()

    async def close_connections(self) -> None:
        """Let everybody go: requests may end within `STOP_S`."""
        for connection in self.connections:
            connection.shutdown()
        if tasks := list(self._state.tasks):
            await asyncio.wait(tasks, timeout=STOP_S)
        for task in self._state.tasks:
            task.cancel()
