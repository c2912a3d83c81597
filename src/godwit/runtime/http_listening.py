"""Listeners over HTTP: the parameters of a request, its session, and the confirmation of deliveries.

*Theory.* A listener has a session, which keeps events while the client does not read. Every event has an id that names
the client, the session and the number of the delivery. A client that sends the last id that it has seen, here or at
another broker, continues after it. Server-sent events, polls and WebSockets all work this way; they differ in how an
event is written, and in how its arrival is confirmed.

*Rules.*
1. What the id that came back covers is confirmed, and not given again.
2. Deliveries that come before the subscription stands wait until it does.
3. Where there is no acknowledgement, a delivery is confirmed when half a window of later ones, or a quarter of a
   queue's bytes, have been written (`WrittenDeliveries`).
4. A listener is told once that a broker has lost its last inputs: when it comes back, or at once.
"""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from time import time
from urllib.parse import quote, unquote

from msgspec import structs
from starlette.datastructures import Headers, QueryParams

from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Bye,
    Delivery,
    QueueRules,
    Receipt,
    Revoked,
    SetSessionExpiry,
    Subscribe,
    SubscribeQuery,
)
from godwit.broker.queue_rule_texts import lifetime_of, queue_rules_of
from godwit.broker.queues import event_size
from godwit.client.own_context import asked
from godwit.errors import FilterError
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.languages import NATIVE, Query
from godwit.runtime.authentication import Principal
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.http_requests import Problem
from godwit.runtime.in_process_client import InProcessClient
from godwit.runtime.node import Node

__all__ = [
    "SESSION_EXPIRY_S",
    "Listener",
    "Listening",
    "WrittenDeliveries",
    "checked_session_expiry",
    "listening_of",
    "resume_position",
    "subscription",
]

SESSION_EXPIRY_S = 300.0
SESSION_EXPIRY_S_MAX = 86_400.0
SUBSCRIPTION = "events"
QUEUE = "queue."  # prefix of parameters for queue rules
MODE = "named"  # a listener has only its name, by which its session is found at any broker

LAST_ID = re.compile(r"(?P<client>[^@\s]+)@(?P<session>[^:\s]+):(?P<number>\d{1,18})")


# ---------------------------------------------------------------- parts of a request


@dataclass(frozen=True, slots=True)
class Listening:
    """The request of a listener."""

    client: str
    after: tuple[str, int] | None  # the session and the last number that it has seen
    wanted: Subscribe | SubscribeQuery
    expiry_s: float
    wants_receipt: bool = False


async def listening_of(principal: Principal, params: QueryParams, headers: Headers, tests: EdgeTests) -> Listening:
    """The request from parameters and headers. Problem or FilterError if they are invalid."""
    was = resume_position(headers.get("last-event-id") or params.get("last_event_id", ""))
    client = principal.name_of(params["client"]) if params.get("client") else ""
    if was is not None and (client or principal.name_of(was[0])) != was[0]:
        was = None  # the id of another
    client = client or (was[0] if was is not None else principal.name_of(f"sse-{token_hex(8)}"))
    if len(client) > NAME_LENGTH_MAX:
        raise Problem(400, f"a client's name of {len(client)} characters: at most {NAME_LENGTH_MAX} are allowed")
    text, language = params.get("filter") or "TRUE", params.get("language") or NATIVE
    if not tests.is_quick(text, language):
        await tests.prepare(text, language, principal.user)
    query = tests.parse(text, language)
    rules = queue_rules_of((name[len(QUEUE) :], text) for name, text in params.items() if name.startswith(QUEUE))
    expires = time() + lifetime_of(params["expires_in"]) if "expires_in" in params else None
    wanted = subscription(
        client, query, params.get("sender"), retained="retained" in params, queue=rules, expires=expires
    )
    expiry_s = checked_session_expiry(params.get("session_expiry_s", str(SESSION_EXPIRY_S)))
    return Listening(client, None if was is None else was[1:], wanted, expiry_s, "receipt" in params)


def resume_position(last_id: str) -> tuple[str, str, int] | None:
    """The client, the session and the number in an id; None if it is invalid."""
    found = LAST_ID.fullmatch(last_id.strip())
    return None if found is None else (unquote(found["client"]), unquote(found["session"]), int(found["number"]))


def subscription(
    client: str,
    query: Query,
    sender: str | None,
    *,
    retained: bool,
    queue: QueueRules | None = None,
    expires: float | None = None,
) -> Subscribe | SubscribeQuery:
    """The query of a listener. FilterError if it is invalid."""
    wanted = Subscribe((client, SUBSCRIPTION), asked(query.routable, sender or None), expires, queue, retained=retained)
    return wanted if query.test is None else SubscribeQuery(wanted, ((query.language, query.text),))


def checked_session_expiry(said: str) -> float:
    """The lifetime of a session; FilterError if it is invalid."""
    try:
        seconds = float(said)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= SESSION_EXPIRY_S_MAX:
        raise FilterError(
            f"session_expiry_s is {said!r}: it must be a number of seconds, at most {SESSION_EXPIRY_S_MAX:.0f}"
        )
    return seconds


def _without_retained(wanted: Subscribe | SubscribeQuery) -> Subscribe | SubscribeQuery:
    if isinstance(wanted, SubscribeQuery):
        return structs.replace(wanted, subscribe=structs.replace(wanted.subscribe, retained=False))
    return structs.replace(wanted, retained=False)


# ---------------------------------------------------------------- the session


class Listener:
    """One listener and its session. `on_tested` gets its deliveries; those that no query matches have no subscriptions.

    `on_suspended` hears why its query is tested no more, `on_closed` that its session is gone, `on_revoked` that its
    rights have changed, `on_loss` that events may be lost (`taken_loss`).
    """

    def __init__(
        self,
        node: Node,
        principal: Principal,
        listening: Listening,
        *,
        tests: EdgeTests,
        on_tested: Callable[[list[Delivery]], None],
        on_suspended: Callable[[str], None],
        on_closed: Callable[[str], None],
        on_revoked: Callable[[Revoked], None],
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = listening.client
        self.session = ""
        self.is_open = False
        self.receipt: Receipt | None = None  # the receipt of its absence, if it was requested
        self._listening = listening
        self._after = listening.after
        self._on_tested, self._on_loss = on_tested, on_loss
        self._lost_since: float | None = None  # rule 4
        self._line = tests.open(self.client, on_tested, lambda name, reason: on_suspended(reason))
        self._early: list[Delivery] = []  # rule 2
        self._talk = InProcessClient(
            node,
            principal,
            self.client,
            mode=MODE,
            on_deliveries=self._on_deliveries,
            on_closed=on_closed,
            on_revoked=on_revoked,
            on_loss=self._hear_of_loss,
        )

    async def open(self) -> None:
        """Subscribe. Problem if it was refused."""
        wanted = self._listening.wanted
        try:
            attached = await self._talk.attach()
            self.session = attached.session
            if self._listening.wants_receipt:
                self.receipt = attached.receipt
            if self._after is not None and (attached.fresh or self._after[0] != attached.session):
                self._after = None  # its numbers belong to another session
            if not attached.fresh:  # it has received the retained events before
                wanted = _without_retained(wanted)
            self._line.adopt(attached.notes)
            self._line.ask(SUBSCRIPTION, wanted.queries if isinstance(wanted, SubscribeQuery) else ())
            reasons = await self._talk.ask([SetSessionExpiry(self._listening.expiry_s), wanted])
        except BaseException:
            self._talk.hang_up()
            raise
        refused = next((reason for reason in reasons if reason is not None), None)
        if refused is not None:
            if attached.fresh:
                self._talk.inner.say(Bye())
            self.close()
            raise Problem(403, refused)
        self._line.on_answer(SUBSCRIPTION, is_granted=True)
        self.is_open = True
        if attached.receipt.lost_since is not None:
            self._hear_of_loss(attached.receipt.lost_since)
        early, self._early = self._early, []
        self._on_deliveries(early)

    def _hear_of_loss(self, since: float) -> None:
        self._lost_since = since if self._lost_since is None else min(since, self._lost_since)
        self._on_loss()

    def taken_loss(self) -> float | None:
        """Since when events may be lost, in seconds, 0 if that is not known; None: none are, or it was told."""
        since, self._lost_since = self._lost_since, None
        return since

    @property
    def is_testing(self) -> bool:
        """Whether exact tests of its deliveries are pending."""
        return self._line.is_testing

    @property
    def seen(self) -> int:
        """The number of the last delivery that the client has seen, as it reported."""
        return 0 if self._after is None else self._after[1]

    def id_of(self, number: int) -> str:
        """The id of a delivery of this session, valid at all brokers."""
        return f"{quote(self.client, safe='')}@{quote(self.session, safe='')}:{number}"

    def confirm(self, number: int) -> None:
        """Every delivery up to that one has arrived."""
        self._talk.confirm(number)

    def close(self) -> None:
        """Detach; the session stays until it expires."""
        self._talk.hang_up()
        self._line.close()

    def _on_deliveries(self, deliveries: list[Delivery]) -> None:
        if not self.is_open:
            self._early += deliveries
            return
        if self._after is not None:
            seen = [delivery for delivery in deliveries if delivery.number <= self._after[1]]
            deliveries = deliveries[len(seen) :]
            if seen:  # rule 1
                self._talk.confirm(seen[-1].number)
        if self._line.is_needed:
            self._line.put(deliveries)
        else:
            self._on_tested(deliveries)


class WrittenDeliveries:
    """Deliveries that were written, without acknowledgements. (rule 3)"""

    def __init__(self, node: Node) -> None:
        limits: Limits = node.machine.config.limits  # type: ignore[attr-defined]
        self._count_max = limits.window // 2
        self._bytes_max = limits.queue_bytes_max // 4  # a session pauses when half of it is unconfirmed
        self._written: deque[tuple[int, int]] = deque()  # number and size
        self._bytes = 0

    def add(self, delivery: Delivery) -> None:
        """A delivery was written; or no query matches it, and it was not."""
        size = event_size(delivery.event) if delivery.subscriptions else 0
        self._written.append((delivery.number, size))
        self._bytes += size

    def confirmed(self) -> int:
        """The number up to which deliveries were written long enough ago, if it has changed; else 0."""
        number = 0
        while len(self._written) > self._count_max or self._bytes > self._bytes_max:
            number, size = self._written.popleft()
            self._bytes -= size
        return number
