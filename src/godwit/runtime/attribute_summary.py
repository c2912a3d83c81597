"""The attributes of recent events at a broker: names, kinds, ranges, frequent values and senders.

*Theory.* A client that moves publishes at several brokers, so the numbers of senders cannot be added up. Each broker
tells the smallest hashes of its senders' names. With fewer than `MARKS` senders these are all hashes, and their union
counts the senders of the network; with more, the largest of the `MARKS` smallest hashes of the union estimates them.

*Rules.*
1. Only events that are recorded anyway are used, when a summary is requested: nothing is counted beforehand.
2. All is bounded: the number of events, names, values of a name, and the length of a value.
3. A name and a value come with the filter for them, since only the filter language knows what it must quote.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

from godwit.filters.events import Event, values_of
from godwit.filters.filters import present, some
from godwit.filters.language import to_text
from godwit.filters.sets import one_of, starts_with
from godwit.filters.values import Kind, Value, kind_name, kind_of
from godwit.runtime.wire import JSON

__all__ = ["EVENTS_MAX", "summary_of"]

EVENTS_MAX = 5_000
NAMES_MAX = 500
VALUES_MAX = 1_000  # distinct values of a name that are counted
SHOWN = 8  # of them, the most frequent
TEXT_MAX = 80
MARKS = 64
MARK_BYTES = 4
ORDERED = (Kind.NUMBER, Kind.TIME)


class _Attribute:
    """The values seen for one name."""

    def __init__(self) -> None:
        self.events = 0
        self.kinds: Counter[str] = Counter()
        self.values: Counter[Any] = Counter()
        self.senders: Counter[str] = Counter()
        self.low: Value | None = None
        self.high: Value | None = None

    def add(self, values: Iterable[Value], sender: str) -> None:
        self.events += 1
        if sender in self.senders or len(self.senders) < VALUES_MAX:
            self.senders[sender] += 1
        for value in values:
            kind = kind_of(value)
            self.kinds[kind_name(kind)] += 1
            key = value[:TEXT_MAX] if isinstance(value, str) else value
            if key in self.values or len(self.values) < VALUES_MAX:
                self.values[key] += 1
            if kind in ORDERED and (self.low is None or kind_of(self.low) is kind):
                self.low = value if self.low is None else min(self.low, value)  # type: ignore[type-var]
                self.high = value if self.high is None else max(self.high, value)  # type: ignore[type-var]

    def row(self, name: str) -> dict[str, Any]:
        frequent = self.values.most_common(SHOWN)
        return {
            "name": name,
            "events": self.events,
            "kinds": dict(self.kinds),
            "distinct": len(self.values),
            "is_more": len(self.values) >= VALUES_MAX,
            "filter": to_text(present(name)),
            "top": [[_plain(value), count] for value, count in frequent],
            "top_filters": [_filter(name, value) for value, _ in frequent],
            "range": None if self.low is None or self.high is None else [_plain(self.low), _plain(self.high)],
            "senders": len(self.senders),
            "sender_marks": nsmallest(MARKS, map(_mark, self.senders)),
            "top_senders": [sender for sender, _ in self.senders.most_common(SHOWN)],
        }


def _filter(name: str, value: Value) -> str:
    """The filter for a value, or for all texts that begin like one that was cut. (rule 3)"""
    is_cut = isinstance(value, str) and len(value) >= TEXT_MAX
    return to_text(some(name, starts_with(str(value)) if is_cut else one_of([value])))


@lru_cache(VALUES_MAX)
def _mark(sender: str) -> int:
    """The hash of a sender's name."""
    return int.from_bytes(blake2b(sender.encode(), digest_size=MARK_BYTES).digest())


def _plain(value: Value) -> Any:
    return JSON.plain({"value": value})["value"]


def summary_of(events: Iterable[Event]) -> dict[str, Any]:
    """The attributes of these events."""
    found: dict[str, _Attribute] = {}
    count = 0
    for event in events:
        count += 1
        for name, held in event.attributes.items():
            attribute = found.get(name)
            if attribute is None and len(found) < NAMES_MAX:
                attribute = found[name] = _Attribute()
            if attribute is not None:
                attribute.add(values_of(held), event.publisher)
    rows = [attribute.row(name) for name, attribute in found.items()]
    rows.sort(key=lambda row: (-row["events"], row["name"]))
    return {"events": count, "attributes": rows, "is_cut": len(found) >= NAMES_MAX}
