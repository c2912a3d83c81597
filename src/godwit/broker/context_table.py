"""The tables of contexts for SPCF: those of this broker's clients, those of other brokers, and the subscriptions that
each needs.

*Theory.* The clients of a broker that are in equal contexts share one, which has a number. Where there would be more
than `contexts_max` of them, one more joins the *summary* that grows least by it: bounds around all that are in it, with
one number. A summary that grows, or that most have left, gets another number with other bounds, and says which number
it replaces; so one message tells it of all its clients.

Of every other broker (`OtherBroker`) it is kept which contexts it has, which of its clients is in which, and which of
its subscriptions ask the same of a sender. A subscription here belongs to the *class* of those with the same sender
part; a class knows whom it has been told to (`SenderClass`).

*Rules.*
1. A number always means the same description: none is used twice in one life of a broker.
2. Each context of a client here lies within the description of its number.
3. A step that adds a number comes before one that only takes another away.
4. A summary names at most `LISTED_MAX` values of an attribute, and at most `CONTEXT_MAX` attributes. Contexts
   that no summary can take in within this stay alone, and there are more than `contexts_max`.

*Paper.* [spcf §3.1, Fig. 1]. *Symbols.* context table → `OwnContexts` and `OtherBroker.described`; c_1 … c_n → numbers.
*Departures.* Numbers and summaries are ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from godwit.broker.messages import EntryId, NodeId
from godwit.filters.contexts import CONTEXT_MAX, Bound, Described, bounds_of, growth, key_of, may_match, values_of
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.relations import spread
from godwit.filters.sets import OneOf
from godwit.filters.values import Kind

MATCHING_EFFORT_MAX = 40_000  # literals, each tested against one context
SPANS_MAX = 256  # of names that nobody uses any more
RANGED = (Kind.NUMBER, Kind.TIME, Kind.POINT)

__all__ = [
    "AddedContext",
    "OtherBroker",
    "OtherBrokerState",
    "OwnContextState",
    "OwnContexts",
    "OwnContextsState",
    "RemovedContext",
    "SenderClass",
    "SenderClassState",
    "Step",
]


# ------------------------------------------------------------ of the clients here


@dataclass(frozen=True, slots=True)
class AddedContext:
    """A number that others must hear of. `is_within`: all that it describes was within what it replaces."""

    number: int
    described: Described
    replaces: int = 0
    is_within: bool = False


@dataclass(frozen=True, slots=True)
class RemovedContext:
    """A number that is over."""

    number: int


Step = AddedContext | RemovedContext


class OwnContextState(msgspec.Struct, frozen=True):
    """A context, the number that describes it, and who is in it."""

    context: Attributes
    number: int
    clients: tuple[NodeId, ...]


class OwnContextsState(msgspec.Struct, frozen=True):
    """The contexts of the clients of one broker, and what others were told of them."""

    last: int
    described: dict[int, Described]
    contexts: tuple[OwnContextState, ...]
    members: dict[int, tuple[int, ...]]  # by number, the places of its contexts in `contexts`
    left: dict[int, int]
    spans: dict[str, tuple[int | float, int | float]]
    spans_max: int


class OwnContexts:
    """The contexts of the clients of one broker."""

    def __init__(self, contexts_max: int) -> None:
        assert contexts_max >= 1
        self.contexts_max = contexts_max
        self.last = 0  # the last number used
        self.described: dict[int, Described] = {}
        self.members: dict[int, dict[Any, None]] = {}  # by number, the keys of the contexts that it describes
        self.left: dict[int, int] = {}  # by number of a summary, how many have left it since its bounds were made
        self.numbers: dict[Any, int] = {}  # by the key of a context
        self.exact: dict[Any, Attributes] = {}  # likewise
        self.clients: dict[Any, dict[NodeId, None]] = {}  # likewise, who is in it
        self.keys: dict[NodeId, Any] = {}  # by client
        self.spans: dict[str, tuple[float, float]] = {}  # of every attribute that is a number: the lowest and highest
        self.spans_max = SPANS_MAX  # then only those count that somebody has now

    def __len__(self) -> int:
        return len(self.described)

    def snapshot(self) -> OwnContextsState:
        """The contexts as they are now."""
        places = {key: place for place, key in enumerate(self.exact)}
        contexts = tuple(
            OwnContextState(dict(context), self.numbers[key], tuple(self.clients[key]))
            for key, context in self.exact.items()
        )
        members = {number: tuple(places[key] for key in keys) for number, keys in self.members.items()}
        described = dict(self.described)
        return OwnContextsState(
            self.last, described, contexts, members, dict(self.left), dict(self.spans), self.spans_max
        )

    def restore(self, state: OwnContextsState) -> None:
        """Have these contexts. Their keys follow from what they say."""
        keys = [key_of(each.context) for each in state.contexts]
        self.last, self.described, self.left = state.last, dict(state.described), dict(state.left)
        self.spans, self.spans_max = dict(state.spans), state.spans_max
        self.members = {number: dict.fromkeys(keys[at] for at in places) for number, places in state.members.items()}
        for key, each in zip(keys, state.contexts, strict=True):
            self.numbers[key], self.exact[key] = each.number, dict(each.context)
            self.clients[key] = dict.fromkeys(each.clients)
            self.keys.update(dict.fromkeys(each.clients, key))

    def number_of(self, context: Attributes) -> int:
        """The number of a context; 0 when no client here is in it."""
        return self.numbers.get(key_of(context), 0)

    def number_of_client(self, client: NodeId) -> int:
        """The number of the context that a client here is in; 0 when that is not known."""
        return self.numbers[self.keys[client]] if client in self.keys else 0

    def put(self, client: NodeId, context: Attributes | None) -> list[Step]:
        """A client is in this context from now on; None: in none. What others must hear. [spcf §3.1.2]"""
        before, after = self.keys.get(client), None if context is None else key_of(context)
        if before == after:
            return []
        emptied, steps = 0, list[Step]()
        if before is not None:
            emptied = self._leave(client, before, steps)
        if context is not None:
            self.keys[client] = after
            self.clients.setdefault(after, {})[client] = None
            if after not in self.numbers:
                steps += self._join(after, context, emptied)
        if emptied in self.described:
            del self.described[emptied]
            steps.append(RemovedContext(emptied))
        return steps

    def _leave(self, client: NodeId, key: Any, steps: list[Step]) -> int:
        """Take a client out of its context; the number that nobody is in any more, or 0."""
        del self.keys[client], self.clients[key][client]
        if self.clients[key]:
            return 0
        number = self.numbers.pop(key)
        del self.clients[key], self.exact[key], self.members[number][key]
        if not self.members[number]:
            del self.members[number]
            self.left.pop(number, None)
            return number
        self.left[number] = self.left.get(number, 0) + 1
        if self.left[number] > len(self.members[number]):  # so each who leaves pays for a part of one step
            steps.append(self._describe(self._bounds(number), number, is_within=True))
        return 0

    def _join(self, key: Any, context: Attributes, emptied: int) -> list[Step]:
        """Give a context that is new here a number: its own, or that of a summary."""
        self.exact[key] = dict(context)
        for number, described in self.described.items():
            if isinstance(described, tuple) and number != emptied and _lies_within(context, described):
                self._assign(key, number)
                return []
        self._widen_spans(context)
        if len(self.spans) > self.spans_max:  # each name that is new pays for a part of this
            self.spans = {}
            for each in self.exact.values():
                self._widen_spans(each)
            self.spans_max = max(SPANS_MAX, 2 * len(self.spans))
        choice, bounds = 0, None
        if not emptied and len(self.described) >= self.contexts_max:
            choice, bounds = self._least_grown(context)
        step = self._describe(self.exact[key] if bounds is None else bounds, choice or emptied)
        self._assign(key, step.number)
        return [step]

    def _assign(self, key: Any, number: int) -> None:
        self.numbers[key] = number
        self.members.setdefault(number, {})[key] = None

    def _describe(self, described: Any, replaces: int, *, is_within: bool = False) -> AddedContext:
        """A new number, to which all who are in the replaced one go over."""
        self.last += 1
        self.described.pop(replaces, None)
        self.left.pop(replaces, None)
        for key in self.members.pop(replaces, {}):
            self._assign(key, self.last)
        self.described[self.last] = described
        return AddedContext(self.last, described, replaces, is_within)

    # ------------------------------------------------------------ summaries

    def _bounds(self, number: int) -> Described:
        """What describes the contexts that are in a number now."""
        exact: list[Any] = [self.exact[key] for key in self.members[number]]
        return exact[0] if len(exact) == 1 else _ranges(bounds_of(exact))

    def _least_grown(self, context: Attributes) -> tuple[int, tuple[Bound, ...] | None]:
        """The number that becomes least loose when it takes a context in, and its bounds then; 0: there is none."""
        spans = {name: high - low for name, (low, high) in self.spans.items()}
        joining = dict(context)
        choices = [
            (growth(described, joining, spans), number)
            for number, described in self.described.items()
            if len(joining.keys() | _names(described)) <= CONTEXT_MAX  # rule 4, before the work of weighing it
        ]
        number = min(choices, default=(0.0, 0))[1]
        return number, _ranges(bounds_of((self.described[number], joining))) if number else None

    def _widen_spans(self, context: Attributes) -> None:
        for name, value in context.items():
            for number in values_of(value):
                if type(number) in (int, float):
                    low, high = self.spans.get(name, (number, number))
                    self.spans[name] = (min(low, number), max(high, number))  # type: ignore[type-var, assignment]


def _ranges(bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """The same without lists of numbers, times and points: who moves a little then stays within, and nobody hears."""
    return tuple(
        Bound(bound.attribute, spread(bound.values), bound.optional)
        if isinstance(bound.values, OneOf) and bound.values.kinds in RANGED and len(bound.values.values) > 1
        else bound
        for bound in bounds
    )


def _names(described: Described) -> Iterable[str]:
    return (bound.attribute for bound in described) if isinstance(described, tuple) else described


def _lies_within(context: Attributes, bounds: tuple[Bound, ...]) -> bool:
    named = 0
    for bound in bounds:
        value = context.get(bound.attribute)
        if value is None:
            if not bound.optional:
                return False
        elif not all(map(bound.values.contains, values_of(value))):
            return False
        else:
            named += 1
    return named == len(context)


# ------------------------------------------------------------ of another broker


class OtherBrokerState(msgspec.Struct, frozen=True):
    """What another broker has told of its clients' contexts. Classes and counts follow from its subscriptions."""

    firsts: dict[int, int]
    described: dict[int, tuple[int, Described]]
    stale: tuple[int, ...]
    places: dict[NodeId, int]


@dataclass(slots=True)
class OtherBroker:
    """What another broker has told of its clients' contexts, and its subscriptions by what they ask of a sender."""

    firsts: dict[int, int] = field(
        default_factory=dict
    )  # by number, the first of those that it has replaced, one by one
    described: dict[int, tuple[int, Described]] = field(
        default_factory=dict
    )  # by that first number: number and description of now
    stale: dict[int, None] = field(default_factory=dict)  # numbers that were not told again yet
    counts: dict[NodeId, int] = field(default_factory=dict)  # by client, how many subscriptions of it are here
    places: dict[NodeId, int] = field(default_factory=dict)  # by client, the first number of its context
    classes: dict[Filter, dict[EntryId, None]] = field(default_factory=dict)  # subscriptions by sender part

    def snapshot(self) -> OtherBrokerState:
        """What it has told, to be written down."""
        return OtherBrokerState(dict(self.firsts), dict(self.described), tuple(self.stale), dict(self.places))

    def restore(self, state: OtherBrokerState, subscriptions: Iterable[tuple[EntryId, Filter]]) -> None:
        """Know this of it; `subscriptions`: those of it that are here, by their sender parts."""
        self.firsts, self.described = dict(state.firsts), dict(state.described)
        self.stale, self.places = dict.fromkeys(state.stale), dict(state.places)
        for id, sender_part in subscriptions:
            self.count(id, sender_part)

    def add(self, number: int, described: Described, replaces: int) -> None:
        """It has this context, perhaps instead of another."""
        self.stale.pop(number, None)
        self.stale.pop(replaces, None)
        if number in self.firsts:
            first = self.firsts[number]
        else:
            first = self.firsts[number] = self.firsts.pop(replaces, number)
        self.described[first] = (number, described)

    def remove(self, number: int) -> bool:
        """It has this context no longer; whether it had."""
        self.stale.pop(number, None)
        first = self.firsts.pop(number, 0)
        return self.described.pop(first, None) is not None

    def forget(self) -> None:
        """Whatever it said of contexts counts no longer."""
        self.firsts, self.described, self.stale, self.places = {}, {}, {}, {}

    def place(self, client: NodeId, number: int) -> None:
        """A client of it, with subscriptions here, is in a context; one that is not known says nothing."""
        if client in self.counts and number in self.firsts:
            self.places[client] = self.firsts[number]
        else:
            self.places.pop(client, None)

    def context_of(self, client: NodeId) -> tuple[int, Described] | None:
        """Number and description of what a client of it is in; None when that is not known."""
        return self.described.get(self.places.get(client, 0))

    def may_match(self, filter: Filter) -> bool:
        """Whether a client of it may be in a context that `filter` matches: whether it is in D. [spcf §3.1.2]

        Yes, when to look at all would take too long: then it is told what it may not need.
        """
        contexts_max = MATCHING_EFFORT_MAX // filter.weight if filter.weight else MATCHING_EFFORT_MAX
        looked_at = islice(self.described.values(), contexts_max)
        return any(may_match(filter, each) for _, each in looked_at) or len(self.described) > contexts_max

    def count(self, id: EntryId, sender_part: Filter) -> None:
        """A subscription of it is here."""
        self.counts[id[0]] = self.counts.get(id[0], 0) + 1
        self.classes.setdefault(sender_part, {})[id] = None

    def discount(self, id: EntryId, sender_part: Filter, *, replaced: bool = False) -> None:
        """It is not any more, or another is in its place. Of a client without any, nothing is kept."""
        client = id[0]
        self.counts[client] -= 1
        if not self.counts[client] and not replaced:
            del self.counts[client]
            self.places.pop(client, None)
        del self.classes[sender_part][id]
        if not self.classes[sender_part]:
            del self.classes[sender_part]


class SenderClassState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A class, by what it asks of a sender."""

    asked: Filter
    ids: tuple[EntryId, ...]
    reach: tuple[NodeId, ...]
    ways: tuple[NodeId, ...] = ()


@dataclass(slots=True)
class SenderClass:
    """The subscriptions here that ask the same of a sender, and the brokers that have been told them."""

    ids: dict[EntryId, None] = field(default_factory=dict)
    reach: dict[NodeId, None] = field(default_factory=dict)  # D
    ways: dict[NodeId, None] = field(default_factory=dict)  # told because they lie on the way to one of D

    @property
    def told(self) -> list[NodeId]:
        """All that have been told them."""
        return sorted({**self.reach, **self.ways})
