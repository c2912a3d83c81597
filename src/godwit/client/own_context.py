"""What a client says of itself: its context in parts, and what it writes on events because of it.

*Theory.* A context may have several authors: the application says what it is, a reader of a GPS says where. Each is a
*part* with a name, and says its own attributes again without knowing the others'. What goes to the broker is all parts
in one. Where two say the same attribute, the later word counts.

A broker may refuse a context. It then has the last one that it accepted, and the client must come to the same. What was
new in the refused one goes back to what it was; but another part may have said something since, which went along with
the bad word and is refused with it. So that is said once more without the bad word (a *correction*), and what was on
its way before the correction does not matter any more, accepted or not. In a session that was lost and begun again
nobody knows what the broker has until it has accepted something: there, what was granted before is said again, and if
that is refused, nothing at all.

*Rules.*
1. With nothing under way, the context here is the one that the broker has accepted last, or is to hear next.
2. An event bears the context of the moment it was published in, as attributes `sender.x`. The application cannot write
   these, and `my.x` in its `to` is filled in at that moment, too.
3. What is too large or no value is an error before anything is changed.
4. A client says how long its contexts last at least; of several parts that say it, the shortest counts.

*Paper.* [spcf §2] "separation of concerns"; [spcf §3] setContext, publish. *Departures.* Parts are ours.
"""

import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import Any

from godwit.broker.message_checks import is_number
from godwit.broker.messages import Context
from godwit.errors import BadEvent, BadValue, FilterError
from godwit.filters.contexts import SENDER, checked_context, checked_context_filter, of_sender, stamped
from godwit.filters.events import ATTRIBUTES_MAX, Attributes, Event, event
from godwit.filters.filters import Filter, all_of
from godwit.filters.language import as_filter
from godwit.filters.references import is_open
from godwit.mobility.possible_values import Movements

__all__ = ["OwnContext", "asked", "written"]

Parts = dict[str, tuple[Attributes, float | None]]
"""By the name of a part: what it says, and for how long each time at least. What was said last stands last."""


class OwnContext:
    """The parts of a client's context, and what of them the broker knows."""

    def __init__(self) -> None:
        self.parts: Parts = {}
        self._granted: Parts = {}
        self._said: deque[tuple[Context, Parts]] = deque()  # what waits for an answer, the oldest first
        self._corrected = 0  # of these, so many were said before a correction
        self._is_unsure = False  # what was granted was granted in another session

    def say(self, part: str, values: Mapping[str, Any], dwell_s: float | None, *, instead: bool) -> Context:
        """The whole context when `part` says this; `instead`: of what was said last and is not sent yet."""
        if dwell_s is not None and not (type(dwell_s) in (int, float) and is_number(dwell_s) and dwell_s > 0):
            raise BadValue(f"a context that lasts for {dwell_s!r}: it must be seconds above 0, or None")
        parts = {name: said for name, said in self.parts.items() if name != part}
        parts[part] = (checked_context(values), dwell_s)
        context = _whole(parts)
        self.parts = parts
        return self._to_say(context, instead=instead)

    def _to_say(self, context: Context, *, instead: bool) -> Context:
        if instead and self._said:
            self._said.pop()
            self._corrected = min(self._corrected, len(self._said))
        self._said.append((context, self.parts))
        return context

    def dwell_s(self, part: str) -> float | None:
        """For how long each word of a part lasts at least, as was said with the last one."""
        return self.parts[part][1] if part in self.parts else None

    def on_accepted(self, context: Context) -> None:
        """The broker has this now."""
        parts = self._taken(context)
        if parts is not None:
            self._granted, self._is_unsure = parts, False

    def on_refused(self, context: Context, *, instead: bool) -> Context | None:
        """The broker has refused this: what must be said now so that both mean the same, if anything."""
        is_past = self._corrected > 0
        parts = self._taken(context)
        if parts is None or is_past:
            return None
        granted = self._granted
        if not self._said:
            if not self._is_unsure:
                self.parts = granted
                return None
            if not context.values:  # what nobody refuses
                return None
            self.parts, self._granted = ({} if parts == granted else granted), {}
            return self._to_say(_whole(self.parts), instead=False)
        bad = {name for name in parts if parts[name] != granted.get(name) and self.parts.get(name) == parts[name]}
        kept = {name: said for name, said in self.parts.items() if name not in bad}
        corrected = {**{name: said for name, said in granted.items() if name in bad}, **kept}
        try:
            whole, self.parts = _whole(corrected), corrected
        except BadValue:  # what was granted has no room beside what was said since
            whole, self.parts = _whole(granted), granted
        self._to_say(whole, instead=instead)
        self._corrected = len(self._said) - 1
        return whole

    def start_over(self, context: Context | None) -> None:
        """The session is another: all of it has to be said again, and if that is refused, what was granted before."""
        self._is_unsure = True
        self._said = deque() if context is None else deque([(context, self.parts)])
        self._corrected = 0

    def clear(self) -> None:
        """Nothing is said any more."""
        self.parts, self._granted = {}, {}
        self.start_over(None)

    def _taken(self, context: Context) -> Parts | None:
        """The parts of a context that was answered; None when it is not known here. What was before it is past."""
        if not any(said is context for said, _ in self._said):
            return None
        while True:
            said, parts = self._said.popleft()
            self._corrected = max(self._corrected - 1, 0)
            if said is context:
                return parts


def _whole(parts: Parts) -> Context:
    """All parts in one; `BadValue` when they are too much together."""
    values: dict[str, Any] = {}
    for said, _ in parts.values():
        values.update(said)
    if len(parts) > 1:
        checked_context(values)
    return Context(values, min((dwell_s for _, dwell_s in parts.values() if dwell_s is not None), default=None))


def asked(filter: Filter | str, sender: Filter | str | None) -> Filter:
    """What a subscription asks: `filter` of the event, and `sender` of its publisher's context."""
    content = as_filter(filter)
    return content if sender is None else all_of(content, of_sender(checked_context_filter(as_filter(sender))))


def written(said: Mapping[str, Any] | Event, context: Attributes, to: Filter | str | None, **details: Any) -> Event:
    """The event that a client in this context publishes: `details` are its publisher, number and time. (rule 2)"""
    made = dataclasses.replace(said, **details) if isinstance(said, Event) else event(said, **details)
    for name in made.attributes:
        if name.startswith(SENDER):
            raise BadEvent(f"attribute {name!r}: what begins with {SENDER!r} is written by set_context, and not here")
    whom = made.to if to is None else to
    if whom is not None:
        whom = checked_context_filter(as_filter(whom))
        whom = _bound(whom, context) if is_open(whom) else whom
    if whom is not made.to:
        made = dataclasses.replace(made, to=whom)
    if not context:
        return made
    if len(made.attributes) + len(context) > ATTRIBUTES_MAX:
        raise BadEvent(
            f"an event of {len(made.attributes)} attributes, with {len(context)} of its sender's context: "
            f"at most {ATTRIBUTES_MAX} together are allowed"
        )
    return stamped(made, context)


def _bound(to: Filter, context: Attributes) -> Filter:
    movements = Movements()
    reason = movements.why_not(to)
    if reason is not None:
        raise FilterError(f"to: {reason}; a publisher can say my.x and myloc, but not what lies around them")
    return movements.exact(to, context)
