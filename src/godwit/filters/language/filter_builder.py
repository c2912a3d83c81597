"""What the grammar's phrases mean: the parser calls one method here for each phrase it has read, innermost first.

*Theory.* An operand is an attribute, a value, a reference to the subscriber's context, or a set such as `circle(…)`. A
comparison of operands is a `Claim`: an attribute, a value set, and whether it is denied. A quantifier makes it a
literal. AND and OR become a `Group`, which a NOT only marks; `filter_of` carries every NOT down to the literals in one
walk at the end, so that no nesting of NOTs costs more than the text is long.

*Rules.*
1. Without a quantifier a claim is about some value, and a denied claim the exact opposite: `x NOT IN (…)` is `NOT x IN
   (…)`.
2. A fault knows the word it is about. Nothing else is raised.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from lark import Transformer

from godwit.errors import BadValue, FilterTooBig
from godwit.filters import references, regions, sets
from godwit.filters.contexts import SENDER
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.filters.filters import (
    DEPTH_MAX,
    FALSE,
    LITERALS_MAX,
    TRUE,
    Filter,
    Missing,
    Some,
    all_of,
    any_of,
    negation,
    only,
)
from godwit.filters.language.scanning import EXACT_FUNCTIONS, EXACT_PART, Fault, Word
from godwit.filters.references import LOCATION, OpenSet, Reference
from godwit.filters.sets import EVERYTHING, ValueSet, complement
from godwit.filters.values import Kind, Point, Value, checked_value, kind_name, kind_of

DIGITS_MAX = 400
NAMESPACES = ("my", "sender")


class Attribute(NamedTuple):
    """An operand that names an attribute."""

    name: str
    word: Word


class Constant(NamedTuple):
    """An operand that is a value, or a reference to one."""

    value: Value | Reference
    word: Word


class Named(NamedTuple):
    """An operand that is a set of values."""

    values: ValueSet
    word: Word


class Pair(NamedTuple):
    """Two numbers side by side: a corner of a polygon."""

    lon: float
    lat: float
    word: Word


class Claim(NamedTuple):
    """What a comparison says of an attribute: that a value lies in `values`, or, denied, that none does."""

    attribute: str
    values: ValueSet
    denied: bool
    word: Word


Operand = Attribute | Constant | Named


class Group:
    """An AND or an OR that is still being read. NOT turns `negated`, whatever it holds."""

    __slots__ = ("conjunctive", "depth", "negated", "parts", "size")

    def __init__(self, conjunctive: bool, children: list["Node"]) -> None:
        self.conjunctive = conjunctive
        self.negated = False
        self.parts: list[Node] = []
        self.size, self.depth = 0, 1
        for child in children:
            if type(child) is not Group:
                self.parts.append(child)
                self.size += 1
                continue
            self.size += child.size
            if child.negated is False and child.conjunctive is conjunctive:
                self.parts += child.parts
                self.depth = max(self.depth, child.depth)
            else:
                self.parts.append(child)
                self.depth = max(self.depth, child.depth + 1)
        if self.size > LITERALS_MAX:
            raise FilterTooBig(
                f"a filter of {self.size} literals: at most {LITERALS_MAX} are allowed (IN takes a list as one literal)"
            )
        if self.depth > DEPTH_MAX:
            raise FilterTooBig(
                f"a filter nested {self.depth} deep: at most {DEPTH_MAX} levels of AND in OR in AND are allowed"
            )


Node = Filter | Group


def filter_of(node: Node, denied: bool = False) -> Filter:
    """The filter that a node means, or its negation."""
    if not isinstance(node, Group):
        return negation(node) if denied else node
    denied = denied != node.negated
    parts = [filter_of(part, denied) for part in node.parts]
    return all_of(*parts) if node.conjunctive != denied else any_of(*parts)


class FilterBuilder(Transformer[Word, Node]):
    """One method for each phrase of the grammar, and one for each terminal that is a value."""

    # ------------------------------------------------------------ AND, OR, NOT and literals

    def start(self, children: list[Any]) -> Node:
        return children[0]  # type: ignore[no-any-return]

    def disjunction(self, children: list[Any]) -> Node:
        return Group(False, children)

    def conjunction(self, children: list[Any]) -> Node:
        return Group(True, children)

    def inverted(self, children: list[Any]) -> Node:
        node: Node = children[1]
        if type(node) is Group:
            node.negated = not node.negated
            return node
        return negation(node)  # type: ignore[arg-type]

    def plain(self, children: list[Any]) -> Node:
        claim = children[0]
        if type(claim) is not Claim:
            return claim  # type: ignore[no-any-return]
        attribute, values, denied, _ = claim
        return only(attribute, complement(values)) if denied else Some(attribute, values)

    def quantified(self, children: list[Any]) -> Node:
        quantifier, denied, claim = children
        if type(claim) is not Claim:
            raise Fault(f"{quantifier.upper()} speaks of the values of an attribute", quantifier)
        values = complement(claim.values) if claim.denied != bool(denied) else claim.values
        return Some(claim.attribute, values) if quantifier.type == "ANY" else only(claim.attribute, values)

    def is_null(self, children: list[Any]) -> Node:
        return Missing(_attribute(children[0], "IS NULL").name)

    def is_not_null(self, children: list[Any]) -> Node:
        return Some(_attribute(children[0], "IS NOT NULL").name, EVERYTHING)

    # ------------------------------------------------------------ comparisons

    def bare(self, children: list[Any]) -> Claim | Filter:
        operand = children[0]
        match operand:
            case Attribute(name, word):
                return Claim(name, _TRUE_ONLY, False, word)
            case Constant(bool() as value):
                return TRUE if value else FALSE
        raise Fault(f"{operand.word} alone says nothing of an event", operand.word, ("a comparison with an attribute",))

    def compared(self, children: list[Any]) -> Claim:
        left, op, right = children
        if type(left) is Attribute and type(right) is Constant:
            return _comparison(left, op, right)
        if type(right) is Attribute and type(left) is Constant:
            return _comparison(right, op, left, _FLIPPED[op])
        raise _not_comparable(left, op, right)

    def chained(self, children: list[Any]) -> Claim:
        left, first, middle, second, right = children
        if type(middle) is not Attribute:
            raise Fault("a chain of comparisons has its attribute in the middle: 1 < price <= 5", middle.word)
        for op, end in ((first, left), (second, right)):
            if type(end) is not Constant:
                raise _not_comparable(middle, op, end)
        if first[0] != second[0] or first in ("<>", "!=", "=") or second in ("<>", "!=", "="):
            raise Fault("a chain of comparisons runs one way: 1 < price <= 5, or 5 >= price > 1", second)
        if first[0] == ">":
            left, first, right, second = right, second, left, first
        low_open, high_open = first in ("<", ">"), second in ("<", ">")
        values = _built(left.word, _range, left.value, right.value, low_open, high_open)
        return Claim(middle.name, values, False, middle.word)

    def between(self, children: list[Any]) -> Claim:
        operand, denied, low, high = children
        attribute = _attribute(operand, "BETWEEN")
        values = _built(low.word, _range, _value(low, "BETWEEN"), _value(high, "BETWEEN"), False, False)
        return Claim(attribute.name, values, bool(denied), attribute.word)

    def listed(self, children: list[Any]) -> Claim:
        operand, denied, *elements = children
        attribute = _attribute(operand, "IN")
        values = references.one_of([_value(element, "IN") for element in elements if element is not None])
        return Claim(attribute.name, values, bool(denied), attribute.word)

    def like(self, children: list[Any]) -> Claim:
        operand, denied, pattern, escape = children
        attribute = _attribute(operand, "LIKE")
        value = _value(pattern, "LIKE")
        if isinstance(value, Reference):
            if escape is not None:
                raise Fault(f"ESCAPE needs a pattern that is written out; in {value} the escape is \\", escape.word)
            return Claim(attribute.name, references.like(value), bool(denied), attribute.word)
        if not isinstance(value, str):
            raise Fault(
                f"LIKE compares with a pattern, and {pattern.word} is a {kind_name(kind_of(value))}",
                pattern.word,
                ("a 'text'",),
            )
        values = (
            _built(pattern.word, sets.like, value)
            if escape is None
            else _built(escape.word, sets.like, value, escape.value)
        )
        return Claim(attribute.name, values, bool(denied), attribute.word)

    def within(self, children: list[Any]) -> Claim:
        operand, denied, region = children
        attribute = _attribute(operand, "WITHIN")
        return Claim(attribute.name, _region(region), bool(denied), attribute.word)

    def within_call(self, children: list[Any]) -> Claim:
        attribute, region = children
        return self.within([attribute, None, region])

    def of_kind(self, children: list[Any]) -> Claim:
        operand, denied, kind = children
        attribute = _attribute(operand, "IS")
        values = _KINDS.get(kind.upper())
        if values is None:
            raise Fault(f"{kind} is no kind of value", kind, ("NULL", *_KINDS))
        return Claim(attribute.name, values, bool(denied), attribute.word)

    # ------------------------------------------------------------ operands

    def name(self, children: list[Any]) -> Operand:
        word = children[0]
        if "." in word:
            return _qualified(word)
        if len(word) == 5 and word.lower() == "myloc":
            return Constant(Reference(LOCATION), word)
        return Attribute(_checked_name(str(word), word), word)

    def QUOTED(self, word: Word) -> Operand:  # noqa: N802
        prefix, _, rest = word.partition('"')
        name = rest[:-1].replace('""', '"')
        if prefix.endswith("&"):
            name = _unescaped(name, word)
        name = _checked_name(name, word)
        if prefix.startswith("my."):
            return Constant(Reference(name), word)
        return (
            Attribute(_checked_name(SENDER + name, word), word) if prefix.startswith(SENDER) else Attribute(name, word)
        )

    def NUMBER(self, word: Word) -> Constant:  # noqa: N802
        if len(word) > DIGITS_MAX:
            raise Fault(f"a number of {len(word)} digits: no number needs more than {DIGITS_MAX}", word)
        value = int(word) if word.lstrip("+-").isdigit() else float(word)
        return Constant(_built(word, checked_value, value), word)

    def STRING(self, word: Word) -> Constant:  # noqa: N802
        if word[0] == "'":
            text = word[1:-1].replace("''", "'")
        else:
            text = _unescaped(word[3:-1].replace("''", "'"), word)
        return Constant(_built(word, checked_value, text), word)

    def true(self, children: list[Any]) -> Constant:
        return Constant(True, children[0])

    def false(self, children: list[Any]) -> Constant:
        return Constant(False, children[0])

    def typed(self, children: list[Any]) -> Constant:
        kind, text = children
        if kind.upper() != "TIMESTAMP":
            raise Fault(f"{kind} cannot stand before a text", kind, ("TIMESTAMP '2026-11-15T06:00:00Z'",))
        try:
            moment = datetime.fromisoformat(text.value)
        except ValueError:
            raise Fault(f"{text.word} is no time", text.word, ("an ISO time such as '2026-11-15T06:00:00Z'",)) from None
        return Constant(_built(text.word, checked_value, moment), kind)

    def pair(self, children: list[Any]) -> Pair:
        lon, lat = children
        return Pair(lon.value, lat.value, lon.word)

    def pairs(self, children: list[Any]) -> list[Pair]:
        return children

    def call(self, children: list[Any]) -> Operand:
        callee, *arguments = children
        arguments = [argument for argument in arguments if argument is not None]
        word = callee if isinstance(callee, Word) else callee.word
        function = _FUNCTIONS.get(word.lower())
        if function is not None:
            return function(arguments, word)
        operand = self.name([word]) if isinstance(callee, Word) else callee
        if isinstance(operand, Constant) and isinstance(operand.value, Reference):
            return Named(_steps(operand.value, arguments, word), word)
        if word.lower() in EXACT_FUNCTIONS:
            raise Fault(f"{word}(…) {EXACT_PART}", word)
        raise Fault(f"there is no function {word}", word, ("within", *SET_FUNCTIONS, "myloc"))


# ---------------------------------------------------------------- operands, checked


def _built(word: Word, build: Callable[..., Any], *arguments: Any) -> Any:
    """What `build` makes of the arguments; its complaint becomes one about `word`."""
    try:
        return build(*arguments)
    except BadValue as error:
        raise Fault(str(error), word) from None


def _checked_name(name: str, word: Word) -> str:
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise Fault(f"an attribute's name has 1 to {NAME_LENGTH_MAX} characters, this has {len(name)}", word)
    _built(word, checked_value, name)
    return name


def _qualified(word: Word) -> Attribute | Constant:
    namespace, _, name = word.partition(".")
    if namespace not in NAMESPACES:
        raise Fault(
            f'there is no namespace {namespace}; an attribute with a dot in its name stands in quotes: "{word}"',
            word,
            NAMESPACES,
        )
    if "." in name:
        raise Fault(f'a name with a dot in it stands in quotes: {namespace}."{name}"', word)
    if namespace == "my":
        return Constant(Reference(_checked_name(name, word)), word)
    return Attribute(_checked_name(str(word), word), word)


def _attribute(operand: Operand, what: str) -> Attribute:
    if type(operand) is Attribute:
        return operand
    raise Fault(f"{what} asks about an attribute, and {operand.word} is none", operand.word, ("an attribute",))


def _value(operand: Operand, what: str) -> Value | Reference:
    if type(operand) is Constant:
        return operand.value
    if type(operand) is Attribute:
        raise Fault(
            f"{what} takes values, and {operand.word} is an attribute; a text stands in 'single quotes'",
            operand.word,
            ("a value",),
        )
    raise Fault(f"{what} takes values, and {operand.word} is none; WITHIN takes a region", operand.word, ("a value",))


def _region(operand: Operand) -> ValueSet:
    if isinstance(operand, Named):
        return operand.values
    if isinstance(operand, Constant) and isinstance(operand.value, Reference):
        return references.vicinity(operand.value, 0)
    raise Fault(f"WITHIN takes a region or places, and {operand.word} is neither", operand.word, _REGIONS)


def _not_comparable(left: Operand, op: Word, right: Operand) -> Fault:
    if type(left) is Attribute and type(right) is Attribute:
        return Fault(
            f"{left.word} and {right.word} are attributes: to compare two {EXACT_PART} (a text stands in '…')",
            right.word,
            ("a value",),
        )
    for operand in (left, right):
        if isinstance(operand, Named):
            return Fault(
                f"{operand.word}(…) is no value to compare by {op}", operand.word, ("a value", "WITHIN for a region")
            )
    return Fault(f"neither side of {op} is an attribute", op, ("an attribute on one side",))


# ---------------------------------------------------------------- comparisons with one value

_FLIPPED = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _comparison(attribute: Attribute, op: Word, constant: Constant, meant: str | None = None) -> Claim:
    value = constant.value
    match meant or op:
        case "=":
            values = references.one_of((value,))
        case "<>" | "!=":
            values = complement(references.one_of((value,)))
        case "<":
            values = _built(constant.word, _range, None, value, False, True)
        case "<=":
            values = _built(constant.word, _range, None, value, False, False)
        case ">":
            values = _built(constant.word, _range, value, None, True, False)
        case _:
            values = _built(constant.word, _range, value, None, False, False)
    return Claim(attribute.name, values, False, attribute.word)


def _range(low: Any, high: Any, low_open: bool, high_open: bool) -> ValueSet:
    return references.interval(low, high, low_open=low_open, high_open=high_open)


# ---------------------------------------------------------------- functions


def _number(argument: Any, what: str, name: Word) -> float:
    if isinstance(argument, Constant) and type(argument.value) in (int, float):
        return argument.value  # type: ignore[return-value]
    raise Fault(f"{what} of {name} must be a number", getattr(argument, "word", name), ("a number",))


def _numbers(arguments: list[Any], names: str, name: Word) -> list[float]:
    wanted = names.split(", ")
    if len(arguments) != len(wanted):
        raise Fault(f"{name} takes {len(wanted)} numbers: {name}({names})", name)
    return [_number(argument, what, name) for argument, what in zip(arguments, wanted, strict=True)]


def _point(arguments: list[Any], name: Word) -> Operand:
    return Constant(_built(name, Point, *_numbers(arguments, "lon, lat", name)), name)


def _box(arguments: list[Any], name: Word) -> Operand:
    return Named(_built(name, regions.box, *_numbers(arguments, "west, south, east, north", name)), name)


def _circle(arguments: list[Any], name: Word) -> Operand:
    match arguments:
        case [Constant(Reference() | Point() as centre), radius]:
            pass
        case [lon, lat, radius]:
            centre = _built(name, Point, _number(lon, "lon", name), _number(lat, "lat", name))
        case _:
            raise Fault(f"{name} takes {name}(lon, lat, metres) or {name}(myloc, metres)", name)
    radius_m = radius.value if isinstance(radius, Constant) else None
    if not isinstance(radius_m, Reference):
        radius_m = _number(radius, "the radius", name)
    return Named(_built(name, references.circle, centre, radius_m), name)


def _polygon(arguments: list[Any], name: Word) -> Operand:
    corners: list[Pair] = []
    for argument in arguments:
        if isinstance(argument, Pair):
            corners.append(argument)
        elif isinstance(argument, list):
            corners += argument
        else:
            raise Fault(
                f"{name} takes its corners as pairs: {name}(8.5 47.3, 8.6 47.3, 8.5 47.4)", argument.word, ("lon lat",)
            )
    return Named(_built(name, regions.polygon, [_built(c.word, Point, c.lon, c.lat) for c in corners]), name)


def _texts(arguments: list[Any], name: Word) -> list[str]:
    for argument in arguments:
        if not isinstance(argument, Constant) or not isinstance(argument.value, str):
            raise Fault(f"{name} takes names of places as texts", getattr(argument, "word", name), ("a 'text'",))
    return [argument.value for argument in arguments]


def _places(arguments: list[Any], name: Word) -> Operand:
    return Named(sets.places(_texts(arguments, name)), name)


def _place(arguments: list[Any], name: Word) -> Operand:
    names = _texts(arguments, name)
    if len(names) != 1:
        raise Fault(f"{name} takes the name of one place; places('a', 'b') takes several", name)
    return Named(OpenSet("place", (names[0], name.start_pos)), name)


def _steps(place: Reference, arguments: list[Any], name: Word) -> ValueSet:
    if len(arguments) != 1 or not isinstance(arguments[0], Constant):
        raise Fault(f"{name} takes a number of steps: {name}(2)", name)
    values: ValueSet = _built(arguments[0].word, references.vicinity, place, arguments[0].value)
    return values


_FUNCTIONS: dict[str, Callable[[list[Any], Word], Operand]] = {
    "circle": _circle,
    "box": _box,
    "polygon": _polygon,
    "places": _places,
    "place": _place,
    "point": _point,
}
SET_FUNCTIONS = tuple(_FUNCTIONS)
"""The functions of a filter, which make a value or a set."""
_REGIONS = ("circle(…)", "box(…)", "polygon(…)", "places(…)", "place(…)", "myloc")

# ---------------------------------------------------------------- constants

_TRUE_ONLY = sets.one_of([True])
_KINDS: dict[str, ValueSet] = {
    "NUMBER": sets.all_of_kind(Kind.NUMBER),
    "TEXT": sets.all_of_kind(Kind.TEXT),
    "TIME": sets.all_of_kind(Kind.TIME),
    "BOOL": sets.one_of([False, True]),
    "POINT": regions.box(-180, -90, 180, 90),
}

_ESCAPE = re.compile(r"\\(?:(\\)|([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|)")


def _unescaped(text: str, word: Word) -> str:
    r"""The text of U&'…': `\XXXX` and `\+XXXXXX` are code points, `\\` is a backslash."""

    def character(escape: re.Match[str]) -> str:
        backslash, short, long = escape.groups()
        code = int(short or long or "110000", 16)
        if backslash is None and code > 0x10FFFF:
            raise Fault(
                f"{escape[0]} names no character: \\XXXX and \\+XXXXXX do, in hexadecimal; \\\\ is a backslash", word
            )
        return backslash or chr(code)

    return _ESCAPE.sub(character, text)
