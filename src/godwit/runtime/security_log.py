"""The security log: refused logins, requests and connections, with counters by listener and cause.

*Theory.* There are three kinds of refusals. A login: the peer could not authenticate. A request: the client lacks the
right. A connection: it breaks the protocol, or exceeds a limit. Each listener reports to one `SecurityLog`. Logins pass
through `AuditedAuthenticator`, which wraps the authenticator of a listener, so no transport can forget them. Refusals
of the machine are found in its effects, by `RefusalObserver` or by `activity_monitor.py`.

*Rules.*
1. Everything is counted. Lines are limited for one host, and for all (`line_limits.py`). The next line tells how many
   were dropped.
2. A line has the host first, then only names and reasons: no password, no token, no event. (docs/guides/secure.md has
   the pattern for fail2ban; it begins at the start of the line, so that an attacker cannot insert another host.)
3. Causes are the few of `CAUSES`: they are labels of metrics.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from godwit.broker.client_rights import NOT_ALLOWED
from godwit.broker.effects import Effect, Input, Tell
from godwit.broker.messages import Refused
from godwit.errors import NotAdmitted, PeerFault
from godwit.runtime.authentication import Authenticator, Credentials, Principal
from godwit.runtime.line_limits import LineLimits
from godwit.runtime.node_interfaces import Port

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
"""The causes of refusals."""

QUIET = (
    "login",
    "name",
    "link",
    "ended",
)  # causes of closed connections that are logged elsewhere, or are not refusals
SHOWN_CHARS_MAX = 200
BEYOND = "beyond "  # of a host, where a request did not name this machine (`http.py`, rule 3)

OF_THE_LINE = {"level": "new_level"}
"""Fields of actions that a line has for itself, and their names in it."""

Write = Callable[..., Any]


class SecurityLog:
    """The refusals of one broker."""

    def __init__(self, write: Write = lambda event, **fields: None, clock: Callable[[], float] = monotonic) -> None:
        self.logins: Counter[tuple[str, str]] = Counter()  # by listener and cause
        self.requests: Counter[tuple[str, str]] = Counter()
        self.connections: Counter[tuple[str, str]] = Counter()
        self.accepted: Counter[str] = Counter()  # connections, by listener
        self._write = write
        self._limits = LineLimits(clock)  # of hosts

    def login(self, listener: str, host: str, reason: str, cause: str, *, user: str = "", client: str = "") -> None:
        """A login was refused."""
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
        """A connection was closed because of its peer or its data."""
        if cause == "link":
            self.login(listener, host, reason, cause)
        if cause != "ended":
            self.connections[listener, known_cause(cause)] += 1
        if cause not in QUIET:
            self._line("refused connection", host, listener=listener, user=user, cause=cause, reason=reason)

    def done(self, action: str, host: str, user: str, **fields: str) -> None:
        """An administrator has carried out an action. Such lines are not limited."""
        named = {OF_THE_LINE.get(name, name): value for name, value in fields.items()}
        shown = {name: value[:SHOWN_CHARS_MAX] for name, value in {"user": user, **named}.items() if value}
        self._write("administration", host=host.removeprefix(BEYOND), action=action, **shown)

    def _line(self, event: str, host: str, **fields: str) -> None:
        """Write a line, unless there are too many. (rule 1)"""
        host = host.removeprefix(BEYOND)
        more = self._limits.room(host)
        if more is None:
            return
        shown = {name: value[:SHOWN_CHARS_MAX] for name, value in fields.items() if value}
        self._write(event, host=host, **shown, **more)

    # ------------------------------------------------------------ what the machine refuses

    def refused_by_machine(self, ports: Mapping[str, Port], connection: str, refused: Refused) -> None:
        """The machine has refused a request that came over a connection."""
        principal: Principal | None = getattr(ports.get(connection), "principal", None)
        origin: Origin | None = None if principal is None else principal.origin
        if principal is not None and origin is not None:
            what = principal.denied.pop(refused.number, f"request {refused.number} of {connection}")
            origin.refused(refused.reason, user=principal.user, what=what)


class Origin(NamedTuple):
    """The origin of an authenticated client."""

    log: SecurityLog
    listener: str
    host: str
    client: str = ""

    def refused(self, reason: str, *, user: str, what: str = "") -> None:
        """A request of the client was refused."""
        cause = cause_of(reason)
        self.log.request(self.listener, self.host, reason, cause, user=user, client=self.client, what=what)

    def not_admitted(self, fault: NotAdmitted, *, user: str, client: str) -> None:
        """The client may not use that name."""
        self.log.login(self.listener, self.host, str(fault), fault.cause, user=user, client=client)


class RefusalObserver:
    """Finds refusals in the effects of a node that has no other observer."""

    def __init__(self, on_refusal: Callable[[str, Refused], None]) -> None:
        self._on_refusal = on_refusal

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """Inputs are ignored."""

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """These effects are carried out now."""
        for effect in effects:
            if type(effect) is Tell and type(effect.message) is Refused:
                self._on_refusal(effect.connection, effect.message)

    def on_written(self, took_s: float, size: int) -> None:
        """Batches are ignored."""


class AuditedAuthenticator:
    """An authenticator whose refusals are logged, and that records the origin of accepted clients."""

    def __init__(self, authenticator: Authenticator, listener: str, log: SecurityLog) -> None:
        self._authenticator = authenticator
        self._listener = listener
        self._log = log

    async def admit(self, credentials: Credentials) -> Principal:
        """The principal of a peer. PeerFault: access is refused."""
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
    """The cause of a refused request, from the machine's reason."""
    return "rights" if NOT_ALLOWED in reason else "other"
