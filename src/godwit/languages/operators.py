"""Operators that users define: Python functions that a query may call in its exact test.

*Theory.* "The user can define additional operators, such as operators on strings." [motion §5] An operator is
registered by the program that runs it: a client for its own queries, a broker for those of its thin clients. For the
network it is unknown: in the routable filter it stands for true or false, by the negations around it (`bounds.py`),
unless its author says which filter stands for it ("extend the middleware", §5).

*Rules.*
1. A query names an operator; it never brings one. An unknown name is an error that lists the known ones.
2. An operator that raises has no answer: the test in which it stands fails, and says why.
3. `routable` of an operator is given the attribute and the constant arguments, and its filter must let through whatever
   the operator holds for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from godwit.errors import ConfigurationError
from godwit.filters import Filter

__all__ = ["NO_OPERATORS", "Operator", "known_operator", "operator", "operators_named", "registered_operators"]

Routable = Callable[..., Filter]


@dataclass(frozen=True, slots=True)
class Operator:
    """A function of values to a truth value, under the name by which queries call it."""

    name: str
    holds: Callable[..., Any]
    routable: Routable | None = None


NO_OPERATORS: Mapping[str, Operator] = {}
_REGISTERED: dict[str, Operator] = {}


def operator(name: str, routable: Routable | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function below as an operator: `@operator("sounds_like")`."""

    def register(holds: Callable[..., Any]) -> Callable[..., Any]:
        known = _REGISTERED.setdefault(name, Operator(name, holds, routable))
        if known.holds is not holds:
            raise ValueError(f"there is an operator {name!r} already: {known.holds!r}")
        return holds

    return register


def registered_operators() -> Mapping[str, Operator]:
    """All operators that this program has registered so far."""
    return dict(_REGISTERED)


def operators_named(names: Mapping[str, Any] | list[str] | tuple[str, ...]) -> Mapping[str, Operator]:
    """The registered operators of these names. (rule 1)"""
    return {name: known_operator(name, _REGISTERED) for name in names}


def known_operator(name: str, operators: Mapping[str, Operator]) -> Operator:
    """The operator of that name."""
    if name not in operators:
        known = ", ".join(sorted(operators)) or "none"
        raise ConfigurationError(f"there is no operator {name!r}: known are {known}")
    return operators[name]
