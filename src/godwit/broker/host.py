"""Host: the interface of a broker for its components.

`Broker` (`broker.py`) implements it. What each method does to links, routing and sessions is said here; the methods of
`Broker` say how.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.component import LocalHook, RelayedHandler
from godwit.broker.effects import Effect
from godwit.broker.gossip_messages import Fact
from godwit.broker.limits import Limits
from godwit.broker.links import Link
from godwit.broker.messages import Attach, EntryId, NodeId
from godwit.broker.removed_entries import RemovedEntries
from godwit.broker.routing import Answer, Routing
from godwit.broker.sessions import Sessions
from godwit.broker.withdrawals import Withdrawals
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter

__all__ = ["Host"]

Kind = TypeVar("Kind")


class Host(Protocol):
    """A broker, as its components see it."""

    name: NodeId
    incarnation: int
    config: BrokerConfig
    links: dict[NodeId, Link]
    sessions: Sessions
    routing: Routing
    withdrawals: Withdrawals
    relayed: Mapping[type, RelayedHandler]
    facts: Mapping[str, Callable[[Fact, list[Effect], float], None]]

    # ------------------------------------------------------------ routing

    def handles(self, kind: type) -> bool:
        """Whether a component handles such messages from neighbours, and not the routing family."""

    def send(self, peer: NodeId, message: Any, effects: list[Effect], now: float) -> None:
        """Send a message to a neighbour, exactly once and in order."""

    def carry_out(self, answers: list[Answer], effects: list[Effect], now: float) -> None:
        """Turn answers of the routing family into effects of links and sessions."""

    def subscribe(self, id: EntryId, filter: Filter, effects: list[Effect], now: float) -> None:
        """Let routing know what a client here wants."""

    def advertise_everything(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Let routing know that a client here may publish anything."""

    def set_context(self, client: NodeId, context: Attributes | None, effects: list[Effect], now: float) -> None:
        """Let routing know the context of a client; None: it is not here, or its context is not known."""

    def tell_context(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Let routing know the context of a client as its session has it; without a session, that it is not here."""

    # ------------------------------------------------------------ sessions

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """Attach a client to its session here, or begin one."""

    def welcome(self, connection: str, message: Attach) -> list[Effect]:
        """What a client hears before `Attached`."""

    def detach(self, connection: str, now: float) -> list[Effect]:
        """A connection is gone: ask the components what that means, else keep the session."""

    def keep_session(self, connection: str, now: float) -> list[Effect]:
        """A connection is gone, and its session stays."""

    def unlink(self, connection: str) -> list[Effect]:
        """A connection serves no session any more."""

    def withdraw(self, removed: RemovedEntries, now: float, ended: NodeId | None = None) -> list[Effect]:
        """Take what a session no longer holds out of routing; `ended`: the client whose session has ended."""

    def demand_added(self, filter: Filter, now: float) -> list[Effect]:
        """Somebody wants what this filter matches."""

    def demand_removed(self, now: float) -> list[Effect]:
        """Somebody wants less."""

    # ------------------------------------------------------------ the rest

    def reconfigure(self, neighbours: Mapping[NodeId, float], limits: Limits, now: float) -> list[Effect]:
        """Have these neighbours and bounds from now on."""

    def intercept_local(self, component: str, hook: LocalHook | None) -> None:
        """Let a component see what is delivered here, before sessions do; None: no longer."""

    def when_whole(self, release: Callable[[float], list[Effect]]) -> None:
        """Call this once, when the routing tables are whole and something has come from a neighbour."""

    def component(self, kind: type[Kind]) -> Kind:
        """The component of this class; `LookupError` if there is none."""
