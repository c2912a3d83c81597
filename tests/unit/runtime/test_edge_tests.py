"""The exact tests of thin clients: the same answers as queries give themselves, in order, in turns, within bounds."""

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from godwit import document_process
from godwit.broker.messages import Delivery
from godwit.broker.query_notes import query_note
from godwit.errors import FilterError
from godwit.filters.events import Event, event
from godwit.languages import Operator, Query, Subject, exact_testing, parse_query
from godwit.languages.client_queries import ClientQueries
from godwit.languages.exact_testing import Outcome
from godwit.languages.xml_documents import xml_event
from godwit.runtime import edge_tests
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.edge_queries import EdgeQuery
from godwit.runtime.edge_tests import KEPT_MAX, SLICE_S, TURN_S, EdgeLimits, EdgeTests, TestLine
from godwit.runtime.rate_limits import TokenBucket
from tests.network.waiting import a_turn

XPATH = "/car[number(speed) > number(limit)]"
TREE = b"<a>%b</a>" % (b"<b><c><d>1</d></c></b>" * 100)


class Watch:
    """What of a node the tests use."""

    def __init__(self) -> None:
        self.watch, self.now, self.records = self, 0.0, list[Any]()

    def on_effects(self, effects: list[Any], now: float) -> None:
        self.records += [effect.record for effect in effects]


class Clock:
    """A clock that goes on by so much each time that somebody looks."""

    def __init__(self, step_s: float) -> None:
        self.now, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


class Client:
    """A client's line, and what has come through it."""

    def __init__(self, tests: EdgeTests, name: str = "ann") -> None:
        self.came: list[Delivery] = []
        self.suspended: list[str] = []
        self.line: TestLine = tests.open(name, self.came.extend, lambda name, reason: self.suspended.append(name))
        self._parse = tests.parse

    def subscribe(self, text: str, language: str = "xpath", name: str = "s") -> None:
        self._parse(text, language)  # as gateways do, to know the routable filter
        self.line.ask(name, ((language, text),))
        self.line.on_answer(name, is_granted=True)

    def put(self, events: Iterable[Event], *names: str) -> None:
        numbered = enumerate(events, start=1)
        self.line.put([Delivery(number, each, names or ("s",)) for number, each in numbered])

    @property
    def wanted(self) -> list[int]:
        return [delivery.number for delivery in self.came if delivery.subscriptions]


class HelperStub:
    """Tests in this process, one subscription of each job, when it is let."""

    def __init__(self, operators: Any = None) -> None:
        self.operators = operators or {}
        self.asked: list[int] = []  # how many subscriptions, job by job
        self.go = asyncio.Event()
        self.go.set()

    async def test(self, party: str, event: Event, said: Any, context: Any, steps_max: int) -> list[Outcome]:
        self.asked.append(len(said))
        await self.go.wait()
        queries = [parse_query(text, language, self.operators) for language, text in said[0]]
        return [exact_testing.tested(queries, Subject(event, steps_max, context=context), lambda: 0.0)]


def edge(step_s: float = 0.0, operators: Any = None, **limits: Any) -> EdgeTests:
    clock = Clock(step_s)
    tests = EdgeTests(Watch(), EdgeLimits(**limits), operators or {}, clock, work_clock=clock)  # type: ignore[arg-type]
    tests.helper = HelperStub(operators)  # type: ignore[assignment]
    tests.rest_factor = 0  # this clock says that the loop is busy
    return tests


def car(speed: int, limit: int = 50) -> Event:
    return xml_event(b"<car><speed>%d</speed><limit>%d</limit></car>" % (speed, limit), publisher="p", sequence=speed)


async def turns(until: Callable[[], bool], at_most: int = 10_000) -> int:
    """How many turns of the loop it takes."""
    for count in range(at_most):
        if until():
            return count
        await a_turn()
    raise AssertionError(f"not so after {at_most} turns")


QUERIES = [
    ("xpath", XPATH),
    ("xpath", "//speed = 60"),
    ("xpath", "not(//limit)"),
    ("xql", "car[speed > 55]"),
    ("cesql", "type = 'a' AND EXISTS n"),
    ("cql2-text", "n > m"),
    ("filter", "n > 1"),
]
EVENTS = [*map(car, (40, 50, 60, 70)), xml_event(b"<bus/>"), *(event({"n": n, "m": 2, "type": "a"}) for n in (1, 2, 3))]


@pytest.mark.parametrize(("language", "text"), QUERIES)
def test_a_line_gives_the_answers_of_the_query(language: str, text: str) -> None:
    async def scene() -> None:
        client, query = Client(edge()), parse_query(text, language)
        client.subscribe(text, language)
        routed = [each for each in EVENTS if query.routable.matches(each)]
        client.put(routed)
        await turns(lambda: len(client.came) == len(routed))
        assert [each.number for each in client.came] == list(range(1, len(routed) + 1))
        assert client.wanted == [number for number, each in enumerate(routed, 1) if query.matches(each)]

    asyncio.run(scene())


def test_a_delivery_is_for_the_subscriptions_that_want_it_and_each_residue_is_on_record() -> None:
    async def scene() -> None:
        tests = edge()
        client = Client(tests)
        client.subscribe(XPATH, name="fast")
        client.subscribe("//speed = 40", name="slow")
        client.put([car(40), car(60)], "fast", "slow", "any")
        await turns(lambda: len(client.came) == 2)
        assert [each.subscriptions for each in client.came] == [("slow", "any"), ("fast", "any")]
        assert tests.counts == {"wanted": 2, "residue": 2}
        records = tests._node.records  # type: ignore[attr-defined]
        assert [(each.kind, each.sequence, each.subscription) for each in records] == [
            ("residue", 40, "fast"),
            ("residue", 60, "slow"),
        ]

    asyncio.run(scene())


def test_a_client_without_queries_needs_no_line() -> None:
    async def scene() -> None:
        line = Client(edge()).line
        line.ask("s", ())
        line.adopt({"sub/s": b"", "query/t": b"what is no query"})
        assert not line.is_needed

    asyncio.run(scene())


# ---------------------------------------------------------------- turns


def test_an_innocent_client_waits_for_one_turn_whatever_others_have_to_test() -> None:
    async def scene() -> None:
        tests = edge(step_s=SLICE_S / 4)
        hostile = [Client(tests, f"mallory/{n}") for n in range(3)]
        for client in hostile:
            client.subscribe(XPATH)
            client.put([car(60)] * 500)
        ann = Client(tests)
        ann.subscribe(XPATH)
        ann.put([car(60)])
        waited = await turns(lambda: bool(ann.came))
        assert waited <= len(hostile) + 2  # each has a slice before her
        assert all(len(client.came) < 20 for client in hostile)
        await turns(lambda: all(len(client.came) == 500 for client in hostile))

    asyncio.run(scene())


def test_one_delivery_for_many_subscriptions_takes_many_turns() -> None:
    async def scene() -> None:
        tests = edge(step_s=SLICE_S)
        client = Client(tests)
        names = [f"s{n}" for n in range(100)]
        for name in names:
            client.subscribe(XPATH, name=name)
        client.put([car(60)], *names)
        assert await turns(lambda: bool(client.came)) >= 50
        assert client.came[0].subscriptions == tuple(names)

    asyncio.run(scene())


def test_a_turn_ends_when_its_time_is_over() -> None:
    async def scene() -> None:
        tests = edge(step_s=TURN_S)
        clients = [Client(tests, f"c{n}") for n in range(10)]
        for client in clients:
            client.subscribe(XPATH)
            client.put([car(60)])
        await turns(lambda: any(client.came for client in clients))
        assert sum(bool(client.came) for client in clients) < len(clients)
        await turns(lambda: all(client.came for client in clients))

    asyncio.run(scene())


def test_while_the_loop_has_other_work_tests_rest_for_longer_than_they_take() -> None:
    async def scene() -> None:
        tests = edge(step_s=TURN_S)
        tests.rest_factor = 3
        client = Client(tests)
        client.subscribe(XPATH)
        client.put([car(60)] * 10)
        loop = asyncio.get_running_loop()
        rests: list[float] = []
        later = loop.call_later

        def call_later(delay: float, *args: Any) -> Any:
            rests.append(delay)
            return later(0, *args)

        loop.call_later = call_later  # type: ignore[method-assign,assignment]
        await turns(lambda: len(client.came) == 10)
        assert rests
        assert all(rest >= 3 * TURN_S for rest in rests)

    asyncio.run(scene())


LARGE = xml_event(b"<car><speed>60</speed>%b</car>" % (b"<x>1</x>" * (SMALL_BYTES // 4)))


def test_while_another_process_tests_a_large_document_others_go_on() -> None:
    async def scene() -> None:
        tests = edge()
        helper: Any = tests.helper
        helper.go.clear()
        reader, other = Client(tests, "reader"), Client(tests, "other")
        reader.subscribe("//speed = 60", name="fast")
        reader.subscribe("//speed = 40", name="slow")
        reader.put([LARGE, car(40)], "fast", "slow")
        other.subscribe("n > m", "cql2-text")
        other.put([event({"n": 2, "m": 1})])
        await turns(lambda: bool(other.came))
        assert not reader.came
        helper.go.set()
        await turns(lambda: len(reader.came) == 2)
        assert [each.subscriptions for each in reader.came] == [("fast",), ("slow",)]  # in order
        assert helper.asked == [2, 1]  # both at once; then what was left of them

    asyncio.run(scene())


def test_a_test_of_many_steps_is_given_to_another_process_and_from_then_on_at_once() -> None:
    async def scene() -> None:
        tests = edge()
        helper: Any = tests.helper
        client = Client(tests)
        client.subscribe(" or ".join(f"//d={n}" for n in range(2, 300)))
        client.put([xml_event(b"<a>%b</a>" % (b"<d>1</d>" * 20))] * 2)
        await turns(lambda: len(client.came) == 2)
        assert helper.asked == [1, 1]
        query = tests.of("ann", "s")
        assert query is not None
        assert query.is_costly
        assert (query.residues, query.failed) == (2, 0)

    asyncio.run(scene())


def test_a_line_that_is_closed_while_its_tests_are_run_elsewhere_hears_of_nothing() -> None:
    async def scene() -> None:
        tests = edge()
        helper: Any = tests.helper
        helper.go.clear()
        client = Client(tests)
        client.subscribe("//speed = 60")
        client.put([LARGE])
        await turns(lambda: bool(helper.asked))
        client.line.close()
        helper.go.set()
        for _ in range(20):
            await a_turn()
        assert not client.came

    asyncio.run(scene())


def test_a_query_that_the_other_process_has_died_of_is_suspended() -> None:
    async def scene() -> None:
        tests = edge()

        async def die(*job: Any) -> list[Outcome]:
            return [Outcome(False, "died of it", is_fatal=True)]

        tests.helper.test = die  # type: ignore[method-assign,assignment]
        client = Client(tests)
        client.subscribe("//speed = 60")
        client.put([LARGE, car(60)])
        await turns(lambda: len(client.came) == 2)
        assert client.suspended == ["s"]
        assert client.wanted == []
        query = tests.of("ann", "s")
        assert query is not None
        assert query.suspended == "died of it"

    asyncio.run(scene())


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize("text", ["//*//*//*", "//*[//*[//*]]", "//b[count(//*) > count(//c)]"])
def test_a_test_of_too_many_steps_fails_and_the_client_goes_on(text: str) -> None:
    async def scene() -> None:
        tests = edge(test_steps_max=1_000)
        client = Client(tests)
        client.subscribe(text)
        client.put([xml_event(TREE)])
        await turns(lambda: bool(client.came))
        query = tests.of("ann", "s")
        assert query is not None
        assert (query.failed, query.wanted) == (1, 0)
        assert "1000 steps" in query.last_failure
        assert client.wanted == []

    asyncio.run(scene())


@pytest.mark.parametrize("pause_s", [0.0, 10.0], ids=["at once", "now and then"])
def test_a_query_whose_tests_are_never_begun_is_suspended_with_the_reason(pause_s: float) -> None:
    async def scene() -> None:
        tests = edge(test_steps_max=1_000)
        client = Client(tests)
        client.subscribe("//*//*//*")
        clock = tests.clock
        for number in range(6):
            tests.clock = lambda past=number * pause_s: clock() + past  # type: ignore[misc]
            client.put([xml_event(TREE)])
            await turns(lambda so_far=number + 1: len(client.came) == so_far)  # type: ignore[misc]
        assert client.suspended == ["s"]
        query = tests.of("ann", "s")
        assert query is not None
        assert (
            "5 tests in a row were given up (limits.test_steps_max): a test of more than 1000 steps" in query.suspended
        )
        assert query.failed == 6

    asyncio.run(scene())


def test_past_its_budget_a_subscription_is_suspended_until_it_is_asked_for_again() -> None:
    async def scene() -> None:
        tests = edge(step_s=0.01, test_ms_per_s=20.0)
        client = Client(tests)
        client.subscribe(XPATH)
        client.put([car(60)] * 200)
        await turns(lambda: len(client.came) == 200)
        assert client.suspended == ["s"]
        assert 0 < len(client.wanted) < 200
        query = tests.of("ann", "s")
        assert query is not None
        assert query.wanted + query.failed == 200
        assert tests.counts["suspended"] == 1
        client.line.close()
        again = Client(tests)
        again.line.adopt({query_note("s", (("xpath", XPATH),)).key: query_note("s", (("xpath", XPATH),)).value or b""})
        again.put([car(60)])
        await turns(lambda: bool(again.came))
        assert again.wanted == []  # to connect again does not help
        again.came.clear()
        again.subscribe(XPATH)
        again.put([car(60)])
        await turns(lambda: bool(again.came))
        assert again.wanted == [1]

    asyncio.run(scene())


def test_a_document_larger_than_allowed_is_not_tested_and_counts_as_failed() -> None:
    async def scene() -> None:
        tests = edge(test_document_bytes_max=1_024)
        client = Client(tests)
        client.subscribe("//c")
        client.put([xml_event(TREE), xml_event(b"<c/>")])
        await turns(lambda: len(client.came) == 2)
        assert client.wanted == [2]
        query = tests.of("ann", "s")
        assert query is not None
        assert "limits.test_document_bytes_max" in query.last_failure

    asyncio.run(scene())


def test_what_is_kept_of_subscriptions_is_bounded() -> None:
    async def scene() -> None:
        tests = edge()
        client = Client(tests)
        for number in range(KEPT_MAX + 10):
            client.subscribe(XPATH, name=f"s{number}")
            client.line.on_answer(f"s{number}", is_granted=True)
        assert tests.of("ann", "s0") is None
        assert tests.of("ann", f"s{KEPT_MAX + 9}") is not None

    asyncio.run(scene())


# ---------------------------------------------------------------- replacing


def test_until_a_replacement_is_answered_an_event_that_either_wants_is_delivered() -> None:
    async def scene() -> None:
        client = Client(edge())
        client.subscribe(XPATH)
        client.line.ask("s", (("xpath", "//speed = 40"),))
        client.put([car(30), car(40), car(60)])
        await turns(lambda: len(client.came) == 3)
        assert client.wanted == [2, 3]
        client.came.clear()
        client.line.on_answer("s", is_granted=False)
        client.put([car(40), car(60)])
        await turns(lambda: len(client.came) == 2)
        assert client.wanted == [2]

    asyncio.run(scene())


def test_two_replacements_under_way_are_answered_in_order() -> None:
    async def scene() -> None:
        client = Client(edge())
        client.line.ask("s", (("xpath", "//speed = 40"),))
        client.line.ask("s", (("xpath", "//speed = 60"),))
        client.line.on_answer("s", is_granted=True)
        client.line.on_answer("s", is_granted=False)
        client.put([car(40), car(60)])
        await turns(lambda: len(client.came) == 2)
        assert client.wanted == [1]

    asyncio.run(scene())


def test_a_query_that_this_broker_cannot_parse_is_suspended_with_the_reason() -> None:
    async def scene() -> None:
        tests = edge()
        client = Client(tests)
        note = query_note("s", (("xpath", "sounds_like(//a, 'b')"),))
        client.line.adopt({note.key: note.value or b""})
        client.put([car(60)])
        await turns(lambda: bool(client.came))
        query = tests.of("ann", "s")
        assert query is not None
        assert query.suspended.startswith("this broker cannot test it: ")
        assert (client.wanted, query.failed) == ([], 1)

    asyncio.run(scene())


def test_queries_of_a_session_are_parsed_when_they_are_tested_and_long_ones_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = " AND ".join(f"n + {n} > 1" for n in range(200))

    async def scene() -> None:
        tests, parsed = edge(), list[str]()
        parse = ClientQueries.parse

        def noted(self: ClientQueries, text: str, language: str = "filter") -> Query:
            parsed.append(text)
            return parse(self, text, language)

        monkeypatch.setattr(ClientQueries, "parse", noted)
        client, notes = Client(tests), dict[str, bytes]()
        for name, text in (("s", "n + 1 > 2"), ("t", "n + 2 > 2"), ("long", long)):
            note = query_note(name, (("filter", text),))
            notes[note.key] = note.value or b""
        client.line.adopt(notes)
        assert parsed == []
        tests._node.machine = Machine()  # type: ignore[assignment]
        client.put([event({"n": 2})], "s", "long")
        await turns(lambda: bool(client.came))
        assert client.came[0].subscriptions == ("s", "long")
        assert parsed == ["n + 1 > 2"]
        assert tests.helper.asked == [1]  # type: ignore[attr-defined]

    asyncio.run(scene())


def test_a_long_query_of_a_session_that_cannot_be_parsed_is_suspended() -> None:
    async def scene() -> None:
        query = EdgeQuery((("cesql", "x"),), TokenBucket(1.0, 1.0, 0.0))
        [outcome] = jobs_tested("cesql", "a = ")
        assert query.count(outcome, 0.0) is False
        assert query.suspended.startswith("the query cannot be parsed: ")

    asyncio.run(scene())


def jobs_tested(language: str, text: str) -> list[Outcome]:
    """What the other process answers."""
    jobs = document_process.Jobs()
    jobs.answer(document_process.Learn(1, language, text))
    jobs.answer(document_process.shown(2, event({"n": 1})))
    answer = jobs.answer(document_process.Test(2, [[1]], None, 1_000))
    assert isinstance(answer, document_process.Tested)
    return answer.outcomes


def test_parsed_queries_are_bounded_and_those_tested_last_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_tests, "PARSED_CHARS_MAX", 25)

    async def scene() -> None:
        tests = edge()
        client = Client(tests)
        client.came.append(Delivery(0, event({"n": 0}), ()))

        async def come(name: str) -> None:
            client.put([event({"n": 1})], name)
            await turns(lambda: client.came[-1].subscriptions == (name,))

        for name in "abc":
            client.subscribe(f"n + {ord(name)} > 1", "filter", name)
            if name == "c":
                await come("a")
            await come(name)
        states = {name: query.queries is not None for name in "abc" if (query := tests.of("ann", name)) is not None}
        assert states == {"a": True, "b": False, "c": True}
        await come("b")

    asyncio.run(scene())


def test_a_long_query_in_the_filter_language_is_parsed_by_the_thread() -> None:
    async def scene() -> None:
        tests = edge()
        text = " OR ".join(f"round(a{n} + b{n}, 2) < {n}" for n in range(100))
        assert tests.is_quick("n + 1 > 2", "filter")
        assert not tests.is_quick(text, "filter")
        await tests.prepare(text, "filter", "ann")
        assert tests.is_quick(text, "filter")
        tests._parser.close()

    asyncio.run(scene())


class Machine:
    """A broker without sessions."""

    sessions: Any = SimpleNamespace(session=lambda client: None)


# ---------------------------------------------------------------- operators


def test_operators_that_the_broker_allows_are_run_and_one_that_raises_fails_the_test() -> None:
    def is_even(value: str) -> bool:
        return int(value) % 2 == 0

    async def scene() -> None:
        tests = edge(operators={"is_even": Operator("is_even", is_even)})
        client = Client(tests)
        client.subscribe("is_even(//speed)")
        client.put([car(60), car(61), xml_event(b"<car><speed>fast</speed></car>")])
        await turns(lambda: len(client.came) == 3)
        assert client.wanted == [1]
        query = tests.of("ann", "s")
        assert query is not None
        assert "the operator 'is_even' failed" in query.last_failure
        helper: Any = tests.helper
        assert helper.asked == [1, 1, 1]  # none was run on the loop, where it could keep others waiting

    asyncio.run(scene())


def test_an_unknown_operator_is_refused_with_the_names_of_the_known() -> None:
    async def scene() -> None:
        tests = edge(operators={"is_even": Operator("is_even", bool)})
        with pytest.raises(FilterError) as caught:
            tests.parse("sounds_like(//a, 'b')", "xpath")
        assert "sounds_like" in str(caught.value)

    asyncio.run(scene())
