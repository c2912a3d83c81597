"""Long greetings over WebSocket: one filter at a time, and what comes is the same as in one step."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from godwit.broker.messages import Advertise, Attach, Subscribe
from godwit.codec import message_codec
from godwit.codec.plain_data import filter_of
from godwit.errors import PeerFault
from godwit.filters import parse
from godwit.filters.language import to_text
from godwit.languages import NATIVE as NATIVE_LANGUAGE
from godwit.languages import Query
from godwit.runtime.authentication import Principal
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.grants import Grants
from godwit.runtime.long_work import LongWork
from godwit.runtime.message_items import SMALL_BYTES
from godwit.runtime.slow_messages import granting
from godwit.runtime.socket_queries import SocketQueries
from godwit.runtime.wire import JSON, NATIVE

COUNT = 12
WISHES = tuple(
    Subscribe(("ann", f"s{n}"), parse(" OR ".join(f"a{i} = {i + n}" for i in range(300)))) for n in range(COUNT)
)
GREETING = Attach("ann", attempt=2, home="a", wanted=(*WISHES, Advertise(("ann", "p"), parse("kind = 'x'"))))
QUICK_CHARS = 2_000


class Edge:
    """What a client's queries ask of the edge tests, with a clock by which each step takes a slice."""

    def __init__(self) -> None:
        self.helper = SimpleNamespace(long_work=LongWork(self.clock))
        self.now = 0.0
        self.prepared: list[str] = []

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    def is_quick(self, text: str, language: str) -> bool:
        return len(text) <= QUICK_CHARS or text in self.prepared

    async def prepare(self, text: str, language: str, party: str) -> None:
        self.prepared.append(text)

    def parse(self, text: str, language: str) -> Query:
        assert self.is_quick(text, language)
        return Query(NATIVE_LANGUAGE, text, parse(text))


class Turns:
    """Takes a coroutine turn by turn, as an event loop does."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, coroutine: Any) -> Any:
        steps: Generator[Any, None, Any] = coroutine.__await__()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            self.count += 1


def read(data: bytes, edge: Edge | None = None, turns: Turns | None = None) -> Any:
    edge = Edge() if edge is None else edge
    queries = SocketQueries(cast(EdgeTests, edge), print, print)
    return (Turns() if turns is None else turns).run(queries.read(data))


def said(wanted: list[dict[str, Any]]) -> bytes:
    filler = {"type": "Advertise", "id": ["ann", "p"], "filter": to_text(WISHES[0].filter)}
    more = [{**filler, "id": ["ann", f"p{n}"]} for n in range(20)]
    return msgspec.json.encode({"type": "Attach", "client": "ann", "wanted": [*wanted, *more]})


def test_a_long_greeting_is_the_same_with_one_filter_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, made_in = Turns(), list[int]()

    def counting(tree: Any) -> Any:
        made_in.append(turns.count)
        return filter_of(tree)

    monkeypatch.setattr(message_codec, "filter_of", counting)
    data = JSON.encode(GREETING)
    assert len(data) > SMALL_BYTES
    assert read(data, turns=turns) == GREETING
    assert len(made_in) == len(set(made_in)) == len(GREETING.wanted)


def test_queries_of_a_long_greeting_are_those_of_a_short_one() -> None:
    large = to_text(WISHES[1].filter)
    wanted: list[dict[str, Any]] = [
        {"type": "Subscribe", "id": ["ann", "text"], "filter": "x > 1"},
        {"type": "Subscribe", "id": ["ann", "long"], "filter": large},
        {"type": "Subscribe", "id": ["ann", "from"], "filter": "x > 1", "sender": "role = 'van'"},
    ]
    edge = Edge()
    short = read(msgspec.json.encode({"type": "Attach", "client": "ann", "wanted": wanted}), Edge())
    data = said(wanted)
    assert len(data) > SMALL_BYTES
    long = read(data, edge)
    assert long.wanted[:3] == short.wanted
    assert long.wanted[1].filter == WISHES[1].filter
    assert long.wanted[3].filter == WISHES[0].filter
    assert edge.prepared == [large]


@pytest.mark.parametrize(
    "wanted",
    [
        [{"type": "Subscribe", "id": ["ann", "s"], "filter": "x >"}],
        [{"type": "Subscribe", "id": ["ann", "s"], "filter": {"nonsense": 1}}],
        [{"type": "Subscribe", "id": ["ann", "s"], "filter": "x = 1", "language": 7}],
        [{"type": "Dance"}],
        ["nonsense"],
    ],
)
def test_a_long_greeting_with_something_wrong_is_a_fault(wanted: list[Any]) -> None:
    with pytest.raises(PeerFault):
        read(said(wanted))
    with pytest.raises(PeerFault):
        read(msgspec.json.encode({"type": "Attach", "client": "ann", "wanted": wanted}))


def test_a_long_greeting_with_a_number_that_is_out_of_range_is_a_fault() -> None:
    data = said([{"type": "Subscribe", "id": ["ann", "s"], "filter": "NUMBER"}]).replace(b'"NUMBER"', b"1e400")
    with pytest.raises(PeerFault, match="out of range"):
        read(data)


def test_a_long_greeting_is_compared_with_rights_one_filter_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    grants = Grants.of(["kind = 'y'"], [to_text(wish.filter) for wish in WISHES[:4]])
    principal = Principal("ann", grants=grants)
    *steps, (granted, packed) = list(granting(GREETING, principal))  # type: ignore[misc]
    assert granted == grants.checked(GREETING)
    assert len(granted.wanted) == 4
    assert packed == NATIVE.encode(granted)
    assert len(steps) >= len(GREETING.wanted) + 4
    monkeypatch.setattr(Grants, "checked", lambda self, message: pytest.fail("it is compared again"))
    assert principal.checked(granted) is granted
