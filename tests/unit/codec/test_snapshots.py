"""Snapshots say what they are: another format, version or kind is refused with a line that says so."""

import msgspec
import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, LinkDown
from godwit.broker.messages import Publish
from godwit.broker.reductions import SimpleState
from godwit.codec import MESSAGES, SNAPSHOTS, Codec, DriverState, Snapshots, TypeRegistry, pack, twins, unpack
from godwit.codec.snapshots import FORMAT, Packing, gone, open_ends
from godwit.errors import SnapshotError
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.mobility import mobile_broker

DRIVER = DriverState({("resend", "n"): 1.5, ("expiry",): 9.0}, (("link", "n"), ("connection", "c")), 1.0)


def broker(name: str = "b", incarnation: int = 1) -> Broker:
    return mobile_broker(name, {"n": 1.0}, BrokerConfig(), incarnation)


def changed(data: bytes, **fields: object) -> bytes:
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(data), **fields})


def test_what_a_driver_keeps_comes_back_in_its_order() -> None:
    read = unpack(pack(broker(), DRIVER), broker())
    assert repr(read) == repr(DRIVER)
    assert list(gone(read.open)) == [LinkDown("n"), Closed("c")]
    assert open_ends(gone(read.open)) == DRIVER.open


def test_a_snapshot_names_its_format_its_kinds_and_its_fields() -> None:
    data = msgspec.msgpack.decode(pack(broker(), DRIVER))
    assert (data["format"], data["version"]) == (FORMAT, 1)
    assert data["kinds"] == {
        "BrokerState": 4,
        "TreeState": 5,
        "CoveringState": 1,
        "FollowedFiltersState": 2,
        "GroupsState": 1,
        "QuenchingState": 1,
        "OverlayRoutesState": 2,
        "RelocationState": 6,
        "SessionEntriesState": 1,
        "CarryState": 1,
        "PresubscribeState": 1,
        "PublisherPresenceState": 3,
        "GossipState": 1,
        "DriverState": 1,
    }
    assert data["parts"]["machine"]["type"] == "BrokerState"
    assert data["parts"]["driver"]["now"] == 1.0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"format": "a letter"}, "its format is 'a letter', not 'godwit snapshot'"),
        ({"version": 2}, "a snapshot of version 2: this version of Godwit reads 1"),
        ({"kinds": {"BrokerState": 7}}, "holds a BrokerState of version 7: this version of Godwit reads 4"),
        ({"kinds": {"Singing": 1}}, "holds a Singing, version 1, which is unknown"),
        ({"kinds": None}, "does not say what it holds"),
        ({"parts": {"machine": {"type": "BrokerState"}}}, "cannot be read: .*missing required field"),
        ({"parts": {"machine": {"type": "Publish", "event": 5}}, "filters": [], "events": []}, "cannot be read"),
        ({"filters": [{"some": 3}]}, "cannot be read"),
    ],
)
def test_another_format_version_or_kind_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(SnapshotError, match=why):
        unpack(changed(pack(broker(), DRIVER), **fields), broker())


def test_what_is_no_snapshot_at_all_is_refused() -> None:
    for data in (b"", b"\x80\x04\x95", b"not a snapshot"):
        with pytest.raises(SnapshotError, match="not a snapshot"):
            SNAPSHOTS.decode(data)


def test_the_snapshot_of_another_broker_or_life_is_refused() -> None:
    data = pack(broker(), DRIVER)
    for other in (broker("c"), broker("b", 2)):
        with pytest.raises(SnapshotError, match="the snapshot is of broker 'b', incarnation 1"):
            unpack(data, other)


def test_a_filter_that_stands_in_many_places_is_written_once_and_is_one_again() -> None:
    wanted = parse("x > 5")
    state = SimpleState({("a", "1"): wanted, ("a", "2"): wanted}, 0, {("", ("a", "1")): ("a", "1")})
    data = SNAPSHOTS.encode({"state": state})
    assert len(msgspec.msgpack.decode(data, strict=False)["filters"]) == 1
    read = SNAPSHOTS.decode(data)["state"]
    assert read == state
    assert read.told["a", "1"] is read.told["a", "2"]


# ---------------------------------------------------------------- written in steps


def large_state(count: int) -> SimpleState:
    """A state with so many filters."""
    filters = {("a", f"{number}"): parse(f"x > {number}") for number in range(count)}
    return SimpleState(filters, 0, {("", id): id for id in filters})


def in_steps(packing: Packing) -> tuple[bytes, int]:
    """A snapshot, and how many steps it took."""
    steps = 1
    while (pieces := packing.advance(lambda: True)) is None:
        steps += 1
    return b"".join(pieces), steps


@pytest.mark.parametrize("count", [0, 1, 15, 16, 64, 65, 80, 200, 1_000])
def test_what_is_written_in_steps_has_the_bytes_of_what_is_written_at_once(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = large_state(count)
    data, steps = in_steps(SNAPSHOTS.packing({"state": state}))
    assert SNAPSHOTS.decode(data) == {"state": state}
    assert steps >= (2 * count if count > twins.AT_ONCE else 1)  # of entries, and of filters
    monkeypatch.setattr(twins, "AT_ONCE", 2**30)
    assert SNAPSHOTS.encode({"state": state}) == data


def test_a_snapshot_is_written_beside_others() -> None:
    one, other = large_state(100), large_state(200)
    first, second = SNAPSHOTS.packing({"state": one}), SNAPSHOTS.packing({"state": other})
    written: list[bytes] = []
    for packing in [first, second] * 10_000:
        pieces = packing.advance(lambda: True)
        assert SNAPSHOTS.decode(SNAPSHOTS.encode({"state": SimpleState({}, 1, {})}))["state"].ids_made == 1
        written += [] if pieces is None else [b"".join(pieces)]
        if len(written) == 2:
            break
    assert written == [SNAPSHOTS.encode({"state": one}), SNAPSHOTS.encode({"state": other})]


# ---------------------------------------------------------------- kinds of one's own


class Ping(msgspec.Struct, frozen=True, tag=True):
    event: Event


class PingState(msgspec.Struct, frozen=True, tag=True):
    waiting: tuple[msgspec.Struct, ...]


def test_messages_and_states_that_are_registered_later_are_known() -> None:
    messages, states = TypeRegistry("message", [Publish]), TypeRegistry("state", [SimpleState])
    wire, snapshots = Codec(MESSAGES, as_json=False), Snapshots(states, messages)
    messages.register(Ping)
    messages.register(Ping)
    states.register(PingState)
    state = PingState((Ping(Event({"x": 1})), Publish(Event({"x": (1, 2)}, to=TRUE))))
    assert snapshots.decode(snapshots.encode({"ping": state})) == {"ping": state}
    assert wire.decode(wire.encode(Publish(Event({"x": 1})))) == Publish(Event({"x": 1}))


def test_a_kind_without_a_tag_or_with_one_that_is_taken_is_an_error() -> None:
    untagged = msgspec.defstruct("Untagged", [])
    with pytest.raises(TypeError, match="declare it with tag=True"):
        TypeRegistry("state", [untagged])
    other = msgspec.defstruct("Ping", [], tag=True)
    with pytest.raises(TypeError, match="two kinds of message are called 'Ping'"):
        TypeRegistry("message", [Ping, other])


def test_a_field_of_a_type_that_nobody_can_write_is_an_error_when_it_is_registered() -> None:
    strange = msgspec.defstruct("Strange", [("held", set[int])], tag=True)
    with pytest.raises(TypeError, match=r"Strange\.held: cannot write a field of type"):
        Snapshots(TypeRegistry("state", [strange]))
