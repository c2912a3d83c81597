"""Predictors: at which broker will a publisher turn up next? Asked by PREFETCHING when a connection closes.

*Theory.* A predictor is a pure function that brokers hold: who has gone, from which broker, and after which of its
greetings. `Itineraries` knows the future, as the paper assumes. `MovementModel` knows how often clients went from one
broker to another, and answers with the likeliest; it is read from a file that whoever watches clients move can write:

    {"transitions": {"b1": {"b2": 0.7, "b0": 0.3}, "b2": {"b1": 12, "b3": 30}}}

By broker, the brokers that clients go to from there; weights are probabilities, or counts, whatever adds up. `Wrong`
spoils another predictor's answers at a chosen rate, to see what errors cost.

*Rules.*
1. The same question gets the same answer, in every process: no randomness, and ties are broken by name.
2. A predictor may be wrong, and may answer None. What a wrong answer costs is bounded by the protocol
   (`publishers.py`), not here.

*Paper.* [pubmob §3] "exploits knowledge of future mobility patterns"; [pubmob §4.1] "PREFETCHING assumes perfect
mobility prediction".
"""

import json
import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from godwit.broker.messages import NodeId
from godwit.errors import GodwitError

__all__ = ["Itineraries", "MovementModel", "Predictor", "Wrong", "model_of"]


class Predictor(Protocol):
    """What a broker asks when a publisher has gone."""

    def next_broker(self, client: NodeId, here: NodeId, visit: int) -> NodeId | None:
        """Where `client` goes from `here`, where its greeting number `visit` was; None when nothing is known."""


class Itineraries(msgspec.Struct, frozen=True):
    """Perfect: by client, the brokers that it visits, the first one first."""

    visits: Mapping[NodeId, Sequence[NodeId]]

    def next_broker(self, client: NodeId, here: NodeId, visit: int) -> NodeId | None:
        """The broker after the visit. A client whose connection broke on the way has greeted more often than moved."""
        visits = self.visits.get(client, ())
        for at in range(min(visit, len(visits)) - 1, -1, -1):
            if visits[at] == here:
                return next((broker for broker in visits[at + 1 :] if broker != here), None)
        return None


class MovementModel(msgspec.Struct, frozen=True):
    """By broker, how likely clients go from there to which others: the likeliest is the answer."""

    transitions: Mapping[NodeId, Mapping[NodeId, float]]

    def next_broker(self, client: NodeId, here: NodeId, visit: int) -> NodeId | None:
        """The likeliest next broker; of equally likely ones the first by name."""
        found = {to: weight for to, weight in self.transitions.get(here, {}).items() if to != here and weight > 0}
        return min(found, key=lambda to: (-found[to], to)) if found else None


class Wrong(msgspec.Struct, frozen=True):
    """Another predictor, spoilt: with rate `rate` it names one of `brokers` that the other did not."""

    predictor: Any  # a Predictor
    rate: float
    brokers: tuple[NodeId, ...]

    def next_broker(self, client: NodeId, here: NodeId, visit: int) -> NodeId | None:
        """The other's answer, or a wrong one. Client and visit decide which, by a hash."""
        answer: NodeId | None = self.predictor.next_broker(client, here, visit)
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
    for broker, ways in transitions.items():
        if not isinstance(ways, dict):
            raise GodwitError(f"{name}: transitions.{broker} is no table of brokers and weights")
        for to, weight in ways.items():
            if type(weight) not in (int, float) or not math.isfinite(weight) or weight < 0:
                raise GodwitError(f"{name}: transitions.{broker}.{to} is {weight!r}: allowed is a number, 0 or more")
    return MovementModel(transitions)
