"""Godwit: publish/subscribe for things that move.

Subscribers select events by content, by place and by the sender's context. Brokers form a network, and clients move
between them: no event is lost or duplicated, and the order of each publisher is kept.

    async with godwit.connect("127.0.0.1:7077", name="ann") as client:
        async for event in await client.subscribe("kind = 'parking' AND cost < 3"):
            ...

The rooms of the package, from the lowest up, are described in docs/architecture.md. Names are imported when they are
first used, so that `import godwit` costs nothing. Import other names from their room, such as `godwit.filters`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from godwit import testing
    from godwit.broker.messages import QueueRules
    from godwit.errors import GodwitError, NotConnected, Refused
    from godwit.filters.events import Event, event
    from godwit.runtime.blocking import connect_blocking
    from godwit.runtime.connecting import connect

__all__ = [
    "Event",
    "GodwitError",
    "NotConnected",
    "QueueRules",
    "Refused",
    "__version__",
    "connect",
    "connect_blocking",
    "event",
    "testing",
]

__version__ = "0.1.0.dev0"

_ROOMS = {
    "Event": "filters.events",
    "GodwitError": "errors",
    "NotConnected": "errors",
    "QueueRules": "broker.messages",
    "Refused": "errors",
    "connect": "runtime.connecting",
    "connect_blocking": "runtime.blocking",
    "event": "filters.events",
}  # the module of each public name


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("godwit.testing")
    if name not in _ROOMS:
        raise AttributeError(f"module 'godwit' has no attribute {name!r}")
    return getattr(import_module(f"godwit.{_ROOMS[name]}"), name)
