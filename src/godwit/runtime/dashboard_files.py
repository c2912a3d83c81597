"""The dashboard's files, as a broker serves them: one page for all addresses, its scripts, and libraries.

*Theory.* Only files of `dashboard/web` in the package are served. Addresses of pages (`/dashboard/why`) have no suffix
and get `index.html`, whose script selects the page; every other path is a file of that name, or not found.

*Rules.*
1. A page may load scripts, styles and data from this broker only, and runs no inline script, except the import map,
   which is allowed by its hash. Nothing is loaded from other hosts, except map tiles from the one origin that the
   operator has set.
2. Only files of the package are served, whatever the path.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from godwit.runtime.static_files import file_response, static_file
from godwit.runtime.tile_file import TileFile

__all__ = ["PAGE", "WEB", "content_security_policy", "dashboard_response", "served", "tile_response"]

WEB = "dashboard/web"
PAGE = f"{WEB}/index.html"
MAP_BEGIN, MAP_END = b'<script type="importmap">', b"</script>"


def dashboard_response(request: Request, path: str, tiles_origin: str = "") -> Response:
    """The answer to a request for a page or a file. `tiles_origin`: another allowed origin of map tiles."""
    if PurePosixPath(path).suffix == "":
        response = file_response(request, PAGE)
        response.headers["content-security-policy"] = content_security_policy(tiles_origin)
        response.headers["referrer-policy"] = "no-referrer"
        return response
    if path not in served():
        raise HTTPException(404, "there is no such file")
    return file_response(request, f"{WEB}/{path}")


def tile_response(tiles: TileFile | None, level: int, column: int, row: int) -> Response:
    """The answer to a request for a map tile."""
    found = None if tiles is None else tiles.tile(level, column, row)
    if tiles is None or found is None:
        return Response(status_code=404)  # maps request tiles beyond their edges, too
    headers = {"content-type": tiles.content_type, "cache-control": "private, max-age=3600"}
    return Response(found, headers={**headers, "x-content-type-options": "nosniff"})


@cache
def served(web: str = WEB) -> frozenset[str]:
    """The paths of all files below a folder of the package. (rule 2)"""
    return frozenset(_paths(files("godwit").joinpath(web), ""))


def _paths(folder: Traversable, prefix: str) -> list[str]:
    found = []
    for each in folder.iterdir():
        path = f"{prefix}{each.name}"
        if each.is_dir():
            found += _paths(each, f"{path}/")
        elif PurePosixPath(path).suffix in (".js", ".mjs", ".css", ".json", ".png", ".svg"):
            found.append(path)
    return found


@cache
def content_security_policy(tiles_origin: str = "", page_path: str = PAGE) -> str:
    """The Content-Security-Policy. (rule 1)"""
    page = static_file(page_path).content
    begin = page.index(MAP_BEGIN) + len(MAP_BEGIN)
    map_hash = b64encode(sha256(page[begin : page.index(MAP_END, begin)]).digest()).decode()
    rules = {
        "default-src": "'none'",
        "script-src": f"'self' 'sha256-{map_hash}'",
        "style-src": "'self'",
        "img-src": f"'self' data: {tiles_origin}".rstrip(),
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())
