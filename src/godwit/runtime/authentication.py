"""Authentication and authorisation of clients: one authenticator for all transports.

*Theory.* A transport gathers `Credentials` and asks the `Authenticator`, which answers with a `Principal` or raises
`PeerFault`. From then on every message of the client passes `Principal.checked`, which replaces a request that is not
granted by `Denied`, so that the machine refuses it in order and the journal has the decision.

The answer may take a while (checking a password is slow by design), so it is awaited. Meanwhile a transport reads
nothing more from that peer and keeps what it has read as bytes.

*Rules.*
1. Without users and tokens, only connections over loopback are accepted, with all rights.
2. A client is named after its user: its name is the user's, begins with the user's and a slash, or is one that the
   user was given. So no client can take over the session of another user.
3. A connection with a token is closed when the token expires.
4. Changed rights apply at once, also to open connections: a `Principal` belongs to one connection, and changes with its
   user (`rights_watch.py`). One that has ended has no rights.
5. Nothing here shows a secret: neither in an error nor in a `repr`.
6. A transport that keeps deliveries for a slow client asks `may_have` before it writes them: rights may have ended
   since the machine has delivered them.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import time
from typing import Any, Protocol

import msgspec

from godwit.broker.client_rights import ClientRights
from godwit.broker.messages import Attach, Denied, Request
from godwit.errors import NotAdmitted
from godwit.filters.events import Attributes, Event
from godwit.runtime.grants import EVERYTHING, NOTHING_GRANTED, Grants, in_short

__all__ = ["Authenticator", "Credentials", "LocalAuthenticator", "Principal", "is_local"]

NAME_CHARS_MAX = 200
DENIED_MAX = 100
TOKEN_EXPIRED = "token expired"


def is_local(host: str) -> bool:
    """Whether a peer at this address is on this machine; "" means no network connection."""
    return host in ("", "localhost", "::1") or host.removeprefix("::ffff:").startswith("127.")


class Credentials(msgspec.Struct, frozen=True):
    """The credentials of a peer before it is authenticated."""

    host: str = ""  # the remote host, as the socket has it
    client: str = ""  # the requested client name
    user: str = ""
    password: str = ""
    token: str = ""
    certificate: str = ""  # the name in its certificate, if that is trusted
    ticket: str = ""  # for one stream or socket over HTTP (`http_tickets.py`)

    @property
    def is_local(self) -> bool:
        """Whether the peer is on this machine."""
        return is_local(self.host)

    def __repr__(self) -> str:
        return f"Credentials(host={self.host!r}, client={self.client!r}, user={self.user!r}, …)"  # rule 5


class Principal:
    """An authenticated client and its rights: all, unless grants limit them."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_has_all",
        "asserted",
        "clients",
        "denied",
        "ended_because",
        "grants",
        "is_admin",
        "on_change",
        "on_end",
        "origin",
        "rights",
        "until",
        "user",
    )

    def __init__(
        self,
        user: str = "",
        asserted: Attributes | None = None,
        grants: Grants = EVERYTHING,
        *,
        clients: Iterable[str] = (),
        is_admin: bool = False,
        until: float | None = None,
        rights: ClientRights | None = None,
    ) -> None:
        self.user = user  # "": anonymous
        self.asserted: Attributes = {} if asserted is None else asserted
        self.grants = grants
        self.clients = tuple(clients)  # client names it may use besides those that begin with its user name
        self.is_admin = is_admin  # whether it is an administrator
        self.until = until  # the time at which it is disconnected; None: never
        self.rights = rights  # for the machine; None: this broker knows no users
        self.ended_because = ""  # "": it has not ended
        self.on_end: tuple[Callable[[str], None], ...] = ()  # called with the reason when it ends
        self.on_change: tuple[Callable[[], None], ...] = ()  # called when its rights change
        self.denied: dict[int, str] = {}  # what the last requests were that were not granted, by number, for the log
        self.origin: Any = None  # its origin (`security_log.py`), if known
        self._has_all = grants.is_everything
        self._ahead: tuple[Grants, Attach] | None = None  # a greeting, as far as these grants allow it

    def copy(self) -> "Principal":
        """The same, for another connection."""
        return Principal(
            self.user,
            self.asserted,
            self.grants,
            clients=self.clients,
            is_admin=self.is_admin,
            until=self.until,
            rights=self.rights,
        )

    def adopt(self, other: "Principal") -> None:
        """Take over the rights of another principal. (rule 4)"""
        self.grants, self.clients, self.is_admin, self.rights = (
            other.grants,
            other.clients,
            other.is_admin,
            other.rights,
        )
        self._has_all = self.grants.is_everything
        for changed in self.on_change:
            changed()

    def end(self, reason: str, *, keeps_rights: bool = False) -> None:
        """End it. Unless it `keeps_rights` until the connection is closed, it has no rights from now on, not even
        for its will."""
        if self.ended_because:
            return
        self.ended_because = reason
        if not keeps_rights:
            self.grants, self.is_admin, self._has_all = NOTHING_GRANTED, False, False
        for ended in self.on_end:
            ended(reason)

    def __repr__(self) -> str:
        return f"Principal({self.user!r})"

    def end_with_token(self) -> asyncio.TimerHandle | None:
        """Have it end when its token expires; returns the timer. (rule 3)"""
        if self.until is None:
            return None
        return asyncio.get_running_loop().call_later(max(0.0, self.until - time()), self.end, TOKEN_EXPIRED)

    def why_over(self) -> str:
        """Why it has no rights any more; "" if it has them."""
        is_expired = self.until is not None and self.until <= time()
        return self.ended_because or (TOKEN_EXPIRED if is_expired else "")

    def may_have(self, event: Event) -> bool:
        """Whether an event that waits for this client may still be written to it. (rule 6)"""
        return self._has_all or self.grants.subscribe.matches(event)

    def owns(self, client: str) -> bool:
        """Whether it may use this client name. (rule 2)"""
        user = self.user
        return not user or client == user or client.startswith(f"{user}/") or client in self.clients

    def name_of(self, client: str) -> str:
        """The name of its session for the client name `client`."""
        return client if self.owns(client) else f"{self.user}/{client}"

    def checked(self, message: Any) -> Any:
        """The message as far as it is granted. PeerFault: the message itself is not allowed."""
        if type(message) is Attach and not self.owns(message.client):
            shown = message.client[:NAME_CHARS_MAX]
            allowed = f"it must be {self.user!r} or begin with '{self.user}/'"
            fault = NotAdmitted(f"{shown!r} is not a name for a client of {self.user}: {allowed}", "name")
            if self.origin is not None:
                self.origin.not_admitted(fault, user=self.user, client=shown)
            raise fault
        ahead, self._ahead = self._ahead, None
        if self._has_all or (ahead is not None and ahead[1] is message and ahead[0] is self.grants):
            return message
        checked = self.grants.checked(message)
        if checked is not message and type(checked) is Request and type(checked.wish) is Denied:
            self.denied[checked.number] = in_short(message.wish)
            if len(self.denied) > DENIED_MAX:
                del self.denied[next(iter(self.denied))]
        return checked

    def checking(self, attach: Attach) -> Iterator[Attach | None]:
        """Check a long greeting before it comes to `checked`, one filter in each step: None after each of them, and
        then what is granted of it. It is checked again if the rights have changed by then.
        """
        granted, grants = attach, self.grants
        if not self._has_all:
            for step in grants.checking(attach):
                if step is None:
                    yield None
                else:
                    granted = step
            self._ahead = grants, granted
        yield granted


class Authenticator(Protocol):
    """Decides which clients may connect."""

    async def admit(self, credentials: Credentials) -> Principal:
        """The principal of a peer. PeerFault: access is refused."""


class LocalAuthenticator:
    """Accepts all connections from this machine."""

    async def admit(self, credentials: Credentials) -> Principal:
        """The principal of a peer. PeerFault: access is refused."""
        if not credentials.is_local:
            raise NotAdmitted("this broker has no users, so it accepts clients from its own machine only", "anonymous")
        return Principal(is_admin=True)
