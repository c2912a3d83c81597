"""A client's connection inside the broker's process, as gateways (MQTT, HTTP) use it.

*Theory.* The machine sees no difference: it gets `Opened`, messages and `Closed` of a named connection, and its answers
are passed to `on_messages`, all of one turn at once.

*Rules.*
1. Messages pass the same checks and go into the same journal as those of a socket.
2. After `close`, or when the machine has closed the connection (`on_closed`), no more messages pass.
3. When the principal ends (`Principal.end`: its token has expired, its user was removed), the connection is closed; its
   owner may send something before (`on_end`).
"""

import asyncio
from collections.abc import Callable
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
        self.line = line or name  # the queue of its inputs at the node, which keeps their order
        self.principal = principal
        self.is_open = True
        self._on_messages = on_messages
        self._on_closed = on_closed
        self._on_end = on_end
        self._came: list[Any] = []
        node.ports[name] = self
        asserted: Attributes = principal.asserted
        node.tell(Opened(name, asserted), line=self.line)
        self._end = principal.end_with_token()
        principal.on_end += (self._over,)
        if principal.ended_because:
            asyncio.get_running_loop().call_soon(self._over, principal.ended_because)

    def _over(self, reason: str) -> None:
        """The principal has ended."""
        if self.is_open:
            self._on_end(reason)
        if self.is_open:
            on_closed = self._on_closed
            self.hang_up()
            on_closed(reason)

    def say(self, message: Any, bulk: bytes | None = None, packed: bytes | None = None) -> Any:
        """Send a message to the machine, as far as it is granted; returns what was sent instead, or None.

        `bulk`: the largest part of the message in memory. A node without a journal needs no other encoding of it.
        `packed`: the message in the native form, where it is known already.
        """
        if not self.is_open:
            return None
        said, node = message, self.node
        message = self.principal.checked(said)
        if type(message) is Attach and self.principal.rights is not None:
            node.tell(RightsGranted(message.client, self.principal.rights), line=self.line)
        is_light = bulk is not None and node.journal is None
        data = bulk if is_light else packed if message is said else None
        node.tell(Heard(self.name, message), NATIVE.encode(message) if data is None else data, self.line)
        return message

    async def room(self) -> None:
        """Wait until enough earlier messages are handled that more may be sent. (`Node`, rule 6)"""
        if self.node.is_long(self.line):
            short = asyncio.Event()
            self.node.when_short(self.line, short.set)
            await short.wait()

    def hang_up(self) -> None:
        """The client has disconnected; its session stays."""
        if self.is_open:
            self._ended()
            if self.node.ports.get(self.name) is self:
                del self.node.ports[self.name]
                self.node.tell(Closed(self.name), line=self.line)
            self._on_messages, self._on_closed, self._on_end = _ignore, _ignore, _ignore  # breaks a reference cycle

    # ------------------------------------------------------------ a port of the node

    def send(self, message: Any) -> None:
        """Queue a message for the next `flush`."""
        self._came.append(message)

    def flush(self) -> None:
        """Pass on the queued messages at once."""
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
    """Close without notification."""
