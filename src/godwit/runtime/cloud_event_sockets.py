"""CloudEvents over WebSocket, in both directions: the subprotocol `cloudevents.json`.

*Theory.* One text frame is one CloudEvent in JSON. Events that a client sends are published; events that match the
parameters of its request, which are those of `GET /events`, are sent to it. The request has the credentials.

*Rules.*
1. The binding knows no acknowledgement and no error. Deliveries are confirmed as those of a stream of server-sent
   events (`http_listening.py`, rule 3): a client that reconnects by its name gets the last ones again, and can
   recognise them by their `source` and `id`. An error closes the connection with a reason: 1003 for a binary frame,
   1007 for an invalid CloudEvent, 1008 for a forbidden request or a query that takes too long. A possible loss of
   events is also reported by closing it, because the binding has no other message: 1000, and the session continues when
   the client reconnects.
2. Events are published in the order of arrival. Those that arrive while the journal writes are published together.
   Events before an invalid frame, or before the end of the connection, are published, too.
3. Nothing is sent to a client that does not read: its session keeps the events. Reading from a client that sends too
   much pauses.

*Standard.* [CloudEvents, WebSockets protocol binding 1.0.2].
"""

import asyncio
from collections import deque
from time import time

from starlette.websockets import WebSocket, WebSocketDisconnect

from godwit.broker.messages import Delivery, Revoked
from godwit.errors import GodwitError
from godwit.filters.events import Event
from godwit.languages.cloud_events import STRUCTURED
from godwit.runtime import given_cloud_events
from godwit.runtime.authentication import Principal
from godwit.runtime.http_documents import posted_events
from godwit.runtime.http_events import BadBody
from godwit.runtime.http_listening import Listener, Listening, WrittenDeliveries, listening_of
from godwit.runtime.http_peer import HttpPeer
from godwit.runtime.http_sockets import NORMAL, REFUSED, WRONG_DATA, Socket, SocketHost, close_reason
from godwit.runtime.in_process_client import ConnectionClosed
from godwit.runtime.rate_limits import work_of
from godwit.runtime.wire import Intro

__all__ = ["SUBPROTOCOL", "serve_cloud_events"]

SUBPROTOCOL = "cloudevents.json"
NO_EVENT = 1007  # codes of close frames
UNPUBLISHED_MAX = 1_000  # events that wait for the journal
HEADERS = {"content-type": STRUCTURED}


async def serve_cloud_events(host: SocketHost, websocket: WebSocket, peer: HttpPeer) -> None:
    """A client that uses the subprotocol. A request that cannot be granted closes the connection."""
    await websocket.accept(SUBPROTOCOL)
    try:
        principal = await host.admit_socket(websocket, Intro())
        listening = await listening_of(principal, websocket.query_params, websocket.headers, host.tests)
    except GodwitError as error:
        await websocket.close(REFUSED, close_reason(str(error)))
        return
    stream = CloudEventSocket(host, websocket, principal, listening)
    peer.unsent_of = lambda: stream.socket.unsent_bytes
    host.keep(stream.socket)
    try:
        await stream.run()
    finally:
        host.drop(stream.socket)


class CloudEventSocket:
    """One connection."""

    def __init__(self, host: SocketHost, websocket: WebSocket, principal: Principal, listening: Listening) -> None:
        self.socket = Socket(websocket)
        self.socket.on_full = self._on_full
        self._host, self._websocket, self._principal = host, websocket, principal
        self._wanted = listening.wanted
        self._came: asyncio.Queue[Event | None] = asyncio.Queue(UNPUBLISHED_MAX)
        self._waiting: deque[Delivery] = deque()
        self._is_full = False
        self._written = WrittenDeliveries(host.node)
        self._listener = Listener(
            host.node,
            principal,
            listening,
            tests=host.tests,
            on_tested=self._on_tested,
            on_suspended=lambda reason: self.socket.close(REFUSED, reason),
            on_closed=lambda reason: self.socket.close(REFUSED if principal.ended_because else NORMAL, reason),
            on_revoked=self._on_revoked,
            on_loss=self._on_loss,
        )

    async def run(self) -> None:
        """Listen and publish until the connection ends."""
        publishing = asyncio.create_task(self._publish_all())
        try:
            await self.socket.run(self._read)
        finally:
            self._listener.close()
            await self._came.put(None)
            await publishing

    # ------------------------------------------------------------ from the client

    async def _read(self) -> None:
        loop_time = asyncio.get_running_loop().time
        rate = self._host.server.rates.enter(self._principal.user, loop_time())
        try:
            rate.take(1, 0, work_of(self._wanted), loop_time())
            await self._listener.open()
            while True:
                await self._host.room()
                data = await self._frame()
                if data is None:
                    return
                [event] = await posted_events(data, HEADERS, time(), self._host.tests.helper, self._principal.user)
                await self._came.put(event)
                if (wait_s := rate.take(1, len(data), 0, loop_time())) > 0:
                    await asyncio.sleep(wait_s)
        except BadBody as bad:
            self.socket.close(NO_EVENT, str(bad))
        except GodwitError as error:
            self.socket.close(REFUSED, str(error))
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            rate.leave(loop_time())

    async def _frame(self) -> bytes | None:
        """The next frame; None if there is none, or it is not a text frame."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is None:
            self.socket.close(WRONG_DATA, f"a binary frame: {SUBPROTOCOL} has texts")
            return None
        return str(text).encode()

    async def _publish_all(self) -> None:
        """Publish events from the queue, until None arrives. (rule 2)"""
        is_over = False
        while not is_over:
            came = [await self._came.get()]
            while not self._came.empty():
                came.append(self._came.get_nowait())
            is_over = came[-1] is None
            events = [event for event in came if event is not None]
            try:
                refused = await self._host.publish(self._principal, events) if events else []
            except ConnectionClosed as closed:
                refused = [str(closed)]
            if refused:
                self.socket.close(REFUSED, refused[0])

    # ------------------------------------------------------------ to the client

    def _on_tested(self, deliveries: list[Delivery]) -> None:
        self._waiting.extend(deliveries)
        self._pump()

    def _on_full(self, is_full: bool) -> None:
        self._is_full = is_full
        self._pump()

    def _pump(self) -> None:
        """Write as fast as the client reads, and confirm deliveries that were written long enough ago. (rules 1, 3)"""
        while self._waiting and not self._is_full:
            delivery = self._waiting.popleft()
            self._written.add(delivery)
            if delivery.subscriptions and self._principal.may_have(delivery.event):
                self.socket.write(given_cloud_events.structured(delivery.event).decode())
        if number := self._written.confirmed():
            self._listener.confirm(number)

    def _on_loss(self) -> None:
        since = self._listener.taken_loss()
        self.socket.close(NORMAL, f"a broker has lost its last inputs: events since {since:.3f} may be missing")

    def _on_revoked(self, revoked: Revoked) -> None:
        if self._listener.is_open and revoked.ended:
            self.socket.close(REFUSED, revoked.reason)
