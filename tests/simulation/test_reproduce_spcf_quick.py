"""The quick verdicts of spcf, as `godwit reproduce spcf` gives them: grades and counts that no machine changes.

S2 is about times, which are not taken here. What its verdict rests on besides is: how many filters each strategy asks,
and how many packets it sends. Here the filters asked stand in the place of the time, as if nothing else took any.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from godwit.reproduce import Claim, Setting, claims_of
from godwit.reproduce.spcf import bloom_rates, context_claims, routing_cost, scale, strategy_figures, throughput
from godwit.reproduce.spcf.bloom_rates import Bloom
from godwit.reproduce.spcf.forwarding import SCENARIOS, ForwardingPlan, Measured, measured
from godwit.reproduce.spcf.routing_cost import RoutingCost

Key = tuple[Any, str, str]
KEYS: list[Key] = [(asks, scenario, "plain") for asks in throughput.ASKS for scenario in SCENARIOS]

ASKED = {  # filters for each message, by selectivity of contexts: ASF, GSF, SPCF
    ("subscriptions", "total"): {0.1: (3615, 1315, 538), 0.3: (2971, 1250, 683), 0.8: (3482, 1291, 1143)},
    ("subscriptions", "content"): {0.1: (1715, 938, 223), 0.3: (2216, 1062, 485), 0.8: (3201, 1238, 1096)},
    ("publications", "total"): {0.1: (5782, 1641, 576), 0.3: (4425, 1477, 650), 0.8: (3794, 1360, 1025)},
    ("publications", "content"): {0.1: (3398, 1291, 247), 0.3: (3421, 1316, 442), 0.8: (3398, 1291, 983)},
}
PACKETS = {  # of 24 messages
    ("subscriptions", "total"): {0.1: (138, 123, 123), 0.3: (127, 123, 123), 0.8: (122, 113, 113)},
    ("subscriptions", "content"): {0.1: (33, 21, 21), 0.3: (70, 53, 53), 0.8: (107, 96, 96)},
    ("publications", "total"): {0.1: (264, 264, 146), 0.3: (219, 222, 127), 0.8: (137, 134, 111)},
    ("publications", "content"): {0.1: (118, 113, 24), 0.3: (147, 136, 41), 0.8: (118, 113, 91)},
}


# ---------------------------------------------------------------- S2: counts


@pytest.fixture(scope="module")
def counted() -> dict[Key, list[Measured]]:
    """What a quick run counts; each filter that is asked takes a microsecond, and nothing else any time."""
    quick = scale.QUICK
    found: dict[Key, list[Measured]] = {}
    for asks, scenario, matcher in KEYS:
        plan = ForwardingPlan(
            size=quick.size,
            context=quick.forwarding,
            messages=quick.messages,
            rounds=1,  # counts are the same in each
            strategies=scale.PAPERS_OWN,
            matcher=matcher,
            asks=asks,
            scenario=scenario,
        )
        of_plan = measured(plan, 1)
        found[asks, scenario, matcher] = [structs.replace(each, per_s=1e6 / each.asked) for each in of_plan]
    return found


@pytest.mark.parametrize("key", KEYS)
def test_by_counts_spcf_is_ahead_everywhere_and_its_lead_shrinks(counted: dict[Key, list[Measured]], key: Key) -> None:
    assert list(throughput._against(key, counted[key], 0.0)) == []


@pytest.mark.parametrize("key", KEYS)
def test_a_quick_run_counts_what_it_counted_when_its_verdict_was_written_down(
    counted: dict[Key, list[Measured]], key: Key
) -> None:
    asks, scenario, _ = key
    by_context: dict[float, list[Measured]] = {}
    for each in counted[key]:
        by_context.setdefault(each.context, []).append(each)
    for context, of in by_context.items():
        assert tuple(each.strategy for each in of) == scale.PAPERS_OWN
        assert tuple(round(each.asked) for each in of) == ASKED[asks, scenario][context]
        assert tuple(round(24 * each.packets) for each in of) == PACKETS[asks, scenario][context]


def _asks_as_many(each: Measured, gsf: Measured) -> Measured:
    return structs.replace(each, asked=gsf.asked, per_s=gsf.per_s)


def _asks_twice_as_many(each: Measured, gsf: Measured) -> Measured:
    return structs.replace(each, per_s=each.per_s / 2)


def _sends_as_to_all(each: Measured, gsf: Measured) -> Measured:
    return structs.replace(each, packets=gsf.packets + 1 / 24)


@pytest.mark.parametrize(
    ("plant", "seen"),
    [
        (_asks_as_many, ["NO LEAD over GSF", "over GSF DOES NOT SHRINK", "as many FILTERS ASKED as GSF"]),
        (_asks_twice_as_many, ["BEHIND with filters in publications, content fixed, at 80%: 0.66 × GSF"]),
        (_sends_as_to_all, ["more PACKETS than GSF"]),
    ],
)
def test_a_spcf_that_saves_nothing_is_seen(
    counted: dict[Key, list[Measured]], plant: Callable[[Measured, Measured], Measured], seen: list[str]
) -> None:
    key = KEYS[-1]
    gsf = {each.context: each for each in counted[key] if each.strategy == "GSF"}
    wrong = [plant(each, gsf[each.context]) if each.strategy == "SPCF" else each for each in counted[key]]
    against = list(throughput._against(key, wrong, 0.0))
    for what in seen:
        assert any(what in why for why in against), against


# ---------------------------------------------------------------- S1, S3, S4 and S5: grades


class Run(NamedTuple):
    """What a quick run has measured, and what follows from it."""

    claims: dict[str, Claim]
    costs: dict[str, list[RoutingCost]]  # by locality
    blooms: list[Bloom]


def _claims(folder: Path, costs: Callable[..., list[RoutingCost]], blooms: Callable[..., list[Bloom]]) -> Run:
    """All claims but S2, without figures, and without changes of contexts, which no claim is about."""
    found = Run({}, {}, [])

    def kept_costs(*said: Any) -> list[RoutingCost]:
        locality = said[5]
        found.costs[locality] = costs(*said)
        return found.costs[locality]

    def kept_blooms(*said: Any) -> list[Bloom]:
        found.blooms.extend(blooms(*said))
        return found.blooms

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy_figures, "lines", lambda *said, **more: None)
        patch.setattr(routing_cost, "routing_costs", kept_costs)
        patch.setattr(bloom_rates, "blooms", kept_blooms)
        patch.setattr(context_claims, "_changes", lambda *said: "")
        s2 = Claim(key="S2", where="", claim="", paper="", ours="", holds=False)
        patch.setattr(context_claims, "throughput", lambda *said: s2)
        found.claims.update((claim.key, claim) for claim in claims_of("spcf", Setting(folder=folder)))
    return found


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _claims(tmp_path_factory.mktemp("spcf"), routing_cost.routing_costs, bloom_rates.blooms)


def test_a_quick_run_has_the_grades_that_are_written_down(quick: Run) -> None:
    grades = {key: claim.grade for key, claim in quick.claims.items() if key != "S2"}
    assert grades == dict.fromkeys(("S1", "S3", "S4", "S5"), "holds"), quick.claims


def _spcf(costs: list[RoutingCost], change: Callable[[RoutingCost], RoutingCost]) -> list[RoutingCost]:
    return [change(each) if each.strategy == "SPCF" else each for each in costs]


def _floods(costs: list[RoutingCost]) -> list[RoutingCost]:
    """A subscribe goes to all, however selective."""
    return _spcf(costs, lambda each: structs.replace(each, subscribe=11.0))


def _stays_below_a_flood(costs: list[RoutingCost]) -> list[RoutingCost]:
    return _spcf(costs, lambda each: structs.replace(each, subscribe=min(each.subscribe, 9.0)))


def _attracts_ever_more(costs: list[RoutingCost]) -> list[RoutingCost]:
    """A context attracts what brokers have already: no fall after the rise."""
    return _spcf(costs, lambda each: structs.replace(each, set_context=1_000 * each.context))


def _attracts_nothing(costs: list[RoutingCost]) -> list[RoutingCost]:
    return _spcf(costs, lambda each: structs.replace(each, set_context=11.0))


@pytest.mark.parametrize(
    ("key", "plant"),
    [("S3", _floods), ("S3", _stays_below_a_flood), ("S4", _attracts_ever_more), ("S4", _attracts_nothing)],
)
def test_a_cost_of_routing_that_has_not_the_papers_form_is_seen(
    quick: Run, key: str, plant: Callable[[list[RoutingCost]], list[RoutingCost]], tmp_path: Path
) -> None:
    wrong = _claims(tmp_path, lambda *said: plant(quick.costs[said[5]]), lambda *said: quick.blooms).claims
    assert {each for each, claim in wrong.items() if claim.grade != quick.claims[each].grade} == {key}


def _worse(found: list[Bloom], **change: Any) -> list[Bloom]:
    return [*found[:-1], structs.replace(found[-1], **change)]


def _all_changes(found: list[Bloom]) -> Iterator[list[Bloom]]:
    yield _worse(found, lost=1)
    yield _worse(found, wrong=1)
    yield _worse(found, missed=1)
    yield _worse(found, measured=0.9)  # of a stated half
    yield [structs.replace(each, vain=0.0) for each in found]  # no false positive ever came


def test_a_bloom_filter_that_loses_somebody_or_lets_too_much_pass_is_seen(quick: Run, tmp_path: Path) -> None:
    for wrong in _all_changes(quick.blooms):
        claims = _claims(tmp_path, lambda *said: quick.costs[said[5]], lambda *said, wrong=wrong: wrong).claims
        assert claims["S5"].grade == "does not hold", wrong
        assert claims["S3"].grade == claims["S4"].grade == "holds"
