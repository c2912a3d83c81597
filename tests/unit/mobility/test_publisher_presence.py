"""Where a publisher was before it came, as its broker knows it and tells the predictor. [publishers.py, rule 6]"""

import pytest

from godwit.broker.broker import Broker
from godwit.broker.effects import Closed, Heard, Opened
from godwit.broker.messages import Attach
from godwit.mobility.predictors import MovementModel
from godwit.mobility.publisher_presence import PublisherConfig, PublisherPresence
from tests.paper.roaming_world import LATENCY_S, Roaming
from tests.snapshots import reborn

STREET = "b0-b1 b1-b2 b2-b3 b3-b4"


class Asked:
    """A predictor that notes what it is asked, and names the far end of the street."""

    questions: list[tuple[str, int, str | None]] = []  # noqa: RUF012 (a machine's copy asks the same one)

    def next_broker(self, client: str, here: str, visit: int, before: str | None = None) -> str | None:
        self.questions.append((here, visit, before))
        return "b4" if here != "b4" else "b0"


@pytest.fixture
def street() -> Roaming:
    Asked.questions.clear()
    return Roaming(STREET, moving=PublisherConfig(predictor=Asked(), prefetch_s=20.0))


def visits(street: Roaming, *brokers: str) -> None:
    for broker in brokers:
        street.come("P", broker, "prefetching")
        street.settle()


def last_question(street: Roaming) -> tuple[str, str | None]:
    """The last thing that was asked when P goes: where it was, and before."""
    street.leave("P")
    street.settle()
    here, _, before = Asked.questions[-1]
    return here, before


def test_who_comes_for_the_first_time_was_nowhere(street: Roaming) -> None:
    visits(street, "b1")
    assert last_question(street) == ("b1", None)


def test_who_was_let_in_elsewhere_was_there(street: Roaming) -> None:
    visits(street, "b1", "b2", "b3", "b2")
    assert last_question(street) == ("b2", "b3")
    assert [(here, before) for here, _, before in Asked.questions] == [
        ("b1", None),
        ("b2", "b1"),
        ("b3", "b2"),
        ("b2", "b3"),
    ]


def test_a_connection_that_breaks_and_comes_back_changes_nothing(street: Roaming) -> None:
    """Its greeting names the broker itself as home."""
    visits(street, "b1", "b2", "b2", "b2")
    assert last_question(street) == ("b2", "b1")
    assert [before for _, _, before in Asked.questions] == [None, "b1", "b1", "b1"]


def test_who_has_gone_for_longer_than_a_prediction_stands_was_nowhere(street: Roaming) -> None:
    visits(street, "b1", "b2")
    street.leave("P")
    street.pass_time(21.0)
    assert street.holds_nothing_of("b2", "P")
    visits(street, "b2")
    assert last_question(street) == ("b2", None)


def test_a_broker_that_was_greeted_and_could_not_answer_counts(street: Roaming) -> None:
    """It was at b2, though its welcome there was on the way when it went on."""
    visits(street, "b1")
    street.come("P", "b2")
    street.pass_time(1.5 * LATENCY_S)  # its greeting is there, the welcome is not
    visits(street, "b3")
    assert street.client("P").home == "b3"
    assert last_question(street) == ("b3", "b2")


def test_who_greets_twice_because_no_answer_came_was_where_it_was(street: Roaming) -> None:
    visits(street, "b1")
    street.come("P", "b2")
    street.pass_time(1.5 * LATENCY_S)
    visits(street, "b2")
    assert last_question(street) == ("b2", "b1")


def test_who_greets_another_in_vain_and_comes_back_has_been_there(street: Roaming) -> None:
    visits(street, "b1", "b2")
    street.come("P", "b3")
    street.pass_time(1.5 * LATENCY_S)
    visits(street, "b2")
    assert last_question(street) == ("b2", "b3")


def greeted(broker: Broker, connection: str, **said: object) -> None:
    broker.handle(Opened(connection), 100.0)
    attach = Attach("P", mode="prefetching", **said)  # type: ignore[arg-type]
    broker.handle(Heard(connection, attach), 100.0)


def test_a_second_connection_knows_what_the_first_one_knew_that_has_not_ended_yet(street: Roaming) -> None:
    broker = street.broker("b2")
    greeted(broker, "one", attempt=2, since=1, home="b1")
    greeted(broker, "two", attempt=3, since=2, home="b2")
    assert broker.component(PublisherPresence).publishers["P"].before == "b1"
    broker.handle(Closed("one"), 100.0)
    broker.handle(Closed("two"), 100.0)
    assert Asked.questions[-1] == ("b2", 3, "b1")


def test_what_is_known_is_in_snapshots(street: Roaming) -> None:
    """Of one who is here, and of one who has just left."""
    broker = street.broker("b2")
    greeted(broker, "one", attempt=2, since=1, home="b1")
    broker = reborn(broker)
    broker.handle(Closed("one"), 101.0)
    assert Asked.questions[-1] == ("b2", 2, "b1")
    broker = reborn(broker)
    greeted(broker, "two", attempt=3, since=2, home="b2")
    assert broker.component(PublisherPresence).publishers["P"].before == "b1"


def test_a_name_that_nobody_knows_is_no_fault_and_first_order_answers() -> None:
    model = MovementModel({"b2": {"b1": 1, "b3": 2}}, {"b3": {"b2": {"b1": 9}}})
    street = Roaming(STREET, moving=PublisherConfig(predictor=model))
    for home, to in (("nowhere", "b3"), ("b3", "b1"), ("b1", "b3")):
        broker = street.broker("b2")
        greeted(broker, home, attempt=2, since=1, home=home)
        broker.handle(Closed(home), 100.0)
        assert broker.component(PublisherPresence).predicted.pop("P").to == to


def test_the_broker_ahead_is_told_in_either_direction() -> None:
    """Order two reaches prefetching: who comes from b1 is waited for at b3, and the other way round."""
    pairs = {"b1": {"b2": {"b3": 5}}, "b3": {"b2": {"b1": 5}}}
    street = Roaming(STREET, moving=PublisherConfig(predictor=MovementModel({"b2": {"b1": 5, "b3": 5}}, pairs)))
    for last, ahead in (("b1", "b3"), ("b3", "b1")):
        visits(street, last, "b2")
        street.leave("P")
        street.settle()
        assert [
            broker
            for broker in ("b0", "b1", "b3", "b4")
            if "P" in street.broker(broker).component(PublisherPresence).holdings
        ] == [ahead]
