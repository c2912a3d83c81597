"""Routing families by name: those of the broker, those of other packages, and names that nobody has."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from godwit.baselines import HopRouting
from godwit.broker import Broker, BrokerConfig
from godwit.broker import families as module
from godwit.broker.advertised import AdvertisementForwarding
from godwit.broker.effects import Heard, Opened, Tell
from godwit.broker.families import family_name, register_family
from godwit.broker.graph import GraphRouting
from godwit.broker.gsf import SubscriptionForwarding
from godwit.broker.messages import Attach, Delivery, Publish, Request, Subscribe, Unsubscribe
from godwit.broker.reductions import REDUCTIONS, Simple, reduction_of, reductions, register_reduction
from godwit.broker.spcf import ContextForwarding
from godwit.broker.tree import TreeRouting
from godwit.errors import ConfigurationError
from godwit.filters import event, parse
from godwit.mobility import mobile_broker
from godwit.registry import Registry


@pytest.mark.parametrize(
    ("config", "name", "kind"),
    [
        (BrokerConfig(), "tree", TreeRouting),
        (BrokerConfig(strategy="spcf"), "tree", TreeRouting),
        (BrokerConfig(family="graph"), "graph", GraphRouting),
        (BrokerConfig(family="graph", strategy="spcf"), "spcf", GraphRouting),
        (BrokerConfig(family="graph", matching="hops"), "graph", GraphRouting),
        (BrokerConfig(family="graph", matching="hops", strategy="spcf"), "spcf", GraphRouting),
        (BrokerConfig(family="fixed_hops"), "fixed_hops", HopRouting),
    ],
)
def test_settings_choose_a_family(config: BrokerConfig, name: str, kind: type) -> None:
    assert family_name(config) == name
    assert type(Broker("b", {}, config).routing) is kind


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [("gsf", SubscriptionForwarding), ("spcf", ContextForwarding), ("advertised", AdvertisementForwarding)],
)
def test_settings_choose_whom_a_broker_of_a_graph_tells(strategy: Any, kind: type) -> None:
    routing = Broker("b", {}, BrokerConfig(family="graph", strategy=strategy)).routing
    assert isinstance(routing, GraphRouting)
    assert type(routing.forwarding) is kind


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"matching": "hops"}, "matching is 'hops': the strategy 'advertised' matches at the source"),
        ({"advertisements": "off"}, "advertisements is 'off': the strategy 'advertised' routes by them"),
    ],
)
def test_settings_that_the_strategy_advertised_cannot_keep_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Broker("b", {}, BrokerConfig(family="graph", strategy="advertised", **settings))


@pytest.mark.parametrize("strategy", ["gsf", "spcf"])
@pytest.mark.parametrize("matching", ["source", "hops"])
def test_settings_choose_where_a_broker_of_a_graph_matches(strategy: Any, matching: Any) -> None:
    routing = Broker("b", {}, BrokerConfig(family="graph", strategy=strategy, matching=matching)).routing
    assert isinstance(routing, GraphRouting)
    assert (routing.hops is not None) == (matching == "hops")


def test_an_unknown_family_is_refused_with_the_names_of_those_that_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"no routing family 'ring': known are advertised, fixed_hops"):
        Broker("b", {}, BrokerConfig(family="ring"))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(module._FAMILIES.registered), dict(REDUCTIONS)
    yield
    for now, then in zip((module._FAMILIES.registered, REDUCTIONS), before, strict=True):
        now.clear()  # type: ignore[attr-defined]
        now.update(then)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("registered")
def test_a_family_and_a_reduction_of_another_package_can_be_chosen() -> None:
    class Own(Simple):
        """Another reduction."""

    def ring(name: str, incarnation: int, neighbours: Mapping[str, float], config: BrokerConfig, checks: Any) -> Any:
        return TreeRouting(name, neighbours, reduction="own")

    register_reduction("own", Own)
    register_family("ring", ring)
    assert "own" in reductions()
    routing = Broker("b", {"c": 1.0}, BrokerConfig(family="ring")).routing
    assert isinstance(routing, TreeRouting)
    assert type(routing.out_subs["c"]) is Own


def test_an_unknown_reduction_is_refused_with_the_names_of_those_that_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"no reduction 'no': known are .*covering, flooding, identity"):
        reduction_of("no")


def test_a_name_means_one_part() -> None:
    registry: Registry[str] = Registry("thing", "godwit.things")
    part = "first"
    registry.register("a", part)
    registry.register("a", part)
    with pytest.raises(ValueError, match="there is a thing 'a' already"):
        registry.register("a", "second")


def test_an_installed_part_is_loaded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("pairs", "itertools:pairwise", "godwit.things")
    monkeypatch.setattr("godwit.registry.entry_points", lambda group: [entry] if "things" in group else [])
    registry: Registry[Any] = Registry("thing", "godwit.things")
    assert registry.names() == ("pairs",)
    assert registry.registered == {}
    assert registry.part("pairs").__name__ == "pairwise"
    assert list(registry.registered) == ["pairs"]


def test_the_broker_and_its_mobility_load_no_baseline() -> None:
    code = "import sys, godwit.broker.broker, godwit.mobility.mobile_broker\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "godwit.broker.families" in loaded.stdout
    assert "godwit.baselines" not in loaded.stdout


FILTERS = ["n > 3", "n < 3 AND k = 'a'", "k = 'b' OR n IN (1, 2)", "NOT (k = 'a')", "k LIKE '%a%'", "TRUE", "m IS NULL"]


@pytest.mark.parametrize(
    ("family", "strategy"), [("tree", "gsf"), ("graph", "gsf"), ("graph", "spcf"), ("graph", "advertised")]
)
def test_a_broker_with_decision_diagrams_does_what_one_with_the_index_does(family: str, strategy: str) -> None:
    def deliveries(matcher: Any) -> list[Any]:
        config = BrokerConfig(family=family, strategy=strategy, matcher=matcher)  # type: ignore[arg-type]
        broker = mobile_broker("b1", {}, config)
        for name in ("ann", "bob", "van"):
            broker.handle(Opened(name, {}), 0.0)
            broker.handle(Heard(name, Attach(name)), 0.0)
        numbers = Counter[str]()
        told: list[Any] = []

        def ask(client: str, wish: Any) -> None:
            numbers[client] += 1
            effects = broker.handle(Heard(client, Request(numbers[client], wish)), 0.0)
            told.extend(
                (effect.connection, effect.message.event.sequence, sorted(effect.message.subscriptions))
                for effect in effects
                if isinstance(effect, Tell) and isinstance(effect.message, Delivery)
            )

        for place, text in enumerate(FILTERS):
            for client in ("ann", "bob")[: 1 + place % 2]:
                ask(client, Subscribe((client, f"s{place}"), parse(text)))
        sequence = 0
        for n in range(6):
            for k in ("a", "b", "ab"):
                sequence += 1
                ask("van", Publish(event({"n": n, "k": k}, publisher="van", sequence=sequence)))
            ask("ann", Subscribe(("ann", "s0"), parse(f"n > {n}")))
            if n == 3:
                ask("bob", Unsubscribe(("bob", "s3")))
        return sorted(told)

    found = deliveries("bdd")
    assert found == deliveries("index")
    assert len(found) > 20
