"""XQL: what a query wants passes its filter, whatever the document and however the query is negated."""

from hypothesis import given
from hypothesis import strategies as st

from godwit.filters import Event
from godwit.languages import Subject, parse_query
from godwit.languages.xml_documents import xml_event, xml_subject
from godwit.languages.xql.evaluating import Evaluation, Place, is_true
from godwit.languages.xql.nodes import document_node_of
from godwit.languages.xql.parsing import parsed_query
from godwit.languages.xql.printing import printed_query
from godwit.languages.xql.routable import FilterTarget, bounds_of_document_query
from godwit.languages.xql.tree import Expression
from tests.property.strategies import many
from tests.property.xml_strategies import decided, documents, is_certain, queries, small_documents, small_queries


def holds(said: Expression, event: Event) -> bool:
    document = document_node_of(Subject(event))
    assert document is not None
    return is_true(Evaluation(document, {}).result(said, Place(document)))


@many(2)
@given(queries(), documents())
def test_what_is_wanted_passes_the_filter_and_what_passes_the_lower_bound_is_wanted(
    said: Expression, data: bytes
) -> None:
    event = xml_event(data)
    bounds, wanted = bounds_of_document_query(said, FilterTarget()), holds(said, event)
    assert bounds.upper.matches(event) or not wanted
    assert wanted or not bounds.lower.matches(event)


@many(2)
@given(st.one_of(small_queries(), queries(explicit=True)), st.lists(small_documents(), min_size=1, max_size=4))
def test_the_same_for_queries_that_filters_can_say_most_of(said: Expression, data: list[bytes]) -> None:
    bounds = bounds_of_document_query(said, FilterTarget())
    for event in map(xml_event, data):
        wanted = holds(said, event)
        assert bounds.upper.matches(event) or not wanted
        assert wanted or not bounds.lower.matches(event)


@given(queries())
def test_printed_and_parsed_again_is_the_same_query(said: Expression) -> None:
    text = printed_query(said)
    again = parsed_query(text)
    assert printed_query(again) == printed_query(parsed_query(printed_query(again)))
    query = parse_query(text, "xql")
    assert parse_query(query.text, "xql") == query


@many(3)
@given(
    st.one_of(small_queries(), queries()), st.lists(st.one_of(small_documents(), documents()), min_size=1, max_size=4)
)
def test_what_is_certain_is_wanted(said: Expression, data: list[bytes]) -> None:
    query = parse_query(printed_query(said), "xql")
    for subject in map(xml_subject, data):
        assert query.wants(subject) or not is_certain(query, subject)
        assert decided(query, subject) in (None, query.wants(subject))
