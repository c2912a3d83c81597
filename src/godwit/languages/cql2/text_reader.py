"""Reads the text encoding of CQL2.

*Theory.* Operators are read by precedence: OR, AND, NOT, comparisons, `+ -`, `* / % DIV`, `^`. One method reads what
stands between two operators, another goes on while operators bind strongly enough. So a level of parentheses costs
four calls, and nesting can be bounded far below what Python allows.

The grammar is ambiguous in one place: where an array may stand, `(x)` is an array of one or an expression in
parentheses. Here it is an array, unless an operator follows.
"""

from collections.abc import Callable, Collection

from godwit.errors import BadValue, FilterSyntaxError, FilterTooBig
from godwit.filters.geometries import COLLECTION, LEVELS, Geometry, checked_geometry
from godwit.filters.language.scanning import Fault
from godwit.filters.values import checked_value
from godwit.languages.cql2.expressions import (
    ANYTHING,
    CHARACTERS,
    COMPARISONS,
    LOGICAL,
    NESTING_MAX,
    NODES_MAX,
    NUMERIC,
    RANGED,
    RELATIONS,
    SCALAR,
    Arithmetic,
    Array,
    BBox,
    Between,
    Combined,
    Compared,
    Expression,
    Folded,
    Function,
    InList,
    Interval,
    IsNull,
    Like,
    Not,
    Number,
    Property,
    Related,
    Sort,
    Text,
    Truth,
    expected_words,
    sort_of,
)
from godwit.languages.cql2.geometry_literals import checked_bbox
from godwit.languages.cql2.instants import instant_of
from godwit.languages.cql2.text_folding import pattern_set
from godwit.languages.cql2.words import Word, check_size, words_of

__all__ = ["parse_text"]

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _POWER = range(1, 8)
_LEVELS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys((*COMPARISONS, "LIKE", "BETWEEN", "IN", "IS", "NOT"), _COMPARISON),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%", "DIV"), _PRODUCT),
    "^": _POWER,
}
_REPEATED = (_SUM, _PRODUCT)
_GEOMETRIES = {kind.upper(): kind for kind in (*LEVELS, COLLECTION)}
_OPERATORS = ("a comparison (= <> < <= > >= BETWEEN IN LIKE IS)", "AND", "OR")
_BOX_NUMBERS = (4, 6)
_SHOWN_LENGTH_MAX = 40
_NUMBER_LENGTH_MAX = 400


def parse_text(text: str, functions: Collection[str] | None = None) -> Expression:
    """The expression that a text says. A function that is not among `functions` is an error; None allows all."""
    check_size(text)
    try:
        return _Reader(words_of(text), functions).whole()
    except Fault as fault:
        raise FilterSyntaxError.at(fault.offset, fault.message, text, fault.expected) from None


class _Reader:
    """Reads one text."""

    def __init__(self, words: list[Word], functions: Collection[str] | None) -> None:
        self._words = words
        self._at = 0
        self._word = words[0]
        self._nodes = 0
        self._depth = 0
        self._functions = None if functions is None else {name.lower() for name in functions}

    def whole(self) -> Expression:
        if self._word.kind == "END":
            raise Fault("the query is empty; TRUE matches every event", 0, expected_words(LOGICAL))
        condition = self._fitting(LOGICAL)
        if self._word.kind != "END":
            raise self._unexpected(*_OPERATORS[1:], "the end of the query")
        return condition

    # ------------------------------------------------------------ words

    def _take(self) -> Word:
        word = self._word
        if word.kind != "END":
            self._at += 1
            self._word = self._words[self._at]
        return word

    def _next_is(self, kind: str, ahead: int = 1) -> bool:
        place = self._at + ahead
        return place < len(self._words) and self._words[place].kind == kind

    def _expect(self, kind: str, *also: str) -> Word:
        if self._word.kind != kind:
            raise self._unexpected(*also, kind)
        return self._take()

    def _unexpected(self, *expected: str) -> Fault:
        word = self._word
        if word.kind == "END":
            return Fault("the query ends too early", word.offset, expected)
        shown = word.text if len(word.text) <= _SHOWN_LENGTH_MAX else f"{word.text[:_SHOWN_LENGTH_MAX]}…"
        return Fault(f"{shown} has no place here", word.offset, expected)

    # ------------------------------------------------------------ expressions

    def _fitting(self, sorts: Sort, level: int = _OR) -> Expression:
        """An expression that may stand in a place."""
        offset = self._word.offset
        return self._checked(self._expression(level), sorts, offset)

    def _checked(self, expression: Expression, sorts: Sort, offset: int) -> Expression:
        if not sort_of(expression) & sorts:
            [found] = expected_words(sort_of(expression))
            raise Fault(f"{found} has no place here", offset, expected_words(sorts))
        return expression

    def _expression(self, least: int, left: Expression | None = None) -> Expression:
        """An expression whose operators bind at least so strongly; `left` is its first operand if it was read."""
        offset = self._word.offset
        ceiling = _POWER
        if left is None and self._word.kind == "NOT":
            if least > _NOT:
                raise self._unexpected(*expected_words(SCALAR))
            self._count()
            self._deeper()
            self._take()
            left, ceiling = Not(self._fitting(LOGICAL, _NOT)), _AND
            self._depth -= 1
        elif left is None:
            left = self._operand()
        while least <= (level := _LEVELS.get(self._word.kind, 0)) <= ceiling:
            left = self._operated(left, level, offset)
            ceiling = level if level in _REPEATED else level - 1
            if level == _COMPARISON:
                ceiling = _AND
        return left

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise FilterTooBig(
                f"a CQL2 query of more than {NODES_MAX} operands and operators, which are the most allowed"
            )

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise Fault(f"nested deeper than {NESTING_MAX} levels, which are the most allowed", self._word.offset)

    def _operated(self, left: Expression, level: int, offset: int) -> Expression:
        """`left` with the operator that follows it, and what that operator takes."""
        self._count()
        if level in (_OR, _AND):
            sign, parts = self._word.kind, [self._checked(left, LOGICAL, offset)]
            while self._word.kind == sign:
                self._take()
                parts.append(self._fitting(LOGICAL, level + 1))
            return Combined(sign.lower(), tuple(parts))
        if level == _COMPARISON:
            return self._predicate(left, offset)
        self._checked(left, NUMERIC, offset)
        sign = self._take().kind.lower()
        self._deeper_sum(left)
        return Arithmetic(sign, left, self._fitting(NUMERIC, level + 1))

    def _deeper_sum(self, left: Expression) -> None:
        """A sum of many terms is a deep tree, though nothing is nested in its text."""
        depth = 0
        while isinstance(left, Arithmetic):
            left, depth = left.left, depth + 1
        if depth + self._depth > NESTING_MAX:
            raise Fault(
                f"arithmetic of more than {NESTING_MAX} steps in a row, which are the most allowed", self._word.offset
            )

    def _predicate(self, left: Expression, offset: int) -> Expression:
        word = self._take()
        if word.kind in COMPARISONS:
            return Compared(word.kind, self._checked(left, SCALAR, offset), self._fitting(SCALAR, _SUM))
        if word.kind == "IS":
            negated = self._took("NOT")
            self._expect("NULL", *(() if negated else ("NOT",)))
            return _unless(negated, IsNull(left))
        negated = word.kind == "NOT"
        if negated:
            word = self._take()
        match word.kind:
            case "LIKE":
                self._checked(left, CHARACTERS, offset)
                place, pattern = self._word.offset, self._pattern()
                try:
                    pattern_set(pattern)
                except BadValue as error:
                    raise Fault(str(error), place) from None
                return _unless(negated, Like(left, pattern))
            case "BETWEEN":
                self._checked(left, RANGED, offset)
                low = self._fitting(RANGED, _SUM)
                self._expect("AND")
                return _unless(negated, Between(left, low, self._fitting(RANGED, _SUM)))
            case "IN":
                self._checked(left, SCALAR, offset)
                return _unless(negated, InList(left, self._in_parentheses(lambda: self._fitting(SCALAR, _SUM))))
        raise Fault(f"{word.text or 'the end'} has no place here", word.offset, ("LIKE", "BETWEEN", "IN"))

    def _took(self, kind: str) -> bool:
        if self._word.kind != kind:
            return False
        self._take()
        return True

    def _pattern(self) -> Expression:
        self._count()
        word = self._word
        if word.kind == "NAME" and word.text.upper() in ("CASEI", "ACCENTI"):
            self._take()
            self._deeper()
            [pattern] = self._in_parentheses(self._pattern, exactly=1)
            self._depth -= 1
            return Folded(word.text.lower(), pattern)
        return Text(self._string("a 'pattern'", "CASEI('pattern')", "ACCENTI('pattern')"))

    def _string(self, *expected: str) -> str:
        if self._word.kind != "STRING":
            raise self._unexpected(*expected)
        word = self._take()
        text = word.text[1:-1].replace("\\'", "''").replace("''", "'")
        try:
            checked_value(text)
        except BadValue as error:
            raise Fault(str(error), word.offset) from None
        return text

    def _in_parentheses(self, read: Callable[[], Expression], exactly: int | None = None) -> tuple[Expression, ...]:
        """What `read` reads, separated by commas."""
        opening = self._expect("(")
        self._deeper()
        items: list[Expression] = []
        if self._word.kind != ")":
            items.append(read())
            while self._took(","):
                items.append(read())
        self._expect(")", ",")
        self._depth -= 1
        if exactly is not None and len(items) != exactly:
            raise Fault(f"{len(items)} operands, and {exactly} are needed", opening.offset)
        return tuple(items)

    # ------------------------------------------------------------ operands

    def _operand(self) -> Expression:
        self._count()
        word = self._word
        match word.kind:
            case "NAME":
                return self._named()
            case "NUMBER":
                return Number(self._number())
            case "STRING":
                return Text(self._string())
            case "QUOTED":
                return self._property()
            case "TRUE" | "FALSE":
                return Truth(self._take().kind == "TRUE")
            case "-" | "+":
                return self._signed()
            case "(":
                self._take()
                self._deeper()
                inner = self._expression(_OR)
                self._depth -= 1
                self._expect(")", *_OPERATORS)
                return inner
            case "NULL":
                raise Fault("NULL is not a value: ask IS NULL or IS NOT NULL", word.offset, expected_words(SCALAR))
        raise self._unexpected(*expected_words(SCALAR), "(")

    def _signed(self) -> Expression:
        if self._next_is("NUMBER"):
            return Number(self._number())
        if self._word.kind == "+":
            self._take()
            raise self._unexpected("a number")
        self._take()
        offset = self._word.offset
        self._deeper()
        operand = self._checked(self._operand(), NUMERIC, offset)
        self._depth -= 1
        return Arithmetic("*", Number(-1), operand)

    def _number(self) -> int | float:
        """A number with or without a sign."""
        offset = self._word.offset
        sign = self._take().kind if self._word.kind in ("+", "-") else ""
        text = self._expect("NUMBER").text
        if len(text) > _NUMBER_LENGTH_MAX:
            raise Fault(f"a number of {len(text)} characters: {_NUMBER_LENGTH_MAX} are the most allowed", offset)
        try:
            number = int(text) if text.isdigit() else float(text)
            return checked_value(-number if sign == "-" else number)  # type: ignore[return-value]
        except ValueError as error:
            raise Fault(f"{sign}{text:.20}: {error}", offset) from None

    def _property(self) -> Property:
        word = self._take()
        name = word.text[1:-1].replace('""', '"') if word.kind == "QUOTED" else word.text
        if not name:
            raise Fault("a property without a name", word.offset, ("a name",))
        return Property(name)

    def _named(self) -> Expression:
        """A property, or what its name calls."""
        word = self._word
        name = word.text.upper()
        if name in _GEOMETRIES and (
            self._next_is("(") or (self._next_is("NAME") and self._words[self._at + 1].text.upper() == "Z")
        ):
            return self._geometry()
        if not self._next_is("("):
            return self._property()
        self._take()
        if name in ("CASEI", "ACCENTI"):
            [operand] = self._in_parentheses(lambda: self._fitting(CHARACTERS), exactly=1)
            return Folded(name.lower(), operand)
        if name in ("DATE", "TIMESTAMP"):
            return self._instant(name, word.offset)
        if name == "INTERVAL":
            self._expect("(")
            start = self._end_of_interval()
            self._expect(",")
            end = self._end_of_interval()
            self._expect(")")
            return Interval(start, end)
        if name == "BBOX":
            return self._bbox(word.offset)
        if name.lower() in RELATIONS:
            sorts = RELATIONS[name.lower()]
            left, right = self._in_parentheses(lambda: self._argument(sorts), exactly=2)
            return Related(name.lower(), left, right)
        return self._function(word)

    def _function(self, word: Word) -> Function:
        if self._functions is not None and word.text.lower() not in self._functions:
            known = tuple(sorted(self._functions)) or ("a function that is registered: none is",)
            raise Fault(f"there is no function {word.text!r:.60}", word.offset, known)
        return Function(word.text, self._in_parentheses(lambda: self._argument(ANYTHING)))

    def _argument(self, sorts: Sort) -> Expression:
        """What stands where an array may: see above."""
        offset = self._word.offset
        if self._word.kind != "(" or not sorts & Sort.ARRAY:
            return self._fitting(sorts)
        items = self._in_parentheses(lambda: self._argument(ANYTHING))
        self._count()
        if self._word.kind in (",", ")"):
            return Array(items)
        inner: Expression = Array(items)
        while isinstance(inner, Array) and len(inner.items) == 1:
            inner = inner.items[0]
        if isinstance(inner, Array):
            raise self._unexpected(",", ")")
        return self._checked(self._expression(_OR, inner), sorts, offset)

    # ------------------------------------------------------------ times and geometries

    def _instant(self, name: str, offset: int) -> Expression:
        self._expect("(")
        text = self._string("a 'text'")
        self._expect(")")
        try:
            instant = instant_of(text)
        except BadValue as error:
            raise Fault(str(error), offset) from None
        if type(instant).__name__.upper() != name:
            form = "2026-11-15" if name == "DATE" else "2026-11-15T06:00:00Z"
            raise Fault(f"{text!r} is no {name}: write {name}('{form}')", offset)
        return instant

    def _end_of_interval(self) -> Expression | None:
        self._count()
        word = self._word
        if word.kind == "STRING":
            text = self._string()
            try:
                return None if text == ".." else instant_of(text)
            except BadValue as error:
                raise Fault(str(error), word.offset) from None
        if word.kind == "NAME" and self._next_is("("):
            self._take()
            return self._function(word)
        if word.kind in ("NAME", "QUOTED"):
            return self._property()
        raise self._unexpected("a 'date' or 'timestamp'", "'..'", "a property", "a function")

    def _bbox(self, offset: int) -> Expression:
        self._expect("(")
        numbers = [self._number()]
        while self._took(","):
            numbers.append(self._number())
        self._expect(")", ",")
        if len(numbers) not in _BOX_NUMBERS:
            raise Fault(f"a BBOX of {len(numbers)} numbers: four or six are needed", offset)
        try:
            return checked_bbox(BBox(tuple(numbers)))
        except BadValue as error:
            raise Fault(str(error), offset) from None

    def _geometry(self) -> Geometry:
        word = self._take()
        kind = _GEOMETRIES[word.text.upper()]
        if self._word.kind == "NAME":  # the Z of three numbers
            self._take()
        try:
            if kind == COLLECTION:
                self._expect("(")
                members = [self._member()]
                while self._took(","):
                    members.append(self._member())
                self._expect(")", ",")
                return checked_geometry(kind, members)
            return checked_geometry(kind, self._coordinates(LEVELS[kind], kind))
        except BadValue as error:
            raise Fault(str(error), word.offset) from None

    def _member(self) -> Geometry:
        if self._word.kind != "NAME" or self._word.text.upper() not in _GEOMETRIES.keys() - {COLLECTION.upper()}:
            raise self._unexpected(*sorted(_GEOMETRIES.keys() - {COLLECTION.upper()}))
        return self._geometry()

    def _coordinates(self, level: int, kind: str) -> tuple[object, ...]:
        """Positions in so many parentheses. A point, also in a MULTIPOINT, has parentheses of its own."""
        self._expect("(")
        if level == 0:
            inner: list[object] = [self._number()]
            while self._word.kind != ")":
                inner.append(self._number())
            self._take()
            return tuple(inner)
        inner = [self._inner(level, kind)]
        while self._took(","):
            inner.append(self._inner(level, kind))
        self._expect(")", ",")
        return tuple(inner)

    def _inner(self, level: int, kind: str) -> tuple[object, ...]:
        if level > 1 or kind == "MultiPoint":
            return self._coordinates(level - 1, kind)
        numbers: list[object] = [self._number()]
        while self._word.kind not in (",", ")"):
            numbers.append(self._number())
        return tuple(numbers)


def _unless(negated: bool, condition: Expression) -> Expression:
    return Not(condition) if negated else condition
