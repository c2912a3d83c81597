"""A client that starts again with its store has its subscriptions, and decides by their queries."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import godwit
from godwit.broker.limits import Limits
from godwit.errors import Refused, StoreError
from godwit.filters import Event, parse
from godwit.languages import Query, operator, parse_query
from godwit.languages.xml_documents import xml_event
from godwit.runtime.subscription_store import StoredSubscription, SubscriptionStore
from godwit.testing import network
from tests.network.waiting import a_turn

LIMIT_S = 300.0
LONG = "//user[name = 'Anna' $and$ age > 17]"
SAME_PERSON = b"<r><user><name>Anna</name><age>18</age></user></r>"
TWO_PEOPLE = b"<r><user><name>Anna</name><age>7</age></user><user><name>Bob</name><age>18</age></user></r>"


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


def stored(path: Path) -> dict[str, tuple[str, str]]:
    """What the next process of the client finds."""
    store = SubscriptionStore(path, "ann")
    try:
        return {row.name: (row.language, row.text) for _, row in store.newest()}
    finally:
        store.close()


def test_events_of_the_time_between_are_decided_by_the_query_of_the_client_before(tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(2) as net:
            store = tmp_path / "ann.store"
            ann, bob = await net.client("ann", "b1", store=store), await net.client("bob", "b2")
            await ann.subscribe(LONG, language="xql", name="adults")
            await ann.close()
            for document in (TWO_PEOPLE, SAME_PERSON):
                bob.publish(xml_event(document))
            await net.settled()
            again = await net.client("ann", "b1", store=str(store))
            adults = again.subscriptions["adults"]
            assert (adults.filter, adults.language) == (LONG, "xql")
            assert [event.payload for event in net.received("ann")] == [SAME_PERSON]
            assert (await adults.next()).payload == SAME_PERSON
            assert (adults.wanted, adults.residues, adults.failed, again.residues) == (1, 1, 0, 1)

    run(scene)


def test_without_a_store_the_next_client_cannot_decide(tmp_path: Path) -> None:
    """The planted fault: what the store is for is seen to be needed."""

    async def scene() -> None:
        async with network(2) as net:
            ann, bob = await net.client("ann", "b1"), await net.client("bob", "b2")
            await ann.subscribe(LONG, language="xql", name="adults")
            await ann.close()
            bob.publish(xml_event(TWO_PEOPLE))
            await net.settled()
            await net.client("ann", "b1")
            assert [event.payload for event in net.received("ann")] == [TWO_PEOPLE]

    run(scene)


def test_a_wish_that_was_stored_and_not_sent_is_sent_by_the_next_client(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "s"
        store = SubscriptionStore(path, "ann")
        store.put(StoredSubscription("adults", "xql", LONG))
        store.close()
        async with network() as net:
            ann = await net.client("ann", store=path)
            await net.settled()
            await ann.publish(xml_event(SAME_PERSON))
            assert (await ann.subscriptions["adults"].next()).payload == SAME_PERSON

    run(scene)


def test_what_is_refused_leaves_the_store_and_the_one_before_stays(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "s"
        async with network(limits=Limits(filter_literals_max=2)) as net:
            ann = await net.client("ann", store=path)
            with pytest.raises(Refused):
                await ann.subscribe("a = 1 AND b = 2 AND c = 3", name="large")
            small = await ann.subscribe("n > 0", name="s")
            with pytest.raises(Refused):
                await small.replace("a = 1 AND b = 2 AND c = 3")
            assert (small.filter, list(ann.subscriptions)) == ("n > 0", ["s"])
            await ann.close()
            assert stored(path) == {"s": ("filter", "n > 0")}

    run(scene)


def test_a_replacement_that_a_killed_client_had_stored_and_that_is_refused_gives_way_to_the_one_before(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        path = tmp_path / "s"
        store = SubscriptionStore(path, "ann")
        store.put(StoredSubscription("s", "filter", "n > 0"))
        store.put(StoredSubscription("s", "filter", "a = 1 AND b = 2 AND c = 3"))
        store.put(StoredSubscription("gone", "filter", "a = 1 AND b = 2 AND c = 3"))
        store.close()
        async with network(limits=Limits(filter_literals_max=2)) as net:
            ann = await net.client("ann", store=path)
            gone = ann.subscriptions.get("gone")
            await net.settled()
            assert gone is None
            assert list(ann.subscriptions) == ["s"]
            assert ann.subscriptions["s"].filter == "n > 0"
            await ann.publish({"n": 1})
            assert (await ann.subscriptions["s"].next()).attributes["n"] == 1
            await ann.close()
            assert stored(path) == {"s": ("filter", "n > 0")}

    run(scene)


def test_what_has_ended_is_not_there_again(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "s"
        async with network() as net:
            ann = await net.client("ann", store=path)
            ended = await ann.subscribe("n > 0", name="ended")
            await ann.subscribe("n > 1", name="over", expires=net.now + 10)
            kept = await ann.subscribe("n > 2", name="kept")
            await kept.replace("n > 3")
            await ended.unsubscribe()
            await ann.close()
            await net.advance(60)
            again = await net.client("ann", store=path)
            assert {name: each.filter for name, each in again.subscriptions.items()} == {"kept": "n > 3"}
            await again.close(leave=True)
            assert stored(path) == {}

    run(scene)


def test_an_end_that_no_broker_has_heard_of_leaves_the_subscription(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "s"
        async with network() as net:
            ann = await net.client("ann", store=path)
            subscription = await ann.subscribe("n > 0", name="s")
            await net.crash("b1")
            ending = asyncio.create_task(subscription.unsubscribe())
            await net.settled()
            await ann.close()
            with pytest.raises(godwit.NotConnected):
                await ending
            assert stored(path) == {"s": ("filter", "n > 0")}

    run(scene)


def test_of_wishes_that_were_never_sent_only_the_last_is_stored(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "s"
        client = godwit.connect("127.0.0.1:9", name="ann", store=path)
        async with client:
            await client.move()
            asking = [asyncio.create_task(client.subscribe(f"n > {n}", name="s")) for n in range(3)]
            await a_turn()
            await client.close()
            await asyncio.gather(*asking, return_exceptions=True)
        store = SubscriptionStore(path, "ann")
        assert [(number, row.text) for number, row in store.newest()] == [(3, "n > 2")]
        assert store.refuse("s", 3) is None
        store.close()

    run(scene)


def test_a_store_that_cannot_be_read_is_an_error_before_a_broker_is_dialled(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(StoreError, match="needs the name of its client"):
            godwit.connect(store=tmp_path / "s")
        with pytest.raises(StoreError, match="is open only while the client is"):
            await godwit.connect("127.0.0.1:9", name="ann", store=tmp_path / "s").subscribe("n > 1")
        path = tmp_path / "s"
        for language, text, words in [
            ("klingon", "Qapla'", "stored subscription 'x' cannot be read: there is no language 'klingon'"),
            ("cesql", "sounds_like(name, 'a')", "stored subscription 'x' cannot be read"),
            ("xql", "//a[", "stored subscription 'x' cannot be read: line 1"),
        ]:
            path.unlink(missing_ok=True)
            store = SubscriptionStore(path, "ann")
            store.put(StoredSubscription("x", language, text))
            store.close()
            with pytest.raises(StoreError, match=words):
                async with godwit.connect("127.0.0.1:9", name="ann", store=path):
                    raise AssertionError("it has come in")
            assert stored(path) == {"x": (language, text)}  # and the file is free again

    run(scene)


def test_a_query_and_a_filter_can_be_stored_too(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "s"
        async with network() as net:
            ann = await net.client("ann", store=path)
            await ann.subscribe(parse("n > 1"), name="filter", sender=parse("battery > 3"))
            query: Query = parse_query("//a", "xpath")
            await ann.subscribe(query, name="query")
            await ann.close()
            assert stored(path) == {"filter": ("filter", "n > 1"), "query": ("xpath", query.text)}
            again = await net.client("ann", store=path)
            again.set_context({"battery": 4})
            await again.publish({"n": 2})
            assert (await again.subscriptions["filter"].next()).attributes["n"] == 2

    run(scene)


def test_operators_of_the_program_are_known_to_stored_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.languages.operators._REGISTERED", {})

    @operator("begins_like")
    def begins_like(text: str, other: str) -> bool:
        return text[:1].lower() == other[:1].lower()

    async def scene() -> None:
        path = tmp_path / "s"
        async with network() as net:
            ann, bob = await net.client("ann", store=path), await net.client("bob")
            await ann.subscribe("begins_like(name, 'Ann')", language="cesql", name="s")
            await ann.close()
            for n, name in enumerate(("Bob", "anton")):
                event = {"specversion": "1.0", "id": str(n), "source": "/s", "type": "t", "name": name}
                bob.publish(Event(event))
            await net.settled()
            again = await net.client("ann", store=path)
            assert (await again.subscriptions["s"].next()).attributes["name"] == "anton"
            assert again.residues == 1

    run(scene)
