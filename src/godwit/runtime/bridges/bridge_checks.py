"""What is wrong with `[[bridge]]` that types cannot say: names, addresses, files, patterns, topics that come back."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import msgspec

from godwit import settings
from godwit.errors import BadValue, GodwitError
from godwit.filters.topic_patterns import are_apart, levels_of
from godwit.runtime.addresses import address_of
from godwit.runtime.bridges.bridge_sections import FILE_KEYS, FOREIGN_KEYS, BridgeSection, BridgeTopic
from godwit.runtime.bridges.routes import Route
from godwit.webhook_post import is_webhook

__all__ = ["bridge_faults"]

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
WILDCARDS = ("+", "#")


def bridge_faults(bridges: tuple[BridgeSection, ...], where: settings.Where) -> Iterator[str]:
    """What is wrong with the bridges of a configuration whose values all have the right form."""
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
    """What does not fit the kind of the other side."""
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
    try:
        if not address_of(bridge.address).port:
            raise BadValue(bridge.address)
    except BadValue:
        yield f"{where((*at, 'address'))} is {bridge.address!r}: allowed is host:port, as in 10.0.0.9:1883"
    if kind == "nats" and find_spec("nats") is None:
        yield f"{where((*at, 'kind'))} is 'nats': it needs nats-py, which is not installed: pip install godwit[nats]"


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
    incoming, outgoing = list[tuple[int, str]](), list[tuple[int, str]]()
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
        if not faults:
            try:
                route = Route.of(topic)
            except GodwitError as error:
                key = "pattern" if _has_bad_pattern(topic) else "where"
                faults.append(f"{where((*here, key))} is {getattr(topic, key)!r}: {str(error).splitlines()[0]}")
        if faults:
            yield from faults
            continue
        if topic.direction != "out":
            incoming.append((number, route.remote_filter))
        if topic.direction != "in":
            outgoing.append((number, route.remote_filter))
    for (one, a), (other, b) in combinations(incoming, 2):
        if not are_apart(levels_of(a), levels_of(b)):
            second = where((*at, "topics", other, "pattern"))
            yield f"{second}: {b!r} overlaps with {a!r} of topics[{one}]: one message would come in twice"
    if bridge.level != "5":
        for one, a in incoming:
            for other, b in outgoing:
                if not are_apart(levels_of(a), levels_of(b)):
                    first = where((*at, "topics", one, "direction"))
                    yield (
                        f"{first}: topics[{one}] brings in {a!r} and topics[{other}] takes out {b!r}: over MQTT 3.1.1 "
                        "messages would come back; allowed are topics that do not overlap, or level = '5'"
                    )


def _has_bad_pattern(topic: BridgeTopic) -> bool:
    """Whether the topic filter is wrong, and not the content filter."""
    try:
        Route.of(msgspec.structs.replace(topic, where=""))
    except GodwitError:
        return True
    return False
