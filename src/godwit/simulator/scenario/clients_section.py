"""The sections of a scenario on clients: how many there are, what they do, and how their requests change.

*Rules.*
1. A rate `per_s` is over all clients together, unless its comment says otherwise.
2. A section with its defaults adds nothing to a run.
"""

from typing import Literal

import msgspec

from godwit.broker.messages import QueueRules
from godwit.simulator.scenario.roaming_section import Probes, Roaming
from godwit.simulator.scenario.units import Count, Least, PerSecond, SomeSeconds, Text
from godwit.simulator.scenario.walking_section import Walking

__all__ = ["Churn", "Clients", "Disconnections", "SessionsSection"]


class Disconnections(msgspec.Struct, frozen=True, kw_only=True):
    """Clients that disconnect without notice, and come back to the same broker."""

    who: Literal["subscribers", "publishers", "all"] = "all"
    per_s: PerSecond = 0.0  # over all of them together
    lasts_s: SomeSeconds = 3.0  # on average


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """Who is there, where, and how much they say."""

    publishers: Count = 1
    subscribers: Count = 1
    subscriptions: Count = 1  # of each subscriber
    placement: Literal["leaves", "anywhere"] = "anywhere"
    publish_per_s: PerSecond = 1.0  # of each publisher
    events: Count | None = None  # of each publisher; without it, it publishes for the whole duration
    payload_bytes: Count = 0
    buffer_events_max: Least = 1_000  # that a publisher keeps while it is away
    disconnections: Disconnections = Disconnections()
    roaming: Roaming = Roaming()
    walking: Walking = Walking()
    probes: Probes = Probes()


class Churn(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of subscriptions and advertisements, over all clients together: in bursts, with quiet times between."""

    subscribe_per_s: PerSecond = 0.0  # while a burst lasts
    unsubscribe_per_s: PerSecond = 0.0
    replace_per_s: PerSecond = 0.0
    advertise_per_s: PerSecond = 0.0  # an advertisement is withdrawn, made or replaced by a wider one
    burst_s: SomeSeconds = 1.0
    pause_s: SomeSeconds = 3.0


class SessionsSection(msgspec.Struct, frozen=True, kw_only=True):
    """What subscriptions ask of their session: queue rules [mobile §4.3] and times of expiry."""

    age_s_max: SomeSeconds | None = None
    newest_per: Text | None = None
    high_water: Text | None = None
    count_max: Least | None = None
    bytes_max: Least | None = None
    importance: Text | None = None
    subscription_expires_s: SomeSeconds | None = None  # after it was made
    event_expires_s: SomeSeconds | None = None  # after it was published

    def rules(self) -> QueueRules | None:
        """The queue rules as a subscription carries them; None when there is none."""
        rules = QueueRules(
            self.age_s_max, self.newest_per, self.high_water, self.count_max, self.bytes_max, self.importance
        )
        return None if rules == QueueRules() else rules
