"""A checker that has never failed is not trusted: plant a fault, and see the right law broken.

Each case is a scenario that holds, and a fault in the code of brokers, clients or driver with which it does not.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from godwit.broker import placements
from godwit.broker.channels import Channels
from godwit.broker.effects import Effect, Heard
from godwit.broker.graph import GraphRouting
from godwit.broker.limits import Limits
from godwit.broker.links import Link
from godwit.broker.messages import EntryId, Frame, Message, Publish
from godwit.broker.placements import Change
from godwit.broker.quenching import Quenching
from godwit.broker.queues import Queue
from godwit.broker.reductions import Grouped
from godwit.broker.routing import DeliverLocally
from godwit.broker.tree import HERE, TreeRouting
from godwit.client.client import Client, ClientConfig
from godwit.client.request_outbox import RequestOutbox
from godwit.filters import algebra
from godwit.mobility.move_messages import Replay
from godwit.mobility.relocation import Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from godwit.seen import Seen
from godwit.simulator import setup
from godwit.simulator.ledger import Ledger
from godwit.simulator.scenario import Scenario, with_changes
from godwit.simulator.workloads import Workload
from godwit.simulator.world import Node, World
from tests.seeds import few
from tests.simulation.scenarios import AWAY, CHURN, FAULTS, GRAPH, TREE, Nested, laws_broken, outcome

Plant = Callable[[pytest.MonkeyPatch], None]

# ---------------------------------------------------------------- routing


def covers_what_it_only_meets(patch: pytest.MonkeyPatch) -> None:
    """A `covers` that says yes wrongly."""
    patch.setattr(placements, "covers", algebra.intersects)


def forgets_what_was_covered(patch: pytest.MonkeyPatch) -> None:
    """When a covering filter goes, what it had covered is not told."""
    add, remove = Grouped.add, Grouped.remove
    forgotten: set[tuple[Grouped, EntryId]] = set()

    def known(outgoing: Grouped, changes: list[Change]) -> list[Change]:
        return [change for change in changes if change[1] is not None or (outgoing, change[0]) not in forgotten]

    def remove_and_forget(self: Grouped, key: Any, *effort: Any) -> list[Change]:
        changes = remove(self, key, *effort)
        forgotten.update((self, entry) for entry, filter in changes if filter is not None)
        return known(self, [(entry, filter) for entry, filter in changes if filter is None])

    patch.setattr(Grouped, "add", lambda self, *said: known(self, add(self, *said)))
    patch.setattr(Grouped, "remove", remove_and_forget)


def matches_too_much(patch: pytest.MonkeyPatch) -> None:
    """Every second event goes to every subscription of the clients where it passes."""
    intact = TreeRouting.on_publish

    def on_publish(self: TreeRouting, message: Publish, source: str, now: float) -> list[Any]:
        answers = intact(self, message, source, now)
        if message.event.sequence % 2:
            return answers
        return [
            *(each for each in answers if type(each) is not DeliverLocally),
            DeliverLocally(message.event, list(self.in_subs[HERE])),
        ]

    patch.setattr(TreeRouting, "on_publish", on_publish)


def never_cleans_its_tables(patch: pytest.MonkeyPatch) -> None:
    """A subscription that ends stays in the table."""
    patch.setattr(TreeRouting, "on_unsubscribe", lambda self, id, source: [])


def drops_what_a_dead_link_held(patch: pytest.MonkeyPatch) -> None:
    """Packets that waited for a link which is given up are not sent another way."""
    patch.setattr(GraphRouting, "_send_on", lambda self, undelivered: [])


def drops_what_a_dead_link_held_for_good(patch: pytest.MonkeyPatch) -> None:
    """The same, and who misses them is not answered."""
    drops_what_a_dead_link_held(patch)
    patch.setattr(Channels, "_send_again", lambda self, target, numbers, answers, handed_on: None)


# ---------------------------------------------------------------- links


def forgets_its_outbox(patch: pytest.MonkeyPatch) -> None:
    """A link that breaks takes with it what was not acknowledged."""
    intact = Link.on_down

    def on_down(self: Link, now: float) -> list[Effect]:
        self.give_up()
        return intact(self, now)

    patch.setattr(Link, "on_down", on_down)


def acknowledges_what_has_not_come(patch: pytest.MonkeyPatch) -> None:
    """A frame that is early is acknowledged as if those before it had come."""
    intact = Link._out_of_order

    def out_of_order(self: Link, frame: Frame, effects: list[Effect]) -> list[Message]:
        messages = intact(self, frame, effects)
        self.received = max(self.received, frame.number)
        return [*messages, frame.message] if frame.number == self.received else messages

    patch.setattr(Link, "_out_of_order", out_of_order)


def loses_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    """Whatever is acknowledged stays in the outbox."""
    patch.setattr(Link, "_acknowledge", lambda self, number, now: False)


def hands_on_duplicates(patch: pytest.MonkeyPatch) -> None:
    """A frame that comes again is handed on again."""
    intact = Link.on_frame

    def on_frame(self: Link, frame: Frame, effects: list[Effect], now: float) -> list[Message]:
        again = self.open and 0 < frame.number <= self.received
        messages = intact(self, frame, effects, now)
        return [frame.message] if again else messages

    patch.setattr(Link, "on_frame", on_frame)


def hands_on_duplicates_that_nobody_stops(patch: pytest.MonkeyPatch) -> None:
    """The same, when border brokers and clients do not know what has come."""
    hands_on_duplicates(patch)
    patch.setattr(Seen, "add", lambda self, publisher, sequence: True)


def reorders(patch: pytest.MonkeyPatch) -> None:
    """Messages that come together, after a gap is filled, are handed on in the wrong order."""
    intact = Link.on_frame
    patch.setattr(Link, "on_frame", lambda self, frame, effects, now: intact(self, frame, effects, now)[::-1])


def reorders_for_clients_that_take_it(patch: pytest.MonkeyPatch) -> None:
    """The same, when clients do not drop what comes after a younger one."""
    reorders(patch)
    patch.setattr(setup, "ClientConfig", partial(ClientConfig, seen_window=256))


# ---------------------------------------------------------------- sessions and clients


def keeps_nothing_unconfirmed(patch: pytest.MonkeyPatch) -> None:
    """What was sent to a client that went away counts as received."""
    intact = Queue.pause

    def pause(self: Queue, now: float) -> None:
        self.confirm(self.sent_up_to)
        intact(self, now)

    patch.setattr(Queue, "pause", pause)


def forgets_its_requests(patch: pytest.MonkeyPatch) -> None:
    """A client that loses its connection forgets what was under way."""
    intact = Client._gone_away

    def gone_away(self: Client) -> list[Effect]:
        self._under_way.clear()
        return intact(self)

    patch.setattr(Client, "_gone_away", gone_away)


def quenches_too_much(patch: pytest.MonkeyPatch) -> None:
    """The combined filter is that of one subscription."""
    intact = Quenching._combined
    patch.setattr(Quenching, "_combined", lambda self, wanted: intact(self, lambda: list(wanted())[:1]))
    patch.setattr(Quenching, "_with", lambda self, held, filter: held)


def quenches_while_it_is_away(patch: pytest.MonkeyPatch) -> None:
    """A source that is away takes the last filter that it has heard for the present one."""
    patch.setattr(RequestOutbox, "on_closed", lambda self: None)


# ---------------------------------------------------------------- clients that move


def waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """A session goes before all have flushed their channel to the old place, and its client comes in at once."""
    patch.setattr(GraphBarrier, "has_flushed", lambda self, key: True)


def lets_publishers_in_early(patch: pytest.MonkeyPatch) -> None:
    """A client comes in before all that it has said elsewhere has come."""
    intact = Relocation.on_replay

    def on_replay(self: Relocation, peer: str, message: Replay, now: float) -> list[Effect]:
        return intact(self, peer, structs.replace(message, has_published=False), now)

    patch.setattr(Relocation, "on_replay", on_replay)


def lets_publishers_in_early_for_clients_that_take_it(patch: pytest.MonkeyPatch) -> None:
    """The same, when clients do not drop what comes after a younger one."""
    lets_publishers_in_early(patch)
    patch.setattr(setup, "ClientConfig", partial(ClientConfig, seen_window=256))


def begins_sessions_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """Where a session is lost another begins, though its client has gone again, and nobody looks elsewhere."""
    patch.setattr(Relocation, "go_without", lambda self, arrival, now: self.finish(arrival, now))


# ---------------------------------------------------------------- the driver


def skips_the_last_input(patch: pytest.MonkeyPatch) -> None:
    """A broker that recovers has not heard the last message of a client that it journalled.

    Neighbours notice what is missing of theirs, and then it is no secret loss (`lost_tail.py`).
    """
    intact = World._recover

    def recover(self: World, node: Node) -> Any:
        heard = [at for at, (input, _) in enumerate(node.journal) if isinstance(input, Heard)]
        if heard:
            del node.journal[heard[-1]]
        node.durable = len(node.journal)
        return intact(self, node)

    patch.setattr(World, "_recover", recover)


FAR = ["overlay.latency_ms=100", "overlay.client_latency_ms=100"]  # more is under way when something breaks
QUENCHING = ["overlay.kind=single", "routing.quenching=true"]
SELECTIVE = ["workload={kind='random', selectivity=0.2, topics=10}"]  # nobody wants some of the events
LOSS, BREAK = FAULTS["link_loss"], FAULTS["link_break"]
CRASHES = ["faults.crash={per_s=2, lasts_s=0.3}"]
PUBLISHERS_AWAY = ["clients.disconnections={who='publishers', per_s=3, lasts_s=0.5}"]

SLOW = ["overlay.latency_ms=40", "run.settle_s=180"]
CONSUMERS_ROAM = ["clients.roaming={who='subscribers', per_s=3, away_s=0}", *SLOW, *FAULTS["delay"]]
PUBLISHERS_ROAM = ["clients.roaming={who='publishers', per_s=3, away_s=0}", *SLOW, *LOSS]
ALL_ROAM_AND_DISKS_DIE = [
    "clients.roaming={who='all', per_s=6, away_s=0}",
    "faults.crash_diskless={per_s=0.5, lasts_s=0.5}",
    *SLOW,
    *FAULTS["delay"],
]

AFTER_A_LINK_IS_CLOSED = {"nobody at fault", "nothing lost", "nothing stuck", "settles", "no garbage"}

Case = tuple[Plant, Scenario, Workload | None, str, set[str]]

CASES: list[Case] = [  # the law that breaks, and what else may break because of it
    (covers_what_it_only_meets, TREE, None, "nothing lost", set()),
    (forgets_what_was_covered, with_changes(TREE, CHURN), Nested(), "nothing lost", set()),
    (matches_too_much, TREE, None, "nothing unwanted", set()),
    (never_cleans_its_tables, with_changes(TREE, CHURN), None, "no garbage", set()),
    (
        drops_what_a_dead_link_held_for_good,
        with_changes(GRAPH, [*FAR, "faults.link_break={per_s=1, lasts_s=4}"]),
        None,
        "nothing lost",
        {"settles", "no garbage"},
    ),
    (forgets_its_outbox, with_changes(TREE, [*FAR, *BREAK]), None, "nothing lost", set()),
    (acknowledges_what_has_not_come, with_changes(TREE, LOSS), None, "nothing lost", set()),
    (loses_acknowledgements, TREE, None, "settles", set()),
    (
        hands_on_duplicates,
        with_changes(TREE, [*CHURN, *FAULTS["duplicate"]]),
        None,
        "nobody at fault",
        AFTER_A_LINK_IS_CLOSED,
    ),
    (hands_on_duplicates_that_nobody_stops, with_changes(TREE, FAULTS["duplicate"]), None, "nothing twice", set()),
    (reorders, with_changes(TREE, LOSS), None, "nothing lost", set()),
    (reorders_for_clients_that_take_it, with_changes(TREE, LOSS), None, "order", set()),
    (keeps_nothing_unconfirmed, with_changes(TREE, [*FAR, *AWAY]), None, "nothing lost", set()),
    (forgets_its_requests, with_changes(TREE, [*FAR, *PUBLISHERS_AWAY]), None, "nothing stuck", {"no garbage"}),
    (
        quenches_too_much,
        with_changes(TREE, QUENCHING),
        None,
        "quenching",
        set(),
    ),
    (
        quenches_while_it_is_away,
        with_changes(TREE, [*QUENCHING, *PUBLISHERS_AWAY, *SELECTIVE]),
        None,
        "buffering",
        set(),
    ),
    (waits_for_nobody, with_changes(GRAPH, CONSUMERS_ROAM), None, "nothing lost", set()),
    (lets_publishers_in_early, with_changes(GRAPH, PUBLISHERS_ROAM), None, "nothing lost", set()),
    (
        lets_publishers_in_early_for_clients_that_take_it,
        with_changes(GRAPH, PUBLISHERS_ROAM),
        None,
        "order",
        set(),
    ),
    (skips_the_last_input, with_changes(TREE, CRASHES), None, "nothing lost", AFTER_A_LINK_IS_CLOSED),
]


def title(case: Case) -> str:
    return case[0].__name__


SEEDS = {
    "forgets_its_outbox": 2,
    "quenches_too_much": 2,
    "lets_publishers_in_early": 6,  # few of them come in early while something is still under way
    "lets_publishers_in_early_for_clients_that_take_it": 6,
}
"""By fault, a seed by which it makes a difference, where that is not 1."""


def seed_of(case: Case) -> int:
    return SEEDS.get(title(case), 1)


@pytest.mark.parametrize("case", CASES, ids=title)
def test_a_planted_fault_breaks_the_law_it_is_about(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, scenario, workload, law, consequences = case
    plant(monkeypatch)
    broken = laws_broken(outcome(scenario, seed_of(case), workload))
    assert law in broken
    assert broken.keys() <= {law, *consequences}


@pytest.mark.parametrize("case", few(CASES, 8), ids=title)
def test_without_the_fault_the_same_scenario_holds(case: Case) -> None:
    _, scenario, workload, _, _ = case
    summary = outcome(scenario, seed_of(case), workload)
    assert summary.violations == ()
    assert summary.owed > 200
    assert summary.allowed < summary.owed / 10


def test_queues_that_grow_beyond_their_bound_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = with_changes(TREE, AWAY)
    monkeypatch.setattr(setup, "Limits", partial(Limits, queue_events_max=5, window=4))
    bounded = outcome(scenario, 1)
    assert (bounded.violations, bounded.queue_max["session"]) == ((), 5)
    assert bounded.purged > 0  # given up, and on record
    monkeypatch.setattr(Queue, "_hold_budgets", lambda self: None)
    assert set(laws_broken(outcome(scenario, 1))) == {"queues bounded"}


@pytest.mark.parametrize(("base", "seed"), [(TREE, 2), (GRAPH, 3)], ids=["tree", "graph"])
def test_sessions_that_are_left_behind_are_caught(base: Scenario, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = with_changes(base, ALL_ROAM_AND_DISKS_DIE)
    assert outcome(scenario, seed).violations == ()
    begins_sessions_for_nobody(monkeypatch)
    assert "no garbage" in laws_broken(outcome(scenario, seed))


def test_packets_that_a_dead_link_held_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line of defence is down, and the second holds: a target sees the gap in the numbers."""
    drops_what_a_dead_link_held(monkeypatch)
    summary = outcome(with_changes(GRAPH, [*FAR, "faults.link_break={per_s=1, lasts_s=4}"]), 1)
    assert summary.violations == ()


def test_an_event_that_was_never_published_is_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "published", lambda self, event, now: None)
    monkeypatch.setattr(Ledger, "entered", lambda self, id, now: None)
    broken = laws_broken(outcome(TREE, 1))
    assert set(broken) == {"nothing unwanted"}


def test_a_broker_that_stays_down_does_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "restart", lambda self, name, **more: None)
    broken = laws_broken(outcome(with_changes(TREE, FAULTS["crash"]), 1))
    assert "settles" in broken


def test_an_expectation_that_is_not_met_is_named() -> None:
    scenario = with_changes(TREE, ["run.expectations={messages_max=10, delivered_min=1}"])
    [violation] = outcome(scenario, 1).violations
    assert violation.law == "expectation"
    assert violation.text.startswith("messages_max is 10, and it was ")
