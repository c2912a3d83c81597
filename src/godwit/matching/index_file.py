"""The index in a file: written once, mapped by many processes.

*Theory.* A file is a header, metadata as MessagePack, and the arrays of the layout as they lie in memory. Loading reads
the metadata and maps the rest copy-on-write: a page is shared by all processes until one of them writes to it, so a
loaded index is matched at once and changed like any other. What only changes need (the number of an id, the number of a
shared formula) is built when the first change comes; a filter that is asked exactly is read when the first event asks.

*Rules.*
1. A file is whole or not there: it is written beside its name and renamed.
2. A file that is cut off, foreign, or from an index that lays its arrays out in another way is refused.
3. Nothing here names an array of the layout: all are saved but those that `_scratch` makes again.
"""

import os
import secrets
import struct
import sys
from array import array
from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from godwit.errors import IndexFileError
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.filters.filters import And, Filter, Or
from godwit.filters.language.json_form import from_json, to_json
from godwit.filters.values import INT_MAX, INT_MIN, Kind, Point
from godwit.matching import access_paths, filter_compiler, kernels, labels, layout
from godwit.matching.filter_compiler import Compiler, IndexedAttribute
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.kernels import DEAD
from godwit.matching.labels import Constants, Slot
from godwit.matching.layout import Layout
from godwit.matching.matcher import SubscriptionId
from godwit.matching.topic_shapes import TopicShapes

__all__ = ["load", "save"]

MAGIC = b"GODWITIX"
FORMAT = 3  # to be raised when the same arrays come to mean something else
HEADER = struct.Struct(
    "<8sIIQQ16s16s"
)  # magic, format, 0, length of metadata, of the file; digest of arrays, of the rest
ALIGNMENT = 64
PAGE = 4_096
LONG_INT = 1  # the MessagePack extension for an int beyond 64 bits

Array = npt.NDArray[Any]
FilePath = str | os.PathLike[str]


class Metadata(msgspec.Struct, array_like=True):
    """All of an index except the arrays."""

    made_by: str  # a fingerprint of the code: who lays out otherwise cannot read this
    given: int
    alive: int
    stamp: int
    ids: list[Any] | None  # None when they are ints, and so an array
    due: list[tuple[int | float, int, int]]  # when, in which order, which subscription
    due_number: int
    columns: dict[str, tuple[int, bool, list[int | None], dict[str, int], dict[str, int]]]
    slots: list[tuple[dict[str, bool], dict[int, tuple[Any, bytes, bool]]]]  # what it is, and its constants by kind
    nodes: int
    counters: tuple[int, int, int]
    sample: list[dict[str, Any]]
    scalars: dict[str, int]
    arrays: list[tuple[str, str, list[int], int]]  # name, type, shape, place


# ---------------------------------------------------------------- saving


def save(index: IndexMatcher, path: FilePath) -> None:
    """Write the index to a file that `load` maps. Ids must be ints, texts, or tuples of those."""
    index._ready(0)
    compiler = index._compiler
    try:
        scalars, arrays = _state(index._layout, len(compiler.slots))
        arrays |= _packed_nodes(compiler.nodes) | _packed_residuals(compiler.residuals)
        if index._ids.dtype != object:
            arrays["ids"] = index._ids
        places, total = _places(arrays)
        metadata = msgspec.msgpack.encode(_metadata(index, scalars, arrays, places))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise IndexFileError(f"the index holds what cannot be written to a file: {error}") from error
    _write(Path(path), metadata, [(places[name], np.ascontiguousarray(each)) for name, each in arrays.items()], total)


def _metadata(
    index: IndexMatcher, scalars: dict[str, int], arrays: dict[str, Array], places: dict[str, int]
) -> Metadata:
    compiler = index._compiler
    return Metadata(
        made_by=_fingerprint(),
        given=index._given,
        alive=len(index._numbers),
        stamp=index._stamp,
        ids=None if "ids" in arrays else [_plain_id(id) for id in index._ids[: index._given]],
        due=[(at, n, index._numbers[id]) for at, n, id in sorted(index._due) if index._expires.get(id) == at],
        due_number=index._due_number,
        columns={_name(name): _plain_column(column) for name, column in compiler.columns.items()},
        slots=[
            (_flags(slot), {int(kind): _plain_constants(each) for kind, each in slot.constants.items()})
            for slot in compiler.slots
        ],
        nodes=len(compiler.nodes),
        counters=(compiler.tests_before, compiler.rows_before, compiler.nodes_before),
        sample=[dict(attributes) for attributes in index._sample],
        scalars=scalars,
        arrays=[(name, each.dtype.str, list(each.shape), places[name]) for name, each in arrays.items()],
    )


def _state(lay: Layout, slots: int) -> tuple[dict[str, int], dict[str, Array]]:
    """What a layout holds, numbers and arrays by name, but for what `_scratch` makes again."""
    lay.growing_maps = None
    before = dict(vars(lay))
    lay._scratch(max(slots, len(lay.bin_rows)))
    scalars: dict[str, int] = {}
    arrays: dict[str, Array] = {}
    for name, value in before.items():
        if value is not vars(lay)[name] or callable(value) or value is None:
            continue
        if isinstance(value, np.ndarray):
            arrays[f"layout.{name}"] = value
        elif isinstance(value, tuple):
            arrays |= {f"layout.{name}.{number}": each for number, each in enumerate(value)}
        else:
            scalars[name] = int(value)
    return scalars, arrays


def _packed_nodes(nodes: "MutableMapping[Filter, int]") -> dict[str, Array]:
    """Shared formulas in the order of their numbers, each part that is a formula itself as its number."""
    packed = []
    for node, number in sorted(nodes.items(), key=lambda item: item[1]):
        assert isinstance(node, And | Or)
        parts = [nodes[part] >> 2 if isinstance(part, And | Or) else to_json(part) for part in node.parts]
        packed.append((number, isinstance(node, And), parts))
    return {"nodes": np.frombuffer(msgspec.msgpack.encode(packed), dtype=np.uint8)}


def _packed_residuals(residuals: "MutableMapping[int, tuple[Filter, ...]]") -> dict[str, Array]:
    """The filters to be asked exactly, row by row, so that each can be read by itself."""
    rows = sorted(residuals)
    packed = [msgspec.msgpack.encode([to_json(part) for part in residuals[row]]) for row in rows]
    return {
        "residuals.rows": np.array(rows, dtype=np.int64),
        "residuals.starts": np.cumsum([0, *map(len, packed)], dtype=np.int64),
        "residuals.packed": np.frombuffer(b"".join(packed), dtype=np.uint8),
    }


def _plain_id(id: Any) -> Any:
    if type(id) is int and INT_MIN <= id <= INT_MAX:
        return id
    if type(id) is int:
        return msgspec.msgpack.Ext(LONG_INT, id.to_bytes(id.bit_length() // 8 + 1, "big", signed=True))
    if type(id) is tuple:
        return [_plain_id(part) for part in id]
    if type(id) is not str:
        raise TypeError(f"id {id!r} is a {type(id).__name__}: a file takes ints, texts, and tuples of those")
    return id


def _name(name: str) -> str:
    if not 0 < len(name) <= NAME_LENGTH_MAX:  # then no filter with it could be read again
        raise ValueError(f"attribute name {name[:60]!r}: a name has 1 to {NAME_LENGTH_MAX} characters")
    return name


def _plain_column(column: IndexedAttribute) -> tuple[int, bool, list[int | None], dict[str, int], dict[str, int]]:
    aspects = [None if slot is None else slot.number for slot in (column.backwards, column.longitude, column.latitude)]
    topics = {} if column.topics is None else dict(column.topics.items())
    return column.slot.number, column.plain, aspects, column.patterns, topics


def _flags(slot: Slot) -> dict[str, bool]:
    return {name: value for name in Slot.__slots__ if type(value := getattr(slot, name)) is bool}


def _plain_constants(constants: Constants) -> tuple[Any, bytes, bool]:
    """Keys, labels, and whether a dict finds them."""
    keys = constants.keys
    if isinstance(keys, array):
        keys = keys.tobytes()
    else:  # an int beyond 64 bits was a float
        keys = [float(key) if type(key) is int and not INT_MIN <= key <= INT_MAX else key for key in keys]
    return keys, constants.labels.tobytes(), constants.equal is not None


def _places(arrays: dict[str, Array]) -> tuple[dict[str, int], int]:
    """Where each array goes, counted from the first page of arrays, and how long they are together."""
    places, end = {}, 0
    for name, each in arrays.items():
        alignment = PAGE if each.nbytes >= PAGE else ALIGNMENT
        places[name] = -(-end // alignment) * alignment
        end = places[name] + each.nbytes
    return places, end


def _write(path: Path, metadata: bytes, arrays: list[tuple[int, Array]], total: int) -> None:
    first = _first_page(len(metadata))
    digest = blake2b(digest_size=16)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.seek(first)
            at = 0
            for place, each in arrays:
                for part in (bytes(place - at), each.reshape(-1).view(np.uint8).data):
                    file.write(part)
                    digest.update(part)
                at = place + each.nbytes
            head = HEADER.pack(MAGIC, FORMAT, 0, len(metadata), first + total, digest.digest(), bytes(16))
            file.seek(0)
            file.write(head[:-16] + _digest(head[:-16], metadata) + metadata)
            file.truncate(first + total)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _first_page(metadata_length: int) -> int:
    return -(-(HEADER.size + metadata_length) // PAGE) * PAGE


def _digest(*parts: Any) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Changes with every constant that says how arrays are laid out, and with the arrays there are."""
    numbers = [
        (module.__name__, name, value)
        for module in (filter_compiler, kernels, labels, layout, access_paths)
        for name, value in sorted(vars(module).items())
        if name.isupper() and type(value) is int
    ]
    scalars, arrays = _state(Layout(), 1)
    shapes = [(name, each.dtype.str, each.ndim) for name, each in arrays.items()]
    return _digest(repr((sys.byteorder, numbers, sorted(scalars), shapes)).encode()).hex()


# ---------------------------------------------------------------- loading


def load(path: FilePath, verify: bool = False) -> IndexMatcher:
    """The index in a file, its arrays mapped. With `verify` every byte is checked, otherwise all but the arrays."""
    metadata, mapped = _read(Path(path), verify)
    arrays: dict[str, Array] = {}
    for name, dtype, shape, place in metadata.arrays:
        length = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        arrays[name] = mapped[place : place + length].view(dtype).reshape(shape)
    index = IndexMatcher()
    index._given, index._stamp, index._due_number = metadata.given, metadata.stamp, metadata.due_number
    if metadata.ids is None:
        index._ids = arrays["ids"]
    else:
        index._ids = np.fromiter(map(_revived, metadata.ids), dtype=object, count=len(metadata.ids))
    index._sample.extend({name: _revived(value) for name, value in each.items()} for each in metadata.sample)
    _fill_compiler(index._compiler, metadata, arrays)
    index._encoder.changed()
    _fill_layout(index._layout, metadata, arrays)
    alive = np.flatnonzero(index._layout.stamps[: index._given] != DEAD)
    Deferred(index, "_numbers", metadata.alive, lambda: _numbers(index, alive))
    index._due = [(at, n, index._ids[number : number + 1].tolist()[0]) for at, n, number in metadata.due]
    index._expires = {id: at for at, _, id in index._due}
    return index


def _read(path: Path, verify: bool) -> tuple[Metadata, Array]:
    """The metadata of a file and its mapped arrays as bytes, or `IndexFileError`."""
    with path.open("rb") as file:
        head = file.read(HEADER.size)
        size = os.fstat(file.fileno()).st_size
        if not head.startswith(MAGIC):
            raise IndexFileError(f"{path} is not an index: it does not begin with {MAGIC.decode()}")
        if len(head) < HEADER.size:
            raise IndexFileError(f"{path} is cut off after {size} bytes")
        _, format, _, metadata_length, length, arrays_digest, digest = HEADER.unpack(head)
        if format != FORMAT:
            raise IndexFileError(f"{path} has format {format}, this Godwit reads format {FORMAT}: save the index again")
        if size != length or _first_page(metadata_length) > length:
            raise IndexFileError(f"{path} is cut off or changed: it has {size} bytes and should have {length}")
        text = file.read(metadata_length)
        if _digest(head[:-16], text) != digest:
            raise IndexFileError(f"{path} is damaged: its metadata is not what was written")
        mapped = np.memmap(file, dtype=np.uint8, mode="c")[_first_page(metadata_length) :].view(np.ndarray)
    if verify and _digest(mapped) != arrays_digest:
        raise IndexFileError(f"{path} is damaged: its arrays are not what was written")
    try:
        metadata = msgspec.msgpack.decode(text, type=Metadata)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise IndexFileError(f"{path} cannot be read: {error}") from error
    if metadata.made_by != _fingerprint():
        raise IndexFileError(f"{path} was made by another version of the index: save it again")
    return metadata, mapped


def _fill_compiler(compiler: Compiler, metadata: Metadata, arrays: dict[str, Array]) -> None:
    compiler.slots.clear()
    for number, (flags, constants) in enumerate(metadata.slots):
        slot = Slot(number, compiler.waiting)
        for name, flag in flags.items():
            setattr(slot, name, flag)
        slot.constants = {Kind(kind): _constants(Kind(kind), *each) for kind, each in constants.items()}
        compiler.slots.append(slot)
    for name, (number, plain, aspects, patterns, topics) in metadata.columns.items():
        column = compiler.columns[sys.intern(name)] = IndexedAttribute(compiler.slots[number])
        column.plain, column.patterns, column.topics = plain, patterns, TopicShapes.of(topics)
        column.backwards, column.longitude, column.latitude = (
            None if number is None else compiler.slots[number] for number in aspects
        )
    compiler.tests_before, compiler.rows_before, compiler.nodes_before = metadata.counters
    nodes = arrays["nodes"]
    Deferred(compiler, "nodes", metadata.nodes, lambda: _nodes(nodes))
    saved = Residuals(arrays["residuals.rows"], arrays["residuals.starts"], arrays["residuals.packed"])
    compiler.residuals = saved  # type: ignore[assignment]


def _constants(kind: Kind, keys: Any, label_bytes: bytes, by_equality: bool) -> Constants:
    constants = Constants(kind)
    if isinstance(keys, bytes):
        constants.keys = array("d", keys)
    else:
        constants.keys = list(map(_revived, keys)) if kind is Kind.POINT else keys
    constants.labels.frombytes(label_bytes)
    constants.look_up_by_equality(by_equality)
    return constants


def _fill_layout(lay: Layout, metadata: Metadata, arrays: dict[str, Array]) -> None:
    tuples: dict[str, list[Array]] = {}
    for name, each in arrays.items():
        match name.split("."):
            case ["layout", attribute]:
                setattr(lay, attribute, each)
            case ["layout", attribute, _]:
                tuples.setdefault(attribute, []).append(each)
    for attribute, parts in tuples.items():
        setattr(lay, attribute, tuple(parts))
    for attribute, number in metadata.scalars.items():
        setattr(lay, attribute, number)
    lay._scratch(max(len(metadata.slots), len(lay.bin_rows)))


def _numbers(index: IndexMatcher, alive: Array) -> dict[SubscriptionId, int]:
    return dict(zip(index._ids[alive].tolist(), alive.tolist(), strict=True))


def _revived(data: Any) -> Any:
    """What `Metadata` turned into plain data: tuples, points, long ints."""
    if type(data) is list:
        return tuple(map(_revived, data))
    if type(data) is dict:
        return Point(**data)
    return int.from_bytes(data.data, "big", signed=True) if type(data) is msgspec.msgpack.Ext else data


def _nodes(packed: Array) -> dict[Filter, int]:
    nodes: dict[Filter, int] = {}
    by_number: dict[int, Filter] = {}
    for number, is_and, parts in msgspec.msgpack.decode(packed.data):
        filters = tuple(by_number[part] if type(part) is int else from_json(part) for part in parts)
        node = by_number[number >> 2] = And(filters) if is_and else Or(filters)
        nodes[node] = number
    return nodes


class Deferred(MutableMapping[Any, Any]):
    """Stands in for a dict that is an attribute of `owner`; makes it when asked for more than its length."""

    def __init__(self, owner: Any, name: str, length: int, make: Callable[[], dict[Any, Any]]) -> None:
        self._owner, self._name, self._length, self._make = owner, name, length, make
        setattr(owner, name, self)

    def _made(self) -> dict[Any, Any]:
        if getattr(self._owner, self._name) is self:
            setattr(self._owner, self._name, self._make())
        made: dict[Any, Any] = getattr(self._owner, self._name)
        return made

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: Any) -> Any:
        return self._made()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._made()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._made()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made())


class Residuals(MutableMapping[int, tuple[Filter, ...]]):
    """The filters to be asked exactly, by row: those of the file, read when first asked for, and those added since."""

    def __init__(self, rows: Array, starts: Array, packed: Array) -> None:
        self._rows, self._starts, self._packed = rows, starts, packed
        self._read: dict[int, tuple[Filter, ...]] = {}

    def __getitem__(self, row: int) -> tuple[Filter, ...]:
        parts = self._read.get(row)
        if parts is None:
            at = int(np.searchsorted(self._rows, row))
            if at == len(self._rows) or self._rows[at] != row:
                raise KeyError(row)
            data = msgspec.msgpack.decode(self._packed[self._starts[at] : self._starts[at + 1]].data)
            parts = self._read[row] = tuple(map(from_json, data))
        return parts

    def __setitem__(self, row: int, parts: tuple[Filter, ...]) -> None:
        self._read[row] = parts

    def __delitem__(self, row: int) -> None:
        del self._read[row]  # of those added since: those of the file are forgotten all at once, by making another dict

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys([*self._rows.tolist(), *self._read]))

    def __len__(self) -> int:
        return sum(1 for _ in self)
