"""Ad hoc networks in motion, over many seeds; and faults planted to see that the checkers see them."""

import pytest
from msgspec import structs

from godwit.adhoc import event_broker, holdings
from godwit.adhoc.adhoc_node import AdHocNode
from godwit.adhoc.device import AdHocConfig, Device
from godwit.adhoc.event_broker import EventBroker
from godwit.adhoc.session_following import Fetch, SessionFollowing
from godwit.client.client import Client
from godwit.errors import ScenarioError
from godwit.filters.filters import TRUE
from godwit.simulator.adhoc_world import AdHocWorld, converge_s
from godwit.simulator.run import run
from godwit.simulator.scenario import named, with_changes
from tests.seeds import few

SHORT = ["run.duration_s=95", "radio.move_s=10", "radio.rest_s=35"]
COORDINATING = ["run.duration_s=110", "radio.move_s=10", "radio.rest_s=45", "radio.meeting=coordinate"]
CONFIG = AdHocConfig()


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_islands_that_part_and_meet_keep_every_law(seed):
    summary = run(with_changes(named("adhoc"), SHORT), seed)
    assert summary.violations == ()
    assert summary.islands["checked"] > 0
    assert summary.delivered > 0


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_event_brokers_that_coordinate_keep_every_law(seed):
    summary = run(with_changes(named("adhoc"), COORDINATING), seed)
    assert summary.violations == ()
    assert summary.islands["checked"] > 0
    assert summary.islands["merged"] == 0


@pytest.mark.parametrize("seed", few(range(5, 9), 1))
def test_sessions_follow_clients_that_never_rest(seed):
    changes = ["run.duration_s=95", "run.settle_s=60", "radio.move_s=95", "radio.speed_mps=25"]
    summary = run(with_changes(named("adhoc"), [*changes, "radio.meeting=coordinate"]), seed)
    assert summary.violations == ()
    assert summary.islands["sessions_handed_over"] > 10


@pytest.mark.parametrize("seed", few(range(4), 1))
@pytest.mark.parametrize("meeting", ["merge", "coordinate"])
def test_devices_that_crash_take_nothing_with_them_but_what_they_held(seed, meeting):
    crashes = ["run.settle_s=60", "radio.crashes_per_s=0.05", f"radio.meeting={meeting}"]
    summary = run(with_changes(named("adhoc"), [*COORDINATING, *crashes]), seed)
    assert summary.violations == ()
    assert summary.islands["crashed"] > 0
    assert summary.delivered > 0


@pytest.mark.parametrize("seed", few(range(6), 1))
@pytest.mark.parametrize("meeting", ["merge", "coordinate"])
def test_devices_that_crash_and_have_a_disk_take_nothing_with_them(seed, meeting):
    crashes = ["run.settle_s=60", "radio.crashes_per_s=0.1", f"radio.meeting={meeting}", "radio.keeps_disk=true"]
    summary = run(with_changes(named("adhoc"), [*COORDINATING, *crashes]), seed)
    assert summary.violations == ()
    assert summary.islands["crashed"] > 0
    assert summary.delivered > 0


def test_a_disk_without_sessions_is_noticed(monkeypatch):
    monkeypatch.setattr(holdings, "_lead_again", lambda node, live, now: [])
    crashes = ["run.settle_s=60", "radio.crashes_per_s=0.1", "radio.meeting=merge", "radio.keeps_disk=true"]
    summary = run(with_changes(named("adhoc"), [*COORDINATING, *crashes]), 0)
    assert {violation.law for violation in summary.violations} >= {"nothing held is lost"}


@pytest.mark.parametrize("seed", few(range(4), 1))
def test_devices_that_never_rest_keep_every_law_about_what_comes(seed):
    summary = run(with_changes(named("adhoc"), ["run.duration_s=95", "radio.move_s=95", "radio.speed_mps=25"]), seed)
    assert summary.violations == ()
    assert summary.islands["links_down"] > 50


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_messages_that_get_lost_over_the_air_lose_double_and_overtake_no_event(seed):
    summary = run(with_changes(named("adhoc"), [*SHORT, "radio.loss=0.05", "run.settle_s=60"]), seed)
    assert summary.violations == ()
    assert (summary.lost, summary.duplicated, summary.out_of_order) == (0, 0, 0)


def test_the_shipped_scenario_rests_long_enough_at_its_end():
    scenario = named("adhoc")
    lease_s = scenario.radio.lease_s
    assert scenario.run.settle_s >= converge_s(AdHocConfig(lease_s=lease_s, poll_s=min(2.0, lease_s / 3))) + 5.0


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["radio.devices=1"], "radio.devices"),
        (["clients.publishers=13"], "clients.publishers"),
        (["clients.publish_per_s=0"], "clients.publish_per_s"),
        (["faults.link_loss=0.1"], "faults"),
        (["routing.family=graph"], "routing"),
        (["clients.roaming.per_s=1"], "clients.roaming"),
        (["overlay.brokers=3"], "overlay.brokers"),
        (["overlay.kind=single"], "radio"),
    ],
)
def test_what_a_network_of_devices_does_not_have_is_refused(changes, key):
    with pytest.raises(ScenarioError, match=key):
        with_changes(named("adhoc"), changes)


# ---------------------------------------------------------------- planted faults


def met() -> AdHocWorld:
    """Two islands with something under way that meet, part with something in hand, and meet again."""
    net = AdHocWorld(1, {name: AdHocConfig(priority=priority) for name, priority in PRIORITIES.items()})
    for name in PRIORITIES:
        net.subscribe(name, "all", TRUE)
    apart, together = [("a", "b"), ("c", "d")], [("a", "b"), ("b", "c"), ("c", "d")]
    for links, seconds in ((apart, 35), (together, 35), (apart, 12), (together, 4), (apart, 50), (together, 45)):
        net.set_links(links)
        for _ in range(seconds):
            for name in PRIORITIES:
                net.publish(name, {"x": 1})
            net.run(1)
            net.check_islands()
    net.run(10)
    net.judge()
    return net


PRIORITIES = {"a": 0.9, "b": 0.2, "c": 0.1, "d": 0.6}


def laws(net: AdHocWorld) -> set[str]:
    return {violation.law for violation in net.violations}


def test_without_a_fault_no_law_is_broken():
    net = met()
    assert net.violations == []
    assert net.counts["merged"] >= 2
    assert net.counts["suppressed"] > 0


def test_leaders_that_never_give_up_are_seen(monkeypatch):
    monkeypatch.setattr(AdHocNode, "_consider_merging", lambda self, now: None)
    assert "one event broker" in laws(met())


def test_event_brokers_that_do_not_tell_each_other_what_is_wanted_are_seen(monkeypatch):
    monkeypatch.setattr("godwit.adhoc.event_broker._grow", lambda tree, peer: [])
    monkeypatch.setattr("godwit.adhoc.event_broker._prune", lambda tree, peer: [])
    summary = run(with_changes(named("adhoc"), COORDINATING), 1)
    assert "all of an island" in {violation.law for violation in summary.violations}


def test_clients_that_remove_no_duplicates_are_seen(monkeypatch):
    monkeypatch.setattr("godwit.seen.Seen.add", lambda self, publisher, sequence: True)
    monkeypatch.setattr(Client, "_acknowledged", lambda self, number: None)
    assert "nothing twice" in laws(met())


def test_clients_that_do_not_refresh_are_seen(monkeypatch):
    monkeypatch.setattr(AdHocNode, "_poll", lambda self: None)
    net = AdHocWorld(1, {"a": AdHocConfig(priority=1.0), "b": CONFIG})
    net.subscribe("b", "all", TRUE)
    net.set_links([("a", "b")])
    net.run(90)
    net.check_islands()
    assert "everything in force" in laws(net)


def test_event_brokers_that_hand_over_no_queues_are_seen(monkeypatch):
    handed_over = EventBroker.handed_over

    def without_items(self, to):
        parts = [part for part in handed_over(self, to) if part.state is not None]
        return [structs.replace(part, items=(), is_last=True) for part in parts]

    monkeypatch.setattr(EventBroker, "handed_over", without_items)
    assert "nothing held is lost" in laws(with_something_in_hand())


def with_something_in_hand() -> AdHocWorld:
    """An event broker holds events for a device that is away, and meets a better one that meets this device."""
    low, high = AdHocConfig(priority=0.1), AdHocConfig(priority=1.0)
    net = AdHocWorld(1, {"a": CONFIG, "b": low, "x": low, "y": low, "z": high})
    net.subscribe("x", "all", TRUE)
    net.set_links([("a", "b"), ("a", "x"), ("y", "z")])
    net.run(30)
    assert net.leaders("abxyz") == ["a", "z"]
    net.set_links([("a", "b"), ("y", "z")])
    net.publish("b", {"x": 1})
    net.run(5)
    net.set_links([("a", "b"), ("b", "z"), ("y", "z")])
    net.run(5)
    assert net.leaders("abxyz") == ["z"]
    net.set_links([("a", "b"), ("b", "z"), ("y", "z"), ("x", "y")])
    net.run(40)
    net.judge()
    return net


def test_what_an_event_broker_holds_for_one_who_is_away_follows_the_merge():
    net = with_something_in_hand()
    assert net.violations == []
    assert list(net.delivered["x"]) == [("b", 1)]


def overtaken() -> AdHocWorld:
    """No one told the publisher that `a` took its event for `x`: it published again at `z`, before `x` came there."""
    low = AdHocConfig(priority=0.1)
    net = AdHocWorld(1, {"a": CONFIG, "b": low, "p": low, "x": low, "y": low, "z": AdHocConfig(priority=1.0)})
    net.subscribe("x", "all", TRUE)
    net.set_links([("a", "b"), ("a", "p"), ("a", "x"), ("y", "z")])
    net.run(30)
    assert net.leaders("abpxyz") == ["a", "z"]
    net.set_links([("a", "b"), ("a", "p"), ("y", "z")])
    net.publish("p", {"x": 1})
    net.run(0.007)  # the event has come, its acknowledgement is on its way
    net.set_links([("a", "b"), ("p", "z"), ("y", "z")])
    net.run(10)
    net.set_links([("a", "b"), ("p", "z"), ("x", "z"), ("y", "z")])
    net.run(5)
    net.publish("p", {"x": 2})
    net.run(2)
    assert list(net.delivered["x"]) == [("p", 2)]
    net.set_links([("a", "b"), ("b", "z"), ("p", "z"), ("x", "z"), ("y", "z")])
    net.run(30)
    assert net.leaders("abpxyz") == ["z"]
    return net


def test_an_event_that_a_second_event_broker_took_for_others_may_be_overtaken_by_what_that_one_delivers():
    net = overtaken()
    net.judge()
    assert net.excused["x", ("p", 1)] == "overtaken"
    assert net.violations == []


def test_an_event_that_was_overtaken_stays_excused_when_its_device_crashes_later():
    net = overtaken()
    net.crash("x")
    net.judge()
    assert net.excused["x", ("p", 1)] == "overtaken"
    assert net.violations == []


def test_an_event_that_its_event_broker_handed_over_may_be_overtaken_by_what_the_same_one_takes_later():
    """`a` takes an event for `x`, hands it over to `z`, is separated from `z`, and takes the next one."""
    low, patient = AdHocConfig(priority=0.1, lease_s=120.0), AdHocConfig(lease_s=120.0)
    high = AdHocConfig(priority=1.0, lease_s=120.0)
    net = AdHocWorld(1, {"a": patient, "p": low, "x": low, "y": low, "z": high})
    net.subscribe("x", "all", TRUE)
    apart = [("a", "p"), ("y", "z")]
    net.set_links([*apart, ("a", "x")])
    net.run(30)
    net.set_links(apart)
    net.publish("p", {"x": 1})
    net.run(5)
    net.set_links([*apart, ("a", "z")])
    net.run(20)
    assert net.leaders("apyz") == ["z"]
    net.set_links([*apart, ("a", "x")])
    net.run(20)
    assert net.leaders("apyz") == ["a", "z"]
    net.publish("p", {"x": 2})
    net.run(5)
    net.set_links([*apart, ("a", "x"), ("a", "z")])
    net.run(30)
    net.judge()
    assert [set(net.held["x", ("p", number)]) for number in (1, 2)] == [{"a"}, {"a"}]
    assert list(net.delivered["x"]) == [("p", 2)]
    assert net.violations == []


def test_event_brokers_that_put_a_session_in_the_wrong_order_are_seen(monkeypatch):
    monkeypatch.setattr(event_broker, "in_sender_order", lambda items: items[::-1])
    net = AdHocWorld(1, {"a": CONFIG, "b": AdHocConfig(priority=0.1), "x": AdHocConfig(priority=0.1)})
    net.subscribe("x", "all", TRUE)
    net.set_links([("a", "b"), ("a", "x")])
    net.run(30)
    net.set_links([("a", "b")])
    net.publish("b", {"x": 1})
    net.publish("b", {"x": 2})
    net.run(5)
    broker = net.node("a").broker
    assert broker is not None
    [part] = [part for part in broker.handed_over("a") if part.client == "x"]
    broker.take([part], 30.0, net.world.now)  # two sessions become one
    net.set_links([("a", "b"), ("a", "x")])
    net.run(10)
    net.judge()
    assert laws(net) == {"nothing held is lost"}


def test_leases_that_never_end_are_seen(monkeypatch):
    monkeypatch.setattr(AdHocNode, "_on_leases_due", lambda self, now: None)
    monkeypatch.setattr(EventBroker, "end_lease", lambda self, client, at: [])
    net = AdHocWorld(1, dict.fromkeys("abc", CONFIG))
    for name in "abc":
        net.subscribe(name, "all", TRUE)
    net.set_links([("a", "b"), ("b", "c"), ("a", "c")])
    net.run(30)
    [leader] = net.leaders("abc")
    gone = "a" if leader != "a" else "b"
    net.set_links([pair for pair in (("a", "b"), ("b", "c"), ("a", "c")) if gone not in pair])
    net.run(90)
    net.check_islands()
    assert "leases end" in laws(net)


def test_devices_that_relay_nothing_are_seen(monkeypatch):
    relayed = Device.on_relayed

    def for_us_alone(self, peer, message, now):
        if message.target == self.name:
            relayed(self, peer, message, now)

    monkeypatch.setattr(Device, "on_relayed", for_us_alone)
    net = AdHocWorld(1, dict.fromkeys("abcd", CONFIG))
    net.set_links([("a", "b"), ("b", "c"), ("c", "d")])
    net.run(60)
    net.check_islands()
    assert "everything in force" in laws(net)


# ---------------------------------------------------------------- sessions that follow


def walked_to_a_nearer_event_broker() -> AdHocWorld:
    """`x` walks along a row from the event broker `a` to the event broker `z`, which coordinate all the time.

    It is out of everybody's range for a second, in which `b` publishes, and `c` does as `x` greets `z`.
    """
    low = AdHocConfig(priority=0.1, meeting="coordinate", lease_s=120.0)
    high = AdHocConfig(priority=1.0, meeting="coordinate", lease_s=120.0)
    net = AdHocWorld(1, {"a": high, "b": low, "c": low, "m": low, "x": low, "z": high})
    net.subscribe("x", "all", TRUE)
    net.set_links([("a", "b"), ("a", "x"), ("c", "z")])
    net.run(30)
    row = [("a", "b"), ("b", "m"), ("c", "m"), ("c", "z")]
    net.set_links([*row, ("a", "x")])
    net.run(30)
    assert net.leaders(net.configs) == ["a", "z"]
    net.set_links(row)
    net.publish("b", {"x": 1})
    net.run(1)
    net.set_links([*row, ("x", "z")])
    for _ in range(300):
        net.publish("b", {"x": 2})
        net.publish("c", {"x": 2})
        net.run(0.02)
    net.run(40)
    net.check_islands()
    net.judge()
    return net


def test_a_client_that_comes_near_another_event_broker_moves_there_and_its_session_follows():
    net = walked_to_a_nearer_event_broker()
    assert net.violations == []
    assert net.node("x").leader == "z"
    assert [number for publisher, number in net.delivered["x"] if publisher == "b"] == list(range(1, 302))
    assert [number for publisher, number in net.delivered["x"] if publisher == "c"] == list(range(1, 301))
    assert net.counts.get("suppressed", 0) == 0
    assert [receipt.session_lost for receipt in net.client("x").receipts] == [False, False]


def test_event_brokers_that_do_not_ask_for_sessions_are_seen(monkeypatch):
    monkeypatch.setattr(SessionFollowing, "on_attach", lambda self, circuit, message, now: False)
    monkeypatch.setattr(SessionFollowing, "offer", lambda self, now: None)
    assert "sessions follow" in laws(walked_to_a_nearer_event_broker())


def test_a_queue_that_is_asked_for_before_the_subscriptions_are_in_force_is_seen(monkeypatch):
    """Without the barrier, what was published meanwhile comes behind later events, or not at all."""

    def at_once(self, fetch, parts, lease_s, now):
        self._device.let("broker", self._device.broker.take(parts, lease_s, now))
        self._ask(parts[0].client, fetch, "done", now)
        self._finish(parts[0].client, now)

    def all_at_once(self, session, to):
        return event_broker._parts(session, to, session.queue.waiting())

    monkeypatch.setattr(SessionFollowing, "_on_whole", at_once)
    monkeypatch.setattr(EventBroker, "state_of", all_at_once)
    net = walked_to_a_nearer_event_broker()
    assert [number for publisher, number in net.delivered["x"] if publisher == "b"] != list(range(1, 302))


def test_holders_that_forget_a_session_which_another_handed_out_are_seen(monkeypatch):
    ask = SessionFollowing._ask

    def of_all(self, client, fetch, part, now):
        ask(self, client, Fetch(fetch.attempt, "queue", None), part, now)

    monkeypatch.setattr(SessionFollowing, "_ask", of_all)
    changes = ["run.duration_s=95", "run.settle_s=60", "radio.move_s=95", "radio.speed_mps=25"]
    summary = run(with_changes(named("adhoc"), [*changes, "radio.meeting=coordinate"]), 0)
    assert "nothing held is lost" in {violation.law for violation in summary.violations}


def test_a_device_that_is_down_is_not_expected_to_end_leases():
    crashes = ["radio.crashes_per_s=0.2", "radio.keeps_disk=true", "radio.down_s=20", "radio.lease_s=6"]
    few_devices = ["radio.devices=3", "clients.publishers=3", "clients.subscribers=3", "clients.publish_per_s=0.3"]
    ways = ["radio.side_m=900", "radio.move_s=5", "radio.rest_s=45", "run.duration_s=110", "run.settle_s=90"]
    assert run(with_changes(named("adhoc"), [*crashes, *few_devices, *ways]), 341).violations == ()
