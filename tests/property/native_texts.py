"""Texts of the native language with an exact part, each drawn together with what it means.

A drawn term is its text, the variables in it, and a function from a choice of their values to its own value; a drawn
condition is its text and a function from an event and a context to true, false or unknown. These functions are written
from docs/reference/filter_language.md and share no code with the language.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from godwit.filters import Event, Point, one_of, some
from godwit.filters.regions import distance_m
from godwit.languages import Operator

Choice = Mapping[str, Any]
Truth = bool | None
ATTRIBUTES = ("x", "y", "z")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NUMBERS: tuple[Any, ...] = (-3, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 10, 0.1, 2**53 + 1, 2**63, -(2**63), 1e300, 5e-324)
TEXTS = ("", "a", "A", "ann", "Ann", " ann ", "ANNA", "straße", "STRASSE", "σς", "ΣΣ", "İ", "i̇", "a.b", "a\nb", "b'c")
TIMES = (NOON, NOON + timedelta(seconds=3), NOON - timedelta(days=1), datetime(9999, 12, 31, tzinfo=UTC))
POINTS = (Point(8.5, 47.0), Point(8.5, 47.001), Point(-179.99, 0.0), Point(179.99, 0.0), Point(0.0, 90.0))
VALUES: tuple[Any, ...] = (*NUMBERS, *NUMBERS, *TEXTS, *TEXTS, *TIMES, *POINTS, *POINTS, True, False)

STARTS_ALIKE = Operator("starts_alike", lambda one, other: str(one)[:1] == str(other)[:1])
IS_FEW = Operator("is_few", lambda value: value in (1, 2), lambda name: some(name, one_of((True, 1, 2))))
HALF = Operator("Half", lambda value: value / 2 if type(value) in (int, float) else None)
OPERATORS = {each.name: each for each in (STARTS_ALIKE, IS_FEW, HALF)}


@dataclass(frozen=True)
class Drawn:
    """A term."""

    text: str
    variables: frozenset[str]  # "x", "count x", "my x"
    value: Callable[[Choice], Any]

    @property
    def says_something(self) -> bool:
        return any(not variable.startswith("my ") for variable in self.variables)


@dataclass(frozen=True)
class DrawnCondition:
    """A condition."""

    text: str
    truth: Callable[[Event, Mapping[str, Any]], Truth]


# ---------------------------------------------------------------- terms


def constant_text(value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat()}'"
        case Point(lon, lat):
            return f"point({lon}, {lat})"
    return repr(value)


def constant(value: Any) -> Drawn:
    return Drawn(constant_text(value), frozenset(), lambda choice: value)


def variable(name: str, text: str) -> Drawn:
    return Drawn(text, frozenset([name]), lambda choice: choice[name])


ATTRIBUTE = st.sampled_from(ATTRIBUTES).map(lambda name: variable(name, name))
COUNTED = st.sampled_from(ATTRIBUTES).map(lambda name: variable(f"count {name}", f"count({name})"))
OWN_NUMBER = st.just(variable("my limit", "my.limit"))
OWN_PLACE = st.just(variable("my location", "myloc"))


def constants(pool: tuple[Any, ...]) -> SearchStrategy[Drawn]:
    return st.sampled_from(pool).map(constant)


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def naive_arithmetic(sign: str, left: Any, right: Any) -> Any:
    """One step of arithmetic, or None."""
    if isinstance(left, datetime) and isinstance(right, datetime):
        return (left - right).total_seconds() if sign == "-" else None
    if isinstance(right, datetime) and sign == "+":
        left, right = right, left
    if isinstance(left, datetime):
        if not is_number(right) or sign not in "+-":
            return None
        try:
            return left + timedelta(seconds=right) if sign == "+" else left + timedelta(seconds=-right)
        except OverflowError:
            return None
    if not is_number(left) or not is_number(right):
        return None
    if sign in "/%" and right == 0:
        return None
    try:
        result: Any
        if sign == "+":
            result = left + right
        elif sign == "-":
            result = left - right
        elif sign == "*":
            result = left * right
        elif sign == "/":
            result = left / right
        elif type(left) is int and type(right) is int:
            result = (abs(left) % abs(right)) * (-1 if left < 0 else 1)
        else:
            result = math.fmod(left, right)
    except OverflowError:
        return None
    if type(result) is int and not -(2**63) <= result < 2**64:
        result = float(result)
    return result if math.isfinite(result) else None


def naive_round(number: Any, digits: int) -> Any:
    """Half goes away from zero, by the digits of the number as it is."""
    if not is_number(number):
        return None
    if type(number) is int or abs(number) >= 2**53:
        return number
    numerator, denominator = number.as_integer_ratio()
    scaled = (2 * abs(numerator) * 10**digits + denominator) // (2 * denominator)
    whole = -scaled if number < 0 else scaled
    return whole if digits == 0 else whole / 10**digits


def _call(name: str, arguments: tuple[Drawn, ...], calculate: Callable[..., Any]) -> Drawn:
    def value(choice: Choice) -> Any:
        given = [argument.value(choice) for argument in arguments]
        return None if None in given else calculate(*given)

    text = f"{name}({', '.join(argument.text for argument in arguments)})"
    return Drawn(text, frozenset().union(*(argument.variables for argument in arguments)), value)


def _only(kind: type | tuple[type, ...], calculate: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*given: Any) -> Any:
        if any(type(each) is bool or not isinstance(each, kind) for each in given):
            return None
        return calculate(*given)

    return checked


def _arithmetic(first: Drawn, steps: list[tuple[str, Drawn]]) -> Drawn:
    def value(choice: Choice) -> Any:
        result = first.value(choice)
        for sign, term in steps:
            operand = term.value(choice)
            if result is None or operand is None:
                return None
            result = naive_arithmetic(sign, result, operand)
        return result

    text = " ".join([f"({first.text})", *(f"{sign} ({term.text})" for sign, term in steps)])
    return Drawn(text, first.variables.union(*(term.variables for _, term in steps)), value)


def numbers() -> SearchStrategy[Drawn]:
    """Terms that are numbers, as far as can be told: none of them is constant."""
    small = constants((*NUMBERS[:11], 10, 100))
    leaves = st.one_of(ATTRIBUTE, ATTRIBUTE, ATTRIBUTE, COUNTED, OWN_NUMBER)
    measured = st.one_of(
        texts().map(lambda term: _call("length", (term,), _only(str, len))),
        st.tuples(points(), st.one_of(points(), constants(POINTS))).map(
            lambda pair: _call("distance", pair, _only(Point, distance_m))
        ),
    )

    def above(inner: SearchStrategy[Drawn]) -> SearchStrategy[Drawn]:
        steps = st.lists(st.tuples(st.sampled_from("+-"), st.one_of(inner, small)), min_size=1, max_size=2)
        factors = st.lists(st.tuples(st.sampled_from("*/%"), st.one_of(inner, small)), min_size=1, max_size=2)
        return st.one_of(
            st.builds(_arithmetic, inner, steps),
            st.builds(_arithmetic, inner, factors),
            st.tuples(small, st.sampled_from("+-*/"), inner).map(lambda drawn: _arithmetic(drawn[0], [drawn[1:]])),
            inner.map(lambda term: _call("abs", (term,), _only((int, float), abs))),
            inner.map(lambda term: _call("round", (term,), lambda number: naive_round(number, 0))),
            st.tuples(inner, st.integers(0, 3)).map(
                lambda drawn: _call("round", (drawn[0], constant(drawn[1])), naive_round)
            ),
            inner.map(lambda term: _call("half", (term,), HALF.holds)),
        )

    return st.recursive(st.one_of(leaves, leaves, measured), above, max_leaves=4)


def texts() -> SearchStrategy[Drawn]:
    functions: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("lower", str.lower),
        ("upper", str.upper),
        ("trim", str.strip),
    )
    once = st.tuples(st.sampled_from(functions), ATTRIBUTE).map(_cased)
    twice = st.tuples(st.sampled_from(functions), once).map(_cased)
    return st.one_of(ATTRIBUTE, once, once, twice)


def _cased(drawn: tuple[tuple[str, Callable[[str], str]], Drawn]) -> Drawn:
    (name, function), term = drawn
    return _call(name, (term,), _only(str, function))


def points() -> SearchStrategy[Drawn]:
    return st.one_of(ATTRIBUTE, ATTRIBUTE, OWN_PLACE)


# ---------------------------------------------------------------- conditions


def naive_compare(sign: str, left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    are_alike = kind(left) == kind(right)
    if sign in ("=", "<>", "!="):
        return (are_alike and left == right) is (sign == "=")
    if not are_alike or kind(left) in ("bool", "point"):
        return False
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign])


def kind(value: Any) -> str:
    return "number" if is_number(value) else {bool: "bool", str: "text", datetime: "time", Point: "point"}[type(value)]


def predicate(
    text: str, terms: tuple[Drawn, ...], met: Callable[..., bool], *, is_every: bool = False
) -> DrawnCondition:
    variables = sorted(frozenset().union(*(term.variables for term in terms)))

    def truth(event: Event, context: Mapping[str, Any]) -> Truth:
        columns = []
        for name in variables:
            source, _, rest = name.rpartition(" ")
            held = (context if source == "my" else event.attributes).get(rest)
            if held is None:
                return None
            several = held if type(held) is tuple else (held,)
            columns.append((len(several),) if source == "count" else several)
        answers = []
        for chosen in product(*columns):
            choice = dict(zip(variables, chosen, strict=True))
            answers.append(met(*(term.value(choice) for term in terms)))
        return all(answers) if is_every else any(answers)

    return DrawnCondition(text, truth)


SIGNS = ("=", "<>", "!=", "<", "<=", ">", ">=")
PATTERNS = ("^a", "n+a?$", "^[aA]nn$", "a.b", "", "^Ann$", "ann", "(?i)^STRASSE|x", "^a\\.b", "[^a]", "n$", "^an*")
LIKES = ("a%", "%n%", "%", "_nn%", "ann", "")


def comparisons() -> SearchStrategy[DrawnCondition]:
    sides = st.one_of(
        st.tuples(numbers(), st.one_of(numbers(), constants(NUMBERS), constants(NUMBERS))),
        st.tuples(texts(), st.one_of(texts(), constants(TEXTS), constants(TEXTS))),
        st.tuples(ATTRIBUTE, ATTRIBUTE),
        st.tuples(ATTRIBUTE, constants(TIMES)).map(
            lambda pair: (_arithmetic(pair[0], [("-", constant(3))]), pair[1]),
        ),
        st.tuples(ATTRIBUTE, ATTRIBUTE).map(lambda pair: (_arithmetic(pair[0], [("-", pair[1])]), constant(3))),
    ).filter(lambda pair: any(term.says_something for term in pair))
    compared = st.tuples(st.sampled_from(SIGNS), sides, st.booleans()).map(_compared)
    distances = st.tuples(
        st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
        st.tuples(
            st.tuples(ATTRIBUTE, st.one_of(points(), constants(POINTS))).map(
                lambda pair: _call("distance", pair, _only(Point, distance_m))
            ),
            st.one_of(constants((0, -1, 111, 111.19508372419142, 1e7, 5000)), OWN_NUMBER),
        ),
        st.booleans(),
    ).map(_compared)
    chains = st.tuples(
        st.sampled_from((("<", "<="), ("<=", "<"), (">", ">="), (">=", ">="))),
        st.tuples(constants(NUMBERS), numbers(), constants(NUMBERS)),
        st.booleans(),
    ).map(_chained)
    between = st.tuples(numbers(), st.one_of(numbers(), constants(NUMBERS)), numbers()).map(_between)
    return st.one_of(compared, compared, compared, distances, chains, between.filter(lambda drawn: drawn is not None))


def _compared(drawn: tuple[str, tuple[Drawn, Drawn], bool]) -> DrawnCondition:
    sign, (left, right), is_flipped = drawn
    if is_flipped:
        left, right = right, left
    return predicate(
        f"{left.text} {sign} {right.text}", (left, right), lambda one, other: naive_compare(sign, one, other)
    )


def _chained(drawn: tuple[tuple[str, str], tuple[Drawn, Drawn, Drawn], bool]) -> DrawnCondition:
    (first, second), terms, is_every = drawn
    text = f"{terms[0].text} {first} {terms[1].text} {second} {terms[2].text}"
    if not terms[1].says_something:
        terms = (terms[0], variable("x", "x"), terms[2])
        text = f"{terms[0].text} {first} x {second} {terms[2].text}"
    return predicate(
        f"ALL {text}" if is_every else text,
        terms,
        lambda low, value, high: naive_compare(first, low, value) and naive_compare(second, value, high),
        is_every=is_every,
    )


def _between(terms: tuple[Drawn, Drawn, Drawn]) -> DrawnCondition | None:
    value, low, high = terms
    if not any(term.says_something for term in terms):
        return None
    return predicate(
        f"{value.text} BETWEEN {low.text} AND {high.text}",
        terms,
        lambda given, least, most: naive_compare("<=", least, given) and naive_compare("<=", given, most),
    )


def others() -> SearchStrategy[DrawnCondition]:
    listed = st.tuples(texts(), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3)).map(_listed)
    liked = st.tuples(texts(), st.sampled_from(LIKES)).map(_liked)
    found = st.tuples(texts(), st.sampled_from(PATTERNS), st.booleans()).map(_found)
    alike = st.tuples(ATTRIBUTE, st.one_of(ATTRIBUTE, texts(), constants(TEXTS))).map(_alike)
    few = ATTRIBUTE.map(lambda term: predicate(f"is_few({term.text})", (term,), lambda value: value in (1, 2)))
    null = st.sampled_from(ATTRIBUTES).map(
        lambda name: DrawnCondition(f"{name} IS NULL", lambda event, context: name not in event.attributes)
    )
    return st.one_of(listed, liked, found, found, alike, few, null)


def _listed(drawn: tuple[Drawn, list[str]]) -> DrawnCondition:
    term, values = drawn
    return predicate(
        f"{term.text} IN ({', '.join(map(constant_text, values))})", (term,), lambda value: value in set(values)
    )


def _liked(drawn: tuple[Drawn, str]) -> DrawnCondition:
    term, pattern = drawn
    expression = re.compile("".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern), re.DOTALL)
    return predicate(
        f"{term.text} LIKE {constant_text(pattern)}",
        (term,),
        lambda value: type(value) is str and expression.fullmatch(value) is not None,
    )


def _found(drawn: tuple[Drawn, str, bool]) -> DrawnCondition:
    term, pattern, is_every = drawn
    expression = re.compile(re.sub(r"\$$", r"\\Z", pattern))
    return predicate(
        f"{'ALL ' * is_every}{term.text} MATCHES {constant_text(pattern)}",
        (term,),
        lambda value: type(value) is str and expression.search(value) is not None,
        is_every=is_every,
    )


def _alike(terms: tuple[Drawn, Drawn]) -> DrawnCondition:
    return predicate(
        f"starts_alike({terms[0].text}, {terms[1].text})",
        terms,
        lambda one, other: one is not None and other is not None and str(one)[:1] == str(other)[:1],
    )


def conditions() -> SearchStrategy[DrawnCondition]:
    """Any condition."""

    def above(inner: SearchStrategy[DrawnCondition]) -> SearchStrategy[DrawnCondition]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(several.map(_all), several.map(_any), inner.map(_not))

    return st.recursive(st.one_of(comparisons(), comparisons(), others()), above, max_leaves=4)


def _all(parts: list[DrawnCondition]) -> DrawnCondition:
    def truth(event: Event, context: Mapping[str, Any]) -> Truth:
        answers = [part.truth(event, context) for part in parts]
        return False if False in answers else None if None in answers else True

    return DrawnCondition(" AND ".join(f"({part.text})" for part in parts), truth)


def _any(parts: list[DrawnCondition]) -> DrawnCondition:
    def truth(event: Event, context: Mapping[str, Any]) -> Truth:
        answers = [part.truth(event, context) for part in parts]
        return True if True in answers else None if None in answers else False

    return DrawnCondition(" OR ".join(f"({part.text})" for part in parts), truth)


def _not(part: DrawnCondition) -> DrawnCondition:
    def truth(event: Event, context: Mapping[str, Any]) -> Truth:
        answer = part.truth(event, context)
        return None if answer is None else not answer

    return DrawnCondition(f"NOT ({part.text})", truth)


# ---------------------------------------------------------------- events and contexts


def _held(pool: tuple[Any, ...]) -> SearchStrategy[Any]:
    one = st.sampled_from(pool)
    return st.one_of(one, one, one, st.lists(one, min_size=2, max_size=3).map(tuple))


def events() -> SearchStrategy[Event]:
    return st.dictionaries(st.sampled_from(ATTRIBUTES), _held(VALUES), max_size=3).map(Event)


def contexts() -> SearchStrategy[dict[str, Any]]:
    """Contexts of the subscriber; all their values are of the kind that the texts above ask for."""
    return st.fixed_dictionaries({}, optional={"limit": _held((-1, 0, 2, 5000.0)), "location": _held(POINTS)})
