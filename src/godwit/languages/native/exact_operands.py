"""Operands of the exact part while they are read, and which of them can meet.

An operand is one of a filter, or a term that filters do not know. Errors of two operands that do not depend on the
event are reported here, so that a mistyped comparison does not wait for events that it can never match.
"""

from typing import NamedTuple

from godwit.filters import Kind, Reference
from godwit.filters.language import operands
from godwit.filters.language.scanning import Fault, Word
from godwit.filters.values import ORDERED_KINDS, kind_name
from godwit.languages.native.built_in_functions import SUM
from godwit.languages.native.expressions import Arithmetic, Attribute, Call, Constant, Count, Own, Term
from godwit.languages.native.term_kinds import kinds_of

__all__ = ["Exact", "Operand", "check_calculable", "check_comparable", "described", "shown", "term_of"]


class Exact(NamedTuple):
    """An operand that filters do not know."""

    term: Term
    word: str


Operand = operands.Operand | Exact


def term_of(operand: Operand) -> Term:
    """The term that an operand is."""
    match operand:
        case Exact(term):
            return term
        case operands.Attribute(name):
            return Attribute(name)
        case operands.Constant(Reference() as reference):
            return Own(reference)
        case operands.Constant(value):
            return Constant(value)  # type: ignore[arg-type]
    raise Fault(f"{operand.word}(…) is a set, and no value", operand.word, ("a value", "WITHIN for a region"))


def described(operand: Operand) -> str:
    """What an operand is, for a message."""
    kinds = " or ".join(kind_name(kind) for kind in Kind if kind & kinds_of(term_of(operand)))
    return f"{shown(operand)} is a {kinds}"


def shown(operand: Operand) -> str:
    """An operand as a message shows it."""
    match operand:
        case Exact(Call() | Count()):
            return f"{operand.word}(…)"
        case Exact(Arithmetic()):
            return f"{operand.word} …"
    return str(operand.word)


def check_calculable(left: Operand | None, sign: Word, right: Operand, allowed: Kind = Kind.NUMBER | Kind.TIME) -> None:
    """Refuse operands that arithmetic knows nothing of. (rule 3)"""
    allowed = allowed if sign in SUM else Kind.NUMBER
    for operand in (left, right):
        if operand is not None and not kinds_of(term_of(operand)) & allowed:
            wanted = " and ".join(f"{kind_name(kind)}s" for kind in Kind if kind & allowed)
            raise Fault(f"{sign} takes {wanted}, and {described(operand)}", operand.word, ("a number",))


def check_comparable(left: Operand, sign: str, right: Operand) -> None:
    """Refuse a comparison of kinds that never compare. (rule 3)"""
    left_kinds, right_kinds = kinds_of(term_of(left)), kinds_of(term_of(right))
    if not left_kinds & right_kinds:
        raise Fault(f"{described(left)}, and {described(right)}: these never compare", right.word)
    if sign not in ("=", "<>", "!="):
        for operand, kinds in ((left, left_kinds), (right, right_kinds)):
            if not kinds & ORDERED_KINDS:
                raise Fault(f"{described(operand)}, which has no order", operand.word)
