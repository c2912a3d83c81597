"""Columns of a batch as arrays, as tables hold them: a batch is then encoded without a Python object for each value.

*Theory.* A column may be a list of values, and then every value is looked at by itself. Archives hold columns
otherwise: numbers with a mask of those that are there, times as microseconds, places as two arrays, texts as a
dictionary and a code for each row. The encoder takes these as they are; a dictionary is encoded once, however many rows
and batches refer to it.

*Rules.*
1. `tolist` says what a packed column holds in plain values, None where nothing is; every matcher gives the same answers
   for either.
2. A slice of a packed column is one, and shares its dictionary.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.values import Point

__all__ = ["DictionaryColumn", "MaskedColumn", "PackedColumn", "PointColumn", "TimeColumn", "UnionColumn"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
Bools = npt.NDArray[np.bool_]


class PackedColumn(ABC):
    """A column in packed form, not a list of values: one of the classes below."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, rows: slice) -> "PackedColumn": ...

    @abstractmethod
    def tolist(self) -> list[Any]:
        """The column in plain values, None where nothing is."""


@dataclass(frozen=True, slots=True, eq=False)
class DictionaryColumn(PackedColumn):
    """Texts: row i holds `texts[codes[i]]`, and nothing where its code is below 0.

    Batches that share a dictionary should share the very list: it is then encoded once.
    """

    texts: Sequence[str]
    codes: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> "DictionaryColumn":
        return DictionaryColumn(self.texts, self.codes[rows])

    def tolist(self) -> list[Any]:
        """The texts."""
        return [self.texts[code] if code >= 0 else None for code in self.codes.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class MaskedColumn(PackedColumn):
    """Bools, ints or floats: row i holds `values[i]` where `valid[i]`, and nothing elsewhere."""

    values: npt.NDArray[Any]
    valid: Bools

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> "MaskedColumn":
        return MaskedColumn(self.values[rows], self.valid[rows])

    def tolist(self) -> list[Any]:
        """The numbers or bools."""
        return _masked(self.values.tolist(), self.valid)


@dataclass(frozen=True, slots=True, eq=False)
class TimeColumn(PackedColumn):
    """Times, as microseconds since 1970 in UTC, where `valid`."""

    micros: npt.NDArray[np.int64]
    valid: Bools

    def __len__(self) -> int:
        return len(self.micros)

    def __getitem__(self, rows: slice) -> "TimeColumn":
        return TimeColumn(self.micros[rows], self.valid[rows])

    def tolist(self) -> list[Any]:
        """The times, in UTC."""
        held = zip(self.micros.tolist(), self.valid.tolist(), strict=True)
        return [EPOCH + timedelta(microseconds=micros) if here else None for micros, here in held]


@dataclass(frozen=True, slots=True, eq=False)
class PointColumn(PackedColumn):
    """Points, where `valid`."""

    lon: npt.NDArray[np.float64]
    lat: npt.NDArray[np.float64]
    valid: Bools

    def __len__(self) -> int:
        return len(self.lon)

    def __getitem__(self, rows: slice) -> "PointColumn":
        return PointColumn(self.lon[rows], self.lat[rows], self.valid[rows])

    def tolist(self) -> list[Any]:
        """The points."""
        held = zip(self.lon.tolist(), self.lat.tolist(), self.valid.tolist(), strict=True)
        return [Point(lon, lat) if here else None for lon, lat, here in held]


@dataclass(frozen=True, slots=True, eq=False)
class UnionColumn(PackedColumn):
    """Values of several kinds: in each row at most one of `parts` holds something."""

    parts: tuple[PackedColumn, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: slice) -> "UnionColumn":
        return UnionColumn(tuple(part[rows] for part in self.parts))

    def tolist(self) -> list[Any]:
        """The values."""
        rows = zip(*(part.tolist() for part in self.parts), strict=True)
        return [next((value for value in row if value is not None), None) for row in rows]


def _masked(values: list[Any], valid: Bools) -> list[Any]:
    return values if valid.all() else [value if here else None for value, here in zip(values, valid, strict=True)]


def micros_of(time: datetime) -> int:
    """An aware time as microseconds since 1970 in UTC, exactly."""
    return (time - EPOCH) // MICROSECOND
