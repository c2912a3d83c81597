"""A broker among neighbours that only a script speaks for."""

from typing import Any

from godwit.broker.effects import Arrived, LinkUp
from godwit.broker.messages import ChannelStart, Frame, Hello, LinkState, Packet, Synced
from godwit.mobility.move_messages import ReachableBrokers
from tests.transcripts.network import Network

__all__ = ["Puppets"]


class Puppets:
    """The neighbours `left` and `right` of the broker `here`: they say what a script says. Beyond right lies `far`."""

    def __init__(self, net: Network) -> None:
        self._net = net
        self.lives = {"left": 0, "right": 0}
        self.frames: dict[str, int] = {}
        self.packets: dict[str, int] = {}
        for peer in self.lives:
            self.begin(peer)

    def begin(self, peer: str) -> None:
        """A neighbour greets in a new life and tells all it knows."""
        self.lives[peer] += 1
        self.frames[peer] = self.packets[peer] = 0
        self._net.note(f"{peer} greets in its life {self.lives[peer]}")
        self._net.give("here", LinkUp(peer))
        self._net.give("here", Arrived(peer, Hello(self.lives[peer], 0, 0, 1, heard=True)))
        if self._net.config.family == "tree":
            self.send(peer, ReachableBrokers(("right", "far") if peer == "right" else ("left",)))
            self.send(peer, Synced("advertisements"))
            self.send(peer, Synced("subscriptions"))
            return
        self.send(peer, LinkState(peer, self.lives[peer], 1, {"here": 1.0}))
        self.carry(peer, ChannelStart(1))
        self.carry(peer, Synced())

    def send(self, peer: str, message: Any) -> None:
        """A message comes from a neighbour, in its next frame."""
        self.frames[peer] += 1
        self._net.give("here", Arrived(peer, Frame(self.frames[peer], 0, message)))

    def carry(self, peer: str, message: Any) -> None:
        """A message comes from a neighbour in a packet, as in the graph family."""
        self.packets[peer] += 1
        self.send(peer, Packet(peer, self.lives[peer], {"here": self.packets[peer]}, message))

    def tell(self, peer: str, message: Any) -> None:
        """A message comes from a neighbour, as in the family of this network."""
        (self.send if self._net.config.family == "tree" else self.carry)(peer, message)
