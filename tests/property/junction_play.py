"""What can happen to a broker of a tree whose clients do not know where their session is, for the laws of its state."""

from random import Random
from typing import Any

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, Closed, Heard, LinkDown, LinkUp, Opened, TimerDue
from godwit.broker.messages import Attach, Frame, Hello, Publish, Request, Subscribe, Synced
from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.mobility.attach_policies.junction import JunctionPolicy
from godwit.mobility.move_messages import FetchedSubscription, FetchSession, ReachableBrokers, SessionNotFound
from godwit.mobility.relocation import Relocation

__all__ = ["at_junction", "draw_junction"]

CLIENTS = ("ann", "bob")
PEERS = ("n", "m", "k")
FILTERS = [parse(text) for text in ("x > 0", "x = 1", "y = 1")]


def at_junction() -> Any:
    """A broker with three neighbours."""
    config = BrokerConfig(advertisements="off", reduction="simple")
    return mobile_broker("b", dict.fromkeys(PEERS, 1.0), config)


def draw_junction(random: Random, broker: Any, step: int) -> Any:
    """The next input, as a call."""
    return "handle", (_input(random, broker, step), step * 0.9)


def _input(random: Random, broker: Any, step: int) -> Any:
    peer, client, chance = random.choice(PEERS), random.choice(CLIENTS), random.random()
    link, session = broker.links[peer], broker.sessions.session(client)
    if not link.connected:
        return LinkUp(peer)
    if not link.open:
        return Arrived(peer, Hello(link.peer_incarnation or 1, broker.incarnation, link.first - 1, 1, True))
    if chance < 0.03:
        return LinkDown(peer)
    if peer in broker.routing.awaiting["subscriptions"] and chance < 0.3:
        return _frame(link, random.choice((Synced("subscriptions"), ReachableBrokers(("far",)))))
    if chance < 0.55:
        return _frame(link, _said(random, broker, peer, client, step))
    if chance < 0.62:
        return TimerDue(random.choice((("relocate", client), ("hold fetches",))))
    arrival = broker.component(Relocation).arrivals.get(client)
    if session is not None and session.connection is not None:
        subscribe = Subscribe((client, random.choice("xy")), random.choice(FILTERS))
        request = Heard(session.connection, Request(session.accepted + 1, subscribe))
        return random.choice((Closed(session.connection), request))
    if arrival is not None and arrival.connection is not None and chance < 0.8:
        return Closed(arrival.connection)
    if chance < 0.8:
        return Opened(f"c{step}")
    wanted = tuple(Subscribe((client, name), random.choice(FILTERS)) for name in "xy"[: random.randrange(3)])
    return Heard(f"c{step}", Attach(client, session="far/1/1", attempt=step // 3, mode="junction", wanted=wanted))


def _frame(link: Any, message: Any) -> Arrived:
    return Arrived(link.peer, Frame(link.received + 1, link.first + link.in_flight - 1, message))


def _said(random: Random, broker: Any, peer: str, client: str, step: int) -> Any:
    """Fetches, answers to those that were passed on or sent from here, and what leads fetches on."""
    policy = broker.component(JunctionPolicy)
    said: list[Any] = []
    if (passage := policy.passages.get(client)) is not None:
        said += [SessionNotFound(client, passage.to, passage.attempt, passage.round)] * 3
    said += [SessionNotFound(client, "b", each.attempt, each.round) for each in policy.searches.get(client, ())]
    name = random.choice("xy")
    fetched = (FetchedSubscription(name, random.choice(FILTERS), 0),)
    attempt, round = step // 3 + random.choice((-1, 0, 0, 1)), random.choice((0, 0, 1))
    told = random.choice(((), (name,)))
    return random.choice(
        [
            *said,
            *[FetchSession(client, random.choice(("n", "far")), max(attempt, 0), 1, "b/1/1", fetched, told, round)] * 2,
            Subscribe((random.choice((client, "eve")), name), random.choice(FILTERS)),
            Publish(Event({"x": random.randrange(3), "y": 1}, "p", step + 1)),
        ]
    )
