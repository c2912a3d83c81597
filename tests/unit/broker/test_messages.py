"""Messages are frozen, cheap to compare, and each has its line in the reference."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from godwit.adhoc import radio_messages as over_the_air
from godwit.baselines import hop_messages as at_every_hop
from godwit.broker import effects, messages
from godwit.broker import gossip_messages as known_by_all
from godwit.broker import stream_messages as in_streams
from godwit.broker.effects import Send
from godwit.mobility import move_messages as about_moves
from godwit.seen import SeenData
from tests.paper.roaming_world import Roaming

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "messages.md"
TYPES = [
    kind
    for kind in (
        getattr(room, name)
        for room in (messages, known_by_all, in_streams, at_every_hop, about_moves, over_the_air)
        for name in room.__all__
    )
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
]
MOVES = [
    kind
    for kind in (getattr(effects, name) for name in effects.__all__)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
]


def section(page, name):
    """The paragraph about a type that has no row, with the table that it announces."""
    parts = page.split("\n\n")
    at = next(at for at, part in enumerate(parts) if f"A {name}" in part or part.startswith(name))
    return "\n".join(parts[at : at + 2 if parts[at].endswith(":") else at + 1])


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_each_type_and_each_of_its_fields_is_in_the_reference(kind):
    page = PAGE.read_text(encoding="utf-8")
    name = f"`{kind.__name__}`"
    rows = [line for line in page.split("\n") if line.startswith(f"| {name} ")]
    about = rows[0] if rows else section(page, name)
    missing = [field.name for field in msgspec.structs.fields(kind) if f"`{field.name}`" not in about]
    assert not missing


@pytest.mark.parametrize("kind", [*TYPES, *MOVES], ids=lambda kind: kind.__name__)
def test_nothing_that_travels_can_be_changed(kind):
    assert kind.__struct_config__.frozen


@pytest.mark.parametrize("mode", ["relocate", "ask", "carry"])
def test_what_a_session_of_many_events_sends_goes_over_a_wire(mode):
    """Whatever brokers and clients send can be packed, and comes out as it went in."""
    roam = Roaming("B1-B2 B2-B3")
    roam.come("P", "B2")
    roam.come("C", "B1", mode)
    roam.subscribe("C")
    roam.settle()
    roam.publish("P", *range(100))
    roam.settle()
    roam.leave("C")
    roam.publish("P", 101, 102)
    roam.settle()
    roam.come("C", "B3")
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 103))
    sent = [each.frame for handled in roam.log for each in handled.effects if isinstance(each, Send)]
    sent += [told.message for told in roam.told] + [message for _, message in roam.heard]
    first = next(each for each in map(borne, sent) if isinstance(each, about_moves.Replay | about_moves.Collected))
    kept = first if isinstance(first, about_moves.Collected) else first.state
    assert kept is not None
    seen = kept.seen
    assert seen[0][:2] == ("P", 102)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=SeenData) == seen
    for message in sent:
        packed = msgspec.msgpack.encode(message)
        assert msgspec.msgpack.encode(msgspec.msgpack.decode(packed)) == packed


def borne(message: Any) -> Any:
    return message.message if isinstance(message, messages.Frame) else message
