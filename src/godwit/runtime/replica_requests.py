"""Combined answers for a client that sends its requests to several brokers at once.

*Rules.*
1. An event is accepted when one replica has it. It is refused when every replica that got it has refused it, and lost
   when none has room for it in its buffer.
2. Any other request is answered when every reachable replica has answered and one of them has accepted it. It is
   refused when all of them refuse it. An unreachable replica gets it when it is reachable again.
3. A request that nobody awaits is not kept: only the numbers of events are, until they are accepted.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from godwit.client.client import Client
from godwit.client.request_outbox import Topic
from godwit.errors import NotConnected, Refused
from godwit.runtime.pending_requests import PendingRequest

__all__ = ["ReplicaRequests"]

NO_ROOM = "the event was dropped: the buffers are full, and no replica accepts events"


class _Question:
    """A request to all replicas."""

    def __init__(self, pending: PendingRequest, wishes: dict[str, Any]) -> None:
        self.pending = pending
        self.open = wishes  # by replica: the unanswered request; kept alive, so that its identity stays unique
        self.is_accepted = False
        self.refused_because = ""


class ReplicaRequests:
    """The requests that no replica, or not every replica, has answered."""

    def __init__(self, clients: Mapping[str, Client], is_reachable: Callable[[str], bool]) -> None:
        self.lost = 0  # events for which no replica had room
        self._clients = clients
        self._is_reachable = is_reachable
        self._questions: list[_Question] = []
        self._untaken: dict[int, str] = {}  # numbers of events that no replica has, with why the last one refused it
        self._events: WeakValueDictionary[int, PendingRequest] = WeakValueDictionary()

    @property
    def untaken(self) -> int:
        """The number of events that no replica has yet."""
        return len(self._untaken)

    @property
    def is_answered(self) -> bool:
        """Whether everything that is not an event is answered. (rule 2)"""
        return not self._questions

    # ------------------------------------------------------------ what is asked

    def ask(self, topic: Topic) -> PendingRequest:
        """A request that was just sent to all replicas."""
        found = {replica: client.unanswered_about(topic) for replica, client in self._clients.items()}
        pending = PendingRequest()
        question = _Question(pending, {replica: wish for replica, wish in found.items() if wish is not None})
        if question.open:
            self._questions.append(question)
        else:
            pending.settle()
        return pending

    def publish(self, sequence: int) -> PendingRequest:
        """An event that was just published under a number."""
        holders = self._holders(sequence)
        wish = None if not holders else self._clients[holders[0]].unanswered_about(("event", sequence))
        pending = PendingRequest(getattr(wish, "event", None))
        if wish is None:  # no subscription matches it
            pending.settle()
        else:
            self._untaken[sequence] = ""
            self._events[sequence] = pending
        return pending

    def _holders(self, sequence: int) -> list[str]:
        return [name for name, each in self._clients.items() if each.unanswered_about(("event", sequence)) is not None]

    # ------------------------------------------------------------ what is answered

    def open_events(self, replica: str) -> set[int]:
        """The numbers of events that a replica has not accepted."""
        return {event.sequence for event in self._clients[replica].unanswered()} if self._untaken else set()

    def on_answer(self, replica: str, before: set[int], refused: Any, reason: str) -> None:
        """A replica has answered. `before`: its open events until then; `refused`: the wish that it has refused now."""
        self._on_events(before - self.open_events(replica), getattr(refused, "event", None), reason)
        client = self._clients[replica]
        open = client.unanswered_wishes() if self._questions else {}
        for question in self._questions:
            wish = question.open.get(replica)
            if wish is None or id(wish) in open:
                continue
            del question.open[replica]
            if wish is refused:
                question.refused_because = reason
            else:
                question.is_accepted = True
        self.settle()

    def _on_events(self, answered: Iterable[int], refused: Any, reason: str) -> None:
        refused_number = None if refused is None else refused.sequence
        for sequence in answered:
            if sequence not in self._untaken:
                continue
            if sequence != refused_number:
                self._end(sequence, None)
            elif self._holders(sequence):
                self._untaken[sequence] = reason
            else:
                self._end(sequence, Refused(reason))

    def on_discarded(self, sequence: int, *, lost: bool) -> None:
        """A replica's buffer dropped an event: it had no room, or no subscription matches it."""
        if sequence in self._untaken and not self._holders(sequence):
            reason = self._untaken[sequence]
            self.lost += lost and not reason
            self._end(sequence, Refused(reason) if reason else NotConnected(NO_ROOM) if lost else None)

    def _end(self, sequence: int, fault: Exception | None) -> None:
        del self._untaken[sequence]
        if (pending := self._events.pop(sequence, None)) is not None:
            pending.settle(fault)

    def settle(self) -> None:
        """Check which requests are answered, after a replica has answered, attached or detached. (rule 2)"""
        for question in list(self._questions):
            if any(self._is_reachable(replica) for replica in question.open):
                continue
            if question.is_accepted:
                question.pending.settle()
            elif question.refused_because:
                question.pending.settle(Refused(question.refused_because))
            else:
                continue
            self._questions.remove(question)

    def end(self, fault: Exception) -> None:
        """No replica will answer any more."""
        for question in self._questions:
            question.pending.settle(fault)
        for pending in list(self._events.values()):
            pending.settle(fault)
        self._questions.clear()
        self._events.clear()
