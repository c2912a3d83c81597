"""The dispatch tables of a broker: those of all its components as one.

Each kind of message, client message, timer and input has one handler; each hook has a list, in the order of the
components.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from godwit.broker.component import ClientHandler, Handlers, MessageHandler, OpenFilters, RelayedHandler
from godwit.broker.effects import Effect
from godwit.broker.messages import NodeId
from godwit.broker.session import Authority, Binding, Retaining

__all__ = ["Dispatch", "one_each"]


class Dispatch:
    """What all components of a broker handle. Two that claim the same are a `ValueError`."""

    def __init__(self, joined: Iterable[Handlers]) -> None:
        every = list(joined)
        self.relayed: dict[type, RelayedHandler] = one_each([each.relayed for each in every])
        self.messages: dict[type, MessageHandler] = one_each([each.messages for each in every])
        for relay in (each.relay for each in every if each.relay is not None):
            self.messages = one_each([self.messages, dict.fromkeys(self.relayed, relay)])
        packets = [each.relay_packet for each in every if each.relay_packet is not None]
        self.relay_packet: MessageHandler = _only_one(packets, "relay packets") or self._handle_relayed
        self.client_messages: dict[type, ClientHandler] = one_each([each.client_messages for each in every])
        self.timers = one_each([each.timers for each in every])
        self.inputs = one_each([each.inputs for each in every])
        self.facts = one_each([each.facts for each in every])
        self.attach: ClientHandler | None = _only_one(
            [each.attach for each in every if each.attach is not None], "attach clients"
        )
        self.binding: Binding | None = _only_one(
            [each.binding for each in every if each.binding is not None], "bind filters"
        )
        self.retaining: Retaining | None = _only_one(
            [each.retaining for each in every if each.retaining is not None], "retain events"
        )
        self.authority: Authority | None = _only_one(
            [each.authority for each in every if each.authority is not None], "grant rights"
        )
        awaiting = [each.is_awaited for each in every if each.is_awaited is not None]
        self.is_awaited: Callable[[NodeId], bool] = _only_one(awaiting, "await sessions") or _nobody
        self.open_filters: OpenFilters | None = _only_one(
            [each.open_filters for each in every if each.open_filters is not None], "route open filters"
        )
        self.requests = {
            kind: [each.requests[kind] for each in every if kind in each.requests]
            for kind in dict.fromkeys(kind for each in every for kind in each.requests)
        }
        self.on_attach = [each.on_attach for each in every if each.on_attach is not None]
        self.on_welcome = [each.on_welcome for each in every if each.on_welcome is not None]
        self.on_detach = [each.on_detach for each in every if each.on_detach is not None]
        self.on_unlinked = [each.on_unlinked for each in every if each.on_unlinked is not None]
        self.on_leave = [each.on_leave for each in every if each.on_leave is not None]
        self.on_session_ended = [each.on_session_ended for each in every if each.on_session_ended is not None]
        self.on_session_changed = [each.on_session_changed for each in every if each.on_session_changed is not None]
        self.on_sessions_settled = [each.on_sessions_settled for each in every if each.on_sessions_settled is not None]
        self.on_context = [each.on_context for each in every if each.on_context is not None]
        self.on_demand_added = [each.on_demand_added for each in every if each.on_demand_added is not None]
        self.on_demand_removed = [each.on_demand_removed for each in every if each.on_demand_removed is not None]
        self.on_link_open = [each.on_link_open for each in every if each.on_link_open is not None]
        self.on_link_dead = [each.on_link_dead for each in every if each.on_link_dead is not None]
        knowing = [each.on_peer_knows_more for each in every if each.on_peer_knows_more is not None]
        self.on_peer_knows_more = _only_one(knowing, "begin another life")
        self.on_round_trip = [each.on_round_trip for each in every if each.on_round_trip is not None]
        self.on_broker_met = [each.on_broker_met for each in every if each.on_broker_met is not None]
        self.on_limits = [each.on_limits for each in every if each.on_limits is not None]
        self.keeps_advertisements = [
            each.keeps_advertisements for each in every if each.keeps_advertisements is not None
        ]
        self.keeps_context = [each.keeps_context for each in every if each.keeps_context is not None]
        self.brings_advertisements = [
            each.brings_advertisements for each in every if each.brings_advertisements is not None
        ]

    def _handle_relayed(self, source: NodeId, message: Any, now: float) -> list[Effect]:
        return self.relayed[type(message)].handler(source, message, now)


def _nobody(client: NodeId) -> bool:
    return False


def one_each(tables: list[Mapping[Any, Any]]) -> dict[Any, Any]:
    """The tables as one; `ValueError` if two of them claim the same key."""
    merged: dict[Any, Any] = {}
    for table in tables:
        for key, handler in table.items():
            if key in merged:
                shown = key.__name__ if isinstance(key, type) else repr(key)
                raise ValueError(f"two components of one broker claim {shown}: one of them must not")
            merged[key] = handler
    return merged


def _only_one(handlers: list[Any], what: str) -> Any:
    if len(handlers) > 1:
        raise ValueError(f"two components of one broker {what}: one of them must not")
    return handlers[0] if handlers else None
