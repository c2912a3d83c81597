"""The chain of a session that is one of several: each delivery names the event of its publisher that came before it.

*Theory.* A client with sessions at several brokers must tell an event that a session has lost from one that it never
wanted. So a replicated session numbers by the publishers' own numbers: with each delivery goes the number of the last
event of the same publisher that the session took in before. A client that never got that one knows of a gap.

*Rules.*
1. A predecessor is lower than the event it is named for. What comes behind a later event of its publisher has none.
2. 0 means: none before it, in this session. `UNKNOWN` means that the session cannot say.
3. Remembered are as many publishers as the session remembers numbers of, the recent ones, and one number for each
   delivery that is in the queue.

*Paper.* [mobile §5]. *Departures.* The paper names no predecessors; they are what its Table 1 lacks. There is one chain
per publisher and session, not one per subscription: it breaks wherever one of theirs would, and an event that several
subscriptions want names one predecessor.
"""

import msgspec

from godwit.broker.messages import Delivery
from godwit.filters.events import Event

__all__ = ["ITEMS_MAX", "UNKNOWN", "PredecessorChain", "PredecessorChainState"]

UNKNOWN = -1
ITEMS_MAX = 64
"""How many events an answer to `FetchEvents` holds at most."""


class PredecessorChainState(msgspec.Struct, frozen=True):
    """What a chain remembers; `last` the latest to be heard of last, `before` by number."""

    publishers_max: int
    is_whole: bool
    last: dict[str, int]
    before: dict[int, int]


class PredecessorChain:
    """Which event of its publisher came before each that is in the queue."""

    def __init__(self, publishers_max: int, *, is_whole: bool) -> None:
        assert publishers_max >= 1
        self._publishers_max = publishers_max
        self._is_whole = is_whole  # whether a publisher that is not known has never been heard of
        self._last: dict[str, int] = {}  # by publisher, the latest to be heard of last
        self._before: dict[int, int] = {}  # by the number of the delivery, which grows

    def snapshot(self) -> PredecessorChainState:
        """All that is remembered."""
        return PredecessorChainState(self._publishers_max, self._is_whole, dict(self._last), dict(self._before))

    @classmethod
    def restored(cls, state: PredecessorChainState) -> "PredecessorChain":
        """The chain that was written down."""
        chain = cls(state.publishers_max, is_whole=state.is_whole)
        chain._last, chain._before = dict(state.last), dict(state.before)
        return chain

    def __len__(self) -> int:
        """How many predecessors are remembered."""
        return len(self._before)

    def link(self, number: int, event: Event) -> None:
        """The session takes this event in, as its delivery `number`."""
        publisher, sequence = event.id
        last = self._last.pop(publisher, None)
        if last is None:
            last = 0 if self._is_whole else UNKNOWN
        if last != UNKNOWN and sequence > last:
            self._before[number] = last
        self._last[publisher] = max(last, sequence)
        if len(self._last) > self._publishers_max:
            del self._last[next(iter(self._last))]
            self._is_whole = False

    def named(self, delivery: Delivery) -> Delivery:
        """The delivery, with its predecessor."""
        predecessor = self._before.get(delivery.number, UNKNOWN)
        return Delivery(delivery.number, delivery.event, delivery.subscriptions, predecessor)

    def drop(self, number: int) -> None:
        """This delivery has left the queue unsent."""
        self._before.pop(number, None)

    def forget(self, received: int) -> None:
        """The client has every delivery up to `received`."""
        before = self._before
        while before and (first := next(iter(before))) <= received:
            del before[first]
