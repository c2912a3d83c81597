"""[rebeca §6] "'pre-subscribe' to information at brokers at possible next locations": the session waits ahead."""

from typing import Any

import pytest
from msgspec import structs

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, LinkUp, Send
from godwit.broker.messages import Context, Frame, Goodbye, Hello, Subscribe
from godwit.filters.language import parse
from godwit.mobility import Movements, line, mobile_broker
from godwit.mobility.attach_policies.presubscribe import AHEAD_AFTER_S
from godwit.mobility.move_messages import Presubscribe, Relocate
from godwit.mobility.predictors import MovementModel
from godwit.mobility.publisher_presence import PublisherConfig
from tests.paper.roaming_world import Roaming

EDGES = "B1-B2 B2-B3 B3-B4 B3-B5"
"""A client at B1 is expected at B4; B5 is as far."""
AHEAD = MovementModel({"B1": {"B4": 3, "B5": 1}, "B4": {"B5": 1}})
TO_B5_FROM_B2 = MovementModel({"B1": {"B4": 3, "B5": 1}}, {"B2": {"B1": {"B5": 50}}})


def world(model: MovementModel | None = AHEAD, **config: Any) -> Roaming:
    network = Roaming(EDGES, Movements({"location": line(9)}), PublisherConfig(predictor=model), **config)
    network.come("P", "B3")
    network.come("C", "B1", "presubscribe")
    network.subscribe("C")
    network.settle()
    return network


def go(network: Roaming, seconds: float = 5.0) -> None:
    """The client goes out of reach, and events are published meanwhile."""
    network.publish("P", 1, 2)
    network.leave("C")
    network.publish("P", 3, 4)
    network.pass_time(seconds - 0.04)
    network.publish("P", 5)
    network.pass_time(0.04)


def session_at(network: Roaming) -> list[str]:
    return [name for name in network.brokers if network.broker(name).sessions.session("C") is not None]


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_the_broker_ahead_has_the_session_and_the_client_goes_on_at_once(family: str) -> None:
    network = world(family=family)
    go(network)
    assert session_at(network) == ["B4"]
    assert network.holds_nothing_of("B1", "C")
    network.handled.clear()
    came = network.now
    network.come("C", "B4")
    network.pass_time(0.05)
    assert network.numbers("C", "P") == [1, 2, 3, 4, 5]
    assert all(at - came < 0.05 for _, at in network.times("C")[2:])
    assert Relocate not in network.handled
    network.publish("P", 6)
    network.settle()
    assert network.numbers("C", "P") == [1, 2, 3, 4, 5, 6]
    assert not network.client("C").receipts[-1].session_lost


@pytest.mark.parametrize("family", ["tree", "graph"])
@pytest.mark.parametrize("to", ["B5", "B1", "B2"])
def test_a_client_that_comes_elsewhere_misses_nothing_and_the_broker_ahead_keeps_nothing(to: str, family: str) -> None:
    network = world(family=family)
    go(network)
    network.come("C", to)
    network.settle()
    network.publish("P", 6)
    network.settle()
    assert network.numbers("C", "P") == [1, 2, 3, 4, 5, 6]
    assert session_at(network) == [to]
    assert network.holds_nothing_of("B4", "C")


@pytest.mark.parametrize("away_s", [AHEAD_AFTER_S + each for each in (0.005, 0.015, 0.025, 0.035, 0.045, 0.06, 0.08)])
@pytest.mark.parametrize("to", ["B4", "B5", "B1"])
def test_wherever_it_comes_while_the_session_is_on_its_way_nothing_is_lost_or_doubled(to: str, away_s: float) -> None:
    network = world()
    go(network, away_s)
    network.come("C", to)
    network.pass_time(0.03)
    network.publish("P", 6)
    network.settle()
    assert network.numbers("C", "P") == [1, 2, 3, 4, 5, 6]
    assert session_at(network) == [to]


def test_a_client_that_is_back_soon_finds_its_session_where_it_was() -> None:
    network = world()
    network.handled.clear()
    go(network, AHEAD_AFTER_S / 2 - 0.1)
    network.come("C", "B1")
    network.settle()
    assert network.numbers("C", "P") == [1, 2, 3, 4, 5]
    assert Presubscribe not in network.handled


def test_a_prediction_of_order_two_knows_where_the_client_was_before() -> None:
    network = world(TO_B5_FROM_B2)
    network.come("C", "B2")
    network.settle()
    network.come("C", "B1")
    network.settle()
    go(network)
    assert session_at(network) == ["B5"]


def test_without_a_model_it_is_as_relocate() -> None:
    network = world(None)
    go(network)
    assert session_at(network) == ["B1"]
    network.come("C", "B5")
    network.settle()
    assert network.numbers("C", "P") == [1, 2, 3, 4, 5]


def test_the_session_goes_ahead_once_and_waits_there() -> None:
    network = world()
    go(network, 30.0)
    assert session_at(network) == ["B4"]  # though the model knows a broker after B4: nobody was seen there


def test_a_filter_on_the_clients_own_state_goes_ahead_with_the_state() -> None:
    network = world()
    network.command("C", lambda machine, now: machine.move_to("4", now, dwell_s=60.0))
    network.subscribe("C", "location = myloc", name="near")
    network.settle()
    network.leave("C")
    network.pass_time(2.0)
    for place in ("4", "7"):
        network.command("P", lambda machine, now, place=place: machine.publish({"location": place}, now))  # type: ignore[misc]
    network.pass_time(1.0)
    network.come("C", "B4")
    network.settle()
    assert network.numbers("C", "P") == [1]


def test_a_broker_ahead_without_room_leaves_the_session_where_it_is() -> None:
    network = world()
    broker = network.broker("B4")
    broker.config = structs.replace(broker.config, limits=structs.replace(broker.config.limits, sessions_max=1))
    network.come("D", "B4")
    network.settle()
    go(network)
    assert session_at(network) == ["B1"]


def test_a_broker_ahead_that_loses_its_disk_has_the_client_told() -> None:
    network = world()
    go(network)
    network.crash("B4", keeps_disk=False)
    network.restart("B4")
    network.join("B3", "B4")
    network.settle()
    network.come("C", "B5")
    network.pass_time(150.0)
    assert network.client("C").receipts[-1].session_lost
    network.publish("P", 6)
    network.settle()
    assert network.numbers("C", "P")[-1] == 6


# ------------------------------------------------------------ what no honest broker sends


@pytest.mark.parametrize(
    "message",
    [
        Presubscribe("", "B2", "B1", 3, (), None),
        Presubscribe("C", "", "B1", 3, (), None),
        Presubscribe("C", "B2", "B1", 3, (Subscribe(("D", "F"), parse("x = 1")),), None),
        Presubscribe("C", "B2", "B1", 3, (), Context({"": 1})),
        Presubscribe("C", "B2", "B1", 3, (), Context({"x": "y" * 5_000})),
    ],
)
def test_what_no_honest_broker_sends_closes_its_link(message: Presubscribe) -> None:
    broker = mobile_broker("B1", {"B2": 1.0}, BrokerConfig())
    broker.handle(LinkUp("B2"), 0.0)
    broker.handle(Arrived("B2", Hello(1, 0, 0, 1, False)), 0.01)
    effects = broker.handle(Arrived("B2", Frame(1, 0, message)), 0.05)  # type: ignore[arg-type]
    assert any(isinstance(effect, Send) and isinstance(effect.frame, Goodbye) for effect in effects)
    assert not broker.relayed or broker.sessions.session("C") is None
