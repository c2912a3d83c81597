"""A client that is here and whose session is not yet: what its new border broker keeps of it meanwhile."""

from godwit.broker.messages import Attach, NodeId, Subscribe
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.mobility.graph_roaming import FlushKey
from godwit.mobility.messages import Relocate, Replay

__all__ = ["Arrival"]


class Arrival:
    """A client that is here and whose session is not yet."""

    def __init__(self, attach: Attach, connection: str | None) -> None:
        self.attach = attach
        self.connection = connection
        self.subscriptions: dict[str, Subscribe] = {}
        self.advertisements: dict[str, Filter] = {}
        self.buffer: list[tuple[Event, tuple[str, ...]]] = []  # what has come for it meanwhile
        self.parts: list[Replay] = []
        self.next: Relocate | None = None  # who has asked for it since
        self.gives_up_at = 0.0
        self.asks = 0
        self.trail = list(attach.tried)  # who else may have it, the likeliest last
        self.is_superseded = False
        self.superseded_by: NodeId = ""  # who has told us so
        self.flushes: FlushKey | None = None  # the session is whole; these must flush before its client comes in
        self.knows_wishes = attach.mode != "ask"
