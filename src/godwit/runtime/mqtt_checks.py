"""Which of an MQTT client's subscriptions an event is for: routing lets through more, and knows nothing of no local."""

from collections.abc import Callable, Mapping

from godwit.filters.events import Event
from godwit.mqtt.mqtt_effects import Granted
from godwit.mqtt.topics import matches, split
from godwit.runtime.mqtt_events import Message

__all__ = ["SubscriptionChecks"]

EXACT: tuple[str | None, bool] = (None, False)


class SubscriptionChecks:
    """What is left to test of an event, by subscription. `granted`: the subscriptions that stand."""

    def __init__(self, granted: Callable[[], Mapping[str, Granted]]) -> None:
        self._granted = granted
        self._checks: dict[str, tuple[str | None, bool]] = {}  # by subscription: levels to look at, and no local
        self._modes: dict[str, str] = {}  # of CloudEvents, by subscription that has one
        self.exact: dict[str, bool] = {}  # those where there is nothing to look at, and nothing to write otherwise

    def clear(self) -> None:
        """Subscriptions have changed."""
        self._checks.clear()
        self._modes.clear()
        self.exact.clear()

    def wanted(self, names: tuple[str, ...], event: Event, message: Message, client: str) -> tuple[str, ...]:
        """Of the subscriptions that brought an event, those that it is for."""
        checks = self._checks
        for name in names:
            if checks.get(name) is not EXACT:
                return tuple(each for each in names if self._wants(each, event, message, client))
        return names

    def mode(self, names: tuple[str, ...]) -> str:
        """In which mode an event for these subscriptions goes out as a CloudEvent; of several, structured counts."""
        if not self._modes:
            return ""
        return max((self._modes.get(name, "") for name in names), default="")

    def _wants(self, name: str, event: Event, message: Message, client: str) -> bool:
        check = self._checks.get(name)
        if check is None:
            _, levels, _ = split(name)
            granted = self._granted().get(name)
            is_no_local = granted is not None and granted.no_local
            check = (levels, is_no_local) if is_no_local or "+" in levels else EXACT
            self._checks[name] = check
            if granted is not None and granted.cloud_events:
                self._modes[name] = granted.cloud_events
            elif check is EXACT:
                self.exact[name] = True
        levels_wanted, is_no_local = check
        if is_no_local and event.publisher == client:
            return False
        return levels_wanted is None or any(matches(levels_wanted, topic) for topic in message.topics)


def topic_for(names: tuple[str, ...], topics: tuple[str, ...]) -> str:
    """Of an event's topics, one that a subscription is for."""
    for name in names:
        _, levels, _ = split(name)
        for topic in topics:
            if matches(levels, topic):
                return topic
    return topics[0] if topics else ""
