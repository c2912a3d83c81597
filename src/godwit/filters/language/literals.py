"""What a comparison means: which values of an attribute it asks for.

*Theory.* A comparison of operands is a `Claim`: an attribute, a value set, and whether it is denied. A quantifier, or
that there is none, makes it a literal.

*Rules.*
1. Without a quantifier a claim is about some value, and a denied claim the exact opposite: `x NOT IN (…)` is `NOT x IN
   (…)`.
2. A fault knows the word that it is about. Nothing else is raised.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from godwit.filters import references, regions, sets
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.filters.filters import FALSE, TRUE, Filter, Missing, Some, only
from godwit.filters.language.operands import (
    REGIONS,
    Attribute,
    Constant,
    Named,
    Spelled,
    Topics,
    built,
    number_value,
    text_value,
)
from godwit.filters.language.scanning import EXACT_PART, Fault
from godwit.filters.references import Reference
from godwit.filters.sets import EVERYTHING, Interval, OneOf, ValueSet, complement
from godwit.filters.values import Kind, Value, kind_name, kind_of


class Claim(NamedTuple):
    """What a comparison says of an attribute: that a value lies in `values`, or, denied, that none does."""

    attribute: str
    values: ValueSet
    denied: bool
    word: str


# ---------------------------------------------------------------- literals


def simple_literal(name: str, op: str, word: str, kind: str) -> Filter | None:
    """What `name op word` means, where a comparison ends after a word of this kind: as most comparisons are written.

    None if it is not that simple: then its operands are looked at one by one, with the same outcome.
    """
    if not name.isascii() or "." in name or len(name) > NAME_LENGTH_MAX or name.lower() == "myloc":
        return None
    if kind == "NUMBER":
        return Some(str(name), _values(op, number_value(word), word))
    if kind == "STRING":
        return Some(str(name), _values(op, text_value(word), word))
    return None


def plain_literal(claim: Claim | Filter) -> Filter:
    """What a comparison without a quantifier means. (rule 1)"""
    if type(claim) is not Claim:
        return claim  # type: ignore[return-value]
    attribute, values, denied, _ = claim
    return only(attribute, complement(values)) if denied else Some(attribute, values)


def quantified_literal(quantifier: str, denied: bool, claim: Claim | Filter) -> Filter:
    """What a comparison after ANY or ALL means, and after a NOT between them if it is `denied`."""
    if type(claim) is not Claim:
        raise Fault(f"{quantifier.upper()} must be followed by a comparison of an attribute", quantifier)
    values = complement(claim.values) if claim.denied != denied else claim.values
    return Some(claim.attribute, values) if quantifier.upper() == "ANY" else only(claim.attribute, values)


def null_literal(operand: Spelled) -> Filter:
    """What IS NULL means."""
    return Missing(_attribute(operand, "IS NULL").name)


def not_null_literal(operand: Spelled) -> Filter:
    """What IS NOT NULL means."""
    return Some(_attribute(operand, "IS NOT NULL").name, EVERYTHING)


# ---------------------------------------------------------------- comparisons


def bare(operand: Spelled) -> Claim | Filter:
    """What an operand alone means."""
    match operand:
        case Attribute(name, word):
            return Claim(name, _TRUE_ONLY, False, word)
        case Constant(bool() as value):
            return TRUE if value else FALSE
    raise Fault(f"{operand.word} is not a condition", operand.word, ("a comparison with an attribute",))


def compared(left: Spelled, op: str, right: Spelled) -> Claim:
    """What `left op right` means."""
    if type(left) is Attribute and type(right) is Constant:
        return Claim(left.name, _values(op, right.value, right.word), False, left.word)
    if type(right) is Attribute and type(left) is Constant:
        return Claim(right.name, _values(_FLIPPED[op], left.value, left.word), False, right.word)
    raise _not_comparable(left, op, right)


def chained(left: Spelled, first: str, middle: Spelled, second: str, right: Spelled) -> Claim:
    """What `left first middle second right` means: 1 < price <= 5."""
    if type(middle) is not Attribute:
        raise Fault("a chain of comparisons has its attribute in the middle: 1 < price <= 5", middle.word)
    for op, end in ((first, left), (second, right)):
        if type(end) is not Constant:
            raise _not_comparable(middle, op, end)
    assert isinstance(left, Constant)
    assert isinstance(right, Constant)
    if first[0] != second[0] or first in ("<>", "!=", "=") or second in ("<>", "!=", "="):
        raise Fault("a chain of comparisons runs one way: 1 < price <= 5, or 5 >= price > 1", second)
    if first[0] == ">":
        left, first, right, second = right, second, left, first
    low_open, high_open = first in ("<", ">"), second in ("<", ">")
    values = built(left.word, _range, left.value, right.value, low_open, high_open)
    return Claim(middle.name, values, False, middle.word)


def between(operand: Spelled, denied: bool, low: Spelled, high: Spelled) -> Claim:
    """What `operand BETWEEN low AND high` means."""
    attribute = _attribute(operand, "BETWEEN")
    values = built(low.word, _range, _value(low, "BETWEEN"), _value(high, "BETWEEN"), False, False)
    return Claim(attribute.name, values, denied, attribute.word)


def listed(operand: Spelled, denied: bool, elements: Iterable[Spelled]) -> Claim:
    """What `operand IN (elements)` means."""
    attribute = _attribute(operand, "IN")
    values = references.one_of([_value(element, "IN") for element in elements])
    return Claim(attribute.name, values, denied, attribute.word)


def like(operand: Spelled, denied: bool, pattern: Spelled, escape: Constant | None) -> Claim:
    """What `operand LIKE pattern ESCAPE escape` means."""
    attribute = _attribute(operand, "LIKE")
    if type(pattern) is Topics:
        if escape is not None:
            raise Fault("a topic pattern has no escape", escape.word)
        return Claim(attribute.name, pattern.values, denied, attribute.word)
    value = _value(pattern, "LIKE")
    if isinstance(value, Reference):
        if escape is not None:
            raise Fault(f"ESCAPE needs a pattern that is written out; in {value} the escape is \\", escape.word)
        return Claim(attribute.name, references.like(value), denied, attribute.word)
    if not isinstance(value, str):
        raise Fault(
            f"LIKE compares with a pattern, and {pattern.word} is a {kind_name(kind_of(value))}",
            pattern.word,
            ("a 'text'",),
        )
    values = (
        built(pattern.word, sets.like, value) if escape is None else built(escape.word, sets.like, value, escape.value)
    )
    return Claim(attribute.name, values, denied, attribute.word)


def within(operand: Spelled, denied: bool, region: Spelled) -> Claim:
    """What `operand WITHIN region` means."""
    attribute = _attribute(operand, "WITHIN")
    return Claim(attribute.name, _region(region), denied, attribute.word)


def of_kind(operand: Spelled, denied: bool, kind: str) -> Claim:
    """What `operand IS kind` means."""
    attribute = _attribute(operand, "IS")
    values = _KINDS.get(kind.upper())
    if values is None:
        raise Fault(f"{kind} is not a kind of value", kind, ("NULL", *_KINDS))
    return Claim(attribute.name, values, denied, attribute.word)


# ---------------------------------------------------------------- comparisons with one value

_FLIPPED = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _values(op: str, value: Value | Reference, word: str) -> ValueSet:
    """The values that compare in this way with a value that is written as `word`."""
    if op in ("=", "<>", "!="):
        values = references.one_of((value,)) if type(value) is Reference else OneOf((value,))  # type: ignore[arg-type]
        return values if op == "=" else complement(values)
    low, high = (None, value) if op[0] == "<" else (value, None)
    if type(value) is int or type(value) is float:
        return Interval(Kind.NUMBER, low, high, op == ">", op == "<")  # type: ignore[arg-type]
    return built(word, _range, low, high, op == ">", op == "<")  # type: ignore[no-any-return]


def _range(low: Any, high: Any, low_open: bool, high_open: bool) -> ValueSet:
    return references.interval(low, high, low_open=low_open, high_open=high_open)


# ---------------------------------------------------------------- operands, checked


def _attribute(operand: Spelled, what: str) -> Attribute:
    if type(operand) is Attribute:
        return operand
    raise Fault(f"{what} needs an attribute, and {operand.word} is not one", operand.word, ("an attribute",))


def _value(operand: Spelled, what: str) -> Value | Reference:
    if type(operand) is Constant:
        return operand.value
    if type(operand) is Topics:
        raise Fault(
            f"{what} takes values, and {operand.word} '…' is a topic pattern: ask LIKE {operand.word} '…'", operand.word
        )
    if type(operand) is Attribute:
        is_quoted = operand.word.startswith('"')
        said = f"{what} takes values, and {operand.word} is an attribute; a text stands in 'single quotes'"
        raise Fault(_single_quotes(operand.word) if is_quoted else said, operand.word, ("a value",))
    raise Fault(
        f"{what} takes values, and {operand.word} is not one; WITHIN takes a region", operand.word, ("a value",)
    )


def _single_quotes(word: str) -> str:
    """What to tell somebody who wrote a text in double quotes."""
    text = word[1:-1].replace('""', '"').replace("'", "''")
    return f"did you mean '{text}'? Text takes single quotes; double quotes are an attribute name"


def _region(operand: Spelled) -> ValueSet:
    if isinstance(operand, Named):
        return operand.values
    if isinstance(operand, Constant) and isinstance(operand.value, Reference):
        return references.vicinity(operand.value, 0)
    raise Fault(f"WITHIN takes a region or places, and {operand.word} is neither", operand.word, REGIONS)


def _not_comparable(left: Spelled, op: str, right: Spelled) -> Fault:
    if type(left) is Attribute and type(right) is Attribute:
        said = f"{left.word} and {right.word} are attributes: comparing two {EXACT_PART} (text takes single quotes)"
        is_quoted = right.word.startswith('"')
        return Fault(_single_quotes(right.word) if is_quoted else said, right.word, ("a value",))
    for operand in (left, right):
        if isinstance(operand, Topics):
            return Fault(f"{operand.word} '…' is a topic pattern: ask LIKE {operand.word} '…'", operand.word)
        if isinstance(operand, Named):
            return Fault(
                f"{operand.word}(…) is not a value to compare by {op}", operand.word, ("a value", "WITHIN for a region")
            )
    return Fault(f"neither side of {op} is an attribute", op, ("an attribute on one side",))


# ---------------------------------------------------------------- constants

_TRUE_ONLY = sets.one_of([True])
_KINDS: dict[str, ValueSet] = {
    "NUMBER": sets.all_of_kind(Kind.NUMBER),
    "TEXT": sets.all_of_kind(Kind.TEXT),
    "TIME": sets.all_of_kind(Kind.TIME),
    "BOOL": sets.one_of([False, True]),
    "POINT": regions.box(-180, -90, 180, 90),
}
KINDS = tuple(_KINDS)
"""The words that may stand after IS, besides NULL."""
