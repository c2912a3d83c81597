"""What brokers were told in simulated runs, and states on the way: to see what depends on which field of a state."""

import types
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import structs

from godwit.adhoc.holdings import HoldingsState
from godwit.baselines import hop_messages
from godwit.broker import gossip_messages, messages
from godwit.broker.effects import Arrived, Closed, Effect, Heard, Input, LinkDown, LinkUp, Opened, TimerDue
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Hello, Publish, Request
from godwit.codec import STATES, DriverState
from godwit.filters.events import Event
from godwit.filters.filters import TRUE, Filter
from godwit.mobility import move_messages as moving
from godwit.mobility.arrival import Arrival
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.publisher_presence import PublisherPresence, PublisherSettings
from godwit.mobility.relocation import Relocation
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario

__all__ = ["Point", "Recorded", "empty", "is_told_apart", "recorded", "said", "state_fields", "without"]

NOT_STATES = {messages.__name__, moving.__name__, gossip_messages.__name__, hop_messages.__name__}
SETTINGS = (Limits, PublisherSettings)

Step = tuple[Input, float, list[Effect]]


class Recorded:
    """What one machine was told, and what it answered."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.steps: list[Step] = []


class Point:
    """A machine's state after so many steps."""

    def __init__(self, of: Recorded, at: int, state: Any) -> None:
        self.of, self.at, self.state = of, at, state

    def restored(self, state: Any) -> Any:
        machine = self.of.make()
        machine.restore(state)
        return machine


def recorded(scenario: Scenario, seed: int, every: int, snapshots_max: int = 400) -> list[Point]:
    """Run a scenario, and keep states of its brokers on the way."""
    simulation = Simulation(scenario, seed)
    random, points, rare = Random(seed), list[Point](), dict[str, int]()
    for node in simulation.world.nodes.values():
        if node.is_broker:
            _record(node, random, every, points, snapshots_max, rare)
    simulation.run()
    return points


def _any_arrival(is_so: Callable[[Arrival], Any]) -> Callable[[Any], bool]:
    return lambda broker: any(map(is_so, broker.component(Relocation).arrivals.values()))


def _any_channel(is_so: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def found(broker: Any) -> bool:
        graph = broker.component(OverlayRoutes).graph
        return graph is not None and any(map(is_so, graph.channels.incoming.values()))

    return found


RARE: dict[str, Callable[[Any], Any]] = {
    "a replay is coming": _any_arrival(lambda arrival: arrival.parts),
    "a barrier is up": _any_arrival(lambda arrival: arrival.flushes),
    "superseded": _any_arrival(lambda arrival: arrival.superseded_by),
    "asked for again": _any_arrival(lambda arrival: arrival.next),
    "vouched for": _any_arrival(lambda arrival: arrival.asserted),
    "trail": _any_arrival(lambda arrival: arrival.trail),
    "absent": lambda broker: getattr(broker.components["transfer barrier"], "absent", None),
    "held": lambda broker: broker.component(OverlayRoutes).held,
    "unsent": lambda broker: broker.component(OverlayRoutes).unsent,
    "predicted": lambda broker: broker.component(PublisherPresence).predicted,
    "stale": lambda broker: getattr(broker.routing, "stale", None),
    "others stale": lambda broker: any(each.stale for each in getattr(broker.routing, "others", {}).values()),
    "voided": _any_channel(lambda channel: channel.voided),
    "doubts": _any_channel(lambda channel: channel.doubts),
    "gap": _any_channel(lambda channel: channel.held),
    "forgot": lambda broker: getattr(broker.routing, "has_gap", False),
    "lost": lambda broker: any(session.lost for session in broker.sessions),
    "over": lambda broker: any(session.queue.expired or session.queue.purged for session in broker.sessions),
    "early": lambda broker: any(link.early for link in broker.links.values()),
}
"""What a run rarely comes to, and how it is seen."""
RARE_MAX = 8  # of each, in one run


def _is_rare(machine: Any, seen: dict[str, int]) -> bool:
    found = [name for name, is_so in RARE.items() if seen.get(name, 0) < RARE_MAX and is_so(machine)]
    for name in found:
        seen[name] = seen.get(name, 0) + 1
    return bool(found)


def _record(node: Any, random: Random, every: int, points: list[Point], most: int, rare: dict[str, int]) -> None:
    make = node.make

    def watched(machine: Any, incarnation: int) -> Any:
        history, handle = Recorded(lambda: make(incarnation)), machine.handle

        def handled(input: Input, now: float) -> list[Effect]:
            effects: list[Effect] = handle(input, now)
            history.steps.append((input, now, effects))
            is_rare = _is_rare(machine, rare)
            if is_rare or (not random.randrange(every) and len(points) < most):
                points.append(Point(history, len(history.steps), machine.snapshot()))
            return effects

        machine.handle = handled
        return machine

    node.machine = watched(node.machine, 1)
    node.make = lambda incarnation: watched(make(incarnation), incarnation)


# ---------------------------------------------------------------- fields


def state_fields() -> list[tuple[type, str]]:
    """Every field of every state of a machine; of the states within states, too.

    `HoldingsState` is of no machine: it is what the journal of a device holds, and `test_holdings.py` has its law.
    """
    found: dict[type, None] = {}
    pending: list[Any] = [kind for kind in STATES if kind not in (DriverState, HoldingsState)]
    while pending:
        kind = pending.pop()
        if kind in found:
            continue
        found[kind] = None
        for hint in get_type_hints(kind).values():
            pending += [inner for inner in _structs_in(hint) if _is_state(inner)]
    return [(kind, field.name) for kind in found for field in structs.fields(kind)]


def _is_state(kind: type) -> bool:
    return kind is not msgspec.Struct and kind.__module__ not in NOT_STATES and kind not in SETTINGS


def _structs_in(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for each in get_args(hint):
        yield from _structs_in(each)


def empty(kind: type, name: str) -> Any:
    """What a field is when nothing was written of it."""
    [field] = [field for field in structs.fields(kind) if field.name == name]
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return _empty(get_type_hints(kind)[name])


def _empty(hint: Any) -> Any:
    if hint == Filter:
        return TRUE
    if hint is Event:
        return Event({})
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        return None
    origin = get_origin(hint) or hint
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return NotImplemented  # its own fields are what counts
    if origin is tuple and Ellipsis not in get_args(hint):
        return tuple(map(_empty, get_args(hint)))
    return dict() if "Mapping" in str(origin) else origin()  # noqa: C408


def without(state: Any, kind: type, name: str) -> tuple[Any, bool]:
    """The state with this field empty wherever it stands, and whether it was not."""
    changed = False
    nothing = empty(kind, name)

    def walked(value: Any) -> Any:
        nonlocal changed
        if isinstance(value, msgspec.Struct):
            if not _is_state(type(value)):
                return value
            fields = {each: walked(getattr(value, each)) for each in value.__struct_fields__}
            if type(value) is kind and fields[name] != nothing:
                fields[name], changed = nothing, True
            return type(value)(**fields)
        if isinstance(value, tuple):
            return tuple(map(walked, value))
        if isinstance(value, dict):
            return {key: walked(held) for key, held in value.items()}
        return value

    return walked(state), changed


def said(state: Any) -> dict[tuple[type, str], int]:
    """By field that a state says anything in, how much."""
    found: dict[tuple[type, str], int] = {}
    pending: list[Any] = [state]
    while pending:
        value = pending.pop()
        if isinstance(value, msgspec.Struct) and _is_state(type(value)):
            kind = type(value)
            for name in value.__struct_fields__:
                held = getattr(value, name)
                if held != _nothing(kind, name):
                    found[kind, name] = found.get((kind, name), 0) + 1 + _size(held)
                pending.append(held)
        elif isinstance(value, tuple):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
    return found


@cache
def _nothing(kind: type, name: str) -> Any:
    return empty(kind, name)


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(1 + _size(each) for each in value.values())
    return sum(1 + _size(each) for each in value) if isinstance(value, tuple) else 0


# ---------------------------------------------------------------- telling apart


def is_told_apart(point: Point, state: Any, steps_max: int) -> bool:
    """Whether a machine that goes on from `state` answers otherwise than the one that was there."""
    try:
        machine = point.restored(state)
    except Exception:
        return True
    first = point.restored(point.state)
    now = 0.0
    for input, now, _ in point.of.steps[point.at : point.at + steps_max]:
        if _differ(first, machine, input, now):
            return True
    return any(_differ(first, machine, input, at) for input, at in _probes(first, now))


def _differ(first: Any, other: Any, input: Input, now: float) -> bool:
    try:
        expected = first.handle(input, now)
    except Exception:  # a probe that no driver would give
        return False
    try:
        return bool(other.handle(input, now) != expected)
    except Exception:
        return True


def _probes(machine: Any, now: float) -> Iterator[tuple[Input, float]]:
    """What may come of a sudden: clients that publish, come and go, links that break and return, time that passes."""
    publisher = "someone"
    yield Opened("probe"), now
    yield Heard("probe", Attach(publisher)), now
    attached = [(session.connection, session) for session in machine.sessions if session.connection is not None]
    for connection, session in attached:
        mine = Event({"price": 1, "kind": "alert"}, session.client, 10_000)
        yield Heard(connection, Request(session.accepted + 1, Publish(mine))), now
    for session in list(machine.sessions):
        name = f"again {session.client}"
        yield Opened(name), now
        greeting = Attach(session.client, session=session.name, attempt=session.attempt + 1, home=machine.name)
        yield Heard(name, greeting), now
        yield Closed(name), now + 0.1
    for peer, link in machine.links.items():
        yield LinkDown(peer), now + 1
        yield LinkUp(peer), now + 1
        yield Arrived(peer, Hello(link.peer_incarnation or 1, machine.incarnation, link.first - 1, 1, True)), now + 1
    for key in [("expiry",), ("quench",), ("hold",), ("hold moves",), ("brokers",), ("newborn",)]:
        yield TimerDue(key), now + 100
    for what, those in (
        ("session", [each.client for each in machine.sessions]),
        ("resend", machine.links),
        ("ack", machine.links),
    ):
        for each in list(those):
            yield TimerDue((what, each)), now + 200_000
