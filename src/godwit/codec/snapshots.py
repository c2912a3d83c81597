"""Snapshots: the state of a machine and of its driver as bytes that name what they hold, and back.

*Theory.* A machine gives its state as a struct of plain fields, filters, events and messages (`snapshot`), and takes it
again (`restore`). Here such structs become a document, in MessagePack:

    format    "godwit snapshot"
    version   of this layout
    kinds     by kind of state in it, the version of that kind
    parts     by name, the states; each says its kind in "type"
    filters   each filter once; states name it by its place in this list
    events    likewise

One filter stands in a session, in routing tables and in what each neighbour was told, and one event in the queues of
many clients. Each is written once, and is one object again after reading.

*Rules.*
1. Fields are written by name, so a converter from one version to the next needs nothing but the document.
2. What is read has this format, versions that are known here and fields of their types, or it is a `SnapshotError` that
   says what it is and what was expected. Reading runs no code from the document.
3. `decode(encode(parts))` equals `parts`, dicts in their order.
4. The same codec may be used by several threads, and while a snapshot is written in steps (`Packing`).
5. What is written in steps is the state as it was given: states share nothing changeable with their machine.

*Versions.* A state class has a class attribute `version`. A change of its stored fields, or of a struct within it, must
raise that number: `tests/conventions/test_state_layouts.py` compares with the stored fields of each version.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal, Protocol, cast

import msgspec
from msgspec import Raw

from godwit.broker import placements, reductions
from godwit.broker.advertised import AdvertisedState
from godwit.broker.authorisation import AuthorisationState
from godwit.broker.broker_state import BrokerState
from godwit.broker.effects import Closed, Input, LinkDown, TimerKey
from godwit.broker.further_entries import NoFurtherEntriesState
from godwit.broker.gossip import GossipState
from godwit.broker.graph import GraphState
from godwit.broker.groups import GroupsState
from godwit.broker.gsf import GsfState
from godwit.broker.hop_stream import HopStreamState
from godwit.broker.lost_tail import LostTailState
from godwit.broker.quenching import QuenchingState
from godwit.broker.retained import RetainedState
from godwit.broker.spcf import SpcfState
from godwit.broker.tree_state import TreeState
from godwit.codec.message_codec import BAD, MESSAGES
from godwit.codec.pieces import Steps, Written, pieces_of
from godwit.codec.plain_data import EventTable, attributes_of, bounds_data, described_of, event_to, value_of
from godwit.codec.twins import Shape, Twins, any_of, many_in_steps
from godwit.codec.type_registry import TypeRegistry, version_of
from godwit.errors import SnapshotError
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.language import from_json, to_json
from godwit.mobility.attach_policies.carry import CarryState
from godwit.mobility.attach_policies.junction import JunctionState
from godwit.mobility.attach_policies.presubscribe import PresubscribeState
from godwit.mobility.location_tree import FollowedFiltersState
from godwit.mobility.overlay_routes import OverlayRoutesState
from godwit.mobility.publisher_presence import PublisherPresenceState
from godwit.mobility.relocation import RelocationState
from godwit.mobility.session_entries import SessionEntriesState
from godwit.mobility.transfer_barrier import TransferBarrierState

__all__ = [
    "FORMAT",
    "SNAPSHOTS",
    "STATES",
    "VERSION",
    "DriverState",
    "OpenEnd",
    "Packing",
    "Snapshots",
    "Snapshotted",
    "gone",
    "open_ends",
    "pack",
    "packing",
    "register_states",
    "unpack",
    "unpack_parts",
]

FORMAT = "godwit snapshot"
VERSION = 1

OpenEnd = tuple[Literal["link", "connection"], str]
"""What is open: a link to a neighbour, or a client's connection."""


class DriverState(msgspec.Struct, frozen=True, tag=True):
    """What a driver keeps for its machine: timers that run, what is open, and the machine's time."""

    timers: dict[TimerKey, float]
    open: tuple[OpenEnd, ...]
    now: float


class Document(msgspec.Struct, frozen=True):
    """A snapshot as it is written."""

    format: str
    version: int
    kinds: dict[str, int]
    parts: dict[str, Raw]
    filters: list[Any]
    events: list[EventTable]


class Head(msgspec.Struct, frozen=True):
    """What is looked at first."""

    format: Any = None
    version: Any = None
    kinds: Any = None


STATES = TypeRegistry(
    "state",
    [
        BrokerState,
        TreeState,
        NoFurtherEntriesState,
        FollowedFiltersState,
        GraphState,
        GsfState,
        SpcfState,
        HopStreamState,
        AdvertisedState,
        reductions.NothingState,
        reductions.SimpleState,
        placements.IdentityState,
        placements.CoveringState,
        placements.MergingState,
        AuthorisationState,
        GossipState,
        GroupsState,
        RetainedState,
        LostTailState,
        QuenchingState,
        RelocationState,
        OverlayRoutesState,
        TransferBarrierState,
        PublisherPresenceState,
        SessionEntriesState,
        CarryState,
        JunctionState,
        PresubscribeState,
        DriverState,
    ],
)
"""The states that stand in a snapshot under a name of their own, or where any state may stand."""


def register_states(*kinds: type[msgspec.Struct]) -> None:
    """Let states of these kinds be written and read: frozen structs with `tag=True` and a class attribute `version`."""
    STATES.register(*kinds)


class Snapshots:
    """Writes and reads snapshots."""

    def __init__(self, states: TypeRegistry = STATES, messages: TypeRegistry = MESSAGES) -> None:
        self._states = states
        self._lock = Lock()  # rule 4
        self._tables = _Tables(self)
        self._twins = Twins(self._tables)
        self._encoder = msgspec.msgpack.Encoder()
        self._read = msgspec.msgpack.Decoder(Document)
        self._read_head = msgspec.msgpack.Decoder(Head)
        self._tops: list[Any] = []
        self._versioned: dict[type, str] = {}  # states, and their tags
        messages.on_registered(self._add)
        states.on_registered(self._add_states)

    def _add(self, kinds: Iterable[type[msgspec.Struct]]) -> None:
        self._tops += [self._twins.of(kind) for kind in kinds]
        self._decoder = msgspec.msgpack.Decoder(any_of(self._tops))

    def _add_states(self, kinds: Iterable[type[msgspec.Struct]]) -> None:
        self._versioned.update((kind, cast(str, kind.__struct_config__.tag)) for kind in kinds)
        self._add(kinds)

    # ------------------------------------------------------------ both ways

    def encode(self, parts: Mapping[str, msgspec.Struct]) -> bytes:
        """States by name as bytes."""
        pieces = self.packing(parts).advance(lambda: False)
        assert pieces is not None
        return b"".join(pieces)

    def packing(self, parts: Mapping[str, msgspec.Struct]) -> "Packing":
        """The same bit by bit."""
        return Packing(self, self._writing_all(parts))

    def decode(self, data: bytes) -> dict[str, Any]:
        """The states that were written. `SnapshotError`: what this is, and what can be read here."""
        with self.at_work(_Named()):
            try:
                self._check(data)
                document = self._read.decode(data)
                self._tables.give(document.filters, document.events)
                return {name: self.read(raw) for name, raw in document.parts.items()}
            except (*BAD, LookupError) as error:
                if isinstance(error, SnapshotError):
                    raise
                raise SnapshotError(f"a snapshot that cannot be read: {error}") from None

    @contextmanager
    def at_work(self, named: "_Named") -> Iterator[None]:
        """Work on one document, to which this belongs, and on no other."""
        with self._lock, _without_collecting():
            self._tables.named = named
            try:
                yield
            finally:
                self._tables.named = _Named()

    def _writing_all(self, parts: Mapping[str, msgspec.Struct]) -> Steps:
        written: dict[str, Any] = {}
        for name, state in parts.items():
            written[name] = yield from self.writing(state)
        filters, events = yield from self._tables.taking()
        return pieces_of(Document(FORMAT, VERSION, self._tables.named.kinds, written, filters, events))

    def _check(self, data: bytes) -> None:
        """`SnapshotError` unless format, version and kinds are known."""
        try:
            head = self._read_head.decode(data)
        except msgspec.MsgspecError:
            raise SnapshotError(f"this is not a snapshot: {FORMAT!r} begins otherwise") from None
        if head.format != FORMAT:
            raise SnapshotError(f"this is not a snapshot: its format is {head.format!r}, not {FORMAT!r}")
        if head.version != VERSION:
            raise SnapshotError(f"a snapshot of version {head.version!r}: this version of Godwit reads {VERSION}")
        if type(head.kinds) is not dict:
            raise SnapshotError("a snapshot that does not say what it holds")
        for tag, version in head.kinds.items():
            kind = self._states.get(tag)
            if kind is None:
                raise SnapshotError(f"the snapshot holds a {tag}, version {version}, which is unknown")
            if version != version_of(kind):
                raise SnapshotError(
                    f"the snapshot holds a {tag} of version {version}: this version of Godwit reads {version_of(kind)}"
                )

    # ------------------------------------------------------------ structs of any kind

    def written(self, value: Any) -> Raw:
        """A struct of any kind, with its tag."""
        self._note_version(type(value))
        return Raw(self._encoder.encode(self._twins.lowered(value)))

    def writing(self, value: Any) -> Steps:
        """The same in steps."""
        self._note_version(type(value))
        return Written(pieces_of((yield from self._twins.lowering(value))))

    def _note_version(self, kind: type) -> None:
        if (tag := self._versioned.get(kind)) is not None:
            self._tables.named.kinds[tag] = version_of(kind)

    def read(self, raw: Raw) -> Any:
        """The struct that was written."""
        return self._twins.raised(self._decoder.decode(raw))


class Packing:
    """A snapshot that is being written."""

    def __init__(self, snapshots: Snapshots, steps: Steps) -> None:
        self._snapshots = snapshots
        self._steps = steps
        self._named = _Named()

    def advance(self, is_over: Callable[[], bool]) -> list[bytes] | None:
        """Continue until `is_over`, tested after each step. Returns the snapshot in pieces; None: not finished."""
        with self._snapshots.at_work(self._named):
            try:
                next(self._steps)
                while not is_over():
                    next(self._steps)
            except StopIteration as done:
                return cast(list[bytes], done.value)
        return None


class _Named:
    """What the places in one document stand for, and the kinds of state in it."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}  # by address: an object listed here is alive until it is written
        self.event_places: dict[int, int] = {}
        self.filters: list[Any] = []
        self.events: list[Any] = []
        self.kinds: dict[str, int] = {}


class _Tables:
    """How a snapshot writes filters and events: each once, and its place wherever it stands."""

    def __init__(self, snapshots: Snapshots) -> None:
        self.named = _Named()  # of the document at work
        self.filter = Shape(int, self._place_of_filter, lambda place: self.named.filters[place])
        self.event = Shape(int, self._place_of_event, lambda place: self.named.events[place])
        self.described = Shape(Any, lambda said: said if isinstance(said, dict) else bounds_data(said), described_of)
        self.value = Shape(Any, None, value_of)
        self.attributes = Shape(dict[str, Any], _as_table, attributes_of)
        self.any_struct = Shape(Raw, snapshots.written, snapshots.read, snapshots.writing)
        self._event_steps = many_in_steps(self._table, at_once=0)  # an event may be large
        self._filter_steps = many_in_steps(to_json, at_once=0)  # so may a filter

    def taking(self) -> Steps:
        """All filters and events that were named, in their order."""
        events = yield from self._event_steps(self.named.events)  # these may name further filters
        filters = yield from self._filter_steps(self.named.filters)
        return filters, events

    def give(self, filters: list[Any], events: list[EventTable]) -> None:
        """What places stand for from now on."""
        self.named.filters = [from_json(tree) for tree in filters]
        self.named.events = [self._event(seen) for seen in events]

    def _place_of_filter(self, filter: Filter) -> int:
        named = self.named
        place = named.places.get(id(filter))
        if place is None:
            place = named.places[id(filter)] = len(named.filters)
            named.filters.append(filter)
        return place

    def _place_of_event(self, event: Event) -> int:
        named = self.named
        place = named.event_places.get(id(event))
        if place is None:
            place = named.event_places[id(event)] = len(named.events)
            named.events.append(event)
        return place

    def _table(self, event: Event) -> EventTable:
        return EventTable(
            cast(dict[str, Any], event.attributes),
            event.publisher,
            event.sequence,
            event.payload,
            event.content_type,
            event.published_at,
            event.expires_at,
            None if event.to is None else self._place_of_filter(event.to),
        )

    def _event(self, seen: EventTable) -> Event:
        return event_to(seen, None if seen.to is None else self.named.filters[seen.to])


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Hundreds of thousands of objects are made at once, and none of them is garbage: do not look for any meanwhile."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _as_table(attributes: Any) -> dict[str, Any]:
    return attributes if type(attributes) is dict else dict(attributes)


SNAPSHOTS = Snapshots()
"""All that is registered."""


# ---------------------------------------------------------------- a machine and its driver


def open_ends(gone: Iterable[Input]) -> tuple[OpenEnd, ...]:
    """What is open, by the inputs that a machine would be told when it is gone."""
    return tuple(
        ("link", each.peer) if isinstance(each, LinkDown) else ("connection", cast(Closed, each).connection)
        for each in gone
    )


def gone(ends: Iterable[OpenEnd]) -> dict[Input, None]:
    """What a machine is to be told when all that was open is gone."""
    return {LinkDown(name) if what == "link" else Closed(name): None for what, name in ends}


MACHINE, DRIVER = "machine", "driver"


class Snapshotted(Protocol):
    """A machine whose state can be written down."""

    def snapshot(self) -> msgspec.Struct:
        """All of its state, as a struct of a registered kind."""

    def restore(self, state: Any) -> None:
        """Go on from that state, in a machine freshly made with the same settings."""


def pack(machine: Snapshotted, driver: DriverState) -> bytes:
    """A machine and what its driver keeps for it, as bytes."""
    pieces = packing(machine, driver).advance(lambda: False)
    assert pieces is not None
    return b"".join(pieces)


def packing(machine: Snapshotted, driver: DriverState) -> Packing:
    """The same bit by bit: both as they are now, whatever happens to the machine meanwhile."""
    with _without_collecting():
        return SNAPSHOTS.packing({MACHINE: machine.snapshot(), DRIVER: driver})


def unpack(data: bytes, machine: Snapshotted) -> DriverState:
    """Have a machine that was freshly made go on from a snapshot; what its driver kept."""
    with _without_collecting():
        parts = unpack_parts(data)
        try:
            machine.restore(parts[MACHINE])
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
            raise SnapshotError(f"its parts do not fit together: {type(error).__name__}: {error}") from None
    return cast(DriverState, parts[DRIVER])


def unpack_parts(data: bytes) -> dict[str, Any]:
    """The states in the snapshot of a machine and its driver, by name."""
    parts = SNAPSHOTS.decode(data)
    if parts.keys() != {MACHINE, DRIVER} or not isinstance(parts[DRIVER], DriverState):
        raise SnapshotError(f"a snapshot of {', '.join(parts)}: expected {MACHINE} and {DRIVER}")
    return parts
