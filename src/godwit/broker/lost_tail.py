"""A lost tail: the disk has lost the last inputs of a broker, which continues as a new incarnation with the rest.

*Theory.* A broker's state is a function of its inputs. When the disk loses the last of them, the broker comes back as
it was a while ago, and others know more: neighbours have received what it never sent, or were acknowledged what it
never received. Numbers of that life mean nothing any more, and what came in the tail is gone. So the broker begins
another life by the protocol for brokers that have lost everything, and keeps what it has: each neighbour tells it
everything again, and hears everything again. Until then what either had told stays in force, and events wait.
Events that come twice are known by their own ids: at sessions, and at clients.

The driver says that the tail is lost (`TailLost`), when its disk tells; or a neighbour's `Hello` shows it. A client
that knows more than its session is told alone: it may err, or lie, and only its session is concerned (`sessions.py`).

Events that were only on their way through this broker are lost with the tail, too, and their senders have forgotten
them. Any client in the network may have missed one. So all brokers are told of the loss, by a table that they share
(`gossip.py`), and each lets the next receipt of its sessions say so (`heard_losses.py`). Clients that are connected
get that receipt at once (`ReceiptUpdate`).

*Rules.*
1. A new life has a number above all before: at least the time in milliseconds.
2. All links and connections are closed, so that nothing of the past life is under way on them. Sessions stay, under
   other names: no client's numbers count in them.
3. Each session's receipts say since when something may be lost (`Receipt.lost_since`), until one of them has come:
   here, and at every broker that hears of the loss. A session that moves meanwhile takes it along. It says so once for
   each loss, and one that begins afterwards says nothing.
4. Of clients that are connected `TOLD_AT_ONCE` are told at a time, so that others do not wait for all of them.
5. Only a start loses inputs: afterwards all that comes is in memory. So a neighbour's word begins a life only before
   this broker has, since its start (`Restarted`), begun a life or agreed with that neighbour on what went between them.
   Later it is wrong, and costs the neighbour its link; nobody else notices.
"""

from itertools import islice
from typing import ClassVar

import msgspec

from godwit.broker.component import Handlers
from godwit.broker.effects import Close, Effect, Restarted, StartTimer, TailLost, Tell, TimerKey, Trace
from godwit.broker.gossip import LOSSES, Gossip
from godwit.broker.gossip_messages import Fact, LostInputs
from godwit.broker.host import Host
from godwit.broker.links import Link
from godwit.broker.messages import Attach, Bye, Message, NodeId, ReceiptUpdate
from godwit.errors import PeerFault
from godwit.trace import Record

__all__ = ["LOST_TAIL", "LostTail", "LostTailState"]

LOST_TAIL = "this broker has lost its last inputs, and begins another life"
WRONG = "the Hello names messages that this broker never sent, and this broker has lost none since it started"
TOLD_AT_ONCE = 128
LOSSES_TIMER = "losses"


class LostTailState(msgspec.Struct, frozen=True, tag=True):
    """Clients that were connected when a loss was heard of, and are still to be told; what is known since the start."""

    version: ClassVar[int] = 2
    untold: tuple[NodeId, ...]
    agreed: tuple[NodeId, ...]  # neighbours
    has_begun: bool  # a life


class LostTail:
    """The component that begins another life, and hears of those of others."""

    label = "lost_tail"
    host: Host

    def __init__(self, gossip: Gossip) -> None:
        self._gossip = gossip
        self._untold: dict[NodeId, None] = {}
        self._agreed: dict[NodeId, None] = {}  # neighbours whose links were open since the start
        self._has_begun = False  # a life, since the start

    def join(self, host: Host) -> Handlers:
        """Handle the reports of the driver and of links."""
        self.host = host
        return Handlers(
            inputs={TailLost: self.on_tail_lost, Restarted: self.on_restarted},
            facts={LOSSES: self.on_fact},
            timers={LOSSES_TIMER: self._on_losses_due},
            on_peer_knows_more=self.on_peer_knows_more,
            on_attach=self._on_attach,
            on_link_open=self._on_link_open,
        )

    def snapshot(self) -> LostTailState | None:
        """Who is still to be told, and whose word counts."""
        if not (self._untold or self._agreed or self._has_begun):
            return None
        return LostTailState(tuple(self._untold), tuple(self._agreed), self._has_begun)

    def restore(self, state: LostTailState | None) -> None:
        """Have these to tell, and know this."""
        self._untold = {} if state is None else dict.fromkeys(state.untold)
        self._agreed = {} if state is None else dict.fromkeys(state.agreed)
        self._has_begun = state is not None and state.has_begun

    def on_restarted(self, input: Restarted, now: float) -> list[Effect]:
        """The driver was started again: its disk may have lost something. (rule 5)"""
        self._agreed.clear()
        self._has_begun = False
        self.host.routing.on_restarted(now)
        return []

    def on_tail_lost(self, input: TailLost, now: float) -> list[Effect]:
        """The driver's disk has lost its last inputs."""
        since = max(input.since, 0.0)  # a clock that is behind may put it before all time, which no broker accepts
        return self._begin_life(max(input.incarnation, self.host.incarnation + 1), since, "", now)

    def on_peer_knows_more(self, link: Link, knows: int, now: float) -> list[Effect]:
        """A neighbour knows of something between us that we do not; `knows`: our life, as it knows it."""
        if self._has_begun or link.peer in self._agreed:  # rule 5
            raise PeerFault(WRONG)
        return self._begin_life(max(int(now * 1_000), knows + 1, self.host.incarnation + 1), 0.0, link.peer, now)

    def _on_attach(self, message: Attach) -> None:
        """A client was here last, and its session is not: this broker has had a life that it does not remember."""
        host = self.host
        if message.home == host.name and message.session and host.sessions.session(message.client) is None:
            host.routing.note_past_life()

    def _on_link_open(self, peer: NodeId, effects: list[Effect], now: float) -> None:
        self._agreed[peer] = None

    def on_fact(self, fact: Fact, effects: list[Effect], now: float) -> None:
        """Another broker has lost its last inputs."""
        if isinstance(fact.value, LostInputs) and fact.key != (self.host.name,):
            self.host.sessions.losses.hear(fact.value.since)
            connected = [session.client for session in self.host.sessions if session.connection is not None]
            if connected and not self._untold:
                effects.append(StartTimer((LOSSES_TIMER,), now))
            self._untold.update(dict.fromkeys(connected))

    def _on_losses_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Tell some of those that are connected. (rule 4)"""
        effects: list[Effect] = []
        losses = self.host.sessions.losses
        for client in list(islice(self._untold, TOLD_AT_ONCE)):
            del self._untold[client]
            session = self.host.sessions.session(client)
            if session is not None and session.connection is not None and session.losses_heard < losses.count:
                session.hear_of(losses, session.losses_heard)
                effects.append(
                    Tell(session.connection, ReceiptUpdate(session.receipt(session_lost=False, greets=False)))
                )
        return [*effects, StartTimer((LOSSES_TIMER,), now)] if self._untold else effects

    def _begin_life(self, incarnation: int, since: float, by: NodeId, now: float) -> list[Effect]:
        host, self._has_begun = self.host, True
        detail = f"by what {by} knows" if by else "by the disk"
        effects: list[Effect] = [Trace(Record("tail_lost", by, number=incarnation, detail=detail))]
        for session in [session for session in host.sessions if session.connection is not None]:
            connection = session.connection
            assert connection is not None
            effects += [Tell(connection, Bye(LOST_TAIL)), Close(connection, LOST_TAIL), *host.detach(connection, now)]
        undelivered: dict[NodeId, list[Message]] = {}
        host.incarnation = incarnation
        for peer, link in host.links.items():
            closed, undelivered[peer] = link.begin_life(incarnation, LOST_TAIL, now)
            effects += closed
            if closed:
                host.carry_out(host.routing.on_peer_down(peer, now), effects, now)
        host.sessions.incarnation = incarnation
        for session in host.sessions:
            session.name = host.sessions.new_name()
        host.sessions.losses.hear(since)
        reason = self._gossip.put(LOSSES, (host.name,), LostInputs(since), now)
        if reason is not None:
            effects.append(Trace(Record("lost", detail=reason)))
        host.carry_out(host.routing.begin_life(incarnation, undelivered, now), effects, now)
        for peer, messages in undelivered.items():
            for message in messages:
                if host.handles(type(message)):
                    host.send(peer, message, effects, now)
        return effects
