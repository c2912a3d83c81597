"""Routes of a bridge: topics, their names on the other side, and the prevention of loops.

*Theory.* A route is a topic pattern with a prefix for each side, as in Mosquitto's configuration: what is
`local_prefix + x` here is `remote_prefix + x` there. A message that crosses a bridge lists the networks that it has
been in, as user properties `bridge.path` (`Networks`). It does not enter a network again. So neither two bridges to the
same system nor a ring of bridges duplicates a message or lets it loop.

*Rules.*
1. The first route of a bridge that an event matches carries it. Every event crosses a bridge once.
2. A path has at most `PATH_MAX` networks. A message with more is not carried.
3. A topic that begins with `$` is not carried in: clients must not publish to such topics.
"""

from typing import Protocol

import msgspec

from godwit.filters.events import Event
from godwit.mqtt.topics import TopicFilter, matches, topic_filter

__all__ = ["PATH", "Networks", "Route", "TopicMap", "first_route"]

PATH = "bridge.path"
PATH_MAX = 16


class TopicMap(Protocol):
    """The configuration of a route: `[[bridge.topics]]`."""

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
    @property
    def kafka_topic(self) -> str: ...


class Route(msgspec.Struct, frozen=True):
    """One topic pattern, as both sides see it."""

    local: TopicFilter  # with the content filter
    remote_filter: str
    local_prefix: str
    remote_prefix: str
    qos: int
    retain: bool
    kafka_topic: str = ""

    @classmethod
    def of(cls, said: TopicMap) -> "Route":
        """The route of a configuration. GodwitError: pattern or content filter are invalid."""
        remote_filter = topic_filter(said.remote_prefix + said.pattern).text
        local = topic_filter(said.local_prefix + said.pattern, *([said.where] if said.where else []))
        prefixes = said.local_prefix, said.remote_prefix
        return cls(local, remote_filter, *prefixes, said.qos, said.retain, said.kafka_topic)

    @property
    def name(self) -> str:
        """A key of the remote topics that this route carries."""
        return f"{self.kafka_topic}:{self.remote_filter}"

    def to_remote(self, event: Event) -> str | None:
        """The remote topic of an event; None if it does not take this route."""
        if not self.local.matches(event):
            return None
        topics = event.attributes.get("topic")
        for topic in topics if isinstance(topics, tuple) else (topics,):
            if isinstance(topic, str) and topic.startswith(self.local_prefix) and matches(self.local.levels, topic):
                return self.remote_prefix + topic.removeprefix(self.local_prefix)
        return None

    def to_local(self, topic: str) -> str | None:
        """The local name of a remote topic; None if it does not take this route. (rule 3)"""
        if not topic.startswith(self.remote_prefix) or not matches(self.remote_filter, topic):
            return None
        local = self.local_prefix + topic.removeprefix(self.remote_prefix)
        return local if local and not local.startswith("$") else None


def first_route(routes: tuple[Route, ...], topic: str) -> tuple[Route, str] | None:
    """The route of a remote topic, and its local name. (rule 1)"""
    for route in routes:
        if (local := route.to_local(topic)) is not None:
            return route, local
    return None


class Networks(msgspec.Struct, frozen=True):
    """The two networks that a bridge is between."""

    own: str
    remote: str

    def entering(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of an incoming message; None if it has been here, or its path is too long. (rule 2)"""
        if self.own in path or len(path) >= PATH_MAX:
            return None
        return path if path[-1:] == (self.remote,) else (*path, self.remote)

    def leaving(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of an outgoing message; None if it has been there, or its path is too long."""
        if self.remote in path or len(path) >= PATH_MAX:
            return None
        return (*path, self.own)
