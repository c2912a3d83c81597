"""How late clients get events: from when they were published, as the events say, until they were sent to a client here.

*Theory.* An event bears the time at which it was published, and the watch keeps what was delivered lately with its time
(`activity_monitor.py`). So nothing has to be measured on the way: whoever asks looks through what is kept.

*Rules.*
1. Nothing is done until somebody asks. Then what was sent since the last question is looked through, of that the latest
   `LOOKED_AT_MAX` effects at most, or a few more: a sample, where more was sent.
2. Left out is an event that waited for its client and not for a broker: one that was published before its client came,
   or more than `AGE_S_MAX` ago, such as a retained one. So is one that does not say when it was published, as those
   of MQTT clients do not.
3. At most `ATTACHED_MAX` clients that have come are remembered, the latest ones.
4. The clocks of publishers and brokers may differ. What seems to come before it was published counts as 0.
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
        self._attached: dict[str, float] = {}  # by connection, when its client has come
        self._times = Histogram(SECONDS)

    def counts(self) -> list[int]:
        """How many deliveries took how long so far, by the bounds in `SECONDS`. (rule 1)"""
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
