"""A broker whose machine has a fault starts again from its journal: its peers come back, and nothing is lost."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Effect
from godwit.broker.messages import EntryId
from godwit.filters.events import Event
from godwit.mobility import mobile_broker
from tests.network.fleet import fleet, hasten
from tests.network.waiting import run


def fragile(config: BrokerConfig, failed: dict[int, None]) -> Broker:
    """A broker that fails at some events, each time for the first time it sees them in this process."""
    broker = mobile_broker("b0", {"b1": 1.0}, config)
    intact = broker.sessions.deliver

    def deliver(event: Event, ids: Iterable[EntryId], now: float) -> list[Effect]:
        n = event.attributes["n"]
        assert isinstance(n, int)
        if n % 10 == 7 and n not in failed:
            failed[n] = None
            raise RuntimeError(f"a fault at {n}")
        return intact(event, ids, now)

    broker.sessions.deliver = deliver  # type: ignore[method-assign, assignment]
    return broker


@pytest.mark.parametrize("durability", ["relaxed", "full"])
def test_a_fault_in_the_machine_costs_a_start_and_nothing_else(
    tmp_path: Path, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    failed: dict[int, None] = {}
    config = BrokerConfig()
    makes = {
        "b0": lambda: fragile(config, failed),
        "b1": lambda: mobile_broker("b1", {"b0": 1.0}, config),
    }

    async def scene() -> None:
        async with fleet([("b0", "b1")], tmp_path, durability, makes=makes) as every:
            s = await every.come("s", "b0")
            await every.book.listen(s, "n >= -1")
            p, q = await every.come("p", "b0"), await every.come("q", "b1")
            await every.settled()
            for n in range(50):
                every.book.publish(p, {"n": n})
                every.book.publish(q, {"n": n})
                if n % 4 == 0:
                    await p.drain()
            await every.book.finished([p, q], 1)
            every.book.check()
            station = every.stations["b0"]
            assert len(station.troubles) == len(failed) == 5
            assert station.troubles[0] == "RuntimeError in the broker's machine, at Heard: a fault at 7"
            assert not any(receipt.session_lost for client in (p, q, s) for receipt in client.receipts)

    run(scene)


def test_without_a_journal_a_fault_in_the_machine_costs_only_who_has_sent_what_it_failed_at() -> None:
    failed: dict[int, None] = {}
    config = BrokerConfig()
    makes = {
        "b0": lambda: fragile(config, failed),
        "b1": lambda: mobile_broker("b1", {"b0": 1.0}, config),
    }

    async def scene() -> None:
        async with fleet([("b0", "b1")], makes=makes) as every:
            s = await every.come("s", "b0")
            subscription = await s.subscribe("n >= 0")
            p, *others = [await every.come(name, "b0") for name in ("p", "q", "r")]
            p.publish({"n": 7})
            for n in range(10, 16):
                for other in others:
                    other.publish({"n": n})
            for other in others:
                await other.drain()
                assert len(other.receipts) == 1  # it was never let go
            events = [await subscription.next() for _ in range(12)]
            came = sorted((event.publisher, event.attributes["n"]) for event in events)
            assert came == [(name, n) for name in ("q", "r") for n in range(10, 16)]
            p.publish({"n": 8})
            await p.drain()
            assert (await subscription.next()).attributes["n"] == 8
            assert len(p.receipts) == 2
            assert len(every.stations["b0"].troubles) == 1

    run(scene)
