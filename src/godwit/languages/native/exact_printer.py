"""Conditions as text: what is printed parses back to an equal condition."""

from godwit.filters.language.printing import name_text, phrase, text_text, to_text, value_text
from godwit.languages.native.built_in_functions import COUNT, SUM
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
)

__all__ = ["condition_text", "term_text"]


def condition_text(condition: Condition) -> str:
    """A condition on one line."""
    match condition:
        case All(parts=parts):
            return " AND ".join(
                f"({condition_text(part)})" if isinstance(part, Any) else condition_text(part) for part in parts
            )
        case Any(parts=parts):
            return " OR ".join(map(condition_text, parts))
        case Plain(filter=filter):
            return to_text(filter)
        case Not(predicate=predicate):
            return f"NOT {_predicate_text(predicate)}"
    return _predicate_text(condition)


def _predicate_text(predicate: Predicate) -> str:
    match predicate:
        case Compared(first=first, steps=steps):
            return " ".join([term_text(first), *(f"{sign} {term_text(term)}" for sign, term in steps)])
        case InSet(term=term, values=values):
            return phrase(term_text(term), values)
        case Matches(term=term, pattern=pattern):
            return f"{term_text(term)} MATCHES {text_text(pattern)}"
        case Holds(call=call):
            return term_text(call)
        case Every(predicate=inner):
            return f"ALL {_predicate_text(inner)}"


def term_text(term: Term) -> str:
    """A term."""
    match term:
        case Constant(value=value):
            return value_text(value)
        case Attribute(name=name):
            return name_text(name)
        case Own(reference=reference):
            return value_text(reference)
        case Count(name=name):
            return f"{COUNT}({name_text(name)})"
        case Call(name=name, arguments=arguments):
            return f"{name_text(name)}({', '.join(map(term_text, arguments))})"
        case Arithmetic(first=first, steps=steps):
            level = _level(term)
            pieces = [_operand_text(first, level), *(f"{sign} {_operand_text(step, level)}" for sign, step in steps)]
            return " ".join(pieces)


def _level(term: Arithmetic) -> int:
    """How tightly its signs bind."""
    return 1 if term.steps[0][0] in SUM else 2


def _operand_text(term: Term, level: int) -> str:
    """An operand of arithmetic, in parentheses where its own signs do not bind tighter."""
    text = term_text(term)
    return f"({text})" if isinstance(term, Arithmetic) and _level(term) <= level else text
