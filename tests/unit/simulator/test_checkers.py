"""The checkers on hand-made histories, each law by itself."""

from typing import Any

import pytest

from godwit.baselines.naive_policy import NAIVE
from godwit.filters.events import event
from godwit.filters.filters import TRUE, Filter, some
from godwit.filters.sets import at_least, less_than
from godwit.simulator.checkers import Verdict, judge, unmet_expectations
from godwit.simulator.ledger import Dropped, Ledger
from godwit.simulator.scenario import Expectations
from godwit.simulator.summary import Summary

CHEAP = some("price", less_than(50))


class History:
    """A ledger written by hand: subscriptions have settled at once, events enter when they are published."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.sequences: dict[str, int] = {}

    def subscribe(self, client: str, filter: Filter | None = CHEAP, at: float = 0.0, name: str = "x") -> None:
        self.ledger.asked("subscription", client, name, filter, at, ())
        self.ledger.settled(at, lambda _: True)

    def advertise(self, client: str, filter: Filter | None, at: float = 0.0) -> None:
        self.ledger.asked("advertisement", client, "all", filter, at, ())
        self.ledger.settled(at, lambda _: True)

    def stand(self, client: str, floor: int, at: float = 0.0) -> None:
        self.ledger.context_declared(client, {"floor": floor}, at, ())
        self.ledger.settled(at, lambda _: True)

    def publish(
        self, price: int, at: float, publisher: str = "p", *, enters: bool = True, to: Filter | None = None
    ) -> tuple[str, int]:
        self.sequences[publisher] = self.sequences.get(publisher, 0) + 1
        said = event({"price": price}, publisher=publisher, sequence=self.sequences[publisher], to=to)
        self.ledger.published(said, at)
        if enters:
            self.ledger.entered(said.id, at)
        return said.id

    def deliver(self, client: str, id: tuple[str, int], at: float, *names: str) -> None:
        self.ledger.delivered(client, id, names or ("x",), at)

    def judged(self, *, advertised: bool = False) -> Verdict:
        return judge(self.ledger, advertised=advertised)


@pytest.fixture
def history() -> History:
    return History()


def laws(verdict: Verdict) -> list[str]:
    return [violation.law for violation in verdict.violations]


def counts(verdict: Verdict) -> dict[str, Any]:
    return {name: count for name, count in vars(verdict).items() if isinstance(count, int) and count}


def test_what_is_owed_and_comes_is_right(history: History) -> None:
    history.subscribe("s")
    id = history.publish(10, 1.0)
    history.publish(90, 2.0)
    history.deliver("s", id, 1.5)
    verdict = history.judged()
    assert (laws(verdict), counts(verdict), verdict.latencies) == ([], {"owed": 1, "delivered": 1}, [0.5])


def test_what_is_owed_and_never_comes_is_lost(history: History) -> None:
    history.subscribe("s")
    history.subscribe("t")
    history.deliver("t", history.publish(10, 1.0), 1.5)
    verdict = history.judged()
    assert counts(verdict) == {"owed": 2, "delivered": 1, "lost": 1}
    [violation] = verdict.violations
    assert (violation.law, violation.at, violation.node) == ("nothing lost", 1.0, "s")
    assert violation.text == "event 1 of p {'price': 10} never came"


def test_what_two_subscriptions_of_a_client_want_is_owed_once(history: History) -> None:
    history.subscribe("s")
    history.subscribe("s", TRUE, name="y")
    id = history.publish(10, 1.0)
    history.deliver("s", id, 1.5, "x", "y")
    assert counts(history.judged()) == {"owed": 1, "delivered": 1}


def test_what_comes_twice_is_one_too_many(history: History) -> None:
    history.subscribe("s")
    id = history.publish(10, 1.0)
    history.deliver("s", id, 1.5)
    history.deliver("s", id, 1.7)
    verdict = history.judged()
    assert (laws(verdict), verdict.duplicated) == (["nothing twice"], 1)


def test_one_publishers_events_must_come_in_order(history: History) -> None:
    history.subscribe("s")
    first, second, third = (history.publish(10, at) for at in (1.0, 2.0, 3.0))
    for at, id in enumerate((first, third, second)):
        history.deliver("s", id, 4.0 + at)
    verdict = history.judged()
    assert (laws(verdict), verdict.out_of_order) == (["order"], 1)
    assert verdict.violations[0].text == "event 2 of p came after number 3"


def test_events_of_two_publishers_may_come_in_any_order(history: History) -> None:
    history.subscribe("s")
    ids = [history.publish(10, 1.0, "p"), history.publish(10, 2.0, "q"), history.publish(10, 3.0, "p")]
    for at, number in enumerate((1, 0, 2)):
        history.deliver("s", ids[number], 4.0 + at)
    assert laws(history.judged()) == []


def test_what_the_subscription_does_not_match_is_unwanted(history: History) -> None:
    history.subscribe("s")
    history.deliver("s", history.publish(90, 1.0), 1.5)
    verdict = history.judged()
    assert (laws(verdict), verdict.unwanted) == (["nothing unwanted"], 1)


def test_a_delivery_is_judged_by_the_subscription_it_names(history: History) -> None:
    history.subscribe("s")
    history.subscribe("s", TRUE, name="y")
    id = history.publish(90, 1.0)
    history.deliver("s", id, 1.5, "x", "y")
    assert laws(history.judged()) == ["nothing unwanted"]


@pytest.mark.parametrize("name", ["never made", ""])
def test_a_delivery_for_a_subscription_that_is_not_there_is_unwanted(history: History, name: str) -> None:
    history.subscribe("s")
    history.deliver("s", history.publish(10, 1.0), 1.5, name)
    assert laws(history.judged()) == ["nothing unwanted"]


def test_what_nobody_published_is_unwanted(history: History) -> None:
    history.subscribe("s")
    history.deliver("s", ("ghost", 7), 1.5)
    verdict = history.judged()
    assert laws(verdict) == ["nothing unwanted"]
    assert verdict.violations[0].text == "event 7 of ghost was never published"


def test_what_comes_while_a_change_is_under_way_is_allowed_and_so_is_what_does_not(history: History) -> None:
    history.ledger.asked("subscription", "s", "x", CHEAP, 1.0, ())
    first = history.publish(10, 1.1)
    history.publish(10, 1.2)
    history.ledger.settled(2.0, lambda _: True)
    history.deliver("s", first, 1.5)
    verdict = history.judged()
    assert (laws(verdict), counts(verdict)) == ([], {"delivered": 1, "allowed": 2})


def test_what_must_not_come_and_does_not_is_no_matter_of_the_allowed(history: History) -> None:
    history.subscribe("s", CHEAP, 1.0)
    history.subscribe("s", None, 5.0)
    history.publish(10, 0.5)
    history.publish(10, 6.0)
    assert counts(history.judged()) == {}


@pytest.mark.parametrize(("reason", "counted"), [("purged", "purged"), ("lost", "purged"), ("expired", "expired")])
def test_what_left_a_queue_on_record_is_no_loss_to_that_client(history: History, reason: str, counted: str) -> None:
    history.subscribe("s")
    history.subscribe("t")
    id = history.publish(10, 1.0)
    history.ledger.gone["s", id] = reason
    verdict = history.judged()
    assert [violation.node for violation in verdict.violations] == ["t"]
    assert counts(verdict) == {"owed": 2, "lost": 1, counted: 1}


def test_what_died_with_a_disk_is_excused_for_those_it_was_for(history: History) -> None:
    history.subscribe("s")
    history.subscribe("t")
    id = history.publish(10, 1.0)
    history.ledger.died.add(("s", id))
    verdict = history.judged()
    assert [violation.node for violation in verdict.violations] == ["t"]
    assert (verdict.excused, verdict.lost) == (1, 1)


def test_what_died_somewhere_and_came_all_the_same_is_not_excused_but_delivered(history: History) -> None:
    history.subscribe("s")
    id = history.publish(10, 1.0)
    history.ledger.died.add(("s", id))
    history.deliver("s", id, 2.0)
    assert counts(history.judged()) == {"owed": 1, "delivered": 1}


# ---------------------------------------------------------------- at the source


def test_an_event_that_no_broker_has_taken_is_stuck(history: History) -> None:
    history.publish(10, 1.0, enters=False)
    verdict = history.judged()
    assert laws(verdict) == ["nothing stuck"]
    assert verdict.violations[0].text == "event 1 of p was published and no broker has taken it"


@pytest.mark.parametrize("reason", ["refused", "discarded", "lost"])
def test_an_event_that_was_given_up_at_its_source_on_record_is_not_stuck(history: History, reason: Dropped) -> None:
    history.subscribe("s")
    id = history.publish(10, 1.0, enters=False)
    history.ledger.dropped[id] = (reason, 1.0)
    assert laws(history.judged()) == []


def test_a_source_that_is_away_must_not_quench_while_it_has_room(history: History) -> None:
    id = history.publish(10, 1.0, enters=False)
    history.ledger.dropped[id] = ("not buffered", 1.0)
    verdict = history.judged()
    assert [(violation.law, violation.text) for violation in verdict.violations] == [
        ("buffering", "event 1 of p was quenched while its publisher was away and had room for it")
    ]


def test_an_event_may_be_quenched_that_nobody_wants(history: History) -> None:
    history.subscribe("s")
    id = history.publish(90, 1.0, enters=False)
    history.ledger.dropped[id] = ("quenched", 1.0)
    assert laws(history.judged()) == []


def test_an_event_must_not_be_quenched_that_somebody_wants(history: History) -> None:
    history.subscribe("s", CHEAP, at=5.0)
    early, late = (history.publish(10, at, enters=False) for at in (1.0, 2.0))
    history.ledger.dropped[early] = ("quenched", 1.0)  # nobody wanted it then
    history.ledger.dropped[late] = ("quenched", 6.0)  # it had waited at its source
    verdict = history.judged()
    assert [(violation.law, violation.text) for violation in verdict.violations] == [
        ("quenching", "event 2 of p was quenched, and s wanted it")
    ]


# ---------------------------------------------------------------- advertisements


def test_with_advertisements_only_what_is_advertised_is_owed(history: History) -> None:
    history.subscribe("s")
    history.advertise("p", some("price", less_than(20)))
    history.advertise("q", None)
    for price, publisher in ((10, "p"), (30, "p"), (10, "q")):
        history.publish(price, 1.0, publisher)
    verdict = history.judged(advertised=True)
    assert (verdict.owed, verdict.lost, verdict.allowed) == (1, 1, 2)
    assert history.judged(advertised=False).owed == 3


def test_an_advertisement_that_was_withdrawn_owes_nothing_from_then_on(history: History) -> None:
    history.subscribe("s")
    history.advertise("p", TRUE)
    history.deliver("s", history.publish(10, 1.0), 1.5)
    history.advertise("p", None, at=2.0)
    history.publish(10, 3.0)
    assert counts(history.judged(advertised=True)) == {"owed": 1, "delivered": 1, "allowed": 1}


# ---------------------------------------------------------------- the rest


def test_violations_are_sorted_by_time(history: History) -> None:
    history.subscribe("s")
    for at in (3.0, 1.0, 2.0):
        history.publish(10, at)
    assert [violation.at for violation in history.judged().violations] == [1.0, 2.0, 3.0]


def test_expectations_bound_from_above_and_from_below() -> None:
    summary = Summary(
        scenario="x", seed=1, delivered=10, messages={"Ack": 5, "Publish": 6}, latency_p99_ms=3.0, simulated_s=9.0
    )
    assert unmet_expectations(summary, Expectations(delivered_min=10, messages_max=11, latency_p99_ms_max=3.0)) == []
    unmet = unmet_expectations(summary, Expectations(delivered_min=11, messages_max=10, latency_p99_ms_max=2.5))
    assert [violation.text for violation in unmet] == [
        "delivered_min is 11, and it was 10",
        "messages_max is 10, and it was 11",
        "latency_p99_ms_max is 2.5, and it was 3.0",
    ]
    assert {(violation.law, violation.at) for violation in unmet} == {("expectation", 9.0)}


# ---------------------------------------------------------------- whom an event means

UPSTAIRS = some("floor", at_least(2))


def test_an_event_is_owed_to_those_only_whom_it_means(history: History) -> None:
    for client, floor in (("s", 1), ("t", 2)):
        history.subscribe(client)
        history.stand(client, floor)
    history.deliver("t", history.publish(10, 1.0, to=UPSTAIRS), 1.5)
    verdict = history.judged()
    assert (laws(verdict), counts(verdict)) == ([], {"owed": 1, "delivered": 1})


def test_an_event_that_never_comes_to_whom_it_means_is_lost(history: History) -> None:
    history.subscribe("t")
    history.stand("t", 2)
    history.publish(10, 1.0, to=UPSTAIRS)
    assert laws(history.judged()) == ["nothing lost"]


def test_an_event_that_comes_to_whom_it_does_not_mean_is_unmeant(history: History) -> None:
    history.subscribe("s")
    history.stand("s", 1)
    history.deliver("s", history.publish(10, 1.0, to=UPSTAIRS), 1.5)
    verdict = history.judged()
    assert (laws(verdict), counts(verdict)) == (["nothing misdelivered"], {"delivered": 1, "unwanted": 1})


def test_a_session_left_behind_may_know_an_older_context(history: History) -> None:
    history.ledger.modes["s"] = NAIVE
    history.subscribe("s")
    history.stand("s", 1)
    history.deliver("s", history.publish(10, 1.0, to=UPSTAIRS), 1.5)
    verdict = history.judged()
    assert (laws(verdict), verdict.unwanted) == ([], 1)


def test_while_a_context_changes_an_event_on_which_both_disagree_may_come_or_not(history: History) -> None:
    for client in ("s", "t"):
        history.subscribe(client)
        history.stand(client, 1)
    for client in ("s", "t"):
        history.ledger.context_declared(client, {"floor": 2}, 1.0, ())
    history.deliver("s", history.publish(10, 1.5, to=UPSTAIRS), 2.0)
    verdict = history.judged()
    assert (laws(verdict), counts(verdict)) == ([], {"delivered": 1, "allowed": 2})


def test_an_event_that_means_nobody_who_wants_it_may_be_quenched(history: History) -> None:
    history.subscribe("s")
    history.stand("s", 1)
    for to in (UPSTAIRS, None):
        id = history.publish(10, 1.0, enters=False, to=to)
        history.ledger.dropped[id] = ("quenched", 1.0)
    [violation] = history.judged().violations
    assert (violation.law, violation.text) == ("quenching", "event 2 of p was quenched, and s wanted it")
