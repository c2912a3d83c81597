"""Matching of literals: for an event, which of many literals it satisfies, attribute by attribute.

*Theory.* A literal asks about a base set (the inner one of a complement): does some value of the event lie in it
(`any`), or do all (`all`)? `Some(S)` is any(S), `Only(S)` is all(S), and of the complement `Some(not S)` is not
all(S), `Only(not S)` is not any(S). So it is enough to know any and all of the distinct base sets of an attribute:
finite sets are found by hashing the value, intervals of numbers by comparing it with two arrays of ends, and the rest
are asked one by one.

*Rules.*
1. An attribute that the event has not makes all its literals false, but `Missing` true.
2. Comparing doubles is exact here: an end that no double holds exactly is asked in Python, and so is every end when
   no double holds the value. An open end is the closed one at the next double.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.events import Attributes
from godwit.filters.filters import Literal, Missing, Only
from godwit.filters.sets import Complement, Interval, OneOf, Places, ValueSet
from godwit.filters.values import Kind, Value, identity, kind_of

__all__ = ["Literals"]

Bools = npt.NDArray[np.bool_]


class Literals:
    """Numbers for literals, and the truth of each for an event."""

    def __init__(self) -> None:
        self._numbers: dict[Literal, int] = {}
        self._columns: dict[str, AttributeLiterals] = {}
        self._absent = np.zeros(0, np.bool_)  # the truths of an event without attributes

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, literal: Literal) -> int:
        """The number of `literal`; a new one gets the next."""
        number = self._numbers.get(literal)
        if number is None:
            number = self._numbers[literal] = len(self._numbers)
            self._columns.setdefault(literal.attribute, AttributeLiterals()).add(number, literal)
        return number

    def truths(self, attributes: Attributes) -> Bools:
        """The truth of every literal, by its number."""
        if len(self._absent) != len(self):
            self._absent = np.array([isinstance(literal, Missing) for literal in self._numbers], np.bool_)
        truths = self._absent.copy()
        for name, value in attributes.items():
            column = self._columns.get(name)
            if column is not None:
                column.decide(value, truths)
        return truths


class AttributeLiterals:
    """The literals of one attribute."""

    def __init__(self) -> None:
        self._sets: dict[ValueSet, int] = {}  # the base sets; a set's number is its place below
        self._by_value: dict[Any, list[int]] = {}  # finite sets
        self._ranges: list[tuple[int, ValueSet]] = []  # intervals whose ends are doubles
        self._lows: list[float] = []
        self._highs: list[float] = []
        self._others: list[tuple[int, ValueSet]] = []
        self._missing: list[int] = []
        self._asked: list[tuple[int, int, bool, bool]] = []  # literal, base set, all (or any), negated
        self._arrays: tuple[npt.NDArray[Any], ...] | None = None  # the lists above, made when they are needed

    def add(self, number: int, literal: Literal) -> None:
        """Take in a literal on this attribute."""
        self._arrays = None
        if isinstance(literal, Missing):
            self._missing.append(number)
            return
        negated = isinstance(literal.values, Complement)
        base = literal.values.inner if isinstance(literal.values, Complement) else literal.values
        self._asked.append((number, self._set_number(base), isinstance(literal, Only) is not negated, negated))

    def _set_number(self, base: ValueSet) -> int:
        number = self._sets.get(base)
        if number is None:
            number = self._sets[base] = len(self._sets)
            ends = _closed_doubles(base)
            if isinstance(base, OneOf | Places):
                for value in base.members:
                    self._by_value.setdefault(value, []).append(number)
            elif ends is not None:
                self._ranges.append((number, base))
                self._lows.append(ends[0])
                self._highs.append(ends[1])
            else:
                self._others.append((number, base))
        return number

    def decide(self, value: Value | tuple[Value, ...], truths: Bools) -> None:
        """Put the truth of each literal here, for an event with `value`, into its place in `truths`."""
        if self._arrays is None:
            self._arrays = self._made_arrays()
        literal, asked, negated, *_ = self._arrays
        if type(value) is tuple:
            some = every = self._holding(value[0])
            for each in value[1:]:
                holding = self._holding(each)
                some, every = some | holding, every & holding
        else:
            some = every = self._holding(value)  # type: ignore[arg-type]
        truths[literal] = np.concatenate((some, every))[asked] ^ negated
        truths[self._missing] = False

    def _holding(self, value: Value) -> Bools:
        """Which base sets hold `value`."""
        holding = np.zeros(len(self._sets), np.bool_)
        holding[self._by_value.get(identity(value), [])] = True
        others = self._others
        if kind_of(value) is Kind.NUMBER and self._ranges:
            if float(value) == value:  # type: ignore[arg-type]
                assert self._arrays is not None
                *_, numbers, lows, highs = self._arrays
                holding[numbers] = (lows <= float(value)) & (float(value) <= highs)  # type: ignore[arg-type]
            else:
                others = others + self._ranges
        for number, base in others:
            if base.contains(value):
                holding[number] = True
        return holding

    def _made_arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return (
            np.array([literal for literal, *_ in self._asked], np.int64),
            np.array([base + len(self._sets) * every for _, base, every, _ in self._asked], np.int64),
            np.array([negated for *_, negated in self._asked], np.bool_),
            np.array([number for number, _ in self._ranges], np.int64),
            np.array(self._lows, np.float64),
            np.array(self._highs, np.float64),
        )


def _closed_doubles(base: ValueSet) -> tuple[float, float] | None:
    """The ends of an interval of numbers as doubles that both belong to it; None when it has no such ends."""
    if not isinstance(base, Interval) or base.kind is not Kind.NUMBER:
        return None
    low: Any = -math.inf if base.low is None else base.low
    high: Any = math.inf if base.high is None else base.high
    if float(low) != low or float(high) != high:
        return None
    return (
        math.nextafter(low, math.inf) if base.low_open else float(low),
        math.nextafter(high, -math.inf) if base.high_open else float(high),
    )
