"""A client's connection inside the broker's process: how gateways (MQTT, HTTP) bring their clients to the machine.

*Theory.* To the machine there is no difference: it hears `Opened`, messages and `Closed` of a named connection, and
what it tells that connection comes to `on_messages`, all of one turn at once.

*Rules.*
1. What is said goes through the same checks and into the same journal as what comes over a socket.
2. After `close`, or when the machine has closed the connection (`on_closed`), nothing more comes or goes.
3. When the client must go (`Principal.end`: its token is over, its user is gone), the connection is closed: whoever
   holds it may say something before (`on_end`).
"""

import asyncio
from collections.abc import Callable
from time import time
from typing import Any

from godwit.broker.authorisation import RightsGranted
from godwit.broker.effects import Closed, Heard, Opened
from godwit.broker.messages import Attach
from godwit.filters.events import Attributes
from godwit.runtime.authentication import Principal
from godwit.runtime.node import Node
from godwit.runtime.wire import NATIVE

__all__ = ["InProcessConnection"]


class InProcessConnection:
    """One connection. A `Port` of the node."""

    def __init__(
        self,
        node: Node,
        name: str,
        principal: Principal,
        on_messages: Callable[[list[Any]], None],
        on_closed: Callable[[str], None],
        on_end: Callable[[str], None] = lambda reason: None,
        line: str = "",
    ) -> None:
        self.node = node
        self.name = name
        self.line = line or name  # in which the node lets inputs wait: they stay in order
        self.principal = principal
        self.is_open = True
        self._on_messages = on_messages
        self._on_closed = on_closed
        self._on_end = on_end
        self._came: list[Any] = []
        node.ports[name] = self
        asserted: Attributes = principal.asserted
        node.tell(Opened(name, asserted), line=self.line)
        self._end: asyncio.TimerHandle | None = None
        if principal.until is not None:
            wait_s = max(0.0, principal.until - time())
            self._end = asyncio.get_running_loop().call_later(wait_s, principal.end, "token expired")
        principal.on_end += (self._over,)
        if principal.ended_because:
            asyncio.get_running_loop().call_soon(self._over, principal.ended_because)

    def _over(self, reason: str) -> None:
        """The client must go."""
        if self.is_open:
            self._on_end(reason)
        if self.is_open:
            on_closed = self._on_closed
            self.hang_up()
            on_closed(reason)

    def say(self, message: Any, bulk: bytes | None = None) -> Any:
        """Say a message to the machine, as far as the client may: what was said in its place, or None.

        `bulk`: most of what the message takes in memory. A node without a journal needs no more of it in bytes.
        """
        if not self.is_open:
            return None
        message, node = self.principal.checked(message), self.node
        if type(message) is Attach and self.principal.rights is not None:
            node.tell(RightsGranted(message.client, self.principal.rights), line=self.line)
        is_light = bulk is not None and node.journal is None
        node.tell(Heard(self.name, message), bulk if is_light else NATIVE.encode(message), self.line)  # type: ignore[arg-type]
        return message

    async def room(self) -> None:
        """Until what was said before is handled so far that more may be said. (`Node`, rule 6)"""
        if self.node.is_long(self.line):
            short = asyncio.Event()
            self.node.when_short(self.line, short.set)
            await short.wait()

    def hang_up(self) -> None:
        """The client is gone; its session stays."""
        if self.is_open:
            self._ended()
            if self.node.ports.get(self.name) is self:
                del self.node.ports[self.name]
                self.node.tell(Closed(self.name), line=self.line)
            self._on_messages, self._on_closed, self._on_end = _ignore, _ignore, _ignore  # they hold who holds this

    # ------------------------------------------------------------ a port of the node

    def send(self, message: Any) -> None:
        """Have a message handed over at the next `flush`."""
        self._came.append(message)

    def flush(self) -> None:
        """Hand over what was sent, in one go."""
        if self._came:
            came, self._came = self._came, []
            self._on_messages(came)

    def close(self, reason: str) -> None:
        """The machine has closed the connection."""
        if self.is_open:
            self.flush()
            self._ended()
            self._on_closed(reason)

    def _ended(self) -> None:
        self.is_open = False
        self.principal.on_end = tuple(ended for ended in self.principal.on_end if ended != self._over)
        if self._end is not None:
            self._end.cancel()


def _ignore(what: Any) -> None:
    """Nobody is to be told."""
