"""Queue rules and the lifetime of a subscription in the form in which people write them: options, URLs, MQTT
properties.

*Rules.*
1. Each rule has the name of its field in `QueueRules`, whatever the transport. An unknown rule or value is an
   error that says what is allowed.
2. A lifetime is said in seconds from now; nobody has to agree with a broker about the time.

*Paper.* [mobile §4.3] on queues of clients that are away.
"""

from collections.abc import Iterable
from math import isfinite

from godwit.broker.messages import QueueRules
from godwit.errors import FilterError

__all__ = ["LIFETIME_S_MAX", "RULES", "lifetime_of", "queue_rules_of"]

SECONDS, WHOLE, ATTRIBUTE = "a number of seconds above 0", "a whole number, 0 or more", "the name of an attribute"
RULES: dict[str, str] = {
    "age_s_max": SECONDS,
    "newest_per": ATTRIBUTE,
    "high_water": ATTRIBUTE,
    "count_max": WHOLE,
    "bytes_max": WHOLE,
    "importance": ATTRIBUTE,
}
"""Each rule, and what its value must be."""

LIFETIME_S_MAX = 366 * 86_400.0
DIGITS_MAX = 15
SHOWN_MAX = 60


def queue_rules_of(said: Iterable[tuple[str, str]], prefix: str = "queue.") -> QueueRules | None:
    """The rules that names and texts tell; None: there are none. `prefix`: how the names begin where they are said."""
    found: dict[str, float | int | str] = {}
    for name, text in said:
        if name not in RULES:
            raise FilterError(f"{prefix}{name[:SHOWN_MAX]} is not a rule of a queue: allowed are {', '.join(RULES)}")
        value = _value(text, RULES[name])
        if value is None:
            raise FilterError(f"{prefix}{name} is {text[:SHOWN_MAX]!r}: it must be {RULES[name]}")
        found[name] = value
    return QueueRules(**found) if found else None  # type: ignore[arg-type]


def lifetime_of(text: str, name: str = "expires_in") -> float:
    """For how many seconds a subscription is to stand."""
    seconds = _seconds(text)
    if seconds is None or seconds > LIFETIME_S_MAX:
        raise FilterError(f"{name} is {text[:SHOWN_MAX]!r}: it must be {SECONDS}, at most {LIFETIME_S_MAX:.0f}")
    return seconds


def _value(text: str, kind: str) -> float | int | str | None:
    if kind == SECONDS:
        return _seconds(text)
    if kind == WHOLE:
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None
    return text or None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None
