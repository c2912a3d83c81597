"""The client for programs without an event loop: the same calls, each waits for its answer.

*Theory.* An event loop in its own thread runs the client (`network_client.py`), and every call here is passed to it.
The connection stays up and events arrive while the program does something else.

*Rules.*
1. Several threads may use one client; each call is atomic.
2. `publish` waits for room in the buffer, not for a broker; `wait=True` waits for the acknowledgement.
3. A call with a `timeout` raises `TimeoutError` (`NotConnected` is a subclass) after that time.
4. A callback runs in its own thread, with one event at a time: it may use the client, and it may block.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from godwit.broker.messages import QueueRules, Receipt
from godwit.errors import NotConnected, SubscriptionError
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.values import Value
from godwit.languages.query import NATIVE, Query
from godwit.runtime.addresses import Address
from godwit.runtime.connecting import connect
from godwit.runtime.event_callback import Callback
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.pending_requests import PendingRequest, State, Subscription
from godwit.runtime.wanted_queries import Operators

__all__ = ["BlockingClient", "BlockingSubscription", "connect_blocking"]

T = TypeVar("T")
NOT_ENTERED = "the client has not been entered: with godwit.connect_blocking(...) as client"


class BlockingSubscription:
    """Events of one subscription: iterate over it, or over `events(timeout)` to stop after a silence."""

    def __init__(self, inner: Subscription, owner: "BlockingClient") -> None:
        self.inner = inner
        self._owner = owner

    @property
    def name(self) -> str:
        """Subscription name."""
        return self.inner.name

    @property
    def wanted(self) -> int:
        """Number of events received."""
        return self.inner.wanted

    @property
    def residues(self) -> int:
        """Number of events that passed the routable filter and failed the exact test."""
        return self.inner.residues

    @property
    def failed(self) -> int:
        """Number of residues whose exact test raised an error."""
        return self.inner.failed

    @property
    def last_failure(self) -> str:
        """Error of the last exact test that failed."""
        return self.inner.last_failure

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Events as they arrive. Ends when the client is closed, or after `timeout` seconds without an event."""
        while True:
            try:
                yield self._owner.call(self.inner.next(timeout))
            except (TimeoutError, SubscriptionError):
                return

    def next(self, timeout: float | None = None) -> Event:
        """Wait for the next event. Raises `TimeoutError` after `timeout` seconds."""
        return self._owner.call(self.inner.next(timeout))

    def call(self, callback: Callback) -> None:
        """Call a function with each event from now on, in its own thread. (rule 4 of the module)"""
        self._owner.call(_set_callback(self.inner, callback))

    def replace(self, filter: Filter | str | Query, **more: Any) -> None:
        """Replace the filter, without a gap and without duplicates."""
        self._owner.call(self.inner.replace(filter, **more))

    def unsubscribe(self) -> None:
        """End the subscription. Unread events are discarded."""
        self._owner.call(self.inner.unsubscribe())


class BlockingClient:
    """A client whose calls wait for their answers. Made by `connect_blocking`."""

    def __init__(self, make: Callable[[], NetworkClient]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: NetworkClient | None = None

    # ------------------------------------------------------------ coming and going

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="godwit client", daemon=True)
        self._thread.start()
        self._client = self.call(self._enter())
        return self

    async def _enter(self) -> NetworkClient:
        return await self._make().__aenter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call(self.client.__aexit__(kind, error, trace))
        finally:
            assert self._loop is not None
            assert self._thread is not None
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None

    @property
    def client(self) -> NetworkClient:
        """The client on the loop. Only the loop's thread may call it."""
        if self._client is None:
            raise NotConnected(NOT_ENTERED)
        return self._client

    def call(self, asked: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for its result."""
        if self._loop is None:
            asked.close()
            raise NotConnected("the client is closed" if self._client is not None else NOT_ENTERED)
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    # ------------------------------------------------------------ what the application asks for

    @property
    def subscriptions(self) -> Mapping[str, BlockingSubscription]:
        """All subscriptions by name, including those restored from the store."""
        return {name: BlockingSubscription(inner, self) for name, inner in list(self.client.subscriptions.items())}

    def subscribe(
        self,
        filter: Filter | str | Query,
        *,
        language: str = NATIVE,
        operators: Operators | None = None,
        name: str = "",
        sender: Filter | str | None = None,
        expires: float | None = None,
        queue: QueueRules | None = None,
        retained: bool = False,
        share: str = "",
        callback: Callback | None = None,
    ) -> BlockingSubscription:
        """Subscribe to events that match `filter`. Arguments: see `NetworkClient.subscribe`. (rule 4: `callback`)"""
        inner = self.client.subscribe(
            filter,
            language=language,
            operators=operators,
            name=name,
            sender=sender,
            expires=expires,
            queue=queue,
            retained=retained,
            share=share,
            callback=None if callback is None else _in_a_thread(callback),
        )
        return BlockingSubscription(self.call(inner), self)

    def publish(
        self,
        event: Mapping[str, Any] | Event,
        *,
        to: Filter | str | None = None,
        retain: str | None = None,
        clear: bool = False,
        wait: bool = False,
    ) -> Event | None:
        """Publish an event. Returns it as it was sent, or None if no subscription matches it. (rule 2)"""

        async def publish() -> Event | None:
            await self.client.room()
            asked = self.client.publish(event, to=to, retain=retain, clear=clear)
            if wait:
                await asked
            return asked.event

        return self.call(publish())

    def advertise(self, filter: Filter | str, *, name: str = "all") -> None:
        """Announce that published events will match `filter`. The same name replaces an earlier advertisement."""
        self.call(self.client.advertise(filter, name=name))

    def unadvertise(self, name: str = "all") -> None:
        """Withdraw an advertisement."""
        self.call(self.client.unadvertise(name))

    def set_context(self, values: Mapping[str, Any], *, part: str = "", dwell_s: float | None = None) -> None:
        """Set the client's context, or one `part` of it. `dwell_s`: expected time until the next change, in seconds."""
        self.call(_answer(lambda: self.client.set_context(values, part=part, dwell_s=dwell_s)))

    def set_place(self, place: Value, *, dwell_s: float | None = None) -> None:
        """Set the client's place: the meaning of `myloc`. `dwell_s`: expected length of the stay, in seconds."""
        self.call(_answer(lambda: self.client.set_place(place, dwell_s=dwell_s)))

    def set_session_expiry(self, seconds: float | None) -> None:
        """Set how long brokers keep the session while the client is away. None: the broker's default."""
        self.call(_answer(lambda: self.client.set_session_expiry(seconds)))

    def move(self, *seeds: Address | str) -> None:
        """Connect to other brokers from now on. Returns at once: `attached` waits for the new connection."""
        self.call(self.client.move(*seeds))

    def drain(self, timeout: float | None = None) -> None:
        """Wait until every request is answered and every event acknowledged."""
        self.call(self.client.drain(timeout))

    def attached(self, timeout: float | None = None) -> None:
        """Wait until the client is attached to a broker."""
        self.call(self.client.attached(timeout))

    # ------------------------------------------------------------ what is known

    @property
    def name(self) -> str:
        """Client name."""
        return self.client.name

    @property
    def state(self) -> State:
        """Connection state."""
        return self.client.state

    @property
    def receipt(self) -> Receipt | None:
        """Receipt of the last absence: what happened to events meanwhile."""
        return self.client.receipt

    @property
    def residues(self) -> int:
        """Number of events that passed a routable filter and failed the exact test, of all subscriptions."""
        return self.client.residues


def _in_a_thread(callback: Callback) -> Callback:
    return lambda event: asyncio.to_thread(callback, event)


async def _set_callback(inner: Subscription, callback: Callback) -> None:
    inner.call(_in_a_thread(callback))


async def _answer(ask: Callable[[], PendingRequest]) -> None:
    await ask()


def connect_blocking(*seeds: Address | str, **more: Any) -> BlockingClient:
    """The client for programs without an event loop: `with connect_blocking("127.0.0.1:7077") as client:`.

    The arguments are those of `connect`.
    """
    return BlockingClient(lambda: connect(*seeds, **more))
