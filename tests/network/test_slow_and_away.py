"""A reader that is slow costs nobody else anything, and a broker that is off costs its clients nothing but time."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from godwit.mobility.relocation import Relocation
from godwit.runtime import client_inbox
from tests.network.fleet import Fleet, fleet, hasten
from tests.network.proxy import Proxy
from tests.network.waiting import run, until

EVENTS = 1_500
TEXT = "x" * 1_000
LINE = (("b0", "b1"), ("b1", "b2"))


async def slow_and_quick(every: Fleet) -> Proxy:
    """Two who want the same, of whom one comes through a proxy of its own, and a publisher."""
    own = Proxy(every.stations["b0"].address)
    await own.start()
    every.links["slow", "b0"] = own
    slow = await every.come("slow", "b0")
    await slow.move(own.address)
    await every.book.listen(slow, "n >= -1")
    await every.book.listen(await every.come("quick", "b0"), "n >= -1")
    await every.come("p", "b1")
    await every.settled()
    await until(lambda: len(own.pairs) == 1, "the slow one comes through its proxy")
    return own


def test_a_connection_that_stands_still_does_not_slow_others() -> None:
    async def scene() -> None:
        async with fleet([("b0", "b1")]) as every:
            own = await slow_and_quick(every)
            own.stall()
            book, p = every.book, every.clients["p"]
            for n in range(EVENTS):
                book.publish(p, {"n": n, "text": TEXT})
                if n % 500 == 0:
                    await p.drain()
            await until(lambda: book.count("quick") == EVENTS, "the quick one has all")
            assert book.count("slow") < EVENTS
            session = every.stations["b0"].machine.sessions.session("slow")
            assert session is not None
            assert len(session.queue) == EVENTS - book.count("slow")
            own.go_on()
            await book.finished([p], 2)
            book.check()

    run(scene)


def test_an_application_that_does_not_read_holds_up_its_own_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_inbox, "UNREAD_MAX", 64)

    async def scene() -> None:
        async with fleet([("b0", "b1")]) as every:
            lazy = await every.come("lazy", "b0")
            subscription = await lazy.subscribe("n >= 0")
            quick = await every.come("quick", "b0")
            await every.book.listen(quick, "n >= -1")
            p = await every.come("p", "b1")
            await every.settled()
            for n in range(EVENTS):
                every.book.publish(p, {"n": n})
                if n % 500 == 0:
                    await p.drain()
            await until(lambda: every.book.count("quick") == EVENTS, "the quick one has all")
            assert lazy.machine.notified < EVENTS // 2  # as much as may be unread, and what was under way then
            assert [(await subscription.next()).attributes["n"] for _ in range(EVENTS)] == list(range(EVENTS))

    run(scene)


async def while_a_broker_is_off(folder: Path, off_s: float) -> None:
    async with fleet(LINE, folder) as every:
        book, brokers = every.book, ("b0", "b1", "b2")
        for name in ("s0", "s1"):
            await book.listen(await every.come(name, "b1"), "n >= -1")
        for broker in brokers:  # these stay
            await book.listen(await every.come(f"at {broker}", broker), "n >= -1")
        p0, p1 = await every.come("p0", "b1"), await every.come("p1", "b2")
        await every.settled()

        n = 0

        def publish(count: int) -> None:
            nonlocal n
            for _ in range(count):
                n += 1
                for publisher in (p0, p1):
                    book.publish(publisher, {"n": n})

        publish(20)
        await p0.drain()
        await every.stations["b1"].stop()
        publish(20)  # p0 has nobody who takes them
        await every.roam("s0", "b0")
        await every.roam("s1", "b2")
        await every.roam("p0", "b2")

        def waits(client: str, broker: str) -> bool:
            return client in every.stations[broker].machine.component(Relocation).arrivals

        await until(lambda: waits("s0", "b0") and waits("s1", "b2") and waits("p0", "b2"), "they have come elsewhere")
        before = book.count("at b2")
        publish(20)
        await until(lambda: book.count("at b2") >= before + 20, "who is where nothing is off goes on")
        await every.roam("s1", "b0")
        await until(lambda: waits("s1", "b0"), "it has come to the other side")
        with suppress(TimeoutError):
            async with asyncio.timeout(off_s):
                await asyncio.get_running_loop().create_future()
        publish(20)
        assert not every.clients["s0"].machine.is_attached
        await every.stations["b1"].start()
        await book.finished([p0, p1], 5)
        book.check()
        assert not any(receipt.session_lost for client in every.clients.values() for receipt in client.receipts)
        assert every.clients["s0"].machine.home == every.clients["s1"].machine.home == "b0"


def test_a_broker_is_off_while_its_clients_roam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    run(lambda: while_a_broker_is_off(tmp_path, 0.0))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_broker_is_off_for_a_minute_while_its_clients_roam(tmp_path: Path) -> None:
    run(lambda: while_a_broker_is_off(tmp_path, 60.0), 200.0)
