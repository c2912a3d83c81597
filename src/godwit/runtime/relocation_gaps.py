"""Relocation times: from the attachment of a client at this broker until its session has arrived.

*Rules.*
1. Nothing is done until the histogram is requested. Then the records since the last request are examined, as far as
   they are kept (`activity_monitor.KEPT_RECORDS`).
2. At most `OPEN_MAX` unfinished relocations are remembered, the latest ones.
"""

from itertools import islice

from godwit.runtime.activity_monitor import SECONDS, ActivityMonitor, Histogram

__all__ = ["OPEN_MAX", "RelocationGaps"]

OPEN_MAX = 10_000


class RelocationGaps:
    """The gaps of relocations to one broker, as a histogram."""

    def __init__(self, activity: ActivityMonitor) -> None:
        self._activity = activity
        self._looked_at = 0  # records
        self._began: dict[str, float] = {}  # relocations that have not ended, by client
        self._gaps = Histogram(SECONDS)

    def counts(self) -> list[int]:
        """The histogram of all gaps so far, by the bounds in `SECONDS`. (rule 1)"""
        made = sum(self._activity.counts.values())
        fresh = list(islice(self._activity.latest_records(), made - self._looked_at))
        self._looked_at = made
        for at, record in reversed(fresh):
            if record.kind == "relocating":
                self._began.pop(record.peer, None)  # it was given up
                self._began[record.peer] = at
                if len(self._began) > OPEN_MAX:
                    del self._began[next(iter(self._began))]
            elif record.kind == "relocated" and (began := self._began.pop(record.peer, None)) is not None:
                self._gaps.add(max(0.0, at - began))
        return list(self._gaps.counts)
