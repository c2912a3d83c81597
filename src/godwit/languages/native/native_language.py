"""Our own language as one of the languages: docs/reference/filter_language.md.

*Rules.*
1. A text that is a filter gives that filter, and no test. It is read in the time that a filter takes.
2. What filters decide alone is not tested again: the test asks only for what is left.
"""

from collections.abc import Mapping

from godwit.errors import FilterError, FilterSyntaxError, FilterTooBig
from godwit.filters import FALSE, TRUE, Filter, ValueSet, all_of, any_of, is_never, parse, to_text
from godwit.filters.language.parsing import parse_if_filter
from godwit.filters.references import OpenSet, replaced
from godwit.languages.bounds import all_hold
from godwit.languages.native.exact_bounds import bounds_of
from godwit.languages.native.exact_parser import TEXT_BYTES_MAX, parse_condition
from godwit.languages.native.exact_printer import condition_text
from godwit.languages.native.exact_test import ExactTest, references_in
from godwit.languages.native.expressions import (
    All,
    Any,
    Call,
    Condition,
    Plain,
    predicates_of,
    subterms,
    terms_of,
)
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import LANGUAGES, NATIVE, Query

__all__ = ["NativeLanguage"]


class NativeLanguage:
    """Filters, and conditions that go beyond them."""

    name = NATIVE

    def parse(self, text: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
        """The query that a text says."""
        filter = parse_if_filter(text)
        if filter is not None:
            return Query(NATIVE, to_text(filter), filter)
        if len(text.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
            raise _too_long(text)
        return _query(parse_condition(text, {name.lower(): each for name, each in operators.items()}), operators)


def _too_long(text: str) -> FilterError:
    try:
        parse(text)
    except FilterSyntaxError as error:
        return FilterTooBig(f"a text of more than {TEXT_BYTES_MAX} bytes has no exact part: {error}")
    raise AssertionError("a filter has been read")


def _query(condition: Condition, operators: Mapping[str, Operator]) -> Query:
    filter = _as_filter(condition)
    if filter is not None:
        return Query(NATIVE, to_text(filter), filter)
    known = {each.name: each for each in operators.values()}
    conjuncts = condition.parts if isinstance(condition, All) else (condition,)
    each_bounds = [bounds_of(each, known) for each in conjuncts]
    bounds = all_hold(each_bounds) if len(each_bounds) > 1 else each_bounds[0]
    text = condition_text(condition)
    if bounds.upper == FALSE or is_never(bounds.upper):
        return Query(NATIVE, text, FALSE)
    if bounds.is_exact:
        return Query(NATIVE, text, bounds.upper)
    decided = [each.is_exact and bounds.upper != TRUE for each in each_bounds]  # TRUE: the filter was too big
    left = tuple(each for each, is_decided in zip(conjuncts, decided, strict=True) if not is_decided)  # rule 2
    for each in left:
        _check_places(each)
    references = tuple(dict.fromkeys(reference for each in left for reference in references_in(each)))
    used = tuple(known[name] for name in sorted({name for each in left for name in _operators_in(each)}))
    return Query(NATIVE, text, bounds.upper, ExactTest(left, used), references)


def _as_filter(condition: Condition) -> Filter | None:
    """A condition without an exact part as a filter: its constants may have been calculated."""
    match condition:
        case Plain(filter=filter):
            return filter
        case All(parts=parts) | Any(parts=parts):
            filters = [_as_filter(part) for part in parts]
            if None not in filters:
                return (all_of if isinstance(condition, All) else any_of)(*filters)  # type: ignore[arg-type]
    return None


def _operators_in(condition: Condition) -> set[str]:
    terms = (each for predicate in predicates_of(condition) for term in terms_of(predicate) for each in subterms(term))
    return {each.name for each in terms if isinstance(each, Call) and each.is_operator}


def _check_places(condition: Condition) -> None:
    """Refuse what a test cannot find out: it has no movement graph."""
    match condition:
        case All(parts=parts) | Any(parts=parts):
            for part in parts:
                _check_places(part)
        case Plain(filter=filter):
            replaced(filter, _refuse_vicinity)


def _refuse_vicinity(values: OpenSet) -> list[ValueSet]:
    if values.builder == "vicinity" and values.operands[1]:
        place, steps = values.operands
        raise FilterError(
            f"{place}({steps}) depends on a movement graph, which only brokers have: join it to the exact part by AND, "
            "outside of any OR"
        )
    return [values]


LANGUAGES.register(NATIVE, NativeLanguage())
