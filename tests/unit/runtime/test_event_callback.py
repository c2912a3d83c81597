"""Callbacks of subscriptions: one event at a time, in order, and an error ends nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from godwit.errors import SubscriptionError
from godwit.filters.events import Event
from godwit.testing import network

LIMIT_S = 300.0


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


async def published(net: Any, client: Any, *numbers: int) -> None:
    for n in numbers:
        client.publish({"n": n})
    await net.settled()


def test_a_function_is_called_with_each_event_in_order() -> None:
    async def scene() -> None:
        async with network() as net:
            ann = await net.client("ann")
            came: list[Any] = []
            subscription = await ann.subscribe("n > 0", callback=lambda event: came.append(event.attributes["n"]))
            await published(net, ann, 1, 2, 3)
            assert (came, len(subscription), subscription.wanted) == ([1, 2, 3], 0, 3)

    run(scene)


def test_an_async_function_is_awaited_before_the_next_event() -> None:
    async def scene() -> None:
        async with network() as net:
            ann, bob = await net.client("ann"), await net.client("bob")
            answers = await bob.subscribe("answer > 0")
            at_once = 0

            async def answer(event: Event) -> None:
                nonlocal at_once
                at_once += 1
                await ann.publish({"answer": event.attributes["n"]})
                assert at_once == 1
                at_once -= 1

            subscription = await ann.subscribe("n > 0", callback=answer)
            await published(net, bob, 1, 2, 3)
            assert [(await answers.next()).attributes["answer"] for _ in range(3)] == [1, 2, 3]
            assert subscription.callback is not None
            assert subscription.callback.failed == 0

    run(scene)


def test_an_error_is_reported_and_counted_and_the_next_event_follows() -> None:
    async def scene() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: reported.append(about))
        async with network() as net:
            ann = await net.client("ann")
            came: list[Any] = []

            def on_event(event: Event) -> None:
                if event.attributes["n"] == 2:
                    raise ZeroDivisionError("n is two")
                came.append(event.attributes["n"])

            subscription = await ann.subscribe("n > 0", name="s", callback=on_event)
            await published(net, ann, 1, 2, 3)
            assert came == [1, 3]
            assert subscription.callback is not None
            assert (subscription.callback.failed, subscription.callback.last_failure) == (1, "n is two")
            assert [(about["message"], str(about["exception"])) for about in reported] == [
                ("callback of the subscription 's' failed", "n is two")
            ]
            await ann.publish({"n": 4})
            assert ann.state.kind == "attached"

    run(scene)


def test_a_subscription_with_a_callback_is_read_by_nobody_else() -> None:
    async def scene() -> None:
        async with network() as net:
            ann = await net.client("ann")
            subscription = await ann.subscribe("n > 0", name="s", callback=print)
            with pytest.raises(SubscriptionError, match="'s' is read by its callback"):
                await subscription.next()
            with pytest.raises(SubscriptionError, match="'s' is read by its callback"):
                async for _ in subscription:
                    pass

    run(scene)


def test_a_callback_may_end_its_own_subscription_and_close_its_client() -> None:
    async def scene() -> None:
        async with network() as net:
            ann, bob = await net.client("ann"), await net.client("bob")
            came: list[Any] = []

            async def once(event: Event) -> None:
                came.append(event.attributes["n"])
                await one.unsubscribe()

            async def close(event: Event) -> None:
                came.append(event.attributes["n"])
                await ann.close()

            one = await ann.subscribe("n < 10", callback=once)
            await ann.subscribe("n >= 10", callback=close)
            await published(net, bob, 1, 2, 3)
            assert came == [1]
            await published(net, bob, 10, 11)
            assert [state.kind async for state in ann.states()][-1] == "closed"
            await net.settled()
            assert came == [1, 10]

    run(scene)


def test_what_a_callback_was_called_with_is_read_when_it_returns() -> None:
    """With `confirm="read"` brokers keep what a killed process was about to handle."""

    async def scene() -> None:
        async with network() as net:
            ann, bob = await net.client("ann", confirm="read", mode="named"), await net.client("bob")
            entered, never = asyncio.Event(), asyncio.Event()

            async def wait(event: Event) -> None:
                entered.set()
                await never.wait()

            await ann.subscribe("n > 0", name="s", callback=wait)
            await published(net, bob, 1)
            await entered.wait()
            await ann.close()
            again = await net.client("ann", confirm="read", mode="named")
            subscription = await again.subscribe("n > 0", name="s")
            assert (await subscription.next()).attributes["n"] == 1

    run(scene)
