"""Each way to move keeps what it promises, under faults; those that promise less are seen to lose and to double.

The last is as much a test of the checkers: what the naive mode breaks they must count.
"""

from itertools import count, islice
from random import Random

import pytest

from godwit.mobility.arrival_entries import ArrivalEntries
from godwit.mobility.attach_policies.carry import CarryPolicy
from godwit.mobility.modes import MODES
from godwit.mobility.relocation import Relocation
from godwit.seen import Seen
from godwit.simulator.random_scenarios import drawn, takes_modes, with_mode
from godwit.simulator.run import Simulation, run
from godwit.simulator.scenario import Scenario, with_changes
from godwit.simulator.summary import Summary
from tests.seeds import few
from tests.simulation.rightless import without_rights
from tests.simulation.scenarios import ALL_FAULTS, TREE

WAYS = ("relocate", "ask", "junction", "named", "presubscribe", "carry", "explicit", "naive")
SEED = 5

CALM = with_changes(
    TREE, ["clients.roaming={who='subscribers', per_s=2, away_s=1}", "run.duration_s=12", "run.settle_s=60"]
)
BUSY = with_changes(CALM, ["clients.publish_per_s=30"])
STORM = with_changes(
    CALM,
    [
        *(change for change in ALL_FAULTS if "diskless" not in change and "rolled_back" not in change),
        "faults.crash={per_s=0.2, lasts_s=0.7}",
        "churn={subscribe_per_s=2, unsubscribe_per_s=2, replace_per_s=2, burst_s=1, pause_s=2}",
        "run.settle_s=180",
    ],
)


def moving(scenario: Scenario, mode: str, announced: float = 1.0) -> Scenario:
    session_s = 30 if mode == "naive" else "none"
    return with_changes(
        scenario,
        [
            f"clients.roaming.subscriber_mode={mode}",
            f"clients.roaming.announced={announced}",
            f"clients.roaming.session_s={session_s}",
        ],
    )


def counted(summary: Summary) -> dict[str, bool]:
    """Which promises the run has kept, whatever was promised."""
    return {
        "complete": summary.lost == 0,
        "unique": summary.duplicated == 0,
        "ordered": summary.out_of_order == 0,
    }


@pytest.mark.parametrize("seed", few(range(4), 1))
@pytest.mark.parametrize("mode", WAYS)
def test_every_mode_keeps_what_it_promises_under_every_fault(mode, seed):
    summary = run(moving(STORM, mode, announced=0.5), seed)
    assert summary.violations == ()
    assert summary.moves > 5
    kept = counted(summary)
    assert all(kept[promise] for promise in kept if getattr(MODES[mode], promise))


@pytest.mark.parametrize("seed", few(range(3), 1))
@pytest.mark.parametrize("family", ["tree", "graph"])
def test_clients_that_have_nothing_but_their_names_lose_nothing_publishing_or_subscribing(family, seed):
    roaming = ["clients.roaming.who=all", "clients.roaming.publisher_mode=named", "clients.roaming.per_s=4"]
    summary = run(with_changes(moving(STORM, "named"), [*roaming, f"routing.family={family}"]), seed)
    assert summary.violations == ()
    assert summary.moves > 20
    assert counted(summary) == {"complete": True, "unique": True, "ordered": True}


@pytest.mark.parametrize("nth", few(range(8), 1))
def test_in_swarm_scenarios_that_roam_every_mode_keeps_what_it_promises(nth):
    number = next(islice((number for number in count() if takes_modes(drawn(SEED, number)[0])), nth, None))
    scenario, seed = drawn(SEED, number)
    for mode in WAYS:
        summary = run(with_mode(without_rights(scenario), mode, Random(number)), seed)
        assert summary.violations == (), (mode, number)


def test_the_swarm_draws_the_complete_modes_and_leaves_all_else_as_it_was():
    modes = {drawn(SEED, number)[0].clients.roaming.subscriber_mode for number in range(20)}
    assert modes == {"relocate", "ask", "carry"}


# ------------------------------------------------------------ what the weaker modes are seen to do


def test_the_naive_mode_is_seen_to_lose_and_to_double():
    summary = run(moving(CALM, "naive", announced=0.0), SEED)
    assert summary.lost > 0
    assert summary.duplicated > 0
    assert summary.violations == ()  # it has promised nothing


def test_the_naive_mode_is_seen_to_lose_even_if_it_unsubscribes_in_time():
    assert run(moving(CALM, "naive", announced=1.0), SEED).lost > 0


def test_the_explicit_mode_is_complete_if_every_move_out_was_said_and_loses_otherwise():
    said = run(moving(CALM, "explicit", announced=1.0), SEED)
    assert counted(said) == {"complete": True, "unique": True, "ordered": True}
    unsaid = run(moving(CALM, "explicit", announced=0.0), SEED)
    assert unsaid.lost > 0
    assert unsaid.duplicated == unsaid.out_of_order == 0


def test_the_carry_mode_is_seen_to_disturb_the_order_when_an_old_broker_answers_late():
    assert run(moving(BUSY, "carry"), SEED).out_of_order > 0


@pytest.mark.parametrize(("mode", "law"), [("naive", "nothing lost"), ("naive", "nothing twice"), ("carry", "order")])
def test_the_checkers_would_see_it_if_more_were_promised(mode, law):
    simulation = Simulation(moving(BUSY, mode, announced=0.0), SEED)
    simulation.ledger.modes = dict.fromkeys(simulation.ledger.modes, MODES["relocate"])
    assert law in {violation.law for violation in simulation.run().violations}


# ------------------------------------------------------------ nothing is left behind


@pytest.mark.parametrize("mode", WAYS)
def test_no_broker_keeps_anything_of_a_client_that_has_left_it(mode):
    simulation = Simulation(moving(with_changes(STORM, ["run.leave=false"]), mode, announced=0.5), SEED)
    simulation.run()
    for client in simulation.subscribers:
        home = simulation.client(client).home
        for name in simulation.overlay.brokers:
            broker = simulation.broker(name)
            if name == home:
                assert broker.sessions.session(client) is not None
                continue
            assert broker.sessions.session(client) is None
            assert client not in broker.component(Relocation).arrivals
            assert client not in broker.component(CarryPolicy).collecting
            assert not [id for id in broker.routing.in_subs[""] if id[0] == client]  # type: ignore[attr-defined]


# ------------------------------------------------------------ planted faults are caught


def takes_nothing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CarryPolicy, "_take_in", lambda *_: [])


def forgets_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seen, "add", lambda *_: True)


def asks_for_the_session_before_it_subscribes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrivalEntries, "expect", lambda *_, **__: None)


def never_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CarryPolicy, "_ask_all", lambda *_: [])


@pytest.mark.parametrize(
    ("mode", "plant", "law"),
    [
        ("carry", takes_nothing_in, "nothing lost"),
        ("carry", forgets_what_has_come, "nothing twice"),
        ("ask", asks_for_the_session_before_it_subscribes, "nothing lost"),
        ("carry", never_asks_again, "settles"),
    ],
)
def test_a_planted_fault_is_caught(mode, plant, law, monkeypatch):
    plant(monkeypatch)
    assert law in {violation.law for violation in run(moving(BUSY, mode), SEED).violations}
