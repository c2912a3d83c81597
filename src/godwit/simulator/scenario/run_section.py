"""The run section of a scenario: how long its phases last, and what is expected of its outcome.

*Rules.*
1. Expectations come on top of the laws, which always hold.
"""

import msgspec

from godwit.simulator.scenario.units import Count, Least, Seconds, SomeSeconds

__all__ = ["Expectations", "Run"]


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """What else must hold at the end, besides the laws, which always must."""

    delivered_min: Count = 0
    messages_max: Least | None = None
    table_entries_max: Least | None = None
    latency_p99_ms_max: SomeSeconds | None = None
    purged_max: Count | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How long its parts last, and what is expected of it."""

    warmup_s: Seconds = 5.0
    duration_s: SomeSeconds = 10.0
    settle_s: Seconds = 30.0
    judge: bool = True  # hold everything against the laws; without it a run is faster, and its summary knows less
    leave: bool = True  # at the end everyone leaves, and the tables must be empty
    expectations: Expectations = Expectations()
