"""What checkers know of contexts, they have caught: plant a fault in what brokers do with them, and see a law broken.

As in `test_planted_faults.py`, each case is a scenario that holds without its fault.
"""

from typing import Any

import pytest

from godwit.broker.context_table import OwnContexts
from godwit.broker.hop_stream import HopStream
from godwit.broker.routing import Answer
from godwit.broker.session import Session
from godwit.broker.spcf import ContextForwarding
from godwit.broker.topology import Topology
from godwit.client import own_context as own_contexts
from godwit.filters.events import Attributes
from godwit.simulator.scenario import Scenario, with_changes
from tests.seeds import few
from tests.simulation.scenarios import CHURN, FAULTS, GRAPH, SETTLE, TREE, laws_broken, outcome
from tests.simulation.test_planted_faults import Plant

# ---------------------------------------------------------------- at the edges


def delivers_whomever_it_means(patch: pytest.MonkeyPatch) -> None:
    """A border broker delivers to whoever wants an event, whomever it means."""
    patch.setattr(Session, "is_addressed", lambda self, event: True)


def keeps_the_first_context(patch: pytest.MonkeyPatch) -> None:
    """A session does not hear of changes."""
    intact = Session.set_context

    def set_context(self: Session, context: Any, binding: Any, now: float) -> None:
        if self.context_since is None:
            intact(self, context, binding, now)

    patch.setattr(Session, "set_context", set_context)


def stamps_nothing(patch: pytest.MonkeyPatch) -> None:
    """A client does not say in which context it publishes."""
    patch.setattr(own_contexts, "stamped", lambda event, context: event)


def vouches_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """A border broker does not say in events what the server knows of their sender."""
    patch.setattr(Session, "vouched_for", lambda self, publish, stamps: publish)


# ---------------------------------------------------------------- SPCF


def awaits_nobody(patch: pytest.MonkeyPatch) -> None:
    """What is published right after a change of context goes to those only who are known to want it."""
    intact = ContextForwarding.set_context

    def set_context(self: ContextForwarding, client: str, context: Attributes | None) -> list[Answer]:
        answers = intact(self, client, context)
        self.awaiting.clear()
        return answers

    patch.setattr(ContextForwarding, "set_context", set_context)


def attracts_nothing(patch: pytest.MonkeyPatch) -> None:
    """A new context attracts no subscriptions, and yet it is said that all are told."""
    intact = ContextForwarding._on_context_added

    def on_context_added(self: ContextForwarding, source: str, other: Any, message: Any) -> list[Answer]:
        classes, self.classes = self.classes, {}
        answers = intact(self, source, other, message)
        self.classes = classes
        return answers

    patch.setattr(ContextForwarding, "_on_context_added", on_context_added)


def withdraws_nothing(patch: pytest.MonkeyPatch) -> None:
    """What a context has attracted stays when the context is gone."""
    patch.setattr(ContextForwarding, "_dismiss", lambda self, source, other: [])


def forgets_no_context(patch: pytest.MonkeyPatch) -> None:
    """A client that leaves stays in its context."""
    intact = OwnContexts.put
    patch.setattr(
        OwnContexts,
        "put",
        lambda self, client, context: [] if context is None else intact(self, client, context),
    )


def says_once_where_clients_are(patch: pytest.MonkeyPatch) -> None:
    """A subscriber that changes its context is thought to be in the one before."""
    intact = ContextForwarding.set_context

    def set_context(self: ContextForwarding, client: str, context: Attributes | None) -> list[Answer]:
        held_by, self.held_by = self.held_by, {}
        answers = intact(self, client, context)
        self.held_by = held_by
        return answers

    patch.setattr(ContextForwarding, "set_context", set_context)


# ---------------------------------------------------------------- matched at every hop


def tells_nobody_on_the_way(patch: pytest.MonkeyPatch) -> None:
    """A subscription is told to those whose clients it asks for, and to no hop on the way."""
    patch.setattr(Topology, "between", lambda self, targets: [])


def keeps_nothing_for_others(patch: pytest.MonkeyPatch) -> None:
    """What was dropped by a hop is not sent again."""
    patch.setattr(HopStream, "send_again", lambda self: [])


def marks_no_bits(patch: pytest.MonkeyPatch) -> None:
    """A Bloom filter that loses some of what was put in: S5 is about just that."""
    patch.setattr("godwit.broker.bloom.BloomFilter.__contains__", lambda self, name: sum(name.encode()) % 2 == 0)


BOTH = ["contexts={attributes=1, values=5, sender_share=0.8, to_share=0.8, role_share=0.5}", "workload.kind=random"]
WANTED = ["workload.selectivity=0.9", "contexts.sender_selectivity=0.4", "contexts.to_selectivity=0.4"]
CHANGES = ["contexts.changes_per_s=4", "churn.burst_s=1", "churn.pause_s=2", "clients.publish_per_s=10"]
FAR = ["overlay.latency_ms=100"]  # a context takes its time to attract
SPCF = with_changes(GRAPH, ["routing.strategy=spcf", *BOTH, *WANTED, *CHANGES])
HOPS = with_changes(SPCF, ["routing.matching=hops", "overlay={kind='line', brokers=5}"])
EDGES = with_changes(TREE, [*BOTH, *WANTED, *CHANGES])
ROLES = with_changes(EDGES, ["contexts.kind=mixed"])

Case = tuple[Plant, Scenario, str, set[str]]

CASES: list[Case] = [
    (delivers_whomever_it_means, EDGES, "nothing misdelivered", set()),
    (delivers_whomever_it_means, SPCF, "nothing misdelivered", set()),
    (keeps_the_first_context, EDGES, "nothing lost", {"nothing misdelivered"}),
    (stamps_nothing, EDGES, "nothing lost", set()),
    (vouches_for_nobody, ROLES, "nothing unwanted", {"nothing lost"}),
    (awaits_nobody, with_changes(SPCF, FAR), "nothing lost", set()),
    (attracts_nothing, SPCF, "nothing lost", set()),
    (withdraws_nothing, SPCF, "no garbage", set()),
    (forgets_no_context, with_changes(SPCF, CHURN), "no garbage", set()),
    (says_once_where_clients_are, SPCF, "nothing lost", set()),
    (attracts_nothing, HOPS, "nothing lost", set()),
    (marks_no_bits, HOPS, "nothing lost", set()),
    (tells_nobody_on_the_way, HOPS, "nothing lost", set()),
    (keeps_nothing_for_others, with_changes(HOPS, [*FAULTS["link_break"], *SETTLE]), "nothing lost", {"settles"}),
]


SEEDS = {"awaits_nobody": 5, "attracts_nothing": 3, "says_once_where_clients_are": 2}
"""By fault, a seed by which it makes a difference, where that is not 1."""


def title(case: Case) -> str:
    return f"{case[0].__name__}, {case[1].routing.family}"


def seed_of(case: Case) -> int:
    return SEEDS.get(case[0].__name__, 1)


@pytest.mark.parametrize("case", CASES, ids=title)
def test_a_planted_fault_breaks_the_law_it_is_about(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, scenario, law, consequences = case
    plant(monkeypatch)
    broken = laws_broken(outcome(scenario, seed_of(case)))
    assert law in broken
    assert broken.keys() <= {law, *consequences}


@pytest.mark.parametrize("case", few(CASES, 4), ids=title)
def test_without_the_fault_the_same_scenario_holds(case: Case) -> None:
    summary = outcome(case[1], seed_of(case))
    assert summary.violations == ()
    assert summary.owed > 100
