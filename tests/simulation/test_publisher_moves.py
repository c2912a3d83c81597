"""Publishers that move, in simulated networks with faults: what each mode promises holds, and faults in it are seen."""

from functools import partial

import pytest

from godwit.broker.effects import Effect
from godwit.mobility.publisher_presence import PublisherPresence
from godwit.simulator import named
from godwit.simulator.run import run
from godwit.simulator.scenario import Scenario, with_changes
from tests.seeds import diagonal, few
from tests.simulation.scenarios import AWAY, TREE, laws_broken

MODES = ("standard", "prefetching", "proxy", "delayed", "prefetching+delayed")

ROAM = with_changes(
    TREE,
    [
        "overlay.kind=balanced_tree",
        "overlay.height=3",
        "overlay.degree=2",
        "clients.publishers=4",
        "clients.roaming={who='publishers', per_s=1.2, away_s=0.6}",
        "clients.roaming.publishers={delay_s=2, proxies=2, prefetch_s=5}",
        "run.duration_s=20",
        "run.settle_s=60",
    ],
)
FAULTS = {
    "none": [],
    "links": ["faults.link_loss=0.05", "faults.link_break={per_s=0.3, lasts_s=0.5}", "faults.duplicate=0.1"],
    "crashes": ["faults.crash={per_s=0.3, lasts_s=0.5}", "overlay.disk_sync_ms=5"],
    "clients": [*AWAY, "faults.slow_node={per_s=0.2, lasts_s=1}", "faults.clock_skew_s=1"],
}


def scenario(mode: str, *changes: str) -> Scenario:
    return with_changes(ROAM, [f"clients.roaming.publisher_mode={mode}", *changes])


@pytest.mark.parametrize("seed", few((1, 2), 1))
@pytest.mark.parametrize("advertisements", ["required", "optional"])
@pytest.mark.parametrize(("mode", "faults"), diagonal(MODES, FAULTS))
def test_what_is_published_once_the_tree_stands_comes_once_and_in_order(mode, faults, advertisements, seed):
    summary = run(scenario(mode, *FAULTS[faults], f"routing.advertisements={advertisements}"), seed)
    assert summary.violations == ()
    assert summary.entries_left == 0
    assert summary.moves > 10
    assert summary.owed > 100


@pytest.mark.parametrize("seed", few(range(3), 1))
@pytest.mark.parametrize("mode", MODES)
def test_publishers_and_subscribers_may_move_at_once(mode, seed):
    summary = run(scenario(mode, "clients.roaming.who=all", "routing.advertisements=required"), seed)
    assert summary.violations == ()
    assert summary.owed > 100


def test_wrong_predictions_cost_messages_and_nothing_else():
    predicted = scenario("prefetching", "routing.advertisements=required", "run.duration_s=8")
    right = run(predicted, 2)
    wrong = run(with_changes(predicted, ["clients.roaming.publishers.wrong_rate=1"]), 2)
    assert right.violations == wrong.violations == ()
    assert wrong.messages["WithdrawPrefetch"] > right.messages.get("WithdrawPrefetch", 0)
    assert sum(wrong.messages.values()) > sum(right.messages.values())


def test_a_publisher_whose_broker_has_crashed_owes_nothing_until_its_tree_stands_at_the_next():
    """The broker that it has left cannot say that its session has ended; when it can, the publisher is elsewhere."""
    faults = [change for changes in FAULTS.values() for change in changes]
    summary = run(scenario("prefetching", "routing.advertisements=required", *faults), 7)
    assert summary.violations == ()
    assert summary.owed > 50


NO_TREE_NEEDED = {
    "off": ["routing.advertisements=off"],
    "graph": ["overlay={kind='random_graph', brokers=8, degree=3}", "routing={family='graph'}"],
}


@pytest.mark.parametrize(("mode", "family"), diagonal(MODES, NO_TREE_NEEDED))
def test_a_publisher_that_overtakes_itself_loses_what_it_overtook_on_record(mode, family):
    """An event waits at a broken link, its publisher goes on to the other side, and the next event comes first."""
    roam = f"clients.roaming={{who='all', per_s=3, away_s=1, publisher_mode='{mode}'}}"
    breaks = "faults.link_break={per_s=1, lasts_s=3}"
    changes = ["run.duration_s=15", "clients.subscribers=12", roam, breaks, *NO_TREE_NEEDED[family]]
    summary = run(with_changes(named("roam"), changes), 3)
    assert summary.violations == ()
    assert summary.excused > 0
    assert summary.out_of_order == summary.duplicated == 0


# ---------------------------------------------------------------- planted faults


def forgets_to_unadvertise(patch: pytest.MonkeyPatch) -> None:
    """What is held is forgotten, and its entries stay."""

    def let_go(self: PublisherPresence, client: str, effects: list[Effect], now: float) -> None:
        del self.holdings[client]

    patch.setattr(PublisherPresence, "_let_go", let_go)


def never_lets_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublisherPresence, "_let_go", lambda self, client, effects, now: None)


def forgets_its_proxies(patch: pytest.MonkeyPatch) -> None:
    """Who leaves for good does not tell its proxies."""
    real = PublisherPresence._tell_proxies
    patch.setattr(
        PublisherPresence,
        "_tell_proxies",
        lambda self, client, present, attempt, said, now: (
            real(self, client, present, attempt, said, now) if said else []
        ),
    )


def tears_down_what_is_there(patch: pytest.MonkeyPatch) -> None:
    """What was held for a publisher goes on to be held when it has come back, and then takes its own with it."""

    def let_go(self: PublisherPresence, client: str, effects: list[Effect], now: float) -> None:
        if self.holdings[client].kind == "delayed" and client in self.publishers:
            self.holdings[client].kind = "forgotten"
            return
        for name in self.holdings.pop(client).advertisements:
            self.host.carry_out(self.host.routing.unadvertise((client, name), now), effects, now)

    patch.setattr(PublisherPresence, "_let_go", let_go)


@pytest.mark.parametrize(
    ("plant", "mode", "law"),
    [
        (forgets_to_unadvertise, "delayed", "no garbage"),
        (never_lets_go, "prefetching", "no garbage"),
        (forgets_its_proxies, "proxy", "no garbage"),
        (tears_down_what_is_there, "delayed", "nothing lost"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_planted_fault_is_seen(plant, mode, law, monkeypatch):
    plant(monkeypatch)
    there_and_back = ["clients.disconnections={who='publishers', per_s=0.6, lasts_s=0.5}", "workload.kind=publications"]
    broken = laws_broken(run(scenario(mode, "routing.advertisements=required", *there_and_back), 1))
    assert law in broken


def test_standard_is_seen_to_lose_what_is_published_before_the_tree_stands():
    found = scenario("standard", "routing.advertisements=required", "clients.publish_per_s=20", "run.duration_s=8")
    lost_or_late = run(found, 1)
    stays = run(with_changes(found, ["clients.roaming.per_s=0"]), 1)
    assert lost_or_late.allowed > 5 * stays.allowed  # may come or not
    assert lost_or_late.violations == stays.violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_swarm_of_drawn_seeds_holds(mode):
    check = partial(scenario, mode, "routing.advertisements=required")
    for seed in range(40):
        faults = [change for changes in list(FAULTS.values())[: seed % 4 + 1] for change in changes]
        assert run(check(*faults), seed).violations == (), (mode, seed)
