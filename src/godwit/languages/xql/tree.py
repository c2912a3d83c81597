"""The syntax tree of XQL.

*Rules.*
1. Chains are flat: a path has its steps, a collection its filters, `$and$` its parts. So a tree is as deep as its
   brackets are nested, which is bounded, and whatever walks one may recurse.
2. Trees are equal when their queries mean the same by the grammar: spellings (`=` and `$eq$`, `?`, dollars) are not
   kept.
"""

from dataclasses import dataclass

__all__ = [
    "And",
    "Applied",
    "Attribute",
    "Call",
    "Compare",
    "Current",
    "Element",
    "Expression",
    "Filtered",
    "Index",
    "Intersect",
    "Literal",
    "Not",
    "Or",
    "Path",
    "Step",
    "Union",
    "Unknown",
    "Weak",
]

ANY = "*"


@dataclass(frozen=True, slots=True)
class Element:
    """Child elements of a name: `book`, `my:book`, `*:book`, `my:*`, `*`. No prefix: names without one.

    XPath has namespaces instead of prefixes: `{urn:x}`, `{}` for none.
    """

    name: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attributes of a name: `@style`, `@my:style`, `@*`."""

    name: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Current:
    """`.`: the node that is looked at."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A text or a number."""

    value: str | int | float


@dataclass(frozen=True, slots=True)
class Call:
    """A method, collection or function: `text()`, `ancestor(book)`; or an operator that a user defined."""

    name: str
    arguments: tuple["Expression", ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """`of!method()`."""

    of: "Expression"
    call: Call


@dataclass(frozen=True, slots=True)
class Index:
    """`[0, 2 $to$ 4, -1]`: ranges, both ends with it."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Filtered:
    """A collection with filters and subscripts, in the order they are written."""

    of: "Expression"
    picks: tuple["Expression | Index", ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path; `descends` for `//`."""

    term: "Expression"
    descends: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from the document (`absolute`) or from the current node. Relative paths have two steps or more."""

    absolute: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right`, for any item on the left or (`every`) for all."""

    operator: str
    left: "Expression"
    right: "Expression"
    every: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """`$not$`."""

    inner: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    """`$and$`."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """`$or$`."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Union:
    """`$union$` or `|`."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Intersect:
    """`$intersect$`."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Weak:
    """What another language has and XQL has not, but holds only if this does.

    `needs` says when it is the same: "one" when there is at most one node on the left of the comparison, "" never.
    """

    inner: "Expression"
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What another language has and XQL has not: it may hold or not."""


Expression = (
    Element
    | Attribute
    | Current
    | Literal
    | Call
    | Applied
    | Filtered
    | Path
    | Compare
    | Not
    | And
    | Or
    | Union
    | Intersect
    | Unknown
    | Weak
)
