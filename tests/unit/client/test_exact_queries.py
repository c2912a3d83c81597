"""A client decides by itself what its queries want of what the network brings."""

from godwit.broker.effects import Heard, Notify, Opened, Tell, Trace
from godwit.broker.messages import Accepted, Attached, Delivery, Receipt, Refused, Request, Subscribe
from godwit.client import Client
from godwit.client.exact_queries import SPARE, ResidueCount
from godwit.errors import QueryTooCostly
from godwit.filters import Event, parse
from godwit.languages.query import Query, Subject, parse_query


def longer_than(letters: int) -> Query:
    """Names of more letters: brokers can only tell whether there is a name."""

    def test(subject: Subject) -> bool:
        name = subject.event.attributes["name"]
        if name == "costly":
            raise QueryTooCostly("too many letters to count")
        return len(str(name)) > letters

    return Query("letters", f"longer than {letters}", parse("name IS NOT NULL"), test)


def attached() -> Client:
    client = Client("ann")
    client.handle(Opened("b1"), 0.0)
    client.handle(Heard("b1", Attached(0, True, Receipt(), "s", "b1")), 0.0)
    return client


def counted(client: Client) -> ResidueCount:
    """What was turned away for the subscription `q`."""
    found = client.queries.count_of("q")
    assert found is not None
    return found


def heard(client: Client, number: int, name: str, *subscriptions: str) -> list[object]:
    """What comes of a delivery: what the application gets, or what is recorded."""
    event = Event({"name": name}, "p", number)
    effects = client.handle(Heard("b1", Delivery(number, event, subscriptions)), 1.0)
    notified: list[object] = [each.subscriptions for each in effects if isinstance(each, Notify)]
    return notified + [each.record.kind for each in effects if isinstance(each, Trace)]


def test_brokers_hear_of_the_routable_filter_alone() -> None:
    client = attached()
    effects = client.subscribe("q", longer_than(3), 0.0)
    (said,) = [each.message for each in effects if isinstance(each, Tell)]
    assert said == Request(1, Subscribe(("ann", "q"), parse("name IS NOT NULL")))


def test_what_the_query_does_not_want_is_a_residue_and_counted() -> None:
    client = attached()
    client.subscribe("q", longer_than(3), 0.0)
    client.handle(Heard("b1", Accepted(1)), 0.0)
    assert heard(client, 1, "anna", "q") == [("q",)]
    assert heard(client, 2, "ann", "q") == ["residue"]
    counts = counted(client)
    assert (counts.residues, counts.failed) == (1, 0)
    assert (client.notified, client.duplicates) == (1, 0)


def test_an_event_goes_to_those_of_several_subscriptions_that_want_it() -> None:
    client = attached()
    client.subscribe("q", longer_than(3), 0.0)
    client.subscribe("all", "name IS NOT NULL", 0.0)
    assert heard(client, 1, "ann", "q", "all") == [("all",), "residue"]
    assert heard(client, 2, "anna", "q", "all") == [("q", "all")]


def test_a_test_that_cannot_be_made_wants_nothing_and_says_why() -> None:
    client = attached()
    client.subscribe("q", longer_than(3), 0.0)
    assert heard(client, 1, "costly", "q") == ["residue"]
    counts = counted(client)
    assert (counts.residues, counts.failed, counts.last_failure) == (1, 1, "too many letters to count")


def test_a_filter_in_the_place_of_a_query_is_tested_no_more() -> None:
    client = attached()
    client.subscribe("q", longer_than(3), 0.0)
    client.subscribe("q", "name IS NOT NULL", 0.0)
    assert heard(client, 1, "ann", "q") == [("q",)]


def test_a_query_that_is_refused_leaves_the_one_before_in_force() -> None:
    client = attached()
    client.subscribe("q", longer_than(3), 0.0)
    client.handle(Heard("b1", Accepted(1)), 0.0)
    client.subscribe("q", longer_than(5), 0.0)
    assert heard(client, 1, "anna", "q") == ["residue"]
    client.handle(Heard("b1", Refused(2, "you may not")), 0.0)
    assert heard(client, 2, "anna", "q") == [("q",)]


def test_queries_that_count_no_more_are_forgotten_and_the_one_in_force_is_not() -> None:
    client = attached()
    client.subscribe("kept", longer_than(3), 0.0)
    for letters in range(1_000):
        client.subscribe("q", longer_than(letters), 0.0)
    assert len(client.queries) <= 2 * client.config.in_flight_max + SPARE
    assert heard(client, 1, "ann", "kept", "q") == ["residue", "residue"]
    assert heard(client, 2, "anna", "kept", "q") == [("kept",), "residue"]


def test_counts_go_on_when_a_query_is_replaced_and_begin_again_when_the_subscription_ends() -> None:
    client = attached()
    for number, letters in enumerate((3, 4), start=1):
        client.subscribe("q", longer_than(letters), 0.0)
        heard(client, number, "ann", "q")
    client.subscribe("other", longer_than(3), 0.0)
    heard(client, 3, "ann", "other")
    assert (counted(client).residues, client.queries.total.residues) == (2, 3)
    client.unsubscribe("q", 0.0)
    client.subscribe("q", longer_than(3), 0.0)
    assert (counted(client).residues, client.queries.total.residues) == (0, 3)


def test_a_test_that_raises_anything_else_wants_nothing_and_says_why() -> None:
    """A language from outside, and its author has not thought of everything."""

    def broken(subject: Subject) -> bool:
        raise ZeroDivisionError("division by zero")

    client = attached()
    client.subscribe("q", Query("letters", "broken", parse("name IS NOT NULL"), broken), 0.0)
    assert heard(client, 1, "ann", "q") == ["residue"]
    assert (counted(client).failed, counted(client).last_failure) == (1, "division by zero")


def test_a_test_on_the_clients_own_context_is_given_the_context_of_now() -> None:
    client = attached()
    client.set_context({"limit": 3}, 0.0)
    client.subscribe("q", parse_query("length(name) > my.limit + 1"), 0.0)
    client.handle(Heard("b1", Accepted(2)), 0.0)
    assert heard(client, 1, "anna", "q") == ["residue"]
    client.set_context({"limit": 2}, 0.0)
    assert heard(client, 2, "anna", "q") == [("q",)]
    assert counted(client).failed == 0
