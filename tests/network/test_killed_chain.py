"""Brokers of a chain are killed at any moment while clients roam over it: nothing acknowledged is lost or doubled."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from godwit.runtime import connect
from godwit.runtime.network_client import NetworkClient
from tests.network.fleet import Book, hasten
from tests.network.mortal import Mortal, chain, nursery
from tests.network.waiting import PATIENCE_S, a_turn, run

NAMES = ("b0", "b1", "b2", "b3")
EVENTS = 40  # in a round, of each publisher
SNAPSHOT_BYTES = 20_000  # so that snapshots are written in each round
ROUND_S = 40.0


async def spread(book: Book, subscribers: list[str], publishers: list[NetworkClient]) -> None:
    """Until subscriptions stand everywhere: events from both ends of the chain come to all."""

    def lacking() -> list[tuple[str, str]]:
        got = {name: {id[0] for _, id, _ in book.ledger.deliveries.get(name, ())} for name in subscribers}
        return [(p.machine.name, s) for p in publishers for s in subscribers if p.machine.name not in got[s]]

    loop = asyncio.get_running_loop()
    gives_up_at = loop.time() + PATIENCE_S
    while lacking():
        assert loop.time() < gives_up_at, f"nothing comes from one to the other of {lacking()}"
        for publisher in publishers:
            book.publish(publisher, {"n": 0})
            await publisher.drain()
        book.came.clear()
        try:
            async with asyncio.timeout(0.2):
                await book.came.wait()
        except TimeoutError:
            continue  # it was published too early: another
    book.settled()


async def scene(folder: Path, durability: str, rounds: int, seed: int, patience_s: float = PATIENCE_S) -> None:
    rng = Random(seed)
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(nursery())
        brokers = await chain(place, folder, durability, NAMES, SNAPSHOT_BYTES)
        for broker in brokers.values():
            stack.push_async_callback(broker.kill)
        book = Book()
        clients: dict[str, NetworkClient] = {}
        for name, at in {"s0": "b0", "s1": "b1", "s2": "b3", "p0": "b0", "p1": "b3"}.items():
            clients[name] = await stack.enter_async_context(connect(brokers[at].address, name=name))
        subscribers = [name for name in clients if name.startswith("s")]
        publishers = [client for name, client in clients.items() if name.startswith("p")]
        for name in subscribers:
            await book.listen(clients[name], "n >= -1")
        await spread(book, subscribers, publishers)
        stack.push_async_callback(book.close)
        n = 0
        for _ in range(rounds):
            n = await a_round(rng, book, brokers, clients, n)
        await book.finished(publishers, len(subscribers), patience_s)
        book.check()
        lost = [name for name, each in clients.items() if any(receipt.session_lost for receipt in each.receipts)]
        assert not lost, f"brokers have lost the sessions of {lost}"


async def a_round(
    rng: Random, book: Book, brokers: dict[str, Mortal], clients: dict[str, NetworkClient], n: int
) -> int:
    """Publish and roam; somewhere in between one broker or two die, and come back a while later."""
    victims = rng.sample(list(brokers.values()), rng.choice((1, 1, 2)))
    dies_at, comes_back_at = sorted(rng.sample(range(EVENTS), 2))
    for k in range(EVENTS):
        n += 1
        for client in clients.values():
            if client.machine.name.startswith("p"):
                book.publish(client, {"n": n})
        if rng.random() < 0.15:
            await rng.choice(list(clients.values())).move(rng.choice(list(brokers.values())).address)
        if k == dies_at:
            await asyncio.gather(*(victim.kill() for victim in victims))
        if k == comes_back_at:
            await asyncio.gather(*(victim.start() for victim in victims))
        for _ in range(rng.randrange(20)):
            await a_turn()
        if rng.random() < 0.1 and not dies_at <= k < comes_back_at:
            await clients["p0"].drain()  # brokers have them: from now on they must not be lost
    return n


@pytest.mark.parametrize("durability", ["relaxed", "full"])
def test_clients_of_a_chain_of_mortal_brokers_lose_nothing(
    tmp_path: Path, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    run(lambda: scene(tmp_path, durability, rounds=3, seed=1))


@pytest.mark.slow
@pytest.mark.timeout(20 * ROUND_S + 60)
@pytest.mark.parametrize("seed", range(2, 5))
def test_twenty_rounds(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    run(lambda: scene(tmp_path, "full", rounds=20, seed=seed), 20 * ROUND_S)


@pytest.mark.parametrize("durability", ["memory", "lazy"])
def test_brokers_that_forget_are_caught(tmp_path: Path, durability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    with pytest.raises(AssertionError):
        run(lambda: scene(tmp_path, durability, rounds=1, seed=1, patience_s=3.0))
