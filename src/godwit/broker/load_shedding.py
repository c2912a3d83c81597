"""Load shedding: what a broker drops, and in which order, when its process holds too much.

*Theory.* Only the driver knows what its process holds. It tells the broker how many bytes are too many (`ShedLoad`), an
input like any other, so that a replay does the same.

*Rules.*
1. First sessions end whose clients are away, those before others that would be forgotten first.
2. Then events leave the longest queues, by the rules of those queues, each down to half. They count as *lost* where no
   rule of the subscriber allowed it, and receipts name them.
3. A session whose client is connected never ends.
4. Of one user, whose filters take too much, idle sessions end alike when it brings a filter more (`user_quotas.py`):
   one at once, and while that is not enough another each `REST_S`: the end of one with many subscriptions takes long.
"""

from math import inf
from typing import Any

from godwit.broker.component import Handlers
from godwit.broker.effects import ComponentInput, Effect, StartTimer, TimerKey
from godwit.broker.host import Host
from godwit.broker.messages import NodeId
from godwit.broker.user_quotas import notes_size, user_of

__all__ = ["LoadShedding", "ShedLoad"]

RULE = "memory"
ROOM_TIMER = "room for filters"
REST_S = 0.02
REASON = "the broker holds too much (limits.memory_bytes_max)"
USER_REASON = "its user needs the room for another filter (limits.user_filter_bytes_max)"


class ShedLoad(ComponentInput, frozen=True):
    """The driver's process holds so many bytes too many."""

    bytes: int


class LoadShedding:
    """Drops sessions and events at the request of the driver."""

    label = "load_shedding"
    host: Host

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        host.sessions.end_for_room = self._end_for_room
        return Handlers(inputs={ShedLoad: self.on_shed_load}, timers={ROOM_TIMER: self._on_room_due})

    def snapshot(self) -> None:
        """Nothing is kept."""

    def restore(self, state: Any) -> None:
        """Nothing to take over."""

    def on_shed_load(self, input: ShedLoad, now: float) -> list[Effect]:
        """Free that many bytes, as far as possible."""
        sessions, excess = self.host.sessions, input.bytes
        effects: list[Effect] = []
        away = [session for session in sessions if session.connection is None]
        for session in sorted(away, key=lambda each: inf if each.ends_at is None else each.ends_at):
            if excess <= 0:
                return effects
            excess -= session.queue.bytes + notes_size(session) + session.filters.bytes
            effects += self.host.withdraw(sessions.end(session.client, now, REASON), now, session.client)
        for session in sorted(sessions, key=lambda each: -each.queue.bytes):
            if excess <= 0:
                break
            excess -= session.queue.shed(min(excess, session.queue.bytes // 2), RULE)
            effects += session.gone()
        return effects

    def _end_for_room(self, client: NodeId, now: float) -> list[Effect]:
        """End an idle session, because its user brings a filter that needs its room; more may follow. (rule 4)"""
        ended = self.host.withdraw(self.host.sessions.end(client, now, USER_REASON), now, client)
        return [*ended, StartTimer((ROOM_TIMER, user_of(client)), now + REST_S)]

    def _on_room_due(self, key: TimerKey, now: float) -> list[Effect]:
        """End the next one, if the filters of its user still take too much."""
        client = self.host.sessions.quotas.next_to_end(key[1], self.host.config.limits)
        return [] if client is None else self._end_for_room(client, now)
