"""From the text of an XQL query to its tree.

*Theory.* A scanner cuts the text into words and signs; a parser by recursive descent follows the proposal's order of
binding, from the loosest: `$or$`, `$and$`, `$not$`, `$union$`, `$intersect$`, comparison, `/` and `//`, `!`, `[ ]`, `(
)`. Words between dollars are always operators. Without dollars, as in later versions of XQL, a word is an operator
where one can stand: after an operand; and `not`, `any`, `all` before one. So elements may be called `and`, and `all/x`
is a path.

*Rules.*
1. Length, parts and nesting are bounded; a query past them is `FilterTooBig`.
2. An operator or function that is neither XQL's nor among the given ones is an error that lists the known ones.
"""

from collections.abc import Collection

from godwit.errors import FilterSyntaxError, FilterTooBig
from godwit.filters.language.scanning import Fault
from godwit.languages.xml_scanning import NAME, token_pattern, tokens_of
from godwit.languages.xml_values import number_of
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
    Step,
    Union,
)
from godwit.languages.xql.vocabulary import COLLECTIONS, FUNCTIONS, METHODS, NAMED, SIGNS, WORDS

__all__ = ["NESTING_MAX", "PARTS_MAX", "TEXT_LENGTH_MAX", "parsed_query"]

TEXT_LENGTH_MAX = 32_768
PARTS_MAX = 2_000
NESTING_MAX = 40

TOKEN = token_pattern(
    rf"(?P<dollar>\$[A-Za-z_]\w*\$)|(?P<name>{NAME})|(?P<number>-?(?:\d+(?:\.\d+)?|\.\d+))"
    r"|(?P<sign>//|!=|<=|>=|[/.@*:\[\](),!=<>|?])"
)
OPERATORS = WORDS - {"not", "any", "all"}  # words that stand between operands
BEGINS_OPERAND = frozenset([".", "@", "*", "("])


def parsed_query(text: str, operators: Collection[str] = ()) -> Expression:
    """The tree of a query. `operators` are the names that users defined."""
    if len(text) > TEXT_LENGTH_MAX:
        raise FilterTooBig(f"an XQL query of {len(text):,} characters: at most {TEXT_LENGTH_MAX:,} are allowed")
    try:
        return _Parser(text, operators).query()
    except Fault as fault:
        raise FilterSyntaxError.at(fault.offset, fault.message, text, fault.expected) from None


class _Parser:
    """The tokens, and where in them we are."""

    def __init__(self, text: str, operators: Collection[str]) -> None:
        self.operators = frozenset(operators)
        self.kinds, tokens, self.starts = tokens_of(text, TOKEN)
        self.tokens = [
            token.strip("$") if kind == "dollar" else token for kind, token in zip(self.kinds, tokens, strict=True)
        ]
        self.at = 0
        self.parts = 0
        self.nesting = 0

    # ------------------------------------------------------------ tokens

    def sign(self, *signs: str) -> str | None:
        """Take one of these signs, if it stands here."""
        if self.kinds[self.at] == "sign" and self.tokens[self.at] in signs:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def word(self, word: str) -> bool:
        """Take this operator, between dollars or as a plain word after an operand."""
        if self.tokens[self.at] == word and self.kinds[self.at] in ("dollar", "name"):
            self.at += 1
            return True
        return False

    def prefix_word(self, word: str) -> bool:
        """Take this operator before its operand: a plain word is one when an operand follows."""
        if self.tokens[self.at] != word or self.kinds[self.at] not in ("dollar", "name"):
            return False
        if self.kinds[self.at] == "name":
            kind, token = self.kinds[self.at + 1], self.tokens[self.at + 1]
            begins = kind == "dollar" or token in BEGINS_OPERAND or (kind == "name" and token not in OPERATORS)
            if not begins:
                return False
        self.at += 1
        return True

    def need(self, sign: str) -> None:
        if self.sign(sign) is None:
            raise self.unexpected(f"'{sign}'")

    def unexpected(self, *expected: str) -> Fault:
        kind, token, start = self.kinds[self.at], self.tokens[self.at], self.starts[self.at]
        if kind == "end":
            message = "the query ends too early" if self.at else "the query is empty"
        else:
            message = f"{token[:40]} has no place here"
        return Fault(message, start, expected)

    def count(self) -> None:
        self.parts += 1
        if self.parts > PARTS_MAX:
            raise FilterTooBig(f"an XQL query of more than {PARTS_MAX:,} names, literals and operators")

    # ------------------------------------------------------------ from the loosest binding to the tightest

    def query(self) -> Expression:
        said = self.disjunction()
        if self.kinds[self.at] != "end":
            raise self.unexpected("an operator", "'/'", "'['", "the end")
        return said

    def nested(self) -> Expression:
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            raise FilterTooBig(f"an XQL query nested deeper than {NESTING_MAX} brackets")
        said = self.disjunction()
        self.nesting -= 1
        return said

    def disjunction(self) -> Expression:
        parts = [self.conjunction()]
        while self.word("or"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else Or(_flat(Or, parts))

    def conjunction(self) -> Expression:
        parts = [self.negation()]
        while self.word("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else And(_flat(And, parts))

    def negation(self) -> Expression:
        negations = 0
        while self.prefix_word("not"):
            self.count()
            negations += 1
        said = self.union()
        for _ in range(min(negations, 2 - negations % 2)):  # two negations are kept as two, and more as one or two
            said = Not(said)
        return said

    def union(self) -> Expression:
        parts = [self.intersection()]
        while self.word("union") or self.sign("|"):
            parts.append(self.intersection())
        return parts[0] if len(parts) == 1 else Union(_flat(Union, parts))

    def intersection(self) -> Expression:
        parts = [self.comparison()]
        while self.word("intersect"):
            parts.append(self.comparison())
        return parts[0] if len(parts) == 1 else Intersect(_flat(Intersect, parts))

    def comparison(self) -> Expression:
        every = self.prefix_word("all")
        some = not every and self.prefix_word("any")
        left = self.operand()
        operator = self.comparison_operator()
        if operator is None:
            if every or some:
                raise self.unexpected("a comparison")
            if isinstance(left, Literal):
                raise self.unexpected("a comparison")
            return left
        self.count()
        return Compare(operator, left, self.operand(), every)

    def comparison_operator(self) -> str | None:
        sign = self.sign(*SIGNS)
        if sign is not None:
            return SIGNS[sign]
        kind, token = self.kinds[self.at], self.tokens[self.at]
        if kind not in ("dollar", "name") or token in WORDS - NAMED:
            return None
        if token in NAMED or token in self.operators:
            self.at += 1
            return token
        if kind == "dollar":
            raise self.unknown(
                f"there is no operator ${token}$", [f"${name}$" for name in sorted(NAMED | self.operators)]
            )
        return None

    def unknown(self, message: str, known: list[str]) -> Fault:
        defined = sorted(self.operators)
        return Fault(
            f"{message}: operators that users defined are {', '.join(defined) or 'none'}",
            self.starts[self.at],
            tuple(known),
        )

    def operand(self) -> Expression:
        kind, token = self.kinds[self.at], self.tokens[self.at]
        if kind == "text":
            self.at += 1
            self.count()
            return Literal(token[1:-1])
        if kind == "number":
            self.at += 1
            self.count()
            number = number_of(token)
            assert number is not None
            return Literal(number)
        return self.path()

    def path(self) -> Expression:
        opening = self.sign("/", "//")
        if opening == "/" and not self._begins_term():
            return Path(True, ())
        steps = [Step(self.bang(), opening == "//")]
        while (sign := self.sign("/", "//")) is not None:
            if _is_attribute(steps[-1].term):
                self.at -= 1
                raise Fault("an attribute holds no elements", self.starts[self.at], ("an operator", "the end"))
            steps.append(Step(self.bang(), sign == "//"))
        if opening is None:
            first = steps[0].term
            if len(steps) == 1:
                return first
            if isinstance(first, Path):  # of a path in brackets the steps are our own: nothing was chosen from it
                return Path(first.absolute, (*first.steps, *steps[1:]))
        return Path(opening is not None, tuple(steps))

    def _begins_term(self) -> bool:
        kind, token = self.kinds[self.at], self.tokens[self.at]
        return (kind == "name" and not (token in WORDS and not self._is_name())) or token in BEGINS_OPERAND

    def _is_name(self) -> bool:
        """Whether a word that could be an operator is followed by what only a name is."""
        return self.kinds[self.at + 1] == "sign" and self.tokens[self.at + 1] in ("/", "//", "[", "!", ":")

    def bang(self) -> Expression:
        said = self.subscript()
        while self.sign("!"):
            start = self.at
            call = self.invocation()
            if call.name not in METHODS:
                self.at = start
                raise self.unknown(f"{call.name}() is not a method", [f"{name}()" for name in sorted(METHODS)])
            said = Applied(said, call)
        return said

    def subscript(self) -> Expression:
        said = self.term()
        picks: list[Expression | Index] = []
        self.sign("?")
        while self.sign("["):
            picks.append(self.index() if self._begins_index() else self.nested())
            self.need("]")
            self.sign("?")
        if not picks:
            return said
        if isinstance(said, Filtered):
            return Filtered(said.of, (*said.picks, *picks))
        return Filtered(said, tuple(picks))

    def _begins_index(self) -> bool:
        following = self.tokens[self.at + 1] if self.kinds[self.at] == "number" else ""
        return following in ("]", ",", "to")

    def index(self) -> Index:
        ranges: list[tuple[int, int]] = []
        while True:
            self.count()
            first = last = self.whole_number()
            if self.word("to"):
                last = self.whole_number()
                if first > last and (first < 0) == (last < 0):
                    raise Fault(
                        f"a range from {first} to {last} is empty", self.starts[self.at - 1], (f"{first} or more",)
                    )
            ranges.append((first, last))
            if not self.sign(","):
                return Index(tuple(ranges))

    def whole_number(self) -> int:
        token = self.tokens[self.at]
        if self.kinds[self.at] != "number" or "." in token or len(token) > 9:
            raise self.unexpected("a whole number")
        self.at += 1
        return int(token)

    def term(self) -> Expression:
        self.count()
        if self.sign("("):
            said = self.nested()
            self.need(")")
            return said
        if self.sign("."):
            return Current()
        if self.sign("@"):
            return Attribute(*self.qualified_name())
        if self.kinds[self.at] == "name" and self.tokens[self.at + 1] == "(":
            return self.invocation()
        if self.kinds[self.at] == "name" or self.tokens[self.at] == "*":
            return Element(*self.qualified_name())
        if self.kinds[self.at] == "dollar" and self.tokens[self.at] not in WORDS:
            raise self.unknown(f"there is no operator ${self.tokens[self.at]}$ that stands before its operand", [])
        raise self.unexpected("a name", "'.'", "'@'", "'*'", "'('", "a method", "a text", "a number")

    def qualified_name(self) -> tuple[str, str]:
        name = self.name_part()
        if self.tokens[self.at] == ":" and self.kinds[self.at] == "sign":
            self.at += 1
            return self.name_part(), name
        return name, "*" if name == "*" else ""

    def name_part(self) -> str:
        if self.sign("*"):
            return "*"
        if self.kinds[self.at] != "name":
            raise self.unexpected("a name", "'*'")
        self.at += 1
        return self.tokens[self.at - 1]

    def invocation(self) -> Call:
        if self.kinds[self.at] != "name" or self.tokens[self.at + 1] != "(":
            raise self.unexpected("a method, such as text()")
        name = self.tokens[self.at]
        known = METHODS | COLLECTIONS | FUNCTIONS
        if name not in known and name not in self.operators:
            raise self.unknown(
                f"there is no function {name}()", [f"{each}()" for each in sorted(known | self.operators)]
            )
        start = self.at
        self.at += 2
        arguments: list[Expression] = []
        if not self.sign(")"):
            arguments.append(self.argument())
            while self.sign(","):
                arguments.append(self.argument())
            self.need(")")
        _check_arguments(name, arguments, self.starts[start])
        return Call(name, tuple(arguments))

    def argument(self) -> Expression:
        if self.kinds[self.at] in ("text", "number") and self.tokens[self.at + 1] in (",", ")"):
            return self.operand()
        return self.nested()


ARGUMENTS = {
    **dict.fromkeys(METHODS | {"true", "false", "textNode", "comment", "pi", "node"}, (0, 0)),
    "count": (0, 1),
    "element": (0, 1),
    "attribute": (0, 1),
    "pi": (0, 1),
    "ancestor": (1, 1),
    "date": (1, 1),
    "number": (1, 1),
}


def _check_arguments(name: str, arguments: list[Expression], at: int) -> None:
    least, most = ARGUMENTS.get(name, (0, 8))
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise Fault(f"{name}() has {len(arguments)} arguments: {wanted} are allowed", at)


def _is_attribute(said: Expression) -> bool:
    return isinstance(said, Attribute) or (isinstance(said, Filtered) and isinstance(said.of, Attribute))


def _flat(kind: type[And | Or | Union | Intersect], parts: list[Expression]) -> tuple[Expression, ...]:
    flat: list[Expression] = []
    for part in parts:
        if isinstance(part, kind):
            flat.extend(part.parts)
        else:
            flat.append(part)
    return tuple(flat)
