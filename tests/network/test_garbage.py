"""A connection that has closed is freed at once: the collector looks for garbage among old objects only when the
process has grown much (`gc_tuning.py`), so whatever holds on to itself stays until then."""

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import ref

import pytest

from godwit.runtime.connecting import connect
from tests.network.mqtt_devices import Device, Station, one_broker
from tests.network.waiting import run, until


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@asynccontextmanager
async def native(station: Station) -> AsyncIterator[Any]:
    async with connect(station.native, name="c") as client:
        await client.subscribe("n > 0")
        (connection,) = station.server.connections
        yield connection


@asynccontextmanager
async def mqtt(station: Station) -> AsyncIterator[Any]:
    device = Device("c", expiry_s=100)
    await device.connect(station.port)
    (connection,) = station.gateway.connections
    yield connection
    await device.disconnect()


@pytest.mark.parametrize("way", [native, mqtt])
def test_a_connection_that_has_closed_is_freed_without_a_search_for_garbage(way: Any) -> None:
    async def opened_and_closed(station: Station) -> "ref[Any]":
        async with way(station) as connection:
            return ref(connection)

    async def scene() -> None:
        async with one_broker() as station:
            gone = await opened_and_closed(station)
            await until(lambda: not station.server.connections and not station.gateway.connections)
            await station.node.quiet()
            await until(lambda: gone() is None)

    run(scene)
