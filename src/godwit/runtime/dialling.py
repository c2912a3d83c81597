"""Where a broker is, and why it cannot be reached: addresses as people write them, errors as they understand them."""

import socket
import ssl
from contextlib import suppress
from typing import Any

from godwit.errors import GodwitError
from godwit.runtime.tcp import Address

__all__ = ["DIAL_S", "PORT", "address", "keep_alive", "why_unreachable"]

PORT = 7077
DIAL_S = 5.0
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # a broker that is silently gone is noticed


def address(seed: Address | str) -> Address:
    """Where a broker is: `host:port`, `[host]:port` or `host` alone, for the usual port."""
    if isinstance(seed, Address):
        return seed
    text = seed.strip()
    bare = text.endswith("]") or ":" not in text
    host, port = (text, str(PORT)) if bare else text.rsplit(":", 1)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise GodwitError(f"{seed!r} is no address of a broker: it must be host:port, such as 127.0.0.1:{PORT}")
    return Address(host, int(port))


def why_unreachable(error: Exception) -> str:
    """Why a broker cannot be reached, in a few words."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, TimeoutError):
        return f"no answer in {DIAL_S:g} s"
    if isinstance(error, ssl.SSLError):
        return f"no safe connection: {getattr(error, 'verify_message', '') or error.reason or error}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def keep_alive(plug: Any) -> None:
    """Have the system ask now and then whether the other side is still there."""
    with suppress(OSError, AttributeError):
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE.items():
            if hasattr(socket, option):
                plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
