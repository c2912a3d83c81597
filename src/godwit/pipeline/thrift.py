"""Thrift's compact protocol, the format of Parquet's metadata: structures are read and written field by field.

*Theory.* Everything is kept as read: a structure is a dictionary of fields by number, a field its wire type and its
value, a list the wire type of its items and the items. So metadata of other writers can be copied without knowing every
field.

*Rules.*
1. Reading and writing gives the same bytes, if the writer used the shortest form of each number.
2. Truncated data, or a type that Parquet's metadata never have, is an error.
"""

from typing import Any

__all__ = ["BINARY", "I32", "I64", "LIST", "STRUCT", "Struct", "ThriftError", "read", "varint", "written"]

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
RAW_BYTES = {I8: 1, DOUBLE: 8}  # kept as bytes
DEPTH_MAX = 32
LONG_LIST = 15  # a list has fewer items, or a varint with their number

Struct = dict[int, tuple[int, Any]]


class ThriftError(ValueError):
    """Invalid bytes, or an unknown type."""


def read(data: bytes) -> Struct:
    """The structure at the beginning of the bytes."""
    try:
        return _read_struct(data, 0, 0)[0]
    except IndexError:
        raise ThriftError("a structure is truncated") from None


def _read_struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > DEPTH_MAX:
        raise ThriftError(f"structures are nested more than {DEPTH_MAX} deep")
    found: Struct = {}
    number = 0
    while head := data[at]:
        at, kind = at + 1, head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_int(data, at)
        if kind in (TRUE, FALSE):
            found[number] = kind, None
        else:
            value, at = _read_value(data, at, kind, depth)
            found[number] = kind, value
    return found, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (I16, I32, I64):
        return _read_int(data, at)
    if kind == BINARY:
        size, at = _read_varint(data, at)
        return _read_raw(data, at, size)
    if kind in RAW_BYTES:
        return _read_raw(data, at, RAW_BYTES[kind])
    if kind == STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind == LIST:
        return _read_list(data, at, depth + 1)
    raise ThriftError(f"wire type {kind} is not known here")


def _read_list(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    head, at = data[at], at + 1
    size, kind = head >> 4, head & 15
    if size == LONG_LIST:
        size, at = _read_varint(data, at)
    items = []
    for _ in range(size):
        item, at = _read_value(data, at, kind, depth)
        items.append(item)
    return (kind, items), at


def _read_raw(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise IndexError
    return data[at : at + size], at + size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while data[at] & 128:
        found |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return found | data[at] << shift, at + 1


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    found, at = _read_varint(data, at)
    return (found >> 1) ^ -(found & 1), at


# ---------------------------------------------------------------- writing


def written(struct: Struct) -> bytes:
    """A structure as bytes."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def varint(number: int) -> bytes:
    """A number from 0 on, seven bits to a byte, the lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _write_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(struct.items()):
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out.append(kind)
            out += varint(_zigzag(number))
        before = number
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        out += varint(_zigzag(value))
    elif kind == BINARY:
        out += varint(len(value)) + value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind == LIST:
        item_kind, items = value
        out.append(min(len(items), LONG_LIST) << 4 | item_kind)
        if len(items) >= LONG_LIST:
            out += varint(len(items))
        for item in items:
            _write_value(out, item_kind, item)
    else:
        out += value


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else ~number << 1 | 1
