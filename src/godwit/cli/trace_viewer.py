"""A local server that shows one trace in the dashboard, as if a job had written it.

*Rules.*
1. It listens on the loopback address only, and answers only requests whose Host header is a name of this machine.
"""

import socket
import webbrowser
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from godwit import __version__
from godwit.cli.signatures import echo
from godwit.runtime.dashboard_files import dashboard_response
from godwit.runtime.http_requests import json_response
from godwit.trace import FILE

__all__ = ["serve_trace", "viewer"]

HOST = "127.0.0.1"
PAGE = "/dashboard/simulate"
NAME = "a recorded run"


def viewer(folder: str | Path) -> Starlette:
    """The application."""
    trace = Path(folder) / FILE

    async def job(request: Request) -> Response:
        told = {"job": 1, "kind": "simulate", "state": "done", "progress": "", "done": 1.0, "seconds": 0.0, "error": ""}
        return json_response({**told, "said": [], "files": [f"trace/{FILE}"], "is_viewer": True})

    async def scenarios(request: Request) -> Response:
        return json_response({"scenarios": {}, "files": {}})

    async def file(request: Request) -> Response:
        return FileResponse(trace, headers={"x-content-type-options": "nosniff", "cache-control": "no-store"})

    async def health(request: Request) -> Response:
        return json_response({"ok": True, "broker": NAME, "version": __version__})

    async def page(request: Request) -> Response:
        return dashboard_response(request, request.path_params["path"])

    async def root(request: Request) -> Response:
        return RedirectResponse(PAGE)

    async def on_missing(request: Request, error: Exception) -> Response:
        return json_response({"error": "this server shows a recorded run, and nothing else"}, 404)

    routes = [
        Route("/", root),
        Route("/healthz", health),
        Route("/jobs", job),
        Route("/jobs/scenarios", scenarios),
        Route(f"/jobs/files/trace/{FILE}", file),
        Route("/dashboard/{path:path}", page),
    ]
    local = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    return Starlette(routes=routes, middleware=[local], exception_handlers={HTTPException: on_missing})


def serve_trace(folder: str | Path) -> None:
    """Serve until Ctrl-C, and open a browser."""
    with socket.create_server((HOST, 0)) as taken:
        address = f"http://{HOST}:{taken.getsockname()[1]}{PAGE}"
        echo(f"{address} shows the run; Ctrl-C stops it", err=True)
        webbrowser.open(address)
        config = uvicorn.Config(viewer(folder), log_level="warning", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[taken])
