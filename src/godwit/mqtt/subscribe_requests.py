"""SUBSCRIBE: from topic filters to wishes of the gateway, and from its answer to SUBACK.

*Theory.* A SUBSCRIBE has several topic filters, and each may fail for itself: it does not parse, there are too many, or
the gateway grants it not. A subscription counts as standing from when it is asked for, since its first event may come
before its answer; one that is refused goes, and what stood under the same text before stands again.

*Rules.*
1. An answer is told on the connection that asked, and nowhere else.
2. Content filters come behind a `?` in the topic filter, or as user properties `$where` for all filters of a SUBSCRIBE.
   Those of `$where` are in the language that `$language` names.
3. User properties `$queue.RULE` say what may leave the queue while the client is away, `$expires_in` for how many
   seconds the subscriptions of the packet stand. What is wrong in them fails, like a filter that does not parse.
4. The user property `$cloudevents` says in which mode a subscription gets events as CloudEvents; any other word than
   those of `MODES` fails.
5. A topic filter that is too long to be the name of a subscription is not looked at, and of one packet no more than
   twice as many topic filters as a session may have are asked for.
6. What the user properties of a packet say is read once, not for each topic filter: a packet has room for ten thousand
   of both. All filters of a packet together have at most `LITERALS_MAX` literals.

*Standard.* [mqtt5 §3.8.4, §3.9].
"""

from typing import NamedTuple

import msgspec

from godwit.broker.messages import QueueRules
from godwit.broker.queue_rule_texts import lifetime_of, queue_rules_of
from godwit.errors import FilterError
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.languages import NATIVE
from godwit.languages.client_queries import ParseClientQuery
from godwit.mqtt.mqtt_effects import AddSubscriptions, Granted, MqttSettings, PersistentState, Subscribed, Wish
from godwit.mqtt.packets import Suback, Subscribe, Subscription
from godwit.mqtt.reason_codes import ReasonCode
from godwit.mqtt.topics import Beside, TopicFilter, narrowed_topics, said_beside, split

__all__ = ["SubscribeRequests", "contents_in", "queries_in"]

WHERE, LANGUAGE, CLOUD_EVENTS = "$where", "$language", "$cloudevents"
QUEUE, EXPIRES_IN = "$queue.", "$expires_in"
MODES = ("structured", "binary")
LITERALS_MAX = 50_000  # about what the subscriptions of a user may have (`limits.user_filter_bytes_max`)


def queries_in(packet: Subscribe) -> tuple[list[str], str]:
    """The texts of a packet's `$where`, and their language."""
    pairs = packet.properties.get("user_property", ())
    languages = [value for name, value in pairs if name == LANGUAGE]
    return [value for name, value in pairs if name == WHERE], languages[-1] if languages else NATIVE


def contents_in(packet: Subscribe) -> list[str]:
    """The content filters behind the topic filters of a packet, as far as they are looked at. (rule 5)"""
    texts = (each.filter for each in packet.subscriptions if len(each.filter) <= NAME_LENGTH_MAX)
    return [content for text in texts if (content := split(text)[2]) is not None]


class _Beside(NamedTuple):
    """What a packet says of all its topic filters. (rule 6)"""

    mode: str
    queries: Beside
    queue: QueueRules | None
    expires_in_s: float | None


def _said_beside(packet: Subscribe, parse: ParseClientQuery) -> _Beside:
    """`FilterError`: something of it is wrong."""
    mode = _cloud_events_in(packet)
    texts, language = queries_in(packet)
    return _Beside(mode, said_beside(texts, language, parse), *_queue_in(packet))


def _cloud_events_in(packet: Subscribe) -> str:
    """In which mode a packet wants CloudEvents; "": events are to come as they were published. (rule 4)"""
    modes = [value for name, value in packet.properties.get("user_property", ()) if name == CLOUD_EVENTS]
    if modes and modes[-1] not in MODES:
        raise FilterError(f"{CLOUD_EVENTS} is {modes[-1][:40]!r}: allowed is {' or '.join(MODES)}")
    return modes[-1] if modes else ""


def _queue_in(packet: Subscribe) -> tuple[QueueRules | None, float | None]:
    """The rules of the queue, and for how many seconds the subscriptions stand. (rule 3)"""
    pairs = packet.properties.get("user_property", ())
    rules = queue_rules_of(((name[len(QUEUE) :], value) for name, value in pairs if name.startswith(QUEUE)), QUEUE)
    lifetimes = [lifetime_of(value, EXPIRES_IN) for name, value in pairs if name == EXPIRES_IN]
    return rules, lifetimes[-1] if lifetimes else None


class PendingSubscribe(msgspec.Struct):
    """A SUBSCRIBE without an answer."""

    connection: str
    packet_id: int
    codes: list[int]  # as far as we know them: 0 where the gateway is asked
    wishes: list[Wish]
    before: dict[str, Granted | None]  # what stood under the same text


class SubscribeRequests:
    """The requests of a client that wait for the gateway."""

    def __init__(self, settings: MqttSettings, parse: ParseClientQuery) -> None:
        self._settings = settings
        self._parse = parse
        self._waiting: dict[int, PendingSubscribe] = {}
        self._requests = 0

    def clear(self) -> None:
        """The session is another one: earlier requests do not matter any more."""
        self._waiting.clear()

    def ask(self, kept: PersistentState, connection: str, packet: Subscribe) -> AddSubscriptions | tuple[Suback, str]:
        """What to ask of the gateway; or, where nothing is left to ask, the answer, and why in words."""
        packet_id = packet.packet_id
        if any((each.connection, each.packet_id) == (connection, packet_id) for each in self._waiting.values()):
            return Suback(packet_id, (ReasonCode.PACKET_IDENTIFIER_IN_USE,) * len(packet.subscriptions)), ""
        identifier = packet.properties.get("subscription_identifier", 0)
        beside, why, weight = None, "", 0
        try:
            beside = _said_beside(packet, self._parse)
        except FilterError as error:
            why = str(error)
        request = PendingSubscribe(connection, packet_id, [], [], {})
        for subscription in packet.subscriptions:
            text = subscription.filter
            standing, most = kept.subscriptions.get(text), self._settings.subscriptions_max
            if (standing is None and len(kept.subscriptions) >= most) or len(request.wishes) >= 2 * most:
                request.codes.append(ReasonCode.QUOTA_EXCEEDED)
                continue
            if len(text) > NAME_LENGTH_MAX:
                request.codes.append(ReasonCode.QUOTA_EXCEEDED)
                why = f"a topic filter of {len(text)} characters: allowed are {NAME_LENGTH_MAX}, and more in {WHERE}"
                continue
            if beside is None:
                request.codes.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            if weight > LITERALS_MAX:
                request.codes.append(ReasonCode.QUOTA_EXCEEDED)
                why = f"filters of more than {LITERALS_MAX} literals in one packet: send fewer topic filters at a time"
                continue
            try:
                topics = narrowed_topics(text, beside.queries, self._parse)
            except FilterError as error:
                request.codes.append(ReasonCode.TOPIC_FILTER_INVALID)
                why = str(error)
                continue
            weight += topics.filter.weight
            wish = _wish(subscription, topics, identifier, is_new=standing is None)
            wish = msgspec.structs.replace(wish, queue=beside.queue, expires_in_s=beside.expires_in_s)
            request.codes.append(ReasonCode.SUCCESS)
            request.wishes.append(wish)
            request.before.setdefault(text, standing)
            kept.subscriptions[text] = Granted(
                subscription.qos,
                subscription.no_local,
                subscription.retain_as_published,
                identifier,
                wish.topics.share is not None,
                beside.mode,
            )
        if not request.wishes:
            return Suback(packet_id, tuple(request.codes)), why
        self._requests += 1
        self._waiting[self._requests] = request
        return AddSubscriptions(self._requests, tuple(request.wishes), packet.properties)

    def answer(self, kept: PersistentState, input: Subscribed) -> tuple[str, Suback] | None:
        """The gateway's answer, for the connection that asked."""
        request = self._waiting.pop(input.request, None)
        if request is None:
            return None
        standing, codes = kept.subscriptions, request.codes
        answers = iter(zip(request.wishes, input.reason_codes, strict=True))
        for place, code in enumerate(codes):
            if code >= 0x80:
                continue
            wish, answer = next(answers)
            codes[place] = answer
            text = wish.subscription.filter
            before = request.before[text]
            if answer < 0x80:
                if text in standing:
                    standing[text] = msgspec.structs.replace(standing[text], qos=answer)
            elif before is not None:
                standing[text] = before
            else:
                standing.pop(text, None)
        return request.connection, Suback(request.packet_id, tuple(codes))


def _wish(subscription: Subscription, topics: TopicFilter, identifier: int, is_new: bool) -> Wish:
    handling = subscription.retain_handling
    wants_retained = topics.share is None and (handling == 0 or (handling == 1 and is_new))  # [MQTT-3.3.1-9] to -11
    return Wish(subscription, topics, identifier, wants_retained)
