"""Events with many numbers: all their labels in one search, by a kernel instead of value by value.

*Theory.* The constants that numbers are compared with lie one slot after the other in one array, and a kernel bisects
each slot's part of it. That says exactly what `Encoder.encode` says. It is made when labels have not changed for a
while, because it has to be made again whenever they do; and it is used for events of many attributes that are all
numbers, where a look into the memory of the encoder would cost several far looks for each.
"""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.values import Kind
from godwit.matching.filter_compiler import IndexedAttribute
from godwit.matching.kernels import compiled
from godwit.matching.labels import EXACT_MAX, STRETCH

ATTRIBUTES_MIN = 32  # an event of fewer is encoded faster one by one
CALM = 64  # events with the same labels before it is worth while
NUMBERS = frozenset((int, float))
NOT_HERE = -1
LOWEST = STRETCH[Kind.NUMBER][0]
Longs = npt.NDArray[np.int64]


class _Slots(dict[str, int]):
    """Slots by attribute: 0 for one that nobody asks for."""

    def __missing__(self, name: str) -> int:
        return 0


class Numbers:
    """The constants of all slots that hold nothing but an attribute's value."""

    def __init__(self, columns: Mapping[str, IndexedAttribute]) -> None:
        self.slots = _Slots()
        last = max((column.slot.number for column in columns.values()), default=0)
        parts: dict[int, Any] = {}
        for name, column in columns.items():
            constants = column.slot.constants.get(Kind.NUMBER)
            usable = column.plain and (constants is None or isinstance(constants.keys, array))
            self.slots[name] = column.slot.number if usable else NOT_HERE
            if usable and constants is not None:
                parts[column.slot.number] = constants
        used = [parts[slot] for slot in sorted(parts)]
        self.starts = np.zeros(last + 2, dtype=np.int64)
        for slot, constants in parts.items():
            self.starts[slot + 1] = len(constants.keys)
        np.cumsum(self.starts, out=self.starts)
        self.keys = np.concatenate([np.zeros(0), *(np.array(each.keys) for each in used)])
        self.labels = np.concatenate([np.zeros(0, np.int32), *(np.array(each.labels, np.int32) for each in used)])

    def encode(self, attributes: Mapping[str, Any]) -> Longs | None:
        """The codes of an event whose values are all numbers, None when some are not or cannot be found here."""
        values = attributes.values()
        if not NUMBERS.issuperset(map(type, values)):
            return None
        count = len(attributes)
        codes = np.fromiter(map(self.slots.__getitem__, attributes), dtype=np.int64, count=count)
        numbers = np.fromiter(values, dtype=np.float64, count=count)
        return codes if label_all(codes, numbers, self.starts, self.keys, self.labels) else None


@compiled  # type: ignore[untyped-decorator]
def label_all(codes: Any, numbers: Any, starts: Any, keys: Any, labels: Any) -> bool:
    """Turn the slots in `codes` into the codes of `numbers`. False when one must be compared in another way."""
    for place in range(len(codes)):
        slot, number = codes[place], numbers[place]
        if slot == 0:
            continue
        if slot < 0 or not -EXACT_MAX < number < EXACT_MAX:
            return False
        first, end = starts[slot], starts[slot + 1]
        low, left = first, end - first
        while left > 0:  # without a branch, which half the time would be foretold wrongly
            half = (left + 1) >> 1
            low += half * (keys[low + half - 1] < number)
            left -= half
        if low < end and keys[low] == number:
            label = labels[low]
        else:
            label = labels[low - 1] + 1 if low > first else LOWEST
        codes[place] = slot << 32 | label
    return True
