"""The values that one attribute has in many rows, packed, so that a value set is tested on all of them at once.

*Theory.* Each kind has arrays of its own: numbers are doubles, points two of them, texts are codes of a dictionary, and
so is what remains: bools, times, and integers beyond the precision of a double. Where a cell has no value of a kind
there is NaN, or `NO_CODE`; both are in no set, so no mask of kinds is needed. A set is compared with numbers and points
by NumPy, and with each distinct text once.

*Rules.*
1. `SetTest(values, distinct).of(cells)` is True exactly where `values.contains` is, and False in a cell without a
   value.
2. A point on the border of a circle, as far as rounding goes, is asked of the circle itself: NumPy's sine may differ
   from Python's in the last bit. Of more than `BORDER_MAX` such points in one circle none is asked.
3. An array is made when there is a value of its kind.
"""

from collections.abc import Callable
from math import inf, nextafter, radians
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.regions import EARTH_RADIUS_M, Box, Circle, Polygon, load_shapely
from godwit.filters.sets import (
    Complement,
    Everything,
    Interval,
    Like,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    TopicPattern,
    ValueSet,
)
from godwit.filters.values import Kind, Point, Value, identity

__all__ = ["Distinct", "DistinctValues", "PackedValues", "SetTest", "steps_of_one", "steps_of_test"]

NO_CODE = -1
CHARACTERS_PER_STEP = 64
BORDER_MAX = 250
BORDER_SHARE = 1e-12  # of a radius: there rounding may decide
ANTIPODE_M = 19_000_000.0  # from so far away on rounding takes more: half a metre
ANTIPODE_MARGIN_M = 0.5

FIXED_STEPS = 100  # a step takes about 100 ns; the following take as long as one
SINGLE_PER_STEP = 64
SEVERAL_PER_STEP = 32
SORTED_PER_STEP = 4  # cells, for a set of many values
TEXTS_PER_STEP = 3  # compared in a list comprehension
POINTS_PER_STEP = 3
CORNERS_PER_STEP = 4
PATTERN_STEPS = 6  # of a text and a pattern with wildcards within, or of a point and a circle
POLYGON_STEPS = 16
FEW_WEIGHT = 2

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]


class DistinctValues:
    """Values with a code for each, as long as it is in use."""

    __slots__ = ("_free", "_uses", "codes", "steps", "values")

    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}  # by identity
        self.values: list[Any] = []  # by code; False: it is free
        self.steps = 0  # that a test of all takes: one for each, and for each 64 characters
        self._uses: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.codes)

    def enter(self, value: Value) -> int:
        """One more use of a value: its code."""
        key = identity(value)
        code = self.codes.get(key)
        if code is not None:
            self._uses[code] += 1
            return code
        if self._free:
            code = self._free.pop()
            self.values[code], self._uses[code] = value, 1
        else:
            code = len(self.values)
            self.values.append(value)
            self._uses.append(1)
        self.codes[key] = code
        self.steps += _steps(value)
        return code

    def leave(self, code: int) -> None:
        """One use less."""
        self._uses[code] -= 1
        if not self._uses[code]:
            value = self.values[code]
            del self.codes[identity(value)]
            self.steps -= _steps(value)
            self.values[code] = "" if type(value) is str else False
            self._free.append(code)


def _steps(value: Value) -> int:
    return 1 + len(value) // CHARACTERS_PER_STEP if type(value) is str else 1


class Distinct:
    """The distinct texts of an attribute, and its other values that have codes."""

    __slots__ = ("others", "texts")

    def __init__(self) -> None:
        self.texts, self.others = DistinctValues(), DistinctValues()


class PackedValues:
    """Cells with one value each, or none."""

    __slots__ = ("_present", "distinct", "lats", "lons", "numbers", "others", "points", "size", "texts")

    def __init__(self, distinct: Distinct) -> None:
        self.distinct = distinct
        self.size = 0  # of every array that is there
        self.points = 0  # how many
        self.numbers: Doubles | None = None
        self.lons: Doubles | None = None
        self.lats: Doubles | None = None
        self.texts: Codes | None = None
        self.others: Codes | None = None
        self._present: Bools | None = None  # None: nobody has asked since a cell was written

    def put(self, at: int, value: Value) -> None:
        """Write a value into a cell without one."""
        self._present = None
        if at >= self.size:
            self._grow(at + 1)
        kind = type(value)
        if kind is str:
            if self.texts is None:
                self.texts = np.full(self.size, NO_CODE, dtype=np.int32)
            self.texts[at] = self.distinct.texts.enter(value)
        elif kind is float or (kind is int and float(value) == value):  # type: ignore[arg-type]
            if self.numbers is None:
                self.numbers = np.full(self.size, np.nan)
            self.numbers[at] = value  # type: ignore[assignment]
        elif kind is Point:
            if self.lons is None or self.lats is None:
                self.lons, self.lats = np.full(self.size, np.nan), np.full(self.size, np.nan)
            self.lons[at], self.lats[at] = value.lon, value.lat  # type: ignore[union-attr]
            self.points += 1
        else:
            if self.others is None:
                self.others = np.full(self.size, NO_CODE, dtype=np.int32)
            self.others[at] = self.distinct.others.enter(value)

    def drop(self, at: int, value: Value) -> None:
        """Clear the cell that has this value."""
        self._present = None
        kind = type(value)
        if kind is str:
            assert self.texts is not None
            self.distinct.texts.leave(int(self.texts[at]))
            self.texts[at] = NO_CODE
        elif kind is float or (kind is int and float(value) == value):  # type: ignore[arg-type]
            assert self.numbers is not None
            self.numbers[at] = np.nan
        elif kind is Point:
            assert self.lons is not None
            assert self.lats is not None
            self.lons[at] = self.lats[at] = np.nan
            self.points -= 1
        else:
            assert self.others is not None
            self.distinct.others.leave(int(self.others[at]))
            self.others[at] = NO_CODE

    def present(self) -> Bools:
        """The cells that have a value: nobody changes this."""
        if self._present is not None:
            return self._present
        found = np.zeros(self.size, dtype=np.bool_)
        for doubles in (self.numbers, self.lons):
            if doubles is not None:
                found |= doubles == doubles  # noqa: PLR0124 (NaN is not itself)
        for codes in (self.texts, self.others):
            if codes is not None:
                found |= codes >= 0
        self._present = found
        return found

    def keep(self, kept: Bools) -> None:
        """Close the gaps: only these cells stay."""
        self._present = None
        for name in ("numbers", "lons", "lats", "texts", "others"):
            array = getattr(self, name)
            if array is not None:
                setattr(self, name, array[kept])
        self.size = int(np.count_nonzero(kept))

    def _grow(self, least: int) -> None:
        size = max(least, 16, self.size + self.size // 4)
        for name in ("numbers", "lons", "lats", "texts", "others"):
            array = getattr(self, name)
            if array is not None:
                grown = np.full(size, np.nan if array.dtype == np.float64 else NO_CODE, dtype=array.dtype)
                grown[: self.size] = array
                setattr(self, name, grown)
        self.size = size


class SetTest:
    """Tests of one value set on cells of an attribute. What is asked of distinct values is asked when it is made."""

    def __init__(self, values: ValueSet, distinct: Distinct) -> None:
        self._negated = isinstance(values, Complement)
        self._values = values.inner if isinstance(values, Complement) else values
        self._texts = _verdicts(self._values, distinct.texts)
        self._others = _verdicts(self._values, distinct.others)

    def of(self, cells: PackedValues) -> Bools:
        """Which cells have a value in the set. (rule 1)"""
        if isinstance(self._values, Everything):
            return np.zeros(cells.size, dtype=np.bool_) if self._negated else cells.present()
        found = self._found(cells)
        return cells.present() & ~found if self._negated else found

    def _found(self, cells: PackedValues) -> Bools:
        found: Bools | None = None
        if cells.numbers is not None:
            found = _numbers_in(self._values, cells.numbers)
        if cells.lons is not None and cells.lats is not None:
            found = _joined(found, _points_in(self._values, cells.lons, cells.lats))
        if cells.texts is not None and self._texts is not None:
            found = _joined(found, self._texts.take(cells.texts))
        if cells.others is not None and self._others is not None:
            found = _joined(found, self._others.take(cells.others))
        return np.zeros(cells.size, dtype=np.bool_) if found is None else found


def steps_of_test(values: ValueSet, distinct: Distinct, single: int, several: int, points: int) -> int:
    """The steps of a test on so many cells: `single` in rows with one value, `several` in others; `points` of these."""
    if isinstance(values, Complement):
        values = values.inner
    steps = FIXED_STEPS + single // SINGLE_PER_STEP + several // SEVERAL_PER_STEP
    match values:
        case OneOf() | Places():
            return steps if values.weight <= FEW_WEIGHT else steps + (single + several) // SORTED_PER_STEP
        case Everything() | Box():
            return steps
        case Prefix() | Suffix() | Substring() | Interval(kind=Kind.TEXT):
            return steps + distinct.texts.steps // TEXTS_PER_STEP * values.weight
        case Interval():
            return steps + len(distinct.others)
        case Circle():
            return steps + points // POINTS_PER_STEP
        case Polygon():
            return steps + points * values.weight // CORNERS_PER_STEP
        case Like() | TopicPattern():
            return steps + distinct.texts.steps * PATTERN_STEPS * values.weight
    return steps + (distinct.texts.steps + len(distinct.others) + single + several) * values.weight


def steps_of_one(values: ValueSet) -> int:
    """The steps of a test on one value, with nothing to share."""
    if isinstance(values, Complement):
        values = values.inner
    match values:
        case Like() | TopicPattern() | Circle():
            return PATTERN_STEPS * values.weight
        case Polygon():
            return POLYGON_STEPS * values.weight
    return values.weight


def _joined(found: Bools | None, more: Bools | None) -> Bools | None:
    if found is None or more is None:
        return more if found is None else found
    found |= more
    return found


# ---------------------------------------------------------------- values with codes


def _verdicts(values: ValueSet, distinct: DistinctValues) -> Bools | None:
    """By code whether a value lies in the set, and False for `NO_CODE` at the end; None: none does."""
    if not distinct.codes or isinstance(values, Everything):
        return None
    if isinstance(values, OneOf | Places):
        members = values.values if isinstance(values, OneOf) else values.names
        codes = [code for member in members if (code := distinct.codes.get(identity(member))) is not None]
        if not codes:
            return None
        verdicts = np.zeros(len(distinct.values) + 1, dtype=np.bool_)
        verdicts[codes] = True
        return verdicts
    answers = _answers(values, distinct.values, is_text=type(distinct.values[0]) is str)
    if answers is None:
        return None
    answers.append(False)
    return np.array(answers, dtype=np.bool_)


def _answers(values: ValueSet, held: list[Any], *, is_text: bool) -> list[bool] | None:
    """What the set says to each of these; None: no to all."""
    if not is_text:
        return None if not values.kinds & ~(Kind.TEXT | Kind.POINT) else list(map(values.contains, held))
    match values:
        case Prefix(text=text):
            return [value.startswith(text) for value in held]
        case Suffix(text=text):
            return [value.endswith(text) for value in held]
        case Substring(text=text):
            return [text in value for value in held]
        case Interval(kind=Kind.TEXT, low=low, high=high, low_open=low_open, high_open=high_open):
            return _texts_between(held, low, high, low_open, high_open)
    return list(map(values.contains, held)) if values.kinds & Kind.TEXT else None


def _texts_between(held: list[Any], low: Any, high: Any, low_open: bool, high_open: bool) -> list[bool]:
    if high is None:
        if low is None:
            return [True] * len(held)
        return [value > low for value in held] if low_open else [value >= low for value in held]
    least = "" if low is None else low
    if low_open:
        above = [value > least for value in held]
        below = [value < high for value in held] if high_open else [value <= high for value in held]
        return [one and other for one, other in zip(above, below, strict=True)]
    return [least <= value < high for value in held] if high_open else [least <= value <= high for value in held]


# ---------------------------------------------------------------- numbers


def _numbers_in(values: ValueSet, numbers: Doubles) -> Bools | None:
    """Which numbers lie in the set; None: none can."""
    match values:
        case Interval(kind=Kind.NUMBER):
            found: Bools = numbers >= _least(values)
            if values.high is not None:
                found &= numbers <= _most(values)
            return found
        case OneOf(values=members):
            doubles = [float(each) for each in members if type(each) in (int, float) and float(each) == each]  # type: ignore[arg-type]
            if len(doubles) == 1:
                same: Bools = numbers == doubles[0]
                return same
            return np.isin(numbers, doubles) if doubles else None
    return _asked(values, numbers, float) if values.kinds & Kind.NUMBER else None


def _least(values: Interval) -> float:
    """The least double of an interval of numbers."""
    if values.low is None:
        return -inf
    low: Any = values.low
    nearest = float(low)
    return nextafter(nearest, inf) if nearest < low or (values.low_open and nearest == low) else nearest


def _most(values: Interval) -> float:
    """The greatest one."""
    if values.high is None:
        return inf
    high: Any = values.high
    nearest = float(high)
    return nextafter(nearest, -inf) if nearest > high or (values.high_open and nearest == high) else nearest


def _asked(values: ValueSet, held: Any, value_of: Callable[[Any], Value]) -> Bools:
    """What a set of a class that is not known here says to each distinct one."""
    found = np.zeros(len(held), dtype=np.bool_)
    here = np.flatnonzero(held == held)  # noqa: PLR0124 (NaN is not itself)
    distinct, place = np.unique(held[here], return_inverse=True)
    found[here] = np.array([values.contains(value_of(each)) for each in distinct.tolist()], dtype=np.bool_)[place]
    return found


# ---------------------------------------------------------------- points


def _points_in(values: ValueSet, lons: Doubles, lats: Doubles) -> Bools | None:
    """Which points lie in the set; None: none can."""
    match values:
        case Box():
            return _in_box(values.bounds, lons, lats)
        case Circle():
            return _in_circle(values, lons, lats)
        case Polygon():
            return _of_some(_in_box(values.bounds, lons, lats), lambda at: _in_polygon(values, lons[at], lats[at]))
        case OneOf(values=members):
            points = [complex(each.lon, each.lat) for each in members if type(each) is Point]
            return np.isin(lons + 1j * lats, points) if points else None
    return (
        _asked(values, lons + 1j * lats, lambda one: Point(one.real, one.imag)) if values.kinds & Kind.POINT else None
    )


def _in_box(bounds: tuple[float, float, float, float], lons: Doubles, lats: Doubles) -> Bools:
    west, south, east, north = bounds
    found: Bools = lats >= south
    found &= lats <= north
    if west <= east:
        found &= lons >= west
        found &= lons <= east
        return found
    found &= (lons >= west) | (lons <= east)
    return found


def _of_some(found: Bools, test: Callable[[Any], Any]) -> Bools:
    """Those found that pass a further test."""
    at = np.flatnonzero(found)
    if len(at):
        found[at] = test(at)
    return found


def _in_polygon(polygon: Polygon, lons: Doubles, lats: Doubles) -> Any:
    return load_shapely().intersects_xy(polygon.shape, lons, lats)


def _in_circle(circle: Circle, lons: Doubles, lats: Doubles) -> Bools:
    """As `Circle.contains`; the bounds leave out no point of it."""
    return _of_some(_in_box(circle.bounds, lons, lats), lambda at: _near(circle, lons[at], lats[at]))


def _near(circle: Circle, lons: Doubles, lats: Doubles) -> Bools:
    """Which points lie within the radius. (rule 2)"""
    phi, radius = radians(circle.centre.lat), circle.radius_m
    sin_phi = np.sin((np.radians(lats) - phi) / 2)
    sin_lambda = np.sin(np.radians(lons - circle.centre.lon) / 2)
    h = sin_phi * sin_phi + np.cos(phi) * np.cos(np.radians(lats)) * sin_lambda * sin_lambda
    far = 2 * EARTH_RADIUS_M * np.arcsin(np.minimum(1.0, np.sqrt(h)))
    near: Bools = far <= radius
    margin = ANTIPODE_MARGIN_M if radius > ANTIPODE_M else BORDER_SHARE * radius
    border = np.flatnonzero(np.abs(far - radius) <= margin) if margin else ()
    if 0 < len(border) <= BORDER_MAX:
        near[border] = [circle.contains(Point(float(lons[at]), float(lats[at]))) for at in border]
    return near
