"""XPath: what a query wants passes its filter, whatever the document and however the query is negated."""

from hypothesis import given
from hypothesis import strategies as st

from godwit.languages import Subject, parse_query
from godwit.languages.xml_documents import xml_event, xml_subject
from godwit.languages.xpath.language import filter_bounds
from tests.property.strategies import many
from tests.property.xml_strategies import decided, documents, is_certain, small_documents, xpath_queries


@many(2)
@given(xpath_queries(), st.lists(st.one_of(small_documents(), documents()), min_size=1, max_size=4))
def test_what_is_wanted_passes_the_filter_and_what_passes_the_lower_bound_is_wanted(
    text: str, data: list[bytes]
) -> None:
    query, bounds = parse_query(text, "xpath"), filter_bounds(text)
    assert query.routable == bounds.upper
    for event in map(xml_event, data):
        wanted = query.wants(Subject(event))
        assert bounds.upper.matches(event) or not wanted
        assert wanted or not bounds.lower.matches(event)


@given(xpath_queries())
def test_printed_and_parsed_again_is_the_same_query(text: str) -> None:
    query = parse_query(text, "xpath")
    assert parse_query(query.text, "xpath") == query


@many(3)
@given(xpath_queries(), st.lists(st.one_of(small_documents(), documents()), min_size=1, max_size=4))
def test_what_is_certain_is_wanted(text: str, data: list[bytes]) -> None:
    query = parse_query(text, "xpath")
    for subject in map(xml_subject, data):
        assert query.wants(subject) or not is_certain(query, subject)
        assert decided(query, subject) in (None, query.wants(subject))
