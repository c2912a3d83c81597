"""The reference matcher: evaluates every filter. Slow and obviously right; the other matchers are compared with
it."""

from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.matching.matcher import Matcher, SubscriptionId

__all__ = ["NaiveMatcher"]


class NaiveMatcher(Matcher):
    """Every subscription in a dict, every filter asked about every event."""

    def __init__(self) -> None:
        super().__init__()
        self._filters: dict[SubscriptionId, Filter] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def _known(self, id: SubscriptionId) -> bool:
        return id in self._filters

    def _insert(self, id: SubscriptionId, filter: Filter) -> None:
        self._filters[id] = filter

    def _delete(self, id: SubscriptionId) -> None:
        del self._filters[id]

    def _match(self, event: Event) -> list[SubscriptionId]:
        return [id for id, filter in self._filters.items() if filter.holds(event.attributes)]
