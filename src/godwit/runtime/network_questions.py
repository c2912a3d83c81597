"""Questions of administrators to a whole network: every broker answers, over the links between brokers.

*Theory.* A question is flooded over all links. A broker accepts it once, from the first neighbour that sends it,
forwards it to the others, and answers; answers take the same path back. Each answer names the neighbours of its broker,
so the first broker knows all brokers, when all have answered, and which have not. Behind a silent one there may be
brokers that nobody names: those that have answered before are named as silent, too. When all that are named answer, the
others do not belong to the network any more, and are forgotten. No broker needs to reach another over
HTTP, and no password is forwarded: the first broker has authenticated the administrator, and brokers trust their
neighbours.

*Rules.*
1. Only brokers send `Question` and `Answer`. The machine and the journal do not handle them, so an answer may be lost.
2. An answer only reads (`Inspection.answer`). A broker that cannot answer sends an error.
3. All is bounded: remembered questions (`REMEMBERED_MAX`), their size, the size of an answer
   (`ANSWER_BYTES_MAX`), the brokers of a network (`BROKERS_MAX`), the time to wait (`WAIT_S`), and how often a
   neighbour may ask (`ASKS_PER_S`): further questions are neither answered nor forwarded. Answers to one neighbour
   that are computed at once take `WORKING_S_PER_S` of the broker's time on average: one more is answered by an error.
4. A long computation is done in slices between the broker's other work (`slices.py`). At most `ANSWERING_MAX` of them
   run for neighbours: one more is answered by an error.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from inspect import iscoroutine
from secrets import randbits
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import msgspec

from godwit.errors import GodwitError, PeerFault
from godwit.runtime.rate_limits import TokenBucket
from godwit.runtime.wire import Answer, Question

__all__ = ["WAIT_MS", "AnswerTo", "Answers", "NetworkQuestions"]

WAIT_MS = 2_000
WAIT_S = WAIT_MS / 1_000
REMEMBERED_MAX = 1_024
ANSWER_BYTES_MAX = 4 * 2**20
BROKERS_MAX = 10_000
NEIGHBOURS_MAX = 1_000
NAME_MAX = 256
PARAMETERS_MAX = 16
TEXT_MAX = 32_768
ASKS_PER_S = 50.0  # an open map asks ten times a second
ASKS_BURST = 100.0
ANSWERING_MAX = 8
WORKING_S_PER_S = 0.1
WORKING_S_BURST = 0.25

QuestionId = tuple[str, int]
AnswerTo = Callable[[str, Mapping[str, str]], Any]
"""Answers a question by its subject and parameters, as plain data or by a coroutine."""


def no_answer(subject: str, parameters: Mapping[str, str]) -> Any:
    """The answer of a broker without HTTP."""
    raise GodwitError("this broker has no HTTP (listen.http), so it records nothing to answer from")


class Link(Protocol):
    """A connection to a neighbour."""

    def say(self, message: Any) -> None:
        """Write a message at once."""


class Answers(NamedTuple):
    """The answers of a network."""

    answers: dict[str, Any]  # by broker
    unanswered: list[str]  # known brokers that have not answered in time


class _Asked:
    """A pending question of this broker."""

    def __init__(self, broker: str, neighbours: tuple[str, ...]) -> None:
        self.bodies: dict[str, bytes] = {}
        self.known = {broker, *neighbours}
        self.is_complete = asyncio.Event()

    def take(self, broker: str, neighbours: tuple[str, ...], body: bytes) -> None:
        """One more broker has answered."""
        if len(self.bodies) < BROKERS_MAX:
            self.bodies.setdefault(broker, body)
            self.known.add(broker)
            if len(self.known) < BROKERS_MAX:
                self.known.update(neighbours)
        if self.known <= self.bodies.keys():
            self.is_complete.set()


class NetworkQuestions:
    """The questions of one broker, and its answers to those of others."""

    def __init__(
        self,
        name: str,
        links: Callable[[], Mapping[str, Link]],
        neighbours: Callable[[], tuple[str, ...]],
        now: Callable[[], float],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.answer: AnswerTo = no_answer
        self._name = name
        self._links = links  # those that are open
        self._neighbours = neighbours  # all that there should be
        self._now = now
        self._clock = clock  # for the time that an answer takes
        self._number = randbits(48)  # numbers must not repeat after a restart
        self._asked: dict[QuestionId, _Asked] = {}
        self._seen: frozenset[str] = frozenset()  # brokers that have answered before
        self._ways: dict[QuestionId, str] = {}  # by question, the neighbour that it came from
        self._rates: dict[str, TokenBucket] = {}
        self._work: dict[str, TokenBucket] = {}  # seconds, by neighbour
        self._answering: set[asyncio.Task[None]] = set()

    async def ask(self, subject: str, parameters: Mapping[str, str], wait_s: float = WAIT_S) -> Answers:
        """Ask every broker of the network, including this one. `GodwitError` if the question is invalid.

        With the parameter `at` only the broker of that name answers; the others answer null.
        """
        found = await self.ask_encoded(subject, parameters, wait_s)
        return found._replace(answers={broker: msgspec.json.decode(body) for broker, body in found.answers.items()})

    async def ask_encoded(self, subject: str, parameters: Mapping[str, str], wait_s: float = WAIT_S) -> Answers:
        """The same, with the answers as raw JSON (`msgspec.Raw`)."""
        self._number += 1
        question = Question(self._name, self._number, subject, dict(parameters))
        try:
            check_question(question)
        except PeerFault as fault:
            raise GodwitError(f"brokers do not forward {fault}") from None
        said = self._said(subject, parameters)
        asked = self._asked[question.origin, question.number] = _Asked(self._name, self._neighbours())
        try:
            for link in self._links().values():
                link.say(question)
            async with asyncio.timeout(wait_s):
                own = msgspec.json.encode(await said if iscoroutine(said) else said)
                asked.take(self._name, self._neighbours(), own)
                await asked.is_complete.wait()
        except TimeoutError:
            pass
        finally:
            del self._asked[question.origin, question.number]
        answers = {broker: msgspec.Raw(body) for broker, body in sorted(asked.bodies.items())}
        return Answers(answers, self._silent(asked.known, frozenset(answers)))

    def _silent(self, known: set[str], answered: frozenset[str]) -> list[str]:
        """The brokers that have not answered, those included that only an earlier answer has shown."""
        is_complete = known <= answered
        if is_complete or len(self._seen | answered) > BROKERS_MAX:
            self._seen = answered
        else:
            self._seen |= answered
        return [] if is_complete else sorted((known | self._seen) - answered)

    def on_question(self, peer: str, question: Question) -> None:
        """A neighbour asks, or forwards a question."""
        check_question(question)
        id = (question.origin, question.number)
        if question.origin == self._name or id in self._ways or not self._may_ask(peer):
            return
        while len(self._ways) >= REMEMBERED_MAX:
            del self._ways[next(iter(self._ways))]
        self._ways[id] = peer
        links = self._links()
        for name, link in links.items():
            if name != peer:
                link.say(question)
        if peer in links:
            self._answer(peer, question)

    def _answer(self, peer: str, question: Question) -> None:
        """Answer a neighbour, at once or when the answer is computed. (rules 3 and 4)"""
        work = self._work.get(peer)
        if work is None:
            work = self._work[peer] = TokenBucket(WORKING_S_PER_S, WORKING_S_BURST, self._now())
        if not work.has(0, self._now()):
            self._say_answer(peer, question, {"error": "this broker has spent its time on such questions: ask later"})
            return
        began = self._clock()
        try:
            said = self._said(question.subject, question.parameters)
        except GodwitError as error:
            said = {"error": str(error)}
        if not iscoroutine(said):
            self._say_answer(peer, question, said)
            work.take(self._clock() - began, self._now())
        elif len(self._answering) >= ANSWERING_MAX:
            said.close()
            reason = f"this broker works on {ANSWERING_MAX} such questions already: ask again later"
            self._say_answer(peer, question, {"error": reason})
        else:
            task = asyncio.ensure_future(self._work_out(peer, question, said))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _work_out(self, peer: str, question: Question, said: Coroutine[Any, Any, Any]) -> None:
        try:
            found = await said
        except GodwitError as error:
            found = {"error": str(error)}
        self._say_answer(peer, question, found)

    def _say_answer(self, peer: str, question: Question, found: Any) -> None:
        link = self._links().get(peer)
        if link is not None:
            body = bounded(msgspec.json.encode(found))
            link.say(Answer(question.origin, question.number, self._name, self._neighbours(), body))

    def _may_ask(self, peer: str) -> bool:
        now = self._now()
        rate = self._rates.get(peer)
        if rate is None:
            rate = self._rates[peer] = TokenBucket(ASKS_PER_S, ASKS_BURST, now)
        return rate.take(1, now) <= 0

    def _said(self, subject: str, parameters: Mapping[str, str]) -> Any:
        is_asked = parameters.get("at", self._name) == self._name
        return self.answer(subject, parameters) if is_asked else None

    def on_answer(self, peer: str, answer: Answer) -> None:
        """A neighbour answers, or forwards an answer."""
        check_answer(answer)
        id = (answer.origin, answer.number)
        if answer.origin == self._name:
            if (asked := self._asked.get(id)) is not None:
                asked.take(answer.broker, answer.neighbours, answer.body)
        elif (way := self._ways.get(id)) is not None and way != peer and way in (links := self._links()):
            links[way].say(answer)


def bounded(body: bytes) -> bytes:
    """An answer, or an error that it is too long."""
    if len(body) <= ANSWER_BYTES_MAX:
        return body
    reason = f"an answer of {len(body)} bytes: at most {ANSWER_BYTES_MAX} go through the network; ask for less"
    return msgspec.json.encode({"error": reason})


def check_question(question: Question) -> None:
    """Raise PeerFault if a question is invalid."""
    texts = [*question.parameters, *question.parameters.values()]
    is_small = len(question.parameters) <= PARAMETERS_MAX and sum(map(len, texts)) <= TEXT_MAX
    if not (_is_name(question.origin) and _is_name(question.subject) and is_small):
        raise PeerFault(f"a question with a name longer than {NAME_MAX} or parameters of more than {TEXT_MAX} in all")


def check_answer(answer: Answer) -> None:
    """Raise PeerFault if an answer is invalid."""
    if len(answer.body) > ANSWER_BYTES_MAX or len(answer.neighbours) > NEIGHBOURS_MAX:
        raise PeerFault(
            f"an answer of more than {ANSWER_BYTES_MAX} bytes or with more than {NEIGHBOURS_MAX} neighbours"
        )
    if not all(map(_is_name, (answer.origin, answer.broker, *answer.neighbours))):
        raise PeerFault(f"an answer in which a name is empty, or longer than {NAME_MAX}")


def _is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_MAX
