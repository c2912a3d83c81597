"""Who may come in, and what it may do there: the one door for every transport.

*Theory.* A transport gathers `Credentials` and asks the `Door`, which answers with a `Principal` or raises `PeerFault`.
From then on every message of the client goes through `Principal.checked`, which puts `Denied` in the place of a wish
that is not granted, so that the machine refuses it in its turn and the journal holds what was decided.

*Rules.*
1. Without users and tokens, whoever comes over loopback is let in, with every right; nobody else is.
"""

from typing import Any, Protocol

import msgspec

from godwit.errors import PeerFault
from godwit.filters.events import Attributes

__all__ = ["Credentials", "Door", "OpenDoor", "Principal"]


class Credentials(msgspec.Struct, frozen=True):
    """What is known of who comes, before it is let in."""

    host: str = ""  # from where, as the socket says
    client: str = ""  # the name it wants to have
    user: str = ""
    password: str = ""
    token: str = ""
    certificate: str = ""  # the name in its certificate, if it showed one that we trust

    @property
    def is_local(self) -> bool:
        """Whether it comes from this machine."""
        return self.host in ("", "localhost", "::1") or self.host.startswith("127.")


class Principal:
    """Who has come in: with every right, unless a subclass says otherwise."""

    user: str = ""
    asserted: Attributes

    def __init__(self, user: str = "", asserted: Attributes | None = None) -> None:
        self.user = user
        self.asserted = {} if asserted is None else asserted

    def name_of(self, client: str) -> str:
        """The name of its session when it calls itself `client`."""
        return client

    def checked(self, message: Any) -> Any:
        """The message as far as it is granted. PeerFault: it may not even say that."""
        return message


class Door(Protocol):
    """Decides who may come in."""

    def admit(self, credentials: Credentials) -> Principal:
        """Who this is. PeerFault: it may not come in."""


class OpenDoor:
    """Lets in whoever comes from this machine."""

    def admit(self, credentials: Credentials) -> Principal:
        """Who this is. PeerFault: it may not come in."""
        if not credentials.is_local:
            raise PeerFault("this broker takes clients without credentials only from its own machine")
        return Principal()
