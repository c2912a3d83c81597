"""How a routing family matches an event, for those who ask without routing anything."""

from typing import Any

__all__ = ["match_of"]


def match_of(routing: Any) -> Any:
    """How a routing family matches an event, if it has a matcher of its own; None: it has none."""
    matcher = getattr(routing, "matcher", None)
    if matcher is None or isinstance(matcher, type):  # the graph family has one for clients here
        matcher = getattr(routing, "_local_index", None)
    return getattr(matcher, "match", None)
