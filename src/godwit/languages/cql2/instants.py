"""Dates, timestamps and the relations of times.

*Theory.* Every temporal relation of the standard is a list of comparisons between the ends of its two operands. The
table `ENDS` is that list. Evaluation and routing both read it, so they cannot disagree. An instant is an interval
whose ends are the same; the standard allows instants in five of the relations, we allow them in all.

*Rules.*
1. A date is its first moment in UTC. (The standard leaves the comparison of dates and timestamps to implementations.)
2. An end that is open, `'..'`, is the first or last moment that there is.
3. T_DISJOINT is the negation of T_INTERSECTS.
"""

import re
from datetime import UTC, date, datetime, time

from godwit.errors import BadValue
from godwit.languages.cql2.expressions import Date, Timestamp

__all__ = ["ENDS", "FIRST", "LAST", "instant_of", "moment_of", "written"]

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z", re.ASCII)

ENDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "t_after": (("start", ">", "end"),),
    "t_before": (("end", "<", "start"),),
    "t_contains": (("start", "<", "start"), ("end", ">", "end")),
    "t_during": (("start", ">", "start"), ("end", "<", "end")),
    "t_equals": (("start", "=", "start"), ("end", "=", "end")),
    "t_finishedby": (("start", "<", "start"), ("end", "=", "end")),
    "t_finishes": (("start", ">", "start"), ("end", "=", "end")),
    "t_intersects": (("start", "<=", "end"), ("end", ">=", "start")),
    "t_meets": (("end", "=", "start"),),
    "t_metby": (("start", "=", "end"),),
    "t_overlappedby": (("start", ">", "start"), ("start", "<", "end"), ("end", ">", "end")),
    "t_overlaps": (("start", "<", "start"), ("end", ">", "start"), ("end", "<", "end")),
    "t_startedby": (("start", "=", "start"), ("end", ">", "end")),
    "t_starts": (("start", "=", "start"), ("end", "<", "end")),
}
"""For each relation, which end of the first operand is compared with which end of the second, and how."""


def instant_of(text: str) -> Date | Timestamp:
    """The date or timestamp that a text says."""
    try:
        if _DATE.fullmatch(text):
            return Date(date.fromisoformat(text))
        if _TIMESTAMP.fullmatch(text):
            return Timestamp(datetime.fromisoformat(text))
    except ValueError as error:
        raise BadValue(f"there is no time {text!r}: {error}") from None
    raise BadValue(f"{text!r:.60} is not a time: write 2026-11-15, or 2026-11-15T06:00:00Z with at most six decimals")


def written(instant: Date | Timestamp) -> str:
    """The text of a date or timestamp."""
    text = instant.value.isoformat()
    return text.removesuffix("+00:00") + "Z" if isinstance(instant, Timestamp) else text


def moment_of(instant: Date | Timestamp) -> datetime:
    """The moment by which an instant is compared. (rule 1)"""
    return instant.value if isinstance(instant, Timestamp) else datetime.combine(instant.value, time.min, UTC)
