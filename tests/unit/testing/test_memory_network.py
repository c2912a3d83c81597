"""A network in memory: brokers and clients as they are, on a clock that stands still."""

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

import pytest

import godwit
from godwit.broker.limits import Limits
from godwit.errors import GodwitError, PeerFault
from godwit.runtime.authentication import Credentials, Principal
from godwit.testing import network

LIMIT_S = 300.0
FAMILIES = ("tree", "graph")


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


def numbers(net: Any, client: str) -> list[Any]:
    return [event.attributes["n"] for event in net.received(client)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("brokers", [1, 3, "star 4", "b1-b2 b1-b3", [("b1", "b2"), ("b2", "b3")]])
def test_what_is_published_at_one_broker_comes_to_who_wants_it_at_another(family: str, brokers: Any) -> None:
    async def scene() -> None:
        async with godwit.testing.network(brokers, family=family) as net:
            last = "b1" if brokers == 1 else "b3"
            anna, van = await net.client("anna", at="b1"), await net.client("van", at=last)
            wanted = await anna.subscribe("n > 1", sender="battery > 20")
            van.set_context({"battery": 80})
            await net.settled()
            for n in (1, 2, 3):
                van.publish({"n": n})
            assert [(await wanted.next()).attributes["n"] for _ in range(2)] == [2, 3]
            await net.settled()
            assert numbers(net, "anna") == [2, 3]
            assert len(wanted) == 0

    run(scene)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_session_follows_its_client_and_nothing_is_lost_or_doubled(family: str) -> None:
    async def scene() -> None:
        async with network(4, family=family) as net:
            anna, van = await net.client("anna", at="b1"), await net.client("van", at="b4")
            wanted = await anna.subscribe("n >= 0")
            await net.settled()
            for n, to in enumerate(["b3", "b2", "b4", "b1"]):
                van.publish({"n": 2 * n})
                await anna.move(to)
                van.publish({"n": 2 * n + 1})
            await net.settled()
            assert anna.state.broker == "b1"
            assert numbers(net, "anna") == list(range(8))
            assert len(wanted) == 8
            await anna.move()
            await net.settled()
            assert anna.state.kind == "away"
            van.publish({"n": 8})
            await net.settled()
            await anna.move("b2")
            await net.settled()
            assert numbers(net, "anna") == list(range(9))

    run(scene)


@pytest.mark.parametrize("keeps_disk", [True, False])
def test_a_broker_that_crashes_comes_back_with_its_clients(keeps_disk: bool) -> None:
    async def scene() -> None:
        async with network(3) as net:
            anna, van = await net.client("anna", at="b1"), await net.client("van", at="b3")
            await anna.subscribe("n >= 0")
            await net.settled()
            van.publish({"n": 0})
            await net.settled()
            await net.crash("b1", keeps_disk=keeps_disk)
            assert str(anna.state).startswith("away")
            van.publish({"n": 1})
            await net.settled()
            assert numbers(net, "anna") == [0]
            await net.restart("b1")
            assert str(anna.state) == "attached at b1"
            van.publish({"n": 2})
            await net.settled()
            assert numbers(net, "anna")[-1] == 2
            assert (1 in numbers(net, "anna")) or not keeps_disk
            assert numbers(net, "anna") == sorted(set(numbers(net, "anna")))

    run(scene)


def test_a_client_with_two_brokers_goes_to_the_other_when_one_crashes() -> None:
    async def scene() -> None:
        async with network(2) as net:
            anna = await net.client("anna", at=("b1", "b2"))
            await net.crash("b1")
            assert anna.state.kind == "away"  # its session is on the disk of b1, which b2 asks for it
            await net.restart("b1")
            assert str(anna.state) == "attached at b2"

    run(scene)


def test_a_link_that_is_cut_keeps_what_is_sent_until_it_is_joined_again() -> None:
    async def scene() -> None:
        async with network(2) as net:
            anna, van = await net.client("anna", at="b1"), await net.client("van", at="b2")
            await anna.subscribe("n >= 0")
            await net.settled()
            net.cut("b1", "b2")
            van.publish({"n": 1})
            await net.settled()
            assert numbers(net, "anna") == []
            net.join("b2", "b1")
            await net.settled()
            assert numbers(net, "anna") == [1]

    run(scene)


def test_time_passes_when_the_test_lets_it_and_takes_none() -> None:
    async def scene() -> None:
        began = perf_counter()
        async with network(2, limits=Limits(session_expiry_s=3_600.0)) as net:
            anna = await net.client("anna", at="b1")
            van = await net.client("van", at="b2")
            await anna.subscribe("n >= 0", expires=net.now + 600)
            at = net.now
            for n in range(3):
                await net.advance(299)
                van.publish({"n": n})
            await net.settled()
            assert net.now == pytest.approx(at + 897)
            assert numbers(net, "anna") == [0, 1]
            await anna.move()
            await net.advance(3_601)
            assert [record.peer for record in net.records("session_ended")] == ["anna"]
            assert net.machine("b1").sessions.session("anna") is None
        assert perf_counter() - began < LIMIT_S / 3

    run(scene)


def test_two_runs_give_the_same_events_and_the_same_trace() -> None:
    traces: list[Any] = []

    async def scene() -> None:
        async with network(3) as net:
            anna, van = await net.client("anna", at="b1"), await net.client("van", at="b3")
            await anna.subscribe("n >= 0", name="all")
            await net.settled()
            for n in range(5):
                van.publish({"n": n})
                await anna.move(f"b{1 + n % 3}")
            await net.settled()
            traces.append((list(net.trace), list(net.received("anna"))))

    run(scene)
    run(scene)
    assert traces[0] == traces[1]


def test_who_may_come_in_is_asked_of_the_door() -> None:
    class Guarded:
        async def admit(self, credentials: Credentials) -> Principal:
            if credentials.password != "secret":
                raise PeerFault("wrong user or password")
            return Principal(credentials.user, {"role": "guard"})

    async def scene() -> None:
        async with network(1, authenticator=Guarded(), asserted=("role",)) as net:
            anna = await net.client("anna", user="anna", password="secret")
            eve = await net.client("eve", user="eve", password="guess")
            assert (anna.state.kind, eve.state.kind) == ("attached", "connecting")
            assert "wrong user or password" in eve.state.reason
            bob = await net.client("bob", user="anna", password="secret")
            assert "'bob' is not a name for a client of anna" in bob.state.reason

    run(scene)


def test_clients_may_be_context_managers_of_their_own() -> None:
    async def scene() -> None:
        async with network() as net:
            async with net.client("anna") as anna:
                assert anna.state.broker == "b1"
            assert anna.state.kind == "closed"
            await net.settled()

    run(scene)


def test_what_is_not_there_is_named() -> None:
    async def scene() -> None:
        async with network(2) as net:
            with pytest.raises(GodwitError, match="there is no broker 'b9': b1, b2"):
                net.client("anna", at="b9")
            with pytest.raises(GodwitError, match="'b1' and 'b7' are not neighbours: b1-b2"):
                net.cut("b1", "b7")
            await net.crash("b1")
            with pytest.raises(GodwitError, match="broker 'b1' has crashed"):
                net.machine("b1")

    run(scene)
    with pytest.raises(GodwitError, match="'abc' is not a link"):
        network(["abc"])


def test_a_fault_in_a_broker_is_not_overlooked() -> None:
    async def scene() -> None:
        async with network() as net:
            anna = await net.client("anna")
            net.machine("b1").handle = lambda input, now: 1 / 0
            anna.publish({"n": 1})
            with pytest.raises(GodwitError, match="ZeroDivisionError"):
                await net.settled()

    run(scene)


def test_a_network_is_up_at_once() -> None:
    async def scene() -> None:
        async with network():  # what is imported and compiled at the first use
            pass
        took: list[float] = []
        for _ in range(5):
            began = perf_counter()
            async with network(3):
                took.append(perf_counter() - began)
        assert min(took) < 0.05

    run(scene)
