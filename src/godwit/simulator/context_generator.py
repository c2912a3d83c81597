"""Generation of random contexts of clients, and of filters on them.

*Theory.* A context has numbers `c0`, `c1`, and so on, all alike from 0 to `values` less one. With *ranges*, a filter
tests whether one of them is in a range with the share `selectivity` of all values: this is the probability that a
context matches. With *locality*, each broker has its own values, in the order of the overlay, and a context is near
those of its broker [spcf §4.3].

*Mixed* is for finding faults: attributes that are missing or have several values, filters of AND, OR and NOT, filters
that compare with the asker's own context (`sender.c0 = my.c0`), or that tie content and context together by OR.

*Rules.*
1. Each purpose has a separate random stream: contexts do not change the rest of the workload.
2. If contexts are off, nothing is drawn, filters are unchanged, and events are not addressed.
3. A client's role depends on its name and the seed; it does not change in a run.
"""

from collections.abc import Sequence
from random import Random

from godwit.filters.contexts import of_sender
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter, all_of, any_of, missing, negation, only, present, some
from godwit.filters.references import Reference, one_of
from godwit.filters.sets import ValueSet, at_least, between, complement, less_than
from godwit.filters.values import Value
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario.contexts_section import ROLE, Contexts

__all__ = ["ROLES", "ContextGenerator"]

ROLES = ("guest", "staff", "chief")
AWAY = 0.15  # mixed: share of contexts in which an attribute is missing
SEVERAL = 0.15  # mixed: share of attributes with several values, but for the first
EITHER = 0.1  # mixed: share of sender filters that are an alternative to the content
OWN = 0.15  # mixed: share of filters that compare with the asker's own context
NEGATED = 0.1


class ContextGenerator:
    """Generates the contexts of clients, and filters on them."""

    def __init__(self, spec: Contexts, brokers: Sequence[str], streams: RandomStreams) -> None:
        self.spec = spec
        self._streams = streams
        self._names = tuple(f"c{number}" for number in range(spec.attributes))
        self._centres = {broker: k * spec.values // len(brokers) for k, broker in enumerate(brokers)}
        self._around = max(1, spec.values // (2 * len(brokers)))

    def asserted(self, client: str) -> Attributes:
        """The asserted context."""
        if not self.spec.role_share:
            return {}
        has_role = self._streams.single_use("has-role", client).random() < self.spec.role_share
        return {ROLE: self._streams.single_use("role", client).choice(ROLES)} if has_role else {}

    def context(self, broker: str) -> Attributes:
        """A context that a client at that broker declares."""
        stream = self._streams.stream
        is_local = stream("context-locality").random() < self.spec.locality
        said: dict[str, Value | tuple[Value, ...]] = {}
        for name in self._names:
            rng = stream("context-values", name)
            values = (self._value(broker, rng, is_local=is_local), self._value(broker, rng, is_local=is_local))
            away, several = (
                stream("context-missing", name).random() < AWAY,
                stream("context-several", name).random() < SEVERAL,
            )
            if self.spec.kind == "ranges" or not away:
                is_single = self.spec.kind == "ranges" or not several or name == "c0" or values[0] == values[1]
                said[name] = values[0] if is_single else values
        return said

    def _value(self, broker: str, rng: Random, *, is_local: bool) -> int:
        if not is_local:
            return rng.randrange(self.spec.values)
        return (self._centres[broker] + rng.randint(-self._around, self._around)) % self.spec.values

    # ------------------------------------------------------------ filters

    def narrowed(self, filter: Filter) -> Filter:
        """A subscription's filter, optionally with a condition on the sender."""
        spec, stream = self.spec, self._streams.stream
        if not spec.sender_share or stream("sender-share").random() >= spec.sender_share:
            return filter
        asked = of_sender(self._filter(spec.sender_selectivity, stream("sender-filters")))
        if spec.kind == "mixed" and stream("sender-alternatives").random() < EITHER:
            return any_of(filter, asked)
        return all_of(filter, asked)

    def meant(self) -> Filter | None:
        """The address of an event; None: all receivers."""
        spec, stream = self.spec, self._streams.stream
        if not spec.to_share or stream("addressed-share").random() >= spec.to_share:
            return None
        return self._filter(spec.to_selectivity, stream("addressed-filters"))

    def _filter(self, selectivity: float, rng: Random) -> Filter:
        if self.spec.kind == "mixed":
            return self._mixed(rng, depth=1)
        width = max(1, round(selectivity * self.spec.values))
        low = rng.randrange(self.spec.values - width + 1)
        return some(rng.choice(self._names), between(low, low + width - 1))

    def _mixed(self, rng: Random, depth: int) -> Filter:
        if not depth or rng.random() < 0.6:
            return self._literal(rng)
        parts = [self._mixed(rng, depth - 1) for _ in range(2)]
        made = (all_of if rng.random() < 0.5 else any_of)(*parts)
        return negation(made) if rng.random() < NEGATED else made

    def _literal(self, rng: Random) -> Filter:
        if rng.random() < OWN:
            return some("c0", one_of([Reference("c0")]))
        if self.spec.role_share and rng.random() < 0.2:
            return rng.choice((some(ROLE, one_of([rng.choice(ROLES)])), missing(ROLE)))
        name = rng.choice(self._names)
        if rng.random() < 0.1:
            return rng.choice((present, missing))(name)
        values = self._set(rng)
        values = complement(values) if rng.random() < NEGATED else values
        return (only if rng.random() < 0.15 else some)(name, values)

    def _set(self, rng: Random) -> ValueSet:
        bound = rng.randrange(self.spec.values)
        match rng.randrange(4):
            case 0:
                return one_of([bound, rng.randrange(self.spec.values)])
            case 1:
                return at_least(bound)
            case 2:
                return less_than(bound + 1)
        return between(bound, bound + rng.randrange(self.spec.values))
