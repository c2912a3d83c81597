"""Values that are written in pieces."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from godwit.broker.broker import Broker
from godwit.broker.effects import Closed, Heard
from godwit.broker.messages import Attach, Note, Publish, Request, Subscribe
from godwit.codec import pieces
from godwit.codec.pieces import ARRAY, TABLE, Steps, Written, collected, pieces_of
from godwit.codec.snapshots import packing as packing_of
from godwit.filters import Event, parse
from tests.unit.codec.test_snapshots import DRIVER, broker

encode = msgspec.msgpack.encode
LENGTHS = [0, 15, 16, 65_535, 65_536]


def result(steps: Steps) -> tuple[Any, int]:
    """What is written in steps, and how many there were."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, count
        count += 1


@pytest.mark.parametrize("length", LENGTHS)
def test_a_collection_in_pieces_has_the_bytes_of_one_that_is_written_at_once(length: int) -> None:
    array, steps = result(collected(ARRAY, length, iter(range(length))))
    assert b"".join(array.pieces) == encode(list(range(length)))
    assert steps == length
    table, _ = result(collected(TABLE, length, (each for number in range(length) for each in (number, "x"))))
    assert b"".join(table.pieces) == encode(dict.fromkeys(range(length), "x"))


def test_parts_that_are_written_already_stand_at_their_places_and_are_not_copied() -> None:
    first, second = encode("a" * 100_000), encode({"b": 1})
    value = {"x": [1, Written([first[:7], first[7:]]), 2], "y": Written([second])}
    found = pieces_of(value)
    assert b"".join(found) == encode({"x": [1, "a" * 100_000, 2], "y": {"b": 1}})
    assert any(piece is second for piece in found)
    elements, _ = result(collected(ARRAY, 3, iter([1, value, "z"])))
    assert any(piece is second for piece in elements.pieces)
    assert msgspec.msgpack.decode(b"".join(elements.pieces))[1]["y"] == {"b": 1}


def test_a_text_that_contains_a_mark_is_written_as_it_is() -> None:
    texts = [pieces.MARK % 0, pieces.MARK % 1, pieces.MARK]
    found = pieces_of([*texts, Written([encode(True)]), b"".join(texts)])
    assert msgspec.msgpack.decode(b"".join(found)) == [*texts, True, b"".join(texts)]


def test_a_client_that_knows_the_marks_makes_a_value_be_encoded_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded, encoding = [], pieces._Encoding

    def counted(value: Any, number: int) -> Any:
        encoded.append(number)
        return encoding(value, number)

    monkeypatch.setattr(pieces, "_Encoding", counted)
    long = pieces.MARK.replace(b"%d", b"9" * 5_000)
    note = b"".join(pieces.MARK % number for number in range(100)) + long
    found = pieces_of([note, Written([encode(True)])])
    assert msgspec.msgpack.decode(b"".join(found)) == [note, True]
    assert encoded == [0, 100]


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(TypeError, match="cannot write a object"):
        pieces_of({"x": object()})
    with pytest.raises(TypeError, match="cannot write a object"):
        result(collected(ARRAY, 1, iter([object()])))


def broker_with_large_sessions(count: int) -> Broker:
    """A broker with so many sessions, each with notes of a megabyte and an event of half a megabyte that waits."""
    made = broker()
    for number in range(count):
        client = f"client/{number}"
        made.handle(Heard(client, Attach(client)), 0.0)
        for place in range(250):
            made.handle(Heard(client, Request(place + 1, Note(f"n{place}", bytes(4_000)))), 0.0)
        event = Event({"for": number}, client, 1, bytes(500_000))
        made.handle(Heard(client, Request(251, Subscribe((client, "s"), parse(f"for = {number}")))), 0.0)
        made.handle(Heard(client, Request(252, Publish(event))), 0.0)
        made.handle(Closed(client), 0.0)
    return made


@pytest.mark.parametrize("count", [4, 70])
def test_a_step_of_a_snapshot_copies_at_most_a_few_large_elements(count: int) -> None:
    """All clients wait for a step."""
    packing, most, found = packing_of(broker_with_large_sessions(count), DRIVER), 0, None
    tracemalloc.start()
    try:
        while found is None:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            found = packing.advance(lambda: True)
            most = max(most, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert sum(map(len, found)) > count * 1_500_000
    assert most < 3_500_000  # an element of 1 MB, in the buffer that has grown to it and in a piece
