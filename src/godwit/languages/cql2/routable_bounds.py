"""Routable bounds of a CQL2 expression: filters that bound where it is true, and where it is false.

*Theory.* CQL2 has three truth values. So each condition gets two pairs of bounds: of the events for which it is true,
and of those for which it is false; of what is in neither it is unknown. NOT changes the places of the two pairs, AND
is true where all parts are and false where one is, OR the other way round. The query is routed by the upper bound of
"true". Where that is also the lower one, filters have said everything, and there is nothing more to test.

*Rules.*
1. Whatever is true passes the upper bound of "true", and what passes its lower bound is true; the same for "false".
2. A predicate that no filter can say still needs its properties: without them it is unknown. So its upper bounds ask
   that they are present, and its lower bounds are empty.
3. A property with constants is a value set. Spatial predicates are looser: points by a region or a box, other
   geometries by their bounding box."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from godwit.errors import BadValue, FilterError
from godwit.filters import (
    FALSE,
    NOTHING,
    Filter,
    Kind,
    Value,
    ValueSet,
    all_of,
    all_of_kind,
    any_of,
    at_least,
    at_most,
    complement,
    interval,
    less_than,
    missing,
    more_than,
    negation,
    one_of,
    only,
    present,
    some,
)
from godwit.filters.events import Event
from godwit.filters.geometries import GEOJSON, Geometry
from godwit.languages.bounds import ALWAYS, NEVER, UNKNOWN, Bounds, all_hold, exactly, some_hold
from godwit.languages.comparisons import FLIPPED, OPPOSITE, holds
from godwit.languages.cql2.evaluation import Operators, constant_values, is_constant, truth_of
from godwit.languages.cql2.expressions import (
    ARRAYS,
    RELATIONS,
    TEMPORAL,
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
    Property,
    Related,
    Sort,
    Truth,
    sort_of,
)
from godwit.languages.cql2.instants import ENDS, FIRST, LAST
from godwit.languages.cql2.linear_bounds import solved
from godwit.languages.cql2.spatial_bounds import spatial_bounds
from godwit.languages.cql2.text_folding import pattern_set
from godwit.languages.folded_texts import texts_folded_to
from godwit.languages.query import Subject

__all__ = ["TruthBounds", "bounds_where", "truth_bounds"]

FOLDED_TEXTS_MAX = 256
"""How many spellings of a text CASEI may stand for in a filter."""


@dataclass(frozen=True, slots=True)
class TruthBounds:
    """Where a condition is true, and where it is false."""

    true: Bounds
    false: Bounds

    def __invert__(self) -> "TruthBounds":
        return TruthBounds(self.false, self.true)


def truth_bounds(expression: Expression, operators: Operators) -> TruthBounds:
    """The bounds of a condition."""
    return TruthBounds(bounds_where(True, expression, operators), bounds_where(False, expression, operators))


def bounds_where(truth: bool, expression: Expression, operators: Operators) -> Bounds:
    """Where a condition is true, or where it is false: most conditions are never asked for the other."""
    match expression:
        case Not(operand=operand):
            return bounds_where(not truth, operand, operators)
        case Combined(sign=sign, parts=parts):
            inner = [bounds_where(truth, part, operators) for part in parts]
            return all_hold(inner) if (sign == "and") is truth else some_hold(inner)
    found = _bounds_of_part(expression, operators)
    return found.true if truth else found.false


def _bounds_of_part(expression: Expression, operators: Operators) -> TruthBounds:
    """The bounds of a simple condition."""
    match expression:
        case Truth(value=value):
            return TruthBounds(ALWAYS, NEVER) if value else TruthBounds(NEVER, ALWAYS)
        case IsNull(operand=operand):
            return _null_bounds(operand, operators)
        case Function():
            return _function_bounds(expression, operators)
    if is_constant(expression):
        return _constant_bounds(expression)
    found = _predicate_bounds(expression)
    return _needs(expression) if found is None else found


def _predicate_bounds(expression: Expression) -> TruthBounds | None:
    """The bounds of a predicate, or None when there is nothing to say but that its properties must be there."""
    try:
        match expression:
            case Compared(sign=sign, left=left, right=right):
                if is_constant(left):
                    return _comparison(FLIPPED[sign], right, left)
                return _comparison(sign, left, right)
            case Between(operand=Property(name=name), low=low, high=high) if is_constant(low) and is_constant(high):
                return _range(name, constant_values(low), constant_values(high))
            case InList(operand=operand, items=items) if all(map(is_constant, items)):
                return _list(operand, [constant_values(item) for item in items])
            case Like(operand=Property(name=name), pattern=pattern):
                return _literal(name, pattern_set(pattern))
            case Like(operand=Folded(operand=Property(name=name))):
                return _texts(name)
            case Related(relation=relation, left=left, right=right):
                if RELATIONS[relation] == TEMPORAL:
                    return _times(relation, left, right)
                if RELATIONS[relation] == ARRAYS:
                    return _arrays(relation, left, right)
                return _spatial(relation, left, right)
    except BadValue:  # a constant that no value set can hold: a number that arithmetic has made too large
        pass
    return None


def _literal(name: str, values: ValueSet) -> TruthBounds:
    """True where some value of an attribute is in a set, false where it has values and none is."""
    literal = some(name, values)
    return TruthBounds(exactly(literal), exactly(negation(literal)))


def _needs(expression: Expression) -> TruthBounds:
    """All that is known of a predicate is what it needs. (rule 2)"""
    bounds = Bounds(all_of(*_needed(expression)), FALSE)
    return TruthBounds(bounds, bounds)


def _needed(expression: Expression, is_scalar: bool = True) -> list[Filter]:
    """What must be present, or an operand or predicate has no value."""
    match expression:
        case Property(name=name):
            return [present(name) if is_scalar else _some_geometry(name)]
        case Function(arguments=arguments):
            return [each for argument in arguments for each in _needed(argument, is_scalar=False)]
        case Arithmetic() | Compared():
            return [*_needed(expression.left), *_needed(expression.right)]
        case Related(relation=relation, left=left, right=right):
            is_scalar = not relation.startswith("s_")
            return [*_needed(left, is_scalar), *_needed(right, is_scalar)]
        case Between(operand=operand, low=low, high=high):
            return [*_needed(operand), *_needed(low), *_needed(high)]
        case Folded(operand=operand) | InList(operand=operand) | Like(operand=operand):
            return _needed(operand)
        case Interval(start=start, end=end):
            return [each for one in (start, end) if one is not None for each in _needed(one)]
        case Array(items=items):
            return [each for item in items for each in _needed(item, is_scalar)]
    return []


def _some_geometry(name: str) -> Filter:
    return any_of(present(name), present(f"{name}/{GEOJSON}"))


def _constant_bounds(expression: Expression) -> TruthBounds:
    truth = truth_of(expression, {})(Subject(Event({})))
    return TruthBounds(ALWAYS if truth else NEVER, ALWAYS if truth is False else NEVER)


def _null_bounds(operand: Expression, operators: Operators) -> TruthBounds:
    if isinstance(operand, Property):
        is_present = _some_geometry(operand.name)
        gone = all_of(missing(operand.name), missing(f"{operand.name}/{GEOJSON}"))
        return TruthBounds(exactly(gone), exactly(is_present))
    if sort_of(operand) is Sort.CONDITION:
        inner = truth_bounds(operand, operators)
        known = inner.true | inner.false
        return TruthBounds(~known, known)
    if is_constant(operand):
        return _constant_bounds(IsNull(operand))
    return TruthBounds(UNKNOWN, Bounds(all_of(*_needed(operand, is_scalar=False)), FALSE))


def _function_bounds(function: Function, operators: Operators) -> TruthBounds:
    needed = all_of(*_needed(function))
    true = needed
    routable = operators[function.name.lower()].routable
    properties = [each for each in function.arguments if isinstance(each, Property)]
    constants = [each for each in function.arguments if not isinstance(each, Property)]
    if routable is not None and len(properties) == 1 and all(map(_is_plain, constants)):
        try:
            given = routable(properties[0].name, *(constant_values(each)[0] for each in constants))
        except Exception as error:
            raise FilterError(f"the filter of the operator {function.name!r} failed: {error}") from error
        true = given
    return TruthBounds(Bounds(true, FALSE), Bounds(needed, FALSE))


def _is_plain(expression: Expression) -> bool:
    """Whether an expression is one constant value."""
    plain = Sort.TEXT | Sort.NUMBER | Sort.TRUTH | Sort.INSTANT
    return bool(sort_of(expression) & plain) and is_constant(expression) and len(constant_values(expression)) == 1


# ---------------------------------------------------------------- comparisons


_SETS: dict[str, Callable[[Value], ValueSet]] = {
    "=": lambda value: one_of([value]),
    "<>": lambda value: complement(one_of([value])),
    "<": less_than,
    "<=": at_most,
    ">": more_than,
    ">=": at_least,
}


def _comparison(sign: str, left: Expression, right: Expression) -> TruthBounds | None:
    """A comparison whose constant side, if it has one, is the right one."""
    if not is_constant(right):
        return None
    values = constant_values(right)
    if not values:
        return TruthBounds(NEVER, NEVER)
    [value] = values
    match left:
        case Property(name=name):
            has_order = type(value) is not bool or sign in ("=", "<>")
            return _literal(name, _SETS[sign](value) if has_order else NOTHING)
        case Folded(operand=Property(name=name)) if sign in ("=", "<>"):
            spelled = _spelled(left.how, [value])
            if spelled is not None:
                return _literal(name, one_of(spelled) if sign == "=" else complement(one_of(spelled)))
            return _texts(name) if sign == "=" else ~_texts(name)
        case Folded(operand=Property(name=name)) if type(value) is str:
            return _texts(name)
        case Arithmetic():
            return _linear(sign, left, value)
    return None


def _texts(name: str) -> TruthBounds:
    """A predicate that only a text can meet."""
    return TruthBounds(Bounds(some(name, all_of_kind(Kind.TEXT)), FALSE), Bounds(present(name), FALSE))


def _spelled(how: str, wanted: list[Any]) -> list[Any] | None:
    """What CASEI and ACCENTI make these values of; None when it cannot be listed, and then it is texts only."""
    spelled: list[Any] = []
    for value in wanted:
        if type(value) is not str:
            spelled.append(value)
            continue
        texts = texts_folded_to(value, FOLDED_TEXTS_MAX, str.casefold) if how == "casei" else None
        if texts is None or len(spelled) + len(texts) > FOLDED_TEXTS_MAX:
            return None
        spelled += texts
    return spelled


def _linear(sign: str, left: Arithmetic, value: Value) -> TruthBounds | None:
    """Arithmetic with one property and constants, solved for the property; rounding is allowed for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    found = solved(sign, left, value), solved(OPPOSITE[sign], left, value)
    if found[0] is None or found[1] is None:
        return None
    [name] = {each.name for each in _properties(left)}
    true, false = (Bounds(some(name, values), FALSE) for values in found if values is not None)
    return TruthBounds(true, false)


def _properties(expression: Expression) -> list[Property]:
    if isinstance(expression, Arithmetic):
        return [*_properties(expression.left), *_properties(expression.right)]
    return [expression] if isinstance(expression, Property) else []


def _range(name: str, lows: tuple[Any, ...], highs: tuple[Any, ...]) -> TruthBounds:
    if not lows or not highs:
        return TruthBounds(NEVER, NEVER)
    low, high = lows[0], highs[0]
    is_range = holds("<=", low, high)
    return _literal(name, interval(low, high) if is_range else NOTHING)


def _list(operand: Expression, items: Sequence[tuple[Any, ...]]) -> TruthBounds | None:
    wanted: list[Any] | None = [value for values in items for value in values]
    match operand:
        case Property(name=name):
            pass
        case Folded(how=how, operand=Property(name=name)):
            if any(type(value) is not str for value in wanted or ()):
                return None
            wanted = _spelled(how, wanted or [])
        case _:
            return None
    found = _texts(name) if wanted is None else _literal(name, one_of(wanted))
    return found if all(items) else TruthBounds(found.true, NEVER)  # with a missing item, what is not found is unknown


# ---------------------------------------------------------------- times, arrays, geometries

_Slot = tuple[str, str]


class _Ends:
    """The ends of a temporal operand: constant, or a property in a slot. An instant has one slot for both ends."""

    def __init__(self, side: str, operand: Expression) -> None:
        self.slots: dict[str, _Slot] = {}
        self.names: dict[_Slot, str] = {}
        self.constants: dict[str, Any] = {}
        self.is_known = True
        if isinstance(operand, Interval):
            self._add("start", (side, "start"), operand.start, FIRST)
            self._add("end", (side, "end"), operand.end, LAST)
        else:
            for end in ("start", "end"):
                self._add(end, (side, "instant"), operand, None)

    def _add(self, end: str, slot: _Slot, operand: Expression | None, open_end: Any) -> None:
        if operand is None:
            self.constants[end] = open_end
        elif isinstance(operand, Property):
            self.slots[end] = slot
            self.names[slot] = operand.name
        elif is_constant(operand):
            [self.constants[end]] = constant_values(operand)
        else:
            self.is_known = False


def _times(relation: str, left: Expression, right: Expression) -> TruthBounds | None:
    """Ends that are properties against ends that are constants: the table of `instants.py` as value sets."""
    if relation == "t_disjoint":
        intersects = _times("t_intersects", left, right)
        return None if intersects is None else ~intersects
    ours, theirs = _Ends("left", left), _Ends("right", right)
    if not ours.is_known or not theirs.is_known:
        return None
    wanted: dict[_Slot, list[tuple[str, Any]]] = {}
    is_possible = True
    for one, sign, other in ENDS[relation]:
        if one in ours.constants and other in theirs.constants:
            is_possible = is_possible and holds(sign, ours.constants[one], theirs.constants[other])
        elif other in theirs.constants:
            wanted.setdefault(ours.slots[one], []).append((sign, theirs.constants[other]))
        elif one in ours.constants:
            wanted.setdefault(theirs.slots[other], []).append((FLIPPED[sign], ours.constants[one]))
        else:
            return None
    names = ours.names | theirs.names
    if not is_possible:
        return TruthBounds(NEVER, exactly(all_of(*map(present, names.values()))))
    others = [present(name) for slot, name in names.items() if slot not in wanted]
    literals = [some(names[slot], _time_set(conditions)) for slot, conditions in wanted.items()]
    if not literals:
        return TruthBounds(exactly(all_of(*others)), NEVER)
    needed = [*others, *([present(names[slot]) for slot in wanted] if len(wanted) > 1 else [])]
    false = any_of(*(negation(literal) for literal in literals))
    return TruthBounds(exactly(all_of(*literals, *others)), exactly(all_of(false, *needed)))


def _time_set(conditions: list[tuple[str, Any]]) -> ValueSet:
    """The times that meet all of some comparisons."""
    lows = [(time, sign == ">") for sign, time in conditions if sign in (">", ">=", "=")]
    highs = [(time, sign != "<") for sign, time in conditions if sign in ("<", "<=", "=")]
    low, low_open = max(lows) if lows else (None, False)
    high, high_closed = min(highs) if highs else (None, True)
    return interval(low, high, low_open=low_open, high_open=not high_closed)


_SWAPPED = {"a_contains": "a_containedby", "a_containedby": "a_contains"}


def _arrays(relation: str, left: Expression, right: Expression) -> TruthBounds | None:
    """An attribute against an array of constants."""
    if isinstance(right, Property):
        left, right, relation = right, left, _SWAPPED.get(relation, relation)
    if not isinstance(left, Property) or not isinstance(right, Array) or not all(map(_is_plain, right.items)):
        return None
    name, values = left.name, [constant_values(item)[0] for item in right.items]
    each = [some(name, one_of([value])) for value in values]
    true = {
        "a_contains": all_of(*each, *([] if each else [present(name)])),
        "a_overlaps": some(name, one_of(values)),
        "a_containedby": only(name, one_of(values)),
        "a_equals": all_of(*each, only(name, one_of(values))),
    }[relation]
    return TruthBounds(exactly(true), exactly(negation(true)))


def _spatial(relation: str, left: Expression, right: Expression) -> TruthBounds | None:
    """A property against a constant geometry."""
    if relation == "s_disjoint":
        intersects = _spatial("s_intersects", left, right)
        return None if intersects is None else ~intersects
    if isinstance(right, Property):
        left, right, relation = (
            right,
            left,
            {"s_within": "s_contains", "s_contains": "s_within"}.get(relation, relation),
        )
    if not isinstance(left, Property) or not isinstance(right, Geometry | BBox):
        return None
    return TruthBounds(*spatial_bounds(relation, left.name, right))
