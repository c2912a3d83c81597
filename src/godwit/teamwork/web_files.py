"""The pages of a peer: one page for every address, its scripts, and the files that it shares with the dashboard.

*Rules.*
1. A page may load scripts, styles and data from this peer alone, and runs no script that is written in it: the import
   map is the one exception, and is named by its hash.
2. A file that is not in the package, or not on the list of what is shared, is not served.
"""

from pathlib import PurePosixPath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from godwit.runtime.dashboard_files import WEB as DASHBOARD
from godwit.runtime.dashboard_files import content_security_policy, served
from godwit.runtime.static_files import file_response

__all__ = ["PAGE", "SHARED", "WEB", "page_response", "shared_response"]

WEB = "teamwork/web"
PAGE = f"{WEB}/index.html"
SHARED = (
    "address.js",
    "asking.js",
    "godwit.svg",
    "parts.js",
    "style.css",
    "vendor/htm/htm.mjs",
    "vendor/htm/preact.mjs",
    "vendor/preact/hooks.mjs",
    "vendor/preact/preact.mjs",
)
"""Files of the dashboard that the pages of a team use, too."""


def page_response(request: Request, path: str) -> Response:
    """The answer to a request for a page or one of its files."""
    if PurePosixPath(path).suffix == "":
        response = file_response(request, PAGE)
        response.headers["content-security-policy"] = content_security_policy(page_path=PAGE)
        response.headers["referrer-policy"] = "no-referrer"
        return response
    if path not in served(WEB):
        raise HTTPException(404, "there is no such file")
    return file_response(request, f"{WEB}/{path}")


def shared_response(request: Request, path: str) -> Response:
    """The answer to a request for a file of the dashboard."""
    if path not in SHARED:
        raise HTTPException(404, "there is no such file")
    return file_response(request, f"{DASHBOARD}/{path}")
