"""Which sessions get an event with a `to`: the same by columns of contexts as by a test of each session.

*The laws.*
1. The effects are the same, in the same order, while sessions begin, end, change their contexts and subscriptions.
2. Sessions that were restored from a snapshot do the same.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker import addressing
from godwit.broker.effects import Effect
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Context, Request, Subscribe
from godwit.broker.sessions import Sessions
from godwit.filters import TRUE, parse
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.matching import attribute_table
from tests.property.strategies import attributes, filters, many

CLIENTS = tuple(f"c{number}" for number in range(6))
who = st.sampled_from(CLIENTS)
steps = st.one_of(
    st.tuples(st.just("context"), who, attributes()),
    st.tuples(st.just("context"), who, attributes()),
    st.tuples(st.just("attach"), who, st.sampled_from([{}, {"x": 1}, {"x": "a"}])),
    st.tuples(st.just("want"), who, st.sampled_from([None, 3.0, 6.0])),
    st.tuples(st.just("end"), who),
    st.tuples(st.just("publish"), filters()),
    st.tuples(st.just("publish"), st.sampled_from([parse("x = 1"), parse("x IS NULL OR y = 1")])),
)


class Side:
    """One broker's sessions; `few`: so many sessions are tested one by one."""

    def __init__(self, few: int, *, starts_again: bool = False) -> None:
        self.few, self.starts_again = few, starts_again
        self.sessions = self.made()
        self.numbers = dict.fromkeys(CLIENTS, 0)

    def made(self) -> Sessions:
        return Sessions(Limits(), "b", asserted=("x",))

    def do(self, step: tuple[Any, ...], number: int, patch: pytest.MonkeyPatch) -> list[Effect]:
        patch.setattr(addressing, "FEW", self.few)
        now = float(number)
        if self.starts_again:
            state = self.sessions.snapshot()
            self.sessions = self.made()
            self.sessions.restore(state)
        match step:
            case ("attach", client, asserted):
                self.sessions.vouch(f"{client}/{number}", asserted)
                return self.sessions.attach(f"{client}/{number}", Attach(client, mode="named"), now)
            case ("context", client, values):
                said = {name: value for name, value in values.items() if name != "x"}
                return self.ask(client, lambda n: Request(n, Context(said)), now)
            case ("want", client, lasts):
                wish = Subscribe((client, "s" if lasts is None else "t"), TRUE, expires=lasts and now + lasts)
                return self.ask(client, lambda n: Request(n, wish), now)
            case ("end", client):
                return list(self.sessions.end(client, now).effects)
        ids = [(client, name) for client in (*CLIENTS, "nobody") for name in ("s", "t")]
        return self.sessions.deliver(Event({"n": number}, "pub", number + 1, to=step[1]), ids, now)

    def ask(self, client: str, request: Callable[[int], Request], now: float) -> list[Effect]:
        session = self.sessions.session(client)
        if session is None or session.connection is None:
            return []
        return self.sessions.admit(session.connection, request(session.accepted + 1), now)[1]


def differences(play: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The steps in which sides do not do the same."""
    sides = [Side(1_000), Side(0), Side(0, starts_again=True)]
    found: list[tuple[Any, ...]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribute_table, "FEW_ROWS", 2)
        patch.setattr(attribute_table, "DENSE_MIN", 2)
        for number, step in enumerate(play):
            done = [[msgspec.structs.astuple(effect) for effect in side.do(step, number, patch)] for side in sides]
            found += [step] if done[0] != done[1] or done[0] != done[2] else []
    return found


begin: list[tuple[Any, ...]] = [("attach", client, {}) for client in CLIENTS]
begin += [("want", client, None) for client in CLIENTS]


@many(2)
@given(st.lists(steps, max_size=25))
def test_columns_and_single_tests_have_the_same_effects(play: list[tuple[Any, ...]]) -> None:
    assert differences([*begin, *play]) == []


def test_a_context_that_columns_do_not_hear_of_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    to: Filter = parse("y = 1")
    said: list[tuple[Any, ...]] = [("context", client, {"y": 1}) for client in CLIENTS]
    play = [*begin, *said, ("publish", to), ("context", "c1", {"y": 2}), ("publish", to)]
    assert differences(play) == []
    monkeypatch.setattr(attribute_table, "_is_same", lambda one, other: other is not None)
    assert differences(play) != []
