"""Delivery delays: from the publication time in the event until the event was sent to a client here.

*Theory.* An event has its publication time, and the activity monitor keeps recent deliveries with their times
(`activity_monitor.py`). So nothing is measured on the hot path: a query computes the delays from these.

*Rules.*
1. Nothing is done until the histogram is requested. Then the deliveries since the last request are examined, at most
   about the latest `LOOKED_AT_MAX` effects: a sample, if there were more.
2. Events that waited for their client, not for a broker, are left out: those published before their client attached, or
   more than `AGE_S_MAX` ago, such as retained ones. So are events without a publication time, such as those of MQTT
   clients.
3. At most `ATTACHED_MAX` attached clients are remembered, the latest ones.
4. The clocks of publishers and brokers may differ. A negative delay counts as 0.
"""

from godwit.broker.effects import Tell
from godwit.broker.messages import Attached, Delivery
from godwit.runtime.activity_monitor import SECONDS, ActivityMonitor, Histogram

__all__ = ["AGE_S_MAX", "ATTACHED_MAX", "LOOKED_AT_MAX", "DeliveryTimes"]

LOOKED_AT_MAX = 2_000
AGE_S_MAX = 60.0
ATTACHED_MAX = 10_000


class DeliveryTimes:
    """The times of deliveries by one broker, as a histogram."""

    def __init__(self, activity: ActivityMonitor) -> None:
        self._activity = activity
        self._looked_at = 0.0  # until when
        self._attached: dict[str, float] = {}  # by connection, the time at which its client attached
        self._times = Histogram(SECONDS)

    def counts(self) -> list[int]:
        """The histogram of all delays so far, by the bounds in `SECONDS`. (rule 1)"""
        for at, effects in self._activity.effects_since(self._looked_at, LOOKED_AT_MAX):
            self._looked_at = at
            for effect in effects:
                if type(effect) is not Tell:
                    continue
                if type(effect.message) is Delivery:
                    self._add(effect.message.event.published_at, effect.connection, at)
                elif type(effect.message) is Attached:
                    self._come(effect.connection, at)
        return list(self._times.counts)

    def _add(self, published_at: float | None, connection: str, at: float) -> None:
        if published_at is not None and published_at >= max(at - AGE_S_MAX, self._attached.get(connection, 0.0)):
            self._times.add(max(0.0, at - published_at))

    def _come(self, connection: str, at: float) -> None:
        self._attached[connection] = at
        if len(self._attached) > ATTACHED_MAX:
            del self._attached[next(iter(self._attached))]
