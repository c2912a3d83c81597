"""The law, held by Hypothesis: whatever clients ask for and whatever breaks, in any order, all laws hold in the end."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from godwit.filters.filters import TRUE, Filter, all_of, any_of, only, some
from godwit.filters.sets import at_least, between, less_than, one_of
from godwit.simulator.checkers import judge
from godwit.simulator.fault_plan import Fault
from godwit.simulator.random_scenarios import ADVERTISEMENTS, REDUCTIONS
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import (
    Clients,
    FaultKind,
    Faults,
    OverlaySpec,
    RoutingSection,
    Run,
    Scenario,
    with_changes,
)
from godwit.simulator.summary import Violation

WARMUP_S = 1.0
SETTLE_S = 120.0
DAY_S = 86_400.0

EMPTY = Scenario(
    name="what the rules make of it",
    overlay=OverlaySpec(kind="random_tree", brokers=3),
    clients=Clients(publishers=2, subscribers=3, subscriptions=1, publish_per_s=0.0),
    faults=Faults(crash=(), crash_diskless=()),  # brokers keep a journal, and nothing happens by itself
    run=Run(warmup_s=WARMUP_S, duration_s=DAY_S, settle_s=0.0),
)

FILTERS: tuple[Filter, ...] = (
    TRUE,
    *(some("price", less_than(n)) for n in (2, 4, 6)),
    *(some("price", between(low, low + 2)) for low in (0, 2, 4)),
    some("price", at_least(3)),
    some("kind", one_of(["ice"])),
    only("kind", one_of(["ice", "flood"])),
    all_of(some("kind", one_of(["ice"])), some("price", less_than(4))),
    any_of(some("kind", one_of(["flood"])), some("price", at_least(5))),
)
"""Few and akin: they cover, meet and merge with each other."""

EVENTS = st.fixed_dictionaries({"price": st.integers(0, 7)}, optional={"kind": st.sampled_from(["ice", "flood"])})

ROUTINGS = (
    *(
        RoutingSection(reduction=r, excess_max=excess, advertisements=a)
        for r, excess in REDUCTIONS
        for a in ADVERTISEMENTS
    ),
    *(RoutingSection(family="graph") for _ in range(6)),
)


class Town:
    """A simulation in which nothing happens but what the test does."""

    def __init__(self, scenario: Scenario) -> None:
        self.simulation = Simulation(scenario, seed=1)
        assert self.simulation.faults is not None
        self.injector = self.simulation.faults
        self.requests, self.population = self.simulation.requests, self.simulation.population
        self.ledger, self.world, self.config = self.simulation.ledger, self.simulation.world, self.simulation.config
        self.faults: list[Fault] = []
        self.simulation.plan()
        self.world.run(WARMUP_S)

    def subscribe(self, client: str, name: str, filter: Filter) -> None:
        self.requests.subscribe(client, name, filter)

    def advertise(self, client: str, filter: Filter) -> None:
        self.requests.advertise(client, "all", filter)

    def unadvertise(self, client: str) -> None:
        self.requests.unadvertise(client, "all")

    def publish(self, client: str, attributes: Any) -> None:
        self.requests.publish(client, attributes, None)

    def begin(self, kind: FaultKind, *where: str) -> None:
        fault = Fault(kind, where, self.world.now, DAY_S)
        self.faults.append(fault)
        self.injector.begin(fault)

    def end(self, fault: Fault) -> None:
        self.faults.remove(fault)
        self.injector.end(fault)

    def finish(self) -> list[Violation]:
        """Mend everything, let it settle, let everyone leave, and judge."""
        for fault in list(self.faults):
            self.end(fault)
        for name in [name for name, count in self.population.away.items() for _ in range(count)]:
            self.population.come_back(name)
        self.world.run(self.world.now + SETTLE_S)
        self.simulation.final_checks.check_settled("settling")
        self.simulation.final_checks.leave()
        verdict = judge(self.ledger, advertised=self.config.advertisements != "off")
        return [*self.simulation.recorder.violations, *verdict.violations]


class EveryStrategyUnderEveryFault(RuleBasedStateMachine):
    """Rules are what clients, operators and bad luck do."""

    town: Town

    @initialize(routing=st.sampled_from(ROUTINGS), brokers=st.integers(3, 5), sync_ms=st.sampled_from([0, 0, 5]))
    def build(self, routing: RoutingSection, brokers: int, sync_ms: int) -> None:
        changes = [f"overlay.brokers={brokers}", f"overlay.disk_sync_ms={sync_ms}"]
        if routing.family == "graph":
            changes += ["routing={family='graph'}"]
            if brokers > 3:
                changes += ["overlay.kind=random_graph", f"overlay.brokers={brokers}", "overlay.degree=3"]
        else:
            changes += [f"routing.reduction={routing.reduction}", f"routing.excess_max={routing.excess_max}"]
            changes += [f"routing.advertisements={routing.advertisements}"]
        self.town = Town(with_changes(EMPTY, changes))

    # ------------------------------------------------------------ clients

    @rule(client=st.integers(0, 2), name=st.sampled_from("abc"), filter=st.sampled_from(FILTERS))
    def subscribe_or_replace(self, client: int, name: str, filter: Filter) -> None:
        self.town.subscribe(f"s{client}", name, filter)

    @precondition(lambda self: self.town.requests.standing_subscriptions())
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        self.town.requests.unsubscribe(*data.draw(st.sampled_from(self.town.requests.standing_subscriptions())))

    @precondition(lambda self: self.town.config.advertisements == "required")
    @rule(client=st.integers(0, 1), filter=st.sampled_from(FILTERS))
    def advertise_or_withdraw(self, client: int, filter: Filter) -> None:
        name = f"p{client}"
        if filter == TRUE and self.town.ledger.advertisements[name, "all"].filter is not None:
            self.town.unadvertise(name)
        else:
            self.town.advertise(name, filter)

    @rule(client=st.integers(0, 1), said=st.lists(EVENTS, min_size=1, max_size=4))
    def publish(self, client: int, said: list[Any]) -> None:
        for attributes in said:
            self.town.publish(f"p{client}", attributes)

    @rule(client=st.sampled_from(["p0", "p1", "s0", "s1", "s2"]))
    def go_away_or_come_back(self, client: str) -> None:
        if self.town.population.away.get(client, 0):
            self.town.population.come_back(client)
        else:
            self.town.population.go_away(client)

    # ------------------------------------------------------------ faults

    @rule(data=st.data())
    def break_a_link(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from(self.town.simulation.overlay.links))
        self.town.begin("link_break", link.a, link.b)

    @rule(data=st.data(), kind=st.sampled_from(["crash", "crash", "crash_diskless"]))
    def crash(self, data: st.DataObject, kind: FaultKind) -> None:
        self.town.begin(kind, data.draw(st.sampled_from(self.town.simulation.overlay.brokers)))

    @precondition(lambda self: self.town.faults)
    @rule(data=st.data())
    def mend(self, data: st.DataObject) -> None:
        self.town.end(data.draw(st.sampled_from(self.town.faults)))

    @rule(seconds=st.sampled_from([0.003, 0.015, 0.05, 0.2, 1.0, 1.0, 5.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.town.world.run(self.town.world.now + seconds)

    def teardown(self) -> None:
        if hasattr(self, "town"):
            assert self.town.finish() == []


TestEveryStrategyUnderEveryFault = EveryStrategyUnderEveryFault.TestCase
TestEveryStrategyUnderEveryFault.settings = settings(
    max_examples=25, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
