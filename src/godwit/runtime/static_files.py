"""Static files of the package for browsers: the client (`/client.js`) and the dashboard.

*Rules.*
1. A file is read once, and its ETag is a hash of its content. A browser revalidates each time, and gets 304 if it has
   not changed: so after an update no old files are used.
2. A browser must not guess the content type (`nosniff`).
"""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePosixPath
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["CLIENT", "StaticFile", "file_response", "static_file"]

CLIENT = "runtime/web/client.js"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class StaticFile(NamedTuple):
    """A file, its content type and the tag of its content."""

    content: bytes
    content_type: str
    tag: str


@cache
def static_file(path: str) -> StaticFile:
    """A file of the package, by its path in it."""
    content = files("godwit").joinpath(path).read_bytes()
    return StaticFile(content, TYPES[PurePosixPath(path).suffix], f'"{sha256(content).hexdigest()[:32]}"')


def file_response(request: Request, path: str) -> Response:
    """The answer to a request for a file: the file, or that it has not changed."""
    content, content_type, tag = static_file(path)
    headers = {"etag": tag, "cache-control": "no-cache", "x-content-type-options": "nosniff"}
    known = request.headers.get("if-none-match", "")
    if known == "*" or tag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, headers={**headers, "content-type": content_type})
