"""Our own filters as the target of XQL and XPath: bounds of a query over the attributes of `xml_documents.py`.

*Theory.* A literal of a filter speaks of the values at one path. Which values a text is held as, and that '' means
*look into the document*, is told there; here it is used:

- a comparison of numbers asks for the numbers: all readings are held;
- a comparison of texts asks for the texts, and for '';
- a filter may rely on a value (`somewhere`) only at a path where no '' is: then each value is the whole text of an
  element.

*Rules.*
1. Names are without namespaces. That an element has no other namespace than is meant is told by `guard`, a filter on
   the namespaces of the whole document; without it nothing is relied on.
2. XPath's engine rounds numbers in its own way: where `rounds`, numbers that are not whole are compared with some room.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, nextafter

from godwit.errors import FilterTooBig
from godwit.filters import (
    EVERYTHING,
    FALSE,
    TRUE,
    And,
    Filter,
    Missing,
    Only,
    Or,
    ValueSet,
    all_of,
    all_of_kind,
    any_of,
    at_least,
    at_most,
    between,
    complement,
    ends_with,
    holds_text,
    less_than,
    missing,
    more_than,
    one_of,
    only,
    present,
    some,
    starts_with,
)
from godwit.filters.values import TEXT_LENGTH_MAX, Kind
from godwit.languages.bounds import Bounds, opposite
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.xml_names import NAMESPACES, PREFIXES
from godwit.languages.xml_values import NUMBER_CHARACTERS, values_of_text
from godwit.languages.xql.tree import Attribute, Element, Expression
from godwit.languages.xql.weakening import Claim, Weakening

__all__ = ["NO_PREFIXES", "FilterTarget", "bounds_of_document_query"]

ROOM_STEPS = 8  # doubles on each side of a number that XPath's engine may have read
NO_PREFIXES = missing(PREFIXES)
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
LOOK = one_of([""])
NOT_LOOK = complement(LOOK)


def bounds_of_document_query(said: Expression, target: "FilterTarget") -> Bounds:
    """The bounds of a query that is asked of a document."""
    try:
        claim = Weakening(target).of_query(said)
    except FilterTooBig:
        return Bounds(present(NAMESPACES), FALSE)
    upper = claim.upper
    if target.namespace and claim.needs_node:
        upper = all_of(upper, some(NAMESPACES, one_of([target.namespace])))
    return Bounds(present(NAMESPACES) if upper == TRUE else upper, claim.somewhere)


@dataclass(frozen=True, slots=True)
class FilterTarget:
    """Filters on the attributes of documents."""

    guard: Filter = NO_PREFIXES
    operators: Mapping[str, Operator] = field(default_factory=lambda: NO_OPERATORS)
    rounds: bool = False
    namespace: str = ""  # of all elements that the query names, if it is one
    true: Filter = TRUE
    false: Filter = FALSE

    def all_of(self, parts: list[Filter]) -> Filter:
        return FALSE if FALSE in parts else all_of(*(part for part in parts if part != TRUE))

    def any_of(self, parts: list[Filter]) -> Filter:
        return TRUE if TRUE in parts else any_of(*(part for part in parts if part != FALSE))

    def negated(self, formula: Filter) -> Filter:
        return _opposite(formula)

    def element(self, parent: str, name: Element) -> tuple[str | None, bool]:
        if name.name == "*":
            return None, False
        return f"{parent}/{name.name}" if parent else name.name, name.prefix == ""

    def attribute(self, parent: str, name: Attribute) -> tuple[str | None, bool]:
        if name.name == "*" or name.prefix == "*" or not parent:
            return None, False
        return f"{parent}/@{name.prefix + ':' if name.prefix else ''}{name.name}", True

    def defined(self, path: str) -> tuple[Filter, Filter]:
        return present(path), self.all_of([present(path), self.guard])

    def compared(self, path: str, operator: str, value: str | float, holds: bool) -> Claim[Filter]:
        if operator in self.operators:
            return self._by_operator(path, operator, value, holds)
        if not isinstance(value, str):
            return self._claim(path, self._numbers(operator, value), holds)
        if operator in ("eq", "ne"):
            return self._equal_texts(path, value, holds == (operator == "eq"))
        return self._claim(path, _texts(operator, value), holds)

    # ------------------------------------------------------------ how values are compared

    def _claim(self, path: str, sets: "_Sets", holds: bool) -> Claim[Filter]:
        """The claim of a comparison, or of its negation."""
        upper, surely, other = (
            (sets.may, sets.surely, sets.may_not) if holds else (sets.may_not, sets.surely_not, sets.may)
        )
        return Claim(
            self._some(path, upper), lambda: self._rely(path, surely), lambda: _opposite(self._some(path, other)), True
        )

    def _some(self, path: str, sets: list[ValueSet]) -> Filter:
        return some(path, sets[0]) if len(sets) == 1 else self.any_of([some(path, values) for values in sets])

    def _rely(self, path: str, sets: list[ValueSet]) -> Filter:
        return self.all_of([self._some(path, sets), only(path, NOT_LOOK), self.guard])

    def _numbers(self, operator: str, value: float) -> "_Sets":
        may, surely = self._number_sets(operator, value)
        may_not = complement(surely[0]) if len(surely) == 1 else EVERYTHING
        return _Sets(may, surely, [may_not], self._number_sets(OPPOSITE[operator], value)[1])

    def _number_sets(self, operator: str, value: float) -> tuple[list[ValueSet], list[ValueSet]]:
        """The numbers that may compare so, and those that surely do. (rule 2)"""
        low = high = value
        if self.rounds and isinstance(value, float):
            for _ in range(ROOM_STEPS):
                low, high = nextafter(low, -inf), nextafter(high, inf)
        match operator:
            case "eq":
                return [between(low, high)], [one_of([value])] if low == high else []
            case "ne":
                may = [less_than(high), more_than(low)] if low == high else [all_of_kind(Kind.NUMBER)]
                return may, [less_than(low), more_than(high)]
            case "lt":
                return [less_than(high)], [less_than(low)]
            case "le":
                return [at_most(high)], [at_most(low)]
            case "gt":
                return [more_than(low)], [more_than(high)]
            case _:
                return [at_least(low)], [at_least(high)]

    def _equal_texts(self, path: str, text: str, holds: bool) -> Claim[Filter]:
        held = values_of_text(text) if len(text) <= TEXT_LENGTH_MAX else ()
        if not held:
            return self._claim(path, _Sets([LOOK], [], [EVERYTHING], []), holds)
        is_canonical = len(held) == 1 and not isinstance(held[0], str)
        value = held[0] if is_canonical else text
        if not holds:
            may_not = EVERYTHING if text == "" else complement(one_of([value]))
            return Claim(
                some(path, may_not),
                lambda: self._rely(path, [complement(one_of([*held, ""]))]),
                lambda: _opposite(some(path, one_of([value, ""]))),
                True,
            )

        def somewhere() -> Filter:
            if is_canonical:  # the number alone, so no text that is written otherwise
                return self.all_of([only(path, one_of([value])), self.guard])
            return FALSE if text == "" else self._rely(path, [one_of([value])])

        def everywhere() -> Filter:
            return FALSE if text == "" else _opposite(some(path, complement(one_of([value]))))

        return Claim(some(path, one_of([value, ""])), somewhere, everywhere, True)

    def _by_operator(self, path: str, name: str, value: str | float, holds: bool) -> Claim[Filter]:
        routable = self.operators[name].routable
        if routable is None:
            return self._claim(path, UNTOLD, holds)
        upper = self.any_of([routable(path, value), some(path, LOOK)])
        if holds:
            return Claim(upper, lambda: FALSE, lambda: FALSE, True)
        return Claim(present(path), lambda: FALSE, lambda: _opposite(upper), True)


def _opposite(filter: Filter) -> Filter:
    """As `opposite`, and what it makes of what it has made is not larger: `missing or only` becomes `some` again."""
    if isinstance(filter, And):
        return _joined([_opposite(part) for part in filter.parts], any_of, TRUE, FALSE)
    if not isinstance(filter, Or):
        return opposite(filter)
    only_of = {part.attribute for part in filter.parts if isinstance(part, Only)}
    missing_of = {part.attribute for part in filter.parts if isinstance(part, Missing)}
    parts: list[Filter] = []
    for part in filter.parts:
        if isinstance(part, Only) and part.attribute in missing_of:
            parts.append(some(part.attribute, complement(part.values)))
        elif not (isinstance(part, Missing) and part.attribute in only_of):
            parts.append(_opposite(part))
    return _joined(parts, all_of, FALSE, TRUE)


def _joined(parts: list[Filter], join: Callable[..., Filter], all_decided: Filter, neutral: Filter) -> Filter:
    return all_decided if all_decided in parts else join(*(part for part in parts if part != neutral))


@dataclass(frozen=True, slots=True)
class _Sets:
    """The values that may meet a comparison, that surely do, that may fail it, that surely do."""

    may: list[ValueSet]
    surely: list[ValueSet]
    may_not: list[ValueSet]
    surely_not: list[ValueSet]


UNTOLD = _Sets([EVERYTHING], [], [EVERYTHING], [])


def _texts(operator: str, text: str) -> _Sets:
    """The sets of a comparison of texts other than equality."""
    if operator not in TEXT_SETS or len(text) > TEXT_LENGTH_MAX:  # without regard to case, or longer than what is held
        return UNTOLD
    inside, outside = TEXT_SETS[operator](text)
    may = [inside, LOOK]
    if operator in OPPOSITE or set(text) <= NUMBER_CHARACTERS:
        may.append(all_of_kind(Kind.NUMBER))
    return _Sets(may, [inside], [EVERYTHING], [outside] if outside is not None else [])


def _order(inside: Callable[[str], ValueSet], outside: Callable[[str], ValueSet]) -> "_TextSets":
    return lambda text: (inside(text), outside(text))


_TextSets = Callable[[str], tuple[ValueSet, ValueSet | None]]
TEXT_SETS: dict[str, _TextSets] = {
    "lt": _order(less_than, at_least),
    "le": _order(at_most, more_than),
    "gt": _order(more_than, at_most),
    "ge": _order(at_least, less_than),
    "contains": lambda text: (holds_text(text), None),
    "startsw": lambda text: (starts_with(text), None),
    "endsw": lambda text: (ends_with(text), None),
}
