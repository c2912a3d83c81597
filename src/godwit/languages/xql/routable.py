"""Our own filters as the target of XQL and XPath: bounds of a query over the attributes of `xml_documents.py`.

*Theory.* A literal of a filter speaks of the values at one path. Which values a text is held as, and that '' and ' '
mean *look into the document*, is told there; here it is used:

- a comparison of numbers asks for the numbers: all readings are held;
- a comparison of texts asks for the texts, and for '' and ' ';
- a search for a part asks for texts that have it, and for ' ', not for '': a part whose words have one space between
  them is in a text only if it is in what is held of it, which has one space wherever the text has any. Without white
  space in the part it is also the other way round;
- if the part may be one of a number, it asks for numbers, too, unless all numbers of that name are held as texts, too;
- a filter may rely on a value (`somewhere`) only at a path where no '' or ' ' is: then each value is the whole text of
  an element.

All that of filters that must hold for any document. Where the document is at hand, more is known of it (`Structure`):
`certainty_of_document_query` makes the filter of a query under assumptions that it lists. Most queries are said
entirely by a filter then.

*Rules.*
1. Names are without namespaces. That an element has no other namespace than is meant is told by `guard`, a filter on
   the namespaces of the whole document; without it nothing is relied on.
2. XPath's engine rounds numbers in its own way. Plain ones (`is_plain_number`) it orders as we do: it reads equal ones
   alike, and two that differ do so by more than 40 doubles. Others are held with numbers on both sides
   (`xml_texts.py`), so that comparisons by size find one that meets them. For equality there is some room.
3. Where assumptions are made, every use that is made of one is noted: `assumed` is the set of them.
4. A number that is not plain lies between those that are held for it, if it is read at all. So where all numbers at a
   path are on one side of another, all readers find it on that side. A cautious target asks for that, and assumes only
   that numbers are read as such, which `+5` is not by XPath.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, nextafter
from sys import intern

from godwit.errors import FilterTooBig
from godwit.filters import (
    EVERYTHING,
    FALSE,
    NOTHING,
    TRUE,
    And,
    Filter,
    Missing,
    Only,
    Or,
    Some,
    Value,
    ValueSet,
    all_of,
    all_of_kind,
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
from godwit.filters.sets import OneOf
from godwit.filters.values import TEXT_LENGTH_MAX, Kind
from godwit.languages.bounds import UNKNOWN, Bounds, either, every, opposite
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import AssumedBounds, Certainty
from godwit.languages.xml_flattening import Assumption
from godwit.languages.xml_names import ANYWHERE, NAMESPACES, NUMERALS, PREFIXES, REPEATED
from godwit.languages.xml_texts import LOOK, UNHELD
from godwit.languages.xml_values import PART_OF_NUMBER, WHITE, normalised, values_of_text
from godwit.languages.xql.tree import Attribute, Element, Expression
from godwit.languages.xql.weakening import Claim, Weakening

__all__ = [
    "NO_PREFIXES",
    "FilterTarget",
    "assumed_bounds_of_document_query",
    "bounds_of_document_query",
    "certainty_of_document_query",
    "routable_filter",
]

ROOM_STEPS = 8  # doubles on each side of a number that XPath's engine may have read
NO_PREFIXES = missing(PREFIXES)
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
NUMBER_SETS = {"lt": less_than, "le": at_most, "gt": more_than, "ge": at_least}
LOOKS = (LOOK, UNHELD)
LOOK_SET, UNHELD_SET = one_of(LOOKS), one_of([UNHELD])
NOT_LOOK = complement(LOOK_SET)
HELD_WHERE: dict[str, tuple[Value, ...]] = {"held": (UNHELD,), "plain": LOOKS}
"""The values that are absent where an assumption is true, the fewest first."""


def routable_filter(said: Expression, target: "FilterTarget") -> Filter:
    """The filter to route a query by that is asked of a document."""
    return bounds_of_document_query(said, target, is_lower_wanted=False).upper


def bounds_of_document_query(said: Expression, target: "FilterTarget", is_lower_wanted: bool = True) -> Bounds:
    """The bounds of a query that is asked of a document."""
    try:
        claim = Weakening(target).of_query(said)
    except FilterTooBig:
        return Bounds(present(NAMESPACES), FALSE)
    upper = claim.upper
    if target.namespace and claim.needs_node:
        upper = all_of(upper, some(NAMESPACES, one_of([target.namespace])))
    lower = claim.somewhere if is_lower_wanted else FALSE
    return Bounds(present(NAMESPACES) if upper == TRUE else upper, lower)


def certainty_of_document_query(said: Expression, target: "FilterTarget", routable: Filter) -> Certainty | None:
    """What is known to be wanted of documents that meet some assumptions; None when nothing is."""
    assumed: set[Assumption] = set()
    try:
        lower = Weakening(replace(target, guard=TRUE, assumed=assumed)).of_query(said).somewhere
    except FilterTooBig:
        return None
    if lower == FALSE:
        return None
    lower = _without_parents(lower)
    absent = {path: HELD_WHERE[kind] for kind, path, _ in sorted(assumed) if kind in HELD_WHERE}
    return Certainty(None if _implies(routable, lower, absent) else lower, frozenset(assumed))


def assumed_bounds_of_document_query(said: Expression, target: "FilterTarget") -> AssumedBounds | None:
    """Bounds of a query for documents that meet some assumptions, not that of how numbers are read; None: no bounds."""
    assumed: set[Assumption] = set()
    try:
        claim = Weakening(replace(target, guard=TRUE, assumed=assumed, is_cautious=True)).of_query(said)
        bounds = Bounds(claim.upper, claim.somewhere)
    except FilterTooBig:
        return None
    return None if bounds == UNKNOWN else AssumedBounds(bounds, frozenset(assumed))


def _without_parents(filter: Filter) -> Filter:
    """A conjunction that does not ask for elements where it asks for what is in them."""
    if not isinstance(filter, And):
        return filter

    def is_needless(part: Filter) -> bool:
        if not isinstance(part, Some) or part.values != EVERYTHING:
            return False
        return any(other is not part and _needs(other, part.attribute) for other in filter.parts)

    return all_of(*(part for part in filter.parts if not is_needless(part)))


def _needs(filter: Filter, path: str) -> bool:
    """Whether a filter holds only if there is an element at the path, or in one there."""
    match filter:
        case Some(attribute=attribute):
            return attribute == path or attribute.startswith(f"{path}/")
        case And(parts=parts):
            return any(_needs(part, path) for part in parts)
        case Or(parts=parts):
            return all(_needs(part, path) for part in parts)
    return False


def _implies(f: Filter, g: Filter, absent: Mapping[str, tuple[Value, ...]]) -> bool:
    """Whether what matches `f` matches `g`, where values are absent at some paths. May say no if unsure."""
    if g in (f, TRUE) or f == FALSE:
        return True
    if isinstance(g, And):
        return all(_implies(f, part, absent) for part in g.parts)
    if isinstance(f, Or):
        return all(_implies(part, g, absent) for part in f.parts)
    if isinstance(f, And):
        return any(_implies(part, g, absent) for part in f.parts)
    if isinstance(g, Or):
        return any(_implies(f, part, absent) for part in g.parts)
    if isinstance(f, Some) and isinstance(g, Some) and f.attribute == g.attribute and f.attribute in absent:
        return isinstance(f.values, OneOf) and set(f.values.values) <= {*_values(g), *absent[f.attribute]}
    return False


def _values(filter: Some) -> Iterable[Value]:
    return filter.values.values if isinstance(filter.values, OneOf) else ()


@dataclass(frozen=True, slots=True)
class FilterTarget:
    """Filters on the attributes of documents."""

    guard: Filter = NO_PREFIXES
    operators: Mapping[str, Operator] = field(default_factory=lambda: NO_OPERATORS)
    rounds: bool = False
    namespace: str = ""  # of all elements that the query names, if it is one
    true: Filter = TRUE
    false: Filter = FALSE
    assumed: set[Assumption] | None = None  # rule 3
    is_cautious: bool = False  # rule 4

    def _assumes(self, kind: str, path: str, name: str = "") -> bool:
        if self.assumed is None:
            return False
        self.assumed.add((kind, path, name))
        return True

    def single(self, path: str | None) -> Filter:
        if path is None or path in ("", ANYWHERE):
            return FALSE
        if self._assumes("single", path):
            return TRUE
        if path.startswith(ANYWHERE) or "/@" in path:  # of these it is not told
            return FALSE
        return opposite(some(REPEATED, one_of([path])))

    def all_of(self, parts: list[Filter]) -> Filter:
        return every(parts)

    def any_of(self, parts: list[Filter]) -> Filter:
        return either(parts)

    def negated(self, formula: Filter) -> Filter:
        return _opposite(formula)

    def element(self, parent: str, name: Element) -> tuple[str | None, bool]:
        prefix, local = name.prefix, name.name
        path = intern(f"{ANYWHERE}{local}" if parent == ANYWHERE else f"{parent}/{local}" if parent else local)
        if prefix == "*":
            return path, True
        if prefix[:1] == "{":  # of XPath: a namespace
            self._assumes("tag", path, local if prefix == "{}" else f"{prefix}{local}")
            return path, True
        assumes = self._assumes("written", path, f"{prefix}:{local}" if prefix else local)
        return path, assumes or not prefix

    def attribute(self, parent: str, name: Attribute) -> tuple[str | None, bool]:
        if name.name == "*" or name.prefix == "*" or parent in ("", ANYWHERE):
            return None, False
        return f"{parent}/@{name.prefix + ':' if name.prefix else ''}{name.name}", True

    def defined(self, path: str) -> tuple[Filter, Filter]:
        return present(path), self.all_of([present(path), self.guard])

    def compared(self, path: str, operator: str, value: str | float, holds: bool) -> Claim[Filter]:
        if operator in self.operators:
            self._assumes("plain", path)
            return self._by_operator(path, operator, value, holds)
        if not isinstance(value, str):
            claim = self._claim(path, self._numbers(operator, value), holds)
            if self.is_cautious and operator in NUMBER_SETS:
                self._assumes("decimal", path)
                surely = operator if holds else OPPOSITE[operator]
                return Claim(
                    claim.upper, lambda: _all_numbers(path, surely, value), lambda: claim.everywhere, claim.needs_node
                )
            self._assumes("read", path)
            return claim
        self._assumes("held" if operator == "contains" and _is_part(value) else "plain", path)
        if operator in ("eq", "ne"):
            return self._equal_texts(path, value, holds == (operator == "eq"))
        return self._claim(path, _texts(operator, value), holds)

    # ------------------------------------------------------------ how values are compared

    def _claim(self, path: str, sets: "_Sets", holds: bool) -> Claim[Filter]:
        """The claim of a comparison, or of its negation."""
        if holds:
            return Claim(
                self._may(path, sets),
                lambda: self._rely(path, sets.surely),
                lambda: _opposite(self._some(path, sets.may_not)),
                True,
            )
        return Claim(
            self._some(path, sets.may_not),
            lambda: self._rely(path, sets.surely_not),
            lambda: _opposite(self._may(path, sets)),
            True,
        )

    def _may(self, path: str, sets: "_Sets") -> Filter:
        may = self._some(path, sets.may)
        if not sets.may_bare_numbers:
            return may
        bare = [some(path, all_of_kind(Kind.NUMBER)), opposite(some(NUMERALS, one_of([_name_of(path)])))]
        return self.any_of([may, self.all_of(bare)])

    def _some(self, path: str, sets: list[ValueSet]) -> Filter:
        if self.assumed is not None:
            sets = [values for values in sets if values not in (LOOK_SET, UNHELD_SET)] or [NOTHING]
        return some(path, sets[0]) if len(sets) == 1 else self.any_of([some(path, values) for values in sets])

    def _rely(self, path: str, sets: list[ValueSet]) -> Filter:
        if self.assumed is not None:
            return self._some(path, sets)
        return self.all_of([self._some(path, sets), only(path, NOT_LOOK), self.guard])

    def _numbers(self, operator: str, value: float) -> "_Sets":
        may, surely = self._number_sets(operator, value)
        may_not = complement(surely[0]) if len(surely) == 1 else EVERYTHING
        return _Sets(may, surely, [may_not], self._number_sets(OPPOSITE[operator], value)[1])

    def _number_sets(self, operator: str, value: float) -> tuple[list[ValueSet], list[ValueSet]]:
        """The numbers that may compare so, and those that surely do. (rule 2)"""
        match operator:
            case "eq":
                if not self.rounds or isinstance(value, int) or self.assumed is not None:
                    return [one_of([value])], [one_of([value])]
                low = high = value
                for _ in range(ROOM_STEPS):
                    low, high = nextafter(low, -inf), nextafter(high, inf)
                return [between(low, high)], []
            case "ne":
                found = [less_than(value), more_than(value)]
            case _:
                found = [NUMBER_SETS[operator](value)]
        return found, found

    def _equal_texts(self, path: str, text: str, holds: bool) -> Claim[Filter]:
        held = values_of_text(text) if len(text) <= TEXT_LENGTH_MAX else ()
        if not held:
            return self._claim(path, _Sets([LOOK_SET], [], [EVERYTHING], []), holds)
        is_canonical = len(held) == 1 and not isinstance(held[0], str)
        value = held[0] if is_canonical else text
        if is_canonical and self._assumes("canonical", path):
            equal, other = [one_of([value])], [complement(one_of([value]))]
            return self._claim(path, _Sets(equal, equal, other, other), holds)
        if not holds:
            may_not = EVERYTHING if text in LOOKS else complement(one_of([value]))
            return Claim(
                some(path, may_not),
                lambda: self._rely(path, [complement(one_of([*held, *LOOKS]))]),
                lambda: _opposite(some(path, one_of([value, *LOOKS]))),
                True,
            )

        def somewhere() -> Filter:
            if is_canonical:  # the number alone, so no text that is written otherwise
                return self.all_of([only(path, one_of([value])), self.guard])
            return FALSE if text in LOOKS else self._rely(path, [one_of([value])])

        def everywhere() -> Filter:
            return FALSE if text in LOOKS else _opposite(some(path, complement(one_of([value]))))

        return Claim(some(path, one_of([value, *LOOKS])), somewhere, everywhere, True)

    def _by_operator(self, path: str, name: str, value: str | float, holds: bool) -> Claim[Filter]:
        routable = self.operators[name].routable
        if routable is None:
            return self._claim(path, UNTOLD, holds)
        upper = self.any_of([routable(path, value), some(path, LOOK_SET)])
        if holds:
            return Claim(upper, lambda: FALSE, lambda: FALSE, True)
        return Claim(present(path), lambda: FALSE, lambda: _opposite(upper), True)


def _all_numbers(path: str, operator: str, value: float) -> Filter:
    """There are numbers at the path, and all compare so. (rule 4)"""
    others = NUMBER_SETS[OPPOSITE[operator]](value)
    return all_of(some(path, NUMBER_SETS[operator](value)), only(path, complement(others)))


def _name_of(path: str) -> str:
    """The name by which what is held at a path is held, too, without //."""
    steps = path.removeprefix(ANYWHERE).split("/")
    return "/".join(steps[-2:]) if steps[-1].startswith("@") else steps[-1]


def _opposite(filter: Filter) -> Filter:
    """As `opposite`, and what it makes of what it has made is not larger: `missing or only` becomes `some` again."""
    if isinstance(filter, And):
        return either([_opposite(part) for part in filter.parts])
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
    return every(parts)


@dataclass(frozen=True, slots=True)
class _Sets:
    """The values that may meet a comparison, that surely do, that may fail it, that surely do."""

    may: list[ValueSet]
    surely: list[ValueSet]
    may_not: list[ValueSet]
    surely_not: list[ValueSet]
    may_bare_numbers: bool = False  # numbers that are held without their texts may meet it


UNTOLD = _Sets([EVERYTHING], [], [EVERYTHING], [])


def _texts(operator: str, text: str) -> _Sets:
    """The sets of a comparison of texts other than equality."""
    if operator not in TEXT_SETS or len(text) > TEXT_LENGTH_MAX:  # without regard to case, or longer than what is held
        return UNTOLD
    inside, outside = TEXT_SETS[operator](text)
    may = [inside, UNHELD_SET if operator not in OPPOSITE and _is_kept(text) else LOOK_SET]
    if operator in OPPOSITE:
        may.append(all_of_kind(Kind.NUMBER))
    return _Sets(
        may,
        [inside],
        [EVERYTHING],
        [outside] if outside is not None else [],
        may_bare_numbers=operator not in OPPOSITE and PART_OF_NUMBER(text) is not None,
    )


def _is_part(text: str) -> bool:
    """Whether white space around a text or doubled in it makes no difference to whether this is in it."""
    return text != "" and not any(white in text for white in WHITE)


def _is_kept(text: str) -> bool:
    """Whether a text that contains this still does after all white space is replaced by one space."""
    return text != "" and normalised(text) == text


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
