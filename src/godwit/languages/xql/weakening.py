"""From queries over trees to formulas over explicit paths: conditions that a formula cannot express are dropped.
[motion §5]

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
2. Behind `//` and `*` the path is not known, but names are: targets may know the elements of a name wherever they are.
   These are more than are meant, but for `//name` asked of the document.
3. A claim about nodes of a path may be made of more nodes than the query means (a prefix that is not looked at): then
   `somewhere` is false.
4. Formulas grow with the query, not faster: each formula of a condition uses one formula of each part.
5. A formula may tell that there is at most one node at a place (`single`): then it is as at the root element.

What formulas are made of is the business of a `Target`: our own filters (`routable.py`) and the paper's tiers.
"""

from collections.abc import Callable
from dataclasses import dataclass
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

WORK_MAX = 2_000  # parts that are looked at: alternatives within a path multiply
DEPTH_MAX = 80  # steps and filters within each other
FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

Formula = TypeVar("Formula")
Make = Callable[[], Formula]


class Claim(Generic[Formula]):
    """What is known of a condition at the nodes of one place. See the module's head.

    Only negations ask for `somewhere` and `everywhere`: they are made when they are asked for.
    """

    __slots__ = ("_every", "_some", "needs_node", "upper")

    def __init__(
        self, upper: Formula, somewhere: Make[Formula], everywhere: Make[Formula], needs_node: bool = False
    ) -> None:
        self.upper = upper
        self.needs_node = needs_node  # whether `upper` holds only if there is a node at the place
        self._some = somewhere
        self._every = everywhere

    @property
    def somewhere(self) -> Formula:
        """What holds only if the condition holds at some node."""
        return self._some()

    @property
    def everywhere(self) -> Formula:
        """What holds only if the condition holds at every node."""
        return self._every()


@dataclass(frozen=True, slots=True)
class Location:
    """A place of the document."""

    path: str | None  # None: not known; "": the document itself; "//": anywhere in it
    is_single: bool = False
    is_exact: bool = True  # whether the nodes at the path are just those that are meant


DOCUMENT = Location("", is_single=True)
UNKNOWN = Location(None, is_exact=False)
SOMEWHERE = Location("//", is_exact=False)
EVERYWHERE = Location("//")


class Target(Protocol[Formula]):
    """What formulas are made of."""

    @property
    def true(self) -> Formula:
        """What always holds."""

    @property
    def false(self) -> Formula:
        """What never holds."""

    def all_of(self, parts: list[Formula]) -> Formula:
        """Every part holds."""

    def any_of(self, parts: list[Formula]) -> Formula:
        """Some part holds."""

    def negated(self, formula: Formula) -> Formula:
        """The formula does not hold."""

    def element(self, parent: str, name: Element) -> tuple[str | None, bool]:
        """The path of child elements, and whether just they are there. `parent` may be //."""

    def single(self, path: str | None) -> Formula:
        """What holds only if there is at most one node at the path. (rule 5)"""

    def attribute(self, parent: str, name: Attribute) -> tuple[str | None, bool]:
        """The path of attributes."""

    def defined(self, path: str) -> tuple[Formula, Formula]:
        """There is a node at the path: what holds if so, and what holds only if so."""

    def compared(self, path: str, operator: str, value: str | float, holds: bool) -> Claim[Formula]:
        """A node at the path compares so with a literal; or (not `holds`) it does not."""


Then = Callable[[Location], Claim[Formula]]


@dataclass(slots=True)
class Weakening(Generic[Formula]):
    """One translation."""

    target: Target[Formula]
    work: int = 0
    depth: int = 0
    unfound: int = 0  # expressions of which it is not known what they find

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
                return self.not_here(inner, at)
            case Not(inner=inner):
                return self.negated(self.truth(inner, at), at)
            case Compare():
                return self.comparison(said, at)
            case Weak(inner=inner, needs=needs):
                weak = self.truth(inner, at)
                if needs == "one" and isinstance(inner, Compare):
                    return self.of_one(weak, inner.left, at)
                return self.only_upper(weak.upper, weak.needs_node)
            case Call(name="true"):
                return self.here(at)
            case Call(name="false"):
                return self.negated(self.here(at), at)
            case Index() | Call(name="index" | "end" | "date" | "number" | "count"):
                return self.unknown()
        return self.found(said, at, self.here)

    # ------------------------------------------------------------ claims

    def true(self) -> Formula:
        return self.target.true

    def false(self) -> Formula:
        return self.target.false

    def unknown(self) -> Claim[Formula]:
        return Claim(self.target.true, self.false, self.false)

    def only_upper(self, upper: Formula, needs_node: bool) -> Claim[Formula]:
        return Claim(upper, self.false, self.false, needs_node)

    def here(self, at: Location) -> Claim[Formula]:
        """The claim that there is a node."""
        if at.path == "":
            return Claim(self.target.true, self.true, self.true)
        if at.path in (None, "//") or not at.is_exact:
            return Claim(self.target.true, self.false, self.true)
        path = str(at.path)
        return Claim(self.target.true, lambda: self.target.defined(path)[1], self.true)

    def negated(self, claim: Claim[Formula], at: Location) -> Claim[Formula]:
        target = self.target
        return Claim(
            target.negated(claim.everywhere),
            lambda: target.all_of([self.here(at).somewhere, target.negated(claim.upper)]),
            lambda: target.negated(claim.upper),
        )

    def both(self, claims: list[Claim[Formula]], at: Location) -> Claim[Formula]:
        """All conditions hold at one node. (rule 1)"""
        target = self.target

        def somewhere() -> Formula:
            if at.is_single:
                return target.all_of([claim.somewhere for claim in claims])
            everywhere = [claim.everywhere for claim in claims]
            doubtful = [number for number, each in enumerate(everywhere) if each != target.true]
            if everywhere.count(target.false) > 1:  # so that two conditions cannot be told to meet
                return target.all_of([*(claim.somewhere for claim in claims), target.single(at.path)])
            chosen = doubtful[-1] if doubtful else len(claims) - 1
            if target.false in everywhere:
                chosen = everywhere.index(target.false)
            everywhere[chosen] = claims[chosen].somewhere
            return target.all_of(everywhere)

        return Claim(
            target.all_of([claim.upper for claim in claims]),
            somewhere,
            lambda: target.all_of([claim.everywhere for claim in claims]),
            any(claim.needs_node for claim in claims),
        )

    def either(self, claims: list[Claim[Formula]]) -> Claim[Formula]:
        """Some condition holds at a node."""
        target = self.target
        return Claim(
            target.any_of([claim.upper for claim in claims]),
            lambda: target.any_of([claim.somewhere for claim in claims]),
            lambda: target.any_of([claim.everywhere for claim in claims]),
            all(claim.needs_node for claim in claims),
        )

    def below(self, at: Location, child: Location, claim: Claim[Formula]) -> Claim[Formula]:
        """A node at `at` has a child for which the claim is."""
        upper = claim.upper
        is_known = child.path not in (None, "//")
        if not claim.needs_node and is_known:
            upper = self.target.all_of([self.target.defined(str(child.path))[0], upper])

        def somewhere() -> Formula:
            return claim.somewhere

        def everywhere() -> Formula:
            if at.is_single:
                return claim.somewhere
            return self.target.all_of([self.target.single(at.path), claim.somewhere])

        implies = not at.path or at.path == "//" or str(child.path).startswith(f"{at.path}/")
        return Claim(upper, somewhere, everywhere, is_known and implies)

    # ------------------------------------------------------------ paths

    def found(self, said: Expression, at: Location, then: Then[Formula]) -> Claim[Formula]:
        """The claim that an expression, for a node at a place, finds one for which `then` is."""
        self.work += 1
        if self.work > WORK_MAX or self.depth > DEPTH_MAX:
            self.unfound += 1
            return self.unknown()
        self.depth += 1
        claim = self.found_by(said, at, then)
        self.depth -= 1
        return claim

    def found_by(self, said: Expression, at: Location, then: Then[Formula]) -> Claim[Formula]:
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
                found = self.found(of, at, lambda place: self.unknown())
                return self.only_upper(found.upper, found.needs_node)
            case Union(parts=parts):
                return self.either([self.found(part, at, then) for part in parts])
            case Intersect(parts=parts):
                uppers = [self.found(part, at, then).upper for part in parts]
                return self.only_upper(self.target.all_of(uppers), False)
        self.unfound += 1
        return self.unknown()

    def walked(self, path: Path, number: int, at: Location, then: Then[Formula]) -> Claim[Formula]:
        if number == len(path.steps):
            return then(at)
        step = path.steps[number]
        start = at
        if step.descends:  # rule 2
            start = EVERYWHERE if at is DOCUMENT and isinstance(step.term, Element | Filtered) else SOMEWHERE
        found = self.found(step.term, start, lambda place: self.walked(path, number + 1, place, then))
        if not step.descends:
            return found
        if start is SOMEWHERE:
            return self.only_upper(found.upper, found.needs_node and at is DOCUMENT)
        return Claim(found.upper, lambda: found.somewhere, lambda: found.somewhere, found.needs_node)

    def child(self, at: Location, name: Element | Attribute) -> Location:
        if at.path is None:
            return UNKNOWN
        if isinstance(name, Attribute):
            path, is_exact = self.target.attribute(at.path, name)
            return Location(path, at.is_single, is_exact and at.is_exact)
        if name.name == "*":
            return SOMEWHERE  # rule 2
        parent = "//" if at.path.startswith("//") else at.path
        path, is_exact = self.target.element(parent, name)
        return Location(path, at is DOCUMENT, is_exact and at.is_exact and parent in (at.path, ""))

    def of_one(self, claim: Claim[Formula], said: Expression, at: Location) -> Claim[Formula]:
        """The claim where an expression finds at most one node; where that is not known, only its upper formula."""
        places: list[Location] = []
        before = self.unfound

        def place_found(place: Location) -> Claim[Formula]:
            places.append(place)
            return self.unknown()

        self.found(said, at, place_found)
        if self.unfound != before or not places:
            return self.only_upper(claim.upper, claim.needs_node)

        def single() -> list[Formula]:
            return [self.target.true if place.is_single else self.target.single(place.path) for place in places]

        return Claim(
            claim.upper,
            lambda: self.target.all_of([claim.somewhere, *single()]),
            lambda: self.target.all_of([claim.everywhere, *single()]),
            claim.needs_node,
        )

    # ------------------------------------------------------------ comparisons

    def comparison(self, said: Compare, at: Location) -> Claim[Formula]:
        left, right, operator = said.left, said.right, said.operator
        if isinstance(left, Literal) and not isinstance(right, Literal) and operator in FLIPPED and not said.every:
            return self.comparison(Compare(FLIPPED[operator], right, left), at)
        if isinstance(left, Applied) and left.call.name == "count" and not left.call.arguments:
            return self.counted(said, left.of, at)
        if isinstance(right, Literal):
            found = self.found(left, at, lambda place: self.against(said, place, not said.every))
            return self.negated(found, at) if said.every else found
        if said.every:
            return self.unknown()
        sides = [self.found(side, at, lambda place: self.unknown()) for side in (left, right)]
        upper = self.target.all_of([side.upper for side in sides])
        return self.only_upper(upper, any(side.needs_node for side in sides))

    def not_here(self, said: Compare, at: Location) -> Claim[Formula]:
        """The negation of `. operator literal`."""
        if isinstance(said.right, Literal):
            return self.against(said, at, False)
        return self.negated(self.comparison(said, at), at)

    def against(self, said: Compare, at: Location, holds: bool) -> Claim[Formula]:
        """The node at a place compares so with the literal, or does not."""
        assert isinstance(said.right, Literal)
        value, operator = said.right.value, said.operator
        if not at.path or at.path == "//":
            return self.unknown()
        if operator in TEXT_OPERATORS and not isinstance(value, str):
            value = repr(value)
        elif operator in NAMED and operator[0] == "i" and not isinstance(value, str):
            operator = operator[1:]
        claim = self.target.compared(at.path, operator, value, holds)
        if at.is_exact:
            return claim
        return Claim(claim.upper, self.false, lambda: claim.everywhere, claim.needs_node)  # rule 3

    def counted(self, said: Compare, of: Expression, at: Location) -> Claim[Formula]:
        """`path!count()` of one or more: then there is one."""
        number = said.right.value if isinstance(said.right, Literal) else None
        if isinstance(number, int | float) and not said.every:
            least = {"eq": number, "ge": number, "gt": number + 1}.get(said.operator, 0)
            if least >= 1:
                found = self.found(of, at, self.here)
                return self.only_upper(found.upper, found.needs_node)
        return self.unknown()
