"""Checks of `[[bridge]]` beyond types: names, addresses, files, patterns, topics that would loop."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import msgspec

from godwit import settings
from godwit.errors import BadValue, GodwitError, MqttFault
from godwit.filters.topic_patterns import are_apart, levels_of
from godwit.mqtt.topics import matches
from godwit.runtime.addresses import address_of
from godwit.runtime.bridges.bridge_sections import FILE_KEYS, FOREIGN_KEYS, BridgeSection, BridgeTopic
from godwit.runtime.bridges.routes import Route
from godwit.webhook_post import is_webhook

__all__ = ["bridge_faults"]

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
WILDCARDS = ("+", "#")
LIBRARIES = {"kafka": ("aiokafka", "aiokafka"), "nats": ("nats", "nats-py")}  # by kind: module and package
KAFKA_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def bridge_faults(bridges: tuple[BridgeSection, ...], where: settings.Where) -> Iterator[str]:
    """The errors of the bridges of a configuration whose values all have the right types."""
    names = [bridge.name for bridge in bridges]
    for place, bridge in enumerate(bridges):
        at = ("bridge", place)
        if not NAME.fullmatch(bridge.name):
            allowed = "letters, digits, '_', '.' and '-', at most 64"
            yield f"{where((*at, 'name'))} is {bridge.name!r}: allowed are {allowed}"
        if bridge.name in names[:place]:
            yield f"{where((*at, 'name'))} is {bridge.name!r}: another bridge has that name already"
        yield from _kind_faults(bridge, at, where)
        if not bridge.topics:
            yield f"{where((*at, 'topics'))} is empty: a bridge needs at least one [[bridge.topics]]"
        yield from _file_faults(bridge, at, where)
        yield from _route_faults(bridge, at, where)


def _kind_faults(bridge: BridgeSection, at: settings.Path, where: settings.Where) -> Iterator[str]:
    """The errors that depend on the kind of the remote."""
    kind, said = bridge.kind, {key: getattr(bridge, key) for key in FOREIGN_KEYS[bridge.kind]}
    defaults = {field.name: field.default for field in msgspec.structs.fields(BridgeSection)}
    for key, value in said.items():
        if value != defaults[key]:
            yield f"{where((*at, key))} is {value!r}: a bridge of kind {kind!r} has no such key"
    if kind == "webhook":
        if not is_webhook(bridge.address):
            allowed = "allowed is a URL, as in https://example.org/events"
            yield f"{where((*at, 'address'))} is {bridge.address!r}: {allowed}"
        if not bridge.secret:
            yield f"{where((*at, 'secret'))} is missing: it must be a file with the secret that signs what is sent"
        for number, topic in enumerate(bridge.topics):
            if topic.direction != "out":
                here = where((*at, "topics", number, "direction"))
                yield f"{here} is {topic.direction!r}: of a webhook nothing comes in; allowed is 'out'"
        return
    addresses = bridge.address.split(",") if kind == "kafka" else [bridge.address]
    try:
        if not all(address_of(each.strip()).port for each in addresses):
            raise BadValue(bridge.address)
    except BadValue:
        several = ", or several with commas between" if kind == "kafka" else ""
        yield f"{where((*at, 'address'))} is {bridge.address!r}: allowed is host:port, as in 10.0.0.9:1883{several}"
    if kind in LIBRARIES and find_spec(LIBRARIES[kind][0]) is None:
        needed = f"it needs {LIBRARIES[kind][1]}, which is not installed: pip install godwit[{kind}]"
        yield f"{where((*at, 'kind'))} is {kind!r}: {needed}"


def _file_faults(bridge: BridgeSection, at: settings.Path, where: settings.Where) -> Iterator[str]:
    for key in FILE_KEYS:
        if held := getattr(bridge, key):
            try:
                with Path(held).open("rb"):
                    pass
            except OSError as error:
                yield f"{where((*at, key))}: {held} cannot be read: {error.strerror}"
    for key in ("authorities", "certificate", "key"):
        if getattr(bridge, key) and not bridge.tls:
            yield f"{where((*at, key))} needs tls = true, too"
    if bool(bridge.key) and not bridge.certificate:
        yield f"{where((*at, 'key'))} needs certificate, too"
    if bridge.password and not bridge.user:
        yield f"{where((*at, 'password'))} needs user, too"


def _route_faults(bridge: BridgeSection, at: settings.Path, where: settings.Where) -> Iterator[str]:
    incoming, outgoing = list[tuple[int, Route]](), list[tuple[int, Route]]()
    for number, topic in enumerate(bridge.topics):
        here = (*at, "topics", number)
        faults = [
            f"{where((*here, key))} is {getattr(topic, key)!r}: a prefix has no wildcards"
            for key in ("local_prefix", "remote_prefix")
            if any(sign in getattr(topic, key) for sign in WILDCARDS)
        ]
        if "?" in topic.pattern or topic.pattern.startswith("$share"):
            allowed = "allowed is a topic filter; a content filter goes to where"
            faults.append(f"{where((*here, 'pattern'))} is {topic.pattern!r}: {allowed}")
        if topic.kafka_topic and (bridge.kind != "kafka" or not KAFKA_TOPIC.fullmatch(topic.kafka_topic)):
            allowed = "allowed are letters, digits, '.', '_' and '-', at most 249, for a bridge of kind 'kafka'"
            faults.append(f"{where((*here, 'kafka_topic'))} is {topic.kafka_topic!r}: {allowed}")
        if not faults:
            try:
                route = Route.of(topic)
            except GodwitError as error:
                key = "pattern" if _has_bad_pattern(topic) else "where"
                reason = error.text if isinstance(error, MqttFault) else str(error)  # no reason code of MQTT
                faults.append(f"{where((*here, key))} is {getattr(topic, key)!r}: {reason.splitlines()[0]}")
        if faults:
            yield from faults
            continue
        if topic.direction != "out":
            incoming.append((number, route))
        if topic.direction != "in":
            outgoing.append((number, route))
    for (one, a), (other, b) in combinations(incoming, 2):
        if _overlap(a, b):
            second = where((*at, "topics", other, "pattern"))
            said = f"{b.remote_filter!r} overlaps with {a.remote_filter!r} of topics[{one}]"
            yield f"{second}: {said}: one message would come in twice"
    if bridge.level != "5":
        for one, a in incoming:
            for other, b in outgoing:
                if _overlap(a, b):
                    first = where((*at, "topics", one, "direction"))
                    yield (
                        f"{first}: topics[{one}] brings in {a.remote_filter!r} and topics[{other}] takes out "
                        f"{b.remote_filter!r}: over MQTT 3.1.1 messages would come back; "
                        "allowed are topics that do not overlap, or level = '5'"
                    )


def _overlap(a: Route, b: Route) -> bool:
    """Whether one message could take both routes."""
    if a.kafka_topic and b.kafka_topic and a.kafka_topic != b.kafka_topic:
        return False
    if bool(a.kafka_topic) != bool(b.kafka_topic):
        named, plain = (a, b) if a.kafka_topic else (b, a)
        return matches(plain.remote_filter, named.kafka_topic.replace(".", "/"))
    return not are_apart(levels_of(a.remote_filter), levels_of(b.remote_filter))


def _has_bad_pattern(topic: BridgeTopic) -> bool:
    """Whether the topic filter is wrong, and not the content filter."""
    try:
        Route.of(msgspec.structs.replace(topic, where=""))
    except GodwitError:
        return True
    return False
