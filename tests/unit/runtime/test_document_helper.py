"""The process that reads documents and tests queries: the answers that are given here, and jobs that it dies of."""

import asyncio
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from godwit.errors import BadEvent
from godwit.filters.events import Event, event
from godwit.filters.values import Point
from godwit.languages.cloud_events import HTTP
from godwit.languages.event_documents import Document, Mode, read_document
from godwit.languages.xml_documents import xml_event
from godwit.runtime import document_helper
from godwit.runtime.document_helper import DIED, SMALL_BYTES, TOO_SLOW, DocumentHelper
from godwit.runtime.party_turns import PartyTurns
from tests.network.waiting import a_turn

MODULE = "tests.unit.runtime.deadly_operators"
XML = b"<car><speed>60</speed>%b</car>" % (b"<x>1</x>" * (SMALL_BYTES // 4))
JSON = b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": "%b"}' % (b"x" * SMALL_BYTES)
CAR = xml_event(b"<car><speed>60</speed></car>")


Scene = Callable[[DocumentHelper], Awaitable[None]]


@pytest.fixture(scope="module")
def play() -> Iterator[Callable[[Scene], None]]:
    """Play a scene with a process that all of them share: to start one takes most of a second.

    The process gives way to all others, so on a busy machine it may take long for what it does in two seconds alone.
    """
    with pytest.MonkeyPatch.context() as patched, asyncio.Runner() as runner:
        patched.setattr(document_helper, "JOB_S_MAX", 250.0)
        helper = DocumentHelper([MODULE], ["dies", "dies_once", "prints"])

        async def played(scene: Scene) -> None:
            async with asyncio.timeout(500):
                await scene(helper)

        yield lambda scene: runner.run(played(scene))
        runner.run(helper.close())


async def wanted(helper: DocumentHelper, event: Event, *texts: str, language: str = "xpath") -> list[bool]:
    said = [((language, text),) for text in texts]
    found: list[bool] = []
    while len(found) < len(said):
        outcomes = await helper.test("ann", event, said[len(found) :], None, 20_000)
        assert outcomes
        found += [each.is_wanted for each in outcomes]
    return found


@pytest.mark.parametrize(
    ("mode", "data", "content_type"), [("xml", XML, "application/xml"), ("structured", JSON, "application/json")]
)
def test_a_large_document_is_read_as_it_would_be_here(
    play: Callable[[Scene], None], mode: Mode, data: bytes, content_type: str
) -> None:
    async def scene(helper: DocumentHelper) -> None:
        read = await helper.read("ann", mode, data, content_type, {}, "http")
        assert read == read_document(mode, data, content_type, {}, HTTP)
        assert helper.started > 0

    play(scene)


def test_a_small_document_is_read_here(play: Callable[[Scene], None]) -> None:
    async def scene(helper: DocumentHelper) -> None:
        before = helper.started
        [read] = await helper.read("ann", "xml", b"<a>1</a>", "application/xml", {}, "http")
        assert read.attributes["a"] == 1
        assert helper.started == before

    play(scene)


def test_what_is_no_document_is_refused_with_line_and_column(play: Callable[[Scene], None]) -> None:
    async def scene(helper: DocumentHelper) -> None:
        with pytest.raises(BadEvent, match="line 1, column"):
            await helper.read("ann", "xml", XML + b"<", "application/xml", {}, "http")
        assert await wanted(helper, CAR, "//speed = 60") == [True]

    play(scene)


def test_tests_give_the_answers_that_they_give_here(play: Callable[[Scene], None]) -> None:
    place = event({"n": 2, "m": 1, "tags": ["a", "b"], "at": Point(7.0, 51.0), "places": [Point(1, 1), Point(2, 2)]})

    async def scene(helper: DocumentHelper) -> None:
        texts = ["//speed = 60", "//speed = 40", "count(//x) > 1"]
        assert await wanted(helper, CAR, *texts) == [True, False, False]
        assert await wanted(helper, xml_event(XML), *texts) == [True, False, True]
        assert await wanted(helper, place, "n > m", "m > n", language="cql2-text") == [True, False]
        assert helper.started > 0

    play(scene)


def test_a_test_of_too_many_steps_fails_there_too(play: Callable[[Scene], None]) -> None:
    async def scene(helper: DocumentHelper) -> None:
        [outcome] = await helper.test("ann", xml_event(XML), [(("xpath", "//*//*//*"),)], None, 100)
        assert (outcome.is_wanted, outcome.is_costly, outcome.is_fatal) == (False, True, False)
        assert "100 steps" in outcome.failure

    play(scene)


def test_what_it_was_told_is_bounded_and_told_again(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_helper, "EVENTS_MAX", 2)
    monkeypatch.setattr(document_helper, "TEXT_BYTES_MAX", 40)

    async def scene(helper: DocumentHelper) -> None:
        cars = [xml_event(b"<car><speed>%d</speed></car>" % speed) for speed in range(5)]
        for _ in range(2):
            for speed, each in enumerate(cars):
                assert await wanted(helper, each, f"//speed = {speed}", "//speed < 9") == [True, True]
        assert helper.started > 0

    play(scene)


def test_a_job_that_it_died_of_is_tried_again_by_another_process(play: Callable[[Scene], None], tmp_path: Path) -> None:
    async def scene(helper: DocumentHelper) -> None:
        before = helper.started
        assert await wanted(helper, CAR, "//speed = 60", f"dies_once(//speed, '{tmp_path / 'marker'}')") == [True, True]
        assert helper.started == before + 1

    play(scene)


def test_a_test_that_is_slower_than_anybody_knew_is_ended_and_says_so(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Process, "kill", lambda _: pytest.fail("killed, though it was ending by itself"))
    half = b"a" * 250_000
    document = xml_event(b"<r><text>%b</text><part>%bb</part></r>" % (half, half[:125_000]))

    async def scene(helper: DocumentHelper) -> None:
        [outcome] = await helper.test("ann", document, [(("xpath", "contains(/r/text, /r/part)"),)], None, 20_000)
        assert (outcome.is_fatal, outcome.failure) == (True, TOO_SLOW)
        assert await wanted(helper, CAR, "//speed = 60") == [True]

    play(scene)


def test_a_job_that_it_dies_of_twice_fails_and_others_are_done(play: Callable[[Scene], None]) -> None:
    async def scene(helper: DocumentHelper) -> None:
        before = helper.started
        [outcome] = await helper.test(
            "ann", CAR, [(("xpath", "dies(//speed)"),), (("xpath", "//speed"),)], None, 20_000
        )
        assert (outcome.is_fatal, outcome.failure) == (True, DIED)
        assert await wanted(helper, CAR, "//speed = 60") == [True]
        assert helper.started == before + 2  # the last one is there for the next job

    play(scene)


def test_what_an_operator_prints_is_no_answer(play: Callable[[Scene], None]) -> None:
    async def scene(helper: DocumentHelper) -> None:
        assert await wanted(helper, CAR, "prints(//speed)", "//speed = 40") == [True, False]

    play(scene)


def test_parties_take_turns(play: Callable[[Scene], None]) -> None:
    async def scene(helper: DocumentHelper) -> None:
        order: list[str] = []

        async def ask(party: str) -> None:
            await helper.test(party, CAR, [(("xpath", "//speed"),)], None, 20_000)
            order.append(party)

        await asyncio.gather(*(ask("mallory") for _ in range(5)), ask("ann"))
        assert order.index("ann") <= 1

    play(scene)


def test_when_it_is_closed_those_who_wait_are_let_go() -> None:
    async def scene() -> None:
        helper = DocumentHelper()
        jobs = [asyncio.create_task(wanted(helper, CAR, "//speed")) for _ in range(3)]
        await a_turn()
        await helper.close()
        ends = await asyncio.gather(*jobs, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)

    asyncio.run(scene())


def test_small_documents_that_come_at_the_same_time_are_read_a_few_in_each_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        now, done = 0.0, list[str]()
        helper = DocumentHelper()
        monkeypatch.setattr(helper, "_turns", PartyTurns(lambda: now))

        def read(mode: str, data: bytes, *more: object) -> list[Document]:
            nonlocal now
            now += 1.0  # all the time of a turn
            done.append(data.decode())
            if data == b"bad":
                raise BadEvent("no document")
            return []

        monkeypatch.setattr(document_helper, "read_document", read)
        asked = [("mallory", "m1"), ("mallory", "m2"), ("mallory", "bad"), ("ann", "a")]
        tasks = [
            asyncio.create_task(helper.read(party, "xml", text.encode(), "application/xml", {}, "http"))
            for party, text in asked
        ]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert done == ["m1", "m2", "a", "bad"]
        assert [type(answer) for answer in answers] == [list, list, BadEvent, list]
        await helper.close()

    asyncio.run(scene())


def test_an_error_of_this_program_in_a_later_turn_reaches_the_one_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*said: object) -> list[Document]:
        raise AssertionError("planted")

    async def scene() -> None:
        helper = DocumentHelper()
        helper._turns._spent = 1.0  # there is no time in this turn
        monkeypatch.setattr(document_helper, "read_document", broken)
        reading = asyncio.create_task(helper.read("ann", "xml", b"<a/>", "application/xml", {}, "http"))
        with pytest.raises(AssertionError, match="planted"):
            await reading
        await helper.close()

    asyncio.run(scene())
