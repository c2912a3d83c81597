"""Labels: how a value becomes a number, so that every comparison is an integer range test.

*Theory.* A slot holds one aspect of one attribute (its value, its value read backwards, its longitude ...). For each slot the
constants that subscriptions compare it with are kept in order, and each has a *label*, an int32. The label of an event's value is
the label of the constant it equals, or one above the label of the next constant below it. Labels leave gaps, so a new constant
goes in between without moving the others; `x > 5` becomes `label >= label(5) + 1`. Numbers, times, texts and points have a
stretch of labels each, so one test can tell kinds apart too. Nothing is rounded: ints beyond 2**53 and texts of any length
are compared as themselves when a label is looked up, and never after that.

*Rules.*
1. Within a kind, v < w implies label(v) <= label(w), with equality only if no constant separates them.
2. Two neighbouring constants are at least `GAP_MIN` labels apart: values between them, and `label ± 1`, always have room.
3. `insert` keeps the labels there were, or says that it moved them.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.values import Kind, Point, Value, kind_of

GAP_MIN = 4
END_STEP = 4_096
EXACT_MAX = 2**53

LABEL_FALSE, LABEL_TRUE = 0, 1
STRETCH: dict[Kind, tuple[int, int]] = {
    Kind.BOOL: (LABEL_FALSE, LABEL_TRUE),
    Kind.POINT: (1 << 20, (1 << 26) - 1),
    Kind.NUMBER: (1 << 26, (1 << 30) - 1),
    Kind.TIME: (1 << 30, (5 << 28) - 1),
    Kind.TEXT: (5 << 28, (1 << 31) - 16),
}
LABEL_MAX = (1 << 31) - 1


class Constants:
    """The constants of one kind in one slot, in order, with their labels."""

    __slots__ = ("high", "keys", "labels", "low")

    def __init__(self, kind: Kind) -> None:
        self.low, self.high = STRETCH[kind]
        self.keys: Any = array("d") if kind is Kind.NUMBER else []
        self.labels = array("i")

    def label(self, key: Any) -> int:
        """The label of any value of this kind."""
        keys = self.keys
        place = bisect_left(keys, key)
        if place < len(keys) and keys[place] == key:
            return self.labels[place]
        return self.labels[place - 1] + 1 if place else self.low

    def labels_of(self, keys: Any) -> npt.NDArray[np.int32]:
        """The labels of many values, a NumPy array of floats or a list of anything else, at once."""
        if isinstance(keys, np.ndarray) and isinstance(self.keys, array):
            known, labels = np.frombuffer(self.keys), np.frombuffer(self.labels, dtype=np.int32)
            if not len(known):
                return np.full(len(keys), self.low, dtype=np.int32)
            places = np.searchsorted(known, keys)
            below = np.where(places > 0, labels[places - 1] + np.int32(1), np.int32(self.low))
            inner = np.minimum(places, len(known) - 1)
            return np.where(known[inner] == keys, labels[inner], below).astype(np.int32)
        distinct = {key: self.label(key) for key in set(keys)}
        return np.fromiter((distinct[key] for key in keys), dtype=np.int32, count=len(keys))

    def insert(self, keys: Sequence[Any]) -> bool:
        """Add constants; those that are there already do not matter. Says whether labels given before have changed."""
        if isinstance(self.keys, array) and any(type(key) is int and not -EXACT_MAX <= key <= EXACT_MAX for key in keys):
            self.keys = [int(key) if key.is_integer() else key for key in self.keys]  # floats no longer tell all constants apart
        known = self.keys
        if isinstance(known, array):
            new: Any = np.unique(np.asarray(keys, dtype=np.float64))
            old = np.frombuffer(known)
            places = np.searchsorted(old, new)
            if len(old):
                fresh = old[np.minimum(places, len(old) - 1)] != new
                new, places = new[fresh], places[fresh]
        else:
            new = sorted({key for key in keys if not self._has(key)})
            places = np.array([bisect_left(known, key) for key in new], dtype=np.int64)
        return len(new) > 0 and self._insert(new, places)

    def _has(self, key: Any) -> bool:
        place = bisect_left(self.keys, key)
        return place < len(self.keys) and bool(self.keys[place] == key)

    def _insert(self, new: Any, places: npt.NDArray[np.int64]) -> bool:
        """Give `new[i]`, which belongs before the constant number `places[i]`, a label between its neighbours'."""
        count = len(self.labels)
        edges = np.concatenate(([self.low], np.frombuffer(self.labels, dtype=np.int32), [self.high])).astype(np.int64)
        first = np.searchsorted(places, places, side="left")
        crowd = np.searchsorted(places, places, side="right") - first
        low, high = edges[places], edges[places + 1]
        if count:  # beyond the ends take small steps: more is likely to come there
            high = np.where(places == count, np.minimum(high, low + (crowd + 1) * END_STEP), high)
            low = np.where(places == 0, np.maximum(low, high - (crowd + 1) * END_STEP), low)
        step = (high - low) // (crowd + 1)
        labels = np.insert(edges[1:-1], places, low + (np.arange(len(new)) - first + 1) * step)
        if isinstance(self.keys, array):
            self.keys = array("d", np.insert(np.frombuffer(self.keys), places, new).tobytes())
        else:
            self.keys = sorted([*self.keys, *new])
        moved = bool(step.min() < GAP_MIN)
        if moved:
            labels = self._even(len(labels))
        self.labels = array("i", labels.astype(np.int32).tobytes())
        return moved and count > 0

    def keep(self, wanted: npt.NDArray[np.bool_]) -> None:
        """Forget the constants that are not wanted and spread the labels of the others evenly."""
        keys = self.keys
        self.keys = (
            array("d", np.frombuffer(keys)[wanted].tobytes())
            if isinstance(keys, array)
            else [key for key, stays in zip(keys, wanted.tolist(), strict=True) if stays]
        )
        self.labels = array("i", self._even(len(self.keys)).astype(np.int32).tobytes())

    def _even(self, count: int) -> npt.NDArray[np.int64]:
        room = (self.high - self.low) // 4  # on either side
        return self.low + room + np.arange(1, count + 1, dtype=np.int64) * (2 * room) // (count + 1)


class Slot:
    """One aspect of one attribute: its constants by kind, and those that wait to be given a label."""

    __slots__ = ("constants", "number", "of_pattern", "waiting")

    def __init__(self, number: int, of_pattern: bool = False) -> None:
        self.number = number
        self.of_pattern = of_pattern  # it says whether a substring is there, and has no order
        self.constants: dict[Kind, Constants] = {}
        self.waiting: dict[Kind, tuple[list[Any], list[int]]] = {}

    def await_label(self, value: Value, place: int, offset: int) -> None:
        """Ask that `label(value) + offset` be written at `place` when labels are next given."""
        kind = kind_of(value)
        keys, places = self.waiting.setdefault(kind, ([], []))
        keys.append((value.lon, value.lat) if type(value) is Point else value)
        places.append(place * 4 + offset + 1)

    def settle(self) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
        """Give every awaited constant a label. Returns the old and the new labels of those that had to move, if any."""
        moves = []
        for kind, (keys, _) in self.waiting.items():
            constants = self.constants.setdefault(kind, Constants(kind))
            old_keys, old = constants.keys, np.array(constants.labels, dtype=np.int32)
            if constants.insert(keys):
                exact = isinstance(old_keys, array) and isinstance(constants.keys, array)
                moves.append((old, constants.labels_of(np.frombuffer(old_keys) if exact else list(old_keys))))
        return moves

    def write_labels(self, tests: npt.NDArray[np.int32]) -> None:
        """Write all awaited labels into `tests`, once `settle` has given them."""
        for kind, (keys, places) in self.waiting.items():
            constants = self.constants[kind]
            where = np.array(places, dtype=np.int64)
            exact = isinstance(constants.keys, array)
            labels = constants.labels_of(np.asarray(keys, dtype=np.float64) if exact else keys)
            tests[where >> 2] = labels + ((where & 3) - 1).astype(np.int32)
        self.waiting.clear()

    def label(self, value: Value) -> int:
        """The label of an event's value in this slot."""
        if type(value) is bool:
            return LABEL_TRUE if value else LABEL_FALSE
        kind = kind_of(value)
        constants = self.constants.get(kind)
        if constants is None:
            return STRETCH[kind][0]
        return constants.label((value.lon, value.lat) if type(value) is Point else value)
