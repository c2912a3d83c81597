"""Addresses of brokers."""

import msgspec

from godwit.errors import BadValue

__all__ = ["PORT_MAX", "Address", "address_of"]

PORT_MAX = 65_535


class Address(msgspec.Struct, frozen=True):
    """The address of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def address_of(text: str) -> Address:
    """Parse `host:port`, with an IPv6 host in brackets. BadValue if it is invalid."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadValue(f"{text!r} is not an address: it must be host:port")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise BadValue(f"{text!r} is not an address: it must be host:port")
    return Address(host, int(port))
