"""Registries of the structs that may be written: messages for the wire, and states for snapshots.

*Rules.*
1. A kind is found by its tag, which is its class's name unless the class says otherwise. No two kinds have one tag.
2. A codec knows what is registered, also what is registered after it was made. A part with its own messages must
   register them before the first one is sent.
3. A peer cannot send a state: the two registries are separate, and the wire uses only the first.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

__all__ = ["TypeRegistry", "version_of"]


class TypeRegistry:
    """Tagged structs, by tag."""

    def __init__(self, what: str, kinds: Iterable[type[msgspec.Struct]] = ()) -> None:
        self._what = what  # in errors
        self._by_tag: dict[str, type[msgspec.Struct]] = {}
        self._listeners: list[Callable[[list[type[msgspec.Struct]]], None]] = []
        self.register(*kinds)

    def __iter__(self) -> Any:
        return iter(self._by_tag.values())

    def get(self, tag: str) -> type[msgspec.Struct] | None:
        """The kind with this tag."""
        return self._by_tag.get(tag)

    def register(self, *kinds: type[msgspec.Struct]) -> None:
        """Add kinds. One that already exists may be registered again. TypeError: what is wrong with one."""
        added: list[type[msgspec.Struct]] = []
        for kind in kinds:
            tag = kind.__struct_config__.tag
            if not isinstance(tag, str):
                raise TypeError(f"{kind.__name__} cannot be a {self._what}: declare it with tag=True")
            known = self._by_tag.get(tag)
            if known is not None and known is not kind:
                raise TypeError(f"two kinds of {self._what} are called {tag!r}: {known.__module__} has one already")
            if known is None:
                self._by_tag[tag] = kind
                added.append(kind)
        if added:
            for listener in self._listeners:
                listener(added)

    def on_registered(self, listener: Callable[[list[type[msgspec.Struct]]], None]) -> None:
        """Have `listener` called with what is registered already, and with whatever is from now on."""
        self._listeners.append(listener)
        listener(list(self._by_tag.values()))


def version_of(kind: type) -> int:
    """The version of a state's layout: its class attribute `version`; 1 when it has none."""
    return int(getattr(kind, "version", 1))
