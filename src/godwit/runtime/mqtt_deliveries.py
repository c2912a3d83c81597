"""Deliveries to one MQTT client: tested by its queries, checked by its topic filters, converted to packets.

*Theory.* A delivery is for the subscriptions whose routable filters match. These may match too much, which is decided
here: first by the tests of queries, if there are any (`edge_tests.py`, which may take several turns of the loop), then
by the wildcards of the topic filter and *no local* (`mqtt_checks.py`). A delivery that matches no subscription is
passed on without any: the MQTT session counts it as done.

When the client's rights change, what waits for it here is judged again, and so is what comes later but was delivered
before the machine has heard of the change.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from godwit.broker.messages import Delivery
from godwit.mqtt import MqttSession, mqtt_effects
from godwit.runtime.authentication import Principal
from godwit.runtime.edge_tests import TestLine
from godwit.runtime.mqtt_checks import SubscriptionChecks, topic_for
from godwit.runtime.mqtt_events import cloud_message_of

if TYPE_CHECKING:
    from godwit.runtime.mqtt_gateway import MqttGateway

__all__ = ["MqttDeliveries"]


class MqttDeliveries:
    """The deliveries of one client. `put_out` takes finished packets, `tell` the others, which `flush` sends."""

    def __init__(
        self,
        gateway: "MqttGateway",
        session: MqttSession,
        line: TestLine,
        principal: Principal,
        put_out: Callable[[list[bytes]], None],
        tell: Callable[[mqtt_effects.Input], None],
        flush: Callable[[], None],
    ) -> None:
        self._gateway, self._session, self.line = gateway, session, line
        self._put_out, self._tell, self._flush = put_out, tell, flush
        self._checks = SubscriptionChecks(lambda: session.kept.subscriptions)
        self._principal, self._has_changed = principal, False
        principal.on_change += (self._on_rights_changed,)

    def close(self) -> None:
        """The connection has ended."""
        self.line.close()
        changes = self._principal.on_change
        self._principal.on_change = tuple(changed for changed in changes if changed != self._on_rights_changed)

    def _on_rights_changed(self) -> None:
        self._has_changed = True
        outgoing = self._session.outgoing
        waiting = () if outgoing is None else outgoing.waiting
        numbers = tuple(each.number for each in waiting if each.event and not self._principal.may_have(each.event))
        if numbers:
            self._tell(mqtt_effects.Withheld(numbers))
            self._flush()

    def on_tested(self, deliveries: Sequence[Delivery]) -> None:
        """Send deliveries after their tests, or that need none, as far as the client's rights cover them."""
        if self._has_changed:
            deliveries = [
                each if self._principal.may_have(each.event) else structs.replace(each, subscriptions=())
                for each in deliveries
            ]
        self.send(deliveries)

    def on_subscriptions_changed(self) -> None:
        """Recompute the remaining checks of each subscription."""
        self._checks.clear()

    def take(self, messages: Sequence[Any], first: int) -> int:
        """Take consecutive deliveries from the first on; returns the index after them."""
        at, last = first, len(messages)
        if not (self.line.is_needed or self._has_changed):
            return self.send(messages, first)
        while at < last and type(messages[at]) is Delivery:
            at += 1
        (self.line.put if self.line.is_needed else self.on_tested)(messages[first:at])
        return at

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
        if not delivery.subscriptions:  # no query matches it, or no right
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
                event,
            )
        )
