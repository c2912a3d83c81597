"""The present state of a broker in figures, for its log (SIGUSR1): works even if nothing else answers."""

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from godwit.runtime.broker_server import BrokerServer

__all__ = ["state_of"]


def state_of(server: "BrokerServer") -> dict[str, Any]:
    """Sessions, tables, links, connections, waiting inputs, memory and the journal."""
    node, machine = server.node, server.node.machine
    sessions = list(machine.sessions)  # type: ignore[attr-defined]
    journal = node.journal
    return {
        "sessions_attached": sum(session.connection is not None for session in sessions),
        "sessions_away": sum(session.connection is None for session in sessions),
        "subscriptions": sum(len(session.subscriptions) for session in sessions),
        "queued_events": sum(len(session.queue) for session in sessions),
        "table_entries": machine.routing.sizes(),  # type: ignore[attr-defined]
        "links": {
            peer: {"open": bool(link.open), "outbox": len(link.outbox)}
            for peer, link in machine.links.items()  # type: ignore[attr-defined]
        },
        "connections": len(server.server.connections),
        "pending_inputs": node.unhandled,
        "unsafe_inputs": node.unsafe,
        "memory_bytes": server.server.memory.held(),
        "journal_bytes": 0 if journal is None else journal.bytes_since_snapshot,
        "trouble": node.trouble,
        "tasks": len(asyncio.all_tasks()),
    }
