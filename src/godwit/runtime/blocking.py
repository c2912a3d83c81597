"""The client for programs without an event loop: the same calls, each waits for its answer.

*Theory.* A loop runs in a thread of its own and has the client (`network_client.py`) on it; every call here is handed
over to it. So the connection lives, and events come, while the program does something else.

*Rules.*
1. Several threads may use one client; each call is whole.
2. `publish` waits for room in the buffer, not for a broker; `wait=True` waits for the broker's answer.
3. A call that takes a `timeout` raises `TimeoutError` (`NotConnected` is one) when it is over.
4. A callback is called in a thread of its own, with one event at a time: it may use the client, and may take its time.
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
    """What one subscription gives: iterate over it, with a `timeout` if it must not last for ever."""

    def __init__(self, inner: Subscription, owner: "BlockingClient") -> None:
        self.inner = inner
        self._owner = owner

    @property
    def name(self) -> str:
        """The name of the subscription."""
        return self.inner.name

    @property
    def wanted(self) -> int:
        """Events that have come."""
        return self.inner.wanted

    @property
    def residues(self) -> int:
        """Events that passed the routable filter, and that the exact test turned away."""
        return self.inner.residues

    @property
    def failed(self) -> int:
        """Of the residues, those whose test could not be carried out."""
        return self.inner.failed

    @property
    def last_failure(self) -> str:
        """Why a test could not be carried out the last time."""
        return self.inner.last_failure

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Events as they come; with a `timeout`, until none has come for so many seconds, or the client is closed."""
        while True:
            try:
                yield self._owner.call(self.inner.next(timeout))
            except (TimeoutError, SubscriptionError):
                return

    def next(self, timeout: float | None = None) -> Event:
        """The next event, when there is one. `TimeoutError`: none has come in so many seconds."""
        return self._owner.call(self.inner.next(timeout))

    def call(self, callback: Callback) -> None:
        """Have a function called with each event from now on, in a thread of its own. (rule 4 of the module)"""
        self._owner.call(_set_callback(self.inner, callback))

    def replace(self, filter: Filter | str | Query, **more: Any) -> None:
        """Want this instead, from now on, with no gap and no double."""
        self._owner.call(self.inner.replace(filter, **more))

    def unsubscribe(self) -> None:
        """Want nothing more. What was not read is gone."""
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
        """Have the loop do it, and wait for the outcome."""
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
        """All subscriptions by name, those from the store among them."""
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
        """Want what `filter` matches, from publishers whose context `sender` matches. (rule 4: `callback`)"""
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
        said: Mapping[str, Any] | Event,
        *,
        to: Filter | str | None = None,
        retain: str | None = None,
        clear: bool = False,
        wait: bool = False,
    ) -> Event | None:
        """Publish an event; returns it as it was sent, or None when nobody wants it. (rule 2)"""

        async def publish() -> Event | None:
            await self.client.room()
            asked = self.client.publish(said, to=to, retain=retain, clear=clear)
            if wait:
                await asked
            return asked.event

        return self.call(publish())

    def advertise(self, filter: Filter | str, *, name: str = "all") -> None:
        """Say that events to be published match `filter`. The same name again replaces it."""
        self.call(self.client.advertise(filter, name=name))

    def unadvertise(self, name: str = "all") -> None:
        """Say that nothing more is published under that name."""
        self.call(self.client.unadvertise(name))

    def set_context(self, values: Mapping[str, Any], *, part: str = "", dwell_s: float | None = None) -> None:
        """Say what the context is from now on, or the part of it that this component looks after."""
        self.call(_answer(lambda: self.client.set_context(values, part=part, dwell_s=dwell_s)))

    def set_place(self, place: Value, *, dwell_s: float | None = None) -> None:
        """Say that we are at another place."""
        self.call(_answer(lambda: self.client.set_place(place, dwell_s=dwell_s)))

    def set_session_expiry(self, seconds: float | None) -> None:
        """Have the session kept for so long while we are away; None: as long as brokers like."""
        self.call(_answer(lambda: self.client.set_session_expiry(seconds)))

    def move(self, *seeds: Address | str) -> None:
        """Go to other brokers, from now on. It does not wait until one has let us in: `attached` does."""
        self.call(self.client.move(*seeds))

    def drain(self, timeout: float | None = None) -> None:
        """Until brokers have answered all that was asked and taken all that was published."""
        self.call(self.client.drain(timeout))

    def attached(self, timeout: float | None = None) -> None:
        """Until a broker has let us in."""
        self.call(self.client.attached(timeout))

    # ------------------------------------------------------------ what is known

    @property
    def name(self) -> str:
        """By which brokers know it."""
        return self.client.name

    @property
    def state(self) -> State:
        """Where it is."""
        return self.client.state

    @property
    def receipt(self) -> Receipt | None:
        """What happened to events while it was away the last time."""
        return self.client.receipt

    @property
    def residues(self) -> int:
        """Events that brokers let through and exact tests turned away, for all subscriptions."""
        return self.client.residues


def _in_a_thread(callback: Callback) -> Callback:
    return lambda event: asyncio.to_thread(callback, event)


async def _set_callback(inner: Subscription, callback: Callback) -> None:
    inner.call(_in_a_thread(callback))


async def _answer(ask: Callable[[], PendingRequest]) -> None:
    await ask()


def connect_blocking(*seeds: Address | str, **more: Any) -> BlockingClient:
    """The client for programs without an event loop: `with connect_blocking("127.0.0.1:7077") as client:`.

    It takes what `connect` takes.
    """
    return BlockingClient(lambda: connect(*seeds, **more))
