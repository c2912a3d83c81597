"""Whatever is wrong in a message, the decoder or a machine refuses it or finds nothing wrong; no machine ever fails.

The decoder checks types: what it lets through is of the types that the fields say. The machines check the rest. So the
two laws here go together: nothing of a wrong type passes the decoder, and every machine copes with all that passes.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import pytest

import godwit.baselines  # noqa: F401 (it has the family fixed_hops)
from godwit.broker import message_checks
from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, Close, Closed, Effect, Heard, LinkUp, Opened, Tell
from godwit.broker.messages import (
    Accepted,
    Ack,
    Attach,
    Attached,
    Bye,
    Delivery,
    FetchedEvents,
    FetchEvents,
    Frame,
    Goodbye,
    Hello,
    Packet,
    Publish,
    Quench,
    Receipt,
    Received,
    Refused,
    Request,
    Subscribe,
)
from godwit.broker.stream_messages import HopPacket, SentAgain
from godwit.client import Client, ClientConfig
from godwit.errors import PeerFault
from godwit.filters.contexts import Bound, Described
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import And, Filter, Missing, Only, Or, Some
from godwit.filters.sets import ValueSet
from godwit.filters.values import KIND_OF_TYPE, Value
from godwit.mobility import mobile_broker
from godwit.mobility.move_messages import MoveOut, TrimConnectionLog
from godwit.runtime import wire
from tests.property.wrong_messages import CLIENT, Wrong, fitting, samples, written, wrong_ones
from tests.seeds import slow

KINDS = [kind for kind in wire._kinds() if kind is not wire.Intro]


def readable(kind: type[msgspec.Struct]) -> Iterator[tuple[Wrong, Any]]:
    """What the decoder lets through of what is wrong, and what it reads."""
    for sample in samples(kind):
        for wrong in wrong_ones(fitting(sample)):
            try:
                yield wrong, wire.NATIVE.decode(written(wrong.data))
            except PeerFault:
                continue


@cache
def readable_ones(kind: type[msgspec.Struct]) -> list[tuple[Wrong, Any]]:
    """All of `readable`, made once for the many ways in which a message comes to a broker."""
    return list(readable(kind))


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """The types of a struct's fields."""
    return get_type_hints(kind, localns={"Filter": Filter})


# ---------------------------------------------------------------- the decoder


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, through and through, as an annotation says it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == Filter:
        return _is_filter(value)
    if hint == Value:
        return _is_value(value)
    if hint == Described:
        return conforms(value, Attributes) or (
            type(value) is tuple and all(type(one) is Bound and isinstance(one.values, ValueSet) for one in value)
        )
    if hint is Event:
        return type(value) is Event and _has_fields(value, hints_of(Event))
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(conforms(value, each) for each in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return type(value) is tuple and all(conforms(one, arguments[0]) for one in value)
    if origin is tuple:
        return type(value) is tuple and len(value) == len(arguments) and all(map(conforms, value, arguments))
    if isinstance(origin, type):  # a table
        of_key, of_value = arguments
        return isinstance(value, dict) and all(conforms(k, of_key) and conforms(v, of_value) for k, v in value.items())
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return type(value) is hint and _has_fields(value, hints_of(cast(Any, hint)))
    return type(value) is hint


def _has_fields(value: Any, hints: dict[str, Any]) -> bool:
    if type(value) in (
        Frame,
        Packet,
        HopPacket,
        SentAgain,
    ):  # what they bear may be any message; who gets it asks for its type
        hints = {**hints, "message": type(value.message)}
    return all(conforms(getattr(value, name), hint) for name, hint in hints.items() if not name.startswith("_"))


def _is_filter(value: Any) -> bool:
    if isinstance(value, And | Or):
        return all(map(_is_filter, value.parts))
    if isinstance(value, Missing):
        return type(value.attribute) is str
    return isinstance(value, Some | Only) and type(value.attribute) is str and isinstance(value.values, ValueSet)


def _is_value(value: Any) -> bool:
    return type(value) in KIND_OF_TYPE


HOLDS_VALUES = re.compile(r"\.(attributes|values|asserted|described|added|removed|event(\[2\])?)\b")
"""Fields of values: the decoder has no type for a value, so what is none is left to the machines."""


def check_types(read: Iterable[tuple[Wrong, Any]]) -> None:
    for wrong, message in read:
        if not HOLDS_VALUES.search(wrong.path):
            assert conforms(message, type(message)), (wrong.path, wrong.what, message)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_of_a_wrong_type_passes_the_decoder(kind: type[msgspec.Struct]) -> None:
    check_types(readable_ones(kind))


# ---------------------------------------------------------------- the machines


def broker(**config: Any) -> Broker:
    """A broker with a neighbour that has greeted it, and a client that is attached over the connection `line`."""
    machine = mobile_broker("here", {"left": 1.0}, BrokerConfig(**config))
    machine.handle(LinkUp("left"), 0.0)
    machine.handle(Arrived("left", Hello(1, 0, 0, 1, heard=True)), 0.0)
    machine.handle(Opened("line"), 0.0)
    machine.handle(Heard("line", Attach(CLIENT)), 0.0)
    return machine


def client(*, attached: bool) -> Client:
    """A client that has said who it is; `attached`: and was let in."""
    machine = Client(CLIENT, ClientConfig())
    machine.handle(Opened("line"), 0.0)
    if attached:
        machine.handle(Heard("line", Attached(0, True, Receipt(), "s", "here")), 0.0)
    return machine


def serves(machine: Broker) -> bool:
    """Whether a broker still does for an honest client what it should."""
    machine.handle(Opened("honest"), 1.0)
    effects = machine.handle(Heard("honest", Attach("eve")), 1.0)
    effects += machine.handle(Heard("honest", Request(1, Publish(Event({"x": 1}, "eve", 1)))), 1.0)
    told = [type(effect.message) for effect in effects if isinstance(effect, Tell) and effect.connection == "honest"]
    return told == [Attached, Accepted]


def is_refused(effects: list[Effect]) -> bool:
    return any(isinstance(effect, Close) for effect in effects)


def str_or_name(value: Any) -> str:
    return value if isinstance(value, str) else value.__name__


Hear = Callable[[Broker, Any], list[Effect]]


def from_a_client(machine: Broker, message: Any) -> list[Effect]:
    return machine.handle(Heard("line", message), 1.0)


def from_a_new_client(machine: Broker, message: Any) -> list[Effect]:
    machine.handle(Opened("new"), 1.0)
    return machine.handle(Heard("new", message), 1.0)


def on_a_link(machine: Broker, message: Any) -> list[Effect]:
    return machine.handle(Arrived("left", message), 1.0)


def in_a_frame(machine: Broker, message: Any) -> list[Effect]:
    return machine.handle(Arrived("left", Frame(1, 0, message)), 1.0)


def in_a_packet(machine: Broker, message: Any) -> list[Effect]:
    return in_a_frame(machine, Packet("left", 1, {"here": 1}, message))


CLIENTS_SAY = (Attach, Request, Received, FetchEvents, Bye, MoveOut)
CLIENTS_HEAR = (Attached, Accepted, Refused, Delivery, FetchedEvents, Quench, TrimConnectionLog, Bye)
LINKS_CARRY = (Hello, Frame, Ack, Goodbye)
BROKERS_SAY = tuple(kind for kind in KINDS if kind not in (*CLIENTS_SAY, *CLIENTS_HEAR, *LINKS_CARRY))

TREE: dict[str, Any] = {}
GRAPH: dict[str, Any] = {"family": "graph"}
CONTEXTS: dict[str, Any] = {"family": "graph", "strategy": "spcf"}
HOPS: dict[str, Any] = {"family": "graph", "strategy": "spcf", "matching": "hops"}
FIXED: dict[str, Any] = {"family": "fixed_hops", "overlay": (("here", "left", 1.0),)}
WAYS: dict[str, tuple[dict[str, Any], Hear, tuple[type[msgspec.Struct], ...]]] = {
    "by a client": (TREE, from_a_client, CLIENTS_SAY),
    "by a new client": (TREE, from_a_new_client, CLIENTS_SAY),
    "on a link": (TREE, on_a_link, LINKS_CARRY),
    "in a frame of a tree": (TREE, in_a_frame, BROKERS_SAY),
    "in a frame of a graph": (GRAPH, in_a_frame, BROKERS_SAY),
    "in a frame of a graph that matches at hops": (HOPS, in_a_frame, BROKERS_SAY),
    "in a frame of a fixed overlay": (FIXED, in_a_frame, BROKERS_SAY),
    "in a packet": (GRAPH, in_a_packet, BROKERS_SAY),
    "in a packet with contexts": (CONTEXTS, in_a_packet, BROKERS_SAY),
    "in a packet that is matched at hops": (HOPS, in_a_packet, BROKERS_SAY),
}
"""How a message comes to a broker: the broker, what brings it, and what is sent that way."""
NEXT_QUICK = 3  # of the ways of one kind, and of the kinds of one way


def ways_and_kinds() -> Iterator[Any]:
    """Each kind in each way that it may come; of what one broker says to another, a third is quick."""
    for nth, (way, (_, _, kinds)) in enumerate(WAYS.items()):
        for at, kind in enumerate(kinds):
            is_quick = kinds is not BROKERS_SAY or (nth + at) % NEXT_QUICK == 0
            yield pytest.param(way, kind) if is_quick else slow(way, kind)


@pytest.mark.parametrize(("way", "kind"), list(ways_and_kinds()), ids=str_or_name)
def test_a_broker_refuses_what_is_of_a_wrong_type_and_copes_with_the_rest(way: str, kind: type[msgspec.Struct]) -> None:
    config, hear, _ = WAYS[way]
    for wrong, message in readable_ones(kind):
        machine = broker(**config)
        try:
            effects = hear(machine, message)
            lives = serves(machine)
        except Exception as error:
            raise AssertionError(f"{wrong.path} is {wrong.what}: {message}") from error
        assert lives, (wrong.path, wrong.what)
        assert is_refused(effects) or conforms(message, type(message)), (wrong.path, wrong.what, message)


@pytest.mark.parametrize("kind", CLIENTS_HEAR, ids=str_or_name)
def test_a_client_refuses_what_is_of_a_wrong_type_and_copes_with_the_rest(kind: type[msgspec.Struct]) -> None:
    for wrong, message in readable_ones(kind):
        machine = client(attached=kind is not Attached)
        try:
            effects = machine.handle(Heard("line", message), 1.0)
            machine.handle(Closed("line"), 1.0)
            effects_later = machine.handle(Opened("line"), 2.0)
        except Exception as error:
            raise AssertionError(f"{wrong.path} is {wrong.what}: {message}") from error
        assert any(isinstance(effect, Tell) and type(effect.message) is Attach for effect in effects_later)
        assert is_refused(effects) or conforms(message, type(message)), (wrong.path, wrong.what, message)


@pytest.mark.parametrize("way", WAYS)
def test_a_broker_copes_with_messages_that_are_not_for_it(way: str) -> None:
    config, hear, _ = WAYS[way]
    for kind in KINDS:
        for message in samples(kind):
            machine = broker(**config)
            hear(machine, message)
            assert serves(machine)


# ---------------------------------------------------------------- planted: what is wrong is found


def test_a_check_that_is_missing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the broker does not look at what an event holds."""
    monkeypatch.setattr(message_checks, "_check_value", lambda value: None)
    with pytest.raises(AssertionError):
        test_a_broker_refuses_what_is_of_a_wrong_type_and_copes_with_the_rest("by a client", Request)


def test_a_decoder_that_does_not_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a decoder that takes the id of a subscription as it comes."""
    loose = msgspec.defstruct("Subscribe", [("id", Any), ("filter", Any)], tag=True)
    monkeypatch.setattr(
        wire.NATIVE,
        "decode",
        lambda data: Subscribe(*msgspec.structs.astuple(msgspec.msgpack.decode(data, type=loose))),
    )
    with pytest.raises((AssertionError, msgspec.MsgspecError)):
        check_types(readable(Subscribe))
