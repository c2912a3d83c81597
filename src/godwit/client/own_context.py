"""The client's own context: its parts, and the attributes that it adds to published events.

*Theory.* A context may have several authors: the application sets a role, a GPS reader sets the position. Each author
has a named *part*, and sets its own attributes without knowing the others'. The broker gets all parts merged. If two
parts set the same attribute, the later value wins.

A broker may refuse a context. It then keeps the last one it accepted, and the client must return to the same. The
refused part goes back to its accepted value. But another part may have changed since: its new value was sent together
with the refused one, and is refused with it. So the merged context is sent again without the refused value (a
*correction*). Answers to contexts sent before the correction no longer matter. After a session was lost, the client
does not know what the broker has until it accepts something: it sends the last accepted context again, and if that is
refused, an empty one.

*Rules.*
1. With nothing under way, the context here is the one that the broker accepted last, or the next one to be sent.
2. An event carries the context at the time of its publication, as attributes `sender.x`. The application cannot set
   these. `my.x` in `to` is replaced at the same time.
3. A context that is too large or has an invalid value is an error, before anything is changed.
4. A part may have a shortest duration (`dwell_s`); of several parts, the shortest counts.

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
"""By name of the part: its attributes and its shortest duration. The part that was set last stands last."""


class OwnContext:
    """The parts of a client's context, and those that the broker has accepted."""

    def __init__(self) -> None:
        self.parts: Parts = {}
        self._granted: Parts = {}
        self._said: deque[tuple[Context, Parts]] = deque()  # contexts without an answer, the oldest first
        self._corrected = 0  # how many of these were sent before a correction
        self._is_unsure = False  # `_granted` was accepted in an earlier session

    def say(self, part: str, values: Mapping[str, Any], dwell_s: float | None, *, instead: bool) -> Context:
        """Set a part, and return the merged context. `instead`: it replaces the last one, which is not sent yet."""
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
        """Shortest duration of a part, as it was set last."""
        return self.parts[part][1] if part in self.parts else None

    def on_accepted(self, context: Context) -> None:
        """The broker has accepted this context."""
        parts = self._taken(context)
        if parts is not None:
            self._granted, self._is_unsure = parts, False

    def on_refused(self, context: Context, *, instead: bool) -> Context | None:
        """The broker has refused this context. Returns the correction to send, or None."""
        is_past = self._corrected > 0
        parts = self._taken(context)
        if parts is None or is_past:
            return None
        granted = self._granted
        if not self._said:
            if not self._is_unsure:
                self.parts = granted
                return None
            if not context.values:  # an empty context is never refused
                return None
            self.parts, self._granted = ({} if parts == granted else granted), {}
            return self._to_say(_whole(self.parts), instead=False)
        bad = {name for name in parts if parts[name] != granted.get(name) and self.parts.get(name) == parts[name]}
        kept = {name: said for name, said in self.parts.items() if name not in bad}
        corrected = {**{name: said for name, said in granted.items() if name in bad}, **kept}
        try:
            whole, self.parts = _whole(corrected), corrected
        except BadValue:  # accepted and newer parts are too large together
            whole, self.parts = _whole(granted), granted
        self._to_say(whole, instead=instead)
        self._corrected = len(self._said) - 1
        return whole

    def start_over(self, context: Context | None) -> None:
        """A new session: the context must be sent again, and if it is refused, the last accepted one."""
        self._is_unsure = True
        self._said = deque() if context is None else deque([(context, self.parts)])
        self._corrected = 0

    def clear(self) -> None:
        """Forget all parts."""
        self.parts, self._granted = {}, {}
        self.start_over(None)

    def _taken(self, context: Context) -> Parts | None:
        """Remove an answered context and all before it. Returns its parts, or None if it is unknown."""
        if not any(said is context for said, _ in self._said):
            return None
        while True:
            said, parts = self._said.popleft()
            self._corrected = max(self._corrected - 1, 0)
            if said is context:
                return parts


def _whole(parts: Parts) -> Context:
    """All parts merged. Raises `BadValue` if they are too large together."""
    values: dict[str, Any] = {}
    for said, _ in parts.values():
        values.update(said)
    if len(parts) > 1:
        checked_context(values)
    return Context(values, min((dwell_s for _, dwell_s in parts.values() if dwell_s is not None), default=None))


def asked(filter: Filter | str, sender: Filter | str | None) -> Filter:
    """The filter of a subscription: `filter` tests the event, and `sender` its publisher's context."""
    content = as_filter(filter)
    return content if sender is None else all_of(content, of_sender(checked_context_filter(as_filter(sender))))


def written(said: Mapping[str, Any] | Event, context: Attributes, to: Filter | str | None, **details: Any) -> Event:
    """The event that a client in this context publishes: `details` are its publisher, number and time. (rule 2)"""
    made = dataclasses.replace(said, **details) if isinstance(said, Event) else event(said, **details)
    for name in made.attributes:
        if name.startswith(SENDER):
            raise BadEvent(f"attribute {name!r}: names that begin with {SENDER!r} are set by set_context only")
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
        raise FilterError(f"to: {reason}; a publisher can use my.x and myloc, but not places around them")
    return movements.exact(to, context)
