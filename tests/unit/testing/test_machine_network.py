"""Pure machines that a test drives by hand."""

from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.effects import Arrived, LinkUp, Send, StartTimer, TimerDue
from godwit.broker.messages import Attach, Attached, Publish, Subscribe
from godwit.client import Client
from godwit.testing import Machines, broker, machines, neighbours, topology


def talking(net: Machines, a: str = "a", c: str = "c") -> tuple[Client, Client]:
    """ann at one end wants everything, van is at the other."""
    ann, van = net.attach("ann", a), net.attach("van", c)
    net.ask("ann", ann.subscribe("all", "n >= 0", net.now))
    return ann, van


def say(net: Machines, van: Client, *values: int) -> None:
    for value in values:
        net.carry_out("van", van.publish({"n": value}, net.now))


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_everything_arrives_in_order_and_is_seen(family: str) -> None:
    net = machines("a-b b-c", family=family)
    _, van = talking(net)
    say(net, van, 1, 2)
    net.run()
    assert net.notified("ann") == [("van", 1), ("van", 2)]
    kinds = [type(message) for _, _, message in net.sent]
    assert Publish in kinds or family == "graph"
    assert any(isinstance(each.input, LinkUp) for each in net.log)
    assert not net.recorded("fault", "lost")
    assert net.messages()
    assert net.messages() == []


def test_a_test_lets_one_message_arrive_at_a_time_and_others_not_at_all() -> None:
    net = machines("a-b")
    _, van = talking(net, "a", "b")
    say(net, van, 1, 2, 3)
    assert len(net.under_way("van", "b")) == 3
    for _ in range(3):
        net.deliver("van", "b")
    frames = net.under_way("b", "a")
    assert [frame.message.event.sequence for frame in frames] == [1, 2, 3]
    assert net.lose("b", "a", 1) == frames[1]
    net.double("b", "a", 0)
    net.run()
    assert net.notified("ann") == [("van", 1), ("van", 2), ("van", 3)]  # links send again what is missing


def test_what_is_blocked_is_lost_and_sent_again_when_time_passes() -> None:
    net = machines("a-b")
    _, van = talking(net, "a", "b")
    net.blocked = {("b", "a")}
    say(net, van, 1)
    net.run()
    assert net.notified("ann") == []
    net.blocked = set()
    net.run()
    assert net.notified("ann") == []
    net.pass_time(10.0)
    assert net.notified("ann") == [("van", 1)]


@pytest.mark.parametrize("keeps_disk", [True, False])
def test_a_broker_starts_again_from_its_journal_or_as_another_life(keeps_disk: bool) -> None:
    net = machines("a-b b-c")
    ann, van = talking(net)
    net.crash("a", keeps_disk=keeps_disk)
    assert net.clients["ann"].connection is None
    say(net, van, 1)
    net.run()
    net.restart("a", rejoins=True)
    net.join("ann", "a")
    net.pass_time(20.0)
    assert ann.is_attached
    assert net.brokers["a"].incarnation == (1 if keeps_disk else 2)
    say(net, van, 2)
    net.run()
    assert net.notified("ann") == ([("van", 1), ("van", 2)] if keeps_disk else [("van", 2)])


def test_latency_and_timers_share_one_clock() -> None:
    net = machines("a-b", latency_s=0.01)
    net.set_latency("a", "b", 0.1)
    _, van = talking(net, "a", "b")
    at = net.now
    say(net, van, 1)
    net.run()
    [got] = net.notifications
    assert got.at - at == pytest.approx(0.12)
    done: list[float] = []
    net.plan(net.now + 1.0, lambda: done.append(net.now))
    net.pass_time(0.5)
    assert done == []
    net.pass_time(0.5)
    assert done == [net.now]


def test_the_test_speaks_for_a_client_that_has_no_machine() -> None:
    net = machines("a-b", make=Broker)
    net.say("a", "k1", Attach("eve"))
    [told] = [each for each in net.told if isinstance(each.message, Attached)]
    assert (told.broker, told.client) == ("a", "k1")
    net.say("a", "k1", Subscribe(("eve", "s"), None))  # type: ignore[arg-type]
    assert net.recorded("fault")
    assert ("a", "k1") not in net.open


def test_anything_that_handles_inputs_is_a_machine_and_messages_that_never_end_are_noticed() -> None:
    class Echo:
        def __init__(self, incarnation: int) -> None:
            assert incarnation == 1

        def handle(self, input: Any, now: float) -> list[Any]:
            match input:
                case LinkUp(peer=peer) | Arrived(peer=peer):
                    return [Send(peer, "again")]  # type: ignore[arg-type]
                case TimerDue(key=key):
                    return [StartTimer(key, now + 1.0)]
            return []

    net = Machines()
    for name in "ab":
        net.add_broker(name, Echo)
    net.join("a", "b")
    assert net.step()
    with pytest.raises(AssertionError, match="still in transit"):
        net.run()


def test_topologies() -> None:
    assert topology(3) == topology("b1-b2 b2-b3") == [("b1", "b2"), ("b2", "b3")]
    assert topology("star 3") == [("b1", "b2"), ("b1", "b3")]
    assert topology(["ab", "bc"]) == topology([("a", "b"), ("b", "c")])
    assert neighbours("b", topology(["ab", "bc"])) == {"a": 1.0, "c": 1.0}
    assert list(machines(1).brokers) == ["b1"]
    assert broker("x", {}, machines(1).brokers["b1"].config).name == "x"
