"""From queries over trees to formulas over explicit paths: what a formula cannot say is let through. [motion §5]

*Theory.* A query looks at nodes and how they belong together; a formula knows only which values there are at each path.
So a condition is not translated to a formula but enclosed by three (`Claim`), for the nodes at one place of the
document:

- `upper` holds whenever the condition holds at some node there;
- `somewhere` holds only if the condition holds at some node there;
- `everywhere` holds only if the condition holds at every node there.

The negation of a condition has as its upper formula what `everywhere` does not hold for, and the other way round. So
the paper's rule for `$all$`, "the attribute does not exist at all, or one of its occurrences satisfies", comes out
where it is right, and under `$not$`, where it would lose events, something else does.

*Rules.*
1. At most one node can be at the place of the root element, and of its attributes: there `somewhere` and `everywhere`
   are one, and conditions keep their correlation. Elsewhere two conditions on one element may be met by two elements.
2. Behind `//` and `*` the path is not known, and nothing is said of what is there.
3. A claim about nodes of a path may be made of more nodes than the query means (a prefix that is not looked at): then
   `somewhere` is false.
4. Formulas grow with the query, not faster: each formula of a condition uses one formula of each part.

What formulas are made of is the business of a `Target`: our own filters (`routable.py`) and the paper's tiers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from godwit.languages.xql.tree import (
    And,
    Applied,
    Attribute,
    Call,
    Compare,
    Current,
    Element,
    Expression,
    Filtered,
    Index,
    Intersect,
    Literal,
    Not,
    Or,
    Path,
    Union,
    Weak,
)
from godwit.languages.xql.vocabulary import NAMED, TEXT_OPERATORS

__all__ = ["DOCUMENT", "Claim", "Location", "Target", "Weakening"]

WORK_MAX = 20_000  # parts that are looked at: alternatives within a path multiply
FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

Formula = TypeVar("Formula")


@dataclass(frozen=True, slots=True)
class Claim(Generic[Formula]):
    """What is known of a condition at the nodes of one place. See the module's head."""

    upper: Formula
    somewhere: Formula
    everywhere: Formula
    needs_node: bool = False  # whether `upper` holds only if there is a node at the place


@dataclass(frozen=True, slots=True)
class Location:
    """A place of the document."""

    path: str | None  # None: not known; "": the document itself
    is_single: bool = False
    is_exact: bool = True  # whether the nodes at the path are just those that are meant


DOCUMENT = Location("", is_single=True)
NOWHERE = Location(None, is_exact=False)


class Target(Protocol[Formula]):
    """What formulas are made of."""

    true: Formula
    false: Formula

    def all_of(self, parts: list[Formula]) -> Formula:
        """Every part holds."""

    def any_of(self, parts: list[Formula]) -> Formula:
        """Some part holds."""

    def negated(self, formula: Formula) -> Formula:
        """The formula does not hold."""

    def element(self, parent: str, name: Element) -> tuple[str | None, bool]:
        """The path of child elements, and whether just they are there."""

    def attribute(self, parent: str, name: Attribute) -> tuple[str | None, bool]:
        """The path of attributes."""

    def defined(self, path: str) -> tuple[Formula, Formula]:
        """There is a node at the path: what holds if so, and what holds only if so."""

    def compared(self, path: str, operator: str, value: str | float) -> tuple[Claim[Formula], Claim[Formula]]:
        """A node at the path compares so with a literal; and it does not."""


Then = Callable[[Location], Claim[Formula]]


@dataclass(slots=True)
class Weakening(Generic[Formula]):
    """One translation."""

    target: Target[Formula]
    work: int = field(default=0)

    def of_query(self, said: Expression) -> Claim[Formula]:
        """The claim about a query, asked of a document."""
        return self.truth(said, DOCUMENT)

    def truth(self, said: Expression | Index, at: Location) -> Claim[Formula]:
        """The claim that an expression is true for a node at a place."""
        match said:
            case And(parts=parts):
                return self.both([self.truth(part, at) for part in parts], at)
            case Or(parts=parts):
                return self.either([self.truth(part, at) for part in parts])
            case Not(inner=Compare(every=False, left=Current() | Call(name="text" | "value")) as inner):
                return self.compared_here(inner, at)[1]
            case Not(inner=inner):
                return self.negated(self.truth(inner, at), at)
            case Compare():
                return self.comparison(said, at)
            case Weak(inner=inner):
                return self.only_upper(self.truth(inner, at))
            case Call(name="true"):
                return self.here(at)
            case Call(name="false"):
                return self.negated(self.here(at), at)
            case Index() | Call(name="index" | "end" | "date" | "number" | "count"):
                return self.unknown()
        return self.found(said, at, self.here)

    # ------------------------------------------------------------ claims

    def unknown(self) -> Claim[Formula]:
        return Claim(self.target.true, self.target.false, self.target.false)

    def here(self, at: Location) -> Claim[Formula]:
        """The claim that there is a node."""
        true, false = self.target.true, self.target.false
        if at.path == "":
            return Claim(true, true, true)
        if at.path is None:
            return Claim(true, false, true)
        return Claim(true, self.target.defined(at.path)[1] if at.is_exact else false, true)

    def negated(self, claim: Claim[Formula], at: Location) -> Claim[Formula]:
        target = self.target
        never = target.negated(claim.upper)
        return Claim(target.negated(claim.everywhere), target.all_of([self.here(at).somewhere, never]), never)

    def both(self, claims: list[Claim[Formula]], at: Location) -> Claim[Formula]:
        """All conditions hold at one node. (rule 1)"""
        target = self.target
        everywhere = target.all_of([claim.everywhere for claim in claims])
        if at.is_single:
            somewhere = target.all_of([claim.somewhere for claim in claims])
        else:
            last = next((claim for claim in claims if claim.everywhere == target.false), claims[-1])
            others = [claim.everywhere for claim in claims if claim is not last]
            somewhere = target.all_of([last.somewhere, *others])
        upper = target.all_of([claim.upper for claim in claims])
        return Claim(upper, somewhere, everywhere, any(claim.needs_node for claim in claims))

    def either(self, claims: list[Claim[Formula]]) -> Claim[Formula]:
        """Some condition holds at a node."""
        target = self.target
        return Claim(
            target.any_of([claim.upper for claim in claims]),
            target.any_of([claim.somewhere for claim in claims]),
            target.any_of([claim.everywhere for claim in claims]),
            all(claim.needs_node for claim in claims),
        )

    def below(self, at: Location, child: Location, claim: Claim[Formula]) -> Claim[Formula]:
        """A node at `at` has a child for which the claim is."""
        upper = claim.upper
        if not claim.needs_node and child.path:
            upper = self.target.all_of([self.target.defined(child.path)[0], upper])
        everywhere = claim.somewhere if at.is_single else self.target.false
        return Claim(upper, claim.somewhere, everywhere, child.path is not None)

    # ------------------------------------------------------------ paths

    def found(self, said: Expression, at: Location, then: Then[Formula]) -> Claim[Formula]:
        """The claim that an expression, for a node at a place, finds one for which `then` is."""
        self.work += 1
        if self.work > WORK_MAX:
            return self.unknown()
        match said:
            case Current() | Call(name="text" | "value"):
                return then(at)
            case Element() | Attribute():
                child = self.child(at, said)
                return self.below(at, child, then(child))
            case Filtered(of=of, picks=picks):
                return self.found(
                    of, at, lambda place: self.both([*(self.truth(pick, place) for pick in picks), then(place)], place)
                )
            case Path(absolute=absolute, steps=steps):
                return self.walked(said, 0, DOCUMENT if absolute else at, then) if steps else then(DOCUMENT)
            case Applied(of=of, call=Call(name="text" | "value")):
                return self.found(of, at, then)
            case Applied(of=of, call=Call(name=name)) if name not in ("count", "prefix", "namespace"):
                return self.only_upper(self.found(of, at, lambda place: self.unknown()))
            case Union(parts=parts):
                return self.either([self.found(part, at, then) for part in parts])
            case Intersect(parts=parts):
                uppers = [self.found(part, at, then).upper for part in parts]
                return self.only_upper(Claim(self.target.all_of(uppers), self.target.false, self.target.false))
        return self.unknown()

    def walked(self, path: Path, number: int, at: Location, then: Then[Formula]) -> Claim[Formula]:
        if number == len(path.steps):
            return then(at)
        step = path.steps[number]
        start = NOWHERE if step.descends else at
        found = self.found(step.term, start, lambda place: self.walked(path, number + 1, place, then))
        return self.only_upper(found) if step.descends else found

    def only_upper(self, claim: Claim[Formula]) -> Claim[Formula]:
        return Claim(claim.upper, self.target.false, self.target.false, claim.needs_node)

    def child(self, at: Location, name: Element | Attribute) -> Location:
        if at.path is None:  # rule 2
            return NOWHERE
        if isinstance(name, Attribute):
            path, is_exact = self.target.attribute(at.path, name)
            return Location(path, at.is_single, is_exact and at.is_exact)
        path, is_exact = self.target.element(at.path, name)
        return Location(path, at is DOCUMENT, is_exact and at.is_exact)

    # ------------------------------------------------------------ comparisons

    def comparison(self, said: Compare, at: Location) -> Claim[Formula]:
        left, right, operator = said.left, said.right, said.operator
        if isinstance(left, Literal) and not isinstance(right, Literal) and operator in FLIPPED and not said.every:
            return self.comparison(Compare(FLIPPED[operator], right, left), at)
        if isinstance(left, Applied) and left.call.name == "count" and not left.call.arguments:
            return self.counted(said, left.of, at)
        if isinstance(right, Literal):
            if said.every:
                fails = self.found(left, at, lambda place: self.against(said, place)[1])
                return self.negated(fails, at)
            return self.found(left, at, lambda place: self.against(said, place)[0])
        if said.every:
            return self.unknown()
        sides = [self.found(side, at, lambda place: self.unknown()).upper for side in (left, right)]
        return self.only_upper(Claim(self.target.all_of(sides), self.target.false, self.target.false))

    def compared_here(self, said: Compare, at: Location) -> tuple[Claim[Formula], Claim[Formula]]:
        """`. operator literal`, and its negation."""
        if isinstance(said.right, Literal):
            return self.against(said, at)
        claim = self.comparison(said, at)
        return claim, self.negated(claim, at)

    def against(self, said: Compare, at: Location) -> tuple[Claim[Formula], Claim[Formula]]:
        """The node at a place compares so with the literal, and does not."""
        assert isinstance(said.right, Literal)
        value = said.right.value
        if not at.path:
            return self.unknown(), self.unknown()
        if said.operator in TEXT_OPERATORS and not isinstance(value, str):
            value = repr(value)
        if said.operator in NAMED and said.operator[0] == "i" and not isinstance(value, str):
            holds, fails = self.target.compared(at.path, said.operator[1:], value)
        else:
            holds, fails = self.target.compared(at.path, said.operator, value)
        if not at.is_exact:  # rule 3
            false = self.target.false
            holds = Claim(holds.upper, false, holds.everywhere, holds.needs_node)
            fails = Claim(fails.upper, false, fails.everywhere, fails.needs_node)
        return holds, fails

    def counted(self, said: Compare, of: Expression, at: Location) -> Claim[Formula]:
        """`path!count()` of one or more: then there is one."""
        number = said.right.value if isinstance(said.right, Literal) else None
        if isinstance(number, int | float) and not said.every:
            least = {"eq": number, "ge": number, "gt": number + 1}.get(said.operator, 0)
            if least >= 1:
                return self.only_upper(self.found(of, at, self.here))
        return self.unknown()
