"""An index with a cache of the matches of the last plain events.

*Theory.* Many events differ in nothing that filters ask about: a device publishes to one topic, and its payload is no
attribute. What such an event matches was found before, and is the same until a subscription comes or goes.

*Rules.*
1. Only events of at most `ATTRIBUTES_MAX` attributes are remembered, each one text of at most `TEXT_MAX` characters or
   one whole number: of these two that are equal match the same. (`True` equals 1, and does not.)
2. Every change of the subscriptions forgets all.
3. At most `EVENTS_MAX` are remembered, of at most `MATCHES_MAX` matches each. Callers must not change a returned list.
"""

from typing import Any

from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import SubscriptionId

__all__ = ["CachingMatcher"]

ATTRIBUTES_MAX = 4
TEXT_MAX = 256
EVENTS_MAX = 4_096
MATCHES_MAX = 256


class CachingMatcher(IndexMatcher):
    """The index, with a memory for plain events."""

    def __init__(self) -> None:
        super().__init__()
        self._remembered: dict[tuple[Any, ...], list[SubscriptionId]] = {}

    def _insert_many(self, subscriptions: list[tuple[SubscriptionId, Filter]]) -> None:
        self._remembered.clear()
        super()._insert_many(subscriptions)

    def _delete(self, id: SubscriptionId) -> None:
        self._remembered.clear()
        super()._delete(id)

    def _match(self, event: Event) -> list[SubscriptionId]:
        attributes = event.attributes
        if len(attributes) > ATTRIBUTES_MAX:
            return super()._match(event)
        for value in attributes.values():
            if type(value) is not int and (type(value) is not str or len(value) > TEXT_MAX):
                return super()._match(event)
        key = tuple(attributes.items())
        found = self._remembered.get(key)
        if found is None:
            found = super()._match(event)
            if len(found) <= MATCHES_MAX:
                if len(self._remembered) >= EVENTS_MAX:
                    self._remembered.clear()
                self._remembered[key] = found
        return found
