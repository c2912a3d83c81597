"""HTTP paths for administrators: start jobs, follow them and fetch their files (`jobs.py`)."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from godwit.runtime.authentication import Principal
from godwit.runtime.http_requests import Problem, json_response
from godwit.runtime.job_requests import request_of, shipped_scenarios
from godwit.runtime.jobs import Jobs

__all__ = ["JobRoutes"]

STOP = "stop"


class JobRoutes:
    """The job of a broker, over HTTP. `body_of` reads the body of a request, within bounds."""

    def __init__(self, body_of: Callable[[Request], Awaitable[bytes]]) -> None:
        self.jobs = Jobs()
        self._body_of = body_of

    async def show(self, principal: Principal, request: Request) -> Response:
        """The job that runs, or ran last."""
        return json_response(self.jobs.told())

    async def scenarios(self, principal: Principal, request: Request) -> Response:
        """Scenarios for the simulator that come with Godwit."""
        return json_response(shipped_scenarios())

    async def file(self, principal: Principal, request: Request) -> Response:
        """A file that the last job has written."""
        file = self.jobs.file(request.path_params["path"])
        if file is None:
            raise Problem(404, "the last job has no such file")
        return FileResponse(file, headers={"x-content-type-options": "nosniff", "cache-control": "no-store"})

    async def start(self, principal: Principal, request: Request) -> Response:
        """Start a job, or stop the one that runs."""
        kind = request.path_params["kind"]
        if kind == STOP:
            return json_response(self.jobs.stop())
        asked = request_of(kind, await self._body_of(request))
        if self.jobs.is_running:
            raise Problem(409, "another job runs: wait for it, or stop it")
        return json_response(await self.jobs.start(kind, *asked), 202)
