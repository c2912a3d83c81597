"""The broker's side of the process that reads documents and runs exact tests (`document_process.py`).

*Theory.* Jobs wait in queues, one for each party (a user, or a client's queue of tests), and parties take turns. The
process gets one job at a time. It is started with the first job.

*Rules.*
1. When the process dies during a job, or takes more than `JOB_S_MAX`, a new one is started and gets the same job once
   more: of a test job, only its first subscription. If that one dies, too, the job fails: a document cannot be read, or
   a subscription is suspended, with the cause of death as the reason.
2. Documents of up to `SMALL_BYTES` are read here. Those that come at the same time have `TURN_S` in each turn of the
   event loop, over all listeners, and parties take turns (`party_turns.py`).
3. Queries and events stored in the process are counted here. Both sides forget them when they become too many, and when
   the process is restarted.
4. A dying process is not killed as well: `kill` of asyncio polls the process first, and a process that has ended would
   lose its exit status for those who wait for it.
"""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from godwit.broker.query_notes import Queries
from godwit.document_process import (
    BINARY_MODES,
    LENGTH_BYTES,
    TEST_S_MAX,
    Answer,
    Documents,
    Forget,
    Job,
    Learn,
    Read,
    Refused,
    Test,
    Tested,
    documents_in,
    framed,
    shown,
)
from godwit.errors import BadEvent
from godwit.filters.events import Attributes, Event
from godwit.languages.event_documents import Document, Mode, read_document
from godwit.languages.exact_testing import Outcome
from godwit.runtime.long_work import LongWork
from godwit.runtime.party_turns import PartyTurns
from godwit.runtime.urgency import Urgency

__all__ = ["SMALL_BYTES", "DocumentHelper"]

SMALL_BYTES = 8 * 2**10  # flattening takes up to two microseconds for each
TURN_S = 0.002  # of small documents, which are read here: one of 8 KiB takes up to 5 ms, and none follows it
JOB_S_MAX = 20.0
EVENTS_MAX = 32
EVENT_BYTES_MAX = 2**17  # bytes of payloads: a parsed document takes 25 times as much
TEXT_BYTES_MAX = 2**21
READ_BYTES = 2**16
DIED = "the process that tests and reads documents has died"
TOO_SLOW = f"a test has taken more than {TEST_S_MAX:g} seconds of processor time"
TIMER = -int(getattr(signal, "SIGPROF", 0))  # the exit status of such a process

_ANSWERS = msgspec.msgpack.Decoder(Answer)

Frames = Callable[[bool], tuple[bytes, ...]]
"""Encodes a job; the argument says whether this is the second attempt."""


class _Death(NamedTuple):
    """The process has died during a job, with the reason."""

    reason: str


class _Waiting(NamedTuple):
    """A job, and the future of its answer."""

    frames: Frames
    answered: "asyncio.Future[Answer | _Death]"


class _Told:
    """The queries and events stored in the process, by number. (rule 3)"""

    def __init__(self) -> None:
        self._queries: dict[tuple[str, str], int] = {}
        self._events: dict[int, tuple[int, Event]] = {}  # by object address: kept objects have unique ones
        self._text_bytes = self._event_bytes = self._numbers = 0

    def clear(self) -> None:
        """The process is new, or has forgotten all."""
        self._queries.clear()
        self._events.clear()
        self._text_bytes = self._event_bytes = 0

    def test(self, event: Event, said: Sequence[Queries], context: Attributes | None, steps_max: int) -> list[Job]:
        """The messages that make the process test an event for these subscriptions."""
        jobs: list[Job] = []
        texts, known = {query for queries in said for query in queries}, self._events.get(id(event))
        new = [query for query in texts if query not in self._queries]
        payload_bytes = len(event.payload or b"")
        is_full = len(self._events) >= EVENTS_MAX or self._event_bytes + payload_bytes > EVENT_BYTES_MAX
        if (is_full and known is None) or self._text_bytes + _size(new) > TEXT_BYTES_MAX:
            self.clear()
            jobs.append(Forget())
            known, new = None, list(texts)
        for language, text in new:
            self._numbers += 1
            self._queries[language, text] = self._numbers
            jobs.append(Learn(self._numbers, language, text))
        self._text_bytes += _size(new)
        if known is None:
            self._numbers += 1
            known = self._events[id(event)] = (self._numbers, event)
            self._event_bytes += payload_bytes
            jobs.append(shown(self._numbers, event))
        subscriptions = [[self._queries[query] for query in queries] for queries in said]
        jobs.append(Test(known[0], subscriptions, None if context is None else dict(context), steps_max))
        return jobs


def _size(texts: Iterable[tuple[str, str]]) -> int:
    return sum(len(text) for _, text in texts)


class DocumentHelper:
    """Reads documents and runs tests in another process. `modules` and `operators`: those that queries may use."""

    def __init__(
        self, modules: Iterable[str] = (), operators: Iterable[str] = (), urgency: Urgency | None = None
    ) -> None:
        self._arguments = (",".join(modules), ",".join(operators))
        self._lines: dict[str, deque[_Waiting]] = {}
        self._told = _Told()
        self._process: Process | None = None
        self._working: asyncio.Task[None] | None = None
        self._is_closed = False
        self._turns = PartyTurns(urgency=urgency, turn_s=TURN_S)
        self.long_work = LongWork(urgency=urgency)  # on such bodies that is done here
        self.started = 0  # processes, so far

    # ------------------------------------------------------------ jobs

    async def read(
        self, party: str, mode: Mode, data: bytes, content_type: str | None, headers: Mapping[str, str], transport: str
    ) -> list[Document]:
        """The documents in a body. `BadEvent` if there are none. (rule 2)"""
        binary = BINARY_MODES[transport]
        if len(data) <= SMALL_BYTES:
            return await self._read_here(party, lambda: read_document(mode, data, content_type, headers, binary))
        job = framed(Read(mode, data, content_type, dict(headers), transport))
        match await self._ask(party, lambda is_again: (job,)):
            case Documents() as read:
                return documents_in(read, data)
            case Refused(reason=reason):
                raise BadEvent(reason)
        raise BadEvent(f"the document cannot be read: {DIED}")

    def read_at_once(
        self, mode: Mode, data: bytes, content_type: str | None, headers: Mapping[str, str], transport: str
    ) -> list[Document] | None:
        """The documents in a small body, if none waits and there is time in this turn of the loop; else None."""
        if len(data) > SMALL_BYTES or not self._turns.is_free:
            return None
        began = self._turns.clock()
        try:
            return read_document(mode, data, content_type, headers, BINARY_MODES[transport])
        finally:
            self._turns.spend(began)

    async def _read_here(self, party: str, read: Callable[[], list[Document]]) -> list[Document]:
        found: asyncio.Future[list[Document]] = asyncio.get_running_loop().create_future()

        def read_now() -> None:
            if found.done():  # the caller was cancelled
                return
            try:
                found.set_result(read())
            except Exception as error:  # also of this program: the caller waits for it
                found.set_exception(error)

        self._turns.call(party, read_now)
        return await found

    async def test(
        self, party: str, event: Event, said: Sequence[Queries], context: Attributes | None, steps_max: int
    ) -> list[Outcome]:
        """Test an event for subscriptions; returns the outcomes of the first ones, at least of one."""

        def frames(is_again: bool) -> tuple[bytes, ...]:
            jobs = self._told.test(event, said[:1] if is_again else said, context, steps_max)
            return tuple(framed(job) for job in jobs)

        answer = await self._ask(party, frames)
        if isinstance(answer, Tested):
            return answer.outcomes
        return [Outcome(False, answer.reason if isinstance(answer, _Death) else DIED, is_fatal=True)]

    async def _ask(self, party: str, frames: Frames) -> Answer | _Death:
        answered: asyncio.Future[Answer | _Death] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            answered.cancel()
        self._lines.setdefault(party, deque()).append(_Waiting(frames, answered))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await answered

    # ------------------------------------------------------------ the process

    async def _work(self) -> None:
        """Run one job after the other, until none is left."""
        while self._lines:
            party = next(iter(self._lines))
            line = self._lines.pop(party)
            waiting = line.popleft()
            if line:
                self._lines[party] = line  # behind all others
            if waiting.answered.done():  # the caller has been cancelled
                continue
            try:
                answer = await self._answer(waiting.frames)
            except BaseException:  # the broker stops
                waiting.answered.cancel()
                raise
            if not waiting.answered.done():
                waiting.answered.set_result(answer)

    async def _answer(self, frames: Frames) -> Answer | _Death:
        death = _Death(DIED)
        for is_again in (False, True):  # rule 1
            try:
                async with asyncio.timeout(JOB_S_MAX):
                    return await self._exchange(frames, is_again=is_again)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, msgspec.MsgspecError) as problem:
                is_ending = isinstance(problem, ConnectionError | asyncio.IncompleteReadError)
                death = _Death(TOO_SLOW if await self._end(is_ending=is_ending) == TIMER else DIED)
        return death

    async def _exchange(self, frames: Frames, *, is_again: bool) -> Answer:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.writelines(frames(is_again))
        await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
        answer: Answer = _ANSWERS.decode(await process.stdout.readexactly(length))
        return answer

    async def _start(self) -> Process:
        self._told.clear()
        self.started += 1
        command = (sys.executable, "-m", "godwit.document_process", *self._arguments)
        return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=READ_BYTES)

    async def _end(self, *, is_ending: bool = False) -> int | None:
        """End the process; returns its exit status. `is_ending`: its pipe is closed, so it ends by itself. (rule 4)"""
        process, self._process = self._process, None
        if process is None:
            return None
        if is_ending:
            with suppress(TimeoutError):
                async with asyncio.timeout(JOB_S_MAX):
                    return await process.wait()
        with suppress(ProcessLookupError):
            process.kill()
        return await process.wait()

    async def close(self) -> None:
        """Stop all jobs, and end the process."""
        self._is_closed = True
        for line in self._lines.values():
            for waiting in line:
                waiting.answered.cancel()
        self._lines.clear()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._end()
