"""Who may come in, and what it may do there: the one authenticator for every transport.

*Theory.* A transport gathers `Credentials` and asks the `Authenticator`, which answers with a `Principal` or raises
`PeerFault`. From then on every message of the client goes through `Principal.checked`, which puts `Denied` in the place
of a wish that is not granted, so that the machine refuses it in its turn and the journal holds what was decided.

The answer may take a while (a password is meant to be slow to test), so it is awaited. Until it is there a transport
reads nothing more from that peer and keeps what it has read as bytes.

*Rules.*
1. Without users and tokens, whoever comes over loopback is let in, with every right; nobody else is.
2. A client is named after its user: its name is the user's, begins with the user's and a slash, or is one that the
   user was given. So nobody takes over the session of another user.
3. Whoever came with a token is let go when the token is over.
4. Rights that change count at once, for connections that are open, too: a `Principal` is that of one connection, and
   changes with its user (`rights_watch.py`). One that has ended may do nothing more.
5. Nothing here shows a secret: not in an error, not in what `repr` says.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from godwit.broker.client_rights import ClientRights
from godwit.broker.messages import Attach
from godwit.errors import NotAdmitted
from godwit.filters.events import Attributes
from godwit.runtime.grants import EVERYTHING, NOTHING_GRANTED, Grants

__all__ = ["Authenticator", "Credentials", "LocalAuthenticator", "Principal", "is_local"]

NAME_CHARS_MAX = 200


def is_local(host: str) -> bool:
    """Whether a peer at this address is on this machine; "" stands for what came over no network."""
    return host in ("", "localhost", "::1") or host.removeprefix("::ffff:").startswith("127.")


class Credentials(msgspec.Struct, frozen=True):
    """What is known of a peer before it is let in."""

    host: str = ""  # from where, as the socket says
    client: str = ""  # the name it wants to have
    user: str = ""
    password: str = ""
    token: str = ""
    certificate: str = ""  # the name in its certificate, if it showed one that we trust
    ticket: str = ""  # for one stream or socket over HTTP (`http_tickets.py`)

    @property
    def is_local(self) -> bool:
        """Whether it comes from this machine."""
        return is_local(self.host)

    def __repr__(self) -> str:
        return f"Credentials(host={self.host!r}, client={self.client!r}, user={self.user!r}, …)"  # rule 5


class Principal:
    """Who has come in, and what it may do: everything, unless grants say otherwise."""

    __slots__ = (
        "__weakref__",
        "_has_all",
        "asserted",
        "clients",
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
        self.user = user  # "": nobody in particular
        self.asserted: Attributes = {} if asserted is None else asserted
        self.grants = grants
        self.clients = tuple(clients)  # names it may use besides those that begin with its own
        self.is_admin = is_admin  # whether it may look into the broker
        self.until = until  # the time at which it must have gone; None: it may stay
        self.rights = rights  # for the machine; None: this broker knows no users
        self.ended_because = ""  # "": it has not ended
        self.on_end: tuple[Callable[[str], None], ...] = ()  # told the reason, when it ends
        self.on_change: tuple[Callable[[], None], ...] = ()  # told when its rights are others
        self.origin: Any = None  # where it came from (`security_log.py`), if that is known
        self._has_all = grants.is_everything

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
        """Have the rights of another from now on. (rule 4)"""
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
        """Let it go; unless it `keeps_rights` until then, it may do nothing from now on, not even by its will."""
        if self.ended_because:
            return
        self.ended_because = reason
        if not keeps_rights:
            self.grants, self.is_admin, self._has_all = NOTHING_GRANTED, False, False
        for ended in self.on_end:
            ended(reason)

    def __repr__(self) -> str:
        return f"Principal({self.user!r})"

    def owns(self, client: str) -> bool:
        """Whether it may call itself that. (rule 2)"""
        user = self.user
        return not user or client == user or client.startswith(f"{user}/") or client in self.clients

    def name_of(self, client: str) -> str:
        """The name of its session when it calls itself `client`."""
        return client if self.owns(client) else f"{self.user}/{client}"

    def checked(self, message: Any) -> Any:
        """The message as far as it is granted. PeerFault: it may not even say that."""
        if type(message) is Attach and not self.owns(message.client):
            shown = message.client[:NAME_CHARS_MAX]
            allowed = f"it must be {self.user!r} or begin with '{self.user}/'"
            fault = NotAdmitted(f"{shown!r} is not a name for a client of {self.user}: {allowed}", "name")
            if self.origin is not None:
                self.origin.not_admitted(fault, user=self.user, client=shown)
            raise fault
        return message if self._has_all else self.grants.checked(message)


class Authenticator(Protocol):
    """Decides who may come in."""

    async def admit(self, credentials: Credentials) -> Principal:
        """Who this is. PeerFault: it may not come in."""


class LocalAuthenticator:
    """Lets in whoever comes from this machine."""

    async def admit(self, credentials: Credentials) -> Principal:
        """Who this is. PeerFault: it may not come in."""
        if not credentials.is_local:
            raise NotAdmitted("this broker takes clients without credentials only from its own machine", "anonymous")
        return Principal(is_admin=True)
