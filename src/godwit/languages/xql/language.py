"""XQL as one of the languages: the filter to route by, and the test over the document."""

from collections.abc import Mapping
from dataclasses import dataclass

from godwit.filters import Filter
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import LANGUAGES, AssumedBounds, Certainty, Query, Subject
from godwit.languages.xql.parsing import parsed_query
from godwit.languages.xql.printing import printed_query
from godwit.languages.xql.routable import (
    FilterTarget,
    assumed_bounds_of_document_query,
    certainty_of_document_query,
    routable_filter,
)
from godwit.languages.xql.tree import Expression

__all__ = ["XQL", "XqlLanguage"]

XQL = "xql"


@dataclass(frozen=True, slots=True)
class XqlTest:
    """Whether the query finds something in the event's document, asked from the document node."""

    said: Expression
    operators: Mapping[str, Operator]

    def __call__(self, subject: Subject) -> bool:
        from godwit.languages.xql.evaluating import Evaluation, Place, is_true
        from godwit.languages.xql.nodes import document_node_of

        document = document_node_of(subject)
        if document is None:
            return False
        return is_true(Evaluation(document, self.operators, subject.spend).result(self.said, Place(document)))

    def certainty(self, routable: Filter) -> Certainty | None:
        """When the query need not be evaluated."""
        return certainty_of_document_query(self.said, FilterTarget(operators=self.operators), routable)

    def assumed_bounds(self) -> AssumedBounds | None:
        """Filters that often decide instead of evaluation."""
        return assumed_bounds_of_document_query(self.said, FilterTarget(operators=self.operators))


class XqlLanguage:
    """The language of docs/reference/xql.md."""

    name = XQL

    def parse(self, text: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
        """The query that a text says."""
        said = parsed_query(text, operators)
        routable = routable_filter(said, FilterTarget(operators=operators))
        return Query(XQL, printed_query(said), routable, XqlTest(said, operators))


LANGUAGES.register(XQL, XqlLanguage())
