"""Which of an MQTT client's subscriptions an event is for: brokers route by all but *no local*."""

from collections.abc import Callable, Mapping

from godwit.filters.events import Event
from godwit.mqtt.mqtt_effects import Granted
from godwit.mqtt.topics import matches, split

__all__ = ["SubscriptionChecks"]


class SubscriptionChecks:
    """What is left to test of an event, by subscription. `granted`: the subscriptions that stand."""

    def __init__(self, granted: Callable[[], Mapping[str, Granted]]) -> None:
        self._granted = granted
        self._no_local: dict[str, bool] = {}  # by subscription
        self._modes: dict[str, str] = {}  # of CloudEvents, by subscription that has one
        self.exact: dict[str, bool] = {}  # those where there is nothing to look at, and nothing to write otherwise

    def clear(self) -> None:
        """Subscriptions have changed."""
        self._no_local.clear()
        self._modes.clear()
        self.exact.clear()

    def wanted(self, names: tuple[str, ...], event: Event, client: str) -> tuple[str, ...]:
        """Of the subscriptions that brought an event, those that it is for."""
        known = self._no_local
        for name in names:
            if known.get(name) is not False:
                return tuple(each for each in names if self._wants(each, event, client))
        return names

    def mode(self, names: tuple[str, ...]) -> str:
        """In which mode an event for these subscriptions goes out as a CloudEvent; of several, structured counts."""
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
    """Of an event's topics, one that a subscription is for."""
    for name in names:
        _, levels, _ = split(name)
        for topic in topics:
            if matches(levels, topic):
                return topic
    return topics[0] if topics else ""
