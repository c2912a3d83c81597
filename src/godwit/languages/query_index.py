"""Many queries in any languages: which of them want an event?

*Theory.* The routable filters of all queries are in one matcher, which finds the few that an event passes. Most of
these need no test: their filter says all (`Query.certainty`), as far as the event meets assumptions that depend on
little of it. Queries with the same assumptions share the answer, and so do events of the same structure. Where a filter
is certain that is narrower than the routable one, it is in the same matcher, as a second row. What is left is tested.

Equal queries are one: they are matched and tested once, however many subscriptions have them.

*Profile.* With 100,000 subscriptions to CAP and SIRI, a document of 2 kB takes 20 to 40 µs to parse, 80 to flatten, 100
to encode and 220 in the kernel. Tests by lxml take 3 to 6 µs each, and ten times that or more in XQL: the three of a
document on average take 190, and one for each of 150 matching queries would take longer than all else.

*Rules.*
1. The answer is that of `Query.matches` for each query alone.
2. A test that fails, by too many steps or by an operator that raises, leaves the other queries as they are.
3. What is remembered of structures and assumptions is bounded.
4. Queries that ask for the subscriber's own context are refused: equal ones differ by subscriber.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from godwit.errors import FilterError, SubscriptionError, Unbound
from godwit.filters import Event, Filter
from godwit.languages.query import Query, Subject
from godwit.languages.single_values import split_by_values, with_counts
from godwit.matching import IndexMatcher

__all__ = ["Outcome", "QueryIndex", "match_queries"]

STRUCTURES_MAX = 1_024
STRUCTURE_FROM = 8  # tests: to learn the structure of a document takes about as long
STRUCTURE = "xml structure"
ASSUMPTIONS_SPARE = 1_024
NEVER, ALWAYS = -1, 0  # when a query is certain; other numbers are those of assumptions

SubscriptionId = Hashable


@dataclass(slots=True)
class Outcome:
    """What became of an event: who wants it, who does not after all, and whose test failed."""

    wanted: list[SubscriptionId] = field(default_factory=list)
    residues: list[SubscriptionId] = field(default_factory=list)
    """The event passed their filter and not their test: negative residues."""
    failures: list[tuple[SubscriptionId, FilterError]] = field(default_factory=list)


@dataclass(slots=True)
class _Entry:
    """A query, and the subscriptions that have it."""

    query: Query
    certain: int  # NEVER, ALWAYS, or the number of the assumptions
    second_row: Filter | None  # what is certain, where it is not the routable filter
    ids: dict[SubscriptionId, None] = field(default_factory=dict)


class _Learned:
    """What is known of all events of one structure, or of those of which it is not known."""

    __slots__ = ("changes", "ids", "met", "structure")

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        self.changes = 0  # of subscriptions, after which `ids` was begun
        self.met = {ALWAYS: True, NEVER: False}  # whether they meet the assumptions of a number
        self.ids: dict[int, tuple[SubscriptionId, ...]] = {}  # by row: who wants them if they pass it


class QueryIndex:
    """Subscriptions, by the queries that they have."""

    def __init__(self) -> None:
        self._matcher = IndexMatcher()
        self._attributes: frozenset[str] | None = None  # that filters ask for; None: not known since the last change
        self._ranged: set[str] = set()  # attributes of ranges with two ends
        self._entries: dict[int, _Entry] = {}  # rows of the matcher are twice the number, and one more
        self._next = 0
        self._free: list[int] = []  # numbers of entries that are no more
        self._numbers: dict[tuple[str, str], list[int]] = {}  # of entries, by language and text
        self._entry_of: dict[SubscriptionId, int] = {}
        self._assumptions: dict[frozenset[Any], int] = {frozenset(): ALWAYS}
        self._by_number: list[frozenset[Any]] = [frozenset()]
        self._learned: dict[Any, _Learned] = {}  # by structure
        self._changes = 0  # of subscriptions

    def __len__(self) -> int:
        return len(self._entry_of)

    def __contains__(self, id: SubscriptionId) -> bool:
        return id in self._entry_of

    @property
    def query_count(self) -> int:
        """How many different queries there are."""
        return len(self._entries)

    # ------------------------------------------------------------ subscriptions

    def add(self, id: SubscriptionId, query: Query) -> None:
        """Subscribe `id` to a query. An id that is there already is an error."""
        self.add_many([(id, query)])

    def add_many(self, subscriptions: Iterable[tuple[SubscriptionId, Query]]) -> None:
        """Subscribe many at once: all of them, or none when one is an error."""
        pairs = list(subscriptions)
        seen: set[SubscriptionId] = set()
        for id, query in pairs:
            if id in self._entry_of or id in seen:
                raise SubscriptionError(f"subscription {id!r} is there already")
            if query.references:  # whose context would it be?
                raise Unbound(*map(str, query.references))
            seen.add(id)
        entries: list[tuple[int, _Entry]] = []
        numbers: dict[tuple[str, str], list[tuple[int, _Entry]]] = {}  # of the new ones
        rows: list[tuple[int, Filter]] = []
        ranged: set[str] = set()
        taken: list[tuple[SubscriptionId, int, _Entry]] = []
        for id, query in pairs:
            key = (query.language, query.text)
            known = [(number, self._entries[number]) for number in self._numbers.get(key, ())]
            same = next((each for each in (*known, *numbers.get(key, ())) if each[1].query == query), None)
            if same is None:
                used = len(entries)
                number = self._free[used] if used < len(self._free) else self._next + used - len(self._free)
                same = (number, self._made(query))
                for row, filter in _rows(*same):
                    split, names = split_by_values(filter)
                    rows.append((row, split))
                    ranged.update(names)
                entries.append(same)
                numbers.setdefault(key, []).append(same)
            taken.append((id, *same))
        self._matcher.add_many(rows)
        self._ranged |= ranged
        self._next += max(0, len(entries) - len(self._free))
        self._free = self._free[len(entries) :]
        self._entries.update(entries)
        for key, made in numbers.items():
            self._numbers.setdefault(key, []).extend(number for number, _ in made)
        for id, number, entry in taken:
            entry.ids[id] = None
            self._entry_of[id] = number
        self._attributes = None
        self._changes += 1

    def _made(self, query: Query) -> _Entry:
        known = query.certainty()
        if known is None:
            return _Entry(query, NEVER, None)
        return _Entry(query, self._numbered(known.assumptions), known.filter)

    def _numbered(self, assumptions: frozenset[Any]) -> int:
        number = self._assumptions.setdefault(assumptions, len(self._by_number))
        if number == len(self._by_number):
            self._by_number.append(assumptions)
        return number

    def remove(self, id: SubscriptionId) -> None:
        """End a subscription."""
        number = self._entry_of.pop(id, None)
        if number is None:
            raise SubscriptionError(f"there is no subscription {id!r}")
        entry = self._entries[number]
        del entry.ids[id]
        self._changes += 1
        if entry.ids:
            return
        self._attributes = None
        del self._entries[number]
        key = (entry.query.language, entry.query.text)
        self._numbers[key].remove(number)
        if not self._numbers[key]:
            del self._numbers[key]
        self._free.append(number)
        for row, _ in _rows(number, entry):
            self._matcher.remove(row)
        if len(self._assumptions) > 2 * len(self._entries) + ASSUMPTIONS_SPARE:
            self._forget_assumptions()

    def _forget_assumptions(self) -> None:
        """Number those again that are still made. (rule 3)"""
        before = self._by_number
        self._assumptions, self._by_number, self._learned = {frozenset(): ALWAYS}, [frozenset()], {}
        for entry in self._entries.values():
            if entry.certain != NEVER:
                entry.certain = self._numbered(before[entry.certain])

    # ------------------------------------------------------------ matching

    def match(self, event: Event | Subject) -> Outcome:
        """Who wants an event. A `Subject` brings what is known of it already."""
        subject = event if isinstance(event, Subject) else Subject(event)
        found: list[Any] = self._matcher.match(self._named(subject.event))
        learned = self._learned_of(subject, len(found))
        decided: list[Collection[SubscriptionId] | None] = list(map(learned.ids.get, found))
        outcome = Outcome()
        if None in decided:
            rows = set(found)
            for place, ids in enumerate(decided):
                if ids is None:
                    decided[place] = self._decided(found[place], rows, learned, subject, outcome)
        outcome.wanted = list(chain.from_iterable(decided))  # type: ignore[arg-type]
        return outcome

    def _decided(
        self, row: int, rows: set[int], learned: _Learned, subject: Subject, outcome: Outcome
    ) -> Collection[SubscriptionId]:
        """The subscriptions of a row that want the event, of all rows that it passes. What is true of all events of
        this structure is remembered."""
        entry = self._entries[row >> 1]
        is_met = self._is_met(entry.certain, learned, subject)
        if row & 1:
            ids = learned.ids[row] = tuple(entry.ids) if is_met else ()
            return ids
        if is_met and entry.second_row is None:
            ids = learned.ids[row] = tuple(entry.ids)
            return ids
        if is_met and row + 1 in rows:  # which gives the subscriptions
            return ()
        return self._tested(subject, entry, outcome)

    def _named(self, event: Event) -> Event:
        """An event with those attributes only that filters ask for, which are few of those of a document."""
        if self._attributes is None:
            self._attributes = self._matcher.attributes | self._ranged
        asked = self._attributes
        known = {name: values for name, values in event.attributes.items() if name in asked}
        return Event(with_counts(known, self._ranged) if self._ranged else known)

    def _tested(self, subject: Subject, entry: _Entry, outcome: Outcome) -> Collection[SubscriptionId]:
        """The subscriptions of a query that want the event by its test."""
        try:
            if entry.query.wants(subject):
                return entry.ids
            outcome.residues.extend(entry.ids)
        except FilterError as error:  # rule 2
            outcome.failures += [(id, error) for id in entry.ids]
        return ()

    def _learned_of(self, subject: Subject, count: int) -> _Learned:
        """What is known of events like this one, of which `count` queries may make assumptions."""
        structure = None
        if len(self._by_number) > 1 and (subject.has_derived(STRUCTURE) or count >= STRUCTURE_FROM):
            structure = _structure_of(subject)
        learned = self._learned.get(structure)
        if learned is None:
            if len(self._learned) >= STRUCTURES_MAX:
                self._learned.clear()
            learned = self._learned[structure] = _Learned(structure)
        if learned.changes != self._changes:
            learned.changes, learned.ids = self._changes, {}
        return learned

    def _is_met(self, number: int, learned: _Learned, subject: Subject) -> bool:
        """Whether an event meets the assumptions of a number."""
        answer = learned.met.get(number)
        if answer is None:
            if learned.structure is None:
                return False
            answer = learned.met[number] = learned.structure.meets(self._by_number[number])
        return answer


def _structure_of(subject: Subject) -> Any:
    from godwit.languages.xml_documents import structure_of  # it needs a large library

    return structure_of(subject)


def _rows(number: int, entry: _Entry) -> list[tuple[int, Filter]]:
    """The rows of an entry in the matcher."""
    rows = [(2 * number, entry.query.routable)]
    return rows if entry.second_row is None else [*rows, (2 * number + 1, entry.second_row)]


def match_queries(
    queries: Iterable[tuple[SubscriptionId, Query]], events: Iterable[Event]
) -> Iterator[tuple[Event, Outcome]]:
    """Each event, and which of the queries want it. A test that fails is in the outcome, not an exception."""
    index = QueryIndex()
    index.add_many(queries)
    for event in events:
        yield event, index.match(event)
