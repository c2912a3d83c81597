"""The yardstick: naive evaluation with NumPy, as one would write it in an hour. Vectorised, and no index of any kind.

For each event every distinct predicate is decided, attribute by attribute, as comparisons over arrays; then the AND and
OR nodes of all subscriptions are reduced from the bottom up. Each subscription has its own nodes; only predicates are
shared. With `shared=False` not even those are: each is decided as often as it is written, which is plainer still.

*Assumes*, as the workloads have it: an attribute's values are all numbers (below 2**53) or all texts and bools.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.workloads import Expression

Bools = npt.NDArray[np.bool_]
Predicate = tuple[str, str, tuple[Any, ...], bool]  # attribute, operator, constants, negated

BOUNDS: dict[str, Any] = {
    "=": lambda v: (v, v),
    "!=": lambda v: (v, v),
    "<": lambda v: (-np.inf, np.nextafter(v, -np.inf)),
    "<=": lambda v: (-np.inf, v),
    ">": lambda v: (np.nextafter(v, np.inf), np.inf),
    ">=": lambda v: (v, np.inf),
    "between": lambda low, high: (low, high),
    "exists": lambda: (-np.inf, np.inf),
}
TEXT_TESTS: dict[str, Any] = {"prefix": str.startswith, "suffix": str.endswith, "contains": str.__contains__}
UNKNOWN = -1.0


class Column:
    """The predicates on one attribute: bounds first, then lists, then patterns."""

    def __init__(self, predicates: list[Predicate]) -> None:
        self.codes: dict[Any, float] = {}  # of texts and bools
        self.order = sorted(range(len(predicates)), key=lambda n: _group(predicates[n]))
        self.predicates = [predicates[n] for n in self.order]
        bounded, listed, patterns = ([p for p in self.predicates if _group(p) == group] for group in range(3))
        bounds = [BOUNDS[operator](*map(self._code, constants)) for _, operator, constants, _ in bounded]
        self.low, self.high = np.array(bounds, dtype=np.float64).reshape(-1, 2).T.copy()
        self.members = np.array([self._code(value) for p in listed for value in p[2][0]], dtype=np.float64)
        self.owners = np.repeat(np.arange(len(listed)) + len(bounded), [len(p[2][0]) for p in listed])
        self.patterns = [(TEXT_TESTS[operator], text) for _, operator, (text,), _ in patterns]
        self.complement = np.array([(operator == "!=") != negated for _, operator, _, negated in self.predicates])
        self.every = np.array([negated for *_, negated in self.predicates])  # not: of every value

    def _code(self, value: Any) -> float:
        return float(value) if type(value) in (int, float) else self.codes.setdefault(value, float(len(self.codes)))

    def decide(self, value: Any, out: Bools) -> None:
        """Which predicates hold for one value, or for several."""
        if not isinstance(value, list | tuple):
            np.logical_xor(self._inside(value), self.complement, out=out)
            return
        each = np.array([self._inside(one) ^ self.complement for one in value])
        out[:] = np.where(self.every, each.all(axis=0), each.any(axis=0))

    def _inside(self, value: Any) -> Bools:
        number = value if type(value) in (int, float) else self.codes.get(value, UNKNOWN)
        inside = np.zeros(len(self.predicates), dtype=np.bool_)
        np.logical_and(self.low <= number, self.high >= number, out=inside[: len(self.low)])
        inside[self.owners[self.members == number]] = True
        if self.patterns:
            inside[-len(self.patterns) :] = [test(value, text) for test, text in self.patterns]
        return inside


def _group(predicate: Predicate) -> int:
    return 0 if predicate[1] in BOUNDS else 1 if predicate[1] == "in" else 2


class NumpyEvaluator:
    """All subscriptions as arrays; `match` gives the numbers of those an event matches."""

    def __init__(self, expressions: Iterable[Expression], shared: bool = True) -> None:
        self._shared = shared
        self._found: dict[Predicate, int] = {}
        self._predicates: list[Predicate] = []
        self._children: list[list[int]] = []  # of each node; a predicate is written ~number
        self._levels: list[int] = []  # of each node: twice its height, and one more for OR
        roots = [self._node(expression, False)[0] for expression in expressions]
        numbers = self._number_predicates()
        levels = np.array(self._levels, dtype=np.int64)
        order = np.argsort(levels, kind="stable")
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order)) + len(numbers)

        def numbered(references: Iterable[int]) -> npt.NDArray[np.int64]:
            given = np.fromiter(references, dtype=np.int64)
            out = np.empty_like(given)
            out[given < 0] = numbers[~given[given < 0]]
            out[given >= 0] = places[given[given >= 0]]
            return out

        self._steps = []
        for level in np.unique(levels).tolist():
            nodes = order[levels[order] == level]
            children = [self._children[node] for node in nodes.tolist()]
            starts = np.cumsum([0] + [len(each) for each in children[:-1]])
            combine = np.logical_or if level % 2 else np.logical_and
            span = slice(int(places[nodes[0]]), int(places[nodes[-1]]) + 1)
            self._steps.append((combine, numbered(chain.from_iterable(children)), starts, span))
        self._roots = numbered(roots)
        self._values = np.zeros(len(numbers) + len(order), dtype=np.bool_)
        del self._found, self._predicates, self._children, self._levels

    def _node(self, expression: Expression, negated: bool) -> tuple[int, int]:
        """The reference and the height of an expression, negation carried down to its predicates."""
        operator, *parts = expression
        if operator == "not":
            return self._node(parts[0], not negated)
        if operator in ("and", "or"):
            assert parts, f"an empty {operator}"
            children, heights = zip(*(self._node(part, negated) for part in parts), strict=True)
            height = 1 + max(heights)
            self._children.append(list(children))
            self._levels.append(2 * height + ((operator == "or") != negated))
            return len(self._children) - 1, height
        assert not (negated and operator == "exists"), "NOT exists is in no workload"
        constants = tuple(tuple(part) if isinstance(part, list) else part for part in parts[1:])
        predicate = (parts[0], operator, constants, negated)
        number = self._found.setdefault(predicate, len(self._predicates)) if self._shared else len(self._predicates)
        if number == len(self._predicates):
            self._predicates.append(predicate)
        return ~number, 0

    def _number_predicates(self) -> npt.NDArray[np.int64]:
        """Make the columns. Returns where each predicate has gone, in the order they were found."""
        by_attribute: dict[str, list[int]] = {}
        for number, predicate in enumerate(self._predicates):
            by_attribute.setdefault(predicate[0], []).append(number)
        numbers = np.empty(len(self._predicates), dtype=np.int64)
        self._columns, first = [], 0
        for name, mine in by_attribute.items():
            column = Column([self._predicates[number] for number in mine])
            numbers[[mine[place] for place in column.order]] = np.arange(first, first + len(mine))
            self._columns.append((name, column, slice(first, first + len(mine))))
            first += len(mine)
        return numbers

    def match(self, attributes: Mapping[str, Any]) -> npt.NDArray[np.int64]:
        """The numbers of the subscriptions that an event matches, ascending."""
        values = self._values
        for name, column, span in self._columns:
            value = attributes.get(name)
            if value is None:
                values[span] = False
            else:
                column.decide(value, values[span])
        for combine, children, starts, span in self._steps:
            combine.reduceat(values.take(children), starts, out=values[span])
        return np.flatnonzero(values[self._roots])
