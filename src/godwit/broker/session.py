"""One session: what is kept for a client, and the receipts that account for every event it took in.

*Theory.* A receipt says what became of events since the last receipt *that came*. A connection may break before
`Attached` arrives, or after it; the client says with its next `Attach` which receipt it has, and only then are the
figures of that one settled.

*Rules.*
1. Over all receipts of a session that come, each event that was suppressed, purged or expired is counted once, and each
   that was lost is named once: up to `LOST_SHOWN_MAX` ids in a receipt, the rest as a number.
2. `replayed` is what was not confirmed when the client came back, sent before or not: it counts an event again each
   time that it has to be sent again.
3. A refusal is kept until a receipt told after it has come, the last `REFUSALS_KEPT` of them.

*Paper.* [mobile §4.3] queue purging: the receipt is ours.
"""

from collections import deque
from collections.abc import Iterable

from godwit.broker.effects import Effect, Trace
from godwit.broker.limits import Limits
from godwit.broker.messages import Advertise, NodeId, Receipt, Refused, SessionState, Subscribe, Waiting
from godwit.broker.queues import Queue
from godwit.broker.seen import Seen
from godwit.filters.filters import Filter
from godwit.trace import Record

__all__ = ["Session"]

LOST_SHOWN_MAX = 1_000
REFUSALS_KEPT = 128


class Session:
    """What is kept for one client."""

    def __init__(self, client: NodeId, name: str, limits: Limits) -> None:
        self.client = client
        self.name = name
        self.connection: str | None = None
        self.attempt = 0  # of the client's last greeting
        self.mode = "relocate"  # as the client said then
        self.ends_at: float | None = None  # while the client is away
        self.accepted = 0
        self.refusals: deque[Refused] = deque(maxlen=REFUSALS_KEPT)  # that the client may have missed
        self.subscriptions: dict[str, Subscribe] = {}
        self.advertisements: dict[str, Filter] = {}
        self.has_advertised = False
        self.queue = Queue(limits.window, limits.queue_events_max, limits.queue_bytes_max)
        self.seen = Seen(limits.seen_window, limits.seen_publishers_max)
        self.suppressed = 0
        self.lost: list[tuple[str, int]] = []  # since the last receipt that is known to have come, at most so many
        self.lost_more = 0
        self._settled = Receipt()  # all that receipts which came have said, added up
        self._told = Receipt()  # the same with the last receipt, which may have come or not
        self._accepted_then = 0  # when the last receipt was written

    def state(self) -> SessionState:
        """All of it but the queue's events, to go on elsewhere."""
        queue, client = self.queue, self.client
        return SessionState(
            client=client,
            name=self.name,
            accepted=self.accepted,
            refusals=tuple(self.refusals),
            subscriptions=tuple(self.subscriptions.values()),
            advertisements=tuple(Advertise((client, name), filter) for name, filter in self.advertisements.items()),
            has_advertised=self.has_advertised,
            taken=queue.taken,
            sent_up_to=queue.sent_up_to,
            confirmed=queue.confirmed,
            expired=queue.expired,
            purged=dict(queue.purged),
            suppressed=self.suppressed,
            lost=tuple(self.lost),
            lost_more=self.lost_more,
            settled=self._settled,
            told=self._told,
            accepted_then=self._accepted_then,
            seen=self.seen.data(),
        )

    @classmethod
    def restored(cls, state: SessionState, items: Iterable[Waiting], limits: Limits, now: float) -> "Session":
        """The session that was elsewhere, with what waited in its queue."""
        session = cls(state.client, state.name, limits)
        session.accepted, session.has_advertised = state.accepted, state.has_advertised
        session.refusals.extend(state.refusals)
        session.suppressed, session.lost, session.lost_more = state.suppressed, list(state.lost), state.lost_more
        session._settled, session._told, session._accepted_then = state.settled, state.told, state.accepted_then
        session.seen.learn(state.seen)
        queue = session.queue
        for subscribe in state.subscriptions:
            session.subscriptions[subscribe.id[1]] = subscribe
            queue.set_rules(subscribe.id[1], subscribe.queue, now)
        session.advertisements = {advertise.id[1]: advertise.filter for advertise in state.advertisements}
        queue.taken, queue.sent_up_to, queue.confirmed = state.taken, state.sent_up_to, state.confirmed
        queue.expired, queue.purged = state.expired, dict(state.purged)
        queue.restore(items)
        return session

    def settle(self, number: int) -> None:
        """The client has got receipt `number`, and the refusals told before it."""
        told = self._told
        if number == told.number > self._settled.number:
            self._settled = told
            del self.lost[: len(told.lost)]
            self.lost_more -= told.lost_more
            while self.refusals and self.refusals[0].number <= self._accepted_then:
                self.refusals.popleft()

    def receipt(self, *, session_lost: bool) -> Receipt:
        """What became of events since the last receipt that came."""
        queue, before = self.queue, self._settled
        purged = {rule: count - before.purged.get(rule, 0) for rule, count in queue.purged.items()}
        number, lost = self._told.number + 1, tuple(self.lost)
        self._told = Receipt(0, self.suppressed, dict(queue.purged), queue.expired, lost, self.lost_more, number=number)
        self._accepted_then = self.accepted
        return Receipt(
            replayed=len(queue),
            suppressed=self.suppressed - before.suppressed,
            purged={rule: count for rule, count in purged.items() if count},
            expired=queue.expired - before.expired,
            lost=lost,
            lost_more=self.lost_more,
            session_lost=session_lost,
            number=number,
        )

    def gone(self) -> list[Effect]:
        """Write down what has left the queue unsent."""
        gone, self.queue.gone = self.queue.gone, []
        records: list[Effect] = []
        for one in gone:
            kind = "lost" if one.lost else "expired" if one.reason == "expired" else "purged"
            publisher, sequence = one.event.id
            if one.lost and len(self.lost) < LOST_SHOWN_MAX:
                self.lost.append((publisher, sequence))
            elif one.lost:
                self.lost_more += 1
            records.append(Trace(Record(kind, self.client, "", publisher, sequence, "", one.number, 0, one.reason)))
        return records
