"""Questions to a whole network: every broker answers once, whatever the overlay, and who is silent is known."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from godwit.errors import GodwitError, PeerFault
from godwit.runtime import network_questions
from godwit.runtime.network_questions import NetworkQuestions
from godwit.runtime.wire import Answer, Question
from tests.network.waiting import run, until


class Network:
    """Brokers whose links deliver at once, in the order of what was said."""

    def __init__(self, *links: str, down: str = "") -> None:
        pairs = [tuple(link.split("-")) for link in links]
        self.neighbours: dict[str, tuple[str, ...]] = {}
        for a, b in pairs:
            self.neighbours[a] = (*self.neighbours.get(a, ()), b)
            self.neighbours[b] = (*self.neighbours.get(b, ()), a)
        self.down = set(down)
        self.loop: asyncio.AbstractEventLoop | None = None  # None: what is said is only written down
        self.said: list[tuple[str, str, Any]] = []  # from, to, what
        self.now = self.worked = 0.0
        self.answered: list[tuple[str, str, dict[str, str]]] = []
        self.brokers = {name: self._broker(name) for name in self.neighbours}

    def _broker(self, name: str) -> NetworkQuestions:
        questions = NetworkQuestions(
            name, lambda: self._links(name), lambda: self.neighbours[name], lambda: self.now, lambda: self.worked
        )

        def answer(subject: str, parameters: Mapping[str, str]) -> Any:
            if subject == "nothing":
                raise GodwitError("nobody asks that")
            self.answered.append((name, subject, dict(parameters)))
            return {"i am": name}

        questions.answer = answer
        return questions

    def _links(self, name: str) -> dict[str, Any]:
        def line(peer: str) -> Any:
            class Line:
                def say(self, message: Any) -> None:
                    network.said.append((name, peer, message))
                    if network.loop is not None:
                        network.loop.call_soon(network.deliver)

            return Line()

        network = self
        return {peer: line(peer) for peer in self.neighbours[name] if peer not in self.down}

    def deliver(self) -> None:
        while self.said:
            source, target, message = self.said.pop(0)
            broker = self.brokers[target]
            if isinstance(message, Question):
                broker.on_question(source, message)
            else:
                broker.on_answer(source, message)

    async def ask(self, subject: str = "links", **parameters: str) -> network_questions.Answers:
        self.loop = asyncio.get_running_loop()
        return await self.brokers["a"].ask(subject, parameters, wait_s=1.0 if self.down else 60.0)


@pytest.mark.parametrize("links", [("a-b",), ("a-b", "b-c", "c-d"), ("a-b", "b-c", "c-a"), ("a-b", "a-c", "a-d")])
def test_every_broker_answers_once(links: tuple[str, ...]) -> None:
    network = Network(*links)
    found = asyncio.run(network.ask(limit="3"))
    assert found.answers == {name: {"i am": name} for name in sorted(network.brokers)}
    assert found.unanswered == []
    assert sorted(network.answered) == [(name, "links", {"limit": "3"}) for name in sorted(network.brokers)]


def test_brokers_that_do_not_answer_are_named() -> None:
    found = asyncio.run(Network("a-b", "b-c", "c-d", down="c").ask())
    assert list(found.answers) == ["a", "b"]
    assert found.unanswered == ["c"]  # nobody has told of d


def test_brokers_behind_one_that_is_silent_are_named_if_they_answered_before() -> None:
    network = Network("a-b", "b-c", "c-d")

    async def scene() -> None:
        assert (await network.ask()).unanswered == []
        network.down = {"b"}
        assert (await network.ask()).unanswered == ["b", "c", "d"]
        network.neighbours |= {"b": ("a",)}  # c and d are taken out of the network
        network.down = set()
        assert (await network.ask()).unanswered == []
        network.down = {"b"}
        assert (await network.ask()).unanswered == ["b"]

    asyncio.run(scene())


def test_a_broker_that_cannot_answer_says_why() -> None:
    network = Network("a-b")
    network.brokers["b"].answer = network_questions.no_answer
    found = asyncio.run(network.ask())
    assert "listen.http" in found.answers["b"]["error"]


def test_what_nobody_can_answer_is_not_asked_of_others() -> None:
    network = Network("a-b")
    with pytest.raises(GodwitError, match="nobody asks that"):
        asyncio.run(network.ask("nothing"))
    assert network.said == []


def test_an_answer_that_is_too_long_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_questions, "ANSWER_BYTES_MAX", 200)
    network = Network("a-b")
    network.brokers["b"].answer = lambda subject, asked: "x" * 201
    assert "at most 200" in asyncio.run(network.ask()).answers["b"]["error"]


def test_a_neighbour_that_asks_too_often_is_not_answered() -> None:
    network = Network("a-b", "b-c")
    for number in range(200):
        network.brokers["b"].on_question("a", Question("a", number, "links"))
    to_a = [message for _, target, message in network.said if target == "a"]
    assert len(to_a) == network_questions.ASKS_BURST
    assert len(network.said) == 2 * len(to_a)  # what is not answered is not passed on


def test_a_neighbour_whose_answers_take_the_time_of_a_broker_has_to_wait() -> None:
    network = Network("a-b", "b-c")

    def answer(subject: str, parameters: Mapping[str, str]) -> Any:
        network.worked += 0.1
        if subject == "nothing":
            raise GodwitError("nobody asks that")
        return "worked"

    def asked(peer: str, number: int) -> Any:
        network.brokers["b"].on_question(peer, Question(peer, number, "nothing" if number % 2 else "links"))
        return msgspec.json.decode(next(said.body for _, to, said in network.said[::-1] if to == peer))

    network.brokers["b"].answer = answer
    errors = [asked("a", number) for number in range(4)]
    assert errors[:3] == ["worked", {"error": "nobody asks that"}, "worked"]  # 300 ms: that is past the burst
    assert "ask later" in errors[3]["error"]
    assert asked("c", 4) == "worked"  # others do not wait
    network.now += 0.3 / network_questions.WORKING_S_PER_S
    assert asked("a", 5) == {"error": "nobody asks that"}


def test_what_is_remembered_of_questions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_questions, "REMEMBERED_MAX", 3)
    network = Network("a-b", "b-c")
    for number in range(5):
        network.brokers["b"].on_question("a", Question("a", number, "links"))
    network.said.clear()
    for number in range(5):
        network.brokers["b"].on_answer("c", Answer("a", number, "c", ("b",), b"{}"))
    assert [message.number for _, _, message in network.said] == [2, 3, 4]


def test_the_answer_of_a_stranger_to_nothing_is_dropped() -> None:
    network = Network("a-b")
    network.brokers["a"].on_answer("b", Answer("a", 1, "b", (), b"{}"))
    network.brokers["a"].on_answer("b", Answer("c", 1, "b", (), b"{}"))
    assert network.said == []


@pytest.mark.parametrize(
    "message",
    [
        Question("", 1, "links"),
        Question("a" * 300, 1, "links"),
        Question("b", 1, "s" * 300),
        Question("b", 1, "links", {str(n): "" for n in range(17)}),
        Question("b", 1, "links", {"filter": "x" * 40_000}),
        Answer("a", 1, "", (), b"{}"),
        Answer("a", 1, "b", ("",), b"{}"),
        Answer("a", 1, "b", ("c",) * 1_001, b"{}"),
        Answer("a", 1, "b", (), b" " * (network_questions.ANSWER_BYTES_MAX + 1)),
    ],
    ids=lambda message: msgspec.json.encode(message).decode()[:60],
)
def test_what_no_broker_says_is_a_fault_of_the_link(message: Any) -> None:
    broker = Network("a-b").brokers["a"]
    with pytest.raises(PeerFault):
        (broker.on_question if isinstance(message, Question) else broker.on_answer)("b", message)


def slow(network: Network, name: str, go_on: asyncio.Event) -> None:
    """Let a broker work on its answers until it may go on."""

    async def worked_out() -> Any:
        await go_on.wait()
        return {"i am": name}

    network.brokers[name].answer = lambda subject, asked: worked_out()


def test_answers_that_take_a_while_come_when_they_are_worked_out() -> None:
    async def scene() -> None:
        network, go_on = Network("a-b", "b-c"), asyncio.Event()
        for name in "abc":
            slow(network, name, go_on)
        asyncio.get_running_loop().call_later(0.01, go_on.set)
        found = await network.ask()
        assert found.answers == {name: {"i am": name} for name in "abc"}

    asyncio.run(scene())


def test_a_broker_that_works_on_too_many_answers_says_so() -> None:
    async def scene() -> None:
        network, go_on = Network("a-b"), asyncio.Event()
        slow(network, "b", go_on)
        for number in range(network_questions.ANSWERING_MAX + 1):
            network.brokers["b"].on_question("a", Question("a", number, "links"))
        [(_, _, answer)] = network.said
        assert "already" in msgspec.json.decode(answer.body)["error"]
        go_on.set()
        await until(lambda: len(network.said) > network_questions.ANSWERING_MAX)
        assert [each.number for _, _, each in network.said[1:]] == list(range(network_questions.ANSWERING_MAX))

    run(scene)


def test_an_own_answer_that_does_not_come_in_time_is_missing_like_any_other() -> None:
    async def scene() -> None:
        network = Network("a-b", down="b")
        slow(network, "a", asyncio.Event())
        assert (await network.ask()) == network_questions.Answers({}, ["a", "b"])

    asyncio.run(scene())


def test_a_question_of_an_administrator_that_is_too_large_is_no_fault_of_a_link() -> None:
    with pytest.raises(GodwitError, match="brokers do not forward"):
        asyncio.run(Network("a-b").ask(filter="x" * 40_000))
