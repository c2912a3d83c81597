"""Kinds of values: which a term may have, and which a predicate needs. `lower(x) = 'ann'` needs an x that is a text.

*Rules.*
1. A choice of values meets a predicate only if each variable's value is of a kind that it needs.
2. A variable that is needed as two kinds at once has none left: nothing meets the predicate.
"""

from collections.abc import Mapping

from godwit.filters import Kind
from godwit.filters.values import ALL_KINDS, ORDERED_KINDS, kind_of
from godwit.languages.native.built_in_functions import FUNCTIONS, PRODUCT, SUM
from godwit.languages.native.expressions import (
    Arithmetic,
    Attribute,
    Call,
    Compared,
    Constant,
    Count,
    Every,
    InSet,
    Matches,
    Own,
    Predicate,
    Term,
    Variable,
    terms_of,
    variables_of,
)

__all__ = ["kinds_needed", "kinds_of"]


def kinds_of(term: Term) -> Kind:
    """The kinds that the value of a term may have."""
    match term:
        case Constant(value=value):
            return kind_of(value)
        case Count():
            return Kind.NUMBER
        case Arithmetic(steps=steps):
            return Kind.NUMBER | Kind.TIME if steps[0][0] in SUM else Kind.NUMBER
        case Call(name=name, is_operator=False):
            return FUNCTIONS[name].result
    return ALL_KINDS


def kinds_needed(predicate: Predicate) -> Mapping[Variable, Kind]:
    """For each variable, the kinds that its value may have where the predicate is met."""
    needed: dict[Variable, Kind] = dict.fromkeys(variables_of(predicate), ALL_KINDS)
    decided = predicate.predicate if isinstance(predicate, Every) else predicate
    match decided:
        case Compared(first=first, steps=steps):
            kinds = ALL_KINDS
            if steps[0][0] != "<>":  # equal and ordered values are of one kind
                kinds = kinds if steps[0][0] == "=" else ORDERED_KINDS
                for term in terms_of(decided):
                    kinds &= kinds_of(term)
            for term in (first, *(term for _, term in steps)):
                _need(term, kinds, needed)
        case InSet(term=term, values=values):
            _need(term, values.kinds, needed)
        case Matches(term=term):
            _need(term, Kind.TEXT, needed)
        case _:
            for term in terms_of(decided):
                _need(term, ALL_KINDS, needed)
    return needed


def _need(term: Term, kinds: Kind, needed: dict[Variable, Kind]) -> None:
    """A term has to have a value of one of these kinds."""
    match term:
        case Attribute() | Own() | Count():
            needed[term] &= kinds
        case Arithmetic(first=first, steps=steps):
            operands = [first, *(step for _, step in steps)]
            taken = _operand_kinds(term, kinds, operands)
            for operand in operands:
                _need(operand, taken, needed)
        case Call(name=name, arguments=arguments, is_operator=is_operator):
            parameters = [ALL_KINDS] * len(arguments) if is_operator else FUNCTIONS[name].parameters
            for argument, kind in zip(arguments, parameters, strict=False):
                _need(argument, kind, needed)


def _operand_kinds(term: Arithmetic, kinds: Kind, operands: list[Term]) -> Kind:
    """What arithmetic takes, for a result of these kinds."""
    if term.steps[0][0] in PRODUCT:
        return Kind.NUMBER
    are_numbers = sum(kinds_of(operand) == Kind.NUMBER for operand in operands)
    if not kinds & Kind.TIME and are_numbers == len(operands) - 1:
        return Kind.NUMBER  # a time with numbers added to it stays a time
    return Kind.NUMBER | Kind.TIME
