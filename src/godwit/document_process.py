"""A process that reads documents and runs exact tests for a broker: `python -m godwit.document_process`.

*Theory.* Reading an XML document of 1 MB takes a second, and a test may take tens of milliseconds. In a thread of the
broker this would hold Python's lock: every other client would wait (docs/decisions/0230). So a separate process does
it, one job after the other. Jobs come as frames on standard input (four bytes of length, then MessagePack) and answers
go to standard output, in order. The broker is at the other end of both (`runtime/document_helper.py`).

*Rules.*
1. Only `Read` and `Test` have answers. An error in a document or a query is an answer, too.
2. Queries and events are sent once (`Learn`, `Show`), with a number; `Forget` removes all of them. The broker counts
   what is stored here.
3. A test job ends after `JOB_S`, with at least one outcome: others wait for their turn. A single test that takes more
   than `TEST_S_MAX` of processor time ends the process by a signal: C code cannot be stopped otherwise.
4. Memory of large documents is returned to the system. A process that is still larger than `RESIDENT_BYTES_MAX` exits
   after an answer, and the broker starts another one. The address space is limited to `ADDRESS_BYTES_MAX`.
5. The process exits when its input ends: when the broker has stopped.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import Any, BinaryIO

import msgspec

from godwit.errors import BadEvent, FilterError
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE
from godwit.filters.values import Point
from godwit.languages.client_queries import client_query
from godwit.languages.cloud_events import HTTP, MQTT, BinaryMode
from godwit.languages.event_documents import Document, Mode, read_document
from godwit.languages.exact_testing import Outcome, tested
from godwit.languages.operators import NO_OPERATORS, Operator, operators_named
from godwit.languages.query import Query, Subject

__all__ = [
    "BINARY_MODES",
    "TEST_S_MAX",
    "Answer",
    "Documents",
    "Forget",
    "Job",
    "Jobs",
    "Learn",
    "Read",
    "Refused",
    "Show",
    "Test",
    "Tested",
    "documents_in",
    "framed",
    "shown",
]

JOB_S = 0.01
TEST_S_MAX = 2.0  # of which a second may be for a large document that is parsed first
TRIMMED_BYTES = 64 * 2**20
GROWTH_BYTES = 16 * 2**20  # between two times that memory is returned
RESIDENT_BYTES_MAX = 192 * 2**20
ADDRESS_BYTES_MAX = 2 * 2**30
NICENESS = 5  # the broker's event loop has priority
LENGTH_BYTES = 4
STATM = Path("/proc/self/statm")

BINARY_MODES: Mapping[str, BinaryMode] = {"http": HTTP, "mqtt": MQTT}


class Read(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """Read the documents in a body. Answers: `Documents`, `Refused`."""

    mode: Mode
    data: bytes
    content_type: str | None
    headers: dict[str, str]
    transport: str  # one of BINARY_MODES


class Learn(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """A query has this number from now on."""

    number: int
    language: str
    text: str


class Show(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """An event has this number from now on."""

    number: int
    attributes: dict[str, Any]
    publisher: str
    sequence: int
    payload: bytes | None
    content_type: str | None
    published_at: float | None
    expires_at: float | None


class Forget(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """Forget all queries and events."""


class Test(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """Test an event for subscriptions, each of them one or more queries. Answer: `Tested`."""

    __test__ = False  # no test of ours

    event: int
    subscriptions: list[list[int]]
    context: dict[str, Any] | None  # of their client
    steps_max: int


class Documents(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """What was read: attributes, payload (None: there is none, or it is all that was read) and content type."""

    documents: list[tuple[dict[str, Any], bytes | None, str | None]]
    is_whole: bool  # the payload of the only document is all that was read


class Refused(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """There is no document in it."""

    reason: str


class Tested(msgspec.Struct, tag=True, array_like=True, frozen=True):
    """The outcomes of the first subscriptions, of one at least. (rule 3)"""

    outcomes: list[Outcome]


Job = Read | Learn | Show | Forget | Test
Answer = Documents | Refused | Tested

_JOBS = msgspec.msgpack.Decoder(Job)


def framed(message: Job | Answer) -> bytes:
    """A message with its length before it."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class Jobs:
    """The queries and events of this process, and its answers."""

    def __init__(
        self,
        operators: Mapping[str, Operator] = NO_OPERATORS,
        bounded: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._operators = operators
        self._bounded = bounded  # in which a test runs
        self._queries: dict[int, Query | FilterError] = {}
        self._subjects: dict[int, Subject] = {}

    def answer(self, job: Job) -> Answer | None:
        """Do a job."""
        match job:
            case Read():
                return self._read(job)
            case Test():
                return Tested(list(self._tested(job)))
            case Learn(number=number, language=language, text=text):
                try:
                    query = client_query(text, language, self._operators)
                    self._queries[number] = replace(query, routable=TRUE)  # which the broker has checked already
                except FilterError as error:
                    self._queries[number] = error
            case Show():
                self._subjects[job.number] = Subject(_event(job))
            case Forget():
                self._queries.clear()
                self._subjects.clear()
        return None

    def _read(self, job: Read) -> Answer:
        how = (job.mode, job.data, job.content_type, job.headers, BINARY_MODES[job.transport])
        try:
            documents = read_document(*how)
        except (BadEvent, RecursionError) as error:
            return Refused(str(error) or type(error).__name__)
        is_whole = [each.payload is job.data for each in documents] == [True]
        return Documents([(dict(a), None if is_whole else p, c) for a, p, c in documents], is_whole)

    def _tested(self, job: Test) -> Iterable[Outcome]:
        subject, began = self._subjects[job.event], thread_time()
        subject.steps_max = job.steps_max
        subject.context = None if job.context is None else _attributes(job.context)
        for numbers in job.subscriptions:
            queries = [self._queries[number] for number in numbers]
            wrong = [query for query in queries if isinstance(query, FilterError)]
            if wrong:
                yield Outcome(False, f"the query cannot be parsed: {wrong[0]}", is_fatal=True)
            else:
                with self._bounded():
                    outcome = tested([query for query in queries if isinstance(query, Query)], subject, thread_time)
                yield outcome
            if thread_time() - began > JOB_S:
                return


def documents_in(answer: Documents, data: bytes) -> list[Document]:
    """The documents read from `data`."""
    return [
        Document(_attributes(attributes), data if answer.is_whole else payload, content_type)
        for attributes, payload, content_type in answer.documents
    ]


def shown(number: int, event: Event) -> Show:
    """An event for this process, without its receivers: tests do not use them."""
    e = event
    times = (e.published_at, e.expires_at)
    return Show(number, dict(e.attributes), e.publisher, e.sequence, e.payload, e.content_type, *times)


def _event(s: Show) -> Event:
    times = (s.published_at, s.expires_at)
    return Event(_attributes(s.attributes), s.publisher, s.sequence, s.payload, s.content_type, *times)


def _attributes(seen: dict[str, Any]) -> Attributes:
    """Decode attributes."""
    return {name: _value(value) for name, value in seen.items()}


def _value(seen: Any) -> Any:
    if type(seen) is list:
        return tuple(map(_value, seen)) if dict in map(type, seen) else tuple(seen)
    return Point(**seen) if type(seen) is dict else seen


def _frames(source: BinaryIO) -> Iterable[bytes]:
    while len(head := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        length = int.from_bytes(head, "big")
        if len(data := source.read(length)) < length:
            return
        yield data


def _be_bounded() -> None:
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    with suppress(OSError):
        os.nice(NICENESS)


@contextmanager
def _in_time() -> Iterator[None]:
    """End the process if this takes more than `TEST_S_MAX` of processor time. (rule 3)"""
    signal.setitimer(signal.ITIMER_PROF, TEST_S_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _give_back() -> None:
    """Give memory that is not in use back to the system."""
    with suppress(OSError, AttributeError):  # the C library of GNU alone has this
        ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes() -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def main(modules: str = "", operators: str = "") -> None:
    """Answer jobs until the input ends. Names of modules to load and of operators are comma-separated."""
    _be_bounded()
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of foreign modules must not be taken for an answer
    for module in filter(None, modules.split(",")):
        import_module(module)
    is_timed = hasattr(signal, "setitimer")  # not on every system
    named = operators_named([name for name in operators.split(",") if name])
    jobs = Jobs(named, _in_time if is_timed else nullcontext)
    trimmed_at = TRIMMED_BYTES
    for data in _frames(source):
        answer = jobs.answer(_JOBS.decode(data))
        if answer is not None:
            sink.write(framed(answer))
            sink.flush()
            if _resident_bytes() > trimmed_at:  # rule 4
                _give_back()
                trimmed_at = max(TRIMMED_BYTES, _resident_bytes() + GROWTH_BYTES)
                if trimmed_at > RESIDENT_BYTES_MAX:
                    return


if __name__ == "__main__":
    main(*sys.argv[1:])
