"""Which topics cross a bridge, what they are called on the other side, and how a message is kept from going round.

*Theory.* A route is a topic pattern with a prefix for each side, as in Mosquitto's configuration: what is
`local_prefix + x` here is `remote_prefix + x` there. A message that crosses a bridge bears the networks that it has
been in, as user properties `bridge.path` (`Networks`). It does not enter a network that it has been in before. So
neither two bridges to the same system nor a ring of bridges doubles a message or lets it go round.

*Rules.*
1. The first route of a bridge that an event matches carries it. Every event crosses a bridge once.
2. A path has at most `PATH_MAX` networks. A message with more is not carried.
3. A topic that begins with `$` is not carried in: here such topics are not for clients.
"""

from typing import Protocol

import msgspec

from godwit.filters.events import Event
from godwit.mqtt.topics import TopicFilter, matches, topic_filter

__all__ = ["PATH", "Networks", "Route", "TopicMap", "first_route"]

PATH = "bridge.path"
PATH_MAX = 16


class TopicMap(Protocol):
    """What a route is made from: `[[bridge.topics]]`."""

    @property
    def pattern(self) -> str: ...
    @property
    def qos(self) -> int: ...
    @property
    def local_prefix(self) -> str: ...
    @property
    def remote_prefix(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def retain(self) -> bool: ...


class Route(msgspec.Struct, frozen=True):
    """One topic pattern, as both sides see it."""

    local: TopicFilter  # with the content filter
    remote_filter: str
    local_prefix: str
    remote_prefix: str
    qos: int
    retain: bool

    @classmethod
    def of(cls, said: TopicMap) -> "Route":
        """The route that a configuration describes. GodwitError: pattern or content filter are wrong."""
        remote_filter = topic_filter(said.remote_prefix + said.pattern).text
        local = topic_filter(said.local_prefix + said.pattern, *([said.where] if said.where else []))
        return cls(local, remote_filter, said.local_prefix, said.remote_prefix, said.qos, said.retain)

    def to_remote(self, event: Event) -> str | None:
        """What the topic of an event is called over there; None: it does not take this route."""
        if not self.local.matches(event):
            return None
        topics = event.attributes.get("topic")
        for topic in topics if isinstance(topics, tuple) else (topics,):
            if isinstance(topic, str) and topic.startswith(self.local_prefix) and matches(self.local.levels, topic):
                return self.remote_prefix + topic.removeprefix(self.local_prefix)
        return None

    def to_local(self, topic: str) -> str | None:
        """What a topic from over there is called here; None: it does not take this route. (rule 3)"""
        if not topic.startswith(self.remote_prefix) or not matches(self.remote_filter, topic):
            return None
        local = self.local_prefix + topic.removeprefix(self.remote_prefix)
        return local if local and not local.startswith("$") else None


def first_route(routes: tuple[Route, ...], topic: str) -> tuple[Route, str] | None:
    """The route that a topic from over there takes, and what it is called here. (rule 1)"""
    for route in routes:
        if (local := route.to_local(topic)) is not None:
            return route, local
    return None


class Networks(msgspec.Struct, frozen=True):
    """The two networks that a bridge is between."""

    own: str
    remote: str

    def entering(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of a message that has come in; None: it has been here, or went too far. (rule 2)"""
        if self.own in path or len(path) >= PATH_MAX:
            return None
        return path if path[-1:] == (self.remote,) else (*path, self.remote)

    def leaving(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of a message that goes out; None: it has been there, or went too far."""
        if self.remote in path or len(path) >= PATH_MAX:
            return None
        return (*path, self.own)
