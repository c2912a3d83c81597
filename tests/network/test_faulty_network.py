"""Clients roam over a chain of brokers while connections are cut, reset, stalled, delayed and left half open.

Nothing is lost, nothing comes twice, and each publisher's events come in order: the simulator's judge says so. That it
would say otherwise if it were otherwise is seen at the end of this file.
"""

import asyncio
from random import Random
from typing import Any

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.links import LinkConfig
from godwit.broker.messages import Delivery
from godwit.client.client import Client
from godwit.runtime.wire import NATIVE
from tests.network.fleet import CHAIN, Fleet, fleet, hasten
from tests.network.proxy import LENGTH_BYTES, Proxy
from tests.network.waiting import a_turn, run, until

EVENTS = 120  # of each publisher


async def people(every: Fleet, subscribers: int = 3, publishers: int = 2) -> None:
    """Clients all over the network, whose subscriptions stand."""
    brokers = list(every.stations)
    for k in range(subscribers):
        await every.book.listen(await every.come(f"s{k}", brokers[k % len(brokers)]), "n >= -1")
    for k in range(publishers):
        await every.come(f"p{k}", brokers[-1 - k % len(brokers)])
    await every.settled()


def publish(every: Fleet, n: int) -> None:
    for name, client in every.clients.items():
        if name.startswith("p"):
            every.book.publish(client, {"n": n})


async def end(every: Fleet) -> None:
    """Heal everything, and hold all that came against what was published."""
    every.heal()
    publishers = [client for name, client in every.clients.items() if name.startswith("p")]
    await every.book.finished(publishers, len(every.clients) - len(publishers))
    every.book.check()
    assert not any(receipt.session_lost for client in every.clients.values() for receipt in client.receipts)


def befall(proxy: Proxy, fault: str) -> None:
    match fault:
        case "cut":
            proxy.cut()
        case "reset":
            proxy.reset()
        case "stall":
            proxy.stall()
        case "delay":
            proxy.delay_s = 0.02
        case "close":
            proxy.close()
        case "half-open near":
            proxy.half_open("near")
        case "half-open far":
            proxy.half_open("far")
        case _:
            proxy.heal()


FAULTS = ("cut", "reset", "stall", "delay", "close", "half-open near", "half-open far", "heal", "heal", "heal")


GRAPH = BrokerConfig(family="graph", advertisements="off", link=LinkConfig(dead_after_s=2.0))
RING = (*CHAIN, ("b3", "b0"))
NETWORKS: dict[str, Any] = {"chain": {}, "ring": {"links": RING, "config": GRAPH}}


async def chaos(network: str, seed: int, events: int = EVENTS) -> None:
    rng = Random(seed)
    async with fleet(**NETWORKS[network]) as every:
        await people(every)
        links, doors = list(every.links.values()), list(every.doors.values())
        names, brokers = list(every.clients), list(every.stations)
        for n in range(events):
            publish(every, n)
            if rng.random() < 0.15:
                befall(rng.choice(links), rng.choice(FAULTS))
            if rng.random() < 0.1:
                befall(rng.choice(doors), rng.choice(FAULTS))
            if rng.random() < 0.2:
                await every.roam(rng.choice(names), rng.choice(brokers))
            for _ in range(rng.randrange(40)):
                await a_turn()
        await end(every)
        assert every.recorded("relocated") > 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_is_lost_or_doubled_while_everything_breaks(
    network: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    run(lambda: chaos(network, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_is_lost_or_doubled_whatever_the_seed(network: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    run(lambda: chaos(network, seed, 300))


def test_both_sides_of_a_partition_go_on_and_come_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)

    async def scene() -> None:
        async with fleet() as every:
            await people(every, subscribers=4)  # one at each broker; p0 at b3 and p1 at b2
            await every.roam("p1", "b0")
            await until(lambda: every.clients["p1"].machine.home == "b0", "p1 is at b0")
            await every.quiet()
            every.links["b1", "b2"].close()
            for n in range(50):
                publish(every, n)
            count = every.book.count
            await until(lambda: all(count(f"s{k}") >= 50 for k in range(4)), "each side has its own publisher's events")
            assert [count(f"s{k}") for k in range(4)] == [50] * 4
            await every.roam("s0", "b3")  # its session is on the other side
            for n in range(50, 100):
                publish(every, n)
            await until(lambda: count("s3") == 100, "those who have stayed go on")
            assert not every.clients["s0"].machine.is_attached
            await end(every)

    run(scene)


@pytest.mark.parametrize("kept", ["near", "far"])
def test_a_client_finds_out_that_its_connection_is_dead(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)

    async def scene() -> None:
        async with fleet([("b0", "b1")]) as every:
            await people(every, subscribers=2, publishers=1)
            every.doors["b0"].half_open(kept)
            for n in range(20):
                publish(every, n)
            await end(every)

    run(scene)


def test_a_broker_lets_a_client_go_that_is_not_heard_of_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)

    async def scene() -> None:
        async with fleet([("b0", "b1")]) as every:
            client, server = await every.come("s0", "b0"), every.stations["b0"].server
            await until(lambda: sum(each.is_watched for each in server.connections) == 2, "the client has beaten")
            await client.move()
            every.doors["b0"].half_open("far")
            await until(lambda: len(server.connections) == 1, "only the link is left")

    run(scene)


def test_a_client_goes_where_it_was_last_told_to_go() -> None:
    async def scene() -> None:
        async with fleet([("b0", "b1"), ("b1", "b2")]) as every:
            client = await every.come("s0", "b0")
            for turns in range(12):  # the connection to b1 is somewhere between begun and used
                await client.move(every.door("b1"))
                for _ in range(turns):
                    await a_turn()
                await client.move(every.door("b2" if turns % 2 else "b0"))
                to = "b2" if turns % 2 else "b0"
                await until(
                    lambda to=to: client.machine.is_attached and client.machine.home == to,  # type: ignore[misc]
                    f"it is at {to}, after {turns} turns",
                )
            await client.move()
            await until(lambda: not client.machine.is_attached, "it is away")
            await client.move(every.door("b1"))
            await client.attached()

    run(scene)


# ---------------------------------------------------------------- planted faults


def each_delivery(change: Any) -> Any:
    """A tamper that gives the frames from a broker which bear deliveries to `change`."""

    def tamper(end: str, frames: list[bytes]) -> list[bytes]:
        if end == "near":
            return frames
        bears = [isinstance(NATIVE.decode(frame[LENGTH_BYTES:]), Delivery) for frame in frames]
        deliveries: list[bytes] = change([frame for frame, is_one in zip(frames, bears, strict=True) if is_one])
        return [frame for frame, is_one in zip(frames, bears, strict=True) if not is_one] + deliveries

    return tamper


class Thief:
    """Takes the fifth delivery away."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, frames: list[bytes]) -> list[bytes]:
        kept = []
        for frame in frames:
            self.seen += 1
            if self.seen != 5:
                kept.append(frame)
        return kept


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients forget what they have received."""
    handlers = Client.on_delivery.__globals__["_HANDLERS"]
    on_delivery = handlers[Delivery]

    def forgetful(client: Any, message: Any, now: float) -> Any:
        client._received = 0
        client._seen = type(client._seen)(1, 10)
        return on_delivery(client, message, now)

    monkeypatch.setitem(handlers, Delivery, forgetful)


async def tampered(change: Any) -> Fleet:
    async with fleet([("b0", "b1")]) as every:
        await people(every, subscribers=1, publishers=1)
        every.doors["b0"].tamper = each_delivery(change)
        for n in range(20):
            publish(every, n)
            await every.clients["p0"].drain()
        await every.book.finished([every.clients["p0"]], 1)
    return every


def laws_broken(change: Any) -> set[str]:
    async def scene() -> set[str]:
        async with asyncio.timeout(60):
            return {violation.law for violation in (await tampered(change)).book.verdict().violations}

    return run(scene)


def test_frames_that_come_twice_do_no_harm() -> None:
    assert laws_broken(lambda frames: [frame for frame in frames for _ in "12"]) == set()


def test_a_delivery_that_is_taken_away_is_missed() -> None:
    assert laws_broken(Thief()) == {"nothing lost"}


def test_a_client_that_takes_events_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    assert laws_broken(lambda frames: [frame for frame in frames for _ in "12"]) == {"nothing twice"}


class Turncoat:
    """Lets the sixth delivery pass before the fifth."""

    def __init__(self) -> None:
        self.seen = 0
        self.held: list[bytes] = []

    def __call__(self, frames: list[bytes]) -> list[bytes]:
        passed = []
        for frame in frames:
            self.seen += 1
            if self.seen == 5:
                self.held.append(frame)
            else:
                passed += [frame, *self.held]
                self.held.clear()
        return passed


def test_a_client_that_takes_events_in_any_order_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    assert laws_broken(Turncoat()) == {"order"}
