"""What can happen to a broker of a graph that goes by advertisements, for the laws of its state."""

from random import Random
from typing import Any

from godwit.broker.advertised import AdvertisementForwarding
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    ChannelStart,
    DropSubscriptions,
    LinkState,
    Packet,
    Publish,
    Subscribe,
    SubscriptionsComplete,
    Synced,
    Unsubscribe,
)
from godwit.filters.events import Event
from godwit.filters.language import parse

__all__ = ["advertised", "draw_advertised"]

FILTERS = [parse(text) for text in ("x = 1", "x > 0", "x < 2", "y = 1", "x = 3 AND y = 2", "y > 1")]
PEERS = ("n", "m")


def advertised() -> GraphRouting:
    """A broker without neighbours yet."""
    return GraphRouting("b", forwarding=AdvertisementForwarding())


def draw_advertised(random: Random, routing: Any, step: int) -> Any:
    """The next call."""
    peer, now = random.choice(PEERS), float(step)
    if peer not in routing.incarnations:
        met = ("on_message", (peer, LinkState(peer, 1, step + 1, {"b": 1.0}), now))
        return random.choice((("on_peer_up", (peer, now)), met, met))
    id, filter, chance = (random.choice("cd"), random.choice("12")), random.choice(FILTERS), random.random()
    event = Event({"x": random.randrange(4), "y": random.randrange(3)}, random.choice("pq"), step + 1)
    own: list[Any] = [
        ("advertise", (id, filter, now)),
        ("advertise", (id, filter, now)),
        ("publish", (event, now)),
        ("subscribe", (id, filter, now)),
    ]
    if id in routing.local:
        own.append(("unsubscribe", (id, now)))
    if chance < 0.5:
        return random.choice([*own, ("unadvertise", (id, now))])
    if chance < 0.53:
        life = routing.incarnations[peer] + random.choice((0, 1))
        return "on_message", (peer, LinkState(peer, life, step + 1, {"b": 1.0}), now)
    known = routing.channels.incoming.get(peer)
    number, life = (known.next if known is not None and known.next else 1), routing.incarnations[peer]
    theirs = (random.choice("st"), random.choice("12"))
    carried: list[Any] = [
        *[AdvertisementAdded(life, random.randrange(1, 5), filter)] * 4,
        *[SubscriptionsComplete(1, random.randint(1, routing.forwarding.last + 1))] * 3,
        *[Subscribe(theirs, filter)] * 2,
        AdvertisementRemoved(random.randrange(1, 5)),
        DropSubscriptions(filter),
        Unsubscribe(theirs),
        Publish(event),
        Synced(),
        ChannelStart(1),
    ]
    message = ChannelStart(1) if known is None or not known.next else random.choice(carried)
    return "on_message", (peer, Packet(peer, life, {"b": number}, message), now)
