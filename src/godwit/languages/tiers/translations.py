"""The tiers as systems, and the translations between them. [motion §4, §5]"""

from collections.abc import Mapping

from godwit.filters import Event, Filter
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.systems import PubSubSystem, Translation
from godwit.languages.tiers.iel import Iel, iel_of
from godwit.languages.tiers.isl import Isl, isl_of, islmatch
from godwit.languages.tiers.spear import Sel, Ssl, sel_of, spearmatch, ssl_of
from godwit.languages.xml_documents import flattened_document
from godwit.languages.xml_trees import Tree
from godwit.languages.xql.evaluating import Evaluation, Place, is_true
from godwit.languages.xql.nodes import Document
from godwit.languages.xql.routable import FilterTarget, bounds_of_document_query
from godwit.languages.xql.tree import Expression

__all__ = ["to_filters", "to_middle", "to_spear", "xqlmatch"]


def xqlmatch(event: Tree, query: Expression, operators: Mapping[str, Operator] = NO_OPERATORS) -> bool:
    """Whether an XQL query finds something in a document, given as its root element."""
    document = Document(event)
    return is_true(Evaluation(document, operators).result(query, Place(document)))


def to_middle(operators: Mapping[str, Operator] = NO_OPERATORS) -> Translation[Tree, Expression, Iel, Isl]:
    """From (XML, XQL, xqlmatch) to (IEL, ISL, islmatch)."""
    top: PubSubSystem[Tree, Expression] = PubSubSystem(
        "XML, XQL", lambda event, query: xqlmatch(event, query, operators)
    )
    middle: PubSubSystem[Iel, Isl] = PubSubSystem("IEL, ISL", lambda event, query: islmatch(event, query, operators))
    return Translation(top, middle, iel_of, isl_of)


def to_spear(operators: Mapping[str, Operator] = NO_OPERATORS) -> Translation[Iel, Isl, Sel, Ssl]:
    """From (IEL, ISL, islmatch) to (SEL, SSL, spearmatch)."""
    bottom: PubSubSystem[Sel, Ssl] = PubSubSystem("SEL, SSL", spearmatch)
    return Translation(to_middle(operators).target, bottom, sel_of, ssl_of)


def to_filters(operators: Mapping[str, Operator] = NO_OPERATORS) -> Translation[Tree, Expression, Event, Filter]:
    """From (XML, XQL, xqlmatch) to our own events and filters, the second bottom tier."""
    bottom: PubSubSystem[Event, Filter] = PubSubSystem("events, filters", lambda event, filter: filter.matches(event))
    target = FilterTarget(operators=operators)
    return Translation(
        to_middle(operators).source,
        bottom,
        lambda root: Event(flattened_document(root)),
        lambda query: bounds_of_document_query(query, target).upper,
    )
