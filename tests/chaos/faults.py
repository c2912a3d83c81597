"""What is done to a network, by name. A fault begins, lasts while clients go on, and ends.

`FAULTS` is the table that rounds draw from. Each fault is a generator: up to its `yield` is what happens at its
beginning, the rest is what happens at its end. Events are published and clients roam in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random

from tests.chaos.broker_processes import Broker, Network
from tests.chaos.history import History

__all__ = ["FAULTS", "LOSES_DATA", "Fault"]

Fault = Callable[[Network, Random, History], AsyncIterator[None]]
LOSES_DATA = ("journal rolled back", "journal bit flipped")
"""Faults of disks that may cost what was written since they began. They come alone, on a network where all is quiet."""


def _broker(network: Network, rng: Random) -> Broker:
    return rng.choice(list(network.brokers.values()))


def _tell(history: History, kind: str, where: str, **more: float) -> None:
    history.write("fault", kind=kind, where=where, **more)


async def kill(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    broker = _broker(network, rng)
    _tell(history, "kill", broker.name)
    await broker.kill()
    yield
    await broker.start()


async def kill_two(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    two = rng.sample(list(network.brokers.values()), 2)
    _tell(history, "kill two at once", f"{two[0].name}, {two[1].name}")
    await asyncio.gather(*(each.kill() for each in two))
    yield
    await asyncio.gather(*(each.start() for each in two))


async def kill_while_it_starts(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    """Kill it, and kill it again at any moment of its next start, replay included."""
    broker = _broker(network, rng)
    _tell(history, "kill during start", broker.name)
    await broker.kill()
    yield
    await broker.launch()
    try:
        async with asyncio.timeout(rng.uniform(0.2, 3.0)):
            await broker.ready()
    except TimeoutError:
        pass
    await broker.kill()
    await broker.start()


async def stop_process(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    broker = _broker(network, rng)
    _tell(history, "SIGSTOP", broker.name)
    broker.pause()
    yield
    broker.resume()


async def restart(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    broker = _broker(network, rng)
    _tell(history, "restart", broker.name)
    status = await broker.stop()
    assert status == 0, f"the broker {broker.name} stopped with status {status}: {broker.last_words()}"
    yield
    await broker.start()


def _link(name: str, begin: str, end: str = "") -> Fault:
    async def fault(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
        (a, b), proxy = rng.choice(list(network.links.items()))
        _tell(history, name, f"{a} - {b}")
        arguments = [rng.choice(("near", "far"))] if begin == "half_open" else []
        getattr(proxy, begin)(*arguments)
        yield
        if end:
            getattr(proxy, end)()

    return fault


async def link_delay(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    (a, b), proxy = rng.choice(list(network.links.items()))
    _tell(history, "link delay", f"{a} - {b}")
    proxy.delay_s = rng.uniform(0.02, 0.5)
    yield
    proxy.delay_s = 0.0


async def clients_reset(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    broker = _broker(network, rng)
    _tell(history, "clients reset", broker.name)
    for door in broker.doors.values():
        door.reset()
    yield


async def clients_locked_out(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    broker = _broker(network, rng)
    _tell(history, "clients locked out", broker.name)
    for door in broker.doors.values():
        door.close()
    yield
    for door in broker.doors.values():
        door.open()


async def disk_full(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    broker = _broker(network, rng)
    _tell(history, "disk full", broker.name)
    broker.fill_disk()
    yield
    broker.empty_disk()


async def rolled_back(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    """A broker's disk is put back to what it was some time ago, as from a backup."""
    broker = _broker(network, rng)
    await broker.kill()
    copy = broker.copy_journal()
    await broker.start()
    yield
    await broker.kill()
    broker.put_back(copy)
    _tell(history, "journal rolled back", broker.name, loss_from=history.quiet_at)
    await broker.start_anyway()


async def bit_flipped(network: Network, rng: Random, history: History) -> AsyncIterator[None]:
    """A bit of what a broker wrote since its last clean stop is another one."""
    broker = _broker(network, rng)
    await broker.stop()
    await broker.start()
    yield
    await broker.kill()
    broker.flip_a_bit(rng)
    _tell(history, "journal bit flipped", broker.name, loss_from=history.quiet_at)
    await broker.start_anyway()


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "kill two at once": kill_two,
    "kill during start": kill_while_it_starts,
    "SIGSTOP": stop_process,
    "restart": restart,
    "link reset": _link("link reset", "reset"),
    "link cut": _link("link cut", "cut"),
    "link black hole": _link("link black hole", "half_open"),
    "link partition": _link("link partition", "close", "open"),
    "link stalled": _link("link stalled", "stall", "go_on"),
    "link delay": link_delay,
    "clients reset": clients_reset,
    "clients locked out": clients_locked_out,
    "disk full": disk_full,
    "journal rolled back": rolled_back,
    "journal bit flipped": bit_flipped,
}
