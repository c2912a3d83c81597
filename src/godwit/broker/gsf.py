"""GSF: every broker receives every subscription, and an event goes to the brokers with a subscription that matches it.

*Paper.* [spcf §3.1.2, §4], GSF: "forwards messages along the SPT of the publisher, pruned by using subscriptions".
*Symbols.* D → every broker that is known.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from godwit.broker.forwarding_strategy import GraphTables
from godwit.broker.messages import Carried, EntryId, NodeId, Subscribe, Unsubscribe
from godwit.broker.packet_checks import Further
from godwit.broker.routing import Answer
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter

__all__ = ["GsfState", "SubscriptionForwarding"]


class GsfState(msgspec.Struct, frozen=True, tag=True):
    """There is nothing to remember besides the tables of the broker."""

    version: ClassVar[int] = 1


class SubscriptionForwarding:
    """Graph subscription forwarding. Implements `Forwarding`; the tables of the broker are all that it needs."""

    checks: Further = MappingProxyType({})
    tables: GraphTables

    def join(self, tables: GraphTables) -> None:
        self.tables = tables

    def on_subscribe(self, id: EntryId, filter: Filter) -> list[Answer]:
        """Find D, send it towards D. [spcf §3.1.2] GSF: D is everyone."""
        receivers = sorted(self.tables.incarnations)  # step 2
        return self.tables.tell(receivers, Subscribe(id, filter))  # steps 3, 4

    def on_unsubscribe(self, id: EntryId) -> list[Answer]:
        """The same with the filter removed. [spcf §3.1.2]"""
        return self.tables.tell(sorted(self.tables.incarnations), Unsubscribe(id))

    def on_advertise(self, id: EntryId, filter: Filter) -> list[Answer]:
        """Everyone has every subscription, whatever is advertised."""
        return []

    def on_unadvertise(self, id: EntryId) -> list[Answer]:
        return []

    def set_context(self, client: NodeId, context: Attributes | None) -> list[Answer]:
        """A context is matched where an event is delivered, and nowhere else. [spcf §4]"""
        return []

    def homes(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> set[NodeId]:
        return {home for home, _ in found}

    def knows_all(self, event: Event) -> bool:
        return True

    def meant(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> None:
        """A context is matched where an event is delivered, and nowhere else. [spcf §4]"""

    def settle_ways(self) -> list[Answer]:
        return []

    def everything(self, broker: NodeId) -> Iterable[Carried]:
        return [Subscribe(id, filter) for id, filter in self.tables.local.items()]

    def on_meet(self, broker: NodeId) -> None:
        pass

    def on_start(self, source: NodeId) -> None:
        pass

    def on_synced(self, source: NodeId) -> list[Answer]:
        return []

    def on_message(self, source: NodeId, message: Any) -> list[Answer]:
        return []

    def on_remote(self, source: NodeId, id: EntryId, before: Filter | None, after: Filter | None) -> None:
        pass

    def is_awaiting(self) -> bool:
        return False

    def is_settled(self) -> bool:
        return True

    def sizes(self) -> dict[str, int]:
        return {}

    def remote_bytes(self) -> int:
        return 0

    def snapshot(self) -> GsfState:
        return GsfState()

    def restore(self, state: GsfState) -> None:
        pass
