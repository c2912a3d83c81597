"""Machines and parts that are written down and made again, as by a driver with a disk."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from godwit.codec import STATES, Kinds, Snapshots

__all__ = ["read_again", "reborn", "restored"]

Part = TypeVar("Part")


@cache
def _codec(kind: type) -> tuple[type[msgspec.Struct], Snapshots]:
    """A struct that holds a state of any type, and what writes it."""
    holder = msgspec.defstruct(f"Holds{kind.__name__}", [("state", kind)], tag=True, frozen=True)
    return holder, Snapshots(Kinds("state", [*STATES, holder]))


def read_again(state: Any) -> Any:
    """A state as it comes back from a disk: equal to what it was, dicts in their order."""
    kind: Any = type(state)
    holder, codec = _codec(kind)
    read = codec.decode(codec.encode({"part": holder(state)}))["part"].state
    assert read == state
    assert repr(read) == repr(state)
    return read


def restored(part: Any, fresh: Part) -> Part:
    """`fresh`, made with the settings of `part`, goes on as `part` was."""
    fresh.restore(read_again(part.snapshot()))  # type: ignore[attr-defined]
    return fresh


def reborn(broker: Any) -> Any:
    """A broker that has stopped and was started again from its disk."""
    more = {"movements": broker.movements, "moving": broker.moving} if hasattr(broker, "moving") else {}
    neighbours = dict.fromkeys(broker.links, 1.0)
    return restored(broker, type(broker)(broker.name, neighbours, broker.config, broker.incarnation, **more))
