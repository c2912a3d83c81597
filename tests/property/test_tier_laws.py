"""The tiers of [motion §4, §5]: no translation loses an event, and none makes what it is given much larger."""

from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.languages import chained
from godwit.languages.tiers import (
    iel_of,
    isl_of,
    isl_text,
    sel_of,
    spearmatch,
    ssl_filter,
    ssl_of,
    ssl_text,
    to_filters,
    to_middle,
    to_spear,
)
from godwit.languages.tiers.spear import sel_event
from godwit.languages.xml_documents import parsed_document
from godwit.languages.xql.printing import printed_query
from godwit.languages.xql.tree import Expression
from godwit.matching import BddMatcher
from tests.property.strategies import many
from tests.property.xml_strategies import documents, queries, small_documents, small_queries

GROWTH_MAX = 12
MIDDLE, SPEAR, FILTERS = to_middle(), to_spear(), to_filters()
TIERS = chained(MIDDLE, SPEAR)


@many(2)
@given(
    st.one_of(st.tuples(queries(), documents()), st.tuples(small_queries(), small_documents())),
)
def test_every_translation_is_approximative(both: tuple[Expression, bytes]) -> None:
    said, root = both[0], parsed_document(both[1])
    assert MIDDLE.is_approximative_for(root, said)
    assert SPEAR.is_approximative_for(MIDDLE.of_event(root), MIDDLE.of_query(said))
    assert TIERS.is_approximative_for(root, said)
    assert FILTERS.is_approximative_for(root, said)


@given(st.one_of(queries(), queries(explicit=True)))
def test_queries_grow_by_a_constant_factor_at_most(said: Expression) -> None:
    size = len(printed_query(said)) + 10
    isl = isl_of(said)
    assert len(isl_text(isl)) <= GROWTH_MAX * size
    assert len(ssl_text(ssl_of(isl))) <= GROWTH_MAX * size


@settings(max_examples=50)
@given(st.lists(queries(explicit=True), min_size=1, max_size=8), st.lists(documents(), min_size=1, max_size=4))
def test_the_bdd_matcher_answers_as_spearmatch_does(said: list[Expression], data: list[bytes]) -> None:
    matcher = BddMatcher()
    subscriptions = [ssl_of(isl_of(each)) for each in said]
    matcher.add_many((number, ssl_filter(query)) for number, query in enumerate(subscriptions))
    for each in data:
        sel = sel_of(iel_of(parsed_document(each)))
        wanted = [number for number, query in enumerate(subscriptions) if spearmatch(sel, query)]
        assert matcher.match(sel_event(sel)) == wanted
