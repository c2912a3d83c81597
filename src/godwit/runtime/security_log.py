"""What was refused, to whom and why: one line of the log for each, and counters by listener and cause.

*Theory.* Three things are refused. A login: whoever connects does not show who it is. A request: a client asks for what
it may not have. A connection: bytes that break the protocol, or one connection too many. Each listener reports to one
`SecurityLog`. Logins pass through `AuditedAuthenticator`, which wraps the authenticator of a listener, so no transport
can forget them. What the machine refuses is seen in its effects, by `RefusalObserver` or by the monitor of
`activity_monitor.py`.

*Rules.*
1. Everything is counted. Lines are limited: `HOST_BURST` at once and `HOST_PER_S` a second for one host, `ALL_BURST`
   and `ALL_PER_S` for all. The next line that is written says how many were not.
2. A line has the host first, then only names and reasons: no password, no token, no event. (docs/guides/secure.md has
   the pattern for fail2ban; it begins at the start of the line, so that nobody writes another host into it.)
3. Causes are the few of `CAUSES`: they are labels of metrics.
4. The table of hosts is bounded: the host that was silent longest is forgotten first.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from godwit.broker.client_rights import NOT_ALLOWED
from godwit.broker.effects import Effect, Input, Tell
from godwit.broker.messages import Refused
from godwit.errors import NotAdmitted, PeerFault
from godwit.runtime.authentication import Authenticator, Credentials, Principal
from godwit.runtime.node_interfaces import Port
from godwit.runtime.rate_limits import TokenBucket

__all__ = ["CAUSES", "LISTENERS", "AuditedAuthenticator", "Origin", "RefusalObserver", "SecurityLog"]

LISTENERS = ("native", "mqtt", "http")
CAUSES = {
    "password": "the user does not exist, or the password is wrong",
    "attempts": "too many logins have failed before: the client must wait",
    "token": "the token is wrong or expired, or tokens are not accepted",
    "ticket": "the ticket for a stream of events is unknown, used or expired",
    "certificate": "the certificate names no user",
    "anonymous": "no credentials were given",
    "link": "a broker did not prove its name",
    "name": "the client's name belongs to another user",
    "rights": "the grants of the user do not cover the request",
    "admin": "the request is for administrators",
    "origin": "the request came from a web page of another site",
    "limit": "a limit is reached: connections, memory or rate",
    "protocol": "what the peer sent breaks the protocol",
    "other": "any other reason; the log line says it",
}
"""Why something is refused."""

QUIET = ("login", "name", "link", "ended")  # causes of closed connections that have a line already, or were no refusal
HOST_BURST, HOST_PER_S = 20, 1.0
ALL_BURST, ALL_PER_S = 200, 20.0
HOSTS_MAX = 1_000
SHOWN_CHARS_MAX = 200
BEYOND = "beyond "  # of a host, where a request did not name this machine (`http.py`, rule 3)

Write = Callable[..., Any]


class SecurityLog:
    """What one broker refuses."""

    def __init__(self, write: Write = lambda event, **fields: None, clock: Callable[[], float] = monotonic) -> None:
        self.logins: Counter[tuple[str, str]] = Counter()  # by listener and cause
        self.requests: Counter[tuple[str, str]] = Counter()
        self.connections: Counter[tuple[str, str]] = Counter()
        self.accepted: Counter[str] = Counter()  # connections, by listener
        self.suppressed = 0  # lines that were not written since the last one
        self._write = write
        self._clock = clock
        self._all = TokenBucket(ALL_PER_S, ALL_BURST, clock())
        self._hosts: OrderedDict[str, TokenBucket] = OrderedDict()

    def login(self, listener: str, host: str, reason: str, cause: str, *, user: str = "", client: str = "") -> None:
        """Somebody was not let in."""
        self.logins[listener, known_cause(cause)] += 1
        self._line("refused login", host, listener=listener, user=user, client=client, cause=cause, reason=reason)

    def request(
        self, listener: str, host: str, reason: str, cause: str, *, user: str = "", client: str = "", what: str = ""
    ) -> None:
        """A request was refused."""
        self.requests[listener, known_cause(cause)] += 1
        self._line(
            *("refused request", host),
            listener=listener,
            user=user,
            client=client,
            what=what,
            cause=cause,
            reason=reason,
        )

    def connection(self, listener: str, host: str, reason: str, cause: str, user: str = "") -> None:
        """A connection was closed for who came, or for what came over it."""
        if cause == "link":
            self.login(listener, host, reason, cause)
        if cause != "ended":
            self.connections[listener, known_cause(cause)] += 1
        if cause not in QUIET:
            self._line("refused connection", host, listener=listener, user=user, cause=cause, reason=reason)

    def done(self, action: str, host: str, user: str, **fields: str) -> None:
        """An administrator has had something done. Such lines are not limited."""
        shown = {name: value[:SHOWN_CHARS_MAX] for name, value in {"user": user, **fields}.items() if value}
        self._write("administration", host=host.removeprefix(BEYOND), action=action, **shown)

    def _line(self, event: str, host: str, **fields: str) -> None:
        """Write a line, unless there are too many. (rule 1)"""
        host, now = host.removeprefix(BEYOND), self._clock()
        bucket = self._hosts.pop(host, None) or TokenBucket(HOST_PER_S, HOST_BURST, now)
        self._hosts[host] = bucket
        if len(self._hosts) > HOSTS_MAX:
            self._hosts.popitem(last=False)
        if not bucket.has(1, now) or not self._all.has(1, now):
            self.suppressed += 1
            return
        bucket.take(1, now)
        self._all.take(1, now)
        more = {"suppressed": self.suppressed} if self.suppressed else {}
        self.suppressed = 0
        shown = {name: value[:SHOWN_CHARS_MAX] for name, value in fields.items() if value}
        self._write(event, host=host, **shown, **more)

    # ------------------------------------------------------------ what the machine refuses

    def refused_by_machine(self, ports: Mapping[str, Port], connection: str, refused: Refused) -> None:
        """The machine has refused a request that came over a connection."""
        principal: Principal | None = getattr(ports.get(connection), "principal", None)
        origin: Origin | None = None if principal is None else principal.origin
        if principal is not None and origin is not None:
            origin.refused(refused.reason, user=principal.user, what=f"request {refused.number} of {connection}")


class Origin(NamedTuple):
    """Where somebody who was let in came from."""

    log: SecurityLog
    listener: str
    host: str
    client: str = ""

    def refused(self, reason: str, *, user: str, what: str = "") -> None:
        """A request of it was refused."""
        cause = cause_of(reason)
        self.log.request(self.listener, self.host, reason, cause, user=user, client=self.client, what=what)

    def not_admitted(self, fault: NotAdmitted, *, user: str, client: str) -> None:
        """It may not call itself that."""
        self.log.login(self.listener, self.host, str(fault), fault.cause, user=user, client=client)


class RefusalObserver:
    """Looks at the effects of a node for refusals, where nobody else looks on."""

    def __init__(self, on_refusal: Callable[[str, Refused], None]) -> None:
        self._on_refusal = on_refusal

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """Inputs are not looked at."""

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """These are carried out now."""
        for effect in effects:
            if type(effect) is Tell and type(effect.message) is Refused:
                self._on_refusal(effect.connection, effect.message)

    def on_written(self, took_s: float, size: int) -> None:
        """The journal is not looked at."""


class AuditedAuthenticator:
    """An authenticator whose refusals are logged, and who remembers where those come from whom it lets in."""

    def __init__(self, authenticator: Authenticator, listener: str, log: SecurityLog) -> None:
        self._authenticator = authenticator
        self._listener = listener
        self._log = log

    async def admit(self, credentials: Credentials) -> Principal:
        """Who this is. PeerFault: it may not come in."""
        who = credentials
        try:
            principal = await self._authenticator.admit(who)
        except PeerFault as fault:
            cause = fault.cause if isinstance(fault, NotAdmitted) else "other"
            user = who.user or who.certificate
            self._log.login(self._listener, who.host, str(fault), cause, user=user, client=who.client)
            raise
        principal.origin = Origin(self._log, self._listener, who.host, who.client)
        return principal


def known_cause(cause: str) -> str:
    """A cause as the label of a metric. (rule 3)"""
    return cause if cause in CAUSES or cause == "login" else "other"


def cause_of(reason: str) -> str:
    """Why a request was refused, as the machine says it."""
    return "rights" if NOT_ALLOWED in reason else "other"
