"""The mode `ask`: the client sends its name and its last broker. [mobile §4.3]

The new broker asks the old one what the client wants (`AskInterests`, `Interests`), subscribes, and then relocates the
session as in the mode `relocate`. Nothing is lost: the question for the session follows the new subscriptions on every
link.
"""

from operator import attrgetter

from godwit.broker.component import Handlers, RelayedHandler
from godwit.broker.effects import Effect
from godwit.broker.host import Host
from godwit.broker.messages import Advertise, Attach, NodeId, Subscribe
from godwit.broker.session import Session
from godwit.mobility.arrival import Arrival
from godwit.mobility.move_checks import check_move
from godwit.mobility.move_messages import AskInterests, Interests, SessionUnknown
from godwit.mobility.relocation import Relocation

__all__ = ["AskPolicy"]


class AskPolicy:
    """Asks, and says, what a client wants."""

    label = "ask"
    asks_wishes = True
    says_when_let_in = True
    host: Host

    def __init__(self, relocation: Relocation) -> None:
        self.relocation = relocation
        self.routes = relocation.routes
        relocation.vary("ask", self)

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            relayed={
                AskInterests: RelayedHandler(self.on_ask_interests, check_move, attrgetter("home")),
                Interests: RelayedHandler(self.on_interests, check_move, attrgetter("to")),
            }
        )

    def snapshot(self) -> None:
        """Nothing is kept: arrivals are the relocation's."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """As in the mode `relocate`; its first question is another."""
        return self.relocation.attach(connection, message, now)

    def on_ask_interests(self, peer: NodeId, message: AskInterests, now: float) -> list[Effect]:
        """Say what the client wants, or send the question to where that is known. [mobile §4.3]"""
        client, to, attempt = message.client, message.to, message.attempt
        relocation, session = self.relocation, self.host.sessions.session(client)
        arrival, moved = relocation.arrivals.get(client), relocation.moved.get(client)
        latest = session.attempt if session is not None else arrival.attach.attempt if arrival is not None else 0
        if (session is not None or arrival is not None) and attempt <= latest:
            return relocation.supersede(message, latest, now)
        holder = session if session is not None else arrival
        if holder is not None and (session is not None or arrival is None or arrival.knows_wishes):
            return self.routes.send_to(to, Interests(client, to, attempt, _wishes_of(client, holder)), now)
        if arrival is not None:  # we have asked the same, and not for the session yet: so it is still there
            home = arrival.attach.home
            if home in ("", to, self.host.name) or arrival.is_coming:  # nobody else knows; it will ask again
                return []
            return self.routes.send_to(home, AskInterests(client, home, to, attempt, message.followed), now)
        if moved is not None and moved.to != to:
            if attempt <= moved.attempt:
                return relocation.supersede(message, moved.attempt, now)
            if moved.attempt > message.followed:  # else it was here before: as in `transfer_barrier.py`, rule 7
                return self.routes.send_to(moved.to, AskInterests(client, moved.to, to, attempt, moved.attempt), now)
        return self.routes.send_to(to, SessionUnknown(client, to, attempt), now)

    def on_interests(self, peer: NodeId, message: Interests, now: float) -> list[Effect]:
        """Now it is known what the client wants: subscribe, and ask for its session."""
        arrival = self.relocation.awaited(message)
        if arrival is None or arrival.knows_wishes:
            return []
        arrival.learn(message.wanted)
        effects: list[Effect] = []
        self.relocation.entries.expect(arrival, effects, now)
        return effects + self.relocation.ask(arrival, now)

    # ------------------------------------------------------------ its session

    def resume(self, attach: Attach, session: Session) -> Attach:
        """As in the mode `relocate`."""
        return self.relocation.resume(attach, session)

    def on_no_answer(self, arrival: Arrival, now: float) -> list[Effect]:
        """As in the mode `relocate`."""
        return self.relocation.on_no_answer(arrival, now)

    def begin_without(self, arrival: Arrival, now: float) -> list[Effect]:
        """The session is lost: the client brought nothing, so all that is known of it goes on."""
        return self.relocation.begin_new(arrival, arrival.subscriptions, now)


def _wishes_of(client: NodeId, holder: Session | Arrival) -> tuple[Subscribe | Advertise, ...]:
    advertised = (Advertise((client, name), filter) for name, filter in holder.advertisements.items())
    return (*holder.subscriptions.values(), *advertised)
