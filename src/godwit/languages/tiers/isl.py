"""ISL, the intermediate subscription language: no quantifiers, no filters, explicit paths. [motion §5]

*Rules.*
1. Negation stands before what is compared or defined, never before a combination: it is carried down.
2. A comparison holds when some value at its path compares so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.tiers.iel import SERIALIZED, UNHELD, Iel, Part
from godwit.languages.xml_names import ANYWHERE
from godwit.languages.xml_values import NUMBER_CHARACTERS
from godwit.languages.xql.evaluating import as_text, compares
from godwit.languages.xql.printing import literal_text
from godwit.languages.xql.tree import Attribute, Element, Expression
from godwit.languages.xql.vocabulary import NAMED, TEXT_OPERATORS
from godwit.languages.xql.weakening import Claim, Weakening

__all__ = ["Both", "Compares", "Defines", "Either", "Isl", "Negated", "isl_of", "isl_text", "islmatch", "negated"]


@dataclass(frozen=True, slots=True)
class Defines:
    """There is something at the path."""

    path: str


@dataclass(frozen=True, slots=True)
class Compares:
    """Some value at the path compares so with the operand."""

    path: str
    operator: str
    operand: Part


@dataclass(frozen=True, slots=True)
class Negated:
    """`$not$` of one condition. (rule 1)"""

    inner: Defines | Compares


@dataclass(frozen=True, slots=True)
class Both:
    """`$and$`; of no parts it is true."""

    parts: tuple["Isl", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """`$or$`; of no parts it is false."""

    parts: tuple["Isl", ...]


Isl = Defines | Compares | Negated | Both | Either
TRUE: Isl = Both(())
FALSE: Isl = Either(())


def negated(said: Isl) -> Isl:
    """The negation, carried down. (rule 1)"""
    match said:
        case Both(parts=parts):
            return Either(tuple(negated(part) for part in parts))
        case Either(parts=parts):
            return Both(tuple(negated(part) for part in parts))
        case Negated(inner=inner):
            return inner
        case _:
            return Negated(said)


def isl_of(said: Expression) -> Isl:
    """The ISL query of an XQL query: it matches whatever the XQL query does, and maybe more."""
    return Weakening(_Target()).of_query(said).upper


@dataclass(frozen=True, slots=True)
class _Target:
    true: ClassVar[Isl] = TRUE
    false: ClassVar[Isl] = FALSE

    def all_of(self, parts: list[Isl]) -> Isl:
        return FALSE if FALSE in parts else _flat(Both, [part for part in parts if part != TRUE])

    def any_of(self, parts: list[Isl]) -> Isl:
        return TRUE if TRUE in parts else _flat(Either, [part for part in parts if part != FALSE])

    def negated(self, formula: Isl) -> Isl:
        return negated(formula)

    def single(self, path: str | None) -> Isl:
        return FALSE

    def element(self, parent: str, name: Element) -> tuple[str | None, bool]:
        if (
            parent == ANYWHERE
            or "*" in (name.name, name.prefix)
            or (name.name == SERIALIZED and parent and "/" not in parent)
        ):
            return None, False
        written = f"{name.prefix}:{name.name}" if name.prefix else name.name
        return f"{parent}/{written}" if parent else written, True

    def attribute(self, parent: str, name: Attribute) -> tuple[str | None, bool]:
        if "*" in (name.name, name.prefix) or parent in ("", ANYWHERE):
            return None, False
        return f"{parent}/@{f'{name.prefix}:' if name.prefix else ''}{name.name}", True

    def defined(self, path: str) -> tuple[Isl, Isl]:
        return Defines(path), Defines(path)

    def compared(self, path: str, operator: str, value: str | float, holds: bool) -> Claim[Isl]:
        atom = Compares(path, operator, value)
        upper: Isl = atom
        surely = isinstance(value, float | int)
        if isinstance(value, str) and "/@" not in path:
            upper = Either((atom, Defines(f"{path}{UNHELD}")))  # an element that holds elements: its text is not held
        if isinstance(value, str) and operator in ("eq", *TEXT_OPERATORS):
            surely = not set(value) <= NUMBER_CHARACTERS  # so no number meets it, which may be written otherwise
        if operator not in NAMED:
            surely = False
        if holds:
            return Claim(upper, lambda: atom if surely else FALSE, lambda: FALSE, True)
        return Claim(Defines(path), lambda: self.all_of([Defines(path), negated(upper)]), lambda: negated(upper), True)


def _flat(kind: type[Both] | type[Either], parts: list[Isl]) -> Isl:
    flat: list[Isl] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    return flat[0] if len(flat) == 1 else kind(tuple(dict.fromkeys(flat)))


def islmatch(event: Iel, query: Isl, operators: Mapping[str, Operator] = NO_OPERATORS) -> bool:
    """Whether an ISL query matches an IEL element."""
    match query:
        case Defines(path=path):
            return path in event
        case Compares(path=path, operator=operator, operand=operand):
            return any(_compares(operator, value, operand, operators) for value in event.get(path, ()))
        case Negated(inner=inner):
            return not islmatch(event, inner, operators)
        case Both(parts=parts):
            return all(islmatch(event, part, operators) for part in parts)
        case Either(parts=parts):
            return any(islmatch(event, part, operators) for part in parts)


def _compares(operator: str, value: Part, operand: Part, operators: Mapping[str, Operator]) -> bool:
    if operator in NAMED:
        return compares(operator, as_text(value) if isinstance(operand, str) else value, operand)
    return bool(operators[operator].holds(as_text(value), operand))


def isl_text(query: Isl) -> str:
    """The query as the paper writes it: `(($not$ x) $or$ (x $lt$ 5))`."""
    match query:
        case Both(parts=()):
            return "true()"
        case Either(parts=()):
            return "false()"
        case Both(parts=parts):
            return f"({' $and$ '.join(map(_inner_text, parts))})"
        case Either(parts=parts):
            return f"({' $or$ '.join(map(_inner_text, parts))})"
        case Negated(inner=Defines(path=path)):
            return f"$not$ {path}"
        case Negated(inner=inner):
            return f"$not$ ({isl_text(inner)})"
        case Defines(path=path):
            return path
        case Compares(path=path, operator=operator, operand=operand):
            return f"{path} ${operator}$ {literal_text(operand)}"


def _inner_text(part: Isl) -> str:
    return isl_text(part) if isinstance(part, Both | Either | Defines) else f"({isl_text(part)})"
