"""The attributes of recent events at a broker: names, kinds, ranges, frequent values and senders.

*Rules.*
1. Only events that are recorded anyway are used, when a summary is requested: nothing is counted beforehand.
2. All is bounded: the number of events, names, values of a name, and the length of a value.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from godwit.filters.events import Event, values_of
from godwit.filters.values import Kind, Value, kind_name, kind_of
from godwit.runtime.wire import JSON

__all__ = ["EVENTS_MAX", "summary_of"]

EVENTS_MAX = 5_000
NAMES_MAX = 500
VALUES_MAX = 1_000  # distinct values of a name that are counted
SHOWN = 8  # of them, the most frequent
TEXT_MAX = 80
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
        frequent = [[_plain(value), count] for value, count in self.values.most_common(SHOWN)]
        return {
            "name": name,
            "events": self.events,
            "kinds": dict(self.kinds),
            "distinct": len(self.values),
            "is_more": len(self.values) >= VALUES_MAX,
            "top": frequent,
            "range": None if self.low is None or self.high is None else [_plain(self.low), _plain(self.high)],
            "senders": len(self.senders),
            "top_senders": [sender for sender, _ in self.senders.most_common(SHOWN)],
        }


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
