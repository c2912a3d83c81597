"""The MQTT subscriptions that an event matches: brokers route by everything except *no local*."""

from collections.abc import Callable, Mapping

from godwit.filters.events import Event
from godwit.mqtt.mqtt_effects import Granted
from godwit.mqtt.topics import matches, split

__all__ = ["SubscriptionChecks"]


class SubscriptionChecks:
    """The remaining tests of an event, by subscription. `granted`: the accepted subscriptions."""

    def __init__(self, granted: Callable[[], Mapping[str, Granted]]) -> None:
        self._granted = granted
        self._no_local: dict[str, bool] = {}  # by subscription
        self._modes: dict[str, str] = {}  # of CloudEvents, by subscription that has one
        self.exact: dict[str, bool] = {}  # those without further tests and without another form

    def clear(self) -> None:
        """Subscriptions have changed."""
        self._no_local.clear()
        self._modes.clear()
        self.exact.clear()

    def wanted(self, names: tuple[str, ...], event: Event, client: str) -> tuple[str, ...]:
        """The subscriptions that an event matches, among those of its delivery."""
        known = self._no_local
        for name in names:
            if known.get(name) is not False:
                return tuple(each for each in names if self._wants(each, event, client))
        return names

    def mode(self, names: tuple[str, ...]) -> str:
        """The mode in which an event is sent as a CloudEvent for these subscriptions; structured takes precedence."""
        if not self._modes:
            return ""
        return max((self._modes.get(name, "") for name in names), default="")

    def _wants(self, name: str, event: Event, client: str) -> bool:
        is_no_local = self._no_local.get(name)
        if is_no_local is None:
            granted = self._granted().get(name)
            is_no_local = self._no_local[name] = granted is not None and granted.no_local
            if granted is not None and granted.cloud_events:
                self._modes[name] = granted.cloud_events
            elif not is_no_local:
                self.exact[name] = True
        return not (is_no_local and event.publisher == client)


def topic_for(names: tuple[str, ...], topics: tuple[str, ...]) -> str:
    """A topic of an event that a subscription matches."""
    for name in names:
        _, levels, _ = split(name)
        for topic in topics:
            if matches(levels, topic):
                return topic
    return topics[0] if topics else ""
