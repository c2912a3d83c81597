"""The parser of texts with an exact part: a condition, or an error that says where the text is wrong.

*Theory.* A text that is a filter is read by the filter language alone. This parser reads what that one refuses. From
the tightest: function calls, signs before a value, `* / %`, `+ -`, comparisons, NOT, AND, OR. What is plain in the text
is given to `filters.language.literals`: so a literal means the same here as in a filter, and is refused with the same
message. What is constant is calculated at once: `speed > 10 * 3` is a filter.

*Rules.*
1. Parentheses and calls nest at most `NESTING_MAX` deep, and there are at most `TERMS_MAX` terms.
2. A predicate names at least one attribute of the event.
3. Where it is known that two kinds of values meet that never compare, or a function is given a kind that it does not
   take, the text is refused.
"""

from collections.abc import Mapping
from typing import NoReturn

from godwit.errors import BadValue, FilterSyntaxError, FilterTooBig
from godwit.filters import NOTHING, Filter, Kind, Reference, some
from godwit.filters.language import literals, operands
from godwit.filters.language.literals import Claim
from godwit.filters.language.operands import SET_FUNCTIONS, Named, Pair, Topics
from godwit.filters.language.parsing import CLIENT_TEXT_BYTES_MAX, with_places
from godwit.filters.language.scanning import DOUBLE_EQUALS, MATCHES, Fault, Word, is_double_equals
from godwit.filters.sets import OneOf
from godwit.filters.values import kind_name
from godwit.languages.native.built_in_functions import COUNT, FUNCTIONS, PRODUCT, SUM, calculated
from godwit.languages.native.exact_operands import (
    Exact,
    Operand,
    check_calculable,
    check_comparable,
    described,
    shown,
    term_of,
)
from godwit.languages.native.exact_words import END, SIGN, exact_words
from godwit.languages.native.expressions import (
    All,
    Any,
    Arithmetic,
    Attribute,
    Call,
    Compared,
    Condition,
    Constant,
    Count,
    Every,
    Holds,
    InSet,
    Matches,
    Not,
    Plain,
    Predicate,
    Term,
    combined,
    negated,
    size_of,
    variables_of,
)
from godwit.languages.native.regular_expressions import regular_expression
from godwit.languages.native.term_kinds import kinds_of
from godwit.languages.operators import Operator

__all__ = ["NESTING_MAX", "TERMS_MAX", "TEXT_BYTES_MAX", "parse_condition"]

TEXT_BYTES_MAX = CLIENT_TEXT_BYTES_MAX
NESTING_MAX = 64
TERMS_MAX = 10_000
SHOWN_LENGTH_MAX = 40

_OPERAND = ("an attribute", "a value", "a function", "(")
_CONDITION = ("an attribute", "a value", "a function", "NOT", "(")
_COMPARISONS = "a comparison (= <> < <= > >= BETWEEN IN LIKE MATCHES IS WITHIN)"
_AFTER = (_COMPARISONS, "a sign (+ - * / %)", "AND", "OR")
_BEFORE_A_CONDITION = ("AND", "OR", "NOT", "(")
_PLAIN_OPERANDS = (operands.Attribute, operands.Constant, Named, Topics)

Read = Operand | Claim | Filter | Condition
"""What has been read so far: a phrase of a filter, a term, or a condition."""


def parse_condition(text: str, operators: Mapping[str, Operator]) -> Condition:
    """The condition that a text says; `operators` by their names in small letters."""
    try:
        return _Parser(exact_words(text), operators).whole()
    except Fault as fault:
        raise FilterSyntaxError.at(fault.offset, fault.message, text, fault.expected) from None


class _Parser:
    """Reads one text, word by word."""

    def __init__(self, words: list[Word], operators: Mapping[str, Operator]) -> None:
        self._words = words
        self._at = 0
        self._word = words[0]
        self._operators = operators
        self._nesting = 0
        self._terms = 0

    # ------------------------------------------------------------ words

    def _take(self) -> Word:
        taken = self._word
        if taken.type != END:
            self._at += 1
            self._word = self._words[self._at]
        return taken

    def _takes(self, terminal: str) -> Word | None:
        return self._take() if self._word.type == terminal else None

    def _expect(self, terminal: str, *expected: str) -> None:
        if self._word.type != terminal:
            self._unexpected(*expected)
        self._take()

    def _unexpected(self, *expected: str) -> NoReturn:
        word = self._word
        if word.type == END:
            is_blank = self._words[0] is word
            said = "the filter is empty; TRUE matches every event" if is_blank else "the filter ends too early"
            raise Fault(said, 0 if is_blank else word, expected)
        if word.type == "NULL":
            raise Fault("NULL is not a value: ask IS NULL or IS NOT NULL", word, expected)
        if self._at and is_double_equals(self._words[self._at - 1], word):
            raise Fault(DOUBLE_EQUALS, word, expected)
        shown = word if len(word) <= SHOWN_LENGTH_MAX else f"{word[:SHOWN_LENGTH_MAX]}…"
        raise Fault(f"{shown} has no place here", word, expected)

    def _enter(self, word: Word) -> None:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise Fault(f"a text with an exact part nests at most {NESTING_MAX} deep", word)  # rule 1

    # ------------------------------------------------------------ AND, OR, NOT

    def whole(self) -> Condition:
        """The condition that is the whole text."""
        found = self._condition(self._disjunction())
        if self._word.type != END:
            self._unexpected(*_AFTER, "the end of the filter")
        return found

    def _disjunction(self) -> Read:
        first = self._conjunction()
        if self._word.type != "OR":
            return first
        parts = [self._condition(first)]
        while self._takes("OR"):
            parts.append(self._condition(self._conjunction()))
        return combined(Any, parts)

    def _conjunction(self) -> Read:
        first = self._inversion()
        if self._word.type != "AND":
            return first
        parts = [self._condition(first)]
        while self._takes("AND"):
            parts.append(self._condition(self._inversion()))
        return combined(All, parts)

    def _inversion(self) -> Read:
        if self._word.type in ("ANY", "ALL"):
            return self._quantified(self._take())
        if self._word.type != "NOT":
            return self._comparison()
        is_denied = False
        while self._takes("NOT"):
            is_denied = not is_denied
        found = self._condition(self._inversion())
        return negated(found) if is_denied else found

    def _quantified(self, quantifier: Word) -> Condition:
        denied = self._takes("NOT")
        found = self._comparison()
        if isinstance(found, _PLAIN_OPERANDS):
            found = literals.bare(found)
        if isinstance(found, Claim | Filter):
            return self._plain(literals.quantified_literal(quantifier, denied is not None, found))
        condition = self._condition(found)
        is_denied = isinstance(condition, Not) != bool(denied)
        predicate = condition.predicate if isinstance(condition, Not) else condition
        if isinstance(predicate, Every | Plain | All | Any):
            raise Fault(f"{quantifier.upper()} must be followed by one comparison", quantifier)
        if quantifier.type == "ANY":
            return Not(Every(predicate)) if is_denied else predicate
        return Not(predicate) if is_denied else Every(predicate)

    def _condition(self, found: Read) -> Condition:
        """What has been read, as a condition."""
        if isinstance(found, Exact):
            if isinstance(found.term, Call) and found.term.is_operator:
                return self._predicate(Holds(found.term), found.word)
            raise Fault(f"{shown(found)} is not a condition", found.word, (_COMPARISONS,))
        if isinstance(found, _PLAIN_OPERANDS):
            found = literals.bare(found)
        if isinstance(found, Claim | Filter):
            return self._plain(literals.plain_literal(found))
        return found

    def _plain(self, filter: Filter) -> Condition:
        self._count(1)
        return Plain(with_places(filter, {}))

    def _predicate(self, predicate: Predicate, word: str) -> Predicate:
        """A predicate, counted and checked. (rules 1, 2)"""
        self._count(size_of(predicate))
        if not any(isinstance(variable, Attribute | Count) for variable in variables_of(predicate)):
            raise Fault("this condition names no attribute of the event", word, ("an attribute",))
        return predicate

    def _count(self, terms: int) -> None:
        self._terms += terms
        if self._terms > TERMS_MAX:
            raise FilterTooBig(f"a text with an exact part has at most {TERMS_MAX} terms and literals")

    # ------------------------------------------------------------ comparisons

    def _comparison(self) -> Read:
        if self._word.type == "WITHIN" and self._words[self._at + 1].type == "(":
            return self._within_call()
        left = self._sum()
        word = self._word
        if word.type == "OP":
            return self._compared(self._operand(left, word))
        denied = self._takes("NOT")
        asked = self._word
        found: Claim | Condition
        match "MATCHES" if self._is_matches() else asked.type:
            case "BETWEEN":
                found = self._between(self._operand(left, asked), denied)
            case "IN":
                found = self._listed(self._operand(left, asked), denied)
            case "LIKE":
                found = self._like(self._operand(left, asked), denied)
            case "WITHIN":
                self._take()
                found = self._within(self._operand(left, asked), denied, self._value())
            case "MATCHES":
                found = self._matches(self._operand(left, asked), denied)
            case "IS" if denied is None:
                found = self._is(self._operand(left, asked))
            case _ if denied is not None:
                self._unexpected("BETWEEN", "IN", "LIKE", "MATCHES", "WITHIN")
            case _:
                return left
        return found

    def _is_matches(self) -> bool:
        """Whether the word after an operand is MATCHES, which is not a reserved word."""
        return self._word.type == "NAME" and self._word.upper() == MATCHES

    def _operand(self, found: Read, word: Word) -> Operand:
        """What has been read, as an operand; `word` stands where it is wrong if it is none."""
        if isinstance(found, Exact | operands.Attribute | operands.Constant | Named | Topics):
            return found
        raise Fault("a condition stands where a value is expected", word, _OPERAND)

    def _value(self) -> Operand:
        """The operand that begins here."""
        word = self._word
        return self._operand(self._sum(), word)

    def _compared(self, left: Operand) -> Claim | Predicate:
        op = self._take()
        right = self._value()
        if self._word.type == "OP":
            return self._chained(left, op, right)
        are_attributes = isinstance(left, operands.Attribute) and isinstance(right, operands.Attribute)
        if not isinstance(left, Exact) and not isinstance(right, Exact) and not are_attributes:
            return literals.compared(left, op, right)
        sign = _sign(op)
        check_comparable(left, sign, right)
        return self._predicate(Compared(term_of(left), ((sign, term_of(right)),)), op)

    def _chained(self, left: Operand, first: Word, middle: Operand) -> Claim | Predicate:
        second = self._take()
        right = self._value()
        are_values = isinstance(left, operands.Constant) and isinstance(right, operands.Constant)
        if isinstance(middle, operands.Attribute) and are_values:
            return literals.chained(left, first, middle, second, right)
        if first[0] != second[0] or not {first, second} <= {"<", "<=", ">", ">="}:
            raise Fault("a chain of comparisons runs one way: 1 < price <= 5, or 5 >= price > 1", second)
        check_comparable(left, first, middle)
        check_comparable(middle, second, right)
        steps = ((str(first), term_of(middle)), (str(second), term_of(right)))
        return self._predicate(Compared(term_of(left), steps), first)

    def _between(self, operand: Operand, denied: Word | None) -> Claim | Condition:
        word = self._take()
        low = self._value()
        self._expect("AND", "a sign (+ - * / %)", "AND")
        high = self._value()
        is_plain = all(isinstance(end, operands.Constant) for end in (low, high))
        if is_plain and not isinstance(operand, Exact):
            return literals.between(operand, denied is not None, low, high)
        check_comparable(low, "<=", operand)
        check_comparable(operand, "<=", high)
        chain = Compared(term_of(low), (("<=", term_of(operand)), ("<=", term_of(high))))
        return _unless(denied, self._predicate(chain, word))

    def _listed(self, operand: Operand, denied: Word | None) -> Claim | Condition:
        word = self._take()
        self._expect("(", "(")
        elements: list[Operand] = []
        if not self._takes(")"):
            elements.append(self._value())
            while self._takes(","):
                elements.append(self._value())
            self._expect(")", "a sign (+ - * / %)", "a comma", ")")
        if all(isinstance(element, operands.Constant) for element in elements):
            if not isinstance(operand, Exact):
                return literals.listed(operand, denied is not None, elements)
            if not any(isinstance(element.value, Reference) for element in elements):  # type: ignore[union-attr]
                return self._in_set(operand, literals.listed(_probe(word), False, elements), denied)
        return _unless(denied, combined(Any, [self._equal(operand, element, word) for element in elements]))

    def _equal(self, operand: Operand, element: Operand, word: Word) -> Condition:
        """What one element of a list asks. IN is an OR of these."""
        are_plain = {type(operand), type(element)} == {operands.Attribute, operands.Constant}
        if are_plain:
            sign = Word("=")
            sign.type, sign.start_pos = "OP", word.start_pos
            return self._condition(literals.compared(operand, sign, element))
        check_comparable(operand, "=", element)
        return self._predicate(Compared(term_of(operand), (("=", term_of(element)),)), word)

    def _like(self, operand: Operand, denied: Word | None) -> Claim | Condition:
        self._take()
        pattern = self._value()
        escape = None
        if self._takes("ESCAPE"):
            if self._word.type != "STRING":
                self._unexpected("a 'text'")
            escape = operands.text_operand(self._take())
        if not isinstance(operand, Exact):
            return literals.like(operand, denied is not None, pattern, escape)
        return self._in_set(operand, literals.like(_probe(pattern.word), False, pattern, escape), denied)

    def _within(self, operand: Operand, denied: Word | None, region: Operand) -> Claim | Condition:
        if not isinstance(operand, Exact):
            return literals.within(operand, denied is not None, region)
        return self._in_set(operand, literals.within(_probe(region.word), False, region), denied)

    def _within_call(self) -> Claim | Condition:
        word = self._take()
        self._enter(word)
        self._take()
        operand = self._value()
        self._expect(",", "a comma")
        region = self._value()
        self._expect(")", ")")
        self._nesting -= 1
        return self._within(operand, None, region)

    def _matches(self, operand: Operand, denied: Word | None) -> Condition:
        self._take()
        pattern = self._value()
        if not isinstance(pattern, operands.Constant) or not isinstance(pattern.value, str):
            raise Fault("MATCHES takes a regular expression that is written out", pattern.word, ("a 'text'",))
        term = term_of(operand)
        if not kinds_of(term) & Kind.TEXT:
            raise Fault(f"MATCHES needs a text, and {described(operand)}", operand.word)
        try:
            regular_expression(pattern.value)
        except BadValue as error:
            raise Fault(str(error), pattern.word) from None
        return _unless(denied, self._predicate(Matches(term, pattern.value), operand.word))

    def _is(self, operand: Operand) -> Claim | Condition:
        self._take()
        denied = self._takes("NOT")
        if self._takes("NULL"):
            ask = literals.null_literal if denied is None else literals.not_null_literal
            return self._plain(ask(operand))
        if self._word.type != "NAME":
            self._unexpected("NULL", "NOT", "NUMBER", "TEXT", "TIME", "BOOL", "POINT")
        kind = self._take()
        if not isinstance(operand, Exact):
            return literals.of_kind(operand, denied is not None, kind)
        return self._in_set(operand, literals.of_kind(_probe(kind), False, kind), denied)

    def _in_set(self, operand: Exact, claim: Claim, denied: Word | None) -> Condition:
        """That the value of a term lies in a set."""
        values = claim.values
        with_places(some(claim.attribute, values), {})
        if values.is_open:
            raise Fault("my.x and myloc stand here only with an attribute on the left", claim.word)
        if not kinds_of(operand.term) & values.kinds and values != NOTHING:
            raise Fault(f"{described(operand)}, and never lies in what follows", operand.word)
        match values:
            case OneOf(values=(value,)):
                return _unless(denied, self._predicate(Compared(operand.term, (("=", Constant(value)),)), claim.word))
        return _unless(denied, self._predicate(InSet(operand.term, values), claim.word))

    # ------------------------------------------------------------ terms

    def _sum(self) -> Read:
        return self._arithmetic(SUM)

    def _arithmetic(self, signs: frozenset[str]) -> Read:
        """Operands joined by signs of one precedence, from left to right."""
        first = self._factor(signs)
        if self._word.type != SIGN or self._word not in signs:
            return first
        first = self._operand(first, self._word)
        begin, steps = first, list[tuple[str, Term]]()
        while self._word.type == SIGN and self._word in signs:
            sign = self._take()
            word = self._word
            right = self._operand(self._factor(signs), word)
            check_calculable(begin if not steps else None, sign, right)
            if not steps and isinstance(begin, operands.Constant) and isinstance(right, operands.Constant):
                folded = self._folded(begin, sign, right)
                if folded is not None:
                    begin = folded
                    continue
            steps.append((str(sign), term_of(right)))
        return Exact(Arithmetic(term_of(begin), tuple(steps)), first.word) if steps else begin

    def _factor(self, signs: frozenset[str]) -> Read:
        return self._arithmetic(PRODUCT) if signs is SUM else self._signed()

    def _folded(self, left: operands.Constant, sign: Word, right: operands.Constant) -> operands.Constant | None:
        """The result of arithmetic on two constants; None when one refers to the subscriber's context."""
        if isinstance(left.value, Reference) or isinstance(right.value, Reference):
            return None
        result = calculated(str(sign), left.value, right.value)
        if result is None:
            raise Fault(f"{left.word} {sign} {right.word} has no result", sign)
        return operands.Constant(result, left.word)

    def _signed(self) -> Read:
        """An operand with the signs before it."""
        is_negative, first, minus = False, self._word, self._word
        while self._word.type == SIGN and self._word in SUM:
            if self._word == "-":
                is_negative, minus = not is_negative, self._word
            self._take()
        found = self._atom()
        if first.type != SIGN:
            return found
        operand = self._operand(found, first)
        zero = operands.Constant(0, first)
        check_calculable(zero, first, operand, Kind.NUMBER)
        if not is_negative:
            return operand
        folded = self._folded(zero, minus, operand) if isinstance(operand, operands.Constant) else None
        return folded or Exact(Arithmetic(Constant(0), (("-", term_of(operand)),)), first)

    def _atom(self) -> Read:
        word, after = self._word, self._words[min(self._at + 1, len(self._words) - 1)]
        match word.type:
            case "NAME" | "QUOTED" if after.type == "(":
                return self._call()
            case "NAME" if after.type == "STRING" and word.upper() != MATCHES:
                return operands.typed_operand(self._take(), operands.text_operand(self._take()))
            case "NAME":
                return operands.name_operand(self._take())
            case "QUOTED":
                return operands.quoted_operand(self._take())
            case "NUMBER":
                return operands.number_operand(self._take())
            case "STRING":
                return operands.text_operand(self._take())
            case "TRUE" | "FALSE":
                return operands.Constant(word.type == "TRUE", self._take())
            case "(":
                self._enter(self._take())
                found = self._disjunction()
                self._expect(")", *_AFTER, ")")
                self._nesting -= 1
                return found
        before = self._words[self._at - 1].type if self._at else "AND"
        return self._unexpected(*(_CONDITION if before in _BEFORE_A_CONDITION else _OPERAND))

    # ------------------------------------------------------------ calls

    def _call(self) -> Operand:
        word = self._take()
        self._enter(word)
        self._take()
        quoted = operands.quoted_operand(word) if word.type == "QUOTED" else None
        named = operands.name_operand(word) if quoted is None and word.lower() not in SET_FUNCTIONS else quoted
        name = named.name if isinstance(named, operands.Attribute) else word.lower()
        is_plain = isinstance(named, operands.Constant) or name in SET_FUNCTIONS
        arguments = self._corners() if name == "polygon" and is_plain else self._arguments()
        self._nesting -= 1
        if is_plain:
            return operands.call_operand(word, quoted, arguments)
        if name.lower() == COUNT:
            return self._counted(arguments, word)  # type: ignore[arg-type]
        if name.lower() in FUNCTIONS:
            return self._function(name.lower(), arguments, word)  # type: ignore[arg-type]
        operator = self._operators.get(name.lower())
        if operator is None:
            known = sorted({*FUNCTIONS, COUNT, *(each.name for each in self._operators.values())})
            raise Fault(f"there is no function {word}", word, (*known, "within", *SET_FUNCTIONS, "myloc"))
        return Exact(Call(operator.name, tuple(term_of(each) for each in arguments), True), word)  # type: ignore[arg-type]

    def _arguments(self) -> list[Operand | Pair | list[Pair]]:
        found: list[Operand | Pair | list[Pair]] = []
        if self._takes(")"):
            return found
        found.append(self._value())
        while self._takes(","):
            found.append(self._value())
        self._expect(")", "a sign (+ - * / %)", "a comma", ")")
        return found

    def _corners(self) -> list[Operand | Pair | list[Pair]]:
        """The arguments of `polygon`: pairs of numbers, each or all in parentheses of their own."""
        found: list[Operand | Pair | list[Pair]] = []
        while True:
            if self._takes("("):
                pairs = [self._pair()]
                while self._takes(","):
                    pairs.append(self._pair())
                self._expect(")", "a comma", ")")
                found.append(pairs)
            elif self._word.type == "NUMBER":
                found.append(self._pair())
            else:
                found.append(self._value())
            if not self._takes(","):
                self._expect(")", "a comma", ")")
                return found

    def _pair(self) -> Pair:
        lon, lat = self._degrees(), self._degrees()
        return Pair(lon.value, lat.value, lon.word)  # type: ignore[arg-type]

    def _degrees(self) -> operands.Constant:
        """A number, with the sign that stands directly before it."""
        sign = self._takes(SIGN) if self._word in SUM else None
        if self._word.type != "NUMBER" or (sign is not None and self._word.start_pos != sign.start_pos + 1):
            self._unexpected("a number")
        number = operands.number_operand(self._take())
        return operands.Constant(-number.value, number.word) if sign == "-" else number  # type: ignore[operator]

    def _counted(self, arguments: list[Operand], word: Word) -> Exact:
        match arguments:
            case [operands.Attribute(name)]:
                return Exact(Count(name), word)
        raise Fault(f"{word} takes one attribute: {COUNT}(tags)", word, ("an attribute",))

    def _function(self, name: str, arguments: list[Operand], word: Word) -> Operand:
        function = FUNCTIONS[name]
        least = len(function.parameters) - function.optional
        if not least <= len(arguments) <= len(function.parameters):
            takes = f"{least} to {len(function.parameters)}" if function.optional else str(least)
            raise Fault(f"{word} takes {takes} argument{'s' * (takes != '1')}: {function.usage}", word)
        for argument, kind in zip(arguments, function.parameters, strict=False):
            if not kinds_of(term_of(argument)) & kind:  # rule 3
                wanted = kind_name(kind)
                raise Fault(f"{word} takes a {wanted}, and {described(argument)}", argument.word, (f"a {wanted}",))
        terms = tuple(map(term_of, arguments))
        constants = [each.value for each in terms if isinstance(each, Constant)]
        if len(constants) < len(terms):
            return Exact(Call(name, terms), word)
        result = function.calculate(*constants)
        if result is None:
            raise Fault(f"{word}(…) has no result", word, (function.usage,))
        return operands.Constant(result, word)


def _probe(word: str) -> operands.Attribute:
    """An attribute that stands for a term where `literals` is asked which set a phrase means."""
    return operands.Attribute("term", word)


def _unless(denied: Word | None, condition: Condition) -> Condition:
    return condition if denied is None else negated(condition)


def _sign(op: Word) -> str:
    return "<>" if op == "!=" else str(op)
