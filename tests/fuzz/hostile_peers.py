"""Targets that are machines: a neighbour or a client says anything at all, as often as it likes, in any order.

A broker stands between a hostile peer and honest ones. A case is one message of the hostile peer: right, wrong in a
field, out of its turn, with numbers of its choice. The broker may refuse it and close the connection, and the peer
comes again. What may not happen: that the machine fails, or that two honest clients that come then are not served,
which is looked at every now and then. (A neighbour is trusted with sessions: it may say that a client is with it now.)
"""

from functools import cache
from random import Random
from typing import Any

import msgspec

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import (
    Arrived,
    Closed,
    Effect,
    Heard,
    LinkDown,
    LinkUp,
    Opened,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
)
from godwit.broker.messages import Ack, Attach, Bye, Delivery, Frame, Hello, Packet, Publish, Request, Subscribe
from godwit.broker.tree import HOLD_TIMER
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.runtime import wire
from tests.property.wrong_messages import WRONG, fitting, samples, written

__all__ = ["HostilePeer", "busy_broker"]

CONFIGS: dict[str, dict[str, Any]] = {
    "tree": {},
    "graph": {"family": "graph"},
    "contexts": {"family": "graph", "strategy": "spcf"},
}
LIFE = 400  # cases before a broker is made again
LOOK_EVERY = 20


def busy_broker(config: str) -> Broker:
    """A broker with two neighbours, and two clients that are attached."""
    machine = mobile_broker("here", {"left": 1.0, "right": 1.0}, BrokerConfig(**CONFIGS[config]))
    for peer in ("left", "right"):
        machine.handle(LinkUp(peer), 0.0)
        machine.handle(Arrived(peer, Hello(1, 0, 0, 1, heard=True)), 0.0)
    if config == "tree":
        machine.handle(TimerDue(HOLD_TIMER), 0.0)  # it waits no longer for what its neighbours would tell
    for client in ("ann", "bob"):
        machine.handle(Opened(client), 0.0)
        machine.handle(Heard(client, Attach(client)), 0.0)
    machine.handle(Heard("bob", Request(1, Subscribe(("bob", "s"), parse("x < 5")))), 0.0)
    return machine


@cache
def _right() -> tuple[Any, ...]:
    kinds = [kind for kind in wire._kinds() if kind is not wire.Intro]
    return tuple(fitting(each) for kind in kinds for each in samples(kind))


def _drawn_message(draw: Random) -> Any:
    """A message of any kind; half of them with something wrong in it that the decoder lets through."""
    message = draw.choice(_right())
    if draw.random() < 0.5:
        return message
    data = msgspec.msgpack.decode(wire.NATIVE.encode(message), strict=False)
    _change(data, draw)
    try:
        return wire.NATIVE.decode(written(data))
    except (PeerFault, TypeError, OverflowError):
        return message


def _change(data: Any, draw: Random) -> None:
    """Put something else into one place of plain data."""
    while isinstance(data, dict | list) and data:
        places = list(data) if isinstance(data, dict) else list(range(len(data)))
        place = draw.choice(places)
        if place == "type" or not isinstance(data[place], dict | list) or not data[place] or draw.random() < 0.3:
            if place != "type":
                data[place] = draw.choice(WRONG)
            return
        data = data[place]


class HostilePeer:
    """One broker after another, and one hostile peer: `neighbour` or `client`."""

    def __init__(self, peer: str, config: str) -> None:
        self._peer, self._config = peer, config
        self._machine = busy_broker(config)
        self._cases = 0
        self._timers: list[TimerKey] = []
        self._now = 1.0
        self._published = 0
        self._number = 0  # of the hostile peer's last frame or request
        self._incarnation = 1

    def case(self, draw: Random) -> None:
        """One message, and what follows of it."""
        self._cases += 1
        if self._cases % LIFE == 0:
            self.__init__(self._peer, self._config)  # type: ignore[misc]
            return
        self._now += draw.choice((0.0, 0.001, 0.1, 2.0))
        say = self._from_neighbour if self._peer == "neighbour" else self._from_client
        say(_drawn_message(draw), draw)
        if not self._is_in():
            self._come_again(draw)
        if self._timers and draw.random() < 0.1:
            self._hear(TimerDue(self._timers.pop(draw.randrange(len(self._timers)))))
        if self._cases % LOOK_EVERY == 0:
            self._look()

    def _hear(self, input: Any) -> list[Effect]:
        effects = self._machine.handle(input, self._now)
        for effect in effects:
            if isinstance(effect, StartTimer | StopTimer) and effect.key in self._timers:
                self._timers.remove(effect.key)
            if isinstance(effect, StartTimer):
                self._timers.append(effect.key)
        return effects

    def _from_neighbour(self, message: Any, draw: Random) -> list[Effect]:
        match draw.randrange(5):
            case 0:
                return self._hear(Arrived("left", message))
            case 1:
                number = draw.choice((self._number + 1, self._number, self._number + 2, 0, 2**62))
                return self._hear(Arrived("left", Frame(number, draw.choice((0, 1, 2**40)), message)))
            case 2:
                return self._hear(Arrived("left", Ack(draw.choice((0, 1, 5, 2**40)))))
            case 3:
                self._number += 1
                packet = Packet(draw.choice(("left", "right", "here", "x")), self._number, {"here": 1}, message)
                return self._hear(Arrived("left", Frame(self._number, 0, packet)))
        self._number += 1
        return self._hear(Arrived("left", Frame(self._number, 0, message)))

    def _from_client(self, message: Any, draw: Random) -> list[Effect]:
        if draw.random() < 0.5:
            return self._hear(Heard("ann", message))
        self._number += 1
        try:
            request = wire.NATIVE.decode(wire.NATIVE.encode(Request(self._number, message)))
        except PeerFault:  # no client can ask for that
            request = message
        return self._hear(Heard("ann", request))

    def _is_in(self) -> bool:
        """Whether the broker listens to the peer."""
        machine = self._machine
        return machine.links["left"].connected if self._peer == "neighbour" else bool(machine.sessions.client_of("ann"))

    def _come_again(self, draw: Random) -> None:
        self._number = 0
        if self._peer == "neighbour":
            self._hear(LinkDown("left"))
            self._hear(LinkUp("left"))
            self._incarnation += draw.random() < 0.9  # who was refused is let in again only as another
            self._hear(Arrived("left", Hello(self._incarnation, 0, 0, 1, heard=draw.random() < 0.8)))
        else:
            self._hear(Closed("ann"))
            self._hear(Opened("ann"))
            self._hear(Heard("ann", Attach("ann")))

    def _look(self) -> None:
        """Two honest clients come, one gets what the other publishes, and they leave."""
        self._published += 1
        names = [f"{name}{self._published}" for name in ("eve", "sam")]
        for name in names:
            self._hear(Opened(name))
            self._hear(Heard(name, Attach(name)))
        eve, sam = names
        self._hear(Heard(sam, Request(1, Subscribe((sam, "s"), parse(f"n = {self._published} AND honest = TRUE")))))
        event = Event({"honest": True, "n": self._published}, eve, 1)
        effects = self._hear(Heard(eve, Request(1, Publish(event))))
        if HOLD_TIMER in self._timers:  # a neighbour that says that this broker has lost something makes it wait
            self._timers.remove(HOLD_TIMER)
            effects += self._hear(TimerDue(HOLD_TIMER))
        told = [each.message for each in effects if isinstance(each, Tell) and each.connection == sam]
        if not any(isinstance(message, Delivery) and message.event.publisher == eve for message in told):
            raise AssertionError(f"what eve has published did not come to sam: {effects}")
        for name in names:
            self._hear(Heard(name, Bye("it was seen")))
