"""A stream's subscriptions, asked for at a running broker: with ids that tell clients apart, in their contexts."""

import asyncio

from godwit.filters.language import parse
from godwit.pipeline.subscription_sources import BrokerSubscriptions
from godwit.runtime.connecting import connect
from tests.network.http_broker import broker
from tests.network.waiting import run


def test_a_running_brokers_subscriptions_are_read_as_its_clients_mean_them() -> None:
    async def scene() -> None:
        async with broker() as (running, _), connect(str(running.native), name="van") as client:
            await client.set_context({"limit": 7})
            await client.subscribe("x > my.limit", name="warm")
            await client.subscribe("y = 'a'", name="plain")
            source = BrokerSubscriptions(running.url, every_s=0)
            first = await asyncio.to_thread(source.version)
            assert await asyncio.to_thread(source.read) == {"van/warm": parse("x > 7"), "van/plain": parse("y = 'a'")}
            await client.set_context({"limit": 9})
            await client.publish({"x": 0})  # answered when all before it is done
            assert await asyncio.to_thread(source.version) != first
            assert (await asyncio.to_thread(source.read))["van/warm"] == parse("x > 9")

    run(scene)
