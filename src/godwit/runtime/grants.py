"""Grants as filters: what a user may publish, want and announce.

*Theory.* A right is a filter. To publish is allowed when a grant matches the event. To subscribe is allowed when the
grants together cover the filter, so that whatever it lets through was granted; else the wish is refused, or narrowed to
`filter AND (grant OR grant OR …)`. An advertisement speaks of what will be published, and is checked by those grants.

*Rules.*
1. Without grants nothing is allowed. `"*"` allows everything.
2. What a narrowed filter lets through is what the filter lets through and a grant matches, neither more nor less.
3. A refusal is never given for something that no grant restricts; what cannot be told (`covers`) is not allowed.
4. An event is tested as the broker will stamp it: what the server asserts of its sender stands in it, and what the
   sender says of those attributes itself does not. (`sender.x` of others is the sender's own word.)
5. `my.x` in a grant is what the server asserts of that user. What it does not assert matches nothing.
6. An event is retained (`Retain`) by a key only if it would also be granted with that key as its `topic`. The event
   that it would replace or clear must be granted, too: the machine alone knows that one (`broker/authorisation.py`).
7. What other clients want (`Quench`) is told to those alone who may publish everything.
8. An event in which an attribute has several values reaches whoever wants one of them. So it is granted only if it were
   with each of them alone, too: else who may publish `topic = 'a'` would publish to every topic, with 'a' beside it.
   (What the server asserts is no choice of the sender's.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from godwit.broker.client_rights import EFFORT_MAX, NOT_ALLOWED, BeyondGrants, ClientRights, left_of, may_publish
from godwit.broker.messages import Advertise, Attach, Denied, Publish, Request, Retain, Subscribe, SubscribeQuery
from godwit.filters.contexts import SENDER
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import FALSE, TRUE, Filter, any_of
from godwit.filters.language import ParsedTexts, to_text
from godwit.filters.references import bind

__all__ = ["ALL", "EVERYTHING", "NOTHING_GRANTED", "BeyondGrants", "Grants", "granted"]

ALL = "*"
GRANT_BYTES_MAX = 65_536  # of the text of one grant
GRANTS_BYTES_MAX = 4 * 2**20  # of all grants that are remembered
LITERALS_MAX = 1_000  # of a filter that is held against grants: comparing takes time
SHOWN_CHARS_MAX = 200
TOPIC = "topic"
TOO_LARGE = "the filter is too large to be compared with your rights: ask for less at once, or in several filters"


def granted(texts: Iterable[str], asserted: Attributes) -> Filter:
    """All that these grants allow to whom the server asserts this of. FilterError: one is not a filter."""
    texts = [text.strip() for text in texts]
    return TRUE if ALL in texts else any_of(*(bind(_PARSED.filter(text), asserted) for text in texts))


_PARSED = ParsedTexts(GRANT_BYTES_MAX, GRANTS_BYTES_MAX)  # a token brings the same texts with each connection


@dataclass(frozen=True)
class Grants:
    """What somebody may do. `stamps` are the attributes of events that only the server says of their sender."""

    publish: Filter = FALSE
    subscribe: Filter = FALSE
    beyond_grants: BeyondGrants = "refuse"
    stamps: Mapping[str, Any] | None = None  # with the asserted value of each; None: nothing is asserted of it
    literals_max: int = LITERALS_MAX

    @staticmethod
    def of(
        publish: Iterable[str],
        subscribe: Iterable[str],
        beyond_grants: BeyondGrants = "refuse",
        asserted: Attributes | None = None,
        names: Iterable[str] = (),
        literals_max: int = LITERALS_MAX,
    ) -> "Grants":
        """The grants that these texts stand for. `names`: what of contexts this broker's server alone says."""
        held = {} if asserted is None else asserted
        stamps = {SENDER + name: held.get(name) for name in names}
        return Grants(granted(publish, held), granted(subscribe, held), beyond_grants, stamps or None, literals_max)

    def rights(self, user: str, *, from_token: bool = False) -> ClientRights:
        """The same for the machine of a broker."""
        return ClientRights(user, self.publish, self.subscribe, self.beyond_grants, from_token)

    @property
    def is_everything(self) -> bool:
        """Whether there is nothing to check."""
        return self.publish == TRUE and self.subscribe == TRUE

    # ------------------------------------------------------------ what a client says

    def checked(self, message: Any) -> Any:
        """The message as far as it is granted: the same object when all of it is."""
        kind = type(message)
        if kind is Request:
            wish = self.checked_wish(message.wish)
            return message if wish is message.wish else Request(message.number, wish)
        return self._checked_attach(message) if kind is Attach else message

    def checked_wish(self, wish: Any) -> Any:
        """The wish as far as it is granted, or `Denied` in its place."""
        kind = type(wish)
        if kind is Publish:
            return wish if self.may_publish(wish.event) else Denied(self._not_granted("publish", self.publish))
        if kind is Subscribe:
            return self._within(wish, self.subscribe, "subscribe to")
        if kind is SubscribeQuery:
            subscribe = self._within(wish.subscribe, self.subscribe, "subscribe to")
            return structs.replace(wish, subscribe=subscribe) if type(subscribe) is Subscribe else subscribe
        if kind is Advertise:
            return self._within(wish, self.publish, "publish")
        if kind is Retain:
            return self._checked_retain(wish)
        return wish

    def may_publish(self, event: Event, topic: str | None = None) -> bool:
        """Whether a grant matches the event as it will be stamped; with `topic`, under that topic. (rule 4)"""
        if self.publish == TRUE:
            return True
        attributes = event.attributes
        if self.stamps is not None or topic is not None:
            said = dict(attributes)
            for stamp, value in (self.stamps or {}).items():
                said.pop(stamp, None)
                if value is not None:
                    said[stamp] = value
            if topic is not None:
                said[TOPIC] = topic
            attributes = said
        return may_publish(self.publish, attributes, self.stamps or ())

    def narrowed(self, filter: Filter, grant: Filter, effort: Effort | None = None) -> Filter | None:
        """The filter, if the grant covers it; else what is left of it, when that is wanted; None: nothing. (rule 2)"""
        return left_of(filter, grant, self.beyond_grants, effort)

    def _within(self, wish: Subscribe | Advertise, grant: Filter, verb: str) -> Any:
        if grant != TRUE and wish.filter.size > self.literals_max:
            return Denied(f"a filter of {wish.filter.size} literals: at most {self.literals_max} are allowed")
        effort = Effort(EFFORT_MAX)
        filter = self.narrowed(wish.filter, grant, effort)
        if filter is None:
            return Denied(TOO_LARGE if effort.is_over else self._not_granted(verb, grant))
        return wish if filter is wish.filter else structs.replace(wish, filter=filter)

    def _checked_retain(self, wish: Retain) -> Any:
        if not self.may_publish(wish.event):
            return Denied(self._not_granted("publish", self.publish))
        if not self.may_publish(wish.event, wish.key):  # rule 6
            return Denied(f"{NOT_ALLOWED} retain an event by the key {wish.key[:SHOWN_CHARS_MAX]!r}")
        return wish

    def _checked_attach(self, attach: Attach) -> Attach:
        """What a client brings along is checked like what it asks for; what is not granted is left out."""
        checked = [(wish, self.checked_wish(wish)) for wish in attach.wanted]
        wanted = tuple(after for _, after in checked if type(after) is not Denied)
        quench = attach.quench and self.publish == TRUE  # rule 7
        if quench is attach.quench and all(before is after for before, after in checked):
            return attach
        return structs.replace(attach, wanted=wanted, quench=quench)

    @staticmethod
    def _not_granted(verb: str, grant: Filter) -> str:
        if grant == FALSE:
            return f"{NOT_ALLOWED} {verb} anything"
        allowed = to_text(grant)
        shown = allowed if len(allowed) <= SHOWN_CHARS_MAX else f"{allowed[:SHOWN_CHARS_MAX]}…"
        return f"{NOT_ALLOWED} {verb} that, only what matches: {shown}"


EVERYTHING = Grants(TRUE, TRUE)
"""Every right."""

NOTHING_GRANTED = Grants()
"""No right at all."""
