"""CQL2 as two of the languages of subscriptions: `cql2-text` and `cql2-json`.

Both read into one tree (`expressions.py`), from which the filter to route by (`routable_bounds.py`) and the exact test
(`evaluation.py`) are made. A text that starts with `{` is JSON under either name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from godwit.languages.cql2.evaluation import Condition, size_of, truth_of
from godwit.languages.cql2.expressions import Expression, functions_of
from godwit.languages.cql2.json_encoding import parse_json, to_json_text
from godwit.languages.cql2.routable_bounds import bounds_where
from godwit.languages.cql2.text_printer import to_text
from godwit.languages.cql2.text_reader import parse_text
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import LANGUAGES, Query, Subject

__all__ = ["CQL2_JSON", "CQL2_TEXT", "Cql2Language", "Cql2Test"]

CQL2_TEXT = "cql2-text"
CQL2_JSON = "cql2-json"


@dataclass(frozen=True, slots=True)
class Cql2Test:
    """The exact test of a query. Two tests of equal expressions with the same operators are equal."""

    expression: Expression
    operators: tuple[Operator, ...] = ()
    _size: int = field(init=False, compare=False, repr=False)
    _truth: Condition = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        operators = {operator.name.lower(): operator for operator in self.operators}
        object.__setattr__(self, "_size", size_of(self.expression))
        object.__setattr__(self, "_truth", truth_of(self.expression, operators))

    def __call__(self, subject: Subject) -> bool:
        subject.spend(self._size)
        return self._truth(subject) is True


class Cql2Language:
    """One encoding of CQL2: docs/reference/cql2.md."""

    def __init__(self, name: str) -> None:
        self.name = name

    def parse(self, text: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
        """The query that a text says."""
        known = {name.lower(): operator for name, operator in operators.items()}
        is_json = self.name == CQL2_JSON
        read = parse_json if is_json or text.lstrip()[:1] == "{" else parse_text
        expression = read(text, known)
        bounds = bounds_where(True, expression, known)
        printed = to_json_text(expression) if is_json else to_text(expression)
        if bounds.is_exact:
            return Query(self.name, printed, bounds.upper)
        used = {function.name.lower() for function in functions_of(expression)}
        test = Cql2Test(expression, tuple(known[name] for name in sorted(used)))
        return Query(self.name, printed, bounds.upper, test)


LANGUAGES.register(CQL2_TEXT, Cql2Language(CQL2_TEXT))
LANGUAGES.register(CQL2_JSON, Cql2Language(CQL2_JSON))
