"""A client that is here and whose session is not yet: what its new border broker keeps of it meanwhile.

*Rules.*
1. What it brings is bounded by the same limits as a session: a wish beyond them is left out. The client says it again
   when it is let in, and hears why not.
2. A filter that was replaced while the session was on its way is wanted besides the new one, since the session may hold
   either; where both together are too large, the new one alone.
3. Of what is replayed, as much is kept as a queue may hold. What is left out is on record.
4. A client that was let in elsewhere while it was looked for here, and comes again, is looked for anew: what is left of
   the time for the old search is not that of this one, and the session would be given up too early.
"""

from msgspec import structs

from godwit.broker.limits import Limits
from godwit.broker.messages import Advertise, Attach, NodeId, Subscribe
from godwit.broker.queues import event_size
from godwit.broker.session import Binding
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, any_of
from godwit.filters.references import is_open
from godwit.mobility.graph_roaming import FlushKey
from godwit.mobility.messages import Relocate, Replay
from godwit.mobility.modes import ASKING

__all__ = ["Arrival"]


class Arrival:
    """A client that is here and whose session is not yet."""

    def __init__(self, attach: Attach, connection: str | None, asserted: Attributes | None = None) -> None:
        self.attach = attach
        self.connection = connection
        self.asserted = asserted  # what is vouched for of its context; None: it has not come itself
        self.subscriptions: dict[str, Subscribe] = {}
        self.advertisements: dict[str, Filter] = {}
        self.buffer: list[tuple[Event, tuple[str, ...]]] = []  # what has come for it meanwhile
        self.parts: list[Replay] = []
        self.events = 0  # in these
        self.bytes = 0
        self.next: Relocate | None = None  # who has asked for it since
        self.gives_up_at = 0.0
        self.asks = 0
        self.trail = list(attach.tried)  # who else may have it, the likeliest last
        self.is_superseded = False
        self.superseded_by: NodeId = ""  # who has told us so
        self.flushes: FlushKey | None = None  # the session is whole; these must flush before its client comes in
        self.knows_wishes = attach.mode not in ASKING

    def come_again(self, attach: Attach, connection: str, gives_up_at: float) -> bool:
        """The client has come over another connection. Whether it was let in elsewhere since: rule 4."""
        is_another = attach.mode != "named" and attach.since != self.attach.since and self.flushes is None
        self.attach, self.connection, self.is_superseded, self.trail = attach, connection, False, list(attach.tried)
        if is_another:
            self.gives_up_at = gives_up_at
        return is_another

    def want(self, wish: Subscribe | Advertise, limits: Limits, binding: Binding) -> None:
        """Its session may hold this, too. Rules 1, 2."""
        name, largest = wish.id[1], limits.filter_literals_max
        if wish.filter.size > largest or (is_open(wish.filter) and binding.why_not(wish.filter) is not None):
            return
        if isinstance(wish, Subscribe):
            before = self.subscriptions.get(name)
            if before is None and len(self.subscriptions) >= limits.subscriptions_max:
                return
            if before is not None and before.filter != wish.filter:
                wish = structs.replace(wish, filter=_either(before.filter, wish.filter, largest))
            self.subscriptions[name] = wish
        else:
            known = self.advertisements.get(name)
            if known is None and len(self.advertisements) >= limits.advertisements_max:
                return
            self.advertisements[name] = wish.filter if known is None else _either(known, wish.filter, largest)

    def take(self, part: Replay, limits: Limits) -> list[Event]:
        """Keep a part of the session. The events that there is no room for. Rule 3."""
        kept, left = [], list[Event]()
        for item in part.items:
            size = event_size(item.event)
            if self.events < limits.queue_events_max and self.bytes + size <= limits.queue_bytes_max:
                kept.append(item)
                self.events += 1
                self.bytes += size
            else:
                left.append(item.event)
        if kept or part.is_last or not self.parts:
            self.parts.append(structs.replace(part, items=tuple(kept)) if left else part)
        return left


def _either(before: Filter, now: Filter, largest: int) -> Filter:
    both = any_of(before, now)
    return both if both.size <= largest else now
