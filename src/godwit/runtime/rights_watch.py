"""Changes of the user file: they apply to open connections, and to sessions of absent clients.

*Theory.* The user file is checked every `RECHECK_S`, and at each login. When it has changed, two things follow in one
step. Each `Principal` of the file gets its new rights, so that the next message over its connection is checked by them;
one whose user, password or certificate is not valid any more is disconnected. And the machine is told (`RightsChanged`)
of each user with sessions here whose rights have changed: it ends or narrows subscriptions, removes events from queues
that are not granted any more, and ends the sessions of removed users (`broker/authorisation.py`).

*Rules.*
1. Messages before the change was noticed are checked by the old rights, later ones by the new rights; the machine gets
   both in this order.
2. A broker compares the file with its journal at the start: a change while it was down applies from its start on.
3. A changed password or asserted context closes the connections with the old one. Their sessions stay. A token with its
   own rights does not depend on the file, and is valid until it expires.
"""

import asyncio

from godwit.broker.authorisation import USER_GONE, Authorisation, RightsChanged
from godwit.runtime.authentication import Authenticator, Principal
from godwit.runtime.node import Node
from godwit.runtime.security import BY_CERTIFICATE, ConfiguredAuthenticator
from godwit.runtime.users import User

__all__ = ["RECHECK_S", "RightsWatch"]

RECHECK_S = 1.0
CREDENTIALS_GONE = "your password or certificate is no longer valid: connect again"
CONTEXT_CHANGED = "your asserted context has changed: connect again"


class RightsWatch:
    """Applies changes of the user file. Without users there is nothing to do."""

    def __init__(self, node: Node, authenticator: Authenticator, *, recheck_s: float = RECHECK_S) -> None:
        self._node = node
        self._authenticator = authenticator if isinstance(authenticator, ConfiguredAuthenticator) else None
        self._users = None if self._authenticator is None else self._authenticator.users
        self._recheck_s = recheck_s
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Compare the present state with the file, and start watching it."""
        if self._users is not None and self._watching is None:
            self._users.on_changed.append(self.apply)
            self.apply()  # rule 2
            self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop watching."""
        if self._watching is not None and self._users is not None:
            self._users.on_changed.remove(self.apply)
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None

    async def _watch(self) -> None:
        assert self._users is not None
        while True:
            await asyncio.sleep(self._recheck_s)
            self._users.refresh()

    def apply(self) -> None:
        """Apply the present file."""
        if self._users is None or self._authenticator is None:
            return
        for principal, hash in self._authenticator.admitted():
            self._judge(principal, hash, self._users.entry(principal.user))
        authorisation = self._node.machine.component(Authorisation)  # type: ignore[attr-defined]
        changed: dict[str, Principal | None] = {}
        for client, known in authorisation.clients().items():
            entry = self._users.entry(known.user)
            now = None if entry is None else entry[1]
            if now is None or now.rights != known or not now.owns(client):
                changed[known.user] = now
        for user, now in changed.items():
            told = RightsChanged(user, None) if now is None else RightsChanged(user, now.rights, now.clients)
            self._node.tell(told)

    @staticmethod
    def _judge(principal: Principal, hash: str, entry: tuple[User, Principal] | None) -> None:
        """Apply changes to one principal. (rule 3)"""
        if entry is None:
            principal.end(USER_GONE)
            return
        user, now = entry
        principal.adopt(now)
        if (hash == BY_CERTIFICATE and not user.certificate) or (hash not in ("", BY_CERTIFICATE, user.password)):
            principal.end(CREDENTIALS_GONE)
        elif principal.asserted != now.asserted:
            principal.end(CONTEXT_CHANGED, keeps_rights=True)
