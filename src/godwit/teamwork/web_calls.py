"""An operation of the HTTP API: a row of a table, from which routes and the OpenAPI document are made.

A handler gets a `Call` and returns what is answered: data of the type that its row names, None where the row names
none, or a response of its own for a file or a stream.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from godwit.errors import PeerFault
from godwit.runtime.http_requests import Problem
from godwit.teamwork.team import Team
from godwit.teamwork.web_accounts import Key, WebAccounts
from godwit.teamwork.web_streams import Streams
from godwit.teamwork.web_uploads import Uploads

__all__ = [
    "ANYBODY",
    "CALENDAR",
    "FILE",
    "JSON",
    "OPERATOR",
    "ROWS",
    "STREAM",
    "USER",
    "Call",
    "First",
    "Limit",
    "Operation",
    "Page",
    "Slice",
    "Web",
    "page_of",
]

ANYBODY, USER, OPERATOR = "anybody", "user", "operator"
"""Whom an operation answers. The operator is the user of the peer itself."""

JSON, STREAM, FILE, CALENDAR = "application/json", "text/event-stream", "application/octet-stream", "text/calendar"
SCOPE_KINDS = ("team", "community", "conversation")

T = TypeVar("T")


class Web(Protocol):
    """What handlers need of the API that was called: `WebApi` of `web_api.py`."""

    accounts: WebAccounts
    streams: Streams
    uploads: Uploads
    operator: str
    """The user of the peer."""
    version: str

    def team_of(self, user: str) -> Team:
        """The team as a user sees it."""
        ...

    def key_of(self, request: Request) -> Key:
        """The session or token of a request."""
        ...

    def host_of(self, request: Request) -> str:
        """From where a request comes."""
        ...

    def set_cookie(self, request: Request, answer: Response, secret: str, key: Key) -> None:
        """Let a browser be logged in from now on."""
        ...

    def delete_cookie(self, answer: Response) -> None:
        """Let a browser be logged in no longer."""
        ...

    def end_key(self, key: Key) -> None:
        """End a session or token."""
        ...

    def check_streams(self) -> None:
        """End streams whose session or token has ended."""
        ...

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside requests."""
        ...


class Call:
    """A request, as a handler sees it."""

    def __init__(
        self, request: Request, web: Web, team: Team | None, user: str, key: Key | None, takes: Any, query: Any
    ) -> None:
        self.request = request
        self.web = web
        self._team = team
        self.user, self.key = user, key
        self.takes = takes
        """The body, of the type that the row names."""
        self.query = query
        """Likewise the parameters."""

    @property
    def team(self) -> Team:
        """The team, limited to what the user may see and do."""
        if self._team is None:
            raise PeerFault("log in first")
        return self._team

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    @property
    def is_own_peer(self) -> bool:
        """Whether this is a peer of the user, which signs what the user changes."""
        return self.user == self.team.peer.identity.user

    @property
    def scope(self) -> str:
        """The scope that the path names: `/api/scopes/community/ann.9f3c21/…`."""
        kind = self.part("kind")
        if kind not in SCOPE_KINDS:
            raise Problem(404, f"there is no kind of scope {kind!r}: it is one of {', '.join(SCOPE_KINDS)}")
        return f"{kind}/{self.part('scope')}"


class Operation(NamedTuple):
    """One row: a method and path, who may call it, what it takes and gives."""

    method: str
    path: str
    do: Callable[[Call], Any]
    summary: str
    takes: Any = None
    """The type of the JSON body; `bytes` for a file, which the handler reads itself."""
    gives: Any = None
    """The type of the JSON answer."""
    query: Any = None
    """A struct with the parameters behind the question mark."""
    media: str = JSON
    right: str = USER
    status: int = 200

    @property
    def name(self) -> str:
        """The operation's identifier in the OpenAPI document."""
        return self.do.__name__

    @property
    def subject(self) -> str:
        """The group to which it belongs there."""
        return self.do.__module__.rpartition("_")[2]


# ---------------------------------------------------------------- lists


First = Annotated[int, msgspec.Meta(ge=0, description="Number of rows to skip.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1_000, description="Largest number of rows in the answer.")]
ROWS = 100
"""What a query says of the rows of a list: its fields `first` and `limit`."""


class Slice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows of a list are asked for."""

    first: First = 0
    limit: Limit = ROWS


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some rows of a list, and how many there are in all."""

    items: list[T]
    total: int


def page_of(items: Sequence[T], query: Any) -> Page[T]:
    """The rows that a query with `first` and `limit` asks for."""
    return Page(list(items[query.first : query.first + query.limit]), len(items))
