"""The text of an XQL query, in the spelling of 1998. What is printed parses to an equal tree."""

from collections.abc import Iterable

from godwit.languages.xql.tree import (
    And,
    Applied,
    Attribute,
    Call,
    Compare,
    Current,
    Element,
    Expression,
    Filtered,
    Index,
    Intersect,
    Literal,
    Not,
    Or,
    Path,
    Step,
    Union,
    Unknown,
    Weak,
)

__all__ = ["literal_text", "printed_query"]

OR, AND, NOT, UNION, INTERSECT, COMPARISON, PATH, BANG, SUBSCRIPT, TERM = range(10)


def printed_query(said: Expression) -> str:
    """The text of a query."""
    return _printed(said, OR)


def literal_text(value: str | int | float) -> str:
    """A literal as it is written."""
    if isinstance(value, str):
        return f'"{value}"' if "'" in value else f"'{value}'"
    text = repr(value)
    return text if "e" not in text else f"{value:.0f}" if abs(value) > 1 else f"{value:.400f}".rstrip("0")


def _printed(said: Expression, loosest: int) -> str:
    """The text, in brackets when it binds more loosely than may stand here."""
    binding, text = _text(said)
    return text if binding >= loosest else f"({text})"


def _text(said: Expression) -> tuple[int, str]:
    match said:
        case Or(parts=parts):
            return OR, _joined(" $or$ ", parts, AND)
        case And(parts=parts):
            return AND, _joined(" $and$ ", parts, NOT)
        case Not(inner=inner):
            return NOT, f"$not$ {_printed(inner, NOT)}"
        case Union(parts=parts):
            return UNION, _joined(" $union$ ", parts, INTERSECT)
        case Intersect(parts=parts):
            return INTERSECT, _joined(" $intersect$ ", parts, COMPARISON)
        case Compare(operator=operator, left=left, right=right, every=every):
            quantifier = "$all$ " if every else ""
            return COMPARISON, f"{quantifier}{_printed(left, PATH)} ${operator}$ {_printed(right, PATH)}"
        case Literal(value=value):
            return PATH, literal_text(value)
        case Path(absolute=absolute, steps=steps):
            return PATH, "".join(_step_texts(absolute, steps)) or "/"
        case Applied(of=of, call=call):
            return BANG, f"{_printed(of, BANG)}!{_text(call)[1]}"
        case Filtered(of=of, picks=picks):
            return SUBSCRIPT, _printed(of, TERM) + "".join(f"[{_pick(pick)}]" for pick in picks)
        case Call(name=name, arguments=arguments):
            return TERM, f"{name}({', '.join(map(printed_query, arguments))})"
        case Element(name=name, prefix=prefix):
            return TERM, _qualified(name, prefix)
        case Attribute(name=name, prefix=prefix):
            return TERM, f"@{_qualified(name, prefix)}"
        case Current():
            return TERM, "."
        case Unknown() | Weak():
            return TERM, "(unknown)"


def _joined(sign: str, parts: Iterable[Expression], loosest: int) -> str:
    return sign.join(_printed(part, loosest) for part in parts)


def _step_texts(absolute: bool, steps: tuple[Step, ...]) -> Iterable[str]:
    for place, step in enumerate(steps):
        if place or absolute:
            yield "//" if step.descends else "/"
        yield _printed(step.term, BANG)


def _pick(pick: "Expression | Index") -> str:
    if isinstance(pick, Index):
        return ", ".join(str(first) if first == last else f"{first} $to$ {last}" for first, last in pick.ranges)
    return printed_query(pick)


def _qualified(name: str, prefix: str) -> str:
    return name if not prefix or (prefix == name == "*") else f"{prefix}:{name}"
