"""Contexts and filters on them, as they are drawn for simulated clients."""

from random import Random

import pytest

from godwit.errors import ScenarioError
from godwit.filters.contexts import content_part, sender_part
from godwit.filters.filters import TRUE, some
from godwit.filters.sets import less_than
from godwit.simulator.context_generator import ROLES, ContextGenerator
from godwit.simulator.random_scenarios import drawn
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Contexts, Faults, Scenario, check, with_changes
from tests.seeds import few
from tests.simulation.contextless import without_contexts
from tests.simulation.scenarios import GRAPH, TREE

BROKERS = [f"b{k}" for k in range(10)]
CHEAP = some("price", less_than(10))


def situations(**keys: object) -> ContextGenerator:
    return ContextGenerator(Contexts(**{"attributes": 2, "values": 100, **keys}), BROKERS, RandomStreams(1))  # type: ignore[arg-type]


# ---------------------------------------------------------------- drawn


@pytest.mark.parametrize("selectivity", [0.05, 0.2, 0.8, 1.0])
def test_a_filter_on_contexts_matches_the_share_of_them_that_is_asked_for(selectivity: float) -> None:
    found = situations(sender_share=1, sender_selectivity=selectivity, to_share=1, to_selectivity=selectivity)
    contexts = [found.context(Random(k).choice(BROKERS)) for k in range(1_000)]
    for asked in ([sender_part(found.narrowed(CHEAP)) for _ in range(50)], [found.meant() for _ in range(50)]):
        shares = [sum(filter is not None and filter.holds(context) for context in contexts) / 1_000 for filter in asked]
        assert abs(sum(shares) / 50 - selectivity) < 0.02


def test_a_narrowed_filter_asks_for_the_same_content() -> None:
    narrowed = situations(sender_share=1).narrowed(CHEAP)
    assert content_part(narrowed) == CHEAP
    assert sender_part(narrowed) != TRUE


def test_a_share_of_subscriptions_and_events_knows_of_contexts() -> None:
    found = situations(sender_share=0.3, to_share=0.6)
    assert 200 < sum(found.narrowed(CHEAP) != CHEAP for _ in range(1_000)) < 400
    assert 500 < sum(found.meant() is not None for _ in range(1_000)) < 700


def test_with_locality_contexts_at_one_broker_are_alike_and_over_all_brokers_they_are_not() -> None:
    near, far = situations(locality=1), situations(locality=0)
    values = {name: [found.context("b4")["c0"] for _ in range(200)] for name, found in (("n", near), ("f", far))}
    assert len(set(values["n"])) <= 11 < len(set(values["f"]))
    assert len({near.context(broker)["c0"] for broker in BROKERS for _ in range(200)}) > 90


def test_mixed_contexts_lack_attributes_and_have_several_values_but_for_the_first() -> None:
    found = situations(kind="mixed", values=5)
    contexts = [found.context("b0") for _ in range(300)]
    assert any("c1" not in context for context in contexts)
    assert any(isinstance(context.get("c1"), tuple) for context in contexts)
    assert not any(isinstance(context.get("c0"), tuple) for context in contexts)


def test_a_role_is_the_servers_word_and_does_not_change() -> None:
    found = situations(role_share=0.5)
    said = [found.asserted(f"s{k}") for k in range(200)]
    assert said == [found.asserted(f"s{k}") for k in range(200)]
    assert 60 < sum(bool(asserted) for asserted in said) < 140
    assert {asserted["role"] for asserted in said if asserted} == set(ROLES)
    assert "role" not in found.context("b0")


def test_where_contexts_are_off_nothing_is_drawn() -> None:
    found = ContextGenerator(Contexts(), BROKERS, RandomStreams(1))
    assert (found.narrowed(CHEAP), found.meant(), found.asserted("s0"), found.context("b0")) == (CHEAP, None, {}, {})


# ---------------------------------------------------------------- in scenarios


@pytest.mark.parametrize(
    ("base", "changes", "says"),
    [
        (TREE, ["contexts.to_share=0.5"], "contexts.to_share is 0.5: contexts.attributes is 0"),
        (TREE, ["contexts.changes_per_s=2"], "allowed is 0, or contexts.attributes of 1 to 16"),
        (TREE, ["contexts.attributes=17"], "contexts.attributes is 17: allowed is a whole number from 0 to 16"),
        (TREE, ["routing.strategy=spcf"], "routing.strategy is 'spcf': only the family 'graph' has it"),
        (TREE, ["routing.matching=hops"], "routing.matching is 'hops': only the family 'graph' has it"),
        (TREE, ["routing.strategy=asf"], "'advertised' (ASF is the family 'tree' with routing.advertisements 'off')"),
        (GRAPH, ["routing.contexts_max=7"], "routing.contexts_max is 7: only the family 'graph' with strategy 'spcf'"),
        (
            TREE,
            ["contexts={attributes=1, to_selectivity=0.4}"],
            "contexts.to_selectivity is 0.4: contexts.to_share is 0, so no event has a `to`",
        ),
        (
            TREE,
            ["contexts.attributes=1", "contexts.sender_selectivity=0.4"],
            "contexts.sender_share is 0, so no subscription has a filter on its sender",
        ),
        (GRAPH, ["fire.fires=2"], "fire.fires is 2: fire.floors is 0, so there is no building"),
        (GRAPH, ["fire.interface=traditional"], "without that, it can only be 'context'"),
        (GRAPH, ["fire.floors=2", "fire.fires=9"], "allowed are as many as run.duration_s has room for, 1"),
        (GRAPH, ["fire.floors=2", "fire.fires=1", "fire.detectors=0"], "without a detector no fire is reported"),
    ],
)
def test_what_cannot_be_is_refused(base: Scenario, changes: list[str], says: str) -> None:
    with pytest.raises(ScenarioError, match=r".") as error:
        with_changes(base, changes)
    assert says in str(error.value)


def test_a_change_takes_away_what_it_leaves_without_effect() -> None:
    spcf = with_changes(GRAPH, ["routing.strategy=spcf", "routing.contexts_max=7"])
    assert with_changes(spcf, ["routing.quenching=true"]).routing.contexts_max == 7
    assert with_changes(spcf, ["routing.strategy=gsf"]).routing.contexts_max == 64
    fire = with_changes(GRAPH, ["fire.floors=2", "fire.fires=1", "fire.signals=7"])
    assert with_changes(fire, ["fire.floors=0"]).fire == GRAPH.fire
    meant = with_changes(GRAPH, ["contexts={attributes=1, to_share=1, to_selectivity=0.4}"])
    assert with_changes(meant, ["contexts.to_share=0"]).contexts.to_selectivity == 0.2
    for number in range(40):  # so a whole swarm can be told
        if (scenario := drawn(3, number)[0]).routing.family == "graph":
            with_changes(scenario, ["routing.strategy=gsf"])


@pytest.mark.parametrize("count", few([150, 300], 1))
def test_a_swarm_draws_contexts_with_every_strategy_and_every_place_of_matching(count: int) -> None:
    scenarios = [drawn(1, number)[0] for number in range(count)]
    for scenario in scenarios[:30]:
        check(scenario)
    graphs = [scenario for scenario in scenarios if scenario.routing.family == "graph"]
    ways = {(scenario.routing.strategy, scenario.routing.matching) for scenario in graphs}
    expected = {("gsf", "source"), ("spcf", "source"), ("gsf", "hops"), ("spcf", "hops"), ("advertised", "source")}
    assert ways == expected
    advertised = [scenario for scenario in graphs if scenario.routing.strategy == "advertised"]
    assert {scenario.routing.advertisements for scenario in advertised} == {"required", "optional"}
    assert any(scenario.clients.roaming.is_on for scenario in advertised)
    assert any(scenario.faults != Faults() for scenario in advertised)
    spcf = [scenario for scenario in graphs if scenario.routing.strategy == "spcf"]
    assert sum(scenario.contexts.is_on for scenario in spcf) > len(spcf) / 2
    for matching in ("source", "hops"):
        alike = [scenario for scenario in spcf if scenario.routing.matching == matching]
        assert any(scenario.clients.roaming.is_on for scenario in alike)
        assert any(scenario.faults != Faults() for scenario in alike)
    assert any(scenario.faults.crash_diskless for scenario in spcf)
    assert any(scenario.sessions.subscription_expires_s for scenario in spcf)
    trees = [scenario for scenario in scenarios if scenario.routing.family == "tree"]
    assert 0.2 < sum(scenario.contexts.is_on for scenario in trees) / len(trees) < 0.6


def test_a_scenario_without_contexts_is_otherwise_the_same() -> None:
    scenario = next(each for each, _ in (drawn(1, k) for k in range(50)) if each.contexts.is_on)
    bare = without_contexts(scenario)
    assert not bare.contexts.is_on
    assert (bare.workload, bare.clients, bare.faults) == (scenario.workload, scenario.clients, scenario.faults)
