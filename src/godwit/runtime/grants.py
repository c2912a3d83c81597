"""Grants as filters: what a user may publish, subscribe to and advertise.

*Theory.* A right is a filter. Publishing is allowed if a grant matches the event. Subscribing is allowed if the grants
together cover the filter; otherwise the request is refused, or narrowed to `filter AND (grant OR grant OR …)`.
Advertisements are checked by the grants for publishing.

*Rules.*
1. Without grants nothing is allowed. `"*"` allows everything.
2. A narrowed filter matches exactly the events that the filter and a grant match.
3. Nothing is refused that no grant restricts; if `covers` cannot tell, the request is not allowed.
4. An event is tested as the broker will stamp it: with the asserted attributes of its sender instead of the sender's
   own values for them. (Other `sender.x` attributes are claims of the sender.)
5. `my.x` in a grant is the asserted value of that user. An attribute that is not asserted matches nothing.
6. An event is retained (`Retain`) by a key only if it would also be granted with that key as its `topic`. The event
   that it would replace or clear must be granted, too: only the machine knows that one (`broker/authorisation.py`).
7. Subscriptions of other clients (`Quench`) are revealed only to users who may publish everything.
8. An event with several values of an attribute matches subscriptions to any of them. So it is granted only if it would
   be granted with each value alone: otherwise a user who may publish `topic = 'a'` could publish to every topic by
   adding 'a'. (This does not apply to asserted attributes, which the sender does not choose.)
9. Only a user who may publish everything may publish the `$SYS` values of a broker: grants that do not mention topics
   would match them, and clients act on what they say of losses.
"""

from collections.abc import Iterable, Iterator, Mapping
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
from godwit.filters.memory_sizes import memory_size
from godwit.filters.references import bind

__all__ = ["ALL", "EVERYTHING", "NOTHING_GRANTED", "OF_BROKER", "BeyondGrants", "Grants", "granted", "in_short"]

ALL = "*"
GRANT_BYTES_MAX = 65_536  # of the text of one grant
GRANTS_BYTES_MAX = 4 * 2**20  # of all grants that are remembered
LITERALS_MAX = 1_000  # of a filter that is compared with grants, which takes time
SHOWN_CHARS_MAX = 200
LITERALS_SHOWN_MAX = 20  # of a filter in a log
TOPIC = "topic"
OF_BROKER = "mqtt.sys_of"  # the attribute of `$SYS` values (`sys_topics.py`)
TOO_LARGE = "the filter is too large to be compared with your rights: ask for less at once, or in several filters"


def granted(texts: Iterable[str], asserted: Attributes) -> Filter:
    """The union of these grants for a user with this asserted context. FilterError if one is not a filter."""
    texts = [text.strip() for text in texts]
    return TRUE if ALL in texts else any_of(*(bind(_PARSED.filter(text), asserted) for text in texts))


_PARSED = ParsedTexts(GRANT_BYTES_MAX, GRANTS_BYTES_MAX)  # a token has the same texts at each connection


@dataclass(frozen=True)
class Grants:
    """The rights of a user. `stamps`: the attributes of events that only the server sets."""

    publish: Filter = FALSE
    subscribe: Filter = FALSE
    beyond_grants: BeyondGrants = "refuse"
    stamps: Mapping[str, Any] | None = None  # with the asserted value of each; None: not asserted
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
        """The grants of these texts. `names`: the context attributes that only the server asserts."""
        held = {} if asserted is None else asserted
        stamps = {SENDER + name: held.get(name) for name in names}
        return Grants(granted(publish, held), granted(subscribe, held), beyond_grants, stamps or None, literals_max)

    def rights(self, user: str, *, from_token: bool = False) -> ClientRights:
        """The same for the machine of a broker."""
        return ClientRights(user, self.publish, self.subscribe, self.beyond_grants, from_token)

    @property
    def is_everything(self) -> bool:
        """Whether everything is allowed."""
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
        """The request as far as it is granted, or `Denied` instead."""
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
        if OF_BROKER in attributes:  # rule 9
            return False
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
        """The filter, if the grant covers it; else the narrowed filter, if narrowing is on; None: refused. (rule 2)"""
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
        *_, checked = self.checking(attach)
        assert checked is not None
        return checked

    def checking(self, attach: Attach) -> Iterator[Attach | None]:
        """Check a greeting, one filter in each step: None after each of them, and then what is granted of it.

        Subscriptions in a greeting are checked like requests; those that are not granted are left out.
        """
        checked = []
        for wish in attach.wanted:
            after = self.checked_wish(wish)
            if after is not wish and type(after) is not Denied:
                memory_size(after.filter)  # now, in a step: a broker counts all of them at once
            checked.append((wish, after))
            yield None
        wanted = tuple(after for _, after in checked if type(after) is not Denied)
        quench = attach.quench and self.publish == TRUE  # rule 7
        if quench is attach.quench and all(before is after for before, after in checked):
            yield attach
        else:
            yield structs.replace(attach, wanted=wanted, quench=quench)

    @staticmethod
    def _not_granted(verb: str, grant: Filter) -> str:
        if grant == FALSE:
            return f"{NOT_ALLOWED} {verb} anything"
        allowed = to_text(grant)
        shown = allowed if len(allowed) <= SHOWN_CHARS_MAX else f"{allowed[:SHOWN_CHARS_MAX]}…"
        return f"{NOT_ALLOWED} {verb} that, only what matches: {shown}"


def in_short(wish: Any) -> str:
    """A request for a log: the verb, and the topic or filter. Of an event, no other attribute is named."""
    match wish:
        case Publish(event=event):
            topic = event.attributes.get(TOPIC)
            about = f"topic {topic!r}" if isinstance(topic, str) else f"an event with {', '.join(event.attributes)}"
            text = f"publish {about}"
        case Retain(key=key):
            text = f"retain an event by {key!r}"
        case Subscribe(filter=filter) | SubscribeQuery(subscribe=Subscribe(filter=filter)):
            text = f"subscribe to {_filter_in_short(filter)}"
        case Advertise(filter=filter):
            text = f"advertise {_filter_in_short(filter)}"
        case _:
            text = type(wish).__name__
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


def _filter_in_short(filter: Filter) -> str:
    large = filter.size > LITERALS_SHOWN_MAX
    return f"a filter of {filter.size} literals" if large else to_text(filter)


EVERYTHING = Grants(TRUE, TRUE)
"""Every right."""

NOTHING_GRANTED = Grants()
"""No right at all."""
