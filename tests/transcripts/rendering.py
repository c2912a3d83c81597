"""Machine inputs and effects as text, one line each. Shortened where nothing is lost, and nowhere else.

*Rules.*
1. A struct is written `Name(required fields, optional=...)`: required fields by position, optional fields by name and
   only where they differ from their default. `signature` writes the fields and defaults of a type; `types.txt` has the
   signatures of all types.
2. A filter is written in the filter language, in backquotes: that text parses back to an equal filter.
3. An event is written in full when it is new or differs from the last one with its publisher and number, and as
   `Event P/3` after that.
4. The time of a timer is written relative to the time of the input (`+0.05`) when adding the two gives it exactly.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from godwit.broker.effects import StartTimer
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.language import to_text

__all__ = ["Writer", "signature"]

REQUIRED = object()


class Writer:
    """Writes values, and remembers which events and types it has written."""

    def __init__(self) -> None:
        self.types: dict[str, type] = {}
        self._events: dict[tuple[str, int], str] = {}

    def written(self, value: Any, now: float = 0.0) -> str:
        """`value` as text."""
        if isinstance(value, StartTimer):
            self._add(StartTimer)
            return f"StartTimer({self.written(value.key)}, {_time(value.at, now)})"
        if isinstance(value, Filter):
            return f"`{to_text(value)}`"
        if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
            text = self._struct(value)
            if not isinstance(value, Event):
                return text
            known = self._events.get(value.id)
            self._events[value.id] = text
            return f"Event {value.publisher}/{value.sequence}" if text == known else text
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{self.written(key)}: {self.written(part)}" for key, part in value.items()) + "}"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.written, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.written, value))}]"
        assert value is None or isinstance(value, str | bytes | int | float), f"cannot write a {type(value).__name__}"
        return repr(value)

    def _struct(self, value: Any) -> str:
        kind = type(value)
        self._add(kind)
        written = []
        for name, default in _fields(kind):
            part = getattr(value, name)
            if default is REQUIRED:
                written.append(self.written(part))
            elif type(part) is not type(default) or part != default:
                written.append(f"{name}={self.written(part)}")
        return f"{kind.__name__}({', '.join(written)})"

    def _add(self, kind: type) -> None:
        assert self.types.setdefault(kind.__name__, kind) is kind, f"two types are called {kind.__name__}"


def _time(at: float, now: float) -> str:
    """Rule 4."""
    after = round(at - now, 6)
    return f"+{after!r}" if now + after == at else repr(at)


def signature(kind: type) -> str:
    """The fields of a type and their defaults."""
    write = Writer().written
    fields = [name if default is REQUIRED else f"{name}={write(default)}" for name, default in _fields(kind)]
    return f"{kind.__name__}({', '.join(fields)})"


def _fields(kind: type) -> Iterator[tuple[str, Any]]:
    """The names of the fields and their defaults."""
    if issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            if field.default_factory is not msgspec.NODEFAULT:
                yield field.name, field.default_factory()
            else:
                yield field.name, REQUIRED if field.default is msgspec.NODEFAULT else field.default
        return
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        yield one.name, REQUIRED if one.default is dataclasses.MISSING else one.default
