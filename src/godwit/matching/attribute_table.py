"""Attributes of many things, as columns: a filter is tested on all of them at once.

*Theory.* A matcher has many filters and tests one event; a table has many rows and tests one filter. A row is the
attributes of one thing, such as the context of a client. Each literal of the filter gives a mask of rows
(`packed_values.py`), and AND and OR combine them. A row is written when its attributes change, and only where they do.

An attribute that many rows have is *dense*: it has a cell for each row. Several values of a row, and attributes that
fewer rows have, lie one after the other in further cells, each with the number of its row. An attribute that less than
`FEW_ROWS` rows have has no column: the filter tests these rows itself.

*Rules.*
1. `mask(filter)` says of each row what `filter.holds` says of its attributes. The filter is closed.
2. `steps(filter)` follows from what the rows hold now, and from nothing else: not from how the table came to hold it.
3. The memory of a table is in proportion to the values that its rows hold, and to the most rows that there were.
4. The attributes of a row are never changed: other attributes are another mapping.
"""

import numpy as np
import numpy.typing as npt

from godwit.filters.events import Attributes
from godwit.filters.filters import And, Filter, Literal, Missing, Or, Some
from godwit.filters.values import Value
from godwit.matching.packed_values import Distinct, PackedValues, SetTest, steps_of_one, steps_of_test

__all__ = ["AttributeTable", "Matching"]

FEW_ROWS = 32
DENSE_MIN = 64  # rows
DENSE_SHARE = 8  # an attribute of more than one in so many rows is dense,
SPARSE_SHARE = 32  # until it is one of fewer than one in so many
GARBAGE_MIN = 64

Held = Value | tuple[Value, ...]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
NOTHING: Attributes = {}
NO_ROW = -1


class Matching:
    """The keys of a table whose attributes a filter matches. A key without a row has no attributes."""

    __slots__ = ("others", "otherwise")

    def __init__(self, others: set[str | None], otherwise: bool) -> None:
        self.others, self.otherwise = others, otherwise
        """Keys in `others` have the opposite of the answer `otherwise`, which every further key has."""

    def __contains__(self, key: str) -> bool:
        return (key in self.others) is not self.otherwise


class AttributeTable:
    """By key, attributes."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._keys: list[str | None] = []  # by row; None: the row is free
        self._held: list[Attributes] = []  # by row
        self._free: list[int] = []
        self._columns: dict[str, _Column] = {}
        self._few: dict[str, tuple[int, ...]] = {}  # the rows of attributes without a column

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, key: str, attributes: Attributes) -> None:
        """A key has these attributes from now on, and no others."""
        row = self._rows.get(key, NO_ROW)
        if row == NO_ROW:
            if not attributes:
                return
            row = self._new_row(key)
        before = self._held[row]
        if before is attributes:
            return
        self._held[row] = attributes
        for name, value in before.items():
            if not _is_same(value, attributes.get(name)):
                self._drop(row, name, value)
        for name, value in attributes.items():
            if not _is_same(value, before.get(name)):
                self._add(row, name, value)
        if not attributes:
            del self._rows[key]
            self._keys[row] = None
            self._free.append(row)

    def _new_row(self, key: str) -> int:
        if self._free:
            row = self._free.pop()
            self._keys[row] = key
        else:
            row = len(self._keys)
            self._keys.append(key)
            self._held.append(NOTHING)
        self._rows[key] = row
        return row

    def _add(self, row: int, name: str, value: Held) -> None:
        """A row has an attribute that it had not."""
        column = self._columns.get(name)
        if column is None:
            rows = (*self._few.get(name, ()), row)
            if len(rows) < FEW_ROWS:
                self._few[name] = rows
                return
            self._few.pop(name, None)
            column = self._columns[name] = _Column()
            for each in rows:
                column.put(each, self._held[each][name])
        else:
            if column.is_dense and column.single.size <= row and column.is_too_dense(len(self._rows)):
                self._write_again(name, column, is_dense=False)
            column.put(row, value)
        if column.is_too_sparse(len(self._rows)):
            self._write_again(name, column, is_dense=True)

    def _drop(self, row: int, name: str, value: Held) -> None:
        """A row has an attribute no more."""
        column = self._columns.get(name)
        if column is None:
            rows = tuple([each for each in self._few[name] if each != row])
            if rows:
                self._few[name] = rows
            else:
                del self._few[name]
            return
        column.drop(row, value)
        if column.rows < FEW_ROWS:
            del self._columns[name]
            if column.rows:
                self._few[name] = tuple(column.all_rows())
        elif column.is_too_dense(len(self._rows)):
            self._write_again(name, column, is_dense=False)

    def _write_again(self, name: str, column: "_Column", *, is_dense: bool) -> None:
        """Write the single values of a column as dense cells, or as further ones."""
        rows = column.single_rows()
        values = [self._held[row][name] for row in rows]
        for row, value in zip(rows, values, strict=True):
            column.drop(row, value)
        column.is_dense = is_dense
        column.single = PackedValues(column.distinct)
        for row, value in zip(rows, values, strict=True):
            column.put(row, value)

    # ------------------------------------------------------------ questions

    def steps(self, filter: Filter) -> int:
        """What it takes to test a filter on all rows. (rule 2)"""
        steps, parts = 0, [filter]
        while parts:
            part = parts.pop()
            if isinstance(part, And | Or):
                parts += part.parts
            elif (column := self._columns.get(part.attribute)) is not None:
                steps += column.steps(part)
            elif part.attribute in self._few:
                steps += self._steps_of_few(part)
        return steps

    def _steps_of_few(self, literal: Literal) -> int:
        held = [self._held[row][literal.attribute] for row in self._few[literal.attribute]]
        each = 1 if isinstance(literal, Missing) else steps_of_one(literal.values)
        return each * sum(len(value) if type(value) is tuple else 1 for value in held)

    def matching(self, filter: Filter) -> Matching:
        """The keys whose attributes a filter matches."""
        otherwise = filter.holds(NOTHING)
        mask = self.mask(filter)
        keys = self._keys
        return Matching({keys[row] for row in np.flatnonzero(mask != otherwise).tolist()}, otherwise)

    def mask(self, filter: Filter) -> Bools:
        """By row, whether the filter matches; a free row has no attributes."""
        return self._mask(filter, {})

    def _mask(self, filter: Filter, known: dict[Literal, Bools]) -> Bools:
        """A mask that may be kept for a literal which is there again: nobody changes it."""
        if isinstance(filter, And | Or):
            is_and = isinstance(filter, And)
            found = np.full(len(self._keys), is_and)
            for part in filter.parts:
                mask = self._mask(part, known)
                if is_and:
                    found &= mask
                    if not found.any():
                        break
                else:
                    found |= mask
                    if found.all():
                        break
            return found
        mask_known = known.get(filter)
        if mask_known is None:
            mask_known = known[filter] = self._literal_mask(filter)
        return mask_known

    def _literal_mask(self, literal: Literal) -> Bools:
        column = self._columns.get(literal.attribute)
        if column is not None:
            return column.mask(literal, len(self._keys))
        found = np.full(len(self._keys), isinstance(literal, Missing))
        for row in self._few.get(literal.attribute, ()):
            found[row] = literal.holds(self._held[row])
        return found


def _is_same(one: Held, other: Held | None) -> bool:
    """Whether two single values are the same; of several values this is not asked."""
    return one is other or (type(one) is type(other) is not tuple and one == other)


class _Column:
    """What rows hold of one attribute."""

    __slots__ = (
        "_ends", "_further_rows", "_garbage", "_row_of", "_starts", "_used", "distinct", "further", "is_dense", "rows",
        "single", "single_count", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.distinct = Distinct()
        self.is_dense = False
        self.single = PackedValues(self.distinct)  # by row, of a dense column
        self.further = PackedValues(self.distinct)
        self.rows = self.values = 0  # how many have the attribute, and how many values of it there are
        self.single_count = 0  # rows with one value
        self._row_of = np.zeros(0, dtype=np.int32)  # by further cell
        self._starts: dict[int, int] = {}  # by row, the first of its further cells
        self._ends: dict[int, int] = {}  # by row, where those of several end
        self._further_rows: Rows | None = None  # None: nobody has asked since they changed
        self._used = self._garbage = 0  # further cells that were written; of them, those that are empty again

    def put(self, row: int, value: Held) -> None:
        """A row that has no value has this."""
        self.rows += 1
        if type(value) is tuple:
            self.values += len(value)
            self._put_further(row, value)
            return
        self.values += 1
        self.single_count += 1
        if self.is_dense:
            self.single.put(row, value)  # type: ignore[arg-type]
        else:
            self._put_further(row, (value,))  # type: ignore[arg-type]

    def _put_further(self, row: int, values: tuple[Value, ...]) -> None:
        start, end = self._used, self._used + len(values)
        if end > len(self._row_of):
            grown = np.zeros(max(end, 16, end + end // 4), dtype=np.int32)
            grown[:start] = self._row_of[:start]
            self._row_of = grown
        self._row_of[start:end] = row
        for place, value in enumerate(values, start):
            self.further.put(place, value)
        self._starts[row] = start
        self._further_rows = None
        if len(values) > 1:
            self._ends[row] = end
        self._used = end

    def drop(self, row: int, value: Held) -> None:
        """A row has its value, or values, no more."""
        self.rows -= 1
        values: tuple[Value, ...] = value if type(value) is tuple else (value,)  # type: ignore[assignment]
        self.values -= len(values)
        if type(value) is not tuple:
            self.single_count -= 1
            if self.is_dense:
                self.single.drop(row, value)  # type: ignore[arg-type]
                return
        start = self._starts.pop(row)
        self._further_rows = None
        self._ends.pop(row, None)
        for place, one in enumerate(values, start):
            self.further.drop(place, one)
        self._garbage += len(values)
        if self._garbage > max(GARBAGE_MIN, self._used // 2):
            self._close_gaps()

    def _close_gaps(self) -> None:
        kept = self.further.present()
        places = np.cumsum(kept) - 1
        used = min(self._used, self.further.size)
        self._row_of = self._row_of[:used][kept[:used]]
        self._starts = {row: int(places[start]) for row, start in self._starts.items()}
        self._ends = {row: int(places[end - 1]) + 1 for row, end in self._ends.items()}
        self.further.keep(kept)
        self._used, self._garbage = self.further.size, 0

    def is_too_dense(self, all_rows: int) -> bool:
        """Whether there are too few rows for a cell for each."""
        return self.is_dense and self.single_count * SPARSE_SHARE < all_rows

    def is_too_sparse(self, all_rows: int) -> bool:
        """Whether there are enough rows for a cell for each."""
        return not self.is_dense and self.single_count >= DENSE_MIN and self.single_count * DENSE_SHARE > all_rows

    def all_rows(self) -> list[int]:
        """The rows with a value."""
        return [*self.single_rows(), *self._ends]

    def single_rows(self) -> list[int]:
        """The rows with one value."""
        if self.is_dense:
            return np.flatnonzero(self.single.present()).tolist()
        return [row for row in self._starts if row not in self._ends]

    # ------------------------------------------------------------ questions

    def steps(self, literal: Literal) -> int:
        """What a literal takes."""
        if isinstance(literal, Missing):
            return 1 + self.values // GARBAGE_MIN
        several, points = self.values - self.single_count, self.single.points + self.further.points
        return steps_of_test(literal.values, self.distinct, self.single_count, several, points)

    def mask(self, literal: Literal, count: int) -> Bools:
        """By row of so many, whether the literal holds."""
        found = np.zeros(count, dtype=np.bool_)
        if isinstance(literal, Missing):
            self._mark_single(found, self.single.present())
            found[self._rows_of_further()] = True
            return ~found
        test = SetTest(literal.values, self.distinct)
        self._mark_single(found, test.of(self.single))
        if not self._starts:
            return found
        further = test.of(self.further)
        if isinstance(literal, Some):
            found[self._rows_of(further)] = True
        else:
            found[self._rows_of_further()] = True
            found[self._rows_of(self.further.present() & ~further)] = False
        return found

    def _mark_single(self, found: Bools, single: Bools) -> None:
        count = min(len(single), len(found))
        found[:count] = single[:count]

    def _rows_of(self, further: Bools) -> Rows:
        """The rows of some further cells."""
        size = min(len(further), len(self._row_of))
        return self._row_of[:size][further[:size]].astype(np.intp)

    def _rows_of_further(self) -> Rows:
        """The rows with further cells."""
        if self._further_rows is None:
            self._further_rows = np.fromiter(self._starts, dtype=np.intp, count=len(self._starts))
        return self._further_rows
