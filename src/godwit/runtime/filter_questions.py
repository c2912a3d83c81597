"""The meaning of a filter, and the relation of two filters: for people who write filters.

*Theory.* A text in any language becomes a routable filter and perhaps an exact test (`languages/query.py`). The
routable filter matches at least the wanted events; a part of them is *certain* to be wanted (`Query.certainty`). With
the certain part of one query and the routable filter of the other, "covers" and "disjoint" can be proved; otherwise the
answer says that it is unknown, and why.

*Rules.*
1. A syntax error is reported with its line, column and what is expected. It is an answer, not an exception.
2. "covers" and "disjoint" are reported only if proved; "intersects" only with an example event.
3. A text that is not in Godwit's filter language is parsed by a thread, and every question has a limit of steps
   (`EFFORT_MAX`), so that none keeps a broker busy.
"""

from collections.abc import Mapping
from typing import Any

from godwit.errors import FilterError, FilterSyntaxError, GodwitError
from godwit.filters.algebra import covers, intersects, normal_form, satisfiable
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.language import to_text
from godwit.filters.merging import merged
from godwit.filters.reasons import example
from godwit.filters.references import is_open, references_of
from godwit.languages.query import LANGUAGES, NATIVE, Query
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.wire import JSON

__all__ = ["Relation", "parsed", "relation_of", "told_filter", "told_pair"]

PARTY = "filter questions"  # whose texts wait for each other in the thread that parses
EFFORT_MAX = 4_000  # steps of one question about two filters
EXAMPLE_LITERALS_MAX = 16  # of two filters for which an event is looked for
CASES_TRIED_MAX = 4
EXCESS_MAX = 0.5  # of a merge that is shown
TEXT_MAX = 4_000

Relation = str
"""equal, covers, is covered by, intersects, may intersect, disjoint: of the first filter to the second."""


async def parsed(tests: EdgeTests, text: str, language: str = NATIVE) -> Query:
    """Parse a query. `FilterError` if it is invalid. (rule 3)"""
    if not tests.is_quick(text, language):
        await tests.prepare(text, language, PARTY)
    return tests.parse(text, language)


async def told_pair(tests: EdgeTests, asked: Mapping[str, str]) -> dict[str, Any]:
    """Describe `filter` in its `language`, `other` if there is one, and how they relate."""
    answer: dict[str, Any] = {"languages": LANGUAGES.names(), "filter": None, "other": None}
    found: list[Query] = []
    for name, language in (("filter", "language"), ("other", "other_language")):
        text = asked.get(name) or ""
        if not text.strip():
            continue
        try:
            query = await parsed(tests, text, asked.get(language) or NATIVE)
        except GodwitError as error:
            answer[name] = {"problem": _problem(error)}
        else:
            answer[name] = told_filter(query)
            found.append(query)
    answer["relation"] = _told_relation(*found) if len(found) == 2 else None
    return answer


def told_filter(query: Query) -> dict[str, Any]:
    """The printed form of a query, its routable filter, and whether it has an exact test."""
    certainty = query.certainty()
    return {
        "problem": None,
        "text": _shown(query.text),
        "language": query.language,
        "routable": _shown(to_text(query.routable)),
        "has_test": query.test is not None,
        "is_sometimes_certain": query.test is not None and certainty is not None,
        "asks_context": sorted({*map(str, query.references), *map(str, references_of(query.routable))}),
        "is_impossible": query.is_impossible,
        "literals": query.routable.size,
    }


def _problem(error: GodwitError) -> dict[str, Any]:
    """A syntax error and its position. (rule 1)"""
    if isinstance(error, FilterSyntaxError):
        expected = list(error.expected)
        return {"message": error.message, "line": error.line, "column": error.column, "expected": expected}
    return {"message": str(error), "line": None, "column": None, "expected": []}


def _shown(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


# ---------------------------------------------------------------- two filters


def certain_part(query: Query) -> Filter | None:
    """A filter whose matches are all certainly wanted; None if none is known."""
    certainty = query.certainty()
    if certainty is None or certainty.assumptions:
        return None
    return query.routable if certainty.filter is None else certainty.filter


def relation_of(f: Query, g: Query) -> Relation:
    """How `f` relates to `g`. (rule 2)"""
    sure_f, sure_g = certain_part(f), certain_part(g)
    is_wider = sure_f is not None and covers(sure_f, g.routable, Effort(EFFORT_MAX))
    is_narrower = sure_g is not None and covers(sure_g, f.routable, Effort(EFFORT_MAX))
    if is_wider or is_narrower:
        return "equal" if is_wider and is_narrower else "covers" if is_wider else "is covered by"
    return "may intersect" if intersects(f.routable, g.routable, Effort(EFFORT_MAX)) else "disjoint"


def _told_relation(f: Query, g: Query) -> dict[str, Any]:
    relation = relation_of(f, g)
    common = only_f = only_g = None
    if relation != "disjoint" and f.routable.size + g.routable.size <= EXAMPLE_LITERALS_MAX:
        common = _example(f, g)
        only_f = None if relation in ("equal", "is covered by") else _example(f, None, g)
        only_g = None if relation in ("equal", "covers") else _example(g, None, f)
        if relation == "may intersect" and common is not None:
            relation = "intersects"
    return {
        "relation": relation,
        "both": _plain(common),
        "only_filter": _plain(only_f),
        "only_other": _plain(only_g),
        "merged": _told_merge(f.routable, g.routable),
        "is_about_routable": f.test is not None or g.test is not None,
    }


def _told_merge(f: Filter, g: Filter) -> dict[str, Any] | None:
    """The merge of both, which a broker could forward."""
    try:
        found = merged(f, g, excess_max=EXCESS_MAX, effort=Effort(EFFORT_MAX))
    except FilterError:  # it would be too large
        return None
    if found is None:
        return None
    return {"text": _shown(to_text(found.filter)), "is_exact": found.perfect, "excess": found.excess}


def _example(f: Query, g: Query | None, without: Query | None = None) -> Attributes | None:
    """Attributes that certainly match `f` and `g`, and not `without`; None if none were found."""
    wanted = [certain_part(each) for each in (f, g) if each is not None]
    if None in wanted or any(is_open(each) for each in wanted if each is not None):
        return None
    unwanted = None if without is None else without.routable
    if unwanted is not None and is_open(unwanted):
        return None

    def is_wanted(held: Attributes) -> bool:
        return all(each.holds(held) for each in wanted if each is not None) and not (
            unwanted is not None and unwanted.holds(held)
        )

    forms = [normal_form(each).conjunctions for each in wanted if each is not None]
    cases = [a + b for a in forms[0] for b in (forms[1] if len(forms) > 1 else ((),))]
    others = () if unwanted is None else tuple(x for one in normal_form(unwanted).conjunctions for x in one)
    for case in [each for each in cases if satisfiable(each)][:CASES_TRIED_MAX]:
        found = example(case, others, is_wanted)
        if found is not None:
            return found
    return None


def _plain(attributes: Attributes | None) -> dict[str, Any] | None:
    return None if attributes is None else JSON.plain(attributes)
