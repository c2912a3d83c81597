"""From the text of an XPath 1.0 expression to its routable bounds.

*Theory.* lxml evaluates XPath; here an expression is read for two other reasons: to find a filter to route by, and to
tell how long it may take. The grammar is the whole of XPath 1.0. What is built is a tree of XQL (`xql/tree.py`), for
which claims about filters are known, with `Unknown` for what XQL has not.

*Rules.*
1. Names are bound to namespaces by the query's prologue; an unbound prefix is an error. In the tree names have their
   namespace instead of a prefix, and `namespaces` has all that are named, '' for none.
2. Functions that XPath applies to the first node of a set (`contains(a, 'x')`) hold only if they hold for some node:
   `Weak`, and the same where there is one node.
3. `degree` is the power of the document's size with which evaluation grows: each axis that leads to many nodes (`//`,
   `ancestor`, `following` ...) multiplies, in a predicate for each node that it is asked of; there `..` and paths from
   the document lead to many nodes too. `parts` counts words and
   signs, each of which may take a look at every node; `strings` counts comparisons and calls, each of which may take
   the text of every node. A search for a long text compares each character with many: `searched` is how many, and
   `is_open` that nobody knows, because the text comes from the document.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from godwit.errors import FilterSyntaxError, FilterTooBig
from godwit.filters.language.scanning import Fault
from godwit.languages.xml_scanning import NAME, token_pattern, tokens_of
from godwit.languages.xml_values import is_plain_number, number_of
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
    Literal,
    Not,
    Or,
    Path,
    Step,
    Union,
    Unknown,
    Weak,
)

__all__ = ["FUNCTIONS", "Understood", "understood"]

TEXT_LENGTH_MAX = 32_768
PARTS_MAX = 2_000
NESTING_MAX = 40

TOKEN = token_pattern(
    rf"(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<name>{NAME})|(?P<sign>//|::|\.\.|!=|<=|>=|[/.@*:\[\](),=<>|+\-$])"
)
PROLOGUE = re.compile(rf"""\s*declare\s+namespace\s+({NAME})\s*=\s*("[^"]*"|'[^']*')\s*;""")
FUNCTIONS = frozenset(
    [
        *("last", "position", "count", "id", "local-name", "namespace-uri", "name", "string", "concat", "starts-with"),
        *(
            "contains",
            "substring-before",
            "substring-after",
            "substring",
            "string-length",
            "normalize-space",
            "translate",
        ),
        *("boolean", "not", "true", "false", "lang", "number", "sum", "floor", "ceiling", "round"),
    ]
)
SLOW_FUNCTIONS = {"translate": 16}  # times as slow as others
SEARCHES = {"contains": (64, 1), "substring-before": (64, 1), "substring-after": (64, 1), "translate": (64, 8)}
"""Functions that look for each character of a text: how many they are quick with, and how slow the others are."""
NODE_TYPES = frozenset(["node", "text", "comment", "processing-instruction"])
NEAR_AXES = frozenset(["child", "attribute", "self", "parent", "namespace"])
FAR_AXES = frozenset(
    [
        *("descendant", "descendant-or-self", "ancestor", "ancestor-or-self"),
        *("following", "preceding", "following-sibling", "preceding-sibling"),
    ]
)
COMPARISONS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
LEVELS = {"or": 1, "and": 2, "=": 3, "!=": 3, "+": 5, "-": 5, "*": 6, "div": 6, "mod": 6}
LEVELS |= dict.fromkeys(("<", "<=", ">", ">="), 4)
"""Operators, from the loosest binding to the tightest."""
FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
UNKNOWN = Unknown()
NODES = Call("node")  # nodes that nothing is known of
PARENT = Call("node", ())
ANY_ELEMENT, LOCAL_NAME = Element("*", "*"), Call("local-name")


@dataclass(frozen=True, slots=True)
class Understood:
    """What was read: the expression for XPath, its prefixes, and what is known of it."""

    expression: str
    prefixes: Mapping[str, str]
    said: Expression
    namespaces: frozenset[str]
    degree: int
    parts: int
    strings: int
    searched: int
    is_open: bool


def understood(text: str, operators: Collection[str] = ()) -> Understood:
    """Read a query: `declare namespace p = "uri";` as often as needed, then an expression."""
    if len(text) > TEXT_LENGTH_MAX:
        raise FilterTooBig(f"an XPath expression of {len(text):,} characters: at most {TEXT_LENGTH_MAX:,} are allowed")
    prefixes: dict[str, str] = {}
    start = 0
    while (found := PROLOGUE.match(text, start)) is not None:
        prefixes[found[1]] = found[2][1:-1]
        start = found.end()
    try:
        reader = _Reader(text, start, prefixes, operators)
        said = reader.whole()
    except Fault as fault:
        raise FilterSyntaxError.at(fault.offset, fault.message, text, fault.expected) from None
    return Understood(
        _from_document(text, start, reader.relative),
        prefixes,
        said.truth(),
        frozenset(reader.namespaces),
        max(said.degree, 1),
        len(reader.tokens),
        reader.strings,
        reader.searched,
        reader.is_open,
    )


def _from_document(text: str, start: int, relative: list[int]) -> str:
    """The expression with a / in front of each path that is asked of the document: lxml would ask the root element."""
    pieces = []
    for offset in relative:
        pieces.append(text[start:offset])
        start = offset
    return "/".join([*pieces, text[start:]]).strip()


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: what filters know of it, whether it is a set of nodes, and how evaluation grows."""

    said: Expression
    kind: str  # "nodes", "truth", "text", "number", "unknown"
    degree: int = 0
    is_plain: bool = True  # of a number: whether every reader reads it alike

    def truth(self) -> Expression:
        """The part where a truth value is wanted: of nodes, whether there are some."""
        return self.said if self.kind in ("nodes", "truth") else UNKNOWN


@dataclass(slots=True)
class _Reader:
    text: str
    start: int
    prefixes: Mapping[str, str]
    operators: Collection[str]
    namespaces: set[str] = field(default_factory=set)
    at: int = 0
    nesting: int = 0
    predicate_depth: int = 0
    strings: int = 0
    searched: int = 0
    is_open: bool = False
    relative: list[int] = field(default_factory=list)  # where paths begin that are asked of the document
    kinds: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kinds, self.tokens, self.starts = tokens_of(self.text, TOKEN, self.start)
        if len(self.tokens) > 4 * PARTS_MAX:
            raise FilterTooBig(f"an XPath expression of more than {4 * PARTS_MAX:,} words and signs")

    # ------------------------------------------------------------ tokens

    def sign(self, *signs: str) -> str | None:
        """The sign that stands here, if it is one of these. No token of another kind is written so."""
        token = self.tokens[self.at]
        if token not in signs:
            return None
        self.at += 1
        return token

    def word(self, *words: str) -> str | None:
        if self.kinds[self.at] == "name" and self.tokens[self.at] in words:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def need(self, sign: str) -> None:
        if self.sign(sign) is None:
            raise self.unexpected(f"'{sign}'")

    def unexpected(self, *expected: str) -> Fault:
        if self.kinds[self.at] == "end":
            message = "the expression ends too early" if self.at else "the expression is empty"
        else:
            message = f"{self.tokens[self.at][:40]} has no place here"
        return Fault(message, self.starts[self.at], expected)

    # ------------------------------------------------------------ expressions

    def whole(self) -> _Part:
        said = self.expression()
        if self.kinds[self.at] != "end":
            raise self.unexpected("an operator", "'/'", "'['", "the end")
        return said

    def expression(self) -> _Part:
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            raise FilterTooBig(f"an XPath expression nested deeper than {NESTING_MAX} brackets")
        part = self.operation(1)
        self.nesting -= 1
        return part

    def operation(self, least: int) -> _Part:
        """An expression whose operators bind at least so tightly."""
        left = self.signed()
        while (level := self.level()) >= least:
            token = self.tokens[self.at]
            parts = [left]
            while self.tokens[self.at] == token and self.kinds[self.at] != "text":
                self.at += 1
                parts.append(self.operation(level + 1))
                if level > 2:
                    break
            self.strings += 1
            left = _operated(token, parts)
        return left

    def level(self) -> int:
        """How tightly the operator binds that stands here; 0 when there is none."""
        return LEVELS.get(self.tokens[self.at], 0) if self.kinds[self.at] in ("sign", "name") else 0

    def signed(self) -> _Part:
        signs = 0
        while self.sign("-"):
            signs += 1
        part = self.union()
        if not signs:
            return part
        if isinstance(part.said, Literal) and part.kind == "number" and signs == 1:
            return _Part(Literal(-part.said.value), "number", is_plain=part.is_plain)  # type: ignore[operator]
        return _unknown("unknown", part)

    def union(self) -> _Part:
        parts = [self.path()]
        while self.sign("|"):
            parts.append(self.path())
        if len(parts) == 1:
            return parts[0]
        return _Part(Union(tuple(part.said for part in parts)), "nodes", max(part.degree for part in parts))

    # ------------------------------------------------------------ paths

    def path(self) -> _Part:
        kind, token, following = (
            self.kinds[self.at],
            self.tokens[self.at],
            self.tokens[min(self.at + 1, len(self.tokens) - 1)],
        )
        if kind == "text":
            self.at += 1
            return _Part(Literal(token[1:-1]), "text")
        if kind == "number":
            self.at += 1
            number = number_of(token)
            assert number is not None
            return _Part(Literal(number), "number", is_plain=is_plain_number(token))
        if token == "$" and kind == "sign":
            raise Fault("variables have no value here", self.starts[self.at])
        is_call = kind == "name" and following == "(" and token not in NODE_TYPES
        if is_call or (kind == "sign" and token == "("):
            return self.from_primary()
        return self.location()

    def from_primary(self) -> _Part:
        """A call or brackets, and what is chosen of them."""
        if self.sign("("):
            first = self.expression()
            self.need(")")
        else:
            first = self.call()
        picks, degree = self.predicates()
        if picks:
            degree = max(first.degree, 1) + degree if degree else first.degree
            first = _Part(Filtered(first.said if first.kind == "nodes" else NODES, picks), "nodes", degree)
        if self.tokens[self.at] not in ("/", "//") or self.kinds[self.at] != "sign":
            return first
        start = first.said if first.kind == "nodes" else NODES
        steps, degree = self.steps([Step(start)], _Growth(first.degree, first.degree))
        return _Part(_path(False, steps), "nodes", degree)

    def location(self) -> _Part:
        if not self.predicate_depth and self.tokens[self.at] not in ("/", "//"):
            self.relative.append(self.starts[self.at])
        opening = self.sign("/", "//")
        if opening == "/" and not self.begins_step():
            return _Part(Path(True, ()), "nodes")
        is_far = opening == "//" or (opening == "/" and self.predicate_depth > 0)  # asked again for each node
        term, far, within = self.step()
        growth = _Growth().after(far + is_far, within, 0)
        steps, degree = self.steps([Step(term, opening == "//")], growth)
        return _Part(_path(opening is not None, steps), "nodes", degree)

    def steps(self, steps: list[Step], growth: "_Growth") -> tuple[list[Step], int]:
        while (sign := self.sign("/", "//")) is not None:
            term, far, within = self.step()
            if term is PARENT and growth.far:  # each of many nodes leads to one, and is looked for among those found
                far = 1
            growth = growth.after(far + (sign == "//"), within, 0 if self.predicate_depth else 1)
            steps.append(Step(term, sign == "//"))
        return steps, growth.degree

    def begins_step(self) -> bool:
        return self.kinds[self.at] == "name" or self.tokens[self.at] in (".", "..", "@", "*")

    def step(self) -> tuple[Expression, int, int]:
        """One step, whether it leads to many nodes from one, and the degree of what is asked of each."""
        axis = "child"
        if self.kinds[self.at] != "name":
            if self.sign("."):
                return Current(), 0, 0
            if self.sign(".."):
                return PARENT, int(self.predicate_depth > 0), 0
            if self.sign("@"):
                axis = "attribute"
        elif self.tokens[self.at + 1] == "::":
            axis = self.tokens[self.at]
            if axis not in NEAR_AXES | FAR_AXES:
                raise Fault(f"there is no axis {axis}", self.starts[self.at], tuple(sorted(NEAR_AXES | FAR_AXES)))
            self.at += 2
        test = self.node_test(axis)
        picks, degree = self.predicates()
        if axis == "self" and test is NODES:
            test = Current()
        elif axis not in ("child", "attribute"):
            test = NODES
        if picks:
            if test == ANY_ELEMENT and isinstance(picks[0], Compare) and picks[0].left == LOCAL_NAME:
                name = picks[0].right
                assert isinstance(name, Literal)
                test, picks = Element(str(name.value), "*"), picks[1:]
            picks = tuple([UNKNOWN if _asks_name(pick) else pick for pick in picks])
        far = axis in FAR_AXES or (axis == "parent" and self.predicate_depth > 0)
        return (Filtered(test, picks) if picks else test), int(far), degree

    def node_test(self, axis: str) -> Expression:
        if self.kinds[self.at] == "name" and self.tokens[self.at] in NODE_TYPES and self.tokens[self.at + 1] == "(":
            kind = self.tokens[self.at]
            self.at += 2
            if kind == "processing-instruction" and self.kinds[self.at] == "text":
                self.at += 1
            self.need(")")
            return Call("textNode") if kind == "text" and axis == "child" else NODES
        if self.sign("*"):
            return Attribute("*", "*") if axis == "attribute" else Element("*", "*")
        if self.kinds[self.at] != "name":
            raise self.unexpected("a name", "'*'", "'@'", "'.'", "'('", "a function", "a text", "a number")
        name, prefix = self.tokens[self.at], ""
        self.at += 1
        if self.tokens[self.at] == ":" and self.kinds[self.at] == "sign":
            prefix, start = name, self.starts[self.at - 1]
            self.at += 1
            if prefix not in self.prefixes:
                known = tuple(sorted(self.prefixes)) or (f'declare namespace {prefix} = "…"; in front',)
                raise Fault(f"the prefix {prefix} is not bound to a namespace", start, known)
            if self.sign("*"):
                return Attribute("*", "*") if axis == "attribute" else Element("*", "*")
            if self.kinds[self.at] != "name":
                raise self.unexpected("a name", "'*'")
            name = self.tokens[self.at]
            self.at += 1
        if axis == "attribute":
            return Attribute("*", "*") if prefix else Attribute(name)
        namespace = self.prefixes[prefix] if prefix else ""
        self.namespaces.add(namespace)
        return Element(name, f"{{{namespace}}}")

    def predicates(self) -> tuple[tuple[Expression, ...], int]:
        picks: list[Expression] = []
        degree = 0
        while self.sign("["):
            self.predicate_depth += 1
            part = self.expression()
            self.predicate_depth -= 1
            self.need("]")
            picks.append(part.truth())
            degree = max(degree, part.degree)
        return tuple(picks), degree

    # ------------------------------------------------------------ functions

    def call(self) -> _Part:
        name, start = self.tokens[self.at], self.starts[self.at]
        if name not in FUNCTIONS and name not in self.operators:
            known = ", ".join(sorted(self.operators)) or "none"
            raise Fault(
                f"there is no function {name}(): operators that users defined are {known}",
                start,
                tuple(sorted(FUNCTIONS)),
            )
        self.at += 2
        self.strings += SLOW_FUNCTIONS.get(name, 1)
        arguments: list[_Part] = []
        if not self.sign(")"):
            arguments.append(self.expression())
            while self.sign(","):
                arguments.append(self.expression())
            self.need(")")
        if name in SEARCHES:
            self.count_search(name, arguments)
        return self.called(name, arguments)

    def count_search(self, name: str, arguments: list[_Part]) -> None:
        """Note how long a search may take. (rule 3)"""
        quick_with, weight = SEARCHES[name]
        match arguments:
            case [_, _Part(kind="text", said=Literal(value=str(text))), *_]:
                self.searched += weight * max(len(text) - quick_with, 0)
            case [_, _, *_]:
                self.is_open = True

    def called(self, name: str, arguments: list[_Part]) -> _Part:
        match name, arguments:
            case "not", [part]:
                return _truth(Not(part.truth()), part)
            case "boolean", [part]:
                return _truth(part.truth(), part)
            case (("true" | "false"), []):
                return _Part(Call(name), "truth")
            case (
                ("contains" | "starts-with"),
                [_Part(kind="nodes", said=said), _Part(kind="text", said=Literal(value=text))],
            ):
                if text:
                    operator = "contains" if name == "contains" else "startsw"
                    return _truth(_of_first(said, Compare(operator, said, Literal(text))), *arguments)
            case "count", [_Part(kind="nodes", said=said)]:
                return _Part(Applied(said, Call("count")), "number", arguments[0].degree)
            case (("string" | "normalize-space"), [_Part(kind="nodes", said=said)]):
                return _Part(Applied(said, Call("text")), "first text", arguments[0].degree)
            case "number", [_Part(kind="nodes", said=said)]:
                return _Part(Applied(said, Call("value")), "first number", arguments[0].degree)
            case "local-name", []:
                return _Part(Call("local-name"), "name")
        if name in self.operators and arguments:
            first = arguments[0]
            return _truth(Weak(first.said) if first.kind == "nodes" else UNKNOWN, *arguments)
        return _unknown("unknown", *arguments)


class _Growth(NamedTuple):
    """How evaluation of a path grows: with so many steps that lead to many nodes, and in all. (rule 3)"""

    far: int = 0
    degree: int = 0

    def after(self, far: int, within: int, least: int) -> "_Growth":
        """With one more step; `within` is asked of each of its nodes, of which there may be many by `least`."""
        far += self.far
        return _Growth(far, max(self.degree, far, max(far, least) + within if within else 0))


def _operated(operator: str, parts: list[_Part]) -> _Part:
    if operator == "or":
        return _truth(Or(tuple(part.truth() for part in parts)), *parts)
    if operator == "and":
        return _truth(And(tuple(part.truth() for part in parts)), *parts)
    if operator in COMPARISONS:
        return _compared(COMPARISONS[operator], *parts)
    return _unknown("unknown", *parts)


def _truth(said: Expression, *parts: _Part) -> _Part:
    return _Part(said, "truth", max((part.degree for part in parts), default=0))


def _unknown(kind: str, *parts: _Part) -> _Part:
    return _Part(UNKNOWN, kind, max((part.degree for part in parts), default=0))


def _path(absolute: bool, steps: list[Step]) -> Expression:
    if len(steps) == 1 and not absolute:
        return steps[0].term
    return Path(absolute, tuple(steps))


def _of_first(said: Expression, compare: Expression) -> Expression:
    """A test of the first node of a set: of one that has one node, the test itself. (rule 2)"""
    return compare if isinstance(said, Current | Attribute) and said != Attribute("*", "*") else Weak(compare, "one")


def _asks_name(pick: Expression) -> bool:
    return isinstance(pick, Compare) and pick.left == Call("local-name")


def _compared(operator: str, left: _Part, right: _Part) -> _Part:
    """A comparison, as far as filters know of it."""
    if left.kind in ("text", "number") and right.kind not in ("text", "number"):
        left, right, operator = right, left, FLIPPED[operator]
    degree = left.degree + right.degree
    value = right.said.value if isinstance(right.said, Literal) and right.kind in ("text", "number") else None
    said: Expression = UNKNOWN
    if left.kind == right.kind == "nodes":
        said = Weak(And((left.said, right.said)))
    elif value is not None:
        said = _against(operator, left, value)
        if not (right.is_plain if right.kind == "number" else is_plain_number(str(value))) and _compares_numbers(said):
            said = Weak(_compared_nodes(said))  # lxml may read the number otherwise
    return _Part(said, "truth", degree)


def _compares_numbers(said: Expression) -> bool:
    compare = said.inner if isinstance(said, Weak) else said
    return isinstance(compare, Compare) and isinstance(compare.right, Literal) and type(compare.right.value) is not str


def _compared_nodes(said: Expression) -> Expression:
    compare = said.inner if isinstance(said, Weak) else said
    assert isinstance(compare, Compare)
    return compare.left


def _against(operator: str, left: _Part, value: str | int | float) -> Expression:
    if left.kind == "name" and operator == "eq" and isinstance(value, str):
        return Compare("eq", Call("local-name"), Literal(value))
    number = number_of(value) if isinstance(value, str) else value
    if isinstance(left.said, Applied) and left.said.call.name == "count":
        return UNKNOWN if number is None else Weak(Compare(operator, left.said, Literal(number)))
    if operator not in ("eq", "ne") or isinstance(value, int | float):
        return _against_number(operator, left, number)
    if left.kind == "nodes":
        nodes = _without_text_step(left.said)
        if nodes is None:
            return Compare(operator, left.said, Literal(value))
        return Compare("eq", nodes, Literal(value)) if operator == "eq" and value else Weak(nodes)
    if left.kind == "first text" and operator == "eq" and value:
        assert isinstance(left.said, Applied)
        return _of_first(left.said.of, Compare("eq", left.said.of, Literal(value)))
    return UNKNOWN


def _against_number(operator: str, left: _Part, number: int | float | None) -> Expression:
    """XPath reads texts as numbers here. What is not a number is unequal to all, and neither less nor more."""
    if number is None or left.kind not in ("nodes", "first number"):
        return UNKNOWN
    of = left.said.of if isinstance(left.said, Applied) else left.said
    if operator == "ne":
        return Weak(of) if left.kind == "nodes" else UNKNOWN
    nodes = _without_text_step(of)
    if nodes is not None:
        return Weak(nodes)
    compare = Compare(operator, of, Literal(number))
    return compare if left.kind == "nodes" else _of_first(of, compare)


def _without_text_step(said: Expression) -> Expression | None:
    """For `a/text()` the path `a`: its texts are what is compared, one by one."""
    if said == Call("textNode"):
        return Current()
    if isinstance(said, Path) and said.steps and said.steps[-1] == Step(Call("textNode")) and len(said.steps) > 1:
        return _path(said.absolute, list(said.steps[:-1]))
    return None
