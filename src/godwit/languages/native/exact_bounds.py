"""Routable bounds of a condition with an exact part: a filter that matches at least the same events.

*Theory.* Plain literals are filters already. Of a predicate a filter may know all (`abs(x) < 5` is `-5 < x < 5`), some
(`speed * 3.6 > 100` needs a speed of about 27.8), or only what it needs: the attributes that it names, and their kinds.
NOT stands at the leaves, so each leaf gives the bounds of what it says, true or false, and AND and OR combine them.

*Rules.*
1. What is true passes the upper bound, and what passes the lower bound is true. Where both are one filter, brokers
   decide alone.
2. A predicate is false only where all its attributes are there; so its NOT asks for them, too.
3. A predicate on one attribute that picks its values from a set is a literal. An OR of such literals is exact as well,
   because some value meets some of them.
4. References stay open. A reference with several values means any of them, which a complement of an open set does not
   say: it is not used.
"""

import math
from collections.abc import Callable, Iterable

from godwit.errors import BadValue, FilterError
from godwit.filters import (
    EVERYTHING,
    FALSE,
    NOTHING,
    TRUE,
    Filter,
    Kind,
    Point,
    Reference,
    Some,
    Value,
    ValueSet,
    all_of,
    all_of_kind,
    any_of,
    box,
    complement,
    holds_text,
    interval,
    like,
    negation,
    one_of,
    only,
    present,
    some,
)
from godwit.filters.references import circle
from godwit.filters.sets import OneOf
from godwit.languages.bounds import NEVER, Bounds, all_hold, exactly, some_hold
from godwit.languages.comparisons import FLIPPED
from godwit.languages.folded_texts import texts_folded_to
from godwit.languages.inverse_ranges import Range, numbers_in, range_of, undone, widened
from godwit.languages.native.built_in_functions import FUNCTIONS
from godwit.languages.native.exact_test import Operators
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
    Own,
    Plain,
    Predicate,
    Term,
    subterms,
    variables_of,
)
from godwit.languages.native.regular_expressions import texts_around
from godwit.languages.native.term_kinds import kinds_needed

__all__ = ["bounds_of"]

SPELLINGS_MAX = 256
"""How many spellings of a text `lower` and `upper` may stand for in a filter."""

LENGTH_MAX = 64
"""Up to which length of a text a filter counts its characters."""

_KIND_SETS: dict[Kind, ValueSet] = {
    Kind.BOOL: one_of([False, True]),
    Kind.NUMBER: all_of_kind(Kind.NUMBER),
    Kind.TIME: all_of_kind(Kind.TIME),
    Kind.TEXT: all_of_kind(Kind.TEXT),
    Kind.POINT: box(-180, -90, 180, 90),
}


def bounds_of(condition: Condition, operators: Operators) -> Bounds:
    """The bounds of what a condition wants."""
    match condition:
        case All(parts=parts):
            return all_hold([bounds_of(part, operators) for part in parts])
        case Any(parts=parts):
            return some_hold([bounds_of(part, operators) for part in parts])
        case Plain(filter=filter):
            return exactly(filter)
        case Not(predicate=predicate):
            return _where_false(predicate, operators)
    return _where_true(condition, operators)


def _where_true(predicate: Predicate, operators: Operators) -> Bounds:
    if isinstance(predicate, Every):
        return _where_every(predicate, operators)
    known = _known(predicate, operators)
    if known.is_exact:
        return known
    if known.upper == FALSE:
        return NEVER
    needed = [each for each in _needed(predicate) if not _is_implied(each, known.upper)]
    if FALSE in needed:
        return NEVER
    return Bounds(all_of(*needed, *([] if known.upper == TRUE else [known.upper])), FALSE)


def _where_false(predicate: Predicate, operators: Operators) -> Bounds:
    """Where all attributes are there and the predicate does not hold. (rule 2)"""
    attributes = _present(predicate)
    if isinstance(predicate, Every):
        return Bounds(all_of(*attributes), FALSE)
    known = _known(predicate, operators)
    if known == NEVER:
        asks_for_more = any(isinstance(each, Own) for each in variables_of(predicate))
        return Bounds(all_of(*attributes), FALSE) if asks_for_more else exactly(all_of(*attributes))
    if known.is_exact:
        return exactly(negation(known.upper))
    return Bounds(all_of(*attributes, *([] if known.lower == FALSE else [negation(known.lower)])), FALSE)


def _where_every(every: Every, operators: Operators) -> Bounds:
    """Where there are values, and every choice meets a predicate."""
    some_choice = _where_true(every.predicate, operators)
    if some_choice.is_exact and isinstance(some_choice.upper, Some) and not some_choice.upper.values.is_open:
        return exactly(only(some_choice.upper.attribute, some_choice.upper.values))
    return Bounds(some_choice.upper, FALSE)


def _present(predicate: Predicate) -> list[Filter]:
    names = [each.name for each in variables_of(predicate) if isinstance(each, Attribute | Count)]
    return [present(name) for name in dict.fromkeys(names)]


def _needed(predicate: Predicate) -> list[Filter]:
    """What must be there, and of which kind, or nothing meets a predicate."""
    found: list[Filter] = []
    for variable, kinds in kinds_needed(predicate).items():
        if kinds == Kind(0):
            return [FALSE]
        if isinstance(variable, Attribute) and kinds in _KIND_SETS:
            found.append(some(variable.name, _KIND_SETS[kinds]))
        elif isinstance(variable, Attribute | Count):  # of several kinds: a filter that is one literal is worth more
            found.append(present(variable.name))
    return found


def _is_implied(need: Filter, known: Filter) -> bool:
    """Whether what is known of an attribute says already that it is there, and of which kind."""
    if not isinstance(need, Some) or not isinstance(known, Some) or need.attribute != known.attribute:
        return False
    return need.values == EVERYTHING or not known.values.kinds & ~need.values.kinds


# ---------------------------------------------------------------- what filters know of a predicate


def _known(predicate: Predicate, operators: Operators) -> Bounds:
    """The bounds of a predicate whose attributes are there."""
    match predicate:
        case Matches(term=Attribute(name=name), pattern=pattern):
            values, is_all = texts_around(pattern)
            return exactly(some(name, values)) if is_all else _at_most(some(name, values))
        case InSet(term=Call(name=name, arguments=(Attribute(name=attribute),)), values=OneOf(values=values)) if (
            name in _FOLDS
        ):
            return _spelled_values(attribute, values, _FOLDS[name])
        case Holds(call=call):
            return _at_most(_operator_filter(call, operators))
        case Compared(first=first, steps=((sign, second),)):
            return _comparison(first, sign, second)
        case Compared(first=Constant(value=low), steps=((sign, term), (_, Constant(value=high)))):
            ends = (low, high) if sign[0] == "<" else (high, low)
            if all(type(end) in (int, float) for end in ends):
                return _at_most(_solved(term, (float(ends[0]), float(ends[1]))))  # type: ignore[arg-type]
    return _at_most(TRUE)


def _at_most(filter: Filter) -> Bounds:
    """A predicate that lets through no more than a filter."""
    return Bounds(filter, FALSE)


def _operator_filter(call: Call, operators: Operators) -> Filter:
    """The filter that its author gives for an operator of one attribute and constants."""
    routable = operators[call.name].routable
    names = [each.name for each in call.arguments if isinstance(each, Attribute)]
    constants = [each.value for each in call.arguments if isinstance(each, Constant)]
    if routable is None or len(names) != 1 or len(names) + len(constants) < len(call.arguments):
        return TRUE
    try:
        return routable(names[0], *constants)
    except Exception as error:
        raise FilterError(f"the filter of the operator {call.name!r} failed: {error}") from error


def _comparison(left: Term, sign: str, right: Term) -> Bounds:
    if isinstance(left, Constant | Own) and not isinstance(right, Constant | Own):
        left, sign, right = right, FLIPPED[sign], left
    if left == right and sign in ("<", ">", "<>") and not _calls_operators(left):
        return NEVER
    try:
        match left, right:
            case Call(name="distance"), Constant() | Own():
                return _distance(left, sign, right)
            case Call(name=name, arguments=(Attribute(name=attribute),)), Constant(value=value) if name in _SOLVERS:
                return _SOLVERS[name](attribute, sign, value)
            case Count(), Constant(value=value) if not _can_be(1, sign, value):
                return NEVER
            case _, Constant(value=int() | float() as number) if sign != "<>" and not isinstance(number, bool):
                return _at_most(_solved(left, range_of(sign, float(number))))
    except (BadValue, OverflowError):  # a bound that no value set can hold
        pass
    return _at_most(TRUE)


def _calls_operators(term: Term) -> bool:
    return any(isinstance(each, Call) and each.is_operator for each in subterms(term))


def _can_be(least: float, sign: str, value: Value) -> bool:
    """Whether a number that is not less than `least` can compare so with a value."""
    assert isinstance(value, int | float), "other kinds are refused when a text is read"
    return value >= least if sign in ("=", "<=") else sign != "<" or value > least


# ---------------------------------------------------------------- functions of one attribute

Solver = Callable[[str, str, Value], Bounds]


def _abs(name: str, sign: str, value: Value) -> Bounds:
    """`abs(x) < 5` is `-5 < x < 5`, and `abs(x) > 5` is `x < -5 OR x > 5`. (rule 3)"""
    assert isinstance(value, int | float)
    if not _can_be(0, sign, value):
        return NEVER
    if value < 0:
        return exactly(some(name, all_of_kind(Kind.NUMBER)))
    is_open = sign in ("<", "<>")
    inside = interval(-value, value, low_open=is_open, high_open=is_open)
    outside = [
        some(name, interval(None, -value, high_open=sign != ">=")),
        some(name, interval(value, None, low_open=sign != ">=")),
    ]
    match sign:
        case "=":
            return exactly(some(name, one_of([-value, value])))
        case "<" | "<=":
            return exactly(some(name, inside))
        case "<>":
            return exactly(any_of(*outside, some(name, inside)) if inside != NOTHING else any_of(*outside))
    return exactly(any_of(*outside))


def _length(name: str, sign: str, value: Value) -> Bounds:
    """`length(x) >= 3` is `x LIKE '___%'`."""
    assert isinstance(value, int | float)
    texts = some(name, all_of_kind(Kind.TEXT))
    if not _can_be(0, sign, value) or (sign == "=" and value != math.floor(value)):
        return NEVER
    least = math.floor(value) + 1 if sign == ">" else math.ceil(value)
    if sign in (">", ">=") and least <= 0:
        return exactly(texts)
    if not 0 <= least <= LENGTH_MAX or sign in ("<", "<=", "<>"):
        return _at_most(texts)
    return exactly(some(name, like("_" * least if sign == "=" else "_" * least + "%")))


def _lower(name: str, sign: str, value: Value) -> Bounds:
    return _spelled_values(name, (value,), str.lower) if sign == "=" else _at_most(TRUE)


def _upper(name: str, sign: str, value: Value) -> Bounds:
    return _spelled_values(name, (value,), str.upper) if sign == "=" else _at_most(TRUE)


def _spelled_values(name: str, values: Iterable[Value], fold: Callable[[str], str]) -> Bounds:
    """`lower(x) = 'ann'` is a list of spellings, if they are few."""
    spelled: list[str] = []
    for value in values:
        found = texts_folded_to(value, SPELLINGS_MAX, fold) if isinstance(value, str) else []
        if found is None or len(spelled) + len(found) > SPELLINGS_MAX:
            return _at_most(TRUE)
        spelled += found
    return exactly(some(name, one_of(spelled))) if spelled else NEVER


def _trim(name: str, sign: str, value: Value) -> Bounds:
    """What is left of a trimmed text was in it."""
    if sign != "=" or not isinstance(value, str):
        return _at_most(TRUE)
    if value.strip() != value:
        return NEVER
    return _at_most(some(name, holds_text(value))) if value else _at_most(TRUE)


_SOLVERS: dict[str, Solver] = {
    "abs": _abs,
    "length": _length,
    "lower": _lower,
    "trim": _trim,
    "upper": _upper,
}
_FOLDS: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper}


def _distance(call: Call, sign: str, radius: Constant | Own) -> Bounds:
    """`distance(p, c) <= r` is `p WITHIN circle(c, r)`; a metre less than that is the next smaller number."""
    if isinstance(radius, Constant):
        assert isinstance(radius.value, int | float)
        if not _can_be(FUNCTIONS["distance"].least or 0, sign, radius.value):
            return NEVER
    attributes = [each for each in call.arguments if isinstance(each, Attribute)]
    centres = [each for each in call.arguments if isinstance(each, Constant | Own)]
    if len(attributes) != 1 or len(centres) != 1:
        return _at_most(TRUE)
    name, centre = attributes[0].name, centres[0]
    if isinstance(radius, Own):
        return _at_most(some(name, circle(_centre(centre), radius.reference)) if sign in ("<", "<=", "=") else TRUE)
    if radius.value < 0:  # type: ignore[operator]
        return _at_most(TRUE)
    metres = float(radius.value)  # type: ignore[arg-type]
    within = circle(_centre(centre), metres)
    nearer = circle(_centre(centre), math.nextafter(metres, -math.inf)) if metres else NOTHING
    match sign:
        case "<=":
            return exactly(some(name, within))
        case "<":
            return exactly(some(name, nearer))
        case "=":
            return _at_most(some(name, within))
    if isinstance(centre, Own) or sign == "<>":  # rule 4
        return _at_most(TRUE)
    beyond = some(name, complement(within if sign == ">" else nearer))
    return Bounds(beyond, all_of(only(name, _KIND_SETS[Kind.POINT]), beyond))


def _centre(centre: Constant | Own) -> Point | Reference:
    if isinstance(centre, Own):
        return centre.reference
    assert isinstance(centre.value, Point), "other kinds are refused when a text is read"
    return centre.value


# ---------------------------------------------------------------- arithmetic


def _solved(term: Term, result: Range) -> Filter:
    """Numbers of the one attribute in a term, among them all that give a result in a range."""
    found: Range | None = result
    while found is not None:
        match term:
            case Attribute(name=name):
                return some(name, numbers_in(found)) if found[0] <= found[1] else FALSE
            case Arithmetic():
                term, found = _undone(term, found)
            case Call(name="abs", arguments=(term,)):
                found = (-found[1], found[1]) if found[1] >= 0 else None
            case Call(name="round", arguments=(term, *digits)):
                found = _unrounded(found, digits)
            case _:
                break
    return TRUE


def _undone(term: Arithmetic, result: Range) -> tuple[Term, Range | None]:
    """The non-constant operand of arithmetic, and its range when the result is in a range."""
    first, steps = term.first, term.steps
    found: Range | None = result
    while steps and found is not None:
        *before, (sign, last) = steps
        if isinstance(last, Constant):
            found = _step_undone(sign, True, last, found)
        elif isinstance(first, Constant) and not before:
            return last, _step_undone(sign, False, first, found)
        else:
            return last, None
        steps = tuple(before)
    return first, found


def _step_undone(sign: str, is_left: bool, constant: Constant, result: Range) -> Range | None:
    value = constant.value
    if type(value) not in (int, float):
        return None
    return undone(sign, is_left, float(value), result)  # type: ignore[arg-type]


def _unrounded(result: Range, digits: list[Term]) -> Range | None:
    """The numbers that are rounded into a range."""
    match digits:
        case []:
            half = 0.5
        case [Constant(value=int() as places)] if places >= 0:
            half = 0.5 * 10.0**-places
        case _:
            return None
    return widened((result[0] - half, result[1] + half), half)
