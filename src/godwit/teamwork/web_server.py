"""Listens for HTTP connections to a peer: with the protocols and bounds of a broker, for the API of `web_api.py`.

*Rules.*
1. There are at most `connections_max` connections, and `connections_per_host_max` from one other host.
2. A request must have come `REQUEST_S` after it began, and so much later for each MiB of it: so an upload may be as
   long as it likes, and nobody holds a connection by sending a byte now and then.
"""

import ssl

from godwit.runtime.http_listener import HttpListener
from godwit.runtime.http_protocols import CLOSINGS, HOSTS, MEMORY, PLACES, Places
from godwit.runtime.memory_account import MemoryAccount
from godwit.runtime.pacing import Pacer
from godwit.runtime.rate_limits import HostConnections
from godwit.runtime.tcp import Address
from godwit.teamwork.web_api import WebApi

__all__ = ["WebServer"]

CONNECTIONS_MAX = 1_000
CONNECTIONS_PER_HOST_MAX = 200
REQUEST_S = 30.0
NO_BOUND = 2**62  # bodies are read as they come, and never held


class WebServer:
    """HTTP for one peer."""

    def __init__(
        self,
        api: WebApi,
        *,
        connections_max: int = CONNECTIONS_MAX,
        connections_per_host_max: int = CONNECTIONS_PER_HOST_MAX,
    ) -> None:
        self.api = api
        bounds = {
            HOSTS: HostConnections(connections_per_host_max),
            PLACES: Places(connections_max, reserved=0),
            MEMORY: MemoryAccount(NO_BOUND, REQUEST_S),
            CLOSINGS: Pacer(),
        }
        self._listener = HttpListener(api.application, bounds)

    @property
    def listening(self) -> list[Address]:
        """Where it does."""
        return self._listener.listening

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Address:
        """Take connections there. With port 0, the system chooses one."""
        return await self._listener.listen(host, port, tls)

    async def close(self) -> None:
        """Stop listening, end streams, and close all connections."""
        self._listener.stop_listening()
        await self.api.close()
        await self._listener.close_connections()
