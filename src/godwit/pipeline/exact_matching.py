"""Exact tests in the workers: events that passed the routable filter of a query are tested by its language. [motion §5]

*Theory.* For a query in another language the index has the routable filter, as for any subscription, and its language
and printed text. A worker parses the text once, when the first event passes the filter. Rows that passed become events,
each once; an XML document is parsed once for all queries (`Subject`), and a test that several subscriptions share runs
once per event.

*Rules.*
1. An event that passes the filter and fails the test is a negative residue. It is counted for each subscription.
2. A test that cannot be decided (it takes too many steps, or an expression fails) counts as failed. Such pairs are
   counted separately, and the first reason is kept: one query must not end a job for all others.
3. An index without tests does not use this module.
4. Operators of users are imported by the worker (`worker_operators.py`). A query that names one which it cannot import
   ends the job with the reason, because its meaning is unknown.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from godwit.errors import GodwitError
from godwit.filters.events import Event
from godwit.languages import Query, Subject
from godwit.pipeline.event_rows import events_of_rows
from godwit.pipeline.worker_operators import OperatorSource, parse_in_worker

__all__ = ["ExactTests", "Found", "Testing"]

EVENTS_AT_ONCE = 1_024  # rows that are converted to events at a time
Longs = npt.NDArray[np.int64]
Found = tuple[Longs, Longs, npt.NDArray[Any]]
"""Matches of some rows, as the matcher returns them: the rows, the offsets of their matches, and numbers of filters."""


class QueryText(NamedTuple):
    """A query in the index."""

    language: str
    text: str


class ExactTests:
    """The tests of an index, by the number of a filter in the matcher; shared by all tasks of a worker."""

    def __init__(
        self,
        numbers: Sequence[int],
        written: Sequence[QueryText],
        count: int,
        operators: tuple[OperatorSource, ...] = (),
    ) -> None:
        self._operators = operators
        self._queries: list[Query | None] = []
        self._written: list[QueryText] = []
        places: dict[QueryText, int] = {}
        self.places = np.full(count, -1, dtype=np.int64)  # of each filter's test; -1: it has none
        for number, each in zip(numbers, written, strict=True):
            if each not in places:
                places[each] = len(self._written)
                self._written.append(each)
                self._queries.append(None)
            self.places[number] = places[each]

    def query(self, place: int) -> Query:
        """A query, parsed at its first use."""
        found = self._queries[place]
        if found is None:
            language, text = self._written[place]
            found = self._queries[place] = parse_in_worker(text, language, self._operators)
        return found


class Testing:
    """The exact tests of one task, and the number of rejected pairs."""

    def __init__(self, tests: ExactTests | None, weights: Longs, rest: str = "") -> None:
        self.residues = self.undecided = 0
        self.reason = ""  # the reason of the first undecided one
        self._tests, self._weights, self._rest = tests, weights, rest

    def of(self, batch: Any) -> Callable[[Found], Found] | None:
        """A function that keeps the matches in this batch whose tests hold; None if there are no tests. (rule 3)"""
        tests = self._tests
        if tests is None:
            return None
        return lambda found: self._kept(tests, batch, found)

    def _kept(self, tests: ExactTests, batch: Any, found: Found) -> Found:
        rows, starts, numbers = found
        tested = np.flatnonzero(tests.places[numbers] >= 0)
        if not len(tested):
            return found
        row_of = np.repeat(rows, np.diff(starts))[tested]
        kept = np.ones(len(numbers), dtype=np.bool_)
        begins = np.flatnonzero(np.concatenate(([True], row_of[1:] != row_of[:-1])))
        ends = [*begins[1:].tolist(), len(tested)]
        events = self._events(batch, row_of[begins])
        for event, first, last in zip(events, begins.tolist(), ends, strict=True):
            subject, answers = Subject(event), dict[int, bool]()
            for place in tested[first:last].tolist():
                kept[place] = self._holds(tests, subject, int(numbers[place]), answers)
        before = np.concatenate(([0], np.cumsum(kept)))
        return rows, before[starts], numbers[kept]

    def _events(self, batch: Any, rows: Longs) -> Iterator[Event]:
        for first in range(0, len(rows), EVENTS_AT_ONCE):
            yield from events_of_rows(batch.take(pa.array(rows[first : first + EVENTS_AT_ONCE])), self._rest)

    def _holds(self, tests: ExactTests, subject: Subject, number: int, answers: dict[int, bool]) -> bool:
        place = int(tests.places[number])
        weight = int(self._weights[number])
        if place not in answers:
            query = tests.query(place)
            try:
                answers[place] = query.wants(subject)
            except GodwitError as error:  # rule 2
                self.undecided += weight
                self.reason = self.reason or f"{query.language} query {query.text!r}: {error}"
                return False
        if not answers[place]:
            self.residues += weight
        return answers[place]
