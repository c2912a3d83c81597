"""Many queries at once: the answers of each alone, tested as little as possible."""

import pytest

from godwit.errors import SubscriptionError
from godwit.filters import Event, parse
from godwit.filters.events import event
from godwit.languages import Operator, Query, Subject, parse_query
from godwit.languages.query_index import QueryIndex, match_queries
from godwit.languages.xml_documents import xml_event, xml_subject

QUERIES = {
    "line": parse_query("/bus/line = '5'", "xpath"),
    "late": parse_query("/bus[delay > 60]/line", "xpath"),
    "near": parse_query("bus/at[lon $gt$ 8.5 $and$ lon $lt$ 8.6]", "xql"),
    "anywhere": parse_query("//stop[. = 'Main']", "xql"),
    "second": parse_query("/bus/stop[2] = 'Main'", "xpath"),
    "not": parse_query("/bus[line and not(delay)]", "xpath"),
    "native": parse_query("cost < 3"),
    "cloud": parse_query("cost < 3 AND kind = 'parking'", "cesql"),
}
EVENTS = [
    xml_event(b"<bus><line>5</line><delay>90</delay><at><lon>8.55</lon></at><stop>Main</stop></bus>"),
    xml_event(
        b"<bus><line>5</line><at><lon>8.4</lon></at><at><lon>8.7</lon></at><stop>A</stop><stop>Main</stop></bus>"
    ),
    xml_event(b"<bus><line> 5 </line><delay>+90</delay><at><lon>8.4</lon><lon>8.7</lon></at></bus>"),
    xml_event(b"<bus xmlns='urn:x'><line>5</line></bus>"),
    xml_event(b"<tram><line>5</line></tram>"),
    event({"cost": 2, "kind": "parking"}),
    event({"cost": "2", "kind": "parking"}),
    event({"cost": (1, 7)}),
]


def one_by_one(each: Event, queries: dict[str, Query] = QUERIES) -> set[str]:
    return {id for id, query in queries.items() if query.matches(each)}


def index_of(queries: dict[str, Query]) -> QueryIndex:
    index = QueryIndex()
    index.add_many(queries.items())
    return index


@pytest.mark.parametrize("each", EVENTS)
def test_an_index_answers_as_each_query_alone(each: Event) -> None:
    assert set(index_of(QUERIES).match(each).wanted) == one_by_one(each)


def test_events_and_subjects_give_the_same_answers_also_when_many_queries_are_in_doubt() -> None:
    many = {f"{name} {n}": query for n in range(30) for name, query in QUERIES.items()}
    many |= {f"delay {n}": parse_query(f"/bus[delay != {n}]", "xpath") for n in range(80)}
    index = index_of(many)
    for each in EVENTS:
        wanted = one_by_one(each, many)
        assert set(index.match(each).wanted) == wanted
        assert set(index.match(Subject(each)).wanted) == wanted
        if each.payload is not None:
            assert set(index.match(xml_subject(each.payload)).wanted) == wanted


def test_many_at_a_time_are_matched_as_one_by_one() -> None:
    index = index_of(QUERIES)
    subjects = [xml_subject(each.payload) if each.payload else each for each in EVENTS]
    for events in ([], EVENTS[:1], EVENTS, subjects):
        assert [set(found.wanted) for found in index.match_many(events)] == [
            set(index.match(each).wanted) for each in events
        ]


def test_what_a_filter_says_entirely_is_not_tested() -> None:
    def fail(_: Subject) -> bool:
        raise AssertionError("tested")

    class Certain:
        def __init__(self, query: Query) -> None:
            self.query = query

        def __call__(self, subject: Subject) -> bool:
            return fail(subject)

        def certainty(self, routable: object) -> object:
            return self.query.certainty()

    index = QueryIndex()
    for name in ("line", "late", "near", "anywhere", "not"):
        query = QUERIES[name]
        index.add(name, Query(query.language, query.text, query.routable, Certain(query)))
    for n in range(100):  # so that all are in the arrays
        index.add(n, parse_query(f"/bus/line = 'x{n}'", "xpath"))
    assert EVENTS[0].payload is not None
    assert set(index.match(xml_subject(EVENTS[0].payload)).wanted) == {"line", "late", "near", "anywhere"}
    with pytest.raises(AssertionError, match="tested"):
        index.match(EVENTS[2])  # the space around 5 is not what the filter has


def test_equal_queries_are_one_and_go_with_their_last_subscription() -> None:
    index = QueryIndex()
    index.add_many([("a", QUERIES["line"]), ("b", parse_query(" /bus/line = '5' ", "xpath"))])
    index.add("c", QUERIES["line"])
    assert (len(index), index.query_count) == (3, 1)
    assert index.match(EVENTS[0]).wanted == ["a", "b", "c"]
    index.remove("b")
    assert index.match(EVENTS[0]).wanted == ["a", "c"]
    index.remove("a")
    index.remove("c")
    assert (len(index), index.query_count) == (0, 0)
    assert index.match(EVENTS[0]).wanted == []


def test_queries_may_come_and_go_between_events() -> None:
    index = QueryIndex()
    there: dict[str, Query] = {}
    for n in range(300):
        name = f"{n}"
        there[name] = parse_query(f"/bus[line = '{n % 7}' or delay > {n % 100}]", "xpath")
        index.add(name, there[name])
        if n % 3 == 0:
            gone = f"{n // 2}"
            if gone in there:
                index.remove(gone)
                del there[gone]
        each = EVENTS[n % 3]
        assert set(index.match(each).wanted) == one_by_one(each, there)


def test_an_id_is_known_once_and_a_call_that_fails_changes_nothing() -> None:
    index = index_of({"a": QUERIES["line"]})
    with pytest.raises(SubscriptionError, match="'a' already exists"):
        index.add_many([("b", QUERIES["late"]), ("a", QUERIES["late"])])
    with pytest.raises(SubscriptionError, match="there is no subscription 'b'"):
        index.remove("b")
    assert ("a" in index, "b" in index, len(index), index.query_count) == (True, False, 1, 1)


def test_a_test_that_fails_is_told_and_leaves_the_others_alone() -> None:
    bad = {"bad": Operator("bad", lambda left: 1 / 0)}
    index = index_of({"bad": parse_query("/bus[bad(line)]", "xpath", bad), "line": QUERIES["line"]})
    outcome = index.match(EVENTS[0])
    assert outcome.wanted == ["line"]
    [(id, error)] = outcome.failures
    assert (id, str(error)) == ("bad", "the operator 'bad' failed: ZeroDivisionError: division by zero")


def test_residues_are_told() -> None:
    outcome = index_of(QUERIES).match(EVENTS[0])
    assert outcome.residues == ["second"]


def test_events_are_matched_one_after_another() -> None:
    found = list(match_queries(QUERIES.items(), EVENTS))
    assert [each for each, _ in found] == EVENTS
    assert [set(outcome.wanted) for _, outcome in found] == [one_by_one(each) for each in EVENTS]


def test_a_range_needs_one_value_or_two_that_meet_its_ends() -> None:
    index = index_of(
        {
            "range": Query("filter", "x", parse("x > 1 AND x < 5")),
            "none": Query("filter", "y", parse("x > 5 AND x < 1")),
        }
    )
    assert index.match(event({"x": 3})).wanted == ["range"]
    assert index.match(event({"x": 7})).wanted == []
    assert set(index.match(event({"x": (0, 7)})).wanted) == {"range", "none"}
