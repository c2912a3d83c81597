"""Tickets: authentication of event streams and WebSockets of web pages, which cannot set headers for them.

*Theory.* `POST /events/ticket`, with the usual credentials, answers with a ticket, a random text. `GET /events` with a
parameter `ticket` is then authenticated as the user who requested it. A URL ends up in more places than a header (the
history of a browser, the log of a proxy), so a ticket has little value for others: it opens one stream, within a short
time. `POST /ws/ticket` is the same for a WebSocket, which may do more than listen. So those are other tickets, and
never in a URL: a client sends one as the token of its `Intro`.

*Rules.*
1. A ticket is valid for `TICKET_S`, and opens one stream, or one socket, as it was asked for. It is used up before that
   opens, even if that fails.
2. It stands for the `Principal` of the request: when the rights of the user change, those of the ticket change, too;
   when the user is removed, or its token has expired, the ticket is refused.
3. An anonymous ticket is valid only on this machine, as anonymous requests are.
4. A user has at most `TICKETS_PER_USER_MAX` that can still be used, all users together `TICKETS_MAX`. Of the others the
   last `SPENT_MAX` are known, so that a refusal can say whether a ticket was used, has expired, or never was one.
5. Only digests of tickets are kept, and no refusal and no line of a log shows one.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import sha256
from secrets import token_urlsafe
from time import monotonic, time
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from godwit.errors import NotAdmitted
from godwit.runtime.authentication import Authenticator, Credentials, Principal
from godwit.runtime.http_requests import Problem, json_response

__all__ = ["TICKET_S", "TicketAuthenticator", "Tickets", "is_ticket"]

TICKET_S = 30.0
TICKETS_PER_USER_MAX = 64
TICKETS_MAX = 4_096
SPENT_MAX = 4_096
TICKET_BYTES = 32
CAUSE = "ticket"

PREFIX = "ticket-"  # tells one from a token

TOKEN_EXPIRED = "the token by which the ticket was given has expired"
ELSEWHERE = "the ticket has no user, and is valid only on the broker's own machine"


class Ticket(NamedTuple):
    """A valid ticket."""

    principal: Principal
    until: float


class Tickets:
    """The tickets issued at a path, each for one `opened`."""

    def __init__(self, path: str, opened: str, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        another = f"POST {path} gives"
        self._unknown = f"the ticket is unknown: {another} one"
        self._used = f"the ticket was used already: each one opens one {opened}, {another} another"
        self._expired = f"the ticket has expired: it is valid for {TICKET_S:.0f} s, {another} another"
        self._usable: OrderedDict[bytes, Ticket] = OrderedDict()  # by digest (rule 5), the oldest first
        self._spent: OrderedDict[bytes, str] = OrderedDict()  # why they cannot be used
        self._counts: Counter[str] = Counter()  # of usable ones, by user

    async def give(self, principal: Principal, request: Request) -> Response:
        """A ticket for the user of a request."""
        ticket = self.issue(principal)
        told = {"ticket": ticket, "expires_in_s": TICKET_S, "user": principal.user}
        return json_response(told, 201, {"cache-control": "no-store"})

    def issue(self, principal: Principal) -> str:
        """A new ticket. Problem: there are too many."""
        self._expire()
        if self._counts[principal.user] >= TICKETS_PER_USER_MAX:  # rule 4
            reason = f"{TICKETS_PER_USER_MAX} tickets of this user wait to be used, which is the most: try again later"
            raise Problem(429, reason, "limit")
        if len(self._usable) >= TICKETS_MAX:
            raise Problem(503, f"{TICKETS_MAX} tickets wait to be used, which is the most: try again later")
        text = PREFIX + token_urlsafe(TICKET_BYTES)
        self._usable[_digest(text)] = Ticket(principal, self.clock() + TICKET_S)
        self._counts[principal.user] += 1
        return text

    def redeem(self, text: str, *, is_local: bool) -> Principal:
        """The principal of a ticket, which is used up. NotAdmitted if it is not valid."""
        self._expire()
        digest = _digest(text)
        if digest not in self._usable:
            raise NotAdmitted(self._spent.get(digest, self._unknown), CAUSE)
        principal = self._spend(digest, self._used)  # rule 1
        if not principal.user and not is_local:  # rule 3
            raise NotAdmitted(ELSEWHERE, CAUSE)
        if principal.until is not None and principal.until <= time():  # rule 2
            raise NotAdmitted(TOKEN_EXPIRED, CAUSE)
        if principal.ended_because:
            raise NotAdmitted(f"the ticket is no longer valid: {principal.ended_because}", CAUSE)
        return principal

    def _expire(self) -> None:
        now = self.clock()
        while self._usable and next(iter(self._usable.values())).until <= now:
            self._spend(next(iter(self._usable)), self._expired)

    def _spend(self, digest: bytes, why: str) -> Principal:
        """Invalidate a ticket; returns its user."""
        principal = self._usable.pop(digest).principal
        self._counts[principal.user] -= 1
        if not self._counts[principal.user]:
            del self._counts[principal.user]
        self._spent[digest] = why
        if len(self._spent) > SPENT_MAX:
            self._spent.popitem(last=False)
        return principal


class TicketAuthenticator:
    """An authenticator that accepts tickets, and passes all other credentials to another authenticator."""

    def __init__(self, authenticator: Authenticator, tickets: Tickets) -> None:
        self._authenticator = authenticator
        self._tickets = tickets

    async def admit(self, credentials: Credentials) -> Principal:
        """The principal of a peer. PeerFault: access is refused."""
        if credentials.ticket:
            return self._tickets.redeem(credentials.ticket, is_local=credentials.is_local)
        return await self._authenticator.admit(credentials)


def is_ticket(token: str) -> bool:
    """Whether the token of a client is a ticket."""
    return token.startswith(PREFIX)


def _digest(text: str) -> bytes:
    return sha256(text.encode(errors="surrogatepass")).digest()
