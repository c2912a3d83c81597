"""A client inside the broker's process, without stored state: the HTTP server publishes and listens through it.

*Theory.* The full client machine numbers its requests and repeats them until they are answered, because connections
break. Inside the process no connection breaks alone, so this client is much simpler: greet, continue numbering where
the session is (`Attached.accepted`), and wait for the answers.

*Rules.*
1. A request is answered when the machine has handled it and it is in the journal; `ask` returns then.
2. When the connection is closed, pending calls raise `ConnectionClosed` with the reason.
3. There are at most `UNANSWERED_MAX` unanswered requests; more are refused at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Any

from godwit.broker.messages import (
    Accepted,
    Attach,
    Attached,
    Bye,
    Delivery,
    Receipt,
    ReceiptUpdate,
    Received,
    Refused,
    Request,
    Revoked,
    SubscribeQuery,
)
from godwit.broker.sessions import Wish
from godwit.errors import GodwitError, PeerFault
from godwit.runtime.authentication import Principal
from godwit.runtime.in_process_connection import InProcessConnection
from godwit.runtime.node import Node

__all__ = ["ConnectionClosed", "InProcessClient"]

ANSWER_S = 30.0
UNANSWERED_MAX = 100_000

_LIFE = token_hex(4)  # names of connections must not repeat after a restart
_made = 0


class ConnectionClosed(GodwitError):
    """The broker has closed the connection, or does not answer."""


class InProcessClient:
    """One connection, and the session behind it."""

    def __init__(
        self,
        node: Node,
        principal: Principal,
        client: str,
        *,
        mode: str = "relocate",
        line: str = "",
        on_deliveries: Callable[[list[Delivery]], None] = lambda deliveries: None,
        on_closed: Callable[[str], None] = lambda reason: None,
        on_revoked: Callable[[Revoked], None] = lambda revoked: None,
        on_loss: Callable[[float], None] = lambda since: None,
    ) -> None:
        self.client = client
        self.mode = mode  # how it moves
        self.attached: Attached | None = None
        self.closed_because = ""
        self._on_deliveries = on_deliveries
        self._on_closed = on_closed
        self._on_revoked = on_revoked
        self._on_loss = on_loss  # told since when events may be lost, in seconds; 0: not known
        self._number = 0
        self._answered_up_to = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # for an answer to that number
        self._refusals: dict[int, str] = {}  # until the caller has seen them
        self._welcome: asyncio.Future[Attached] = asyncio.get_running_loop().create_future()
        self.inner = InProcessConnection(
            node, connection_name(), principal, self._on_messages, self._on_hung_up, line=line
        )

    # ------------------------------------------------------------ what is asked

    async def attach(self) -> Attached:
        """Send the greeting; returns the broker's answer."""
        self.inner.say(Attach(self.client, mode=self.mode))
        await self._answered(self._welcome)
        return self._welcome.result()

    async def ask(self, wishes: Sequence[Wish | SubscribeQuery]) -> list[str | None]:
        """Send requests in order; for each, why it was refused, or None."""
        if self.closed_because:
            raise ConnectionClosed(self.closed_because)
        if self._number - self._answered_up_to + len(wishes) > UNANSWERED_MAX:
            raise ConnectionClosed("too many requests wait for the disk")
        if not wishes:
            return []
        first = self._number + 1
        try:
            for wish in wishes:
                self.inner.say(Request(self._number + 1, wish))
                self._number += 1
        finally:  # some were sent, and are answered
            answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((self._number, answered))
        await self._answered(answered)
        return [self._refusals.pop(number, None) for number in range(first, first + len(wishes))]

    def confirm(self, number: int) -> None:
        """Confirm every delivery up to this one."""
        self.inner.say(Received(number))

    def leave(self) -> None:
        """End the session."""
        self.inner.say(Bye())
        self.hang_up()

    def hang_up(self) -> None:
        """Detach; the session stays until it expires."""
        self.inner.hang_up()
        self._fail("the client is gone")

    async def _answered(self, future: "asyncio.Future[Any]") -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await future
        except TimeoutError:
            raise ConnectionClosed("the broker has not answered in time") from None

    # ------------------------------------------------------------ what comes

    def _on_messages(self, messages: list[Any]) -> None:
        deliveries: list[Delivery] = []
        for message in messages:
            match message:
                case Delivery():
                    deliveries.append(message)
                case Accepted(number=number):
                    self._answer(number)
                case Refused(number=number, reason=reason):
                    self._refuse(number, reason)
                case Attached(accepted=accepted):
                    self.attached, self._number, self._answered_up_to = message, accepted, accepted
                    if not self._welcome.done():
                        self._welcome.set_result(message)
                case Bye(reason=reason):
                    self._fail(reason)
                case Revoked():
                    self._on_revoked(message)
                case ReceiptUpdate(receipt=Receipt(lost_since=float(since))):
                    self._on_loss(since)
        if deliveries:
            self._on_deliveries(deliveries)

    def _answer(self, number: int) -> None:
        """Requests are handled in order: an answer to one is an answer to all before it."""
        self._answered_up_to = max(self._answered_up_to, number)
        while self._waiting and self._waiting[0][0] <= number:
            future = self._waiting.popleft()[1]
            if not future.done():
                future.set_result(None)

    def _refuse(self, number: int, reason: str) -> None:
        if number > self._answered_up_to:  # otherwise another call gets it
            self._refusals[number] = reason
            self._answer(number)

    def _on_hung_up(self, reason: str) -> None:
        self._fail(reason)
        self._on_closed(self.closed_because)

    def _fail(self, reason: str) -> None:
        self.closed_because = self.closed_because or reason or "the broker has closed the connection"
        waiting: list[asyncio.Future[Any]] = [self._welcome, *(future for _, future in self._waiting)]
        self._waiting.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(ConnectionClosed(self.closed_because))
                future.exception()  # no call may be pending


def connection_name() -> str:
    """A unique name for a connection."""
    global _made  # noqa: PLW0603 (names count through the process)
    _made += 1
    return f"{_LIFE}/http/{_made}"


def granted(principal: Principal, client: str) -> str:
    """The name of a client's session; `PeerFault` if it has none."""
    name = principal.name_of(client)
    if not name:
        raise PeerFault("a client must have a name")
    return name
