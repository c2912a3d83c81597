"""All bridges of a broker: they start, stop and change with its configuration.

*Rules.*
1. A bridge with an unchanged section keeps running; one with a changed section is restarted, with its queue.
2. The session of a bridge that is no longer in the configuration is ended, with its queue, which would never be
   emptied.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from godwit.broker.messages import QueueRules
from godwit.runtime.bridges.bridge import Bridge, BridgeLog, Remote, client_name
from godwit.runtime.bridges.bridge_sections import BridgeSection
from godwit.runtime.bridges.local_side import LocalSide
from godwit.runtime.bridges.mqtt_remote import MqttRemote
from godwit.runtime.bridges.webhook_remote import WebhookRemote
from godwit.runtime.in_process_client import ConnectionClosed
from godwit.runtime.node import Node

__all__ = ["BridgeSet"]


def _nats(bridge: Bridge) -> Remote:
    from godwit.runtime.bridges.nats_remote import NatsRemote  # an extra

    return NatsRemote(bridge)


def _kafka(bridge: Bridge) -> Remote:
    from godwit.runtime.bridges.kafka_remote import KafkaRemote  # an extra

    return KafkaRemote(bridge)


REMOTES: dict[str, Callable[[Bridge], Remote]] = {
    "kafka": _kafka,
    "mqtt": MqttRemote,
    "nats": _nats,
    "webhook": WebhookRemote,
}
"""The class of the remote, by kind of bridge."""


class BridgeSet:
    """The bridges of one broker."""

    def __init__(self, node: Node, broker: str, log: BridgeLog) -> None:
        self.bridges: dict[str, Bridge] = {}
        self._node = node
        self._broker = broker
        self._log = log

    async def put(self, sections: Iterable[BridgeSection]) -> None:
        """Run exactly these bridges."""
        wanted = {section.name: section for section in sections}
        for name, bridge in list(self.bridges.items()):
            if wanted.get(name) != bridge.section:  # rule 1
                del self.bridges[name]
                await bridge.stop()
        await self._end_sessions(wanted)
        for name, section in wanted.items():
            if name not in self.bridges:
                bridge = Bridge(self._node, self._broker, section, self._log, REMOTES[section.kind])
                self.bridges[name] = bridge
                bridge.start()

    async def stop(self) -> None:
        """Stop all bridges; their sessions are kept."""
        for bridge in self.bridges.values():
            await bridge.stop()
        self.bridges.clear()

    async def _end_sessions(self, wanted: Iterable[str]) -> None:
        """(rule 2)"""
        start, kept = client_name(self._broker), {client_name(self._broker, name) for name in wanted}
        sessions = self._node.machine.sessions  # type: ignore[attr-defined]
        for client in [session.client for session in sessions if session.client.startswith(start)]:
            if client not in kept:
                local = LocalSide(self._node, client, QueueRules())
                with suppress(ConnectionClosed):
                    await local.attach({})
                local.leave()
