"""From events to codes: the preparation of an event for the kernels.

*Theory.* A value becomes `slot << 32 | label`. Most values come again, so their codes are remembered in one dict under
the very `(name, value)` pairs that `dict.items()` yields: encoding an event is then one `map`. What the dict does not
know, or must not be asked (True and 1 are equal keys, but not equal values), goes the long way: look the label up, and
for attributes with more aspects than their value (read backwards, longitude, substrings, topic patterns) add the codes
of those.

*Profile.* The map costs 45 ns an attribute, a look-up about 500 ns; most of the latter is bisecting.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.errors import BadEvent, BadValue
from godwit.filters.events import ATTRIBUTES_MAX, VALUES_MAX
from godwit.filters.values import TEXT_LENGTH_MAX, Kind, Point, Value, checked_value
from godwit.matching.filter_compiler import IndexedAttribute
from godwit.matching.kernels import compiled
from godwit.matching.labels import EVERY_VALUE_HOLDS, LABEL_FALSE, SOME_VALUE_HOLDS, STRETCH, Slot
from godwit.matching.matcher import Columns, events_of
from godwit.matching.numeric import ATTRIBUTES_MIN, CALM, Numbers
from godwit.matching.packed_columns import (
    DictionaryColumn,
    MaskedColumn,
    PackedColumn,
    PointColumn,
    TimeColumn,
    UnionColumn,
    micros_of,
)
from godwit.matching.substrings import Substrings

MEMO_MAX = 1 << 16
FIRST_MICROS, LAST_MICROS = (micros_of(each.replace(tzinfo=UTC)) for each in (datetime.min, datetime.max))
LON_MAX, LAT_MAX = 180, 90
Longs = npt.NDArray[np.int64]


class Encoder:
    """Turns attributes into codes by the columns of a compiler."""

    def __init__(self, columns: dict[str, IndexedAttribute]) -> None:
        self.columns = columns
        self.memo: dict[tuple[str, Any], int] = {}
        self.substrings: dict[str, Substrings] = {}
        self.numbers: Numbers | None = None
        self.calm = 0  # events encoded since labels last changed
        self.dictionaries: dict[str, Dictionary] = {}  # the last one of each attribute

    def changed(self) -> None:
        """Labels or columns have changed: forget what was remembered."""
        self.memo.clear()
        self.dictionaries.clear()
        self.numbers, self.calm = None, 0
        for name, column in self.columns.items():
            if column.patterns:
                if name not in self.substrings:
                    self.substrings[name] = Substrings()
                self.substrings[name].update(column.patterns)

    # ------------------------------------------------------------ one event

    def encode_numbers(self, attributes: Any) -> Longs | None:
        """The codes of an event of many numbers and nothing else; None of any other, which `encode` is for."""
        if len(attributes) < ATTRIBUTES_MIN:
            return None
        if self.numbers is None:
            self.calm += 1
            if self.calm < CALM:
                return None
            self.numbers = Numbers(self.columns)
        return self.numbers.encode(attributes)

    def encode(self, attributes: Any) -> tuple[list[int], list[tuple[int, list[int]]]]:
        """The codes of an event, and for each slot with several values (slot, labels)."""
        codes: list[Any] = list(map(self.memo.get, attributes.items()))
        several: list[tuple[int, list[int]]] = []
        if None in codes:
            for place, item in enumerate(attributes.items()):
                if codes[place] is None:
                    codes[place] = self._encode_item(item, codes, several)
        return codes, several

    def sample(self, events: Iterable[Any]) -> tuple[Longs, Longs]:
        """The codes of some events: where those of each start, and all of them. Of several values only the first."""
        encoded = [self.encode(attributes) for attributes in events]
        codes = [codes + [slot << 32 | labels[0] for slot, labels in several] for codes, several in encoded]
        starts = np.cumsum([0] + [len(each) for each in codes])
        return starts, np.array([code for each in codes for code in each], dtype=np.int64)

    def _encode_item(self, item: tuple[str, Any], codes: list[int], several: list[tuple[int, list[int]]]) -> int:
        """The code of one attribute; further codes are appended. 0, which means nothing, when there is none."""
        name, value = item
        column = self.columns.get(name)
        if column is None:
            self._remember(item, 0)
            return 0
        if type(value) is tuple:
            self._encode_several(name, column, value, codes, several)
            return 0
        label = column.slot.label(value)
        code = column.slot.number << 32 | label
        if column.plain:
            if type(value) is not bool and type(value) is not float and value not in (0, 1):
                self._remember(item, code)
            return code
        for slot, aspect in self._aspects(column, value):
            codes.append(
                slot.number << 32 | slot.label(aspect) if aspect is not None else slot.number << 32 | LABEL_FALSE
            )
        if column.patterns and type(value) is str:
            codes.extend(slot << 32 | EVERY_VALUE_HOLDS for slot in self.substrings[name].in_text(value))
        if column.topics is not None and type(value) is str:
            codes.extend(column.topics.codes(value))
        return code

    def _remember(self, item: tuple[str, Any], code: int) -> None:
        if len(self.memo) >= MEMO_MAX:
            self.memo.clear()
        self.memo[item] = code

    @staticmethod
    def _aspects(column: IndexedAttribute, value: Value) -> Iterable[tuple[Slot, Value | None]]:
        """The further slots of an attribute and what they hold: None for a value that has no such aspect."""
        if column.backwards is not None:
            yield column.backwards, value[::-1] if type(value) is str else value
        if column.longitude is not None and column.latitude is not None:
            here = type(value) is Point
            yield column.longitude, value.lon if here else None  # type: ignore[union-attr]
            yield column.latitude, value.lat if here else None  # type: ignore[union-attr]

    def _encode_several(
        self,
        name: str,
        column: IndexedAttribute,
        values: tuple[Value, ...],
        codes: list[int],
        several: list[tuple[int, list[int]]],
    ) -> None:
        labels: dict[int, list[int]] = {column.slot.number: [column.slot.label(value) for value in values]}
        if not column.plain:
            for value in values:
                for slot, aspect in self._aspects(column, value):
                    labels.setdefault(slot.number, []).append(LABEL_FALSE if aspect is None else slot.label(aspect))
            if column.patterns or column.topics is not None:
                held: dict[int, int] = {}
                for value in values:
                    for number in self._in_text(name, column, value) if type(value) is str else ():
                        held[number] = held.get(number, 0) + 1
                codes.extend(
                    number << 32 | (EVERY_VALUE_HOLDS if times == len(values) else SOME_VALUE_HOLDS)
                    for number, times in held.items()
                )
        several.extend(labels.items())

    def _in_text(self, name: str, column: IndexedAttribute, text: str) -> Iterable[int]:
        """The slots of the substrings and topic patterns that a text meets."""
        if column.patterns:
            yield from self.substrings[name].in_text(text)
        if column.topics is not None:
            yield from column.topics.in_text(text)

    # ------------------------------------------------------------ a batch

    def encode_batch(self, columns: Columns, length: int) -> "Batch":
        """The codes of all events of a batch."""
        if len(columns) > ATTRIBUTES_MAX:
            for _ in events_of(columns, length):  # some event may have more than is allowed: let each be checked
                pass
        events: list[Longs] = []
        codes: list[Longs] = []
        several: list[tuple[int, int, list[int]]] = []
        everyone = np.arange(length, dtype=np.int64)
        for name, values in columns.items():
            column = self.columns.get(name)
            if column is None:
                check_column(name, values)
                continue
            numeric = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
            if isinstance(values, PackedColumn):
                self._encode_packed(name, column, values, events, codes)
            elif numeric and column.plain:
                events.append(everyone)
                codes.append(column.slot.number << 32 | self._numeric_labels(name, column.slot, values, everyone))
            else:
                self._encode_column(
                    name, column, values.tolist() if isinstance(values, np.ndarray) else values, events, codes, several
                )
        return Batch(length, events, codes, several)

    @staticmethod
    def _numeric_labels(name: str, slot: Slot, values: Any, rows: Longs) -> Longs:
        if values.dtype.kind == "b":
            return values.astype(np.int64)  # type: ignore[no-any-return]
        floats = values.astype(np.float64)
        if values.dtype.kind == "f" and not np.isfinite(floats).all():
            at = int(np.flatnonzero(~np.isfinite(floats))[0])
            raise BadEvent(
                f"column {name!r}, row {rows[at]}: {floats[at]!r} is not a finite number; None stands for a missing "
                "value"
            )
        constants = slot.constants.get(Kind.NUMBER)
        if constants is None:
            return np.full(len(values), STRETCH[Kind.NUMBER][0], dtype=np.int64)
        exact = values.dtype.kind == "f" or values.dtype.itemsize <= 4 or bool((np.abs(floats) < 2**53).all())
        return constants.labels_of(floats if exact else values.tolist()).astype(np.int64)

    def _encode_column(
        self,
        name: str,
        column: IndexedAttribute,
        values: Any,
        events: list[Longs],
        codes: list[Longs],
        several: list[tuple[int, int, list[int]]],
    ) -> None:
        """A column of Python values: all at once where they are of one kind, else one by one."""
        rows = [row for row, value in enumerate(values) if value is not None]
        present = [values[row] for row in rows] if len(rows) < len(values) else values
        kinds = set(map(type, present))
        number = column.slot.number << 32
        if column.plain and kinds <= {int, float}:
            numbers = np.array(present)
            if numbers.dtype.kind in "if" and (
                numbers.dtype.kind == "i" or int not in kinds or np.abs(numbers).max() < 2**53
            ):
                numbered = np.array(rows, dtype=np.int64)
                events.append(numbered)
                codes.append(number | self._numeric_labels(name, column.slot, numbers, numbered))
                return
        if kinds == {str}:
            known = {text: number | column.slot.label(text) for text in set(present)}
            for row, text in zip(rows, present, strict=True):
                if not text.isascii() or len(text) > TEXT_LENGTH_MAX:
                    _checked(name, row, text)
            events.append(np.array(rows, dtype=np.int64))
            codes.append(np.array([known[text] for text in present], dtype=np.int64))
            if not column.plain:
                self._encode_texts(name, column, np.array(rows, dtype=np.int64), present, events, codes)
            return
        found_events: list[int] = []
        found_codes: list[int] = []
        for row, value in zip(rows, present, strict=True):
            more: list[int] = []
            multi: list[tuple[int, list[int]]] = []
            if type(value) is list or type(value) is tuple:
                if len(value) > VALUES_MAX:
                    raise BadEvent(
                        f"column {name!r}, row {row}: {len(value)} values, and at most {VALUES_MAX} are allowed"
                    )
                checked = tuple(_checked(name, row, each) for each in value if each is not None)
                if not checked:
                    continue
                code = self._encode_item((name, checked if len(checked) > 1 else checked[0]), more, multi)
            else:
                code = self._encode_item((name, _checked(name, row, value)), more, multi)
            found_events.extend([row] * (1 + len(more)))
            found_codes.append(code)
            found_codes.extend(more)
            several.extend((row, slot, labels) for slot, labels in multi)
        events.append(np.array(found_events, dtype=np.int64))
        codes.append(np.array(found_codes, dtype=np.int64))

    def _encode_texts(
        self,
        name: str,
        column: IndexedAttribute,
        rows: Longs,
        texts: list[str],
        events: list[Longs],
        codes: list[Longs],
    ) -> None:
        """The further aspects of a column of texts."""
        if column.backwards is not None:
            events.append(rows)
            codes.append(
                np.array(
                    [column.backwards.number << 32 | column.backwards.label(text[::-1]) for text in texts],
                    dtype=np.int64,
                )
            )
        for slot in (column.longitude, column.latitude):
            if slot is not None:
                events.append(rows)
                codes.append(np.full(len(rows), slot.number << 32 | LABEL_FALSE, dtype=np.int64))
        if column.patterns:
            numbers, slots = self.substrings[name].in_texts(texts)
            events.append(rows[numbers])
            codes.append(slots << 32 | EVERY_VALUE_HOLDS)
        if column.topics is not None:
            met = [(row, code) for row, text in zip(rows, texts, strict=True) for code in column.topics.codes(text)]
            pairs = np.array(met, dtype=np.int64).reshape(-1, 2)
            events.append(pairs[:, 0])
            codes.append(pairs[:, 1])

    # ------------------------------------------------------------ packed columns

    def _encode_packed(
        self, name: str, column: IndexedAttribute, held: PackedColumn, events: list[Longs], codes: list[Longs]
    ) -> None:
        """A packed column, all of it at once. Says exactly what `_encode_column` says of the same values."""
        match held:
            case UnionColumn(parts):
                for part in parts:
                    self._encode_packed(name, column, part, events, codes)
            case DictionaryColumn(texts, chosen):
                self._encode_coded(name, column, texts, chosen, events, codes)
            case MaskedColumn(values, valid):
                rows = np.flatnonzero(valid)
                labels = self._numeric_labels(name, column.slot, values[rows], rows)
                of_kind = labels if values.dtype.kind == "b" else STRETCH[Kind.NUMBER][0]
                self._encode_labels(column, rows, labels, of_kind, None, events, codes)
            case TimeColumn(micros, valid):
                rows = np.flatnonzero(valid)
                labels = _time_labels(name, column.slot, micros[rows], rows)
                self._encode_labels(column, rows, labels, STRETCH[Kind.TIME][0], None, events, codes)
            case PointColumn(lon, lat, valid):
                rows = np.flatnonzero(valid)
                here = (lon[rows], lat[rows])
                labels = _point_labels(name, column.slot, *here, rows)
                self._encode_labels(column, rows, labels, STRETCH[Kind.POINT][0], here, events, codes)

    def _encode_labels(
        self,
        column: IndexedAttribute,
        rows: Longs,
        labels: Longs,
        of_kind: Any,
        here: tuple[Any, Any] | None,
        events: list[Longs],
        codes: list[Longs],
    ) -> None:
        """The codes of other values than texts.

        `of_kind` are their labels where nothing of their kind is compared with, `here` is where points lie.
        """
        found: list[tuple[Slot, Any]] = [(column.slot, labels)]
        if column.backwards is not None:
            found.append((column.backwards, of_kind))
        for slot, degrees in zip((column.longitude, column.latitude), here or (None, None), strict=True):
            if slot is not None:
                found.append((slot, LABEL_FALSE if degrees is None else self._numeric_labels("", slot, degrees, rows)))
        for slot, each in found:
            events.append(rows)
            codes.append(np.full(len(rows), slot.number << 32, dtype=np.int64) | each)

    def _encode_coded(
        self, name: str, column: IndexedAttribute, texts: Any, chosen: Any, events: list[Longs], codes: list[Longs]
    ) -> None:
        """Texts: the dictionary is encoded as if it were a batch, once; then each row gets what its text has."""
        known = self.dictionaries.get(name)
        if known is None or known.texts is not texts:
            known = self.dictionaries[name] = self._dictionary(name, column, texts, chosen)
        rows = np.flatnonzero(chosen >= 0)
        places = chosen[rows]
        if known.singles is not None:
            events.append(rows)
            codes.append(known.singles[places])
            return
        counts = known.starts[places + 1] - known.starts[places]
        ends = np.cumsum(counts)
        events.append(np.repeat(rows, counts))
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        codes.append(known.codes[np.repeat(known.starts[places], counts) + within])

    def _dictionary(self, name: str, column: IndexedAttribute, texts: Any, chosen: Any) -> "Dictionary":
        for place, text in enumerate(texts):
            if not text.isascii() or len(text) > TEXT_LENGTH_MAX:
                _checked(name, int(np.argmax(chosen == place)), text)
        places: list[Longs] = [np.zeros(0, dtype=np.int64)]
        codes: list[Longs] = [np.zeros(0, dtype=np.int64)]
        self._encode_column(name, column, texts, places, codes, [])
        at = np.concatenate(places)
        order = np.argsort(at, kind="stable")
        found = np.concatenate(codes)[order]
        starts = np.searchsorted(at[order], np.arange(len(texts) + 1))
        return Dictionary(texts, starts, found, found if column.plain else None)


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The codes of each text of a dictionary; `singles` where each has just one."""

    texts: Any
    starts: Longs
    codes: Longs
    singles: Longs | None


def _time_labels(name: str, slot: Slot, micros: Any, rows: Longs) -> Longs:
    outside = (micros < FIRST_MICROS) | (micros > LAST_MICROS)
    if outside.any():
        raise BadEvent(f"column {name!r}, row {rows[np.argmax(outside)]}: no time in the years 1 to 9999 of UTC")
    constants = slot.constants.get(Kind.TIME)
    if constants is None or not constants.keys:
        return np.full(len(micros), STRETCH[Kind.TIME][0], dtype=np.int64)
    known = np.array([micros_of(time) for time in constants.keys], dtype=np.int64)
    labels = np.frombuffer(constants.labels, dtype=np.int32).astype(np.int64)
    places = np.searchsorted(known, micros)
    inner = np.minimum(places, len(known) - 1)
    below = np.where(places > 0, labels[places - 1] + 1, constants.low)
    return np.where(known[inner] == micros, labels[inner], below)


def _point_labels(name: str, slot: Slot, lon: Any, lat: Any, rows: Longs) -> Longs:
    inside = (np.abs(lon) <= LON_MAX) & (np.abs(lat) <= LAT_MAX)  # no NaN is
    if not inside.all():
        at = int(np.argmin(inside))
        raise BadEvent(f"column {name!r}, row {rows[at]}: {lon[at]!r}, {lat[at]!r} is not a place on the globe")
    constants = slot.constants.get(Kind.POINT)
    if constants is None:
        return np.full(len(rows), STRETCH[Kind.POINT][0], dtype=np.int64)
    return constants.labels_of(list(zip(lon.tolist(), lat.tolist(), strict=True))).astype(np.int64)


def _checked(name: str, row: int, value: Any) -> Value:
    try:
        return checked_value(value)
    except BadValue as error:
        raise BadEvent(f"column {name!r}, row {row}: {error}") from None


def check_column(name: str, values: Any) -> None:
    """Refuse what is not a value in any column, so that an error does not depend on who subscribes to what."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biu":
        return
    for row, value in enumerate(values.tolist() if isinstance(values, np.ndarray | PackedColumn) else values):
        for each in value if isinstance(value, list | tuple) else (value,):
            if each is not None:
                _checked(name, row, each)


class Batch:
    """The codes of a batch, event after event, as the kernels read them."""

    def __init__(
        self, length: int, events: list[Longs], codes: list[Longs], several: list[tuple[int, int, list[int]]]
    ) -> None:
        self.length = length
        self.event_starts: Longs = np.zeros(length + 1, dtype=np.int64)
        for rows in events:
            count_rows(rows, self.event_starts)
        np.cumsum(self.event_starts, out=self.event_starts)
        self.codes: Longs = np.empty(self.event_starts[-1], dtype=np.int64)
        ends = self.event_starts[:-1].copy()
        for rows, each in zip(events, codes, strict=True):
            write_codes(rows, each, ends, self.codes)
        several.sort(key=lambda each: each[0])
        values = np.bincount(
            np.array([row for row, _, labels in several for _ in labels], dtype=np.int64), minlength=length
        )
        self.codes_max = int(
            (np.diff(self.event_starts) + values).max(initial=0)
        )  # what the event with the most codes has
        self.multi_event_starts: Longs = np.searchsorted(
            np.array([row for row, _, _ in several], dtype=np.int64), np.arange(length + 1)
        )
        self.multi_slots, self.multi_starts, self.multi_codes, self.multi_labels = multi_arrays(
            [(slot, labels) for _, slot, labels in several]
        )


@compiled  # type: ignore[untyped-decorator]
def count_rows(rows: Any, starts: Any) -> None:
    """Count in `starts[row + 1]` how often each row comes."""
    for row in rows:
        starts[row + 1] += 1


@compiled  # type: ignore[untyped-decorator]
def write_codes(rows: Any, codes: Any, ends: Any, out: Any) -> None:
    """Write each row's code behind those that `out` has of it already."""
    for place in range(len(rows)):
        row = rows[place]
        out[ends[row]] = codes[place]
        ends[row] += 1


def multi_arrays(several: list[tuple[int, list[int]]]) -> tuple[Longs, Longs, Longs, npt.NDArray[np.int32]]:
    """Slots with several values as arrays: slots, where each one's values start, their codes, their labels."""
    slots: list[int] = []
    starts = [0]
    codes: list[int] = []
    all_labels: list[int] = []
    for slot, labels in several:
        slots.append(slot)
        all_labels += labels
        codes += [slot << 32 | label for label in labels]
        starts.append(len(codes))
    return (
        np.array(slots, dtype=np.int64),
        np.array(starts, dtype=np.int64),
        np.array(codes, dtype=np.int64),
        np.array(all_labels, dtype=np.int32),
    )
