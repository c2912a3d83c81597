"""Deliveries to one MQTT client: tested by its queries, checked by its topic filters, converted to packets.

*Theory.* A delivery is for the subscriptions whose routable filters match. These may match too much, which is decided
here: first by the tests of queries, if there are any (`edge_tests.py`, which may take several turns of the loop), then
by the wildcards of the topic filter and *no local* (`mqtt_checks.py`). A delivery that matches no subscription is
passed on without any: the MQTT session counts it as done.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from godwit.broker.messages import Delivery
from godwit.mqtt import MqttSession, mqtt_effects
from godwit.runtime.edge_tests import TestLine
from godwit.runtime.mqtt_checks import SubscriptionChecks, topic_for
from godwit.runtime.mqtt_events import cloud_message_of

if TYPE_CHECKING:
    from godwit.runtime.mqtt_gateway import MqttGateway

__all__ = ["MqttDeliveries"]


class MqttDeliveries:
    """The deliveries of one client. `put_out` takes finished packets, `tell` the others."""

    def __init__(
        self,
        gateway: "MqttGateway",
        session: MqttSession,
        line: TestLine,
        put_out: Callable[[list[bytes]], None],
        tell: Callable[[mqtt_effects.Input], None],
    ) -> None:
        self._gateway, self._session, self.line = gateway, session, line
        self._put_out, self._tell = put_out, tell
        self._checks = SubscriptionChecks(lambda: session.kept.subscriptions)

    def on_subscriptions_changed(self) -> None:
        """Recompute the remaining checks of each subscription."""
        self._checks.clear()

    def take(self, messages: Sequence[Any], first: int) -> int:
        """Take consecutive deliveries from the first on; returns the index after them."""
        at, last = first, len(messages)
        if self.line.is_needed:
            while at < last and type(messages[at]) is Delivery:
                at += 1
            self.line.put(messages[first:at])
            return at
        return self.send(messages, first)

    def send(self, messages: Sequence[Any], first: int = 0) -> int:
        """Send deliveries that are tested, likewise."""
        outgoing, at, last = self._session.outgoing, first, len(messages)
        while at < last and type(messages[at]) is Delivery:
            if outgoing is not None:
                parts: list[bytes] = []
                done = outgoing.quick(messages, at, self._gateway.message, self._checks.exact, parts)
                if parts:
                    self._put_out(parts)
                if done > at:
                    at = done
                    continue
            self._send_one(messages[at])
            at += 1
        self._gateway.counts["delivered"] += at - first
        return at

    def _send_one(self, delivery: Delivery) -> None:
        if not delivery.subscriptions:  # no query matches it
            self._tell(mqtt_effects.Deliver(delivery.number, "", b"", ()))
            return
        event = delivery.event
        message = self._gateway.message(event)
        names = self._checks.wanted(delivery.subscriptions, event, self.line.client)
        if mode := self._checks.mode(names):
            message = cloud_message_of(event, message, mode)
        topics = message.topics
        topic = topics[0] if len(topics) == 1 else topic_for(names, topics)
        self._tell(
            mqtt_effects.Deliver(
                delivery.number,
                topic,
                message.payload_at(5 if self._session.outgoing is None else self._session.outgoing.level),
                names,
                message.qos,
                message.retain,
                message.is_retained,
                message.properties,
                event.expires_at,
                message.shared,
            )
        )
