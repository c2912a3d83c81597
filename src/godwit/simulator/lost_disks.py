"""Lost disks: the brokers without their disk, and the clients that lost their session with one.

*Rules.*
1. A broker is in `brokers` from the loss of its disk until it restarts.
2. A client is in `clients` from the loss of its session until it is attached again and everything is quiet.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from godwit.broker.effects import Heard
from godwit.broker.messages import Publish, Received, Request, Retain
from godwit.filters.events import Event

__all__ = ["LostDisks", "clients_within", "events_within"]


class LostDisks:
    """The brokers and clients affected by disk losses."""

    def __init__(self) -> None:
        self.has_lost_any = False
        self.has_lost_whole = False  # a disk, not only its last inputs
        self.brokers: dict[str, None] = {}  # that are down and have lost their disk
        self.clients: dict[str, None] = {}  # whose session is lost, and which have not been told yet

    def lose(self, broker: str) -> None:
        """A broker has lost its disk."""
        self.brokers[broker] = None

    def lose_session(self, client: str) -> None:
        """A client's session was on a lost disk."""
        self.clients[client] = None

    def restarted(self, broker: str) -> None:
        """A broker runs again, with a new disk or the old one."""
        self.brokers.pop(broker, None)

    def forget_clients(self, is_attached: Callable[[str], bool]) -> None:
        """Those that are attached have been told, and have made their requests again."""
        self.clients = {name: None for name in self.clients if not is_attached(name)}


# ---------------------------------------------------------------- what is in an input


def events_within(input: Any) -> Iterator[tuple[str, int]]:
    """The events that an input or a message carries, however they are wrapped."""
    return (value.id for value in _values(input) if isinstance(value, Event))


def clients_within(input: Any) -> Iterator[str]:
    """The clients whose sessions an input may change, other than by events and confirmations."""
    if isinstance(input, Heard):
        message = input.message
        is_event = isinstance(message, Request) and isinstance(message.wish, Publish | Retain)
        if not is_event and not isinstance(message, Received):
            yield input.connection.partition("#")[0]
        return
    for value in _values(input):
        if isinstance(value, msgspec.Struct) and isinstance(client := getattr(value, "client", None), str):
            yield client


def _values(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _values(getattr(value, name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _values(each)
