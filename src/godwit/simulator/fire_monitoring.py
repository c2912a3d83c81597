"""The fire monitoring example of [spcf §2]: a building with detectors, sprinklers and signals, and a planner.

*Theory.* When a detector finds smoke it publishes an alert. Sprinklers on the same floor, at most 30 m away along both
axes, turn on. The planner receives every alert and publishes two orders: `EvacuateL` to the signals west of the fire,
which then point to the western exit, and `EvacuateR` to those east of it. Some detectors and signals are portable, and
report their position when they are put down.

| device | traditional interface [spcf Table 1] | context-aware interface [spcf Table 2] |
|---|---|---|
| detector | says where it is in each alert | says where it is as its context |
| sprinkler | wants alerts whose content is near | wants alerts whose sender is near |
| signal | says where it is to its broker; wants every order | the same, as its context |
| planner | wants every alert; its orders bear whom they mean | the same |

In the traditional interface the address of an order is tested at the last broker [spcf §4], as in the strategy `gsf`.
So the two columns differ in the messages of detectors and sprinklers, and each can be run with each strategy.

*Rules.*
1. The expected result is computed from the positions of the devices, in metres, without filters; the law *fire*
   compares.
2. A device that was being moved, or has just reconnected, may or may not receive an event: it is counted as `unsure`.
3. No device is moved within the last third of the time before a fire.

*Paper.* [spcf §2, Tables 1, 2]. *Departures.* The tables leave out the floor, which the text has. Filters have no
arithmetic, so a sprinkler writes the bounds around its own position into its filter.
"""

from dataclasses import dataclass, replace

from godwit.broker.effects import Notify
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, all_of, some
from godwit.filters.sets import between, less_than, more_than, one_of, starts_with
from godwit.filters.values import Value
from godwit.simulator.client_requests import ClientRequests
from godwit.simulator.ledger import NEVER, EventHistory, EventId, Ledger
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.recorder import Recorder
from godwit.simulator.scenario import Fire, Scenario
from godwit.simulator.world import World

__all__ = ["Building", "BuildingDevice", "FireMonitoring", "orders", "place_devices"]

PLANNER = "planner"
ALERT, LEFT, RIGHT = "Alert", "EvacuateL", "EvacuateR"
CARRIED_UNTIL = 0.6  # of the time between two fires


@dataclass(frozen=True, slots=True)
class BuildingDevice:
    """One of the building's devices, and where it is, in metres from its south-western corner."""

    name: str
    kind: str
    floor: int
    x: float
    y: float
    is_carried: bool = False

    @property
    def context(self) -> Attributes:
        """Its reported position."""
        return {"x": self.x, "y": self.y, "floor": self.floor}


class Building:
    """The positions of all devices."""

    def __init__(self, spec: Fire, streams: RandomStreams) -> None:
        self.spec = spec
        self._streams = streams
        self.devices: dict[str, BuildingDevice] = {}
        for kind, count in (("detector", spec.detectors), ("sprinkler", spec.sprinklers), ("signal", spec.signals)):
            for number in range(count * spec.floors):
                name = f"{kind}{number}"
                is_carried = kind != "sprinkler" and streams.single_use("carried", name).random() < spec.carried
                device = BuildingDevice(name, kind, number % spec.floors, *self._spot(name), is_carried)
                self.devices[device.name] = device

    def _spot(self, name: str) -> tuple[float, float]:
        """A random position, to half a metre: such numbers add up exactly."""
        width_m, depth_m, rng = self.spec.width_m, self.spec.depth_m, self._streams.stream("position", name)
        return round(2 * rng.uniform(0, width_m)) / 2, round(2 * rng.uniform(0, depth_m)) / 2

    def of_kind(self, kind: str) -> list[BuildingDevice]:
        """All devices of a kind, at their present positions."""
        return [device for device in self.devices.values() if device.kind == kind]

    def carry(self, name: str) -> BuildingDevice:
        """Move a device to another position on its floor."""
        x, y = self._spot(name)
        self.devices[name] = moved = replace(self.devices[name], x=x, y=y)
        return moved

    def broker(self, device: BuildingDevice, brokers: tuple[str, ...]) -> str:
        """The broker of a part of the building: floor by floor, from west to east."""
        each = max(1, len(brokers) // self.spec.floors)
        column = min(int(device.x / self.spec.width_m * each), each - 1)
        return brokers[min(device.floor * each + column, len(brokers) - 1)]


# ---------------------------------------------------------------- what devices say and want


def alert(device: BuildingDevice, spec: Fire) -> Attributes:
    """What a detector publishes. [spcf Tables 1, 2: row 2]"""
    said: dict[str, Value] = {"msgType": ALERT, "x": device.x, "y": device.y}
    return said if spec.interface == "context" else {**said, "floor": device.floor}


def near(device: BuildingDevice, spec: Fire) -> Filter:
    """The floor and the bounds around a sprinkler. [spcf Tables 1, 2: row 1]"""
    reach_m = spec.reach_m
    return all_of(
        some("floor", one_of([device.floor])),
        some("x", between(device.x - reach_m, device.x + reach_m)),
        some("y", between(device.y - reach_m, device.y + reach_m)),
    )


def wish(device: BuildingDevice, spec: Fire) -> tuple[Filter, Filter | None]:
    """The subscription of a sprinkler or a signal: content, and the sender's context if it is used."""
    if device.kind == "signal":
        return some("msgType", starts_with("Evacuate")), None
    is_alert = some("msgType", one_of([ALERT]))
    if spec.interface == "traditional":
        return all_of(is_alert, near(device, spec)), None
    return is_alert, near(device, spec)


def orders(alarm: Event) -> list[tuple[Attributes, Filter]]:
    """The orders of the planner after an alert, with their addresses. [spcf Tables 1, 2: row 4]"""
    x = alarm.attributes["x"]
    assert isinstance(x, int | float)
    return [({"msgType": LEFT}, some("x", less_than(x))), ({"msgType": RIGHT}, some("x", more_than(x)))]


# ---------------------------------------------------------------- in a run


def place_devices(building: Building, brokers: tuple[str, ...]) -> dict[str, str]:
    """The broker of the planner and of each device."""
    devices = building.devices.values()
    return {PLANNER: brokers[0], **{device.name: building.broker(device, brokers) for device in devices}}


class FireMonitoring:
    """A building with devices, which are clients in addition to all others."""

    def __init__(
        self,
        scenario: Scenario,
        streams: RandomStreams,
        world: World,
        network: Network,
        population: Population,
        requests: ClientRequests,
        ledger: Ledger,
        recorder: Recorder,
        building: Building,
    ) -> None:
        self.building = building
        self._scenario = scenario
        self._spec = scenario.fire
        self._streams = streams
        self._world = world
        self._network = network
        self._requests = requests
        self._ledger = ledger
        self._recorder = recorder
        self._alarms: dict[EventId, BuildingDevice] = {}  # by alert: the detector that gave it
        self._orders: dict[EventId, tuple[str, EventId]] = {}  # by order: its type, and the alert it is due to
        self._positions: dict[EventId, dict[str, BuildingDevice]] = {}  # by alert or order: where all devices were
        population.before_connecting.append(self._declare_first)
        population.after_connecting.append(self._ask_first)
        recorder.listen_to_deliveries(self._on_delivery)

    def plan(self) -> None:
        """Schedule the moves of devices, and the fires."""
        spec, clock = self._spec, self._world.clock
        detectors = [device.name for device in self.building.of_kind("detector")]
        carried = [device.name for device in self.building.devices.values() if device.is_carried]
        for number in range(spec.fires):
            begins_s = self._scenario.run.warmup_s + number * spec.every_s
            for name in carried:
                share = self._streams.stream("carry-times", name).uniform(0.1, CARRIED_UNTIL)
                clock.call_at(begins_s + share * spec.every_s, self._carry, name)
            clock.call_at(begins_s + spec.every_s, self._burn, self._streams.stream("fires").choice(detectors))

    def _declare_first(self, name: str) -> None:
        if name in self.building.devices:
            self._declare(self.building.devices[name])

    def _ask_first(self, name: str) -> None:
        if name == PLANNER:
            self._requests.subscribe(name, "alerts", some("msgType", one_of([ALERT])))
        elif name in self.building.devices:
            device = self.building.devices[name]
            if device.kind != "detector":
                filter, sender = wish(device, self._spec)
                self._requests.subscribe(name, "orders" if device.kind == "signal" else "alerts", filter, sender)

    def _declare(self, device: BuildingDevice) -> None:
        """A device declares its position, if its interface has that in the context."""
        if device.kind == "signal" or (device.kind == "detector" and self._spec.interface == "context"):
            self._requests.set_context(device.name, device.context)

    def _carry(self, name: str) -> None:
        self._declare(self.building.carry(name))

    def _burn(self, name: str) -> None:
        """There is smoke at a detector."""
        id, device = self._next_id(name), self.building.devices[name]
        self._alarms[id] = device
        self._requests.publish(name, alert(device, self._spec), None)

    def _next_id(self, name: str) -> EventId:
        """The id of the event that a device is about to publish; records the positions of all devices."""
        id = (name, self._network.client(name).sequence + 1)
        self._positions[id] = dict(self.building.devices)
        return id

    def _on_delivery(self, client: str, notify: Notify, now: float) -> None:
        if client == PLANNER and notify.event.id in self._alarms:
            self._world.clock.call_at(now, self._evacuate, notify.event)

    def _evacuate(self, alarm: Event) -> None:
        for content, to in orders(alarm):
            id = self._next_id(PLANNER)
            self._orders[id] = (str(content["msgType"]), alarm.id)
            self._requests.publish(PLANNER, content, to)

    # ------------------------------------------------------------ what the building says

    def check(self) -> dict[str, int | bool]:
        """The devices that turned on or switched, compared with the expected ones; each difference is a violation."""
        got: dict[EventId, dict[str, None]] = {}
        for client, deliveries in self._ledger.deliveries.items():
            for _, id, _ in deliveries:
                if client in self.building.devices:
                    got.setdefault(id, {})[client] = None
        wrong = unsure = judged = 0
        for id in (*self._alarms, *self._orders):
            fact, due = self._ledger.facts[id], self._due(id)
            for device in self._concerned(id):
                if not self._scenario.run.judge or not self._is_sure(fact, device.name):
                    unsure += 1
                    continue
                judged += 1
                is_told, must_be = device.name in got.get(id, {}), device.name in due
                if is_told != must_be:
                    wrong += 1
                    text = f"event {id[1]} of {id[0]} {'came, and it is not concerned' if is_told else 'never came'}"
                    self._recorder.violate("fire", text, device.name)
        switched = {LEFT: 0, RIGHT: 0}
        for id, (says, _) in self._orders.items():
            switched[says] += len(got.get(id, {}))
        on = {name for id in self._alarms for name in got.get(id, {})}
        return {
            "alerts": len(self._alarms),
            "orders": len(self._orders),
            "sprinklers_on": len(on),
            "sprinklers": len(self.building.of_kind("sprinkler")),
            "switched_left": switched[LEFT],
            "switched_right": switched[RIGHT],
            "signals": len(self.building.of_kind("signal")),
            "judged": judged,
            "unsure": unsure,
            "all_correct": judged > 0 and wrong == 0,
        }

    def _concerned(self, id: EventId) -> list[BuildingDevice]:
        """The devices that an alert or an order is for, at their last positions."""
        return self.building.of_kind("sprinkler" if id in self._alarms else "signal")

    def _due(self, id: EventId) -> set[str]:
        """The devices that must receive an event, by their positions and that of the fire."""
        says, source = self._orders.get(id, (ALERT, id))
        fire, devices, reach_m = self._alarms[source], self._positions[id], self._spec.reach_m
        if says == LEFT:
            return {name for name, device in devices.items() if device.kind == "signal" and device.x < fire.x}
        if says == RIGHT:
            return {name for name, device in devices.items() if device.kind == "signal" and device.x > fire.x}
        return {
            name
            for name, device in devices.items()
            if device.kind == "sprinkler"
            and device.floor == fire.floor
            and abs(device.x - fire.x) <= reach_m
            and abs(device.y - fire.y) <= reach_m
        }

    def _is_sure(self, fact: EventHistory, name: str) -> bool:
        """Whether the device's subscription and position had settled for this event, and its loss is not excused."""
        ledger = self._ledger
        if fact.entered_at == NEVER or (name, fact.id) in ledger.gone or (name, fact.id) in ledger.died:
            return False
        standings = [standing for standing in ledger.subscriptions.values() if standing.client == name]
        steady = all(standing.is_steady(fact) for standing in standings) and (name, fact.id) not in ledger.overtaken
        context = ledger.contexts.get(name)
        return steady and (context is None or context.is_steady(fact))
