"""The parser: combines the words of a text to phrases, and phrases to a filter.

*Theory.* `whole` reads literals joined by AND, OR, NOT and parentheses with a stack of its own, so that no text can be
nested too deep for it. Below that, a literal is read by descent: `_comparison`, `_operand`, `_call`. AND and OR become
a `Group`, which a NOT only marks; `_filter_of` carries every NOT down to the literals in one walk at the end, so that
no nesting of NOTs costs more than the text is long.

*Rules.*
1. What a phrase means is asked when the word after it is known to be one that may follow such a phrase somewhere. So
   of two faults the one further left is reported, but for a misplaced word directly after a phrase that means nothing.
2. A fault at a word says what could have stood there.
3. Calls nest at most `CALLS_MAX` deep, which is more than any of them takes; `Group` bounds literals and levels.
"""

from typing import NoReturn

from godwit.errors import FilterTooBig
from godwit.filters.filters import DEPTH_MAX, LITERALS_MAX, Filter, all_of, any_of, negation
from godwit.filters.language import literals
from godwit.filters.language.literals import KINDS, Claim
from godwit.filters.language.operands import (
    Argument,
    Constant,
    Operand,
    Pair,
    call_operand,
    name_operand,
    number_operand,
    quoted_operand,
    text_operand,
    typed_operand,
)
from godwit.filters.language.scanning import (
    ARITHMETIC,
    DOUBLE_EQUALS,
    END,
    FAULT,
    MATCHES,
    REGULAR_EXPRESSION,
    Fault,
    complaint,
    is_double_equals,
    offset_of,
)

SHOWN_LENGTH_MAX = 40
CALLS_MAX = 8
NO_NULL = "NULL is not a value: ask IS NULL or IS NOT NULL"

_CLOSED = "…"
"""In a list of expected words: the parenthesis or the end that closes what is open."""
_CONDITION = ("an attribute", "a value", "NOT", "(")
_VALUE = ("a value",)
_AFTER_LITERAL = ("AND", "OR", _CLOSED)
_AFTER_ATTRIBUTE = ("a comparison (= <> < <= > >= BETWEEN IN LIKE IS WITHIN)", *_AFTER_LITERAL)
_AFTER_ELEMENT = ("a comma", ")")

_ENDS_LITERAL = frozenset(("AND", "OR", ")", END))
_ENDS_OPERAND = _ENDS_LITERAL | {"OP", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "WITHIN", "IS", ","}


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


def _filter_of(node: Node, denied: bool = False) -> Filter:
    """The filter that a node means, or its negation."""
    if type(node) is not Group:
        return negation(node) if denied else node  # type: ignore[arg-type,return-value]
    denied = denied != node.negated
    parts = [_filter_of(part, denied) for part in node.parts]
    return all_of(*parts) if node.conjunctive != denied else any_of(*parts)


def _inverted(node: Node) -> Node:
    if type(node) is Group:
        node.negated = not node.negated
        return node
    return negation(node)  # type: ignore[arg-type]


def _joined(conjunctive: bool, before: list[Node], last: Node) -> Node:
    """What AND or OR joins; with nothing before it, the last part alone."""
    if not before:
        return last
    before.append(last)
    return Group(conjunctive, before)


class FilterParser:
    """Reads one text, given as its words and their kinds (`scanning.py`)."""

    __slots__ = ("_at", "_calls", "_kinds", "_opened", "_words")

    def __init__(self, words: list[str], kinds: list[str]) -> None:
        self._words = words
        self._kinds = kinds
        self._at = 0
        self._calls = 0
        self._opened: list[tuple[list[Node], list[Node], bool]] = []  # of each parenthesis: what stands before it

    # ------------------------------------------------------------ AND, OR, NOT and parentheses

    def whole(self) -> Filter:
        """The filter that is the whole text."""
        kinds, opened = self._kinds, self._opened
        disjuncts: list[Node] = []
        conjuncts: list[Node] = []
        denied = False
        while True:
            kind = kinds[self._at]
            if kind == "NOT":
                denied = not denied
                self._at += 1
                continue
            if kind == "(":
                opened.append((disjuncts, conjuncts, denied))
                disjuncts, conjuncts, denied = [], [], False
                self._at += 1
                continue
            node: Node = self._literal(kind)
            while True:
                if denied:
                    node, denied = _inverted(node), False
                kind = kinds[self._at]
                if kind == "AND":
                    conjuncts.append(node)
                    break
                node = _joined(True, conjuncts, node)
                if kind == "OR":
                    disjuncts.append(node)
                    conjuncts = []
                    break
                node = _joined(False, disjuncts, node)
                if kind == END and not opened:
                    return _filter_of(node)
                if kind != ")" or not opened:
                    self._misplaced(_CLOSED)
                disjuncts, conjuncts, denied = opened.pop()
                self._at += 1
                self._end_literal()
            self._at += 1

    # ------------------------------------------------------------ literals

    def _literal(self, kind: str) -> Filter:
        at, words, kinds = self._at, self._words, self._kinds
        if kind == "NAME" and kinds[at + 1] == "OP" and kinds[at + 3] in _ENDS_LITERAL:
            simple = literals.simple_literal(words[at], words[at + 1], words[at + 2], kinds[at + 2])
            if simple is not None:
                self._at = at + 3
                return simple
        if kind not in ("ANY", "ALL"):
            return literals.plain_literal(self._comparison(_CONDITION, is_quantified=False))
        quantifier = words[at]
        self._at += 1
        denied = self._takes("NOT")
        expected = _VALUE if denied else ("an attribute", "a value", "NOT")
        return literals.quantified_literal(quantifier, denied, self._comparison(expected, is_quantified=True))

    def _comparison(self, expected: tuple[str, ...], is_quantified: bool) -> Claim | Filter:
        if self._takes("WITHIN"):
            return self._within_call()
        left = self._operand(expected, _AFTER_ATTRIBUTE)
        kind = self._kinds[self._at]
        if kind == "OP":
            return self._compared(left)
        if kind in _ENDS_LITERAL:
            return literals.bare(left)
        if kind == "IS":
            return self._is(left, is_quantified)
        denied = self._takes("NOT")
        kind = self._kinds[self._at]
        if kind == "IN":
            return self._listed(left, denied)
        if kind == "LIKE":
            return self._like(left, denied)
        if kind == "BETWEEN":
            return self._between(left, denied)
        if kind == "WITHIN":
            self._at += 1
            region = self._operand(_VALUE, _AFTER_LITERAL)
            self._end_literal()
            return literals.within(left, denied, region)
        if denied:
            self._misplaced("BETWEEN", "IN", "LIKE", "WITHIN", after_operand=kind == "NAME")
        return self._misplaced(*_AFTER_ATTRIBUTE)

    def _compared(self, left: Operand) -> Claim:
        op = self._words[self._at]
        self._at += 1
        right = self._operand(_VALUE, _AFTER_LITERAL)
        if self._kinds[self._at] != "OP":
            self._end_literal()
            return literals.compared(left, op, right)
        second = self._words[self._at]
        self._at += 1
        last = self._operand(_VALUE, _AFTER_LITERAL)
        self._end_literal()
        return literals.chained(left, op, right, second, last)

    def _between(self, left: Operand, denied: bool) -> Claim:
        self._at += 1
        low = self._operand(_VALUE, ("AND",))
        self._expect("AND", "AND")
        high = self._operand(_VALUE, _AFTER_LITERAL)
        self._end_literal()
        return literals.between(left, denied, low, high)

    def _listed(self, left: Operand, denied: bool) -> Claim:
        self._at += 1
        self._expect("(", "(")
        elements: list[Operand] = []
        if not self._takes(")"):
            elements.append(self._operand(("a value", ")"), _AFTER_ELEMENT))
            while self._takes(","):
                elements.append(self._operand(_VALUE, _AFTER_ELEMENT))
            self._expect(")", *_AFTER_ELEMENT)
        self._end_literal()
        return literals.listed(left, denied, elements)

    def _like(self, left: Operand, denied: bool) -> Claim:
        self._at += 1
        pattern = self._operand(_VALUE, ("AND", "OR", "ESCAPE", _CLOSED))
        escape = None
        if self._takes("ESCAPE"):
            if self._kinds[self._at] != "STRING":
                self._misplaced("a 'text'")
            escape = text_operand(self._words[self._at])
            self._at += 1
            self._end_literal()
        elif self._kinds[self._at] not in _ENDS_LITERAL:
            self._misplaced("AND", "OR", "ESCAPE", _CLOSED)
        return literals.like(left, denied, pattern, escape)

    def _within_call(self) -> Claim:
        self._expect("(", "(")
        left = self._operand(_VALUE, ("a comma",))
        self._expect(",", "a comma")
        region = self._operand(_VALUE, (")",))
        self._expect(")", ")")
        self._end_literal()
        return literals.within(left, False, region)

    def _is(self, left: Operand, is_quantified: bool) -> Claim | Filter:
        self._at += 1
        denied = self._takes("NOT")
        kind = self._kinds[self._at]
        if kind == "NULL" and not is_quantified:
            self._at += 1
            self._end_literal()
            return literals.not_null_literal(left) if denied else literals.null_literal(left)
        if kind == "NULL":
            raise Fault("IS NULL takes no ANY or ALL", self._words[self._at], KINDS)
        if kind != "NAME":
            self._misplaced(*KINDS) if is_quantified else self._misplaced("NULL", *(() if denied else ("NOT",)), *KINDS)
        word = self._words[self._at]
        self._at += 1
        self._end_literal()
        return literals.of_kind(left, denied, word)

    # ------------------------------------------------------------ operands

    def _operand(self, before: tuple[str, ...], after: tuple[str, ...]) -> Operand:
        """The operand that begins here. `before` and `after` say what may stand here, and after it."""
        at, words = self._at, self._words
        word, kind = words[at], self._kinds[at]
        if kind == "NAME":
            following = self._kinds[at + 1]
            if following == "(":
                return self._call(word, None, after)
            if following == "STRING":
                text = text_operand(words[at + 1])
                self._at = at + 2
                self._end_operand(after)
                return typed_operand(word, text)
            self._at = at + 1
            self._end_operand(after)
            return name_operand(word)
        operand: Operand
        if kind == "NUMBER":
            operand = number_operand(word)
        elif kind == "STRING":
            operand = text_operand(word)
        elif kind == "QUOTED":
            operand = quoted_operand(word)
            if self._kinds[at + 1] == "(":
                return self._call(word, operand, after)
        elif kind in ("TRUE", "FALSE"):
            operand = Constant(kind == "TRUE", word)
        else:
            self._misplaced(*before)
        self._at = at + 1
        self._end_operand(after)
        return operand

    def _call(self, word: str, quoted: Operand | None, after: tuple[str, ...]) -> Operand:
        if self._calls == CALLS_MAX:
            raise Fault(f"calls nest at most {CALLS_MAX} deep", word)  # rule 3
        self._calls += 1
        self._at += 2
        arguments: list[Argument] = []
        if not self._takes(")"):
            arguments.append(self._argument("an argument", ")"))
            while self._takes(","):
                arguments.append(self._argument("an argument"))
            self._expect(")", *_AFTER_ELEMENT)
        self._calls -= 1
        self._end_operand(after)
        return call_operand(word, quoted, arguments)

    def _argument(self, *before: str) -> Argument:
        if self._takes("("):
            pairs = [self._pair()]
            while self._takes(","):
                pairs.append(self._pair())
            self._expect(")", *_AFTER_ELEMENT)
            if self._kinds[self._at] not in (",", ")"):
                self._misplaced(*_AFTER_ELEMENT)
            return pairs
        if self._kinds[self._at] != "NUMBER":
            return self._operand(before, _AFTER_ELEMENT)
        number = self._number()
        if self._kinds[self._at] == "NUMBER":
            return self._pair_of(number)
        if self._kinds[self._at] not in (",", ")"):
            self._misplaced("a number", *_AFTER_ELEMENT)
        return number

    def _pair(self) -> Pair:
        return self._pair_of(self._number())

    def _pair_of(self, lon: Constant) -> Pair:
        lat = self._number()
        if self._kinds[self._at] not in (",", ")"):
            self._misplaced(*_AFTER_ELEMENT)
        return Pair(lon.value, lat.value, lon.word)  # type: ignore[arg-type]

    def _number(self) -> Constant:
        if self._kinds[self._at] != "NUMBER":
            self._misplaced("a number")
        self._at += 1
        return number_operand(self._words[self._at - 1])

    # ------------------------------------------------------------ words

    def _takes(self, kind: str) -> bool:
        """Whether the next word is of this kind; then it is taken."""
        is_taken = self._kinds[self._at] == kind
        if is_taken:
            self._at += 1
        return is_taken

    def _expect(self, kind: str, *expected: str) -> None:
        if self._kinds[self._at] != kind:
            self._misplaced(*expected)
        self._at += 1

    def _end_operand(self, after: tuple[str, ...]) -> None:
        if self._kinds[self._at] not in _ENDS_OPERAND:
            self._misplaced(*after, after_operand=True, after_phrase=True)

    def _end_literal(self) -> None:
        if self._kinds[self._at] not in _ENDS_LITERAL:
            self._misplaced(*_AFTER_LITERAL, after_phrase=True)

    def _misplaced(self, *expected: str, after_operand: bool = False, after_phrase: bool = False) -> NoReturn:
        """Say that the next word has no place here, and what has. (rule 2)"""
        word, kind = self._words[self._at], self._kinds[self._at]
        if kind == FAULT:
            raise Fault(complaint(word), word)
        closing = ")" if self._opened else "the end of the filter"
        expected = tuple(closing if each is _CLOSED else each for each in expected)
        if kind == END:
            is_blank = self._at == 0
            message = "the filter is empty; TRUE matches every event" if is_blank else "the filter ends too early"
            raise Fault(message, offset_of(word), expected)
        if kind == "NUMBER" and word[0] in "+-" and after_phrase:
            raise Fault(ARITHMETIC, word)
        if kind == "NAME" and word.upper() == MATCHES and after_operand:
            raise Fault(REGULAR_EXPRESSION, word)
        if kind == "NULL":
            raise Fault(NO_NULL, word, expected)
        if self._at and is_double_equals(self._words[self._at - 1], word):
            raise Fault(DOUBLE_EQUALS, word, expected)
        shown = word if len(word) <= SHOWN_LENGTH_MAX else f"{word[:SHOWN_LENGTH_MAX]}…"
        raise Fault(f"{shown} has no place here", word, expected)
