"""The HTTP API of a peer: for its pages, and for thin clients (browsers, phones, curl), which host nothing. [motion §2]

*Theory.* The tables of `web_people.py` and its like say what there is (`web_calls.py`). This module makes routes of
them: it finds out who asks, reads and checks what was sent, calls the handler with the team as that user sees it, and
turns answers and errors into JSON. The OpenAPI document at `/openapi.json` is made from the same tables.

*Rules.*
1. All but login, health, the OpenAPI document and the pages themselves is for users who are logged in, by the cookie of
   a session or by a token (`Authorization: Bearer`). What a user may see and do, the team decides (`Team.as_user`).
2. A request of a page of another site is refused. One that changes something and is authenticated by a cookie needs the
   header `x-godwit`, which such a page cannot set.
3. A JSON body has at most `BODY_BYTES_MAX` bytes; files are streams (`web_uploads.py`). A body is read when it is clear
   who asks.
4. An answer is JSON, or a file or stream. An error is `{"error": why}` with the status that fits.
5. A scope, document or message that the user may not see is answered as one that does not exist.
6. Nothing that is answered is kept by a browser or proxy, but for the files of the pages.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from inspect import isawaitable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from godwit import __version__
from godwit.errors import (
    ContentError,
    FilterSyntaxError,
    GodwitError,
    NotConnected,
    NotHere,
    PeerFault,
    Refused,
    RepositoryError,
)
from godwit.runtime.http_requests import Problem, credentials_in, json_response, peer_of, why_other_site
from godwit.runtime.pacing import Pacer
from godwit.teamwork import (
    web_communities,
    web_documents,
    web_meetings,
    web_messages,
    web_people,
    web_rights,
    web_search,
    web_session,
    web_status,
    web_subscriptions,
)
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import Happened, PresenceChanged
from godwit.teamwork.names import NotReceived, NotThere
from godwit.teamwork.notification_queue import Batch
from godwit.teamwork.team import Team
from godwit.teamwork.web_accounts import Key, WebAccounts
from godwit.teamwork.web_calls import ANYBODY, OPERATOR, STREAM, Call, Operation
from godwit.teamwork.web_files import page_response, shared_response
from godwit.teamwork.web_openapi import openapi_document
from godwit.teamwork.web_streams import EventStream, Streams
from godwit.teamwork.web_uploads import UPLOAD_BYTES_MAX, Uploads

__all__ = ["OPERATIONS", "WebApi"]

OPERATIONS: tuple[Operation, ...] = (
    *web_session.OPERATIONS,
    *web_status.OPERATIONS,
    *web_people.OPERATIONS,
    *web_communities.OPERATIONS,
    *web_documents.OPERATIONS,
    *web_rights.OPERATIONS,
    *web_search.OPERATIONS,
    *web_messages.OPERATIONS,
    *web_meetings.OPERATIONS,
    *web_subscriptions.OPERATIONS,
)
"""All operations, subject by subject."""

BODY_BYTES_MAX = 2**20
CHECK_S = 30.0
READING = ("GET", "HEAD")
COOKIE = "godwit_team"
OWN_HEADER = "x-godwit"
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class ChangeNews(msgspec.Struct, frozen=True):
    """An event of `/api/news`: something was changed."""

    kind: str
    scope: str
    record: str
    user: str
    time: float


class Due(msgspec.Struct, frozen=True):
    """An event of `/api/news`: notifications that a browser is to show."""

    subscription: str
    titles: list[str]


class WebApi:
    """The API of one peer, as an application for `WebServer`."""

    def __init__(
        self,
        team: Team,
        accounts: WebAccounts,
        *,
        origins: Iterable[str] = (),
        upload_bytes_max: int = UPLOAD_BYTES_MAX,
    ) -> None:
        """`origins`: of other pages that may use this API, as `https://intranet.example`."""
        self._team, self.accounts = team, accounts
        self.operator, self.version = team.user, __version__
        self.origins = tuple(origins)
        self.uploads, self.streams = Uploads(team.folder, upload_bytes_max), Streams()
        self._cookie = f"{COOKIE}_{accounts.identity}"
        self._requests = Pacer()
        self._tasks: set[asyncio.Task[None]] = set()
        self._document = msgspec.json.encode(openapi_document(OPERATIONS))
        self._heard: dict[str, Team] = {}  # by user whose device is here
        self._end_listening: list[Callable[[], None]] = []
        self._hear(team)
        self.background(self._check_regularly())
        self.application = Starlette(routes=self._routes(), exception_handlers={HTTPException: self._on_http_error})  # type: ignore[dict-item]

    async def close(self) -> None:
        """End all streams and what runs for them."""
        while self._end_listening:
            self._end_listening.pop()()
        self.streams.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside requests, until it is done or the API closes."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ who asks

    def team_of(self, user: str) -> Team:
        """The team as a user sees it; a user who is hosted here writes, others read. PeerFault if the user is not a
        member."""
        if self._team.access.role(user, self._team.scope) is Role.NONE:
            if self._team.is_new:
                raise PeerFault(str(NotReceived()))
            raise PeerFault(f"{user} is not a member of the team any more")
        team = self._team.as_user(user)
        if user not in self._heard and user == team.peer.identity.user:
            self._hear(team)
        return team

    def host_of(self, request: Request) -> str:
        """From where a request comes."""
        return request.client.host if request.client else "an unknown host"

    def key_of(self, request: Request) -> Key:
        """The session or token of a request. (rules 1 and 2)"""
        said = credentials_in(request.headers.get("authorization", ""))
        if said:
            key = self.accounts.key_of(said["token"]) if "token" in said else None
            if key is None:
                raise PeerFault("the token is wrong, or it has ended: make one with `POST /api/tokens`")
            return key
        key = self.accounts.key_of(request.cookies.get(self._cookie, ""))
        if key is None:
            raise PeerFault("log in first")
        if request.method not in READING and not request.headers.get(OWN_HEADER):
            raise Problem(403, f"a request that changes something needs the header {OWN_HEADER}: 1")
        return key

    def set_cookie(self, request: Request, answer: Response, secret: str, key: Key) -> None:
        """Let a browser be logged in from now on."""
        age_s = int(key.expires - key.created)
        is_secure = request.url.scheme == "https"
        answer.set_cookie(self._cookie, secret, age_s, path="/", secure=is_secure, httponly=True, samesite="strict")

    def delete_cookie(self, answer: Response) -> None:
        """Let a browser be logged in no longer."""
        answer.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict")

    def end_key(self, key: Key) -> None:
        """End a session or token."""
        self.accounts.end(key.user, key.id)
        self.check_streams()

    # ------------------------------------------------------------ routes

    def _routes(self) -> list[BaseRoute]:
        return [
            *(self._route(row) for row in OPERATIONS),
            Route("/openapi.json", self._openapi),
            Route("/", self._index),
            Route("/team", self._index),
            Route("/team/{path:path}", self._page),
            Route("/dashboard/{path:path}", self._shared),
        ]

    def _route(self, row: Operation) -> Route:
        async def endpoint(request: Request) -> Any:
            try:
                await self._requests.turn()
                return await self._answered(row, request)
            except PeerFault as fault:
                return json_response({"error": str(fault)}, 401, {**HEADERS, "www-authenticate": "Bearer"})
            except ClientDisconnect:
                return Response(status_code=400)
            except GodwitError as error:
                return json_response(*_told(error), HEADERS)
            except Exception as error:
                self._team.peer.faults.append(f"{row.method} {row.path} failed: {error!r}")
                reason = f"this failed inside the peer: {type(error).__name__} (its user sees more on the page Status)"
                return json_response({"error": reason}, 500, HEADERS)

        route = Route(row.path, endpoint, methods=[row.method], name=f"{row.method} {row.path}")
        if row.media == STREAM and route.methods is not None:
            route.methods.discard("HEAD")  # which would open one, and get nothing of it
        return route

    async def _answered(self, row: Operation, request: Request) -> Any:
        if reason := why_other_site(request.headers, self.origins):
            raise Problem(403, f"{reason} may not use this peer")
        key = None if row.right == ANYBODY else self.key_of(request)
        user = "" if key is None else key.user
        if row.right == OPERATOR and user != self.operator:
            raise Problem(403, f"this is for {self.operator}, whose peer this is")
        team = None if key is None else self.team_of(user)
        if key is not None:
            peer_of(request).admit(user)
        query = None if row.query is None else _converted(dict(request.query_params), row.query, "the parameters")
        takes = None if row.takes in (None, bytes) else await self._json(request, row.takes)
        answer = row.do(Call(request, self, team, user, key, takes, query))
        if isawaitable(answer):
            answer = await answer
        if callable(answer):  # a response of its own
            return answer
        if row.gives is None:
            return Response(status_code=204, headers=HEADERS)
        return json_response(answer, row.status, HEADERS)

    async def _json(self, request: Request, type: Any) -> Any:
        """The body, checked. (rule 3)"""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Problem(415, "the body must be JSON: set content-type: application/json")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES_MAX:
                raise Problem(413, f"a JSON body has at most {BODY_BYTES_MAX:,} bytes")
        try:
            return msgspec.json.decode(bytes(body), type=type)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, f"the body is wrong: {error}") from None

    async def _openapi(self, request: Request) -> Response:
        return Response(self._document, headers={"content-type": "application/json", "cache-control": "no-cache"})

    async def _index(self, request: Request) -> Response:
        return RedirectResponse("/team/")

    async def _page(self, request: Request) -> Response:
        return page_response(request, request.path_params["path"])

    async def _shared(self, request: Request) -> Response:
        return shared_response(request, request.path_params["path"])

    async def _on_http_error(self, request: Request, error: HTTPException) -> Response:
        return json_response({"error": f"{request.url.path}: {error.detail}"}, error.status_code, error.headers)

    # ------------------------------------------------------------ streams

    def _hear(self, team: Team) -> None:
        """Let streams hear of what happens at a peer."""
        self._heard[team.user] = team
        self._end_listening += [
            team.listen(lambda happened: self._on_happened(team, happened)),
            team.subscriptions.listen(lambda batch: self._on_due(team.user, batch)),
        ]

    def _on_happened(self, team: Team, happened: Any) -> None:
        """Tell streams of a change that was taken: what it is about, and nothing of its content."""
        if isinstance(happened, PresenceChanged):
            self._on_presence(team, happened)
        if not isinstance(happened, Happened) or happened.added.refused:
            return
        change = happened.added.change
        told = ChangeNews(change.kind, change.scope, change.record, change.user, change.time)

        def may_see(user: str) -> bool:
            is_heard_here = self._heard.get(user, self._team) is team
            return is_heard_here and team.access.may_see(user, change.scope, change.record)

        self.streams.tell("change", told, may_see)

    def _on_presence(self, team: Team, changed: PresenceChanged) -> None:
        """Tell the streams of the user of a peer: it may have been shown to this user alone."""
        told = ChangeNews("presence", changed.scope, f"user/{changed.user}", changed.user, team.peer.time())
        self.streams.tell("change", told, lambda user: user == team.user)

    def _on_due(self, user: str, batch: Batch) -> None:
        """Tell the streams of a user what a browser is to show."""
        told = Due(batch.subscription.name, [each.title for each in batch.notifications])
        self.streams.tell("notification", told, lambda each: each == user)

    def check_streams(self) -> None:
        """End streams whose session or token has ended."""
        self.streams.check(self._is_valid)

    def _is_valid(self, stream: EventStream) -> bool:
        if stream.key is None or not self.accounts.is_open(stream.key):
            return False
        try:
            self.team_of(stream.user)
        except PeerFault:
            return False
        return True

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            self.check_streams()


def _converted(said: dict[str, str], type: Any, where: str) -> Any:
    try:
        return msgspec.convert(said, type, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, f"{where} are wrong: {error}") from None


def _told(error: GodwitError) -> tuple[dict[str, Any], int]:
    """An error as an answer, and its status. (rule 4)"""
    answer: dict[str, Any] = {"error": str(error)}
    match error:
        case Problem():
            return answer | error.more, error.status
        case NotThere():
            return answer, 404
        case Refused():
            return answer, 403
        case NotHere() | NotConnected():
            return answer, 503
        case ContentError():
            return answer, 507
        case RepositoryError():
            return answer, 500
        case FilterSyntaxError():
            return answer | {"line": error.line, "column": error.column}, 400
    return answer, 400
