"""Expressions of the exact part: terms, which have a value, and conditions, which hold of an event or do not.

*Theory.* A condition is a tree of AND and OR over plain literals, which are filters, and predicates over terms. NOT is
carried down to the leaves, as in filters. A predicate picks one value of each attribute that it names: it is true when
some choice meets it, false when none does, and unknown when one of its attributes is missing.

*Rules.*
1. `All` and `Any` are flat: no All directly in an All, no single part, no part twice.
2. Two expressions are equal when they are written alike: `1`, `1.0` and `TRUE` are three constants.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from godwit.filters import Filter, Reference, Value, ValueSet, negation

__all__ = [
    "All",
    "Any",
    "Arithmetic",
    "Attribute",
    "Call",
    "Compared",
    "Condition",
    "Constant",
    "Count",
    "Every",
    "Holds",
    "InSet",
    "Matches",
    "Not",
    "Own",
    "Plain",
    "Predicate",
    "Term",
    "Variable",
    "combined",
    "negated",
    "predicates_of",
    "size_of",
    "subterms",
    "terms_of",
    "variables_of",
]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value as it is written."""

    value: Value
    _type: str = field(init=False, repr=False)  # rule 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "_type", type(self.value).__name__)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One value of an attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Own:
    """One value of the subscriber's own context: `my.x`, `myloc`."""

    reference: Reference


@dataclass(frozen=True, slots=True)
class Count:
    """How many values an attribute has: `count(tags)`."""

    name: str


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Terms combined from left to right by signs of one precedence: `+ -`, or `* / %`."""

    first: "Term"
    steps: tuple[tuple[str, "Term"], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A built-in function, or an operator that users define."""

    name: str
    arguments: tuple["Term", ...]
    is_operator: bool = False


Variable = Attribute | Own | Count
Term = Constant | Variable | Arithmetic | Call


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of two terms, or a chain of two: `a < b`, `a < b <= c`."""

    first: Term
    steps: tuple[tuple[str, Term], ...]


@dataclass(frozen=True, slots=True)
class InSet:
    """The value of a term lies in a set: IN with constants, LIKE, WITHIN, IS."""

    term: Term
    values: ValueSet


@dataclass(frozen=True, slots=True)
class Matches:
    """A text in which a regular expression is found."""

    term: Term
    pattern: str


@dataclass(frozen=True, slots=True)
class Holds:
    """An operator that stands alone, for a condition."""

    call: Call


@dataclass(frozen=True, slots=True)
class Every:
    """A predicate that every choice of values meets: ALL."""

    predicate: "Compared | InSet | Matches | Holds"


Predicate = Compared | InSet | Matches | Holds | Every


@dataclass(frozen=True, slots=True)
class Plain:
    """A literal of a filter, or TRUE, or FALSE."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Not:
    """A predicate that is false: its attributes are there, and it does not hold."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Some part holds."""

    parts: tuple["Condition", ...]


Condition = Plain | Predicate | Not | All | Any


def combined(group: type[All] | type[Any], conditions: list[Condition]) -> Condition:
    """All of some conditions, or any. (rule 1)"""
    parts: dict[Condition, None] = {}
    for condition in conditions:
        parts.update(dict.fromkeys(condition.parts if isinstance(condition, group) else (condition,)))
    return next(iter(parts)) if len(parts) == 1 else group(tuple(parts))


def negated(condition: Condition) -> Condition:
    """NOT, carried down to the leaves."""
    match condition:
        case Plain(filter=filter):
            return Plain(negation(filter))
        case Not(predicate=predicate):
            return predicate
        case All(parts=parts):
            return combined(Any, [negated(part) for part in parts])
        case Any(parts=parts):
            return combined(All, [negated(part) for part in parts])
    return Not(condition)


def predicates_of(condition: Condition) -> Iterator[Predicate]:
    """Every predicate of a condition, from left to right."""
    match condition:
        case All(parts=parts) | Any(parts=parts):
            for part in parts:
                yield from predicates_of(part)
        case Not(predicate=predicate):
            yield predicate
        case Plain():
            return
        case _:
            yield condition


def terms_of(predicate: Predicate) -> tuple[Term, ...]:
    """The terms of a predicate."""
    match predicate:
        case Every(predicate=inner):
            return terms_of(inner)
        case Compared(first=first, steps=steps):
            return (first, *(term for _, term in steps))
        case Holds(call=call):
            return (call,)
    return (predicate.term,)


def subterms(term: Term) -> Iterator[Term]:
    """A term and all terms in it."""
    yield term
    match term:
        case Arithmetic(first=first, steps=steps):
            yield from subterms(first)
            for _, step in steps:
                yield from subterms(step)
        case Call(arguments=arguments):
            for argument in arguments:
                yield from subterms(argument)


def variables_of(predicate: Predicate) -> tuple[Variable, ...]:
    """What a predicate picks values of, each once."""
    found = (each for term in terms_of(predicate) for each in subterms(term))
    return tuple(dict.fromkeys(each for each in found if isinstance(each, Variable)))


def size_of(predicate: Predicate) -> int:
    """How many terms a predicate has: the steps that one choice of values takes."""
    return 1 + sum(1 for term in terms_of(predicate) for _ in subterms(term))
