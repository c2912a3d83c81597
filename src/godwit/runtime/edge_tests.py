"""The exact tests of thin clients' queries, run by the gateway of their border broker, off the hot path.

*Theory.* The session of a thin client (MQTT, HTTP, WebSocket) subscribes by the routable filter. Its deliveries pass
through a `TestLine` before they are written to the client's socket: an event that matches no query of the client is a
negative residue, and counts as received. [motion §5, §6] Without queries the line is bypassed.

Lines take turns. In one turn of the event loop each line has a slice of `SLICE_S`, and all lines together have
`TURN_S`; the rest waits for the next turn. So a client with expensive queries delays its own deliveries first. While
the loop has other work the tests pause after each turn, for `REST_FACTOR` times its duration. Each subscription has a
budget of time per second. When that is used up, the subscription is suspended: its client is told, its events count as
failed and are not delivered, until the client subscribes again.

A single test cannot be interrupted. So the loop runs only tests of up to `QUICK_STEPS`, on small documents, and without
user-defined operators, whose steps are not counted. All others run in another process (`document_helper.py`), and only
their line waits meanwhile.

*Rules.*
1. Deliveries of a line leave in the order of arrival, also those that no query wants: these have no subscriptions.
2. Every test ends: it has at most `EdgeLimits.test_steps_max` steps. An XML document of more than
   `test_document_bytes_max` bytes is not tested, and counts as failed.
3. An event is parsed once for all lines that test it while it is remembered (`SUBJECTS_MAX`, `SUBJECT_BYTES_MAX`).
4. While the answer to a subscription that replaces another is pending, an event that either wants is delivered.
5. A query that cannot be parsed here (its language is not installed, its operator not allowed) is suspended. So is one
   that made the other process die.
6. Counts and budgets of a subscription outlive its connection, so that reconnecting gives no new budget. Their number
   is bounded (`KEPT_MAX`).
7. A thread parses queries (`query_parsing.py`), unless they are cached, or short and in Godwit's filter language.
8. The query of a session that is attached again is parsed when its first test is due. A long one that is not cached is
   left to the other process. What is parsed here is bounded in characters (`PARSED_CHARS_MAX`): the queries that were
   tested longest ago are parsed again when they are needed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter, thread_time
from typing import Any

import msgspec
from msgspec import structs

from godwit.broker.effects import Trace
from godwit.broker.messages import Delivery
from godwit.broker.query_notes import Queries, queries_of
from godwit.errors import FilterError
from godwit.filters.events import Attributes, Event
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX
from godwit.languages import NATIVE
from godwit.languages.client_queries import ClientQueries
from godwit.languages.exact_testing import Outcome
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import Query, Subject
from godwit.languages.xml_names import is_xml
from godwit.runtime.document_helper import SMALL_BYTES, DocumentHelper
from godwit.runtime.edge_queries import EdgeQuery
from godwit.runtime.node import Node
from godwit.runtime.query_parsing import QueryParser
from godwit.runtime.rate_limits import TokenBucket
from godwit.trace import Record

__all__ = ["OUTCOMES", "EdgeLimits", "EdgeQuery", "EdgeTests", "TestLine"]

TURN_S = 0.004
SLICE_S = 0.002
IDLE_S = 0.0003  # between two turns: above this the loop had other work
REST_FACTOR = 3
QUICK_STEPS = 500  # of a test that the loop runs itself; a step is about a microsecond
SUBJECTS_MAX = 32
SUBJECT_BYTES_MAX = 2**19  # bytes of payloads: a parsed document takes a multiple of them
KEPT_MAX = 10_000
PARSED_CHARS_MAX = 2**21  # of queries: parsed, each takes about 100 bytes, and 190 at most
QUICK_CHARS = 2_000  # of a query in Godwit's filter language: up to 5 microseconds each
PARSED_HERE_CHARS = 1_000  # of a query in any language
OUTCOMES = ("wanted", "residue", "failed")
SHOWN = 200  # characters of a query in a record

OnTested = Callable[[list[Delivery]], None]
OnSuspended = Callable[[str, str], None]


class EdgeLimits(msgspec.Struct, frozen=True):
    """Bounds on the tests that a broker runs for thin clients."""

    test_steps_max: int = 20_000  # of one test; a step is about a microsecond
    test_ms_per_s: float = 100.0  # that the tests of one subscription may take, on average
    test_document_bytes_max: int = 2**20  # of an XML document that is tested


class TestLine:
    """The deliveries of one client on their way through the tests of its queries."""

    __test__ = False  # no test of ours

    def __init__(self, tests: "EdgeTests", client: str, on_tested: OnTested, on_suspended: OnSuspended) -> None:
        self.client = client
        self._tests = tests
        self._on_tested, self._on_suspended = on_tested, on_suspended
        self._queries: dict[str, EdgeQuery] = {}
        self._asked: dict[str, list[EdgeQuery | None]] = {}  # pending replacements, in order; None: no query
        self._waiting: deque[Delivery] = deque()
        self._work: Iterator[Delivery | None] | None = None  # on the one that was the first of them
        self._outcomes: list[Outcome] = []  # outcomes from the other process
        self._is_waiting = False  # for these
        self._suspended: list[str] = []  # suspended subscriptions that the client must be told of
        self._is_open = True

    @property
    def is_needed(self) -> bool:
        """Whether deliveries must pass through this line."""
        return bool(self._queries or self._asked or self.is_testing)

    @property
    def is_testing(self) -> bool:
        """Whether deliveries wait here."""
        return bool(self._waiting or self._work is not None)

    # ------------------------------------------------------------ queries

    def adopt(self, notes: Mapping[str, bytes]) -> None:
        """The client has attached to its session, which has these notes."""
        for name, said in queries_of(notes).items():
            query = self._queries[name] = self._tests.query(self.client, name, said)
            self._tests.keep(self.client, name, query)

    def ask(self, name: str, said: Queries) -> None:
        """The client is about to subscribe with these queries, or with none. (rule 4)"""
        if said or name in self._queries or name in self._asked:
            self._asked.setdefault(name, []).append(self._tests.query(self.client, name, said) if said else None)

    def on_answer(self, name: str, is_granted: bool) -> None:
        """The requested subscription was accepted, or refused."""
        if name not in self._asked:
            return
        asked = self._asked[name].pop(0)
        if not self._asked[name]:
            del self._asked[name]
        if is_granted and asked is None:
            self.end(name)
        elif is_granted and asked is not None:
            asked.resume()
            self._queries[name] = asked
            self._tests.keep(self.client, name, asked)

    def end(self, name: str) -> None:
        """A subscription has ended."""
        if self._queries.pop(name, None) is not None:
            self._tests.forget(self.client, name)

    # ------------------------------------------------------------ deliveries

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Add deliveries, which leave when they are tested. (rule 1)"""
        self._waiting.extend(deliveries)
        self._tests.schedule(self)

    def close(self) -> None:
        """The client has disconnected: its session keeps the waiting deliveries."""
        self._is_open = False
        self._waiting.clear()
        self._work = None
        self._tests.leave(self)

    def run(self, until: float) -> bool:
        """Test until that time, or until nothing waits. Returns whether more remains for the next turn."""
        done: list[Delivery] = []
        tests, waiting = self._tests, self._waiting
        while (self._work is not None or waiting) and not self._is_waiting:
            if self._work is None:
                self._work = self._tested(waiting.popleft())
            tested = next(self._work)
            if tested is not None:
                done.append(tested)
                self._work = None
            if tests.clock() >= until:
                break
        if done:
            self._on_tested(done)
        for name in self._taken_suspended():
            self._on_suspended(name, self._queries[name].suspended)
        return not self._is_waiting and (self._work is not None or bool(waiting))

    def _tested(self, delivery: Delivery) -> Iterator[Delivery | None]:
        """Yields None after each test, and at last the delivery, for the subscriptions that want it."""
        event, costly, wanted = delivery.event, list[tuple[str, EdgeQuery]](), set[str]()
        choices = {name: [self._queries.get(name), *self._asked.get(name, ())] for name in delivery.subscriptions}
        for name, queries in choices.items():
            for query in queries:
                if query is None:
                    wanted.add(name)
                if query is None or name in wanted:
                    break
                outcome = self._tests.tested_quickly(query, event, self.client)
                if outcome is None:
                    costly.append((name, query))
                else:
                    self._count(name, query, outcome, wanted)
            yield None
        while costly := [(name, query) for name, query in costly if name not in wanted]:
            self._is_waiting = True
            self._tests.have_tested(self, event, [query for _, query in costly])
            yield None
            for (name, query), outcome in zip(costly, self._outcomes, strict=False):
                self._count(name, query, outcome, wanted)
            costly = costly[len(self._outcomes) :]
        for name, queries in choices.items():
            if name not in wanted:
                self._tests.on_residue(self.client, name, event, queries)
        if len(wanted) < len(choices):
            delivery = structs.replace(delivery, subscriptions=tuple(name for name in choices if name in wanted))
        yield delivery

    def _count(self, name: str, query: EdgeQuery, outcome: Outcome, wanted: set[str]) -> None:
        was_suspended = bool(query.suspended)
        if self._tests.count(query, outcome):
            wanted.add(name)
        if query.suspended and not was_suspended:
            self._tests.on_suspended(self.client, name, query)
            self._suspended.append(name)

    def on_outcomes(self, outcomes: list[Outcome]) -> None:
        """The other process has tested the delivery that this line waits for."""
        self._outcomes, self._is_waiting = outcomes, False
        if self._is_open:
            self._tests.schedule(self)

    def _taken_suspended(self) -> list[str]:
        names, self._suspended = self._suspended, []
        return [name for name in names if name in self._queries and self._queries[name].suspended]


class EdgeTests:
    """The tests of all thin clients of a broker."""

    def __init__(
        self,
        node: Node,
        limits: EdgeLimits | None = None,
        operators: Mapping[str, Operator] = NO_OPERATORS,
        clock: Callable[[], float] = perf_counter,
        on_record: Callable[[Record, float], None] = lambda record, now: None,
        helper: DocumentHelper | None = None,
        work_clock: Callable[[], float] = thread_time,
    ) -> None:
        self._on_record = on_record
        self.limits = EdgeLimits() if limits is None else limits
        self.counts: Counter[str] = Counter()  # wanted, residue, failed, suspended
        self.clock = clock
        self.lines: dict[TestLine, None] = {}
        self._node = node
        self._texts = ClientQueries(operators)
        self._kept: dict[tuple[str, str], EdgeQuery] = {}  # by client and subscription (rule 6)
        self._subjects: dict[int, Subject] = {}  # by the event's address
        self._subject_bytes = 0
        self._due: dict[TestLine, None] = {}
        self._is_scheduled = False
        self._ended_at = 0.0  # when the last turn did
        self.longest_s = 0.0  # turn, since somebody asked
        self.rest_factor = REST_FACTOR
        self.helper = DocumentHelper() if helper is None else helper
        self._work_clock = work_clock  # histogram of the processor time of tests
        self._parser = QueryParser(operators)
        self._parsed: dict[EdgeQuery, int] = {}  # and their characters, those tested last at the end (rule 8)
        self._parsed_chars = 0
        self._helping: set[asyncio.Task[None]] = set()

    def parse(self, text: str, language: str = NATIVE) -> Query:
        """Parse the query of a client. `FilterError` if it is invalid."""
        return self._texts.parse(text, language)

    def is_quick(self, text: str, language: str) -> bool:
        """Whether `parse` is fast: the text is short and in Godwit's filter language, or cached."""
        is_short = language == NATIVE and len(text) <= QUICK_CHARS
        return is_short or (text, language) in self._texts or len(text) > CLIENT_TEXT_BYTES_MAX

    def prepare(self, text: str, language: str, party: str) -> "asyncio.Future[None]":
        """Let a thread parse a text of a party (a user or client): afterwards `parse` is fast. (rule 7)"""
        prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def remember(done: "asyncio.Future[Query | FilterError]") -> None:
            if done.cancelled():  # the broker stops
                prepared.cancel()
                return
            self._texts.remember(text, language, done.result())
            if not prepared.done():
                prepared.set_result(None)

        self._parser.parse(party, text, language).add_done_callback(remember)
        return prepared

    def open(self, client: str, on_tested: OnTested, on_suspended: OnSuspended) -> TestLine:
        """A line for a client that has attached; `close` it when the client has disconnected."""
        line = TestLine(self, client, on_tested, on_suspended)
        self.lines[line] = None
        return line

    def leave(self, line: TestLine) -> None:
        """A line is closed."""
        self.lines.pop(line, None)
        self._due.pop(line, None)

    async def close(self) -> None:
        """Stop testing and parsing."""
        self._parser.close()
        await self.helper.close()

    # ------------------------------------------------------------ queries

    def query(self, client: str, name: str, said: Queries) -> EdgeQuery:
        """The queries of a subscription, with the earlier counts of the same queries. (rules 5 and 6)"""
        known = self._kept.get((client, name))
        if known is not None and known.said == said:
            return known
        rate = self.limits.test_ms_per_s / 1e3
        return EdgeQuery(said, TokenBucket(rate, rate, self.clock()), is_costly=self._may_use_operators(said))

    def _is_parsed(self, query: EdgeQuery) -> bool:
        """Parse the queries of a subscription, if they are not. Returns False if that takes too long here. (rule 8)"""
        if query.queries is not None:
            if query in self._parsed:
                self._parsed[query] = self._parsed.pop(query)
            return True
        chars = sum(len(text) for _, text in query.said)
        is_cached = all((text, language) in self._texts for language, text in query.said)
        if chars > PARSED_HERE_CHARS and not is_cached:
            return False
        try:
            query.queries = tuple(self.parse(text, language) for language, text in query.said)
        except FilterError as error:
            query.queries, query.suspended = (), f"this broker cannot test it: {error}"
        self._parsed[query] = chars
        self._parsed_chars += chars
        while self._parsed_chars > PARSED_CHARS_MAX:
            oldest = next(iter(self._parsed))
            self._parsed_chars -= self._parsed.pop(oldest)
            oldest.queries = None
        return True

    def _may_use_operators(self, said: Queries) -> bool:
        """Whether queries use an operator. Steps of operators are not counted, so the loop runs none."""
        texts = [text.lower() for _, text in said]
        return any(name.lower() in text for name in self._texts.operators for text in texts)

    def keep(self, client: str, name: str, query: EdgeQuery) -> None:
        """Remember the counts and the budget of a subscription. (rule 6)"""
        self._kept.pop((client, name), None)
        self._kept[client, name] = query
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]

    def forget(self, client: str, name: str) -> None:
        """A subscription has ended."""
        self._kept.pop((client, name), None)

    def of(self, client: str, name: str) -> EdgeQuery | None:
        """The state of a subscription's tests here."""
        return self._kept.get((client, name))

    # ------------------------------------------------------------ turns

    def schedule(self, line: TestLine) -> None:
        """A line has deliveries to test."""
        self._due[line] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Give the lines their slices, one after the other, until the turn is over."""
        self._is_scheduled = False
        began = self.clock()
        is_idle = began - self._ended_at <= IDLE_S
        ends = began + TURN_S
        for line in list(self._due):
            if self._due.pop(line, 0) is None and line.run(min(ends, self.clock() + SLICE_S)):
                self._due[line] = None
            if self.clock() >= ends:
                break
        self._ended_at = self.clock()
        self.longest_s = max(self.longest_s, self._ended_at - began)
        if self._due and not self._is_scheduled:
            self._is_scheduled = True
            loop, rest_s = asyncio.get_running_loop(), 0.0 if is_idle else self.rest_factor * (self._ended_at - began)
            loop.call_later(rest_s, self._turn) if rest_s else loop.call_soon(self._turn)

    # ------------------------------------------------------------ events

    def tested_quickly(self, query: EdgeQuery, event: Event, client: str) -> Outcome | None:
        """Run the tests of a subscription in the present context of its client; None if that takes too long here."""
        failure = query.suspended or self._why_untestable(event)
        if failure:
            return Outcome(False, failure)
        is_parsed = self._is_parsed(query)
        if query.suspended:
            return Outcome(False, query.suspended)
        if not is_parsed or query.is_costly or self._is_large(event):
            return None
        subject = self.subject(event)
        subject.context = self._context_of(client) if query.needs_context else None
        outcome = query.test(subject, self._work_clock)
        if outcome.is_costly and subject.steps_max < self.limits.test_steps_max:
            query.is_costly = True
            return None
        return outcome

    def have_tested(self, line: TestLine, event: Event, queries: list[EdgeQuery]) -> None:
        """Let the other process run the tests of subscriptions. The line gets some of the outcomes, or all."""
        context = self._context_of(line.client) if any(query.needs_context for query in queries) else None

        async def help() -> None:
            said, steps_max = [query.said for query in queries], self.limits.test_steps_max
            line.on_outcomes(await self.helper.test(line.client, event, said, context, steps_max))

        helping = asyncio.create_task(help())
        self._helping.add(helping)
        helping.add_done_callback(self._helping.discard)

    def count(self, query: EdgeQuery, outcome: Outcome) -> bool:
        """Record an outcome; returns whether the event is wanted."""
        is_wanted = query.count(outcome, self.clock())
        self.counts["wanted" if is_wanted else "failed" if query.failure else "residue"] += 1
        return is_wanted

    def _context_of(self, client: str) -> Attributes | None:
        machine: Any = self._node.machine
        session = machine.sessions.session(client)
        return None if session is None else session.whole_context()

    def subject(self, event: Event) -> Subject:
        """The event as tests see it. (rule 3)"""
        known = self._subjects.get(id(event))
        if known is not None:  # and of this event: while it is kept, its address is unique
            return known
        size = len(event.payload or b"")
        self._subject_bytes += size
        if len(self._subjects) >= SUBJECTS_MAX or self._subject_bytes > SUBJECT_BYTES_MAX:
            self._subjects.clear()
            self._subject_bytes = size
        made = self._subjects[id(event)] = Subject(event, min(QUICK_STEPS, self.limits.test_steps_max))
        return made

    def _is_large(self, event: Event) -> bool:
        return len(event.payload or b"") > SMALL_BYTES and is_xml(event.content_type)

    def _why_untestable(self, event: Event) -> str:
        size, size_max = len(event.payload or b""), self.limits.test_document_bytes_max
        if size <= size_max or not is_xml(event.content_type):
            return ""
        return f"a document of {size:,} bytes: at most {size_max:,} are tested (limits.test_document_bytes_max)"

    # ------------------------------------------------------------ records

    def on_residue(self, client: str, name: str, event: Event, queries: list[EdgeQuery | None]) -> None:
        """An event has passed the routable filter of a subscription and failed its test."""
        told = []
        for query in queries:
            if query is not None:
                shown = ", ".join(f"{language}: {text}" for language, text in query.said)[:SHOWN]
                failure = f": {query.failure}"[:SHOWN] if query.failure else ""
                told.append(f"{'could not be tested by' if failure else 'failed the exact test'} {shown}{failure}")
        detail = f"passed the routable filter, {' and '.join(told)}"
        record = Record("residue", client, "", event.publisher, event.sequence, name, detail=detail)
        self._record(record)

    def on_suspended(self, client: str, name: str, query: EdgeQuery) -> None:
        """A subscription has used up its budget."""
        self.counts["suspended"] += 1
        self._record(Record("suspended", client, subscription=name, detail=query.suspended))

    def _record(self, record: Record) -> None:
        if self._node.watch is not None:
            self._node.watch.on_effects([Trace(record)], self._node.now)
        self._on_record(record, self._node.now)
