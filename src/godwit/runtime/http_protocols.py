"""uvicorn's protocols with our bounds: who is silent or comes too often is let go, and certificates are seen.

*Rules.*
1. A connection has `HEAD_S` for its first request, and at most twice that from the answer to one request to all of the
   next: so nobody holds one by sending what is never finished, a byte at a time.
2. From one host come at most so many connections as `HostConnections` allows, WebSockets included.
3. The name in a certificate that we trust is handed to the application, as `certificate` in the request's state.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from godwit.runtime.peer_identity import certificate_names, host_of
from godwit.runtime.rate_limits import HostConnections

__all__ = ["CERTIFICATE", "HOSTS", "HttpProtocol", "SocketProtocol"]

HEAD_S = 10.0
CERTIFICATE, HOSTS, ENTERED = "certificate", "hosts", "entered"


class HttpProtocol(H11Protocol):
    """A connection; its state (`app_state`) is its own, and has `HOSTS`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._answered: Any = None  # the request that was answered last, when somebody last looked
        asyncio.get_running_loop().call_later(HEAD_S, self._check)
        host, names = host_of(transport), certificate_names(transport)
        hosts: HostConnections = self.app_state[HOSTS]
        self.app_state[CERTIFICATE] = names[0] if names else ""
        if hosts.enter(host):
            self.app_state[ENTERED] = host
        else:
            transport.abort()  # rule 2

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _leave(self.app_state)

    def _check(self) -> None:
        """Let go of who asks for nothing. (rule 1)"""
        transport = self.transport
        cycle: Any = self.cycle  # None before the first request, which its type does not say
        if transport.is_closing() or transport.get_protocol() is not self:  # it is a WebSocket now
            return
        is_answered = cycle is None or cycle.response_complete
        if is_answered and cycle is self._answered:
            transport.abort()
            return
        self._answered = cycle if is_answered else None
        asyncio.get_running_loop().call_later(HEAD_S, self._check)


class SocketProtocol(WebSocketsSansIOProtocol):
    """The same connection after it has become a WebSocket."""

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._state = app_state

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _leave(self._state)


def _leave(state: dict[str, Any]) -> None:
    host = state.pop(ENTERED, None)
    if host is not None:
        state[HOSTS].leave(host)
