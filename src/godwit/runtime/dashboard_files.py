"""The dashboard's files, as a broker serves them: one page for every address, its scripts, and libraries.

*Theory.* `dashboard/web` in the package is all that is served. Addresses of pages (`/dashboard/why`) have no suffix and
get `index.html`, whose script finds out which page is meant; everything else is a file of that name, or is not there.

*Rules.*
1. A page may load scripts, styles and data from this broker alone, and runs no script that is written in it: the import
   map is the one exception, and is named by its hash. Nothing of another host is asked for.
2. A file that is not in the package is not served, whatever a path looks like.
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

__all__ = ["PAGE", "WEB", "content_security_policy", "dashboard_response"]

WEB = "dashboard/web"
PAGE = f"{WEB}/index.html"
MAP_BEGIN, MAP_END = b'<script type="importmap">', b"</script>"


def dashboard_response(request: Request, path: str) -> Response:
    """The answer to a request for a page or a file of the dashboard."""
    if PurePosixPath(path).suffix == "":
        response = file_response(request, PAGE)
        response.headers["content-security-policy"] = content_security_policy()
        response.headers["referrer-policy"] = "no-referrer"
        return response
    if path not in served():
        raise HTTPException(404, "there is no such file")
    return file_response(request, f"{WEB}/{path}")


@cache
def served() -> frozenset[str]:
    """The paths of all files, below `dashboard/web`. (rule 2)"""
    return frozenset(_paths(files("godwit").joinpath(WEB), ""))


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
def content_security_policy() -> str:
    """What the page may load and run. (rule 1)"""
    page = static_file(PAGE).content
    begin = page.index(MAP_BEGIN) + len(MAP_BEGIN)
    map_hash = b64encode(sha256(page[begin : page.index(MAP_END, begin)]).digest()).decode()
    rules = {
        "default-src": "'none'",
        "script-src": f"'self' 'sha256-{map_hash}'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())
