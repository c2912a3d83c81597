"""The part of HTTP/1.1 that a file server needs: reads the head of a request, and writes that of an answer.

GET and HEAD without a body, persistent connections, one range of bytes (RFC 9110, RFC 9112). The reader is strict: what
it does not know is refused, and the connection is closed.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

__all__ = ["HEAD_BYTES_MAX", "BadRequest", "Request", "byte_range", "head_of_answer", "read_request"]

HEAD_BYTES_MAX = 8_192
END = b"\r\n\r\n"
REQUEST_LINE = re.compile(r"([A-Z]{1,20}) (/[!-~]*) HTTP/1\.([01])")
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class BadRequest(Exception):
    """A request that is not understood. The connection cannot be used any more."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Request(msgspec.Struct, frozen=True):
    """The head of a request. Names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    stays_open: bool
    """Whether the connection is used for another request."""


def read_request(data: bytes) -> tuple[Request, bytes] | None:
    """The first request in some bytes, and what follows it; None as long as it is not whole."""
    head, end, rest = data.partition(END)
    if not end:
        if len(data) > HEAD_BYTES_MAX:
            raise BadRequest(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request has at most {HEAD_BYTES_MAX:,} bytes"
            )
        return None
    line, *fields = head.decode("latin-1").split("\r\n")
    if (found := REQUEST_LINE.fullmatch(line)) is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "a request begins with METHOD /TARGET HTTP/1.1")
    method, target, minor = found.groups()
    headers: dict[str, str] = {}
    for field in fields:
        if (header := HEADER.fullmatch(field)) is None or header[1].lower() in headers:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"a header is malformed, or is there twice: {field[:60]!r}")
        headers[header[1].lower()] = header[2]
    if method not in ("GET", "HEAD"):
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "a file is read: GET and HEAD are allowed")
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "a request for a file has no body")
    wish = headers.get("connection", "").lower()
    return Request(method, target, headers, wish != "close" and (minor == "1" or wish == "keep-alive")), rest


def byte_range(header: str, size: int) -> range | None:
    """The bytes that a header `Range` asks for; all without one, or with one of a kind that may be ignored.

    None if there are no such bytes. (RFC 9110, 14.1.2 and 14.2)
    """
    if (found := RANGE.fullmatch(header)) is None or not any(found.groups()):
        return range(size)
    first, last = found.groups()
    if not first:
        return range(max(0, size - int(last)), size) if int(last) and size else None
    asked = range(int(first), min(int(last) + 1 if last else size, size))
    if last and int(last) < int(first):
        return range(size)
    return asked or None


def head_of_answer(status: HTTPStatus, headers: Mapping[str, object], *, stays_open: bool) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Server: godwit"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [] if stays_open else ["Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
