"""From Arrow to the matcher: the columns of a record batch for the encoder, without a Python object per value.

*Rules.*
1. The result agrees with `columns.from_arrow` of the same array, in all forms; a test checks it.
2. Only columns of attributes that filters use are read.
3. A repeated dictionary is the same list object, so that the encoder recognises it.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from godwit.matching.matcher import Columns
from godwit.matching.packed_columns import (
    DictionaryColumn,
    MaskedColumn,
    PackedColumn,
    PointColumn,
    TimeColumn,
    UnionColumn,
)
from godwit.pipeline.columns import column_of, form_of_arrow, from_arrow

__all__ = ["ColumnReader"]


class ColumnReader:
    """Makes columns of record batches; remembers the dictionaries of the last one."""

    def __init__(self, attributes: Iterable[str]) -> None:
        self.columns = {column_of(attribute): attribute for attribute in attributes}
        self._texts: dict[str, tuple[Any, list[str]]] = {}

    def read(self, batch: Any) -> Columns:
        """The columns that filters name, by attribute."""
        found: dict[str, Any] = {}
        for place, name in enumerate(batch.schema.names):
            attribute = self.columns.get(name)
            if attribute is not None and not pa.types.is_null(batch.schema.types[place]):
                found[attribute] = self._column(name, batch.column(place))
        return found

    def _column(self, name: str, array: Any) -> Any:
        form = form_of_arrow(name, array.type)
        if form.several:
            return list(from_arrow(name, array))
        if form.kind == "any":
            fields = pc.struct_field if array.null_count else None
            parts = [
                self._packed(f"{name}.{kind}", "int" if kind == "big" else kind, _field(array, kind, fields))
                for kind in (field.name for field in array.type)
            ]
            return UnionColumn(tuple(parts))
        return self._packed(name, form.kind, array)

    def _packed(self, name: str, kind: str, array: Any) -> PackedColumn:
        if kind == "text":
            return self._coded(name, array)
        valid = np.ones(len(array), dtype=np.bool_)
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
        if kind == "point":
            lon, lat = (_floats(_field(array, name, pc.struct_field)) for name in ("lon", "lat"))
            return PointColumn(lon, lat, valid & (np.abs(lon) <= 180) & (np.abs(lat) <= 90))
        if kind == "time":
            micros = array.cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())
            return TimeColumn(_filled(micros, 0), valid)
        if pa.types.is_decimal(array.type):
            return MaskedColumn(_filled(array.cast(pa.uint64()), 0), valid)
        if kind == "float":
            floats = _floats(array)
            return MaskedColumn(floats, valid & np.isfinite(floats))
        return MaskedColumn(_filled(array, False if kind == "bool" else 0), valid)

    def _coded(self, name: str, array: Any) -> DictionaryColumn:
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        elif array.dictionary.null_count:
            array = array.dictionary_decode().dictionary_encode()
        known = self._texts.get(name)
        if known is None or not known[0].equals(array.dictionary):
            known = self._texts[name] = (array.dictionary, array.dictionary.to_pylist())
        return DictionaryColumn(known[1], _filled(array.indices.cast(pa.int64()), -1))


def _field(array: Any, name: str, through_nulls: Any) -> Any:
    """A field of a struct, null where the struct is."""
    return through_nulls(array, name) if through_nulls else array.field(name)


def _filled(array: Any, instead: Any) -> Any:
    filled = array.fill_null(instead) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False)


def _floats(array: Any) -> Any:
    """Floats, NaN where there is none."""
    return _filled(array, math.nan).astype(np.float64, copy=False)
