"""[spcf §2, Tables 1 and 2]: the fire monitoring system, in the traditional and the context-aware interface. Claim S1.

*Theory.* Sprinklers, smoke detectors, signals and a planner stand in a building, each at the broker of its floor and
side. Smoke makes a detector publish an alert; the sprinklers of that floor within 30 m along both axes open; the
planner receives it and orders the signals west of the fire to point west, and those east of it to point east.

In the *context-aware* interface (Table 2) places are contexts: sprinklers ask about the sender's, and the planner says
whose it means. In the *traditional* one (Table 1) places are content. That is plain for sprinklers. For signals Table 1
puts a constraint into the message and a datum into the subscription ("matching inversion"), which no content-based
system matches; here the message bears the place of the fire, and each signal compares it with its own.

Who must react is computed a third way: from the coordinates alone, without filters.

*Departures.* Table 1 and 2 leave out the floor, which the text names; it is a third coordinate here.
"""

from random import Random

import msgspec

from godwit.broker.messages import NodeId
from godwit.filters.contexts import of_sender, stamped
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, all_of, some
from godwit.filters.sets import between, less_than, more_than, one_of, starts_with
from godwit.reproduce.spcf.routing_net import Net, net_of
from godwit.simulator.topologies import random_graph

__all__ = ["Building", "Reactions", "reactions", "run_fire"]

REACH_M = 30.0
FLOORS = 4
LONG_M, WIDE_M = 200.0, 80.0
PLANNER = "planner"

Reactions = list[frozenset[tuple[NodeId, str]]]
"""For each fire, who was given what."""


class Device(msgspec.Struct, frozen=True):
    """What stands where."""

    name: NodeId
    kind: str
    x: float
    y: float
    floor: int

    @property
    def place(self) -> Attributes:
        return {"x": self.x, "y": self.y, "floor": self.floor}


class Building:
    """Devices at places drawn by lot, and the fires that break out."""

    def __init__(self, seed: int, sprinklers: int, signals: int, detectors: int) -> None:
        rng = Random(f"{seed}/building")
        counts = {"sprinkler": sprinklers, "signal": signals, "detector": detectors}
        self.devices = [
            Device(
                f"{kind}{number}",
                kind,
                round(rng.uniform(0, LONG_M), 1),
                round(rng.uniform(0, WIDE_M), 1),
                rng.randrange(FLOORS),
            )
            for kind, count in counts.items()
            for number in range(count)
        ]
        self.overlay = random_graph(2 * FLOORS, 3, rng)

    def of(self, kind: str) -> list[Device]:
        return [device for device in self.devices if device.kind == kind]

    def home(self, device: Device) -> NodeId:
        """A broker for each half of each floor."""
        return self.overlay.brokers[2 * device.floor + (device.x > LONG_M / 2)]


def reactions(building: Building) -> Reactions:
    """By the coordinates alone: for each detector that smells smoke, who must be given what."""
    found: Reactions = []
    for fire in building.of("detector"):
        meant: set[tuple[NodeId, str]] = {(PLANNER, "Alert")}
        for device in building.devices:
            near = abs(device.x - fire.x) <= REACH_M and abs(device.y - fire.y) <= REACH_M
            if device.kind == "sprinkler" and near and device.floor == fire.floor:
                meant.add((device.name, "Alert"))
            if device.kind == "signal" and device.x != fire.x:
                meant.add((device.name, "EvacuateL" if device.x < fire.x else "EvacuateR"))
        found.append(frozenset(meant))
    return found


# ---------------------------------------------------------------- the two interfaces


def _around(device: Device) -> Filter:
    """Places on this floor, within reach along both axes."""
    return all_of(
        some("floor", one_of([device.floor])),
        some("x", between(device.x - REACH_M, device.x + REACH_M)),
        some("y", between(device.y - REACH_M, device.y + REACH_M)),
    )


def _is(kind: str) -> Filter:
    return some("msgType", one_of([kind]))


def _traditional(net: Net, device: Device) -> None:
    """Table 1: the subscriptions of a device."""
    if device.kind == "sprinkler":
        net.subscribe(device.name, "near", all_of(_is("Alert"), _around(device)))
    if device.kind == "signal":
        net.subscribe(device.name, "left", all_of(_is("EvacuateL"), some("fire_x", more_than(device.x))))
        net.subscribe(device.name, "right", all_of(_is("EvacuateR"), some("fire_x", less_than(device.x))))


def _context_aware(net: Net, device: Device) -> None:
    """Table 2: the subscriptions of a device."""
    if device.kind == "sprinkler":
        net.subscribe(device.name, "near", all_of(_is("Alert"), of_sender(_around(device))))
    if device.kind == "signal":
        net.subscribe(device.name, "evacuate", some("msgType", starts_with("Evacuate")))


def run_fire(building: Building, strategy: str, *, with_context: bool) -> Reactions:
    """Let every detector smell smoke, one after the other."""
    net = net_of(strategy, building.overlay)
    for device in building.devices:
        net.set_context(device.name, device.place if with_context else {}, building.home(device))
    net.set_context(PLANNER, {}, building.overlay.brokers[0])
    for device in building.devices:
        (_context_aware if with_context else _traditional)(net, device)
    net.subscribe(PLANNER, "alerts", _is("Alert"))
    found: Reactions = []
    for number, fire in enumerate(building.of("detector")):
        alert = Event({"msgType": "Alert", **fire.place}, fire.name, number)
        given = [(who, "Alert") for who in net.publish(stamped(alert, fire.place) if with_context else alert)]
        if (PLANNER, "Alert") in given:
            for turn, (kind, side) in enumerate({"EvacuateL": less_than, "EvacuateR": more_than}.items()):
                order = Event({"msgType": kind, "fire_x": fire.x}, PLANNER, 2 * number + turn)
                if with_context:
                    order = Event({"msgType": kind}, PLANNER, 2 * number + turn, to=some("x", side(fire.x)))
                given += [(who, kind) for who in net.publish(order)]
        assert len(given) == len(set(given)), "nobody is given anything twice"
        found.append(frozenset(given))
    return found
