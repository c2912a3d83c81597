"""Hostile and malformed messages in a running network: that link is closed with a reason, and all others go on."""

from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.effects import Closed, Effect, Heard, Input
from godwit.broker.messages import (
    Accepted,
    Ack,
    Advertise,
    Attach,
    Bye,
    Delivery,
    Frame,
    Hello,
    LinkState,
    Nack,
    Packet,
    Publish,
    Received,
    Request,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from godwit.trace import Record
from tests.raw_messages import read
from tests.seeds import diagonal
from tests.simulation.scenarios import CHURN, GRAPH, TREE

STAR = with_changes(TREE, ["overlay.kind=star", "overlay.brokers=5", *CHURN])
RING = with_changes(GRAPH, ["overlay.degree=2", *CHURN])
HUB, VICTIM = "b0", "b4"
AT_S = 6.0

MINE = parse("price < my.limit")
BROKEN: Any = Event({"price": float("nan")}, "p0", 99)
ODD: Any = Event({"price": object()}, "p0", 99)  # type: ignore[dict-item]


# ---------------------------------------------------------------- between brokers


def framed(message: Any, skips: int = 0) -> Any:
    """A frame with the number that comes next, or one further on."""
    return lambda link: Frame(link.received + 1 + skips, 0, message)


def lives(link: Any) -> tuple[int, int]:
    """What a greeting says first: which life its sender has, and which one of the other end it knows."""
    return link.peer_incarnation, link.incarnation


FRAMES: dict[str, Any] = {
    "a text": lambda link: "hello",
    "nothing": lambda link: None,
    "a message of a client": lambda link: Attach("p0"),
    "a frame of a text": framed("hello"),
    "a frame of nothing": framed(None),
    "a frame in a frame": framed(Frame(1, 0, Synced())),
    "a frame numbered below zero": lambda link: Frame(-1, 0, Synced()),
    "a frame numbered far ahead": framed(Synced(), skips=10_000),
    "a frame that acknowledges what was never sent": lambda link: Frame(link.received + 1, 10**9, Synced()),
    "an acknowledgement of what was never sent": lambda link: Ack(10**9),
    "a greeting from no life": lambda link: Hello(0, 0, 0, 1, True),
    "a greeting below zero": lambda link: Hello(1, 1, -5, 1, True),
    "a greeting that has received what was never sent": lambda link: Hello(*lives(link), 10**9, 1, True),
    "a greeting that was acknowledged what never came": lambda link: Hello(*lives(link), 0, 1, True, 10**9),
    "a greeting that has met a later life": lambda link: Hello(link.peer_incarnation, 10**9, 0, 1, True),
    "an unknown subscription taken back": framed(Unsubscribe(("ghost", "x"))),
}

TREE_FRAMES: dict[str, Any] = {
    **FRAMES,
    "a subscription to somebody's own state": framed(Subscribe(("b4", "1"), MINE)),
    "an unknown advertisement taken back": framed(Unadvertise(("ghost", "x"))),
    "an event with a value that is not finite": framed(Publish(BROKEN)),
    "a link state": framed(LinkState("b4", 1, 1, {})),
    "a packet": framed(Packet("b4", 1, {"b0": 1}, Synced())),
    "synced of what there is not": framed(Synced("filters")),  # type: ignore[arg-type]
}

GRAPH_FRAMES: dict[str, Any] = {
    **FRAMES,
    "a bare subscription": framed(Subscribe(("b4", "1"), TRUE)),
    "a packet without targets": framed(Packet("b4", 1, {}, Synced())),
    "a packet to its source": framed(Packet("b4", 1, {"b4": 1}, Synced())),
    "a packet numbered zero": framed(Packet("b4", 1, {"b0": 0}, Synced())),
    "a packet of a packet": framed(Packet("b4", 1, {"b0": 1}, Packet("b4", 1, {"b0": 1}, Synced()))),  # type: ignore[arg-type]
    "a packet of an event with a value of no kind": framed(Packet("b4", 1, {"b0": 1}, Publish(ODD))),
    "a question about everything there is": framed(Packet("b4", 1, {"b0": 1}, Nack(1, tuple(range(1, 5_000))))),
    "a link state of nobody": framed(LinkState("", 1, 1, {})),
    "a link state of negative cost": framed(LinkState("b4", 9, 9, {"b0": -1.0})),
}

CASES = [(STAR, name, make) for name, make in TREE_FRAMES.items()] + [
    (RING, name, make) for name, make in GRAPH_FRAMES.items()
]


class Attacked(Simulation):
    """A simulation into which something is slipped at `AT_S`, and that remembers who closed what."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, 1)
        self.closed: list[tuple[str, Record]] = []
        self.recorder.listen(["closed"], lambda node, record, now: self.closed.append((node, record)))


def attacked_by_a_neighbour(scenario: Scenario, make: Any) -> tuple[Attacked, str]:
    """Run it; a neighbour of the victim, which has no clients, sends one bad frame. Returns who that was."""
    simulation = Attacked(scenario)
    neighbours = simulation.overlay.neighbours()
    target = HUB if scenario.overlay.kind == "star" else neighbours[VICTIM][0]
    for name in simulation.homes:  # nobody is at home at the one whose link is lost
        if simulation.homes[name] == VICTIM:
            del simulation.world.nodes[name].wires[VICTIM]
            simulation.homes[name] = target
            simulation.world.wire(name, target, 0.01, None)

    def strike(_a: Any, _b: Any, _c: Any) -> None:
        world = simulation.world
        wire = world.nodes[VICTIM].wires[target]
        machine = world.nodes[target].machine
        assert isinstance(machine, Broker)
        world._arrive(wire, wire.connection, make(machine.links[VICTIM]))

    simulation.world.at(AT_S, strike)
    return simulation, target


@pytest.mark.parametrize(
    ("scenario", "make"), [(s, m) for s, _, m in CASES], ids=[f"{s.name}: {n}" for s, n, _ in CASES]
)
def test_a_hostile_frame_closes_its_link_with_a_reason_and_all_else_goes_on(scenario: Scenario, make: Any) -> None:
    simulation, target = attacked_by_a_neighbour(scenario, make)
    summary = simulation.run()
    [reason] = [record.detail for node, record in simulation.closed if (node, record.peer) == (target, VICTIM)]
    assert reason
    assert (VICTIM, Record("closed", target, detail=f"{target} closed the link: {reason}")) in simulation.closed
    assert simulation.broker(target).links[VICTIM].fault == reason
    # what the checkers find is about this link and the broker beyond it, and nothing else
    for violation in summary.violations:
        about = (violation.law, violation.node)
        if violation.law == "nobody at fault":
            assert about == ("nobody at fault", target) or violation.node == VICTIM
        else:
            assert violation.law in ("settles", "no garbage")
            assert violation.node == VICTIM or f"for {VICTIM}" in violation.text or "not settled" in violation.text
    assert summary.owed > 200
    assert (summary.lost, summary.duplicated, summary.out_of_order, summary.unwanted) == (0, 0, 0, 0)


def test_a_link_that_was_closed_for_a_fault_stays_closed_until_its_peer_begins_a_new_life() -> None:
    with_faults = with_changes(STAR, ["faults.crash_diskless=[]"])  # none, but those that the test injects
    simulation, target = attacked_by_a_neighbour(with_faults, TREE_FRAMES["a frame of a text"])
    world, faults = simulation.world, simulation.faults
    assert faults is not None
    link = simulation.broker(target).links[VICTIM]
    seen: list[bool] = []

    def reconnect(_a: Any, _b: Any, _c: Any) -> None:
        world.connect(target, VICTIM)

    def look(_a: Any, _b: Any, _c: Any) -> None:
        seen.append(link.open)

    def lose_disk(_a: Any, _b: Any, _c: Any) -> None:
        assert faults.lose_disk(VICTIM) == "crash_diskless"

    world.at(AT_S + 1, reconnect)
    world.at(AT_S + 2, look)
    world.at(AT_S + 3, lose_disk)
    world.at(AT_S + 4, lambda a, b, c: faults.restart(VICTIM))
    world.at(AT_S + 10, look)
    summary = simulation.run()
    assert seen == [False, True]
    assert {violation.law for violation in summary.violations} == {"nobody at fault"}
    assert summary.lost == 0


# ---------------------------------------------------------------- clients


class Rogue:
    """A client's device that only listens: words are put into its mouth."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.is_closed = False

    def handle(self, input: Input, now: float) -> list[Effect]:
        if isinstance(input, Heard):
            self.heard.append(input.message)
        self.is_closed |= isinstance(input, Closed)
        return []


HELLO = Attach("rogue")


def asked(wish: Any, number: int = 1) -> tuple[Any, ...]:
    return HELLO, Request(number, wish)


WORDS: dict[str, tuple[Any, ...]] = {
    "a text": ("hello",),
    "nothing": (None,),
    "a request before it says who it is": (Request(1, Subscribe(("rogue", "x"), TRUE)),),
    "a confirmation before it says who it is": (Received(1),),
    "who it is twice": (HELLO, HELLO),
    "that it is nobody": (Attach(""),),
    "that it has received a negative number": (Attach("rogue", -1),),
    "a confirmation of what never came": (HELLO, Received(10**9)),
    "a request out of turn": asked(Subscribe(("rogue", "x"), TRUE), number=5),
    "a subscription without a name": asked(Subscribe(("rogue", ""), TRUE)),
    "an event with a value that is not finite": asked(Publish(BROKEN)),
    "an event with a value of no kind": asked(Publish(ODD)),
    "a message of brokers": (HELLO, Frame(1, 0, Synced())),
    "a delivery": (HELLO, Delivery(1, Event({}, "p0", 1), ("x",))),
    "an acceptance": (HELLO, Accepted(1)),
}


def with_rogue(scenario: Scenario, *words: Any) -> tuple[Attacked, Rogue]:
    simulation, rogue = Attacked(scenario), Rogue()
    world = simulation.world
    world.add_client("rogue", rogue)
    world.wire("rogue", HUB, 0.01, None)

    def strike(_a: Any, _b: Any, _c: Any) -> None:
        world.connect("rogue", HUB)
        wire = world.nodes["rogue"].wires[HUB]
        for word in words:  # straight to the other end: many of these have no size
            world._arrive(wire, wire.connection, word)

    world.at(AT_S, strike)
    return simulation, rogue


@pytest.mark.parametrize(("said", "family"), diagonal(WORDS, ["tree", "graph"]))
def test_a_hostile_client_is_shown_out_with_a_reason_and_all_laws_hold_for_the_rest(said: str, family: str) -> None:
    simulation, rogue = with_rogue({"tree": STAR, "graph": RING}[family], *WORDS[said])
    summary = simulation.run()
    [(node, record)] = [each for each in simulation.closed if each[1].peer == "rogue"]
    assert node == HUB
    assert record.detail
    assert rogue.heard[-1] == Bye(record.detail)
    assert rogue.is_closed
    # if it had said who it was, its session waits for it to come back: that is all that is left of it
    left = [violation for violation in summary.violations if (violation.law, violation.node) != ("no garbage", HUB)]
    assert left == []
    assert (summary.lost, summary.duplicated, summary.out_of_order, summary.unwanted) == (0, 0, 0, 0)
    assert summary.owed > 200


OF_NO_TYPE: dict[str, Any] = {
    "a text": "hello",
    "a frame of nothing": Frame(1, 0, None),  # type: ignore[arg-type]
    "a subscription without a filter": Frame(1, 0, Subscribe(("b4", "1"), None)),  # type: ignore[arg-type]
    "a subscription named by a number": Frame(1, 0, Subscribe(7, TRUE)),  # type: ignore[arg-type]
    "an advertisement of what is not a filter": Frame(1, 0, Advertise(("b4", "1"), "price <")),  # type: ignore[arg-type]
    "an event that is none": Frame(1, 0, Publish("price is 3")),  # type: ignore[arg-type]
    "synced of what there is not": Frame(1, 0, Synced("filters")),  # type: ignore[arg-type]
    "a packet of no event": Frame(1, 0, Packet("b4", 1, {"b0": 1}, Publish(None))),  # type: ignore[arg-type]
    "a client that is a number": Attach(7),  # type: ignore[arg-type]
    "a request numbered by a text": Request("1", Subscribe(("rogue", "x"), TRUE)),  # type: ignore[arg-type]
    "a request for nothing": Request(1, None),  # type: ignore[arg-type]
    "a request for a request": Request(1, Request(1, Publish(Event({}, "rogue", 1)))),  # type: ignore[arg-type]
    "a request for an event that is a text": Request(1, Publish("hello")),  # type: ignore[arg-type]
    "a request for an event with a value of no kind": Request(1, Publish(ODD)),
}


@pytest.mark.parametrize("said", OF_NO_TYPE)
def test_what_is_of_a_wrong_type_is_refused_by_the_decoder_and_no_machine_hears_of_it(said: str) -> None:
    with pytest.raises(PeerFault, match="not a message"):
        read(OF_NO_TYPE[said])


@pytest.mark.parametrize(
    "wish",
    [
        Publish(Event({"price": 1}, "p0", 1)),
        Subscribe(("s0", "x"), TRUE),
        Unsubscribe(("s0", "sub0")),
        Unsubscribe(("rogue", "never made")),
        Advertise(("p0", "all"), TRUE),
        Advertise(("rogue", "x"), MINE),
        Subscribe(("rogue", "x"), parse("at WITHIN myloc(2)")),
        Subscribe(("rogue", "x"), TRUE, expires=0.5),
    ],
    ids=lambda wish: f"{type(wish).__name__} {getattr(wish, 'id', '')}",
)
def test_a_client_that_speaks_for_another_is_refused_and_changes_nothing(wish: Any) -> None:
    simulation, rogue = with_rogue(STAR, HELLO, Request(1, wish), Bye())
    summary = simulation.run()
    assert summary.violations == ()
    assert any(type(message).__name__ == "Refused" for message in rogue.heard)
    assert summary.owed > 200
