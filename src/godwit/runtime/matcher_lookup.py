"""The matcher of a routing family, to match an event without routing it."""

from typing import Any

__all__ = ["match_of"]


def match_of(routing: Any) -> Any:
    """The match function of a routing family; None if it has no matcher."""
    matcher = getattr(routing, "matcher", None)
    if matcher is None or isinstance(matcher, type):  # the graph family has one for local clients
        matcher = getattr(routing, "local_index", None)
    return getattr(matcher, "match", None)
