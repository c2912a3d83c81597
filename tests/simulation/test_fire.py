"""The fire-monitoring example of [spcf §2, Tables 1, 2]: who acts is who the building says, by either interface."""

import json

import pytest
from click.testing import CliRunner

from godwit.broker.session import Session
from godwit.cli import main
from godwit.filters.contexts import of_sender
from godwit.filters.events import event
from godwit.filters.filters import Filter, all_of
from godwit.simulator import fire_monitoring
from godwit.simulator.fire_monitoring import Building, BuildingDevice, alert, near, orders, wish
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import named, with_changes
from godwit.simulator.scenario.fire_section import Fire
from tests.seeds import diagonal, few
from tests.simulation.scenarios import FAULTS, delivered_pairs, laws_broken, outcome

SMALLER = ["fire.detectors=4", "fire.sprinklers=12", "fire.signals=6", "fire.fires=5", "run.duration_s=25"]
FIRE = with_changes(named("fire"), SMALLER)
RETURNS = ["run.settle_s=150"]

ROUTES = {
    "spcf": [],
    "gsf": ["routing.strategy=gsf"],
    "tree": ["overlay.kind=random_tree", "overlay.brokers=12", "routing={advertisements='off'}"],
}


@pytest.mark.parametrize(("interface", "route"), diagonal(["context", "traditional"], ROUTES))
def test_those_act_whom_the_building_says(interface: str, route: str) -> None:
    summary = outcome(with_changes(FIRE, [f"fire.interface={interface}", *ROUTES[route]]), 1)
    assert summary.violations == ()
    assert summary.fire["all_correct"] is True
    assert summary.fire["unsure"] == 0
    assert summary.fire["judged"] == 5 * (48 + 2 * 24)
    assert summary.fire["sprinklers_on"] > 5
    assert summary.fire["switched_left"] > 20 < summary.fire["switched_right"]


def test_both_interfaces_deliver_to_the_same_devices() -> None:
    """S1: the traditional interface with its constraint at the last broker, and the context-aware one with SPCF."""
    pairs = []
    for changes in ([], ["fire.interface=traditional", "routing.strategy=gsf"]):
        simulation = Simulation(with_changes(FIRE, changes), 3)
        simulation.run()
        pairs.append(delivered_pairs(simulation))
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) > 100


@pytest.mark.parametrize("fault", few(["link_break", "crash", "link_loss", "delay"], 2))
def test_those_act_whom_the_building_says_also_under_faults(fault: str) -> None:
    summary = outcome(with_changes(FIRE, [*FAULTS[fault], *RETURNS]), 1)
    assert summary.violations == ()
    assert summary.fire["all_correct"] is True


def test_the_command_shows_it() -> None:
    shown = CliRunner().invoke(main.app, ["simulate", "fire", "--seed", "1"])
    assert shown.exit_code == 0
    told = json.loads(shown.stdout)
    assert told["passed"]
    assert told["fire"]["all_correct"] is True
    assert told["context_changes"] > 100


# ---------------------------------------------------------------- planted faults


def test_a_sprinkler_that_asks_about_no_floor_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger knows only what was asked for: the building knows better."""

    def on_any_floor(device: BuildingDevice, spec: Fire) -> Filter:
        intact = near(device, spec)
        return all_of(*(part for part in intact.parts if part.attribute != "floor"))  # type: ignore[union-attr]

    monkeypatch.setattr(fire_monitoring, "near", on_any_floor)
    summary = outcome(FIRE, 1)
    assert set(laws_broken(summary)) == {"fire"}
    assert summary.fire["all_correct"] is False


def test_a_broker_that_does_not_test_whom_an_order_means_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "is_addressed", lambda self, event: True)
    scenario = with_changes(FIRE, ["routing.strategy=gsf", "fire.fires=1"])
    assert set(laws_broken(outcome(scenario, 1))) == {"fire", "nothing misdelivered"}


# ---------------------------------------------------------------- the parts

SPRINKLER = BuildingDevice("sprinkler1", "sprinkler", 2, 100.0, 30.0)


@pytest.mark.parametrize(
    ("floor", "x", "y", "is_near"),
    [
        (2, 130.0, 60.0, True),
        (2, 130.5, 30.0, False),
        (2, 70.0, 0.0, True),
        (2, 69.5, 30.0, False),
        (2, 100.0, 60.5, False),
        (1, 100.0, 30.0, False),
    ],
)
@pytest.mark.parametrize("interface", ["context", "traditional"])
def test_a_sprinkler_wants_alerts_of_its_floor_within_30_m_along_both_axes(
    floor: int, x: float, y: float, is_near: bool, interface: str
) -> None:
    spec = Fire(floors=3, interface=interface)  # type: ignore[arg-type]
    detector = BuildingDevice("detector1", "detector", floor, x, y)
    content, sender = wish(SPRINKLER, spec)
    said = dict(alert(detector, spec))
    if interface == "context":
        said |= {f"sender.{name}": value for name, value in detector.context.items()}
    wanted = content if sender is None else all_of(content, of_sender(sender))
    assert wanted.holds(said) is is_near


def test_the_planner_orders_those_west_of_the_fire_left_and_those_east_of_it_right() -> None:
    [(left, west), (right, east)] = orders(event({"msgType": "Alert", "x": 40.0, "y": 1.0}))
    assert (left, right) == ({"msgType": "EvacuateL"}, {"msgType": "EvacuateR"})
    assert [west.holds({"x": x}) for x in (39.5, 40.0, 40.5)] == [True, False, False]
    assert [east.holds({"x": x}) for x in (39.5, 40.0, 40.5)] == [False, False, True]


def test_brokers_serve_the_building_floor_by_floor_and_devices_stay_on_their_floor() -> None:
    building = Building(Fire(floors=3, carried=0.5, width_m=90), RandomStreams(1))
    brokers = tuple(f"b{k}" for k in range(9))
    assert building.broker(BuildingDevice("d", "detector", 1, 0.0, 0.0), brokers) == "b3"
    assert building.broker(BuildingDevice("d", "detector", 1, 89.5, 0.0), brokers) == "b5"
    assert building.broker(BuildingDevice("d", "detector", 2, 90.0, 0.0), ("b0",)) == "b0"
    [carried, *_] = [device for device in building.devices.values() if device.is_carried]
    moved = building.carry(carried.name)
    assert (moved.floor, moved.name) == (carried.floor, carried.name)
    assert (moved.x, moved.y) != (carried.x, carried.y)
    assert not any(device.is_carried for device in building.of_kind("sprinkler"))
