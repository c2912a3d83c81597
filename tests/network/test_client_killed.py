"""A client that is killed at any moment loses nothing that it wants, and its application gets nothing that it does not.

What the network brings to the next process of that client is decided by the query in its store. [motion Fig. 2]
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from godwit.filters import Event
from godwit.languages import Query, parse_query
from godwit.languages.xml_documents import xml_event
from godwit.runtime import NetworkClient, connect
from tests.network.mortal import Mortal, nursery

PROGRAM = Path(__file__).with_name("storing_client.py")
LIMIT_S = 240.0
PATIENCE_S = 120.0
QUERIES = [
    ("xql", "//user[name = 'Anna' $and$ age > 17]"),
    ("xpath", "//user[name = 'Anna' and age > 30]"),
    ("xql", "//user[name = 'Bob']/age[. > 17]"),
    ("xpath", "count(//user[age > 17]) = 2"),
    ("xql", "//user[age > 17 $and$ $not$ (name = 'Bob')]"),
]


def document(rng: Random, n: int) -> Event:
    """Two users: which name goes with which age is what no filter can tell."""
    users = "".join(
        f"<user><name>{rng.choice(['Anna', 'Bob', 'Cleo'])}</name><age>{rng.choice([7, 18, 40])}</age></user>"
        for _ in range(2)
    )
    return xml_event(f"<r>{users}</r>".encode(), {"n": n})


class Scene:
    """A publisher, a client in processes that are killed, and what its application must, may and did get."""

    def __init__(self, folder: Path, broker: Mortal, publisher: NetworkClient, rng: Random) -> None:
        self.store, self.broker, self.publisher, self.rng = folder / "ann.store", broker, publisher, rng
        self.must: set[int] = set()
        self.may: set[int] = set()
        self.handled: set[int] = set()
        self.n = 0

    async def start(self, say: tuple[str, str] | None = None, dies: str = "") -> "asyncio.subprocess.Process":
        """Start the client: it is ready, or dead, when this returns."""
        said = {"address": str(self.broker.address), "store": str(self.store), "say": say, "dies": dies}
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), json.dumps(said), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        line = await asyncio.wait_for(child.stdout.readline(), PATIENCE_S)
        assert line == (b"" if dies else b"ready\n"), line
        if dies:
            await child.wait()
        return child

    async def kill(self, child: "asyncio.subprocess.Process") -> None:
        """End it without a word, and read what it has said."""
        with suppress(ProcessLookupError):
            child.kill()
        said, _ = await child.communicate()
        self.handled.update(map(int, said.split()))

    async def publish(self, count: int, must: list[Query], may: Query) -> None:
        """Publish documents: the application must get what all of some queries want, and may get what one wants."""
        for _ in range(count):
            self.n += 1
            event = document(self.rng, self.n)
            if must and all(query.matches(event) for query in must):
                self.must.add(self.n)
            if may.matches(event):
                self.may.add(self.n)
            self.publisher.publish(event)
        await self.publisher.drain(PATIENCE_S)

    async def catch_up(self) -> None:
        """Let the client handle all that it must, and kill it."""
        child = await self.start()
        assert child.stdout is not None
        try:
            while not self.must <= self.handled:
                line = await asyncio.wait_for(child.stdout.readline(), PATIENCE_S)
                assert line, "the client has ended by itself"
                self.handled.add(int(line))
        finally:
            await self.kill(child)


async def scene(folder: Path, seed: int, kills: list[str]) -> None:
    rng = Random(seed)
    async with nursery() as place:
        broker = Mortal(place, folder, "relaxed")
        address = await broker.start()
        async with connect(address, name="p") as publisher:
            now = Scene(folder, broker, publisher, rng)
            before: list[Query] = []
            for round, dies in enumerate(kills):
                language, text = QUERIES[round % len(QUERIES)]
                query = parse_query(text, language)
                await now.start((language, text), dies)
                await now.publish(40, [*before, query] if before else [], query)  # while nobody is there
                child = await now.start()
                await now.publish(40, [query], query)
                await now.kill(child)  # while it handles them
                await now.publish(20, [query], query)
                await now.catch_up()
                before = [query]
        await broker.kill()
    assert now.must <= now.handled <= now.may
    assert len(now.must) > 10
    assert len(now.may) < now.n


def test_nothing_wanted_is_lost_and_nothing_unwanted_comes_when_a_client_is_killed(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(scene(tmp_path, 1, ["stored", "sent"]), LIMIT_S))


@pytest.mark.slow
def test_a_client_that_is_killed_many_times(tmp_path: Path) -> None:
    kills = Random(2).choices(["stored", "sent"], k=8)
    asyncio.run(asyncio.wait_for(scene(tmp_path, 2, kills), LIMIT_S))


def test_a_client_that_stores_too_late_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a store that is written after the filter was sent, or never."""
    monkeypatch.setenv("STORING_CLIENT_FORGETS", "1")
    with pytest.raises((AssertionError, TimeoutError)):
        asyncio.run(asyncio.wait_for(scene(tmp_path, 1, ["sent"]), LIMIT_S))
