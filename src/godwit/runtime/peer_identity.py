"""The identity of a socket's peer: its host, and the names in its certificate."""

import asyncio
import socket
import ssl
from sys import intern
from typing import Any

__all__ = ["certificate_names", "host_of", "keep_alive"]

UNKNOWN = "an unknown host"  # which is not this one
KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3))  # seconds, seconds, times


def host_of(transport: asyncio.BaseTransport) -> str:
    """The address of the peer; "" without a network."""
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple) and peer:
        return intern(str(peer[0]))  # many connections have the same host
    near = transport.get_extra_info("socket")
    is_inside = near is not None and near.family == getattr(socket, "AF_UNIX", None)
    return "" if is_inside else UNKNOWN


def certificate_names(transport: asyncio.BaseTransport) -> tuple[str, ...]:
    """The names in the peer's trusted certificate; empty without TLS or certificate."""
    tls = transport.get_extra_info("ssl_object")
    if tls is None or tls.context.verify_mode == ssl.CERT_NONE:
        return ()
    shown: Any = tls.getpeercert()
    if not shown:
        return ()
    names = [value for kind, value in shown.get("subjectAltName", ()) if kind == "DNS"]
    if not names:
        names = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
    return tuple(names)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Turn on TCP keep-alive, so that a peer that has vanished is detected."""
    near = transport.get_extra_info("socket")
    if near is None or near.family not in (socket.AF_INET, socket.AF_INET6):
        return
    near.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        if (option := getattr(socket, name, None)) is not None:
            near.setsockopt(socket.IPPROTO_TCP, option, value)
