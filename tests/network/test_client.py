"""The Python client against a broker on a real socket: what it says yes and no to, where it is, what it keeps."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import godwit
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.client import ClientConfig
from godwit.errors import GodwitError, NotConnected, Refused, SubscriptionError
from godwit.filters.references import LOCATION
from godwit.mobility import mobile_broker
from godwit.runtime import Address, NativeServer, Node, State, client_inbox, connect
from godwit.runtime import network_client as driver
from godwit.runtime.client_transport import address
from godwit.runtime.message_items import ITEMS_MAX
from tests.network.test_native import Running, linked, start, take, two_brokers, wanted_at
from tests.network.waiting import a_turn, run, until


async def small_broker(**limits: Any) -> Running:
    """A broker that allows little."""
    node = Node(lambda: mobile_broker("b1", {}, BrokerConfig(limits=Limits(**limits))))
    server = NativeServer("b1", node, {})
    return Running("b1", node, server, await server.listen("127.0.0.1", 0))


async def unused() -> Address:
    """Where nobody listens."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    taken = Address(*server.sockets[0].getsockname()[:2])
    server.close()
    await server.wait_closed()
    return taken


# ------------------------------------------------------------ yes and no


def test_what_a_broker_refuses_is_raised_where_it_is_awaited() -> None:
    async def scene() -> None:
        broker = await small_broker(subscriptions_max=1)
        async with connect(broker.address, name="c") as c:
            kept = await c.subscribe("n = 1")
            with pytest.raises(Refused, match="at most 1 subscription"):
                await c.subscribe("n = 2")
            await c.advertise("n = 1")
            with pytest.raises(Refused, match="none of your advertisements"):
                await c.publish({"n": 2})
            asked = c.publish({"n": 2})
            await c.drain()  # the answer has come before anybody awaits it
            assert asked.is_answered
            with pytest.raises(Refused, match="none of your advertisements"):
                await asked
            await c.publish({"n": 1})
            assert await take(kept, 1) == [1]
            await kept.unsubscribe()
            await c.subscribe("n = 2")
        await broker.stop()

    run(scene)


def test_a_filter_with_more_values_than_a_message_may_have_is_refused_and_the_client_stays() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(broker.address, name="c") as c:
            kept = await c.subscribe("n = 1")
            with pytest.raises(Refused, match="more than 25000 values"):
                await c.subscribe(f"n IN ({', '.join(map(str, range(ITEMS_MAX + 1)))})")
            await c.publish({"n": 1})
            assert await take(kept, 1) == [1]
            assert c.state.kind == "attached"
        await broker.stop()

    run(scene)


def test_what_is_wrong_by_itself_never_leaves_the_client() -> None:
    async def scene() -> None:
        async with connect(await unused()) as c:
            with pytest.raises(godwit.GodwitError, match="column 4"):
                await c.subscribe("n <<< 1")
            with pytest.raises(SubscriptionError, match="no advertisement 'all'"):
                await c.unadvertise()
            with pytest.raises(GodwitError, match="NaN"):
                c.publish({"n": float("nan")})

    run(scene)


def test_a_refused_context_is_refused_where_it_is_awaited_and_the_last_one_stands() -> None:
    async def scene() -> None:
        broker = await start("b1", {})  # it asserts the role of its clients
        async with connect(broker.address, name="c") as c:
            await c.set_context({"floor": 1})
            with pytest.raises(Refused, match="role"):
                await c.set_context({"role": "medic"})
            await c.set_place("hall")
            assert dict(c.machine.context) == {"floor": 1, LOCATION: "hall"}
        await broker.stop()

    run(scene)


def test_a_filter_is_replaced_in_one_step() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(broker.address, name="s") as s, connect(broker.address, name="p") as p:
            subscription = await s.subscribe("n < 10")
            await p.publish({"n": 1})
            await s.replace(subscription, "n >= 10")
            await p.publish({"n": 2})
            await p.publish({"n": 11})
            await subscription.replace("n >= 0")
            await p.publish({"n": 3})
            assert await take(subscription, 3) == [1, 11, 3]
            assert subscription.filter == "n >= 0"
            await subscription.unsubscribe()
            assert [event async for event in subscription] == []
            with pytest.raises(SubscriptionError):
                await s.replace(subscription, "n = 0")
        await broker.stop()

    run(scene)


# ------------------------------------------------------------ where it is


def test_a_client_says_where_it_is_and_what_became_of_its_events() -> None:
    async def scene() -> None:
        seen: list[State] = []
        async with two_brokers() as (b1, b2):
            await linked(b1, b2)
            async with connect(b1.address, name="s", on_state=seen.append) as s:
                assert str(s.state) == "connecting"
                watched = asyncio.create_task(_kinds(s))
                subscription = await s.subscribe("n >= 0")
                assert (s.state.kind, s.state.broker) == ("attached", "b1")
                await s.move(b2.address)
                await until(lambda: s.state.broker == "b2")
                await s.publish({"n": 1})
                assert await take(subscription, 1) == [1]
                assert s.receipt is not None
                assert not s.receipt.session_lost
            assert s.state.kind == "closed"
            kinds = [state.kind for state in seen]
            assert kinds == ["attached", "away", "attached", "closed"]
            assert await watched == ["connecting", *kinds]
            assert str(seen[1]).startswith("away from b1: ")

    async def _kinds(client: Any) -> list[str]:
        return [state.kind async for state in client.states()]

    run(scene)


def test_of_several_brokers_one_that_answers_is_found() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(await unused(), await unused(), broker.address) as c:
            await c.attached()
            assert c.state.broker == "b1"
        await broker.stop()

    run(scene)


def test_when_nobody_listens_a_client_says_so_instead_of_waiting_for_ever() -> None:
    async def scene() -> None:
        nowhere = await unused()
        async with connect(nowhere) as c:
            await until(lambda: c.state.reason)
            with pytest.raises(NotConnected, match=f"connecting: {nowhere}: connection refused"):
                await c.attached(timeout=0)
            waiting = asyncio.create_task(c.subscribe("n = 1"))
            await a_turn()
            with pytest.raises(TimeoutError):
                await c.drain(timeout=0)
        with pytest.raises(NotConnected):
            await waiting

    run(scene)


def test_events_that_no_broker_has_are_no_secret_when_the_client_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LEAVE_S", 0.01)

    async def scene() -> None:
        async def go() -> None:
            async with connect(await unused()) as c:
                c.publish({"n": 1})
                c.publish({"n": 2})

        with pytest.raises(NotConnected, match="no broker has 2 of its events"):
            await go()

    run(scene)


def test_a_client_that_goes_at_once_first_hands_over_what_it_has_published() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(broker.address, name="s") as s:
            subscription = await s.subscribe("n >= 0")
            async with connect(broker.address) as p:
                for n in range(300):
                    p.publish({"n": n})
            assert await take(subscription, 300) == list(range(300))
        await broker.stop()

    run(scene)


def test_a_client_without_a_name_leaves_nothing_behind_and_one_with_a_name_its_session() -> None:
    async def scene() -> None:
        broker = await small_broker()
        sessions = broker.node.machine.sessions._sessions  # type: ignore[attr-defined]
        async with connect(broker.address) as nameless, connect(broker.address, name="ann") as ann:
            await nameless.subscribe("n = 1")
            await ann.subscribe("n = 1")
        await until(lambda: nameless.name not in sessions)
        assert "ann" in sessions
        await broker.stop()

    run(scene)


def test_a_client_that_has_lost_its_memory_is_understood_nevertheless() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(broker.address, name="s") as s:
            subscription = await s.subscribe("n >= 0")
            for n in range(3):  # three lives of one publisher
                async with connect(broker.address, name="p") as p:
                    await p.publish({"n": n})
            assert await take(subscription, 3) == [0, 1, 2]
        await broker.stop()

    run(scene)


def test_a_client_without_memory_gets_what_waits_for_subscriptions_that_it_asks_for_later() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(broker.address, name="p") as p:
            for life in range(3):
                async with connect(broker.address, name="s", confirm="read") as s:
                    one = await s.subscribe("n < 10", name="one")
                    two = await s.subscribe("n >= 10", name="two")
                    if life:
                        assert await take(one, 2) == [2 * life, 2 * life + 1]
                        assert await take(two, 2) == [20 * life, 20 * life + 1]
                for n in (0, 1):
                    p.publish({"n": 2 * (life + 1) + n})
                    p.publish({"n": 20 * (life + 1) + n})
                await p.drain()
        await broker.stop()

    run(scene)


# ------------------------------------------------------------ without a connection


def test_the_buffer_is_bounded_and_what_had_to_go_is_told() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with AsyncExitStack() as stack:
            s = await stack.enter_async_context(connect(broker.address, name="s"))
            subscription = await s.subscribe("n >= 0")
            nowhere = await unused()
            p = await stack.enter_async_context(connect(nowhere, name="p", buffer=3))
            asked = [p.publish({"n": n}) for n in range(5)]
            assert (p.buffered, p.lost) == (3, 2)
            with pytest.raises(NotConnected, match="the buffer is full"):
                await asked[0]
            with pytest.raises(TimeoutError):
                await p.room(timeout=0)
            await p.move(broker.address)
            await p.drain()
            await asyncio.gather(*asked[2:])
            assert await take(subscription, 3) == [2, 3, 4]
        await broker.stop()

    run(scene)


def test_what_nobody_wants_is_not_sent() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(broker.address, name="s") as s, connect(broker.address, name="p", quench=True) as p:
            subscription = await s.subscribe("n >= 10")
            await p.attached()
            await p.drain()
            await until(lambda: p.machine.outbox._filter is not None)
            await p.publish({"n": 1})
            await p.publish({"n": 10})
            assert p.quenched == 1
            assert await take(subscription, 1) == [10]
        await broker.stop()

    run(scene)


def test_who_does_not_read_holds_up_itself_until_it_reads_or_wants_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_inbox, "UNREAD_MAX", 8)

    async def scene() -> None:
        broker = await small_broker()
        config = ClientConfig(confirm_every=1)
        async with (
            connect(broker.address, name="s", config=config) as s,
            connect(broker.address, name="quick") as quick,
            connect(broker.address, name="p") as p,
        ):
            slow, fast = await s.subscribe("n >= 0"), await quick.subscribe("n >= 0")
            for n in range(2_000):
                await p.room()
                p.publish({"n": n, "filler": "x" * 500})
                if n % 100 == 0:
                    await p.flushed()
            assert await take(fast, 2_000) == list(range(2_000))
            assert await take(slow, 1_000) == list(range(1_000))
            await slow.unsubscribe()
            other = await s.subscribe("n = -1")
            await p.publish({"n": -1})
            assert await take(other, 1) == [-1]
        await broker.stop()

    run(scene)


# ------------------------------------------------------------ small things


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("127.0.0.1:80", Address("127.0.0.1", 80)),
        ("example.org", Address("example.org", 7077)),
        ("[::1]:80", Address("::1", 80)),
        ("[::1]", Address("::1", 7077)),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, meant: Address) -> None:
    assert address(text) == meant


@pytest.mark.parametrize("text", ["", ":80", "host:", "host:x", "host:0", "host:65536"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(GodwitError, match=r"must be host:port, such as 127\.0\.0\.1:7077"):
        address(text)


def test_a_client_that_says_no_name_bears_that_of_its_user() -> None:
    assert connect(user="ann").name.startswith("ann/client-")
    assert connect().name.startswith("client-")


def test_the_package_offers_the_client_and_loads_it_only_when_it_is_asked_for() -> None:
    said = "import sys, godwit; print('asyncio' in sys.modules); godwit.connect; print('asyncio' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, check=True, text=True)
    assert ran.stdout.split() == ["False", "True"]
    assert godwit.connect is connect
    assert all(hasattr(godwit, name) for name in godwit.__all__)
    with pytest.raises(AttributeError, match="'godwit' has no attribute 'gone'"):
        godwit.gone  # noqa: B018


def test_the_subscription_reaches_the_next_broker() -> None:
    async def scene() -> None:
        async with two_brokers() as (b1, b2), connect(b1.address, name="p") as p, connect(b2.address, name="s") as s:
            await linked(b1, b2)
            subscription = await s.subscribe("n >= 0")
            await wanted_at(b1, 1)
            await p.publish({"n": 4})
            assert (await subscription.next(30)).publisher == "p"

    run(scene)


# ------------------------------------------------------------ without a loop


def test_a_program_without_a_loop_has_languages_stores_and_callbacks(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await small_broker()
        await asyncio.get_running_loop().run_in_executor(None, use, broker.address)
        await broker.stop()

    def use(at: Address) -> None:
        came: Queue[Any] = Queue()
        with godwit.connect_blocking(at, name="s", store=tmp_path / "s") as s:

            def answer(event: godwit.Event) -> None:
                s.publish({"answer": event.attributes["name"]}, wait=True)  # it is not in the thread of the loop
                came.put(event.attributes["name"])

            s.subscribe("LENGTH(name) > 3", language="cesql", name="long", callback=answer)
            answers = s.subscribe("answer IS NOT NULL")
            for name in ("Bob", "Anna", "Cleo"):
                s.publish({"name": name})
            assert [came.get(timeout=30) for _ in range(2)] == ["Anna", "Cleo"]
            assert [answers.next(30).attributes["answer"] for _ in range(2)] == ["Anna", "Cleo"]
            found = s.subscriptions["long"]
            assert (found.wanted, found.residues, found.failed, found.last_failure, s.residues) == (2, 1, 0, "", 1)
        with godwit.connect_blocking(at, name="s", store=tmp_path / "s") as s:
            s.subscriptions["long"].call(lambda event: came.put(event.attributes["name"]))
            s.publish({"name": "Dora"})
            while (name := came.get(timeout=30)) != "Dora":
                assert name in ("Anna", "Cleo")  # not confirmed when the first one was closed

    run(scene)


def test_a_program_without_a_loop_has_the_same_client() -> None:
    async def scene() -> None:
        broker = await small_broker()
        await asyncio.get_running_loop().run_in_executor(None, use, broker.address)
        await broker.stop()

    def use(at: Address) -> None:
        states: list[str] = []
        with (
            godwit.connect_blocking(at, name="s", on_state=lambda state: states.append(state.kind)) as s,
            godwit.connect_blocking(at, name="p") as p,
        ):
            subscription = s.subscribe("n >= 10", sender="floor = 2", name="mine")
            p.set_context({"floor": 2})
            for n in range(30):
                p.publish({"n": n})
            p.drain(30)
            assert [subscription.next(30).attributes["n"] for _ in range(20)] == list(range(10, 30))
            with pytest.raises(TimeoutError):
                subscription.next(0.001)
            assert list(subscription.events(timeout=0.001)) == []
            subscription.replace("n < 0")
            sent = p.publish({"n": -1}, wait=True)
            assert sent is not None
            assert next(iter(subscription)).id == sent.id
            p.advertise("n = 1")
            with pytest.raises(Refused):
                p.publish({"n": 2}, wait=True)
            p.unadvertise()
            assert (s.state.kind, s.state.broker, s.name) == ("attached", "b1", "s")
            subscription.unsubscribe()
        assert states == ["attached", "closed"]
        with pytest.raises(NotConnected, match="the client is closed"):
            s.drain()

    run(scene)


def test_a_blocking_client_that_nobody_has_entered_says_so() -> None:
    with pytest.raises(NotConnected, match=r"with godwit\.connect_blocking"):
        godwit.connect_blocking("127.0.0.1:1").publish({"n": 1})


# ------------------------------------------------------------ what is kept, what is shared, who has no memory


def test_what_is_kept_comes_to_whoever_asks_for_it_later_until_it_is_cleared() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with connect(broker.address, name="p") as p:
            await p.publish({"n": 1, "topic": "t"}, retain="t")
            await p.publish({"n": 2, "topic": "t"}, retain="t")
            await p.publish({"n": 3, "topic": "u"}, retain="u")
            async with connect(broker.address) as s:
                kept = await s.subscribe("n >= 0", retained=True)
                assert sorted(await take(kept, 2)) == [2, 3]
                only_new = await s.subscribe("n >= 0")
                await p.publish({"n": 4, "topic": "u"}, retain="u", clear=True)
                assert await take(only_new, 1) == [4]
            async with connect(broker.address) as s:
                kept = await s.subscribe("n >= 0", retained=True)
                assert await take(kept, 1) == [2]
        await broker.stop()

    run(scene)


def test_of_a_group_one_member_gets_each_event() -> None:
    async def scene() -> None:
        broker = await small_broker()
        async with (
            connect(broker.address, name="a") as a,
            connect(broker.address, name="b") as b,
            connect(broker.address, name="p") as p,
        ):
            shares = [await each.subscribe("n >= 0", share="workers") for each in (a, b)]
            for n in range(40):
                p.publish({"n": n})
            await p.drain()
            await until(lambda: sum(map(len, shares)) >= 40)
            came = [await take(share, len(share)) for share in shares]
            assert sorted(came[0] + came[1]) == list(range(40))
            assert all(came)
        await broker.stop()

    run(scene)


def test_by_its_name_alone_a_client_without_memory_finds_its_session_at_another_broker() -> None:
    async def scene() -> None:
        async with two_brokers() as (b1, b2), connect(b1.address, name="p") as p:
            await linked(b1, b2)
            n = 0
            for home in (b1, b2, b1, b2):
                async with connect(home.address, name="s", mode="named", confirm="read") as s:
                    subscription = await s.subscribe("n >= 0", name="mine")
                    if n:
                        assert await take(subscription, 3) == [n - 3, n - 2, n - 1]
                for _ in range(3):
                    p.publish({"n": n})
                    n += 1
                await p.drain()

    run(scene)


def test_a_client_whose_session_another_program_has_used_says_so() -> None:
    async def scene() -> None:
        broker = await small_broker()
        states: list[str] = []
        async with connect(
            broker.address, name="c", mode="named", on_state=lambda state: states.append(str(state))
        ) as c:
            await c.subscribe("n = 1", name="one")
            async with connect(broker.address, name="c", mode="named") as other:
                await other.subscribe("n = 1", name="one")
                await other.subscribe("n = 2", name="two")
                await until(lambda: any("does another program use its name?" in state for state in states))
            assert states[1].endswith("another connection with the same client name has taken over the session")
        await broker.stop()

    run(scene)


def test_a_refusal_of_a_past_life_is_no_news_to_a_client_without_memory() -> None:
    async def scene() -> None:
        broker = await small_broker()
        for _ in range(3):
            async with connect(broker.address, name="p", mode="named") as p:
                await p.advertise("n = 1")
                with pytest.raises(Refused):
                    await p.publish({"n": 2})
                await p.publish({"n": 1})
                assert len(p.machine.refusals) == 1
        await broker.stop()

    run(scene)
