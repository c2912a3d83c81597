"""Predictors: the expected next broker of a publisher. Used by PREFETCHING when a connection closes.

*Theory.* A predictor is a pure function that brokers hold: who has gone, from which broker, after which of its
greetings, and at which broker it was before, if that is known. `Itineraries` knows the future, as the paper assumes.
`MovementModel` knows how often clients went from one broker to another, and answers with the likeliest; it is read from
a file, which can be written from observed moves:

    {"transitions": {"b1": {"b2": 0.7, "b0": 0.3}, "b2": {"b1": 12, "b3": 30}},
     "pairs": {"b1": {"b2": {"b3": 28, "b1": 2}}}}

`transitions`: by broker, the brokers that clients go to from there; weights are probabilities, or counts, whatever adds
up. This is a model of first order. `pairs` may be missing, and makes it one of order two: by broker before and broker,
the brokers that clients go to from there. Its weights are counts, since they say how much the pair is to be trusted;
what it has seen little of is taken from the first table [Witten and Bell's back-off], as in `pipeline/mobility`:

    P(to | before, here) = λ · n(to) / N  +  (1 − λ) · P(to | here),    λ = N / (N + kinds)

N: how often clients were seen to go on from the pair. kinds: to how many brokers. `NoisyPredictor` spoils another
predictor's answers at a chosen rate, to see what errors cost.

*Rules.*
1. The same question gets the same answer, in every process: no randomness, and ties are broken by name. What is equally
   likely is found to be: nothing is rounded.
2. A predictor may be wrong, and may answer None. What a wrong answer costs is bounded by the protocol
   (`publisher_presence.py`), not here.
3. No predictor names `here`.
4. Without a broker before, or without a pair of it and `here`, the answer is that of first order.

*Paper.* [pubmob §3] "exploits knowledge of future mobility patterns"; [pubmob §4.1] "PREFETCHING assumes perfect
mobility prediction".
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from godwit.broker.messages import NodeId
from godwit.errors import GodwitError
from godwit.registry import Registry

__all__ = ["PREDICTORS", "Itineraries", "MovementModel", "NoisyPredictor", "Predictor", "model_of"]


class Predictor(Protocol):
    """What a broker asks when a publisher has gone."""

    def next_broker(self, client: NodeId, here: NodeId, visit: int, before: NodeId | None = None) -> NodeId | None:
        """Where `client` goes from `here`, where its greeting number `visit` was; None when nothing is known.

        `before`: the last other broker that it was at, if the broker here knows it.
        """


PREDICTORS: Registry[Callable[[], Predictor]] = Registry("predictor", "godwit.predictors", by_module=True)
"""By name, what makes a predictor without arguments; `perfect` and `model` are made from a run or a file."""
PREDICTORS.expect("godwit.mobility.predictors", "perfect", "model")


class Itineraries(msgspec.Struct, frozen=True):
    """Perfect: by client, the brokers that it visits, the first one first."""

    visits: Mapping[NodeId, Sequence[NodeId]]

    def next_broker(self, client: NodeId, here: NodeId, visit: int, before: NodeId | None = None) -> NodeId | None:
        """The broker after the visit. A client whose connection broke on the way has greeted more often than moved."""
        visits = self.visits.get(client, ())
        for at in range(min(visit, len(visits)) - 1, -1, -1):
            if visits[at] == here:
                return next((broker for broker in visits[at + 1 :] if broker != here), None)
        return None


class MovementModel(msgspec.Struct, frozen=True):
    """By broker, and by broker before and broker, how often clients go to which others: the likeliest is the answer."""

    transitions: Mapping[NodeId, Mapping[NodeId, float]]
    pairs: Mapping[NodeId, Mapping[NodeId, Mapping[NodeId, float]]] = {}

    def next_broker(self, client: NodeId, here: NodeId, visit: int, before: NodeId | None = None) -> NodeId | None:
        """The likeliest next broker; of equally likely ones the first by name."""
        found = _others(self.transitions.get(here, {}), here)
        pair = {} if before is None else _others(self.pairs.get(before, {}).get(here, {}), here)
        likely: Mapping[NodeId, float | Fraction] = _backed_off(pair, found) if pair else found
        return min(likely, key=lambda to: (-likely[to], to)) if likely else None

    def seen_from(self, here: NodeId) -> "MovementModel":
        """What of it the broker `here` can ever ask: it answers that broker as the whole does."""
        pairs = {before: {here: ways[here]} for before, ways in self.pairs.items() if here in ways}
        return MovementModel({here: self.transitions[here]} if here in self.transitions else {}, pairs)

    def to_text(self) -> str:
        """As JSON, which `model_of` reads as the same."""
        return json.dumps({"transitions": self.transitions, "pairs": self.pairs}, ensure_ascii=False, sort_keys=True)


def _others(ways: Mapping[NodeId, float], here: NodeId) -> Mapping[NodeId, float]:
    """Where anybody has gone to, `here` not among it."""
    return {to: weight for to, weight in ways.items() if to != here and weight > 0}


def _backed_off(pair: Mapping[NodeId, float], first: Mapping[NodeId, float]) -> Mapping[NodeId, int | Fraction]:
    """How likely each is, by pair and first order: n · all + kinds · weight, the formula times all · (N + kinds)."""
    seen = {to: _exact(count) for to, count in pair.items()}
    usual = {to: _exact(weight) for to, weight in first.items()}
    everybody, kinds = sum(usual.values()) or 1, len(seen)
    return {to: seen.get(to, 0) * everybody + kinds * usual.get(to, 0) for to in {**usual, **seen}}


def _exact(weight: float) -> int | Fraction:
    """As it is: sums and products of floats are rounded, and then ties are none."""
    return weight if isinstance(weight, int) else Fraction(weight)


class NoisyPredictor(msgspec.Struct, frozen=True):
    """Another predictor, spoilt: with rate `rate` it names one of `brokers` that the other did not."""

    predictor: Any  # a Predictor
    rate: float
    brokers: tuple[NodeId, ...]

    def next_broker(self, client: NodeId, here: NodeId, visit: int, before: NodeId | None = None) -> NodeId | None:
        """The other's answer, or a wrong one. Client and visit decide which, by a hash."""
        answer: NodeId | None = self.predictor.next_broker(client, here, visit, before)
        digest = sha256(f"{client}\0{visit}".encode()).digest()
        others = [broker for broker in self.brokers if broker not in (answer, here)]
        if not others or int.from_bytes(digest[:8]) >= self.rate * 2**64:
            return answer
        return others[int.from_bytes(digest[8:16]) % len(others)]


def model_of(text: str, name: str) -> MovementModel:
    """The movement model that `text` is, as JSON; `name` says in errors where it stands."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GodwitError(f"{name}: {error}") from None
    transitions = data.get("transitions") if isinstance(data, dict) else None
    if not isinstance(transitions, dict):
        raise GodwitError(f'{name}: a movement model is {{"transitions": {{broker: {{broker: weight}}}}}}')
    _check_ways(transitions, f"{name}: transitions")
    pairs = data.get("pairs", {})
    if not isinstance(pairs, dict):
        raise GodwitError(f"{name}: pairs is not a table of brokers before, brokers, and weights of brokers after")
    for before, ways in pairs.items():
        if not isinstance(ways, dict):
            raise GodwitError(f"{name}: pairs.{before} is not a table of brokers, and weights of brokers after")
        _check_ways(ways, f"{name}: pairs.{before}")
    return MovementModel(transitions, pairs)


def _check_ways(table: Mapping[str, Any], where: str) -> None:
    """`GodwitError` unless this is, by broker, a table of brokers and weights."""
    for broker, ways in table.items():
        if not isinstance(ways, dict):
            raise GodwitError(f"{where}.{broker} is not a table of brokers and weights")
        for to, weight in ways.items():
            if type(weight) not in (int, float) or not 0 <= weight < math.inf:
                raise GodwitError(f"{where}.{broker}.{to} is {weight!r}: allowed is a number, 0 or more")
