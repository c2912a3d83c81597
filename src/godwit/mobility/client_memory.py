"""A bounded memory of clients without a session here: the latest ones."""

from typing import TypeVar

from godwit.broker.messages import NodeId

__all__ = ["CLIENTS_MAX", "remember"]

CLIENTS_MAX = 10_000

What = TypeVar("What")


def remember(memory: dict[NodeId, What], client: NodeId, what: What) -> None:
    """Put it last, and forget the first when there is no room."""
    memory.pop(client, None)
    memory[client] = what
    if len(memory) > CLIENTS_MAX:
        del memory[next(iter(memory))]
