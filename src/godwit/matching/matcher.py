"""The one interface of all matchers: which of many subscriptions does this event match?

`Matcher` keeps what is the same for all: that an id is known once, and when subscriptions expire. A subclass answers
four questions: put one in, take one out, match one event, match a batch.

*Rules.*
1. Ids come back in an order that depends only on the calls made before, never on hashing.
2. A subscription with `expires=t` matches while `now < t`; `expire(now)` removes expired subscriptions, which then cost
   nothing.
3. A call that fails changes nothing.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.errors import BadEvent, SubscriptionError, Unbound
from godwit.filters.events import Event, event
from godwit.filters.filters import Filter
from godwit.filters.references import is_open, references_of
from godwit.matching.packed_columns import PackedColumn

DUE_SPARE = 64

SubscriptionId = Hashable
Columns = Mapping[str, Sequence[Any] | npt.NDArray[Any] | PackedColumn]
"""A batch of events, a column per attribute, all of one length. An element is a value, None when the event has no such
attribute, or a list or tuple of several values. NumPy arrays of bool, int and float, and what `packed` has for texts,
times, places and missing values, are the fast way."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches of a batch: event number i matches `ids[offsets[i]:offsets[i + 1]]`."""

    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> list[SubscriptionId]:
        """The ids that event `number` matches."""
        if not 0 <= number < len(self):
            raise IndexError(f"event {number} of a batch of {len(self)}")
        return self.ids[self.offsets[number] : self.offsets[number + 1]].tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[list[SubscriptionId]]:
        return (self[number] for number in range(len(self)))


class Matcher(ABC):
    """Base of all matchers: known ids and expiry. See the module's head for the rules."""

    def __init__(self) -> None:
        self._expires: dict[SubscriptionId, float] = {}
        self._due: list[tuple[float, int, SubscriptionId]] = []  # a heap; entries no longer true are skipped
        self._due_number = 0

    # ------------------------------------------------------------ what a subclass answers

    @abstractmethod
    def _known(self, id: SubscriptionId) -> bool: ...

    @abstractmethod
    def _insert(self, id: SubscriptionId, filter: Filter) -> None: ...

    @abstractmethod
    def _delete(self, id: SubscriptionId) -> None: ...

    @abstractmethod
    def _match(self, event: Event) -> list[SubscriptionId]: ...

    @abstractmethod
    def __len__(self) -> int: ...

    def _insert_many(self, subscriptions: list[tuple[SubscriptionId, Filter]]) -> None:
        """One by one; a matcher that can do better overrides this."""
        for id, filter in subscriptions:
            self._insert(id, filter)

    def _prepare(self) -> None:  # noqa: B027  # most have nothing to prepare
        """Nothing to do; a matcher that gathers changes overrides this."""

    def _match_batch(self, columns: Columns, length: int) -> Matches:
        """Event by event; a matcher that can do better overrides this."""
        found = [self._match(event) for event in events_of(columns, length)]
        offsets = np.zeros(length + 1, dtype=np.int64)
        np.cumsum([len(ids) for ids in found], out=offsets[1:])
        ids = np.empty(int(offsets[-1]), dtype=object)
        ids[:] = [id for each in found for id in each]
        return Matches(offsets, ids)

    def _count_batch(self, columns: Columns, length: int) -> npt.NDArray[np.int64]:
        """By matching; a matcher that can do better overrides this."""
        return np.diff(self._match_batch(columns, length).offsets)

    # ------------------------------------------------------------ what everyone calls

    def __contains__(self, id: SubscriptionId) -> bool:
        return self._known(id)

    def add(self, id: SubscriptionId, filter: Filter, expires: float | None = None) -> None:
        """Subscribe `id` to `filter`, until `expires` if given. An id that already exists is an error."""
        if self._known(id):
            raise _taken(id)
        _check_bound(filter)
        self._insert(id, filter)
        self._set_expiry(id, expires)

    def add_many(self, subscriptions: Iterable[tuple[SubscriptionId, Filter]]) -> None:
        """Add many at once, none of which expires: all of them, or none when one is an error."""
        subscriptions = list(subscriptions)
        new: set[SubscriptionId] = set()
        for id, filter in subscriptions:
            if id in new or self._known(id):
                raise _taken(id)
            _check_bound(filter)
            new.add(id)
        self._insert_many(subscriptions)

    def prepare(self) -> None:
        """Do now what the next event would have to wait for. A matcher that gathers changes has something to do."""
        self._prepare()

    def remove(self, id: SubscriptionId) -> None:
        """End the subscription `id`."""
        if not self._known(id):
            raise SubscriptionError(f"there is no subscription {id!r}")
        self._delete(id)
        self._expires.pop(id, None)

    def replace(self, id: SubscriptionId, filter: Filter, expires: float | None = None) -> None:
        """Give the subscription `id` another filter and expiry in one step."""
        if not self._known(id):
            raise SubscriptionError(f"there is no subscription {id!r}: add() makes one")
        _check_bound(filter)
        self._replace(id, filter)
        self._expires.pop(id, None)
        self._set_expiry(id, expires)

    def _replace(self, id: SubscriptionId, filter: Filter) -> None:
        self._delete(id)
        self._insert(id, filter)

    def expire(self, now: float) -> list[SubscriptionId]:
        """Remove expired subscriptions, and return them in the order in which they expired."""
        gone: list[SubscriptionId] = []
        while self._due and self._due[0][0] <= now:
            at, _, id = heapq.heappop(self._due)
            if self._expires.get(id) == at:
                self.remove(id)
                gone.append(id)
        return gone

    def match(self, event: Event, now: float | None = None) -> list[SubscriptionId]:
        """The ids of all subscriptions that `event` matches. With `now`, what has expired is taken out first."""
        if now is not None and self._due:
            self.expire(now)
        return self._match(event)

    def match_batch(self, columns: Columns, now: float | None = None) -> Matches:
        """The ids each event of a batch matches; the batch comes as columns."""
        if now is not None and self._due:
            self.expire(now)
        return self._match_batch(columns, batch_length(columns))

    def count_batch(self, columns: Columns, now: float | None = None) -> npt.NDArray[np.int64]:
        """Number of matches of each event of a batch: faster than the matches themselves."""
        if now is not None and self._due:
            self.expire(now)
        return self._count_batch(columns, batch_length(columns))

    def _set_expiry(self, id: SubscriptionId, expires: float | None) -> None:
        if expires is None:
            return
        self._expires[id] = expires
        self._due_number += 1
        heapq.heappush(self._due, (expires, self._due_number, id))
        if len(self._due) > 2 * len(self._expires) + DUE_SPARE:  # mostly of subscriptions replaced or removed since
            self._due = [due for due in self._due if self._expires.get(due[2]) == due[0]]
            heapq.heapify(self._due)


def _taken(id: SubscriptionId) -> SubscriptionError:
    return SubscriptionError(f"subscription {id!r} already exists: replace() changes its filter")


def _check_bound(filter: Filter) -> None:
    if is_open(filter):
        raise Unbound(*map(str, references_of(filter)))


def batch_length(columns: Columns) -> int:
    """How many events a batch holds; `BadEvent` when its columns disagree."""
    lengths = {name: len(column) for name, column in columns.items()}
    length = next(iter(lengths.values()), 0)
    for name, other in lengths.items():
        if other != length:
            raise BadEvent(
                f"column {name!r} has {other} rows and the first column has {length}: "
                "all columns of a batch are equally long"
            )
    return length


def events_of(columns: Columns, length: int) -> Iterator[Event]:
    """The events of a batch one by one, checked."""
    plain = {
        name: column.tolist() if isinstance(column, np.ndarray | PackedColumn) else column
        for name, column in columns.items()
    }
    for row in range(length):
        yield event({name: column[row] for name, column in plain.items()})


def one_row(columns: Columns, row: int) -> Columns:
    """One event of a batch, as a batch."""
    return {name: column[row : row + 1] for name, column in columns.items()}


def array_of(ids: list[SubscriptionId], dtype: Any) -> npt.NDArray[Any]:
    """Ids as an array with one element each, also where an id is a tuple."""
    array: npt.NDArray[Any] = np.empty(len(ids), dtype=dtype)
    array[:] = np.fromiter(ids, dtype=dtype, count=len(ids))
    return array
