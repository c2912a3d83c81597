"""Contexts and replicas: a client with sessions at several brokers is one client, with one context at all of them."""

from random import Random
from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Notify
from godwit.client import Client, ReplicaConfig, ReplicatedClient
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.simulator.world import World
from tests.seeds import few

BROKERS = ("b1", "b2", "b3", "b4")
LINKS = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"))
FAMILIES = {
    "tree": BrokerConfig(advertisements="off"),
    "gsf": BrokerConfig(family="graph", advertisements="off"),
    "spcf": BrokerConfig(family="graph", strategy="spcf", advertisements="off"),
}
WANTED = parse("sender.floor >= 2")


class House:
    """Four brokers in a row, a replicated reader at both ends, and publishers on some floors."""

    def __init__(self, family: str, seed: int) -> None:
        self.world = World(seed)
        self.rng = Random(seed)
        self.came: list[tuple[str, int]] = []
        self.world.on_notify = self._on_notify
        for name in BROKERS:
            beside = {b if a == name else a: 1.0 for a, b in LINKS if name in (a, b)}

            def make(life: int, name: str = name, beside: dict[str, float] = beside) -> Broker:
                return mobile_broker(name, beside, FAMILIES[family], life)

            self.world.add_broker(name, make, journaled=False)
        for a, b in LINKS:
            self.world.wire(a, b, 0.01, None)
            self.world.connect(a, b)
        self._add("reader", ReplicatedClient("reader", ("b1", "b4"), ReplicaConfig()), "b1", "b4")
        for number, broker in enumerate(BROKERS):
            self._add(f"p{number}", Client(f"p{number}"), broker)
        self.say("reader", "subscribe", "high", WANTED)

    def _add(self, name: str, machine: Any, *brokers: str) -> None:
        self.world.add_client(name, machine)
        for broker in brokers:
            self.world.wire(name, broker, 0.005, None)
            self.world.connect(name, broker)

    def say(self, name: str, what: str, *arguments: Any, **more: Any) -> None:
        self.world.command(name, lambda machine, now: getattr(machine, what)(*arguments, now, **more))

    def settle(self) -> None:
        self.world.run(self.world.now + 40.0)

    def _on_notify(self, node: str, notify: Notify, now: float) -> None:
        assert node == "reader"
        self.came.append(notify.event.id)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", few(range(6), 2))
def test_a_replicated_client_gets_each_event_that_is_wanted_and_meant_once_and_in_order(family: str, seed: int) -> None:
    house = House(family, seed)
    owed: list[tuple[str, int]] = []
    sequences = dict.fromkeys((f"p{number}" for number in range(4)), 0)
    for _ in range(8):
        role = house.rng.choice(["medic", "pilot"])
        floors = {name: house.rng.randrange(5) for name in sequences}
        house.say("reader", "set_context", {"role": role}, part="job")
        for name, floor in floors.items():
            house.say(name, "set_context", {"floor": floor})
        if house.rng.random() < 0.5:  # one of its ways breaks; what is meant is decided where the event is
            end = house.rng.choice(["b1", "b4"])
            house.world.disconnect("reader", end)
            house.settle()
            house.world.connect("reader", end)
        house.settle()
        for name, floor in floors.items():
            to: Filter | None = house.rng.choice([None, parse("role = 'medic'"), parse("role = 'nobody'")])
            house.say(name, "publish", {"kind": "alarm"}, to=to)
            sequences[name] += 1
            if floor >= 2 and (to is None or to.holds({"role": role})):
                owed.append((name, sequences[name]))
        house.settle()
    assert sorted(house.came) == sorted(owed)
    for name in sequences:
        assert [number for who, number in house.came if who == name] == [number for who, number in owed if who == name]


def test_a_replica_that_kept_an_older_context_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ReplicatedClient.set_context

    def to_one_alone(self: ReplicatedClient, *arguments: Any, **more: Any) -> Any:
        effects = whole(self, *arguments, **more)
        return [effect for effect in effects if getattr(effect, "connection", "") != "b4"]

    monkeypatch.setattr(ReplicatedClient, "set_context", to_one_alone)
    law = test_a_replicated_client_gets_each_event_that_is_wanted_and_meant_once_and_in_order
    with pytest.raises(AssertionError):
        [law("tree", seed) for seed in range(6)]
