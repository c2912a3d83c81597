"""HTTP paths for administrators: actions, and a copy of the journal (`administration.py`)."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from godwit.errors import GodwitError
from godwit.runtime.administration import Actions, NotFound
from godwit.runtime.authentication import Principal
from godwit.runtime.http_requests import Problem, json_response
from godwit.runtime.journal import Journal
from godwit.runtime.node import Node
from godwit.runtime.question_parts import shown_rows
from godwit.runtime.security_log import SecurityLog

__all__ = ["AdministrationRoutes"]

JSON_TYPE = "application/json"


class AdministrationRoutes:
    """The actions of a broker, over HTTP. `body_of` reads the body of a request, within bounds."""

    def __init__(self, node: Node, audit: SecurityLog, body_of: Callable[[Request], Awaitable[bytes]]) -> None:
        self.actions = Actions(node)
        self._node = node
        self._audit = audit
        self._body_of = body_of
        self._is_copying = False

    async def act(self, principal: Principal, request: Request) -> Response:
        """Carry out an action: its fields are a JSON object in the body."""
        name, body = request.path_params["action"], await self._body_of(request)
        if body and request.headers.get("content-type", JSON_TYPE).partition(";")[0].strip() != JSON_TYPE:
            raise Problem(415, f"the body must be {JSON_TYPE}")
        try:
            fields = msgspec.json.decode(body, type=dict[str, str]) if body else {}
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Problem(400, f"the body must be a JSON object of texts: {error}") from None
        try:
            done = await self.actions.run(name, fields)
        except NotFound as error:
            raise Problem(404, str(error)) from None
        self._log(principal, request, name, **fields)
        return json_response(done)

    async def retained(self, principal: Principal, request: Request) -> Response:
        """Retained events."""
        asked = request.query_params
        rows = self.actions.retained(asked.get("filter", ""), shown_rows(asked))
        self._log(principal, request, "retained", filter=asked.get("filter", ""))
        return json_response(rows)

    async def queue(self, principal: Principal, request: Request) -> Response:
        """The queue of a client."""
        client = request.query_params.get("client", "")
        try:
            rows = self.actions.queue(client, shown_rows(request.query_params))
        except NotFound as error:
            raise Problem(404, str(error)) from None
        self._log(principal, request, "queue", client=client)
        return json_response(rows)

    async def backup(self, principal: Principal, request: Request) -> Response:
        """A copy of the present journal, in one file."""
        journal = self._node.journal
        if not isinstance(journal, Journal):
            raise Problem(409, 'this broker has no journal (durability = "memory"): there is nothing to copy')
        if self._is_copying:
            raise Problem(409, "another copy is being made: wait for it")
        self._is_copying = True
        try:
            file = await self._copy(journal)
        finally:
            self._is_copying = False
        self._log(principal, request, "backup", bytes=str(file.stat().st_size))
        return FileResponse(
            file,
            media_type="application/vnd.sqlite3",
            headers={"cache-control": "no-store", "x-godwit-broker": self._machine_name},
            background=BackgroundTask(file.unlink, missing_ok=True),
        )

    @property
    def _machine_name(self) -> str:
        return str(getattr(self._node.machine, "name", ""))

    async def _copy(self, journal: Journal) -> Path:
        """Copy the journal in its writer thread."""
        made: list[Path] = []
        try:
            await self._node.between_batches(lambda: made.append(journal.backup()))
        except OSError as error:
            raise GodwitError(f"no copy could be written: {error.strerror or error}") from None
        return made[0]

    def _log(self, principal: Principal, request: Request, action: str, **fields: str) -> None:
        host = request.client.host if request.client else ""
        self._audit.done(action, host, principal.user, **fields)
