"""`[[bridge]]` in a configuration: what is accepted, and what each fault says; and the routes that are made of it."""

from pathlib import Path

import pytest

from godwit.errors import ConfigurationError
from godwit.filters.events import Event
from godwit.runtime.bridges.bridge_sections import BridgeTopic
from godwit.runtime.bridges.routes import PATH_MAX, Networks, Route, first_route
from godwit.runtime.configuration import load

BRIDGE = '[[bridge]]\nname = "plant"\naddress = "10.0.0.9:1883"\n'
TOPICS = '[[bridge.topics]]\npattern = "a/#"\n'


def faults(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(file)
    return [str(fault).replace(str(tmp_path), "") for fault in caught.value.args]


def test_a_bridge_is_read_with_its_defaults_and_paths_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "broker.toml").write_text(BRIDGE + 'user = "me"\npassword = "secret"\n' + TOPICS)
    configuration = load(tmp_path / "broker.toml")
    [bridge] = configuration.settled.bridge
    assert (bridge.kind, bridge.level, bridge.password) == ("mqtt", "5", str(tmp_path / "secret"))
    assert bridge.topics == (BridgeTopic(pattern="a/#"),)
    (tmp_path / "again.toml").write_text(configuration.to_toml())
    assert load(tmp_path / "again.toml").settled == configuration.settled


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (BRIDGE, "/broker.toml:1: bridge[0].topics is missing: it must be a list"),
        (BRIDGE + "topics = []\n", "/broker.toml:4: bridge[0].topics is empty: a bridge needs at least one"),
        ('[[bridge]]\nname = "plant"\n' + TOPICS, "/broker.toml:1: bridge[0].address is missing"),
        (BRIDGE.replace("10.0.0.9:1883", "mqtt"), "bridge[0].address is 'mqtt': allowed is host:port"),
        (BRIDGE + TOPICS + BRIDGE + TOPICS, "/broker.toml:7: bridge[1].name is 'plant': another bridge has that name"),
        (BRIDGE.replace("plant", "a b"), "/broker.toml:2: bridge[0].name is 'a b': allowed are letters"),
        (BRIDGE + 'password = "none"\n', "/broker.toml:4: bridge[0].password: /none cannot be read: No such file"),
        (BRIDGE + 'password = "broker.toml"\n', "/broker.toml:4: bridge[0].password needs user, too"),
        (BRIDGE + 'authorities = "broker.toml"\n', "bridge[0].authorities needs tls = true, too"),
        (BRIDGE + TOPICS + "qos = 3\n", "/broker.toml:6: bridge[0].topics[0].qos is 3: allowed is a whole number"),
        (
            BRIDGE + TOPICS + 'where = "cost <"\n',
            "/broker.toml:6: bridge[0].topics[0].where is 'cost <': line 1, column 7",
        ),
        (BRIDGE + TOPICS + 'local_prefix = "+/"\n', "topics[0].local_prefix is '+/': a prefix has no wildcards"),
        (
            BRIDGE + TOPICS + TOPICS,
            "/broker.toml:7: bridge[0].topics[1].pattern: 'a/#' overlaps with 'a/#' of topics[0]",
        ),
        (BRIDGE + 'level = "3.1.1"\n' + TOPICS, "over MQTT 3.1.1 messages would come back"),
        (BRIDGE + TOPICS.replace("a/#", "a/#?x > 1"), "allowed is a topic filter; a content filter goes to where"),
    ],
)
def test_every_fault_names_file_line_key_and_what_is_allowed(tmp_path: Path, text: str, fault: str) -> None:
    text = text if "topics" in text or "missing" in fault else text + TOPICS
    assert any(fault in each for each in faults(tmp_path, text)), faults(tmp_path, text)


def event(*topics: str, **attributes: float) -> Event:
    return Event({"topic": topics if len(topics) > 1 else topics[0], **attributes}, "me", 1)


def test_a_route_renames_topics_both_ways_and_tests_the_content() -> None:
    said = BridgeTopic(pattern="+/speed", local_prefix="fleet/", remote_prefix="s7/", where="kmh > 50")
    route = Route.of(said)
    assert route.to_remote(event("fleet/a/speed", kmh=60)) == "s7/a/speed"
    assert route.to_remote(event("fleet/a/speed", kmh=40)) is None
    assert route.to_remote(event("other", "fleet/b/speed", kmh=60)) == "s7/b/speed"
    assert route.to_local("s7/a/speed") == "fleet/a/speed"
    assert route.to_local("s8/a/speed") is None


def test_the_level_above_a_prefix_and_topics_with_a_dollar_are_not_carried_in() -> None:
    assert Route.of(BridgeTopic(pattern="#", remote_prefix="a/")).to_local("a") is None
    assert Route.of(BridgeTopic(pattern="$SYS/#")).to_local("$SYS/broker/uptime") is None
    renamed = Route.of(BridgeTopic(pattern="$SYS/#", local_prefix="plant/"))
    assert renamed.to_local("$SYS/broker/uptime") == "plant/$SYS/broker/uptime"


def test_the_first_route_that_is_for_a_topic_carries_it() -> None:
    routes = tuple(Route.of(BridgeTopic(pattern=each, local_prefix=f"{each[0]}-")) for each in ("a/#", "b/#"))
    assert first_route(routes, "b/1") == (routes[1], "b-b/1")
    assert first_route(routes, "c") is None


def test_a_message_enters_no_network_twice_and_its_path_is_bounded() -> None:
    networks = Networks("ours", "theirs")
    assert networks.leaving(()) == ("ours",)
    assert networks.entering(("x",)) == ("x", "theirs")
    assert networks.entering(("theirs",)) == ("theirs",)
    assert networks.entering(("x", "ours")) is None
    assert networks.leaving(("theirs",)) is None
    assert networks.leaving(tuple(map(str, range(PATH_MAX)))) is None
