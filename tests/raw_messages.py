"""Messages as the other end of a connection reads them, for tests that put anything at all into a message.

Machines rely on the decoder for the types of fields. So a test that sends something of a wrong type writes it as
MessagePack, as a hostile peer would, and lets the decoder read it before a machine hears of it.
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import And, Missing, Only, Or, Some
from godwit.filters.language import to_json
from godwit.filters.values import Point
from godwit.runtime.wire import JSON, NATIVE

__all__ = ["plain", "read", "read_all"]


def read(message: Any) -> Any:
    """The message as it is read; `PeerFault` when the decoder refuses it.

    It is written as MessagePack, or as JSON if it holds numbers that only JSON has. A number that is too long for
    either goes to the machine as it is.
    """
    try:
        return NATIVE.decode(msgspec.msgpack.encode(plain(message)))
    except UnicodeEncodeError as error:
        raise PeerFault(f"no text can be sent that is not valid UTF-8: {error}") from None
    except OverflowError:
        pass
    try:
        data = json.dumps(plain(message, as_json=True)).encode()
    except ValueError:
        return message
    return JSON.decode(data)


def read_all(messages: Iterable[Any]) -> list[Any]:
    """Those messages that the decoder lets through, as they are read. All others are refused, with `PeerFault`."""
    found: list[Any] = []
    for message in messages:
        with suppress(PeerFault):
            found.append(read(message))
    return found


def plain(thing: Any, *, as_json: bool = False) -> Any:
    """Anything as plain data: a message as the codec writes it, whatever its fields hold."""
    inner = partial(plain, as_json=as_json)
    if isinstance(thing, msgspec.Struct):
        tag = thing.__struct_config__.tag
        fields = {name: inner(getattr(thing, name)) for name in thing.__struct_fields__}
        return fields if tag is None else {"type": tag, **fields}
    if isinstance(thing, Event):
        names = ("publisher", "sequence", "attributes", "payload", "content_type", "published_at", "expires_at", "to")
        event = {name: inner(getattr(thing, name)) for name in names}
        return event if as_json else list(event.values())
    if isinstance(thing, And | Or | Missing | Some | Only):
        return _filter(thing)
    if isinstance(thing, Point):
        return {"lon": thing.lon, "lat": thing.lat}
    if isinstance(thing, dict):
        return {name: inner(value) for name, value in thing.items()}
    if isinstance(thing, tuple | list):
        return [inner(each) for each in thing]
    if thing is None or isinstance(thing, str | int | float):
        return thing
    if as_json:
        return b64encode(thing).decode() if isinstance(thing, bytes) else {"$": type(thing).__name__}
    return thing if isinstance(thing, bytes | datetime) else msgspec.msgpack.Ext(1, b"")


def _filter(filter: Any) -> Any:
    try:
        return to_json(filter)
    except (TypeError, AttributeError):  # something in it is not a filter, or no set of values
        if isinstance(filter, And | Or):
            return {"all" if isinstance(filter, And) else "any": plain(filter.parts)}
        return {type(filter).__name__.lower(): plain(filter.attribute), "in": plain(getattr(filter, "values", None))}
