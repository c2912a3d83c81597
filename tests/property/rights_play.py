"""What can happen to a broker whose clients have rights, for the laws of its state."""

from random import Random
from typing import Any

from godwit.broker.authorisation import RightsChanged, RightsGranted
from godwit.broker.client_rights import ClientRights
from godwit.broker.effects import Closed, Heard
from godwit.broker.messages import Attach, Publish, Received, Request, Retain, Subscribe
from godwit.filters.events import Event
from godwit.filters.language import parse

__all__ = ["draw_rights"]

CLIENTS = ("ann", "bob", "bob/2")
FILTERS = [parse(text) for text in ("TRUE", "FALSE", "x < 2", "x = 1", "x >= 1 AND y = 0", "y < 2")]


def draw_rights(random: Random, broker: Any, step: int) -> Any:
    """The next input, as a call."""
    return "handle", (_input(random, broker, step), step * 0.9)


def _input(random: Random, broker: Any, step: int) -> Any:
    client, chance = random.choice(CLIENTS), random.random()
    session = broker.sessions.session(client)
    if chance < 0.12:
        return RightsGranted(client, _rights(random, random.choice((client.partition("/")[0], "team"))))
    if chance < 0.27:
        user = random.choice(("ann", "bob", "team"))
        rights = None if random.random() < 0.15 else _rights(random, user, from_token=False)
        return RightsChanged(user, rights, random.choice((CLIENTS, ())))
    if session is None:
        return Heard(f"c{step}", Attach(client, mode="named", quench=random.random() < 0.3))
    if session.connection is None:
        receipt = random.randint(0, session.last_receipt())
        received = session.queue.confirmed_up_to()
        return Heard(f"c{step}", Attach(client, received, session.name, receipt=receipt, home="b"))
    if chance < 0.4:
        return Closed(session.connection)
    if chance < 0.5:
        received = random.randint(session.queue.confirmed_up_to(), session.queue.sent_up_to)
        return Heard(session.connection, Received(received))
    said = Event({"x": random.randrange(3), "y": random.randrange(3)}, client, step + 1)
    wishes: list[Any] = [
        Subscribe((client, random.choice("st")), random.choice(FILTERS), share=random.choice(("", "g"))),
        Publish(said),
        Publish(said),
        Retain(said, random.choice("kl"), random.random() < 0.3),
    ]
    return Heard(session.connection, Request(session.accepted + 1, random.choice(wishes)))


def _rights(random: Random, user: str, from_token: bool | None = None) -> ClientRights:
    own = random.random() < 0.2 if from_token is None else from_token
    return ClientRights(user, random.choice(FILTERS), random.choice(FILTERS), random.choice(("refuse", "narrow")), own)
