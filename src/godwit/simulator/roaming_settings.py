"""What a scenario says about clients that move from broker to broker. Part of `scenario.py`."""

from typing import Annotated, Literal

import msgspec

__all__ = ["Roaming"]

PerSecond = Annotated[float, msgspec.Meta(ge=0, le=10_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class Roaming(msgspec.Struct, frozen=True, kw_only=True):
    """Clients that turn up at another broker, without a word to the one before. Tree family."""

    who: Literal["subscribers", "publishers", "all"] = "all"
    per_s: PerSecond = 0.0  # moves, over all of them together
    away_s: Seconds = 1.0  # out of reach between two brokers, on average; 0: they are there at once
    subscriber_mode: Literal["relocate"] = "relocate"  # how subscribers are followed (mobility/modes.py)
    publisher_mode: Literal["relocate"] = "relocate"
