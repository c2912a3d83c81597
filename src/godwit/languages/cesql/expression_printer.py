"""Expressions as text: one text for each expression, which parses to the same one.

*Rules.*
1. AND, OR and XOR within one another always have parentheses: few readers know that they have one precedence.
2. A text stands in single quotes, unless it has a `\\'` that those cannot write.
"""

from godwit.languages.cesql.expressions import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Logic,
    Negative,
    Not,
)

__all__ = ["expression_text"]

ESCAPE = "\\"
LOGIC, COMPARISON, SUM, PRODUCT, TEST, UNARY, PRIMARY = range(7)
_OF_ARITHMETIC = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}


def expression_text(node: Expression) -> str:
    """The text of an expression."""
    return _written(node)[0]


def _written(node: Expression) -> tuple[str, int]:
    """The text of an expression, and how tightly it binds."""
    match node:
        case Literal(value):
            return _value_text(value), PRIMARY
        case Attribute(name):
            return name, PRIMARY
        case Exists(name):
            return f"EXISTS {name}", PRIMARY
        case Not(operand):
            return f"NOT {_bound(operand, UNARY)}", UNARY
        case Negative(operand):
            text = _bound(operand, UNARY)
            return f"-({text})" if text.isdigit() else f"-{text}", UNARY  # -5 would be a number
        case Logic(operator, parts):
            return f" {operator} ".join(_bound(part, COMPARISON) for part in parts), LOGIC  # rule 1
        case Comparison(operator, left, right):
            return f"{_bound(left, COMPARISON)} {operator} {_bound(right, SUM)}", COMPARISON
        case Arithmetic(operator, left, right):
            level = _OF_ARITHMETIC[operator]
            return f"{_bound(left, level)} {operator} {_bound(right, level + 1)}", level
        case Like(operand, pattern, negated):
            return f"{_bound(operand, TEST)} {'NOT ' if negated else ''}LIKE {_value_text(pattern)}", TEST
        case In(operand, elements, negated):
            return f"{_bound(operand, TEST)} {'NOT ' if negated else ''}IN ({_listed(elements)})", TEST
        case Call(name, arguments):
            return f"{name}({_listed(arguments)})", PRIMARY


def _bound(node: Expression, level: int) -> str:
    text, own = _written(node)
    return text if own >= level else f"({text})"


def _listed(nodes: tuple[Expression, ...]) -> str:
    return ", ".join(expression_text(node) for node in nodes)


def _value_text(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    return _quoted(value, "'") or _quoted(value, '"') or repr(value)


def _quoted(text: str, quote: str) -> str | None:
    """The text in these quotes, or None if they cannot write it: a backslash before one always escapes it."""
    if "\\" not in text:
        return f"{quote}{text.replace(quote, f'{ESCAPE}{quote}')}{quote}"
    pieces: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, None)
            if following is None or following == quote:
                return None
            pieces.append(character + following)
        else:
            pieces.append(f"\\{quote}" if character == quote else character)
    return f"{quote}{''.join(pieces)}{quote}"
