"""Expressions of CESQL: the tree that a text parses to.

*Rules.*
1. `Logic` is flat: its parts are no `Logic` of the same operator. AND, OR and XOR have one precedence and associate to
   the left, so a chain of different operators is nested.
2. `Comparison.operator` is one of `COMPARISONS`; `<>` is written `!=`.
3. A tree is at most `DEPTH_MAX` nodes deep, so whatever walks one may recurse.
"""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "COMPARISONS",
    "DEPTH_MAX",
    "Arithmetic",
    "Attribute",
    "Call",
    "Comparison",
    "Exists",
    "Expression",
    "In",
    "Like",
    "Literal",
    "Logic",
    "Negative",
    "Not",
    "Scalar",
    "attributes_needed",
    "attributes_of",
    "children",
]

DEPTH_MAX = 100
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")

Scalar = bool | int | float | str
"""A Boolean, an Integer or a String. Events may also have other numbers than 32-bit integers: see `casts.py`."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written down."""

    value: bool | int | str

    def __eq__(self, other: object) -> bool:
        return type(other) is Literal and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value).__name__, self.value))


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of an attribute of the event."""

    name: str


@dataclass(frozen=True, slots=True)
class Exists:
    """EXISTS: the event has the attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """NOT."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Negative:
    """The unary minus."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Logic:
    """AND, OR or XOR of two or more parts. (rule 1)"""

    operator: str
    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One of `COMPARISONS`. (rule 2)"""

    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """One of `+ - * / %`."""

    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Like:
    """LIKE, or NOT LIKE."""

    operand: "Expression"
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    """IN, or NOT IN."""

    operand: "Expression"
    elements: tuple["Expression", ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function or a user-defined operator, by the name that it has there."""

    name: str
    arguments: tuple["Expression", ...]


Expression = Literal | Attribute | Exists | Not | Negative | Logic | Comparison | Arithmetic | Like | In | Call


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly below one."""
    match node:
        case Literal() | Attribute() | Exists():
            return ()
        case Not(operand) | Negative(operand) | Like(operand):
            return (operand,)
        case Comparison(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case Logic(_, parts):
            return parts
        case In(operand, elements):
            return (operand, *elements)
        case Call(_, arguments):
            return arguments


def attributes_of(node: Expression) -> Iterator[str]:
    """The attributes whose values an expression may look at, not those of EXISTS."""
    if isinstance(node, Attribute):
        yield node.name
    for child in children(node):
        yield from attributes_of(child)


def attributes_needed(node: Expression) -> Iterator[str]:
    """The attributes whose values are looked at in any case: without one of them there is an error."""
    if isinstance(node, Attribute):
        yield node.name
    elif isinstance(node, Logic) and node.operator != "XOR":
        yield from attributes_needed(node.parts[0])  # the others may be left out
    else:
        for child in children(node):
            yield from attributes_needed(child)
