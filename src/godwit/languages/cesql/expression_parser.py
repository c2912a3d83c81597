r"""The parser of CESQL: an expression from its text, or an error that says where it is wrong. [CESQL §2, §3.6]

*Theory.* Operators by precedence, from the tightest: function calls; NOT and `-`; LIKE and IN; `* / %`; `+ -`;
comparisons; AND, OR and XOR, which have one precedence. All associate to the left. So `NOT a = b` is `(NOT a) = b`, and
`a OR b AND c` is `(a OR b) AND c`.

*Rules.*
1. A text of more than `TEXT_BYTES_MAX` bytes is refused before it is looked at. Parentheses, calls and unary operators
   nest at most `DEPTH_MAX` deep, and so does the tree.
2. In a text, `\` before its own quote stands for the quote. Any other `\` is itself: patterns of LIKE need it.
3. A sign directly before digits, where a value may stand, is a part of the number: `-2147483648` is one.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, NoReturn

from godwit.errors import BadValue, FilterSyntaxError, FilterTooBig
from godwit.filters.language.parsing import CLIENT_TEXT_BYTES_MAX
from godwit.languages.cesql.casts import INTEGER_MAX, INTEGER_MIN
from godwit.languages.cesql.expressions import (
    DEPTH_MAX,
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Logic,
    Negative,
    Not,
)
from godwit.languages.cesql.like_sets import like_pattern

__all__ = ["TEXT_BYTES_MAX", "Naming", "UnknownFunction", "any_function", "parse_expression"]

TEXT_BYTES_MAX = CLIENT_TEXT_BYTES_MAX
INTEGER_DIGITS_MAX = 10
SHOWN_LENGTH_MAX = 40

LOGIC, COMPARISON, SUM, PRODUCT = 1, 2, 3, 4
_PRECEDENCE = {
    **dict.fromkeys(("AND", "OR", "XOR"), LOGIC),
    **dict.fromkeys(("=", "!=", "<>", "<", "<=", ">", ">="), COMPARISON),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("*", "/", "%"), PRODUCT),
}
KEYWORDS = frozenset(("AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"))

_WORDS = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<word>[A-Za-z0-9_]+)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign><>|!=|<=|>=|[-=<>*/%+(),])
      | (?P<end>\Z)
      | (?P<fault>.)
    )""",
    re.VERBOSE | re.DOTALL,
)

_OPERAND = ("an attribute", "a value", "a function", "NOT", "EXISTS", "(")
_OPERATOR = ("AND", "OR", "XOR", "a comparison (= != < <= > >=)", "LIKE", "IN", "an arithmetic operator (+ - * / %)")
_END = "the end of the expression"
_FAULTS = {
    "'": "the text that begins here has no end: a ' is missing (within a text it is written \\')",
    '"': 'the text that begins here has no end: a " is missing (within a text it is written \\")',
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT, or != for unequal",
}

Naming = Callable[[str, int], str]
"""The name of a function as a call has it, by the name as it is written and the number of arguments."""


class UnknownFunction(Exception):
    """There is no such function. `known` lists those that there are."""

    def __init__(self, reason: str, known: tuple[str, ...]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.known = known


def any_function(name: str, _count: int) -> str:
    """A naming that knows every function: whether there is one is seen when the expression is evaluated."""
    return name.upper()


class _Word(NamedTuple):
    kind: str  # the name of its group in `_WORDS`; "keyword", where it is one
    text: str  # in capitals, if it is a keyword
    start: int
    stop: int


class _Parsed(NamedTuple):
    node: Expression
    depth: int


def parse_expression(text: str, naming: Naming = any_function) -> Expression:
    """The expression that a text says. `FilterSyntaxError` if it says none, `FilterTooBig` if it is too long."""
    if len(text) > TEXT_BYTES_MAX or (
        4 * len(text) > TEXT_BYTES_MAX and len(text.encode(errors="surrogatepass")) > TEXT_BYTES_MAX
    ):
        raise FilterTooBig(f"an expression of more than {TEXT_BYTES_MAX} bytes, which are the most allowed")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = "half a character (a lone surrogate)"
        raise FilterSyntaxError.at(error.start, message, text) from None
    return _Parser(text, naming).whole()


class _Parser:
    """Reads one text, word by word."""

    def __init__(self, text: str, naming: Naming) -> None:
        self._text = text
        self._naming = naming
        self._nesting = 0
        self._stop = 0
        self._rest = self._words()
        self._word = next(self._rest)
        self._following = self._word if self._word.kind == "end" else next(self._rest)

    # ------------------------------------------------------------ words

    def _words(self) -> Iterator[_Word]:
        """All words of the text, and its end."""
        kind = ""
        while kind != "end":
            found = _WORDS.match(self._text, self._stop)
            assert found is not None, "the last choice takes any character"
            kind = found.lastgroup or ""
            piece, start, self._stop = found[kind], found.start(kind), found.end()
            if kind == "fault":
                self._fail(_FAULTS.get(piece, f"the character {piece!a} has no meaning here"), start)
            if kind == "word" and piece.upper() in KEYWORDS:
                yield _Word("keyword", piece.upper(), start, self._stop)
            else:
                yield _Word(kind, piece, start, self._stop)

    def _take(self) -> _Word:
        taken = self._word
        self._word = self._following
        if self._word.kind != "end":
            self._following = next(self._rest)
        return taken

    def _takes(self, *texts: str) -> bool:
        """Take the word if it is this keyword or sign."""
        if self._word.text in texts and self._word.kind in ("keyword", "sign"):
            self._take()
            return True
        return False

    def _expect(self, text: str, *others: str) -> None:
        if not self._takes(text):
            self._unexpected(*others, text)

    def _unexpected(self, *expected: str) -> NoReturn:
        word = self._word
        if word.kind == "end":
            is_blank = not self._text.strip()
            message = (
                "the expression is empty; TRUE matches every event" if is_blank else "the expression ends too early"
            )
            self._fail(message, 0 if is_blank else len(self._text.rstrip()), expected)
        shown = word.text if len(word.text) <= SHOWN_LENGTH_MAX else f"{word.text[:SHOWN_LENGTH_MAX]}…"
        self._fail(f"{shown} has no place here", word.start, expected)

    def _fail(self, message: str, offset: int, expected: tuple[str, ...] = ()) -> NoReturn:
        raise FilterSyntaxError.at(offset, message, self._text, expected)

    # ------------------------------------------------------------ how deep it is (rule 1)

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > DEPTH_MAX:
            self._too_deep(self._word.start)

    def _leave(self) -> None:
        self._nesting -= 1

    def _above(self, node: Expression, parts: Iterable[_Parsed], at: int) -> _Parsed:
        depth = 1 + max((part.depth for part in parts), default=0)
        return _Parsed(node, depth) if depth <= DEPTH_MAX else self._too_deep(at)

    def _too_deep(self, at: int) -> NoReturn:
        self._fail(f"the expression is nested deeper than {DEPTH_MAX} levels", at)

    # ------------------------------------------------------------ expressions

    def whole(self) -> Expression:
        """The expression that is the whole text."""
        found = self._expression(LOGIC)
        if self._word.kind != "end":
            self._unexpected(*_OPERATOR, _END)
        return found.node

    def _expression(self, precedence_min: int) -> _Parsed:
        self._enter()
        left = self._with_tests(self._unary())
        while True:
            word = self._word
            precedence = _PRECEDENCE.get(word.text, 0) if word.kind in ("keyword", "sign") else 0
            if precedence < precedence_min:
                self._leave()
                return left
            self._take()
            left = self._combined(left, word, self._expression(precedence + 1), precedence)

    def _combined(self, left: _Parsed, word: _Word, right: _Parsed, precedence: int) -> _Parsed:
        if precedence == LOGIC:
            parts: list[Expression] = []
            depth = 0
            for side in (left, right):
                if isinstance(side.node, Logic) and side.node.operator == word.text:
                    parts += side.node.parts
                    depth = max(depth, side.depth - 1)
                else:
                    parts.append(side.node)
                    depth = max(depth, side.depth)
            node: Expression = Logic(word.text, tuple(parts))
            return self._above(node, (_Parsed(node, depth),), word.start)
        if precedence == COMPARISON:
            operator = "!=" if word.text == "<>" else word.text
            return self._above(Comparison(operator, left.node, right.node), (left, right), word.start)
        return self._above(Arithmetic(word.text, left.node, right.node), (left, right), word.start)

    def _with_tests(self, operand: _Parsed) -> _Parsed:
        """An operand, and the LIKE and IN that follow it."""
        while True:
            word = self._word
            if word.kind != "keyword" or word.text not in ("NOT", "LIKE", "IN"):
                return operand
            negated = self._takes("NOT")
            if self._takes("LIKE"):
                operand = self._above(Like(operand.node, self._pattern(), negated), (operand,), word.start)
            elif self._takes("IN"):
                self._expect("(")
                elements = self._listed()
                node = In(operand.node, tuple(each.node for each in elements), negated)
                operand = self._above(node, (operand, *elements), word.start)
            else:
                self._unexpected("LIKE", "IN")

    def _pattern(self) -> str:
        if self._word.kind != "text":
            self._unexpected("a 'pattern' in quotes")
        word = self._take()
        pattern = _unquoted(word.text)
        try:
            like_pattern(pattern)
        except BadValue as error:
            self._fail(str(error), word.start)
        return pattern

    def _listed(self) -> list[_Parsed]:
        """Expressions up to the closing parenthesis."""
        found = [self._expression(LOGIC)]
        while self._takes(","):
            found.append(self._expression(LOGIC))
        self._expect(")", *_OPERATOR, ",")
        return found

    def _unary(self) -> _Parsed:
        word = self._word
        if word.text in ("NOT", "-") and word.kind in ("keyword", "sign"):
            number = self._signed_number()
            if number is not None:
                return number
            self._enter()
            self._take()
            operand = self._unary()
            self._leave()
            node = Not(operand.node) if word.text == "NOT" else Negative(operand.node)
            return self._above(node, (operand,), word.start)
        return self._primary()

    def _signed_number(self) -> _Parsed | None:
        """The number that begins with this sign, if one does. (rule 3)"""
        sign = self._word
        if sign.text not in ("+", "-") or not self._text[sign.stop : sign.stop + 1].isalnum():
            return None
        digits = self._following
        if not digits.text.isdigit():
            return None
        self._take()
        self._take()
        return self._number(sign.text + digits.text, sign.start)

    def _number(self, written: str, at: int) -> _Parsed:
        digits = written.lstrip("+-").lstrip("0") or "0"
        if len(digits) <= INTEGER_DIGITS_MAX:
            number = -int(digits) if written[0] == "-" else int(digits)
            if INTEGER_MIN <= number <= INTEGER_MAX:
                return _Parsed(Literal(number), 1)
        return self._fail(f"an integer beyond 32 bits: allowed are {INTEGER_MIN} to {INTEGER_MAX}", at)

    def _primary(self) -> _Parsed:
        word = self._word
        match word.kind, word.text:
            case "text", quoted:
                self._take()
                if self._word.kind == "text" and self._word.start == word.stop:
                    self._fail(f"within a text, {quoted[0]} is written \\{quoted[0]}", self._word.start)
                return _Parsed(Literal(_unquoted(quoted)), 1)
            case "keyword", "TRUE" | "FALSE":
                self._take()
                return _Parsed(Literal(word.text == "TRUE"), 1)
            case "keyword", "EXISTS":
                self._take()
                return _Parsed(Exists(self._attribute()), 1)
            case "sign", "(":
                self._take()
                found = self._expression(LOGIC)
                self._expect(")", *_OPERATOR)
                return found
            case "sign", "+":
                number = self._signed_number()
                if number is not None:
                    return number
            case "word", name:
                if name.isdigit():
                    self._take()
                    return self._number(name, word.start)
                if self._following.text == "(":
                    return self._call()
                return _Parsed(Attribute(self._attribute()), 1)
        return self._unexpected(*_OPERAND)

    def _attribute(self) -> str:
        word = self._word
        if word.kind != "word" or word.text.isdigit():
            self._unexpected("the name of an attribute")
        if "_" in word.text:
            self._fail(f"{word.text} is not a name of an attribute: it consists of letters and digits", word.start)
        return self._take().text.lower()

    def _call(self) -> _Parsed:
        word = self._take()
        self._take()
        if not word.text[0].isalpha():
            self._fail(f"{word.text} is not a name of a function: it begins with a letter", word.start)
        arguments = [] if self._takes(")") else self._listed()
        try:
            name = self._naming(word.text, len(arguments))
        except UnknownFunction as error:
            self._fail(error.reason, word.start, error.known)
        return self._above(Call(name, tuple(each.node for each in arguments)), arguments, word.start)


def _unquoted(text: str) -> str:
    """The text between quotes. (rule 2)"""
    quote = text[0]
    return re.sub(r"\\(.)", lambda pair: quote if pair[1] == quote else pair[0], text[1:-1], flags=re.DOTALL)
