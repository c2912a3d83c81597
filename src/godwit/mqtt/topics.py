"""Topics: valid names and filters, which filter matches which name, and the equivalent Godwit filter.

*Theory.* A topic is levels between slashes. In a filter `+` stands for one level and `#`, which must be last, for all
levels from there on and for none. In Godwit a topic is the attribute `topic` of an event, and a topic filter becomes a
filter on it, a topic pattern (`filters/topic_patterns.py`): every broker routes by exactly what the client asked for.
Two things may stand around the levels:

    $share/GROUP/sport/+        members of GROUP share the events of `sport/+` among them
    sport/+?score > 20          of these only events whose content matches, in the filter language
    sport/+/?score > 20         the same, for client libraries that let nothing stand behind a wildcard

Content filters told beside a topic filter may be in another language. Each is a query: its routable filter is part of
`filter`, and `queries` are those that have an exact test besides.

*Rules.*
1. `TopicFilter.filter` matches exactly what `TopicFilter.matches` accepts, but for exact tests of queries. It asks for
   *some* topic, so this holds for events of native clients with several topics, too.
2. A filter whose first level is a wildcard matches no topic that starts with `$`. [MQTT-4.7.2-1]
3. Names and filters have at least one character, no U+0000, and no other control or non-character: the standard lets a
   server refuse those [mqtt5 §1.5.4], and a line break in a topic helps nobody.

*Departures.* `?` begins a content filter, so a filter cannot ask for a topic that holds one, except by a wildcard. A
slash between a wildcard and it is not part of the topic.

*Standard.* [mqtt5 §4.7, §4.8.2].
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from godwit.errors import FilterError, FilterTooBig, MqttFault
from godwit.filters import Event, Filter, all_of, some, topic_pattern
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX
from godwit.filters.shared_literals import shared_literals
from godwit.filters.topic_patterns import ANY_LEVEL, ANY_LEVELS, why_no_pattern
from godwit.filters.topic_patterns import matches as matches_pattern
from godwit.languages import NATIVE, Query, Subject
from godwit.languages.client_queries import ParseClientQuery, client_query
from godwit.mqtt.reason_codes import ReasonCode

__all__ = [
    "Beside",
    "TopicFilter",
    "checked_filter",
    "checked_name",
    "checked_text",
    "matches",
    "narrowed_topics",
    "said_beside",
    "topic_filter",
]

TOPIC = "topic"
SHARE = "$share/"

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef]")
_LAST_TWO = 0xFFFE  # of each plane: non-characters


def _is_unfit(text: str) -> bool:
    """Whether a text has control characters or non-characters. `isprintable` is quick, and right when it says yes."""
    return not text.isprintable() and (
        _UNFIT.search(text) is not None or any(ord(char) & _LAST_TWO == _LAST_TWO for char in text)
    )


def checked_text(text: str, what: str) -> str:
    """A name that a peer gave: of a client, a user."""
    if _is_unfit(text):
        raise MqttFault(ReasonCode.MALFORMED_PACKET, f"{what} holds a control character or a non-character")
    return text


def checked_name(topic: str) -> str:
    """A topic name: what an event is published to. [mqtt5 §4.7.3]"""
    if not topic:
        raise MqttFault(ReasonCode.MALFORMED_PACKET, "a topic name is empty")
    if "+" in topic or "#" in topic:
        raise MqttFault(ReasonCode.MALFORMED_PACKET, "a topic name holds a wildcard")
    return checked_text(topic, "a topic name")


def checked_filter(text: str) -> str:
    """A topic filter: its wildcards stand alone in their levels, and `#` is last. [mqtt5 §4.7.1, §4.8.2]"""
    if not text:
        raise MqttFault(ReasonCode.MALFORMED_PACKET, "a topic filter is empty")
    checked_text(text, "a topic filter")
    share, levels, _ = split(text)
    if share is not None and (not share or "+" in share or "#" in share or not levels):
        raise MqttFault(ReasonCode.PROTOCOL_ERROR, "a shared subscription is $share/NAME/FILTER")  # [MQTT-4.8.2-1]
    if not levels:
        raise MqttFault(ReasonCode.MALFORMED_PACKET, "a topic filter has no topic before its content filter")
    if (fault := why_no_pattern(levels)) is not None:
        raise MqttFault(ReasonCode.MALFORMED_PACKET, fault)
    return text


def split(text: str) -> tuple[str | None, str, str | None]:
    """The share name, the levels and the content filter of a topic filter."""
    levels, mark, content = text.partition("?")
    if mark and levels.endswith(("+/", "#/")):
        levels = levels[:-1]
    share = None
    if levels.startswith(SHARE):
        share, _, levels = levels.removeprefix(SHARE).partition("/")
    return share, levels, content if mark else None


def matches(levels: str, topic: str) -> bool:
    """Whether a topic filter, without share name and content filter, matches a topic name."""
    if ANY_LEVEL not in levels and ANY_LEVELS not in levels:
        return levels == topic
    return matches_pattern(levels, topic)


class TopicFilter(msgspec.Struct, frozen=True):
    """What a topic filter asks for. `filter` is what brokers route by: all of it but the exact tests of `queries`."""

    text: str
    share: str | None
    levels: str
    content: Filter | None
    filter: Filter
    queries: tuple[Query, ...] = ()  # that must be asked whether they want an event that `filter` lets through

    def matches(self, event: Event) -> bool:
        """Whether an event is asked for: by a topic of it, and by its content."""
        topics = event.attributes.get(TOPIC)
        given = topics if isinstance(topics, tuple) else (topics,)
        return (
            any(isinstance(topic, str) and matches(self.levels, topic) for topic in given)
            and (self.content is None or self.content.matches(event))
            and all(query.wants(Subject(event)) for query in self.queries)
        )


def topic_filter(text: str, *where: str, language: str = NATIVE, parse: ParseClientQuery = client_query) -> TopicFilter:
    """A topic filter, and the queries told beside it, in their language. `FilterError`: one of these does not parse."""
    checked_filter(text)
    return narrowed_topics(text, said_beside(where, language, parse), parse)


class Beside(NamedTuple):
    """The queries told beside topic filters: what they let through, and those that have an exact test."""

    wanted: Filter | None = None
    tested: tuple[Query, ...] = ()


def said_beside(where: Sequence[str], language: str = NATIVE, parse: ParseClientQuery = client_query) -> Beside:
    """The queries beside topic filters, in that language. `FilterError`: one of them does not parse."""
    if sum(map(len, where)) > CLIENT_TEXT_BYTES_MAX:
        raise FilterTooBig(f"queries of more than {CLIENT_TEXT_BYTES_MAX} bytes, which are the most allowed")
    queries = [parse(part, language) for part in where]
    wanted = all_of(*(query.routable for query in queries)) if queries else None
    return Beside(wanted, tuple(query for query in queries if query.test is not None))


def narrowed_topics(text: str, beside: Beside, parse: ParseClientQuery = client_query) -> TopicFilter:
    """A topic filter that `checked_filter` has accepted, and the queries beside it. `FilterError` as above."""
    share, levels, content = split(text)
    wanted, tested = beside
    if content is not None:
        own = parse(content, NATIVE)
        wanted = own.routable if wanted is None else all_of(own.routable, wanted)
        tested = tested if own.test is None else (own, *tested)
    if tested and share is not None:  # the member that gets an event may not want it, and another would have
        raise FilterError("a shared subscription is routed by filters alone: it cannot have a query with an exact test")
    routable = _on_topic(levels)
    filter = routable if wanted is None else all_of(routable, wanted)
    return TopicFilter(text, share, levels, wanted, filter, tested)


def _on_topic(levels: str) -> Filter:
    """The filter on the attribute `topic`."""
    if ANY_LEVEL not in levels and ANY_LEVELS not in levels:
        return shared_literals.some(TOPIC, levels)
    return some(TOPIC, topic_pattern(levels))
