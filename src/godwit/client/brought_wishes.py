"""The subscriptions and advertisements that a client sends to another broker: all that its session may hold."""

from collections.abc import Iterable, Mapping
from typing import cast

from godwit.broker.messages import Advertise, Request, Subscribe
from godwit.client.request_outbox import Topic, Wish, topic_of

__all__ = ["wishes_to_bring"]


def wishes_to_bring(
    mode: str, wanted: Mapping[Topic, Wish], granted: Mapping[Topic, Wish], under_way: Iterable[Request]
) -> tuple[Subscribe | Advertise, ...]:
    """All that the session may hold, granted or under way, but for subscriptions that are not wanted any more.

    In the mode `carry` the new broker begins with what is wanted now; in `naive`, `ask`, `named` it hears nothing.
    """
    if mode in ("naive", "ask", "named"):
        return ()
    if mode == "carry":
        return tuple(wish for wish in wanted.values() if isinstance(wish, Subscribe | Advertise))
    said = (*granted.values(), *(cast(Wish, request.wish) for request in under_way))
    held = [wish for wish in said if isinstance(wish, Subscribe | Advertise)]
    return tuple(wish for wish in held if isinstance(wish, Advertise) or topic_of(wish) in wanted)
