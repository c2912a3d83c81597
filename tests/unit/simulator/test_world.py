"""The driver: wires, time, disks and crashes, shown with machines that do next to nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    LinkDown,
    LinkUp,
    Notify,
    Opened,
    Send,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.messages import Ack, Advertise, Bye, Frame, Publish, Subscribe, Unadvertise
from godwit.client.client import Client
from godwit.filters.events import event
from godwit.filters.filters import some
from godwit.filters.sets import less_than
from godwit.simulator import world as world_module
from godwit.simulator.message_sizes import size_of
from godwit.simulator.world import World
from godwit.trace import Record

Reaction = Callable[[Input, float], list[Effect]]


class Listener:
    """A machine that remembers what it was told and when, and reacts as it is told to."""

    def __init__(self, reaction: Reaction = lambda input, now: []) -> None:
        self.heard: list[tuple[float, Input]] = []
        self.reaction = reaction

    def handle(self, input: Input, now: float) -> list[Effect]:
        self.heard.append((now, input))
        return self.reaction(input, now)

    def frames(self) -> list[int]:
        """The numbers of the acknowledgements that came, which stand for any frame."""
        return [input.frame.received for _, input in self.heard if isinstance(input, Arrived)]  # type: ignore[union-attr]

    def times(self) -> list[float]:
        return [round(at, 9) for at, input in self.heard if isinstance(input, Arrived)]


def pair(
    *,
    latency_s: float = 0.010,
    bandwidth_bps: float | None = None,
    reaction: Reaction = lambda input, now: [],
    journaled: bool = False,
    sync_s: float = 0.0,
) -> tuple[World, Listener, Listener]:
    """Brokers a and b, connected; b reacts as told."""
    a, b = Listener(), Listener(reaction)
    world = World(seed=1)
    world.add_broker("a", lambda _: a, journaled=False)
    world.add_broker("b", lambda _: b, journaled=journaled, sync_s=sync_s)
    world.wire("a", "b", latency_s, bandwidth_bps)
    world.connect("a", "b")
    world.run(0.0)
    return world, a, b


def send(world: World, *numbers: int, target: str = "b") -> None:
    source = "a" if target == "b" else "b"
    world.command(source, lambda machine, now: [Send(target, Ack(number)) for number in numbers])


# ---------------------------------------------------------------- wires


def test_what_is_sent_first_arrives_first() -> None:
    world, _, b = pair()
    send(world, 1, 2, 3)
    send(world, 4)
    world.run(1.0)
    assert b.frames() == [1, 2, 3, 4]
    assert b.times() == [0.01] * 4


def test_a_message_takes_its_size_over_the_bandwidth_and_then_the_latency() -> None:
    one_s = size_of(Ack(1)) * 8 / 1_000
    world, _, b = pair(latency_s=0.5, bandwidth_bps=1_000)
    send(world, 1, 2)
    world.run(10.0)
    assert b.times() == pytest.approx([one_s + 0.5, 2 * one_s + 0.5])


def test_a_large_message_holds_up_a_small_one_behind_it() -> None:
    world, _, b = pair(latency_s=0.0, bandwidth_bps=8_000)
    large = Frame(1, 0, Publish(event({"x": 1}, publisher="p", sequence=1, payload=bytes(10_000))))
    world.command("a", lambda machine, now: [Send("b", large), Send("b", Ack(7))])
    world.run(100.0)
    [first, second] = [at for at, input in b.heard if isinstance(input, Arrived)]
    assert first == pytest.approx(size_of(large) / 1_000)
    assert second == pytest.approx(first + size_of(Ack(7)) / 1_000)


def test_the_two_directions_of_a_link_do_not_hold_each_other_up() -> None:
    world, a, _ = pair(latency_s=0.0, bandwidth_bps=8_000)
    send(world, *range(100))
    send(world, 1, target="a")
    world.run(100.0)
    assert a.times() == pytest.approx([size_of(Ack(1)) / 1_000])


def test_things_of_equal_time_happen_in_the_order_they_were_asked_for() -> None:
    world = World(seed=1)
    happened: list[int] = []
    for number in (3, 1, 2):
        world.at(5.0, lambda a, b, c: happened.append(a), number)

    def plan(_a: Any, _b: Any, _c: Any) -> None:
        world.at(5.0, lambda a, b, c: happened.append(4))

    world.at(4.0, plan)
    world.run(4.9)
    assert (happened, world.now) == ([], 4.9)
    world.run(5.0)
    assert happened == [3, 1, 2, 4]


def test_a_connection_that_is_cut_loses_what_is_on_the_wire() -> None:
    world, a, b = pair()
    send(world, 1)
    world.run(0.015)
    send(world, 2)
    world.disconnect("a", "b")
    world.run(1.0)
    assert b.frames() == [1]
    assert [input for _, input in a.heard] == [LinkUp("b"), LinkDown("b")]
    assert [input for _, input in b.heard if not isinstance(input, Arrived)] == [LinkUp("a"), LinkDown("a")]


def test_a_frame_of_an_old_connection_never_arrives_on_the_new_one() -> None:
    world, _, b = pair()
    send(world, 1)
    world.disconnect("a", "b")
    world.connect("a", "b")
    send(world, 2)
    world.run(1.0)
    assert b.frames() == [2]


def test_nothing_is_sent_without_a_connection() -> None:
    world, _, b = pair()
    world.disconnect("a", "b")
    send(world, 1)
    world.connect("a", "b")
    world.run(1.0)
    assert b.frames() == []


def test_an_open_connection_is_not_opened_again() -> None:
    world, a, _ = pair()
    assert world.connect("a", "b") is False
    assert world.disconnect("a", "b") is True
    assert world.disconnect("a", "b") is False
    assert [input for _, input in a.heard] == [LinkUp("b"), LinkDown("b")]


def test_faults_of_a_wire_lose_double_and_delay_frames() -> None:
    world, _, b = pair()
    wire = world.nodes["a"].wires["b"]
    wire.set_faults(loss=0.3)
    send(world, *range(1, 201))
    wire.set_faults(duplicate=1.0)
    send(world, 201)
    wire.set_faults(delay=1.0, delay_s=1.0)
    send(world, *range(202, 222))
    wire.set_faults()
    send(world, 300)
    world.run(5.0)
    came = b.frames()
    assert 100 < sum(number <= 200 for number in came) < 180
    assert came.count(201) == 2
    late = [number for number in came if 202 <= number < 222]
    assert sorted(late) == list(range(202, 222)) != late
    assert came.index(300) < came.index(late[-1])


def test_a_blocked_wire_loses_everything_one_way_and_nobody_is_told() -> None:
    world, a, b = pair()
    world.nodes["a"].wires["b"].set_faults(blocked=True)
    send(world, 1)
    send(world, 2, target="a")
    world.run(1.0)
    assert (a.frames(), b.frames()) == ([2], [])
    assert LinkDown("b") not in [input for _, input in a.heard]


def test_a_machine_that_closes_a_link_says_its_last_words_first() -> None:
    def reaction(input: Input, now: float) -> list[Effect]:
        return [Send("a", Ack(99)), Close("a", "enough")] if isinstance(input, Arrived) else []

    world, a, b = pair(reaction=reaction)
    records: list[tuple[str, Record]] = []
    world.on_record = lambda node, record, now: records.append((node, record))
    send(world, 1)
    world.run(1.0)
    assert [input for _, input in a.heard][1:] == [Arrived("b", Ack(99)), LinkDown("b")]
    assert [input for _, input in b.heard] == [LinkUp("a"), Arrived("a", Ack(1))]  # who closes is not told
    assert records == [("b", Record("closed", "a", detail="enough"))]
    assert world.connect("a", "b") is True


# ---------------------------------------------------------------- clients


def test_a_clients_connection_has_a_name_of_its_own_each_time() -> None:
    broker, client = Listener(), Listener()
    world = World(seed=1)
    world.add_broker("b", lambda _: broker, journaled=False)
    world.add_client("c", client)
    world.wire("c", "b", 0.01, None)
    for _ in range(2):
        world.connect("c", "b")
        world.command("c", lambda machine, now: [Tell("b", Bye("hello"))])
        world.run(world.now + 1)
        world.disconnect("c", "b")
    names = [input.connection for _, input in broker.heard if isinstance(input, Opened)]
    assert len(set(names)) == 2
    assert [input.connection for _, input in broker.heard if isinstance(input, Heard)] == names
    assert [input.connection for _, input in broker.heard if isinstance(input, Closed)] == names
    assert [input for _, input in client.heard] == [Opened("b"), Closed("b")] * 2


def test_what_a_broker_tells_over_a_connection_that_is_gone_leads_nowhere() -> None:
    broker, client = Listener(), Listener()
    world = World(seed=1)
    world.add_broker("b", lambda _: broker, journaled=False)
    world.add_client("c", client)
    world.wire("c", "b", 0.01, None)
    world.connect("c", "b")
    [(_, opened)] = broker.heard
    assert isinstance(opened, Opened)
    world.disconnect("c", "b")
    world.connect("c", "b")
    world.command("b", lambda machine, now: [Tell(opened.connection, Bye("to an old connection"))])
    world.run(1.0)
    assert not [input for _, input in client.heard if isinstance(input, Heard)]


# ---------------------------------------------------------------- nodes


def test_a_slow_node_takes_longer_and_keeps_the_order() -> None:
    world, _, b = pair()
    world.nodes["b"].slow_s = 0.1
    send(world, 1, 2)
    world.run(0.15)
    world.nodes["b"].slow_s = 0.0  # well again, but 2 is still in its hands
    send(world, 3)
    world.run(1.0)
    assert b.frames() == [1, 2, 3]
    assert b.times() == pytest.approx([0.11, 0.21, 0.21])


def test_a_broker_works_on_one_message_after_the_other_and_acknowledgements_take_it_no_time() -> None:
    world, _, b = pair()
    world.nodes["b"].work_s = 0.1
    publish = Publish(event({"x": 1}, publisher="p", sequence=1))
    frames: list[Frame | Ack] = [Frame(1, 0, publish), Frame(2, 0, publish), Ack(7)]
    world.command("a", lambda machine, now: [Send("b", frame) for frame in frames])
    world.run(1.0)
    send(world, 8)
    world.run(2.0)
    assert b.times() == pytest.approx([0.11, 0.21, 0.21, 1.01])  # the first acknowledgement waits for its turn


def test_a_slow_node_that_crashes_forgets_what_it_had_not_handled() -> None:
    world, _, b = pair()
    world.nodes["b"].slow_s = 0.1
    send(world, 1, 2)
    world.run(0.15)
    world.crash("b", keeps_disk=False)
    world.restart("b")
    world.run(1.0)
    assert b.frames() == [1]


@pytest.mark.parametrize("skew_s", [-5.0, -0.3, 0.0, 0.7, 123.456])
def test_a_timer_runs_by_the_clock_of_its_node(skew_s: float) -> None:
    def reaction(input: Input, now: float) -> list[Effect]:
        return [StartTimer(("t",), now + 2.0)] if isinstance(input, Arrived) else []

    world, _, b = pair(reaction=reaction)
    world.nodes["b"].skew_s = skew_s
    send(world, 1)
    world.run(2.0)
    assert not any(isinstance(input, TimerDue) for _, input in b.heard)
    world.run(3.0)
    [(began, _)] = [each for each in b.heard if isinstance(each[1], Arrived)]
    [(due, _)] = [each for each in b.heard if isinstance(each[1], TimerDue)]
    assert began == pytest.approx(0.01 + skew_s)
    assert due >= began + 2.0  # never early by its own clock, not even by a rounding error
    assert due == pytest.approx(began + 2.0)


def test_a_timer_is_never_early_however_the_clocks_round() -> None:
    """An early one is started again for the same moment, and time would stand still."""
    for number in range(1, 400):
        listener = Listener()
        world = World(seed=1)
        world.add_broker("b", lambda _, machine=listener: machine, journaled=False)  # type: ignore[misc]
        world.nodes["b"].skew_s = (-1) ** number * number * 0.0137
        at = 3.0 + number * 0.1
        effects: list[Effect] = [StartTimer(("t",), at)]
        world.command("b", lambda machine, now, effects=effects: effects)  # type: ignore[misc]
        world.run(100.0)
        [(due, _)] = listener.heard
        assert at <= due < at + 1e-9


def test_a_timer_that_is_started_again_moves_and_one_that_is_stopped_is_never_due() -> None:
    world, _, b = pair()
    world.command("b", lambda machine, now: [StartTimer(("t",), 1.0), StartTimer(("u",), 1.0)])
    world.command("b", lambda machine, now: [StartTimer(("t",), 2.0), StopTimer(("u",)), StopTimer(("never",))])
    world.run(5.0)
    assert [each for each in b.heard if isinstance(each[1], TimerDue)] == [(2.0, TimerDue(("t",)))]


# ---------------------------------------------------------------- disks


def echo(input: Input, now: float) -> list[Effect]:
    """Answer each frame with the same one."""
    return [Send("a", input.frame)] if isinstance(input, Arrived) else []


def test_no_effect_leaves_before_its_input_is_on_the_disk() -> None:
    world, a, b = pair(reaction=echo, journaled=True, sync_s=0.1)
    world.run(1.0)
    send(world, 1)
    world.run(1.05)
    send(world, 2)
    world.run(2.0)
    assert b.times() == pytest.approx([1.01, 1.06])
    # the second had to wait for the disk, which was busy with the first until 1.11
    assert a.times() == pytest.approx([1.12, 1.22])


def test_a_crash_before_the_disk_has_it_forgets_an_input_and_its_effects() -> None:
    lives: list[Listener] = []

    def make(incarnation: int) -> Listener:
        lives.append(Listener(echo))
        return lives[-1]

    a = Listener()
    world = World(seed=1)
    world.add_broker("a", lambda _: a, journaled=False)
    world.add_broker("b", make, journaled=True, sync_s=0.1)
    world.wire("a", "b", 0.01, None)
    world.connect("a", "b")
    world.run(1.0)
    send(world, 1)
    world.run(2.0)  # on the disk
    send(world, 2)
    world.run(2.05)  # handled, but not on the disk
    assert lives[0].frames() == [1, 2]
    world.crash("b", keeps_disk=True)
    world.restart("b")
    world.connect("a", "b")
    world.run(3.0)
    assert a.frames() == [1]
    assert lives[-1].frames() == [1]
    assert lives[-1].heard[-2:] == [(2.05, LinkDown("a")), (2.05, LinkUp("a"))]


def test_what_waits_for_the_disk_does_not_leave_on_a_newer_connection() -> None:
    world, a, b = pair(reaction=echo, journaled=True, sync_s=0.1)
    world.run(1.0)
    send(world, 1)
    world.run(1.05)  # handled, and its answer waits for the disk
    world.disconnect("a", "b")
    world.connect("a", "b")
    world.run(2.0)
    send(world, 2)
    world.run(3.0)
    assert (b.frames(), a.frames()) == ([1, 2], [2])


def test_a_broker_that_loses_its_disk_is_made_anew_in_another_incarnation() -> None:
    made: list[int] = []

    def make(incarnation: int) -> Listener:
        made.append(incarnation)
        return Listener()

    world = World(seed=1)
    world.add_broker("b", make, journaled=True)
    world.crash("b", keeps_disk=True)
    world.restart("b")
    world.crash("b", keeps_disk=False)
    world.restart("b")
    assert made == [1, 1, 2]


def test_a_node_that_is_down_handles_nothing_and_its_timers_are_void() -> None:
    world, a, b = pair()
    world.command("b", lambda machine, now: [StartTimer(("t",), 0.5)])
    send(world, 1)
    world.crash("b", keeps_disk=False)
    assert world.connect("a", "b") is False
    world.run(1.0)
    assert [input for _, input in b.heard] == [LinkUp("a")]
    assert [input for _, input in a.heard] == [LinkUp("b"), LinkDown("b")]
    world.crash("b", keeps_disk=False)  # it is down already
    world.restart("b")
    world.restart("b")  # it is up already
    assert world.nodes["b"].incarnation == 2


def test_a_timer_on_disk_runs_again_after_a_crash_and_at_once_when_it_is_overdue() -> None:
    def reaction(input: Input, now: float) -> list[Effect]:
        if isinstance(input, Arrived):
            return [StartTimer(("soon",), now + 1.0), StartTimer(("late",), now + 10.0)]
        return []

    world, _, b = pair(reaction=reaction, journaled=True)
    send(world, 1)
    world.run(0.5)
    world.crash("b", keeps_disk=True)
    world.run(5.0)
    world.restart("b")
    world.run(20.0)
    due = [(at, input.key) for at, input in b.heard if isinstance(input, TimerDue)]
    assert due == [(5.0, ("soon",)), (pytest.approx(10.01), ("late",))]


# ---------------------------------------------------------------- recovery


class Deployment:
    """Two brokers, a publisher at one and a subscriber at the other; the first may crash."""

    def __init__(self, family: str) -> None:
        self.world = World(seed=1)
        self.got: list[tuple[str, int]] = []
        self.records: list[tuple[str, str]] = []
        self.world.on_notify = lambda client, notify, now: self.got.append(notify.event.id)
        config = BrokerConfig(family=family, reduction="covering", advertisements="off")
        for name, peer in (("a", "b"), ("b", "a")):

            def make(incarnation: int, name: str = name, peer: str = peer) -> Broker:
                return Broker(name, {peer: 1.0}, config, incarnation)

            self.world.add_broker(name, make, journaled=True)
        self.world.wire("a", "b", 0.01, None)
        for client, home in (("p", "a"), ("s", "b"), ("t", "a")):
            self.world.add_client(client, Client(client))
            self.world.wire(client, home, 0.01, None)
            self.world.connect(client, home)
        self.world.connect("a", "b")
        for client in "st":
            self.world.command(client, lambda machine, now: machine.subscribe("cheap", some("x", less_than(50)), now))
        self.world.run(1.0)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.world.command("p", lambda machine, now: machine.publish({"x": machine.sequence % 100}, now))
            self.world.run(self.world.now + 0.02)

    def state(self) -> Any:
        """What a broker holds, as far as it shows."""
        broker: Any = self.world.nodes["a"].machine
        link = broker.links["b"]
        sessions = [
            (s.client, s.name, s.accepted, list(s.subscriptions), len(s.queue), s.queue.taken, s.queue.confirmed)
            for s in broker.sessions
        ]
        return (
            broker.routing.sizes(),
            sessions,
            (link.first, link.received, list(link.outbox), link.peer_incarnation),
        )


@pytest.mark.parametrize("family", ["tree", "graph"])
@pytest.mark.parametrize("snapshot_every", [7, 10_000])
def test_a_broker_recovered_from_its_disk_goes_on_as_one_that_never_crashed(
    family: str, snapshot_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world_module, "SNAPSHOT_EVERY", snapshot_every)
    crashed, spared = Deployment(family), Deployment(family)
    for deployment in (crashed, spared):
        deployment.publish(60)
        deployment.world.run(5.0)
    node = crashed.world.nodes["a"]
    assert (node.snapshot is not None) == (snapshot_every == 7)
    before = node.machine
    crashed.world.crash("a", keeps_disk=True)
    crashed.world.restart("a")
    assert node.machine is not before
    for peer in "ptb":  # the other one merely loses its connections
        spared.world.disconnect(peer, "a")
    for deployment in (crashed, spared):
        for peer in "ptb":
            deployment.world.connect(peer, "a")
        deployment.world.run(10.0)
        deployment.publish(60)
        deployment.world.run(20.0)
    assert crashed.state() == spared.state()
    assert sorted(crashed.got) == sorted(spared.got)
    assert len(crashed.got) == len(set(crashed.got)) * 2 == 2 * (50 + 20)  # at both subscribers, once each


@pytest.mark.parametrize("keeps_disk", [True, False])
def test_a_crash_between_two_events_loses_and_doubles_nothing(keeps_disk: bool) -> None:
    deployment = Deployment("tree")
    deployment.publish(10)
    deployment.world.run(3.0)  # nothing is under way
    deployment.world.crash("a", keeps_disk=keeps_disk)
    deployment.publish(10)  # waits at the publisher
    deployment.world.restart("a")
    for client in "tp":
        deployment.world.connect(client, "a")
    deployment.world.connect("a", "b")
    deployment.world.run(60.0)
    assert sorted(deployment.got) == sorted([("p", number) for number in range(1, 21)] * 2)


def test_a_notification_and_a_record_reach_whoever_asked_for_them() -> None:
    said = event({"x": 1}, publisher="p", sequence=1)
    world, _, _ = pair()
    told: list[Any] = []
    world.on_notify = lambda client, notify, now: told.append((client, notify, now))
    world.on_record = lambda node, record, now: told.append((node, record, now))
    record = Record("subscribed", "p")
    world.command("b", lambda machine, now: [Notify(said, ("s",)), Trace(record)])
    assert told == [("b", Notify(said, ("s",)), 0.0), ("b", record, 0.0)]


def test_the_trace_of_a_message_that_builds_a_tree_has_its_filter() -> None:
    world, _, _ = pair()
    world.traces_messages = True
    told: list[Record] = []
    world.on_record = lambda node, record, now: told.append(record)
    some_x, fewer = some("x", less_than(3)), some("x", less_than(2))
    frames = [
        Frame(1, 0, Advertise(("p", "x"), some_x)),
        Frame(2, 0, Subscribe(("s", "x"), fewer)),
        Frame(3, 0, Unadvertise(("p", "x"))),
    ]
    world.command("a", lambda machine, now: [Send("b", frame) for frame in frames])
    world.run(1.0)
    assert [(each.message, each.detail) for each in told if each.kind == "handled"] == [
        ("Advertise", "x < 3"),
        ("Subscribe", "x < 2"),
        ("Unadvertise", ""),
    ]


def test_messages_are_counted_by_type_where_they_arrive() -> None:
    world, _, _ = pair()
    send(world, 1, 2)
    frame = Frame(1, 0, Subscribe(("s", "x"), some("x", less_than(3))))
    world.command("a", lambda machine, now: [Send("b", frame)])
    world.run(1.0)
    assert world.handled == {Ack: 2, Subscribe: 1}
    assert world.bytes_sent == 2 * size_of(Ack(1)) + size_of(frame)
