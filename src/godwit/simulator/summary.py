"""The summary of a run: counts, sizes, times, and every law that broke.

*Theory.* The checkers of the simulator fill a `Summary` in; the command line, tests and benchmarks read it.

*Rules.*
1. Wall time is here and nowhere else: all other fields are the same each time a scenario runs with the same seed.
"""

from typing import Any

import msgspec

__all__ = ["Summary", "Violation", "percentile_ms"]


class Violation(msgspec.Struct, frozen=True):
    """A law that did not hold: which, what happened, and in simulated seconds when and where."""

    law: str
    text: str
    at: float = 0.0
    node: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run."""

    scenario: str
    seed: int
    published: int = 0  # events that publishers handed to their client machine
    owed: int = 0  # deliveries that are required, whatever the strategy
    delivered: int = 0
    lost: int = 0  # owed, not delivered, not excused
    duplicated: int = 0
    out_of_order: int = 0  # of one publisher's events
    unwanted: int = 0  # delivered although they match nothing the client had asked for
    allowed: int = 0  # neither required nor wrong: the subscription was changing
    excused: int = 0  # died with a disk
    moves: int = 0  # of clients to another broker
    islands: dict[str, int] = {}  # of an ad hoc network: elections, merges and the like
    receipts: dict[str, int] = {}  # what clients were told when they came back, added up
    walked: int = 0  # steps that clients took on their movement graph
    out_of_context: int = 0  # events that reached the border broker of a client that was elsewhere by then
    context_changes: int = 0  # of clients that had said one before
    not_addressed: int = 0  # events that reached the border broker of a client which they do not mean
    fire: dict[str, int | bool] = {}  # of a building that burns: alerts, sprinklers that went on and the like
    purged: int = 0  # left a queue by one of its rules
    expired: int = 0
    quenched: int = 0  # dropped at the source because nobody wanted them
    messages: dict[str, int] = {}  # by type, each hop counted
    packets: dict[str, int] = {}  # of the graph family, by what they bear; by type where events are matched at hops
    bytes_sent: int = 0
    table_entries: int = 0  # the most that all brokers' tables held together
    entries_left: int = 0  # in brokers' tables after everyone has left
    queue_max: dict[str, int] = {}  # by queue, the longest that one of them ever was
    latency_p50_ms: float | None = None  # from publishing to delivery, while publisher and subscriber were connected
    latency_p99_ms: float | None = None
    caught_up: int = 0  # deliveries for which one of the two was away in between
    catch_up_p50_ms: float | None = None  # from publishing to delivery, of these
    catch_up_p99_ms: float | None = None
    faults: dict[str, int] = {}  # by kind, how often it was injected
    simulated_s: float = 0.0
    wall_s: float = 0.0
    violations: tuple[Violation, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every law held."""
        return not self.violations

    @property
    def messages_sent(self) -> int:
        """Messages of all types."""
        return sum(self.messages.values())

    @property
    def messages_per_second(self) -> float:
        """Simulated messages in a second of wall time."""
        return round(self.messages_sent / self.wall_s, 1) if self.wall_s > 0 else 0.0

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON: the fields and what is computed from them, `passed` first."""
        data = msgspec.to_builtins(self)
        data["wall_s"] = round(self.wall_s, 3)
        violations = data.pop("violations")
        return {
            "passed": self.passed,
            **data,
            "messages_sent": self.messages_sent,
            "messages_per_second": self.messages_per_second,
            "violations": violations,
        }


def percentile_ms(ordered: list[float], share: float) -> float | None:
    """A quantile, in milliseconds."""
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1_000, 3) if ordered else None
