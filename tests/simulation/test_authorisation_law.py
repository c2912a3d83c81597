"""The authorisation law: nothing is delivered that no right in force covers; and it catches planted faults."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from godwit.broker import authorisation, retained
from godwit.broker.authorisation import Authorisation
from godwit.broker.queues import Queue
from godwit.broker.sessions import Sessions
from godwit.cli import main
from godwit.filters.filters import TRUE
from godwit.simulator import random_scenarios, rights_changes
from godwit.simulator.random_scenarios import STRATEGIES, drawn
from godwit.simulator.rights_changes import LAW, RightsChanges
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Rights, Scenario, with_changes
from godwit.simulator.snapshot_checker import SnapshotChecker
from godwit.simulator.summary import Summary
from tests.seeds import few, slow
from tests.simulation.scenarios import AWAY, FAULTS, GRAPH, TREE

SEED = 15
PER_S = 2.0

RESTLESS = ["clients.disconnections={per_s=8, lasts_s=0.5}", "overlay.client_latency_ms=100"]
"""Much is under way when clients go."""

Plant = Callable[[pytest.MonkeyPatch], None]


def roaming(base: Scenario, mode: str) -> Scenario:
    """Subscribers that roam, and are away; each broker has its own user file."""
    kept = ", session_s=5" if mode in ("naive", "explicit") else ""
    changes = [f"clients.roaming={{who='subscribers', per_s=4, away_s=0.5, subscriber_mode='{mode}'{kept}}}", *AWAY]
    return with_changes(base, [*changes, *FAULTS["crash"], "clients.publish_per_s=10", "run.settle_s=10"])


MODES = {
    **{f"tree {mode}": roaming(TREE, mode) for mode in ("relocate", "ask", "carry", "explicit", "naive")},
    **{f"graph {mode}": roaming(GRAPH, mode) for mode in ("relocate", "ask")},
}


def run(number: int, seed: int = SEED) -> tuple[Summary, RightsChanges]:
    """A drawn scenario in which rights change."""
    return run_with_rights(*drawn(seed, number))


def run_with_rights(scenario: Scenario, run_seed: int, per_s: float = PER_S) -> tuple[Summary, RightsChanges]:
    """A scenario in which rights change, too."""
    simulation, rights = simulated(scenario, run_seed, per_s)
    return simulation.run(), rights


def simulated(scenario: Scenario, run_seed: int, per_s: float = PER_S) -> tuple[Simulation, RightsChanges]:
    """The same before it runs."""
    unjudged = structs.replace(scenario.run, judge=False, leave=False)  # who loses a subscription is owed nothing
    scenario = structs.replace(scenario, rights=Rights(changes_per_s=per_s), run=unjudged)
    simulation = Simulation(scenario, run_seed)
    assert simulation.rights is not None
    return simulation, simulation.rights


def broken(summary: Summary) -> list[str]:
    return [violation.text for violation in summary.violations if violation.law == LAW]


@pytest.mark.parametrize("number", few(range(0, len(STRATEGIES), 2), 4))
def test_nothing_unauthorised_is_delivered_in_a_drawn_scenario(number: int) -> None:
    summary, rights = run(number)
    assert broken(summary) == [], number
    assert rights.changes > 10


def in_slices(patch: pytest.MonkeyPatch) -> None:
    """Compare one subscription or event with rights in each slice."""
    patch.setattr(authorisation, "STEPS_AT_ONCE", 1)


@pytest.mark.parametrize("mode", ["tree relocate", "graph relocate", slow("tree ask"), slow("tree carry")])
def test_nothing_unauthorised_is_delivered_while_sessions_are_compared_in_slices(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_slices(monkeypatch)
    simulation, rights = simulated(MODES[mode], SEED)
    checker = SnapshotChecker(simulation.world, SEED, 60)
    assert broken(simulation.run()) == []
    assert checker.differences == []
    assert rights.checked > 100
    assert rights.revoked > 0


def test_the_law_has_something_to_look_at() -> None:
    seen = [run(number)[1] for number in range(4)]
    assert sum(rights.checked for rights in seen) > 100
    assert sum(rights.revoked for rights in seen) > 5
    assert sum(rights.retained for rights in seen) > 5
    assert sum(rights.entered for rights in seen) > 500
    assert sum(rights.withheld for rights in seen) > 50
    assert sum(rights.replaced for rights in seen) > 5


@pytest.mark.parametrize("mode", MODES)
def test_nothing_unauthorised_is_delivered_to_clients_that_roam(mode: str) -> None:
    summary, rights = run_with_rights(MODES[mode], SEED)
    assert broken(summary) == []
    assert summary.moves > 20
    assert rights.checked > 100


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("part", range(4))
def test_nothing_unauthorised_is_delivered_in_a_swarm(part: int) -> None:
    for number in range(part * 50, part * 50 + 50):
        assert broken(run(number)[0]) == [], number


@pytest.mark.parametrize("mode", ["tree relocate", slow("graph relocate"), slow("tree carry")])
def test_restored_brokers_answer_alike_while_rights_change(mode: str) -> None:
    simulation, _ = simulated(MODES[mode], SEED)
    checker = SnapshotChecker(simulation.world, SEED, 60)
    simulation.run()
    assert checker.differences == []
    assert checker.taken > 10


# ---------------------------------------------------------------- planted faults


def keeps_what_waits(patch: pytest.MonkeyPatch) -> None:
    """What waits in a queue is not looked at when rights change."""
    patch.setattr(Queue, "withhold", lambda self, numbers: None)


def keeps_subscriptions(patch: pytest.MonkeyPatch) -> None:
    """Subscriptions go on as they were."""
    patch.setattr(Authorisation, "_revoke", lambda self, session, subscribe, filter, effects, now: None)


def believes_other_brokers(patch: pytest.MonkeyPatch) -> None:
    """A session that comes from elsewhere, or is come back to, is not examined."""
    patch.setattr(Authorisation, "adopted", lambda self, session, now: [])
    patch.setattr(Authorisation, "resumed", lambda self, session, message, now: [])


def forgets_what_was_sent(patch: pytest.MonkeyPatch) -> None:
    """What was sent before a change is sent again as it is."""
    go_on = Authorisation._go_on

    def settled(self: Authorisation, user: str, *arguments: Any, **more: Any) -> None:
        go_on(self, user, *arguments, **more)
        for client in self._of_user.get(user, ()):
            self._entries[client].is_settled = True

    patch.setattr(Authorisation, "_go_on", settled)


def sends_what_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Sessions are compared with rights in slices, and what comes meanwhile is sent at once."""
    in_slices(patch)
    patch.setattr(Queue, "hold", lambda self: None)


def keeps_sessions_of_users_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    """A session whose user was removed goes on."""
    patch.setattr(Authorisation, "_end", lambda self, client, entry, reason, now: [])


def never_asks(patch: pytest.MonkeyPatch) -> None:
    """Sessions know of no rights at all."""
    intact = Sessions._resume

    def resume(self: Sessions, *arguments: Any, **more: Any) -> Any:
        authority, self.authority = self.authority, None
        try:
            return intact(self, *arguments, **more)
        finally:
            self.authority = authority

    patch.setattr(Sessions, "_resume", resume)


def lets_everything_in(patch: pytest.MonkeyPatch) -> None:
    """Events are not held against what their publisher may publish."""
    patch.setattr(rights_changes, "may_publish", lambda publish, attributes: True)


def replaces_what_others_retain(patch: pytest.MonkeyPatch) -> None:
    """The event that is retained by a key is replaced by everybody."""
    patch.setattr(retained, "may_publish", lambda publish, attributes, unsaid: True)


def forgets_what_may_be_published(patch: pytest.MonkeyPatch) -> None:
    """A broker believes that rights to publish never change."""
    intact = Authorisation.rights_of

    def rights_of(self: Authorisation, client: str) -> Any:
        found = intact(self, client)
        return None if found is None else structs.replace(found, publish=TRUE)

    patch.setattr(Authorisation, "rights_of", rights_of)


@pytest.mark.parametrize(
    "plant",
    [
        lets_everything_in,
        replaces_what_others_retain,
        forgets_what_may_be_published,
        keeps_what_waits,
        keeps_subscriptions,
        believes_other_brokers,
        slow(forgets_what_was_sent),
        keeps_sessions_of_users_that_are_gone,
        never_asks,
        sends_what_is_not_compared,
    ],
)
def test_a_planted_fault_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    scenario = with_changes(MODES["tree relocate"], RESTLESS)
    assert any(broken(run_with_rights(scenario, seed, 8.0)[0]) for seed in range(10))


# ---------------------------------------------------------------- in the swarm


def with_rights(seed: int, numbers: range) -> list[int]:
    """The numbers of a swarm's scenarios in which rights change."""
    return [number for number in numbers if drawn(seed, number)[0].rights.is_on]


def test_a_swarm_draws_rights_that_change_and_leaves_all_else_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: drawn(SEED, number) for number in range(40)}
    assert 2 <= sum(scenario.rights.is_on for scenario, _ in before.values()) <= 16
    monkeypatch.setattr(random_scenarios, "RIGHTS_PROBABILITY", 0.0)
    for number, (scenario, seed) in before.items():
        run = structs.replace(scenario.run, judge=True, leave=True) if scenario.rights.is_on else scenario.run
        assert (structs.replace(scenario, rights=Rights(), run=run), seed) == drawn(SEED, number)


def test_scenarios_of_a_swarm_in_which_rights_change_hold() -> None:
    checked = 0
    for number in with_rights(SEED, range(30)):
        scenario, seed = drawn(SEED, number)
        simulation = Simulation(scenario, seed)
        assert simulation.run().violations == (), number
        assert simulation.rights is not None
        checked += simulation.rights.checked
    assert checked > 100


@pytest.mark.parametrize("plant", [keeps_what_waits, keeps_subscriptions])
def test_a_swarm_catches_a_planted_fault_of_rights(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(random_scenarios, "RIGHTS_PROBABILITY", 1.0)  # quicker than many runs in which none change
    shown = CliRunner().invoke(main.app, ["simulate", "--swarm", "40", "--seed", str(SEED)])
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["broken"]["violations"][0]["law"] == LAW
