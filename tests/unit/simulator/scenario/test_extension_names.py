"""Scenarios name modes, components and reductions of other packages, or are refused with the names that are known."""

import re
from collections.abc import Iterator

import pytest
from msgspec import structs

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect
from godwit.broker.host import Host
from godwit.broker.messages import Attach
from godwit.errors import ScenarioError
from godwit.mobility.extensions import Policy, register_attach_policy, register_component
from godwit.mobility.modes import MODES, Mode
from godwit.mobility.relocation import Relocation
from godwit.simulator.run import run
from godwit.simulator.scenario import named, with_changes
from godwit.simulator.setup import broker_config

ROAM = named("roam")
PER_S = "clients.roaming.per_s=1"


class Observer:
    """A component that only counts who greets."""

    label = "test observer"
    greeted = 0

    def join(self, host: Host) -> Handlers:
        return Handlers(on_attach=self._on_attach)

    def _on_attach(self, message: Attach) -> None:
        Observer.greeted += 1

    def snapshot(self) -> None:
        return None

    def restore(self, state: None) -> None:
        return None


class Ferry:
    """Attaches as `relocate` does."""

    label = "test ferry"
    carried = 0

    def __init__(self, relocation: Relocation) -> None:
        self.relocation = relocation

    def join(self, host: Host) -> Handlers:
        return Handlers()

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        Ferry.carried += 1
        return self.relocation.attach(connection, message, now)

    def snapshot(self) -> None:
        return None

    def restore(self, state: None) -> None:
        return None


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    register_component("test observer", Observer)
    register_attach_policy("test ferry", Policy(structs.replace(MODES["relocate"], for_all=False), Ferry))
    yield
    MODES.pop("test ferry")  # other tests go through all modes


def test_a_run_uses_the_mode_and_the_components_that_its_scenario_names() -> None:
    names = ["clients.roaming.subscriber_mode='test ferry'", "routing.components=['test observer']"]
    scenario = with_changes(ROAM, [*names, PER_S, "clients.roaming.who=subscribers", "run.duration_s=10"])
    config = broker_config(scenario)
    assert (config.attach_policies, config.components) == (("test ferry",), ("test observer",))
    assert run(scenario, 1).violations == ()
    assert Observer.greeted > 0
    assert Ferry.carried > 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            "clients.roaming.subscriber_mode=by_boat",
            "subscriber_mode is 'by_boat': allowed is 'relocate', 'ask', 'junction', 'named'",
        ),
        ("clients.roaming.subscriber_mode='test fery'", "(did you mean test ferry"),
        ("clients.roaming.subscriber_mode=delayed", "subscriber_mode is 'delayed': allowed is 'relocate'"),
        (
            "clients.roaming.publisher_mode='test ferry'",
            "publisher_mode is 'test ferry': allowed is 'relocate', 'junction', 'named'",
        ),
        ("clients.roaming.publisher_mode=ask", "'prefetching', 'proxy', 'delayed', 'prefetching+delayed'"),
        ("routing.reduction=half", "routing.reduction is 'half': allowed is "),
        ("routing.components=['test obsever']", "is 'test obsever': allowed is "),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_those_that_are_known(changes: str, text: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(text)):
        with_changes(ROAM, [changes])


def test_a_mode_that_leaves_sessions_behind_needs_a_time_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    leaving: Mode = structs.replace(MODES["relocate"], complete=False, leaves="a session")
    monkeypatch.setitem(MODES, "test ferry", leaving)
    with pytest.raises(ScenarioError, match="session_s is missing: the subscriber_mode 'test ferry' leaves sessions"):
        with_changes(ROAM, ["clients.roaming.subscriber_mode='test ferry'", PER_S])
