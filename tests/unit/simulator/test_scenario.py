"""Scenarios: those that come with Godwit, those that are drawn, and what is refused with which words."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from godwit.broker.messages import QueueRules
from godwit.errors import ScenarioError
from godwit.simulator import check, draw, drawn, load, named, names, overlay_of, with_changes
from godwit.simulator.random_scenarios import STRATEGIES
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import (
    FAULT_KINDS,
    OverlaySpec,
    Planned,
    Rate,
    RoutingSection,
    Scenario,
    SessionsSection,
)
from godwit.simulator.topologies import is_tree
from tests.conventions.repository import ROOT
from tests.seeds import few

LINE = '[overlay]\nkind = "line"\nbrokers = 3\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fault_of(text: str) -> str:
    """What is said of a file with that text."""
    Path("s.toml").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load("s.toml")
    return str(caught.value)


# ---------------------------------------------------------------- those that come with Godwit


def test_those_that_come_with_godwit_are_listed_with_what_they_are_about() -> None:
    assert list(names()) == sorted(names())
    assert {"adhoc", "city", "fair", "ferries", "pubmob", "roam"} <= set(names())
    assert all(names().values())


def test_the_city_is_that_of_pubmob() -> None:
    city = named("city")
    overlay = overlay_of(city, Random(1))
    assert len(overlay.brokers) == 85
    assert (overlay.links[0].latency_s, overlay.links[0].bandwidth_bps) == (0.010, 256_000)
    assert (city.clients.publishers, city.clients.subscribers, city.routing.reduction) == (50, 500, "covering")


def test_the_mesh_has_many_ways_and_the_storm_every_fault() -> None:
    assert not is_tree(overlay_of(named("mesh"), Random(1)))
    storm = named("storm").faults
    assert all(getattr(storm, kind) for kind in (*FAULT_KINDS, "link_loss", "duplicate", "delay", "clock_skew_s"))


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ScenarioError, match=r"there is no scenario 'strom' \(did you mean storm"):
        named("strom")


# ---------------------------------------------------------------- reading


def test_a_file_needs_an_overlay_and_has_defaults_for_all_else(folder: Path) -> None:
    (folder / "harbour.toml").write_text(LINE)
    found = load(folder / "harbour.toml")
    assert found == Scenario(name="harbour", overlay=OverlaySpec(kind="line", brokers=3))
    assert (found.publishing_ends_s, found.faults_end_s, found.ends_s) == (15, 15, 45)


def test_a_fault_is_a_rate_or_a_list_of_planned_ones(folder: Path) -> None:
    (folder / "s.toml").write_text(
        f"{LINE}[faults]\ncrash = {{ per_s = 0.5 }}\n"
        '[[faults.link_break]]\nat_s = 7\nwhere = ["b0", "b1"]\n'
        '[[faults.link_break]]\nat_s = 9\nwhere = ["b2", "b1"]\nlasts_s = 2\n'
    )
    faults = load("s.toml").faults
    assert faults.crash == Rate(per_s=0.5)
    assert faults.link_break == (
        Planned(at_s=7, where=("b0", "b1")),
        Planned(at_s=9, where=("b2", "b1"), lasts_s=2),
    )


def test_files_that_a_scenario_names_are_looked_for_beside_it(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "links").write_text("a b\nb c\n")
    for name in ("wishes", "events"):
        (folder / "below" / name).write_text("{}\n")
    (folder / "below" / "s.toml").write_text(
        '[overlay]\nkind = "file"\nfile = "links"\n'
        '[workload]\nkind = "files"\nsubscriptions_file = "wishes"\nevents_file = "events"\n'
    )
    found = load(Path("below/s.toml"))
    assert overlay_of(found, Random(1)).brokers == ("a", "b", "c")
    assert Path(found.workload.events_file).is_file()


def test_queue_rules_are_those_that_are_set() -> None:
    assert SessionsSection().rules() is None
    assert SessionsSection(subscription_expires_s=3).rules() is None
    assert SessionsSection(count_max=5, importance="x").rules() == QueueRules(count_max=5, importance="x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "s.toml: overlay is missing: it must be a table with kind, brokers"),
        ("[overlay\n", "(at line 1"),
        ('[overlay]\nkind = "lime"\n', "s.toml:2: overlay.kind is 'lime': allowed is 'single', 'line', "),
        ('[overlay]\nkind = "lime"\n', "(did you mean line?)"),
        (f"{LINE}latncy_ms = 3\n", "s.toml:4: overlay.latncy_ms is not known (did you mean latency_ms"),
        (f"{LINE}latency_ms = -3\n", "s.toml:4: overlay.latency_ms is -3: allowed is a number from 0 to 60,000"),
        (f"{LINE}latency_ms = inf\n", "s.toml:4: overlay.latency_ms is inf"),
        (f"{LINE}latency_ms = nan\n", "s.toml:4: overlay.latency_ms is nan"),
        (f'{LINE}latency_ms = "3"\n', "s.toml:4: overlay.latency_ms is '3': allowed is a number"),
        (f"{LINE}bandwidth_kbps = 0\n", "overlay.bandwidth_kbps is 0: allowed is a number above 0"),
        (f"{LINE}[cleints]\n", "s.toml:4: cleints is not known (did you mean clients?); allowed are name, description"),
        (f"{LINE}[clients]\npublishers = 1.5\n", "clients.publishers is 1.5: allowed is a whole number from 0"),
        (f"{LINE}[clients]\npublishers = true\n", "clients.publishers is true: allowed is a whole number"),
        (f"{LINE}[clients.disconnections]\nper_s = -1\n", "s.toml:5: clients.disconnections.per_s is -1"),
        (f"{LINE}[faults]\nlink_loss = 1.1\n", "s.toml:5: faults.link_loss is 1.1: allowed is a number from 0 to 1"),
        (f"{LINE}[faults]\ncrash = 1\n", "faults.crash is 1: allowed is a table with per_s, lasts_s or a list"),
        (f"{LINE}[faults]\ncrash = {{}}\n", "faults.crash.per_s is missing: it must be a number from 0"),
        (f"{LINE}[faults]\ncrash = [{{ at = 3 }}]\n", "faults.crash[0].at is not known (did you mean at_s?)"),
        (f"{LINE}[routing]\nquenching = 1\n", "s.toml:5: routing.quenching is 1: allowed is true or false"),
        (f"{LINE}[run]\nduration_s = 0\n", "s.toml:5: run.duration_s is 0: allowed is a number above 0 up to"),
        (f'name = ""\n{LINE}', "s.toml:1: name is '': allowed is a text that is not empty"),
        (f"{LINE}latency_ms = {'1' * 400}\n", "s.toml:4: overlay.latency_ms is 1111"),
        (f"{LINE}latency_ms = 0x{'f' * 4_000}\n", "overlay.latency_ms is a number of very many digits"),
        (f"{LINE}latency_ms = {'1' * 5_000}\n", "s.toml: "),
        (f"{LINE}latency_ms = {'[' * 5_000}\n", "s.toml: "),
        (f"{LINE}latency_ms = 2026-01-01\n", "overlay.latency_ms is datetime.date"),
        ("overlay = 3\n", "s.toml:1: overlay is 3: allowed is a table with kind"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_file_line_key_and_what_is_allowed(
    folder: Path, text: str, says: str
) -> None:
    assert says in fault_of(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[overlay]\nkind = "line"\n', "s.toml:1: overlay.brokers is missing: a line overlay needs brokers"),
        (f"{LINE}height = 2\n", "s.toml:4: overlay.height is set: a line overlay has only brokers"),
        ('[overlay]\nkind = "single"\nbrokers = 1\n', "a single overlay has none of brokers, height, degree and file"),
        ('[overlay]\nkind = "balanced_tree"\nheight = 90\ndegree = 9\n', "an overlay of"),
        ('[overlay]\nkind = "random_graph"\nbrokers = 3\ndegree = 3\n', "the degree must be from 1 to 2"),
        ('[overlay]\nkind = "file"\nfile = "gone"\n', "No such file"),
        ('[overlay]\nkind = "file"\nfile = "apart"\n', "overlay falls into 2 parts: no way leads from a to c"),
        ('[overlay]\nkind = "file"\nfile = "ring"\n', "routing.family is 'tree', but the overlay has a cycle"),
        ('[overlay]\nkind = "file"\nfile = "bad"\n', "bad:1: "),
        ('[overlay]\nkind = "random_graph"\nbrokers = 6\ndegree = 3\n', "but the overlay has a cycle"),
        (
            f"{LINE}[routing]\nfamily = 'graph'\nstrategy = 'advertised'\nadvertisements = 'off'\n",
            "routing.advertisements is 'off': the strategy 'advertised' routes by them",
        ),
        (
            f"{LINE}[routing]\nfamily = 'graph'\nstrategy = 'advertised'\nmatching = 'hops'\n",
            "routing.matching is 'hops': the strategy 'advertised' matches at the source",
        ),
        (f"{LINE}[routing]\nexcess_max = 0.1\n", "s.toml:5: routing.excess_max is 0.1: only the reduction"),
        (f"{LINE}[faults]\nuntil_s = 16\n", "faults end with publishing at the latest, at 15 s"),
        (
            f"{LINE}[clients]\nprobes = {{ count = 1, from_s = 15 }}\n",
            "clients.probes.from_s is 15.0: publishing ends at",
        ),
        (f"{LINE}[workload]\npredicates = 9\n", "workload.predicates is 9: allowed is a whole number from 1 to 3"),
        (f'{LINE}[workload]\nkind = "files"\n', "workload.subscriptions_file is '': it must be a file"),
        (f'{LINE}[faults]\ncrash = [{{ at_s = 1, where = ["b01"] }}]\n', "there is no broker 'b01' (did you mean b1"),
        (f'{LINE}[faults]\ncrash = [{{ at_s = 1, where = ["b1", "b2"] }}]\n', "allowed is one broker"),
        (f'{LINE}[faults]\nlink_break = [{{ at_s = 1, where = ["b0", "b2"] }}]\n', "the two ends of a link"),
        (f'{LINE}[faults]\nlink_break = [{{ at_s = 99, where = ["b0", "b1"] }}]\n', "faults end at 15 s"),
        (
            f'{LINE.replace("line", "random_tree")}[faults]\nlink_break = [{{ at_s = 1, where = ["b0", "b1"] }}]\n',
            "differ from seed to seed",
        ),
    ],
)
def test_keys_that_do_not_go_together_are_refused(folder: Path, text: str, says: str) -> None:
    (folder / "apart").write_text("a b\nc d\n")
    (folder / "ring").write_text("a b\nb c\nc a\n")
    (folder / "bad").write_text("a b fast\n")
    assert says in fault_of(text)


def test_a_cycle_is_allowed_in_the_graph_family(folder: Path) -> None:
    (folder / "ring").write_text("a b\nb c\nc a\n")
    (folder / "s.toml").write_text('[overlay]\nkind = "file"\nfile = "ring"\n[routing]\nfamily = "graph"\n')
    assert load("s.toml").routing.family == "graph"


@pytest.mark.parametrize("name", ["gone.toml", "."])
def test_a_file_that_cannot_be_read_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ScenarioError):
        load(name)


def test_a_file_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / "s.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load("s.toml")


def test_a_scenario_made_in_python_is_checked_the_same_way() -> None:
    check(Scenario(name="x", overlay=OverlaySpec(kind="single")))
    with pytest.raises(ScenarioError, match=r"x: overlay\.brokers is missing"):
        check(Scenario(name="x", overlay=OverlaySpec(kind="star")))


# ---------------------------------------------------------------- changes


def test_changes_set_keys_to_toml_values_and_bare_words() -> None:
    changed = with_changes(
        named("city"),
        [
            "clients.publishers=7",
            "routing.reduction = merging",
            'workload.kind="mixed"',
            "faults.crash.per_s=0.5",
            'faults.link_break=[{at_s=25, where=["b0","b1"]}]',
            "run.expectations.messages_max=5",
        ],
    )
    assert (changed.clients.publishers, changed.routing.reduction, changed.workload.kind) == (7, "merging", "mixed")
    assert changed.faults.crash == Rate(per_s=0.5)
    assert changed.faults.link_break == (Planned(at_s=25, where=("b0", "b1")),)
    assert changed.run.expectations.messages_max == 5
    assert changed.overlay == named("city").overlay


def test_no_change_changes_nothing() -> None:
    for name in names():
        assert with_changes(named(name), []) == named(name)


def test_the_value_none_takes_a_key_away() -> None:
    assert with_changes(named("city"), ["overlay.bandwidth_kbps=none"]).overlay.bandwidth_kbps is None
    assert with_changes(named("storm"), ["faults.crash=none"]).faults.crash is None


def test_another_kind_of_overlay_drops_the_keys_of_the_old_one() -> None:
    changed = with_changes(named("city"), ["overlay.brokers=5", "overlay.kind=star"]).overlay
    assert (changed.kind, changed.brokers, changed.height, changed.degree) == ("star", 5, None, None)
    changed = with_changes(named("city"), ["overlay.kind=star", "overlay.brokers=5"]).overlay
    assert (changed.kind, changed.brokers) == ("star", 5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("clients.publishers", "--set clients.publishers: allowed is key.path=value"),
        ("=3", "allowed is key.path=value"),
        ("clients.publishrs=3", "--set clients.publishrs=3: clients.publishrs is not known (did you mean publishers"),
        ("clients.publishers=-3", "--set clients.publishers=-3: clients.publishers is -3: allowed is a whole number"),
        ("clients.publishers.x=3", "--set clients.publishers.x=3: publishers holds no keys"),
        ("overlay.kind=lime", "did you mean line?"),
        ("overlay.kind=[1]", "overlay.kind is [1]"),
        ("overlay.kind=none", "overlay.kind is missing"),
        ("overlay=3", "overlay is 3"),
        ("routing.excess_max=0.5", "--set routing.excess_max=0.5: routing.excess_max is 0.5: only the reduction"),
        ("overlay.kind=star", "overlay.brokers is missing: a star overlay needs brokers"),
        ("clients={publishers=3, x=4}", "--set clients={publishers=3, x=4}: clients.x is not known"),
    ],
)
def test_a_bad_change_is_refused_by_its_own_words(change: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        with_changes(named("city"), [change])
    assert says in str(caught.value)


# ---------------------------------------------------------------- drawn


def test_the_same_seed_and_number_draw_the_same_scenario_and_others_differ() -> None:
    assert drawn(7, 3) == drawn(7, 3)
    assert len({msgspec.json.encode(drawn(seed, 3)) for seed in range(20)}) == 20


def test_a_swarm_goes_through_every_strategy() -> None:
    found = {
        (
            scenario.routing.family,
            scenario.routing.reduction,
            scenario.routing.excess_max,
            scenario.routing.advertisements,
        )
        for scenario, _ in (drawn(1, number) for number in range(len(STRATEGIES)))
    }
    assert found >= {(r.family, r.reduction, r.excess_max, r.advertisements) for r in STRATEGIES}


def test_some_subscribers_of_a_swarm_move_by_each_mode_that_loses_nothing() -> None:
    roaming = [scenario.clients.roaming for scenario, _ in (drawn(1, number) for number in range(100))]
    assert {each.subscriber_mode for each in roaming if each.is_on} == {"relocate", "ask", "carry", "junction"}


@pytest.mark.parametrize("count", few([100, 300], 1))
def test_drawn_scenarios_are_small_can_be_run_and_have_every_fault_on_and_off(count: int) -> None:
    scenarios = [draw(RandomStreams(number), number) for number in range(count)]
    for scenario in scenarios[:30]:  # each is checked when it is drawn
        check(scenario)
    for scenario in scenarios:
        clients = scenario.clients
        assert 1 <= len(overlay_of(scenario, Random(1)).brokers) <= 8
        assert 2 <= clients.publishers + clients.subscribers <= 12
        assert clients.publishers * clients.publish_per_s * scenario.run.duration_s <= 310
    for kind in (*FAULT_KINDS, "link_loss", "duplicate", "delay", "clock_skew_s"):
        on = sum(bool(getattr(scenario.faults, kind)) for scenario in scenarios)
        assert count / 10 < on < count * 2 / 3, kind
    assert any(scenario.routing.quenching for scenario in scenarios)
    assert {scenario.workload.kind for scenario in scenarios} == {"random", "mixed"}
    assert any(not is_tree(overlay_of(scenario, Random(1))) for scenario in scenarios)


def test_some_drawn_scenarios_let_clients_move_by_each_model() -> None:
    models = {scenario.clients.roaming.model for scenario, _ in (drawn(1, number) for number in range(60))}
    assert models == {"random", "line", "walk", "waypoint"}


# ---------------------------------------------------------------- the page


def keys_of(kind: Any) -> Iterator[str]:
    """Every key of a struct and of those in it."""
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from keys_of(field.type)


def test_the_guide_explains_every_key() -> None:
    page = (ROOT / "docs" / "guides" / "simulate.md").read_text(encoding="utf-8")
    tables = [field.encode_name for field in msgspec.structs.fields(Scenario)]
    words = set(re.findall(r"`(\w+)`", page)) | set(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    assert [key for key in keys_of(Scenario) if key not in words] == []
    assert "leave" in keys_of(Scenario)
    assert tables[0] == "name"
    for kind in (Rate, Planned):
        assert set(keys_of(kind)) <= set(re.findall(r"\w+", page))
    assert RoutingSection().family in words


# ------------------------------------------------------------ walking


def test_a_movement_graph_is_looked_for_beside_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "town.json").write_text('{"edges": [["mill", "bridge"], ["bridge", "market"]]}')
    (tmp_path / "walk.toml").write_text(
        '[overlay]\nkind = "single"\n[workload]\nkind = "places"\n[clients.walking]\ngraph = "town.json"\n'
    )
    walking = load(tmp_path / "walk.toml").clients.walking
    assert walking.graph == str(tmp_path / "town.json")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (["workload.kind=places"], "need each other"),
        (["clients.walking.graph=line 4"], "need each other"),
        (["workload.kind=places", "clients.walking.graph=lime 4"], "allowed are line N, grid NxM"),
        (["workload.kind=places", "clients.walking.graph=gone.json"], "No such file"),
        (["workload.kind=places", "clients.walking={graph='line 4', dwell_s=0}"], "dwell_s"),
    ],
)
def test_walkers_need_a_ground_and_a_ground_needs_walkers(changes: list[str], fault: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        with_changes(named("campus"), changes)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (["routing.family=graph"], "it is for the tree family only"),
        (["faults.crash_diskless={per_s=0.1, lasts_s=1}"], "only 'relocate' keeps the laws"),
        (["clients.roaming.subscriber_mode=by_boat"], "clients.roaming.subscriber_mode is 'by_boat'"),
        (["clients.roaming.announced=2"], "clients.roaming.announced is 2"),
        (["clients.roaming.session_s=3"], "clients.roaming.session_s is 3: who stays away for longer loses what"),
        (["clients.roaming={per_s=1, session_s=3}"], "allowed are 'explicit', 'naive', or no session_s"),
        (["clients.roaming.session_s=3", "clients.roaming.subscriber_mode=ask"], "the subscriber_mode 'ask' promises"),
        (
            ["clients.roaming.subscriber_mode=naive"],
            "clients.roaming.session_s is missing: the subscriber_mode 'naive'",
        ),
        (
            ["clients.roaming={per_s=1, subscriber_mode='naive', session_s=100}", "run.settle_s=100"],
            "clients.roaming.session_s is 100: the subscriber_mode 'naive' leaves sessions behind that only time ends",
        ),
    ],
)
def test_a_way_to_move_that_is_not_promised_there_is_refused(changes: list[str], text: str) -> None:
    roaming = "clients.roaming={per_s=1, subscriber_mode='carry'}"
    with pytest.raises(ScenarioError, match=re.escape(text)):
        with_changes(named("roam"), [roaming, *changes])
