"""Parts of HTTP requests: credentials, certificate, connection, body; and JSON answers."""

import base64
import binascii
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from godwit.errors import GodwitError
from godwit.runtime.http_peer import HttpPeer
from godwit.runtime.http_protocols import CERTIFICATE, PEER, PLACE

__all__ = [
    "Problem",
    "body_of",
    "certificate_of",
    "credentials_in",
    "is_local_name",
    "is_reserved",
    "json_response",
    "peer_of",
    "why_other_site",
]

OWN_SITE = ("none", "same-origin")  # values of Sec-Fetch-Site for requests of the user or of this site


class Problem(GodwitError):
    """A refused request. `cause`: the cause in the security log; "": it is not logged there."""

    def __init__(self, status: int, reason: str, cause: str = "", **more: Any) -> None:
        super().__init__(reason)
        self.cause = cause
        self.status = status
        self.more = more


def json_response(answer: Any, status: int = 200, headers: Any = None) -> Response:
    """An answer as JSON."""
    return Response(msgspec.json.encode(answer), status, dict(headers or {}), "application/json")


async def body_of(request: Request, bytes_max: int) -> bytes:
    """The body of a request. Problem: it is too long."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > bytes_max:
            raise Problem(413, f"at most {bytes_max} bytes go in one request")
        parts.append(part)
    return b"".join(parts)


def credentials_in(authorization: str) -> dict[str, str]:
    """User and password, or a token, from a header. Problem if it is neither."""
    scheme, _, said = authorization.partition(" ")
    match scheme.lower():
        case "":
            return {}
        case "bearer":
            return {"token": said.strip()}
        case "basic":
            try:
                user, colon, password = base64.b64decode(said, validate=True).decode().partition(":")
            except (binascii.Error, ValueError):
                colon = ""
            if not colon:
                raise Problem(400, "the Authorization header has no valid Basic credentials")
            return {"user": user, "password": password}
    raise Problem(400, f"Authorization by {scheme!r}: allowed are Basic and Bearer")


def certificate_of(connection: HTTPConnection) -> str:
    """The name in the client certificate."""
    return str(connection.scope.get("state", {}).get(CERTIFICATE, ""))


def peer_of(connection: HTTPConnection) -> HttpPeer:
    """The peer of a request's connection."""
    peer: HttpPeer = connection.scope["state"][PEER]
    return peer


def is_reserved(connection: HTTPConnection) -> bool:
    """Whether it came over a connection reserved for health and administration."""
    place = connection.scope.get("state", {}).get(PLACE)
    return place is not None and bool(place.is_reserved)


def is_local_name(host: str) -> bool:
    """Whether a Host header is a local name of this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def why_other_site(headers: Mapping[str, str], origins: Collection[str] = ()) -> str:
    """The origin of a cross-site request, if it is not one of the allowed origins; else ""."""
    origin = headers.get("origin", "")
    if not origin and headers.get("sec-fetch-site", "none") not in OWN_SITE:
        return "pages of other sites"
    is_other = origin and origin not in origins and origin.partition("://")[2] != (headers.get("host") or None)
    return f"pages of {origin}" if is_other else ""
