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

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nextafter

from godwit.errors import BadValue, FilterTooBig
from godwit.filters import (
    EVERYTHING,
    FALSE,
    TRUE,
    Filter,
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
from godwit.filters.values import Kind
from godwit.languages.bounds import Bounds, opposite
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.xml_names import NAMESPACES, PREFIXES
from godwit.languages.xml_values import NUMBER_CHARACTERS, canonical, number_of, values_of_text
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
        return opposite(formula)

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

    def compared(self, path: str, operator: str, value: str | float) -> tuple[Claim[Filter], Claim[Filter]]:
        if operator in self.operators:
            return self._by_operator(path, operator, value)
        if isinstance(value, str):
            return self._texts(path, operator, value)
        return self._numbers(path, operator, value)

    # ------------------------------------------------------------ how values are compared

    def _pair(
        self,
        path: str,
        holds: list[ValueSet],
        surely: list[ValueSet],
        fails: list[ValueSet],
        surely_not: list[ValueSet],
    ) -> tuple[Claim[Filter], Claim[Filter]]:
        """The claims of a comparison: what may meet it, what surely does, what may fail it, what surely does."""
        upper, fails_upper = self._some(path, holds), self._some(path, fails)
        return (
            Claim(upper, self._rely(path, surely), opposite(fails_upper), True),
            Claim(fails_upper, self._rely(path, surely_not), opposite(upper), True),
        )

    def _some(self, path: str, sets: list[ValueSet]) -> Filter:
        return self.any_of([some(path, values) for values in sets])

    def _rely(self, path: str, sets: list[ValueSet]) -> Filter:
        return self.all_of([self._some(path, sets), only(path, NOT_LOOK), self.guard])

    def _numbers(self, path: str, operator: str, value: float) -> tuple[Claim[Filter], Claim[Filter]]:
        holds, surely = self._number_sets(operator, value)
        surely_not = self._number_sets(OPPOSITE[operator], value)[1]
        may_fail = complement(surely[0]) if len(surely) == 1 else EVERYTHING
        return self._pair(path, holds, surely, [may_fail], surely_not)

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

    def _texts(self, path: str, operator: str, text: str) -> tuple[Claim[Filter], Claim[Filter]]:
        if operator == "eq":
            return self._equal_texts(path, text)
        if operator == "ne":
            holds, fails = self._equal_texts(path, text)
            return fails, holds
        try:
            sets = TEXT_SETS[operator](text) if operator in TEXT_SETS else None
        except BadValue:
            sets = None
        if sets is None:  # without regard to case, or longer than any text that is held
            return self._pair(path, [EVERYTHING], [], [EVERYTHING], [])
        inside, outside = sets
        may = [inside, LOOK]
        if operator in ("lt", "le", "gt", "ge") or set(text) <= NUMBER_CHARACTERS:
            may.append(all_of_kind(Kind.NUMBER))
        return self._pair(path, may, [inside], [EVERYTHING], [outside] if outside is not None else [])

    def _equal_texts(self, path: str, text: str) -> tuple[Claim[Filter], Claim[Filter]]:
        try:
            held = one_of(values_of_text(text))
            number = number_of(text)
            is_canonical = number is not None and canonical(number) == text
            exactly = held if is_canonical or number is None else one_of([text])
        except BadValue:
            return self._pair(path, [LOOK], [], [EVERYTHING], [])
        may: list[ValueSet] = [one_of([*values_of_text(text)[:1], ""] if is_canonical else [text, ""])]
        holds, fails = self._pair(path, may, [] if is_canonical or text == "" else [exactly], [complement(exactly)], [])
        other = one_of([*values_of_text(text), ""])
        fails = Claim(fails.upper, self._rely(path, [complement(other)]), fails.everywhere, True)
        if is_canonical:  # the number alone, so no text that is written otherwise
            holds = Claim(holds.upper, self.all_of([only(path, exactly), self.guard]), holds.everywhere, True)
        if text == "":
            holds = Claim(holds.upper, FALSE, FALSE, True)
            fails = Claim(present(path), fails.somewhere, fails.everywhere, True)
        return holds, fails

    def _by_operator(self, path: str, name: str, value: str | float) -> tuple[Claim[Filter], Claim[Filter]]:
        holds, fails = self._pair(path, [EVERYTHING], [], [EVERYTHING], [])
        routable = self.operators[name].routable
        if routable is None:
            return holds, fails
        upper = self.any_of([routable(path, value), some(path, LOOK)])
        return Claim(upper, FALSE, FALSE, True), Claim(fails.upper, FALSE, opposite(upper), True)


def _order_sets(operator: str, text: str) -> tuple[ValueSet, ValueSet | None]:
    build = {
        "lt": (less_than, at_least),
        "le": (at_most, more_than),
        "gt": (more_than, at_most),
        "ge": (at_least, less_than),
    }
    inside, outside = build[operator]
    return inside(text), outside(text)


TEXT_SETS = {
    "lt": lambda text: _order_sets("lt", text),
    "le": lambda text: _order_sets("le", text),
    "gt": lambda text: _order_sets("gt", text),
    "ge": lambda text: _order_sets("ge", text),
    "contains": lambda text: (holds_text(text), None),
    "startsw": lambda text: (starts_with(text), None),
    "endsw": lambda text: (ends_with(text), None),
}
