"""Labels: how a value becomes a number, so that every comparison is an integer range test.

*Theory.* A slot holds one aspect of one attribute (its value, its value read backwards, its longitude ...). For each
slot the constants that subscriptions compare it with are kept in order, and each has a *label*, an int32. The label of
an event's value is the label of the constant it equals, or one above the label of the next constant below it. Labels
leave gaps, so a new constant goes in between without moving the others; `x > 5` becomes `label >= label(5) + 1`.
Numbers, times, texts and points have a stretch of labels each, so one test can tell kinds apart too. Nothing is
rounded: ints beyond 2**53 and texts of any length are compared as themselves when a label is looked up, and never after
that.

*Rules.*
1. Within a kind, v < w implies label(v) <= label(w), with equality only if no constant separates them. Texts that are
   only ever asked for by equality are the exception: a dict answers, and what equals no constant gets the lowest label.
2. Two neighbouring constants are at least `GAP_MIN` labels apart: values between them, and `label ± 1`, always have
   room.
3. `insert` keeps the labels there were; where it cannot, it says so, or, if it may move them, `moved` says from what to
   what. `renewed` makes other constants with room between them, and changes nothing here.
"""

from array import array
from bisect import bisect_left
from collections.abc import Generator, Sequence
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.values import KIND_OF_TYPE, Kind, Point, Value

GAP_MIN = 4
END_STEP = 4_096
FEW = 8  # constants at a time are put in one by one
PIECE_KEYS = 16_384  # constants in a list, of which one piece makes others, about 3 ms
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
SOME_VALUE_HOLDS, EVERY_VALUE_HOLDS = 1, 2  # what the slot of a substring or topic pattern says of an event

# How a label is written: less one, as it is, plus one, as it is into two places.
BELOW, EXACTLY, ABOVE, TWICE = 0, 1, 2, 3
OFFSETS = (-1, 0, 1, 0)
OFFSET_ARRAY = np.array(OFFSETS, dtype=np.int32)


Joined = Generator[None, None, tuple[Any, npt.NDArray[np.bool_]]]
"""Keys in order, and which of them were there."""


def _is_beyond_floats(key: Any) -> bool:
    return type(key) is int and not -EXACT_MAX <= key <= EXACT_MAX


class Constants:
    """The constants of one kind in one slot, in order, with their labels."""

    __slots__ = ("before", "equal", "high", "keys", "labels", "low")

    def __init__(self, kind: Kind) -> None:
        self.low, self.high = STRETCH[kind]
        self.keys: Any = array("d") if kind is Kind.NUMBER else []
        self.labels = array("i")
        self.equal: dict[Any, int] | None = None  # key -> label, for texts that are only ever asked for by equality
        self.before: tuple[Any, npt.NDArray[np.int32]] | None = None  # keys and labels when they last had to move

    def label(self, key: Any) -> int:
        """The label of any value of this kind."""
        if self.equal is not None:
            return self.equal.get(key, self.low)
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
        if isinstance(keys, np.ndarray):
            keys = keys.tolist()  # a float of NumPy's is compared with a large int as a float, and Python's exactly
        distinct = {key: self.label(key) for key in set(keys)}
        return np.fromiter((distinct[key] for key in keys), dtype=np.int32, count=len(keys))

    def insert(self, keys: Sequence[Any], may_move: bool = True) -> bool:
        """Add constants; those that are there already do not matter.

        Returns whether all found room; with `may_move` they do. Without it, those that did are there.
        """
        if isinstance(self.keys, array) and not isinstance(keys, array) and any(map(_is_beyond_floats, keys)):
            if not may_move and len(self.keys) > PIECE_KEYS:
                return False
            self.keys = [
                int(key) if key.is_integer() else key for key in self.keys
            ]  # floats no longer tell all constants apart
        if len(keys) <= FEW:
            if not self.labels:
                self._begin(sorted(set(keys)))
            else:
                return all(self._insert_one(key, may_move) for key in keys)
            return True
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
        return len(new) == 0 or self._insert(new, places, may_move)  # an array has no truth

    def _begin(self, new: list[Any]) -> None:
        """The short way for the first few constants: evenly over the whole stretch."""
        step = (self.high - self.low) // (len(new) + 1)
        self.keys.extend(new)
        self.labels.extend(self.low + number * step for number in range(1, len(new) + 1))
        self.look_up_by_equality(self.equal is not None)

    def _insert_one(self, key: Any, may_move: bool) -> bool:
        """The short way for one constant among others: into the middle of its gap."""
        keys, labels = self.keys, self.labels
        place = bisect_left(keys, key)
        if place < len(keys) and keys[place] == key:
            return True
        low = labels[place - 1] if place else max(self.low, labels[0] - 2 * END_STEP)
        high = labels[place] if place < len(labels) else min(self.high, labels[-1] + 2 * END_STEP)
        if high - low < 2 * GAP_MIN:
            return self._insert([key], np.array([place]), may_move)
        keys.insert(place, key)
        labels.insert(place, (low + high) // 2)
        if self.equal is not None:
            self.equal[key] = labels[place]
        return True

    def _has(self, key: Any) -> bool:
        place = bisect_left(self.keys, key)
        return place < len(self.keys) and bool(self.keys[place] == key)

    def _insert(self, new: Any, places: npt.NDArray[np.int64], may_move: bool) -> bool:
        """Give `new[i]`, which belongs before the constant number `places[i]`, a label between its neighbours'.

        Returns whether there was room, or was made.
        """
        count = len(self.labels)
        edges = np.concatenate(([self.low], np.frombuffer(self.labels, dtype=np.int32), [self.high])).astype(np.int64)
        first = np.searchsorted(places, places, side="left")
        crowd = np.searchsorted(places, places, side="right") - first
        low, high = edges[places], edges[places + 1]
        if count:  # beyond the ends take small steps: more is likely to come there
            high = np.where(places == count, np.minimum(high, low + (crowd + 1) * END_STEP), high)
            low = np.where(places == 0, np.maximum(low, high - (crowd + 1) * END_STEP), low)
        step = (high - low) // (crowd + 1)
        given = low + (np.arange(len(new)) - first + 1) * step if count else self._even(len(new))
        labels = np.insert(edges[1:-1], places, given)
        are_moved = count > 0 and bool(step.min() < GAP_MIN)
        if are_moved:
            if not may_move:
                return False
            labels = self._even(len(labels))
            if count and self.before is None:
                self.before = (self.keys[:], np.array(self.labels, dtype=np.int32))
        if isinstance(self.keys, array):
            self.keys = array("d", np.insert(np.frombuffer(self.keys), places, new).tobytes())
        else:
            self.keys = _merged(self.keys, new, places.tolist())
        self.labels = array("i", labels.astype(np.int32).tobytes())
        if self.equal is not None and not are_moved:
            self.equal.update(zip(new, given.tolist(), strict=True))
        else:
            self.look_up_by_equality(self.equal is not None)
        return True

    def look_up_by_equality(self, yes: bool) -> None:
        """Whether all that is ever asked is which constant a value equals.

        Then a dict answers, faster than a search for its place.
        """
        self.equal = dict(zip(self.keys, self.labels, strict=True)) if yes else None

    def moved(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None:
        """The old and the new labels of the constants, if they had to move since this was last asked."""
        if self.before is None:
            return None
        keys, old = self.before
        self.before = None
        exact = isinstance(keys, array) and isinstance(self.keys, array)
        return old, self.labels_of(np.frombuffer(keys) if exact else list(keys))

    def renewed(
        self, wanted: npt.NDArray[np.bool_], more: Sequence[Any]
    ) -> Generator[None, None, tuple["Constants", npt.NDArray[np.int32]]]:
        """Make others with the wanted constants and more, labels spread evenly, a piece of the work for each step.

        Returns them, and what the label of each constant here becomes; of one that is forgotten that of what is there.
        """
        made = Constants.__new__(Constants)
        made.low, made.high, made.before, made.equal = self.low, self.high, None, None
        exact = isinstance(self.keys, array) and not any(map(_is_beyond_floats, more))
        made.keys, stays = yield from (self._joined_floats if exact else self._joined_keys)(wanted, more)
        labels = self._even(len(made.keys)).astype(np.int32)
        made.labels = array("i", labels.tobytes())
        yield
        if self.equal is not None:
            made.equal = {}
            for first in range(0, len(made.keys), PIECE_KEYS):
                span = slice(first, first + PIECE_KEYS)
                made.equal.update(zip(made.keys[span], made.labels[span], strict=True))
                yield
        below = np.concatenate((np.array([self.low - 1], dtype=np.int32), labels[stays]))
        given = below[np.cumsum(wanted)] + ~wanted
        yield
        return made, given

    def _joined_floats(self, wanted: npt.NDArray[np.bool_], more: Sequence[Any]) -> Joined:
        """The wanted keys and more, in order, and which of them are the wanted ones."""
        kept, new = np.array(self.keys)[wanted], np.unique(np.array(more, dtype=np.float64))
        yield
        places = np.searchsorted(kept, new)
        if len(kept):
            fresh = kept[np.minimum(places, len(kept) - 1)] != new
            new, places = new[fresh], places[fresh]
        stays = np.ones(len(kept) + len(new), dtype=np.bool_)
        stays[places + np.arange(len(new))] = False
        keys = array("d", np.insert(kept, places, new).tobytes())
        yield
        return keys, stays

    def _joined_keys(self, wanted: npt.NDArray[np.bool_], more: Sequence[Any]) -> Joined:
        """The same for keys in a list."""
        is_array, waiting = isinstance(self.keys, array), sorted(set(more))
        keys: list[Any] = []
        stays = bytearray()
        at = 0
        for first in range(0, max(1, len(self.keys)), PIECE_KEYS):
            last = min(first + PIECE_KEYS, len(self.keys))
            part: list[Any] = list(compress(self.keys[first:last], wanted[first:last].tolist()))
            if is_array:
                part = [int(key) if key.is_integer() else key for key in part]
            until = len(waiting) if last == len(self.keys) else bisect_left(waiting, self.keys[last], at)
            own = set(part) if until > at else set()
            fresh = [key for key in waiting[at:until] if key not in own]
            joined = sorted([*part, *fresh])
            keys += joined
            stays += bytes(key in own for key in joined) if fresh else bytes([1]) * len(part)
            at = until
            yield
        return keys, np.array(stays, dtype=np.uint8).view(np.bool_)

    def _even(self, count: int) -> npt.NDArray[np.int64]:
        room = (self.high - self.low) // 4  # on either side
        return self.low + room + np.arange(1, count + 1, dtype=np.int64) * (2 * room) // (count + 1)


def _merged(keys: list[Any], new: Any, places: list[int]) -> list[Any]:
    """Sorted keys, with new ones before the places given. Few cost no comparison and little more than a copy."""
    if 8 * len(places) > len(keys):
        return sorted([*keys, *new])
    merged: list[Any] = []
    before = 0
    for key, place in zip(new, places, strict=True):
        merged += keys[before:place]
        merged.append(key)
        before = place
    merged += keys[before:]
    return merged


_NONE: dict[Any, Any] = {}
"""Of the slots of patterns, of which there may be very many and which have no constants."""


class Slot:
    """One aspect of one attribute: its constants by kind, and those that wait to be given a label."""

    __slots__ = ("constants", "number", "of_pattern", "orders_texts", "queue", "waiting")

    def __init__(self, number: int, queue: list["Slot"], of_pattern: bool = False) -> None:
        self.number = number
        self.of_pattern = of_pattern  # it says whether a substring or topic pattern holds, and has no order
        self.orders_texts = False  # some test asks where a text lies in their order
        self.constants: dict[Kind, Constants] = _NONE if of_pattern else {}
        self.waiting: dict[Kind, tuple[Any, array[int]]] = (
            _NONE if of_pattern else {}
        )  # plain arrays: there may be a million of them
        self.queue = queue  # of the slots in which something waits

    def await_label(self, value: Value, place: int, how: int) -> None:
        """Ask that the label of `value` be written at `place` when labels are next given.

        As it is, or as `how` says.
        """
        kind = type(value)
        group = KIND_OF_TYPE[kind]
        waiting: Any = self.waiting.get(group)
        if waiting is None:
            if not self.waiting:
                self.queue.append(self)
            waiting = self.waiting[group] = (array("d") if group is Kind.NUMBER else [], array("I"))
        if kind is int and _is_beyond_floats(value) and isinstance(waiting[0], array):
            waiting = self.waiting[group] = (list(waiting[0]), waiting[1])
        waiting[0].append((value.lon, value.lat) if kind is Point else value)  # type: ignore[union-attr]
        waiting[1].append(place << 2 | how)

    def settle(self, may_move: bool = True) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]] | None:
        """Give every awaited constant a label. Returns the old and the new labels of those that had to move, if any.

        None: some found no room, and might not move others.
        """
        moves = []
        for kind, (keys, _) in self.waiting.items():
            constants = self.constants.get(kind)
            if constants is None:
                constants = self.constants[kind] = Constants(kind)
            if kind is Kind.TEXT and (constants.equal is None) != self.orders_texts:
                constants.look_up_by_equality(not self.orders_texts)
            if not constants.insert(keys, may_move):
                return None
            if (moved := constants.moved()) is not None:
                moves.append(moved)
        return moves

    def write_labels(self, tests: npt.NDArray[np.int32]) -> None:
        """Write all awaited labels into `tests`, once `settle` has given them."""
        for kind, (keys, places) in self.waiting.items():
            constants = self.constants[kind]
            if len(keys) <= FEW:
                for key, place in zip(keys, places, strict=True):
                    label, how = constants.label(key), place & 3
                    tests[place >> 2] = label + OFFSETS[how]
                    if how == TWICE:
                        tests[(place >> 2) + 1] = label
                continue
            where = np.array(places, dtype=np.int64)
            exact = isinstance(constants.keys, array)
            labels = constants.labels_of(np.asarray(keys, dtype=np.float64) if exact else keys)
            tests[where >> 2] = labels + OFFSET_ARRAY[where & 3]
            twice = where & 3 == TWICE
            tests[(where[twice] >> 2) + 1] = labels[twice]
        self.waiting.clear()

    def label(self, value: Value) -> int:
        """The label of an event's value in this slot."""
        kind = type(value)
        if kind is bool:
            return LABEL_TRUE if value else LABEL_FALSE
        group = KIND_OF_TYPE[kind]
        constants = self.constants.get(group)
        if constants is None:
            return STRETCH[group][0]
        return constants.label((value.lon, value.lat) if kind is Point else value)  # type: ignore[union-attr]
