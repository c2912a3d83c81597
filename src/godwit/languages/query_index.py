"""Many queries in any languages: which of them want an event?

*Theory.* The routable filters of all queries are in one matcher, which finds the few that an event passes. Most of
these need no test: their filter says all (`Query.certainty`), as far as the event meets assumptions that depend on
little of it. Queries with the same assumptions share the answer, and so do events of the same structure. Where a filter
is certain that is narrower than the routable one, it is in the same matcher, as a second row. What is left is decided
by filters that assume less (`Query.assumed_bounds`), which are asked one by one, and what they cannot decide is tested.

Equal queries are one: they are matched and tested once, however many subscriptions have them.

*Profile.* With 100,000 subscriptions to CAP and SIRI, a document of 2 kB takes 25 µs to parse, 60 to flatten, 10 to
choose attributes, 30 to encode and 40 in the kernel, each measured alone; together it takes half as long again, because
what one step reads is no longer near for the next. Tests by lxml take 3 µs each when they are near, and ten times that
when they are not; tests in XQL 20 to 40, and 100 or more. One for each of 150 matching queries would take longer than
all else.

*Rules.*
1. The answer is that of `Query.matches` for each query alone.
2. A test that fails, by too many steps or by an operator that raises, leaves the other queries as they are.
3. What is remembered of structures and assumptions is bounded.
4. Queries that ask for the subscriber's own context are refused: equal ones differ by subscriber.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from godwit.errors import FilterError, SubscriptionError, Unbound
from godwit.filters import Attributes, Event, Filter
from godwit.languages.bounds import Bounds
from godwit.languages.query import Query, Subject
from godwit.languages.single_values import SpecialCases, split_filter, with_special
from godwit.matching import IndexMatcher

__all__ = ["QueryIndex", "QueryMatches", "match_queries"]

STRUCTURES_MAX = 1_024
STRUCTURE_FROM = 8  # tests: to learn the structure of a document takes about as long
STRUCTURE = "xml structure"
ASSUMPTIONS_SPARE = 1_024
NEVER, ALWAYS = -1, 0  # when a query is certain; other numbers are those of assumptions

SubscriptionId = Hashable


@dataclass(slots=True)
class QueryMatches:
    """Result for one event: subscriptions that match, residues, and failed tests."""

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
    assumed: tuple[int, Bounds] | None = None  # filters that may decide, and the number of their assumptions;
    is_assumed_known: bool = False  # computed when they are first needed
    listed: tuple[SubscriptionId, ...] | None = None  # the same, until they change: one object for all structures

    def all_ids(self) -> tuple[SubscriptionId, ...]:
        """The subscriptions as they are now."""
        if self.listed is None:
            self.listed = tuple(self.ids)
        return self.listed


class _Learned:
    """What is known of all events of one structure, or of those of which it is not known."""

    __slots__ = ("changes", "ids", "keys", "met", "names", "special", "structure", "values")

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        self.keys: frozenset[str] | None = None  # the attributes that the last of them had
        self.names: tuple[str, ...] = ()  # of these, those that filters ask for,
        self.values: Callable[[Attributes], tuple[Any, ...]] = lambda attributes: ()  # what takes their values,
        self.special = SpecialCases()  # and of which it must be known whether they are as usual
        self.changes = 0  # of subscriptions, after which `ids` was begun
        self.met = {ALWAYS: True, NEVER: False}  # whether they meet the assumptions of a number
        self.ids: dict[int, tuple[SubscriptionId, ...]] = {}  # by row: its subscriptions


class QueryIndex:
    """Subscriptions, by the queries that they have."""

    def __init__(self) -> None:
        self._matcher = IndexMatcher()
        self._attributes: frozenset[str] | None = None  # that filters ask for; None: not known since the last change
        self._special = SpecialCases()  # of all filters (`single_values.py`)
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
        """Subscribe `id` to a query. An id that already exists is an error."""
        self.add_many([(id, query)])

    def add_many(self, subscriptions: Iterable[tuple[SubscriptionId, Query]]) -> None:
        """Subscribe many at once: all of them, or none when one is an error."""
        pairs = list(subscriptions)
        seen: set[SubscriptionId] = set()
        for id, query in pairs:
            if id in self._entry_of or id in seen:
                raise SubscriptionError(f"subscription {id!r} already exists")
            if query.references:  # whose context would it be?
                raise Unbound(*map(str, query.references))
            seen.add(id)
        entries: list[tuple[int, _Entry]] = []
        numbers: dict[tuple[str, str], list[tuple[int, _Entry]]] = {}  # of the new ones
        rows: list[tuple[int, Filter]] = []
        special = SpecialCases()
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
                    split = split_filter(filter, self._special, special)
                    rows.append((row, split.filter))
                    special.update(split.cases)
                entries.append(same)
                numbers.setdefault(key, []).append(same)
            taken.append((id, *same))
        self._matcher.add_many(rows)
        self._special.update(special)
        self._next += max(0, len(entries) - len(self._free))
        self._free = self._free[len(entries) :]
        self._entries.update(entries)
        for key, made in numbers.items():
            self._numbers.setdefault(key, []).extend(number for number, _ in made)
        for id, number, entry in taken:
            entry.ids[id] = None
            entry.listed = None
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
        entry.listed = None
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
            entry.assumed, entry.is_assumed_known = None, False
            if entry.certain != NEVER:
                entry.certain = self._numbered(before[entry.certain])

    # ------------------------------------------------------------ matching

    def match(self, event: Event | Subject) -> QueryMatches:
        """Subscriptions that match an event. A `Subject` carries what is already computed about it."""
        subject = event if isinstance(event, Subject) else Subject(event)
        learned = self._learned_of(subject, 0)
        return self._outcome(subject, learned, self._matcher.match(self._named(subject.event, learned)))

    def match_many(self, events: Iterable[Event | Subject]) -> list[QueryMatches]:
        """The same for some events, one step after the other for all of them: so what a step reads is still near."""
        subjects = [event if isinstance(event, Subject) else Subject(event) for event in events]
        learned = [self._learned_of(subject, 0) for subject in subjects]
        named = [self._named(subject.event, each) for subject, each in zip(subjects, learned, strict=True)]
        found = [self._matcher.match(event) for event in named]
        return [self._outcome(*each) for each in zip(subjects, learned, found, strict=True)]

    def _outcome(self, subject: Subject, learned: _Learned, found: list[Any]) -> QueryMatches:
        """Result for an event that passes these rows."""
        if learned.structure is None and len(found) >= STRUCTURE_FROM:
            learned = self._learned_of(subject, len(found))
        known, rows = learned.ids.get, frozenset[int]()
        outcome = QueryMatches()
        wanted = outcome.wanted
        for row in found:
            ids: Collection[SubscriptionId] | None = known(row)
            if ids is None:
                rows = rows or frozenset(found)
                ids = self._decided(row, rows, learned, subject, outcome)
            wanted += ids
        return outcome

    def _decided(
        self, row: int, rows: frozenset[int], learned: _Learned, subject: Subject, outcome: QueryMatches
    ) -> Collection[SubscriptionId]:
        """The subscriptions of a row that want the event, of all rows that it passes. What is true of all events of
        this structure is remembered."""
        entry = self._entries[row >> 1]
        is_met = self._is_met(entry.certain, learned, subject)
        if row & 1:
            ids = learned.ids[row] = entry.all_ids() if is_met else ()
            return ids
        if is_met and entry.second_row is None:
            ids = learned.ids[row] = entry.all_ids()
            return ids
        if is_met and row + 1 in rows:  # which gives the subscriptions
            return ()
        is_wanted = self._decided_by_bounds(entry, learned, subject)
        if is_wanted is None:
            return self._tested(subject, entry, outcome)
        if is_wanted:
            return entry.all_ids()
        outcome.residues.extend(entry.ids)
        return ()

    def _decided_by_bounds(self, entry: _Entry, learned: _Learned, subject: Subject) -> bool | None:
        """Whether the query wants the event, if filters can tell; None: they cannot."""
        if learned.structure is None:
            return None
        if not entry.is_assumed_known:
            told = entry.query.assumed_bounds()
            entry.assumed = None if told is None else (self._numbered(told.assumptions), told.bounds)
            entry.is_assumed_known = True
        if entry.assumed is None or not self._is_met(entry.assumed[0], learned, subject):
            return None
        attributes, bounds = subject.event.attributes, entry.assumed[1]
        if bounds.lower.holds(attributes):
            return True
        return None if bounds.upper.holds(attributes) else False

    def _named(self, event: Event, learned: _Learned) -> Event:
        """An event with those attributes only that filters ask for, which are few of those of a document.

        Documents of one structure have the same ones, unless somebody has added some.
        """
        attributes = event.attributes
        if self._attributes is None:
            self._attributes = self._matcher.attributes | self._special.names
        if learned.structure is None:
            asked = self._attributes
            known = {name: values for name, values in attributes.items() if name in asked}
            return Event(with_special(known, self._special) if self._special else known)
        if learned.keys is None or attributes.keys() != learned.keys:
            learned.keys = frozenset(attributes)
            learned.names = tuple([name for name in attributes if name in self._attributes])
            learned.values = _getter(learned.names)
            learned.special = self._special.among(learned.names)
        known = dict(zip(learned.names, learned.values(attributes), strict=True))
        return Event(with_special(known, learned.special))

    def _tested(self, subject: Subject, entry: _Entry, outcome: QueryMatches) -> Collection[SubscriptionId]:
        """The subscriptions of a query that want the event by its test."""
        try:
            if entry.query.wants(subject):
                return entry.all_ids()
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
            learned.changes, learned.ids, learned.keys = self._changes, {}, None
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


def _getter(names: tuple[str, ...]) -> Callable[[Attributes], tuple[Any, ...]]:
    """What takes the values of these attributes."""
    match names:
        case ():
            return lambda attributes: ()
        case (name,):
            return lambda attributes: (attributes[name],)
    return itemgetter(*names)


def _rows(number: int, entry: _Entry) -> list[tuple[int, Filter]]:
    """The rows of an entry in the matcher."""
    rows = [(2 * number, entry.query.routable)]
    return rows if entry.second_row is None else [*rows, (2 * number + 1, entry.second_row)]


def match_queries(
    queries: Iterable[tuple[SubscriptionId, Query]], events: Iterable[Event]
) -> Iterator[tuple[Event, QueryMatches]]:
    """Each event, and which of the queries want it. A test that fails is in the outcome, not an exception."""
    index = QueryIndex()
    index.add_many(queries)
    for event in events:
        yield event, index.match(event)
