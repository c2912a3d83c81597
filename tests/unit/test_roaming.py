"""Malformed and hostile messages about clients that move: the link is closed, the broker goes on."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.broker import BrokerConfig
from godwit.broker.effects import Arrived, Close, LinkUp, Trace
from godwit.broker.messages import Frame, Hello, Receipt, SessionState, Waiting
from godwit.filters.events import event
from godwit.mobility import MobileBroker
from godwit.mobility.messages import Brokers, NotHere, Relocate, Replay, Superseded

STATE = SessionState(
    client="ann",
    name="far/1/1",
    accepted=0,
    refusals=(),
    subscriptions=(),
    advertisements=(),
    has_advertised=False,
    taken=0,
    sent_up_to=0,
    confirmed=0,
    expired=0,
    purged={},
    suppressed=0,
    lost=(),
    lost_more=0,
    settled=Receipt(),
    told=Receipt(),
    accepted_then=0,
    seen=(),
)
ITEM = Waiting(1, event({"x": 1}, publisher="p", sequence=1), ("a",), 0.0)


def joined(**config: Any) -> MobileBroker:
    """A broker whose two neighbours have greeted it."""
    broker = MobileBroker("here", {"left": 1.0, "right": 1.0}, BrokerConfig(**config))
    for peer in ("left", "right"):
        broker.handle(LinkUp(peer), 0.0)
        broker.handle(Arrived(peer, Hello(1, 0, 0, 1, heard=True)), 0.0)
    broker.routing.awaiting = {"advertisements": {}, "subscriptions": {}}  # type: ignore[attr-defined]
    return broker


def changed(thing: Any, **fields: Any) -> Any:
    return type(thing)(**{name: fields.get(name, getattr(thing, name)) for name in thing.__struct_fields__})


BAD: list[Any] = [
    Brokers(["far"]),  # type: ignore[arg-type]
    Brokers((1,)),  # type: ignore[arg-type]
    Relocate("", "here", "left", 1),
    Relocate("ann", None, "left", 1),  # type: ignore[arg-type]
    Relocate("ann", "here", "left", "1"),  # type: ignore[arg-type]
    Superseded("ann", "here", 1, None, "far"),  # type: ignore[arg-type]
    NotHere("ann", 5, 1),  # type: ignore[arg-type]
    Replay("ann", "here", 1, STATE, [], is_last=True),  # type: ignore[arg-type]
    Replay("ann", "here", 1, STATE, (None,), is_last=True),  # type: ignore[arg-type]
    Replay("ann", "here", 1, STATE, (changed(ITEM, event=None),), is_last=True),
    Replay("ann", "here", 1, STATE, (changed(ITEM, subscriptions=(1,)),), is_last=True),
    Replay("ann", "here", 1, changed(STATE, client="bob"), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, taken=-1), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, purged=None), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, subscriptions=("a",)), (), is_last=True),
    Replay("ann", "here", 1, changed(STATE, seen=((1, 2),)), (), is_last=True),
]


@pytest.mark.parametrize("message", BAD, ids=repr)
def test_what_no_honest_broker_sends_closes_its_link_and_no_other(message):
    broker = joined()
    effects = broker.handle(Arrived("left", Frame(1, 0, message)), 0.0)
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["left"]
    assert [effect.record.kind for effect in effects if isinstance(effect, Trace)] == ["fault"]
    assert broker.links["right"].open


def test_a_part_that_follows_nothing_is_recorded_and_leaves_nothing_behind():
    broker = joined()
    effects = broker.handle(Arrived("left", Frame(1, 0, cast(Any, Replay("ann", "here", 1, None, (ITEM,), True)))), 0.0)
    assert [effect.record.kind for effect in effects if isinstance(effect, Trace)] == ["fault"]
    assert broker.arrivals == {}


GARBAGE = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just(STATE), st.just((ITEM,)), st.booleans())


@given(kind=st.sampled_from([Brokers, Relocate, Replay, Superseded, NotHere]), data=st.data())
def test_whatever_comes_the_broker_never_raises(kind, data):
    broker = joined()
    message = kind(*(data.draw(GARBAGE) for _ in kind.__struct_fields__))
    broker.handle(Arrived("left", Frame(1, 0, message)), 0.0)
    assert broker.links["right"].open


def test_brokers_of_a_graph_are_not_told_by_names():
    broker = MobileBroker("here", {"left": 1.0}, BrokerConfig(family="graph", advertisements="off"))
    broker.handle(LinkUp("left"), 0.0)
    broker.handle(Arrived("left", Hello(1, 0, 0, 1, heard=True)), 0.0)
    effects = broker.handle(Arrived("left", Frame(1, 0, cast(Any, Brokers(("far",))))), 0.0)
    assert any(isinstance(effect, Close) for effect in effects)
