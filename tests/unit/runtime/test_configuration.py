"""A broker's configuration: what goes before what, and that every fault is told, with its place and what is allowed."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.broker.links import LinkConfig
from godwit.broker.reductions import REDUCTIONS
from godwit.errors import BadValue, ConfigurationError
from godwit.mqtt.mqtt_effects import MqttSettings
from godwit.runtime.config_sections import BrokerSection, BrokerSettings, LimitsSection, LinksSection, MqttSection
from godwit.runtime.configuration import Override, address_of, load
from godwit.runtime.edge_tests import EdgeLimits
from godwit.runtime.rate_limits import TrafficLimits
from godwit.runtime.tcp import Address


def faults_of(text: str, folder: Path, environment: dict[str, str] | None = None, *flags: Override) -> list[str]:
    """What is wrong with a file of this text, without the file's name."""
    file = folder / "godwit.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(file, environment, flags)
    return [fault.replace(str(file), "FILE").replace(f"{folder}/", "") for fault in caught.value.faults]


# ---------------------------------------------------------------- what goes before what


def test_without_anything_the_defaults_hold() -> None:
    found = load()
    assert found.settled == BrokerSettings()
    assert found.name == "b1"
    assert found.folder == Path("godwit-data/b1")
    assert found.address("native") == Address("127.0.0.1", 7077)
    assert found.broker_config() == BrokerConfig(expects_strangers=True)
    assert found.mqtt_settings() == MqttSettings()


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "godwit.toml"
    file.write_text("[broker]\nname = 'file'\n[limits]\nwindow = 1\nsessions_max = 1\nqueue_events_max = 1\n")
    environment = {
        "GODWIT_LIMITS__WINDOW": "2",
        "GODWIT_LIMITS__SESSIONS_MAX": "2",
        "GODWIT_LIMITS__QUEUE_EVENTS_MAX": "9",
    }
    found = load(file, environment, [Override("--set", ("limits", "window"), "3")])
    limits = found.settled.limits
    assert (found.name, limits.window, limits.sessions_max, limits.queue_events_max) == ("file", 3, 2, 9)
    assert found.is_said(("broker", "name"))
    assert found.is_said(("limits", "window"))
    assert not found.is_said(("listen", "mqtt"))


def test_neighbours_are_laid_over_each_other_name_by_name(tmp_path: Path) -> None:
    file = tmp_path / "godwit.toml"
    file.write_text("[neighbours]\nb2 = 'a:1'\nb3 = { address = 'b:2', cost = 4 }\n")
    environment = {"GODWIT_NEIGHBOURS__B4": "{ address = 'c:3', cost = 2.5 }", "GODWIT_NEIGHBOURS__b2": ""}
    found = load(file, environment, [Override("--neighbour", ("neighbours", "b 5"), "d:4")]).neighbours()
    assert {name: (each.address, each.cost) for name, each in found.items()} == {
        "b2": ("", 1.0),
        "b3": ("b:2", 4.0),
        "B4": ("c:3", 2.5),
        "b 5": ("d:4", 1.0),
    }


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    [
        ("GODWIT_BROKER__NAME", "123", ("broker", "name"), "123"),
        ("GODWIT_LINKS__TLS", "false", ("links", "tls"), False),
        ("GODWIT_SECURITY__TOKEN_ISSUER", '"quoted"', ("security", "token_issuer"), '"quoted"'),
        ("GODWIT_LIMITS__SESSION_EXPIRY_S", "never", ("limits", "session_expiry_s"), "never"),
        ("GODWIT_LIMITS__SESSION_EXPIRY_S", "60", ("limits", "session_expiry_s"), 60),
        ("GODWIT_SECURITY__ASSERTED", "['role', 'unit']", ("security", "asserted"), ("role", "unit")),
    ],
)
def test_a_variable_is_read_as_what_is_wanted_there(
    variable: str, text: str, path: tuple[str, ...], value: Any
) -> None:
    held: Any = load(None, {variable: text}).settled
    for part in path:
        held = getattr(held, part)
    assert held == value


def test_variables_of_others_are_left_alone() -> None:
    variables = {"GODWIT_NUMBA": "0", "GODWIT_BROKER": "x", "PATH": "y", "OTHER__KEY": "z"}
    assert load(None, variables).settled == BrokerSettings()


def test_paths_in_a_file_are_meant_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "users.toml").touch()
    (tmp_path / "streets.json").write_text('{"edges": [["a", "b"]]}')
    file = tmp_path / "godwit.toml"
    file.write_text(
        "[journal]\nfolder = 'data'\n[security]\nusers = 'users.toml'\n"
        "[places]\nlocation = 'streets.json'\nspeed = 2.5\n"
    )
    found = load(file)
    assert found.folder == tmp_path / "data"
    assert found.settled.security.users == str(tmp_path / "users.toml")
    assert found.made(1).places == {"location": '{"edges": [["a", "b"]]}', "speed": 2.5}
    assert set(found.made(1).movements().movements) == {"location", "speed"}
    assert load(None, {"GODWIT_JOURNAL__FOLDER": "data"}).folder == Path("data")


def test_what_is_never_to_happen_is_none_for_the_machine() -> None:
    config = load(None, {"GODWIT_LIMITS__SESSION_EXPIRY_S": "never"}).broker_config()
    assert config.limits.session_expiry_s is None
    assert config.link.dead_after_s is None


# ---------------------------------------------------------------- faults


def test_every_fault_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = "[broker]\nnam = 'b1'\nfamily = 'tre'\n\n[listen]\nnative = 7\n\n[limits]\nwindow = -3\n"
    faults = faults_of(
        text, tmp_path, {"GODWIT_LOG__LEVEL": "loud"}, Override("--durability", ("journal", "durability"), "no")
    )
    assert faults[0].startswith("FILE:2: broker.nam is not known (did you mean name?); allowed are name, family,")
    assert faults[1:] == [
        "FILE:3: broker.family is 'tre': allowed is 'tree', 'graph' (did you mean tree?)",
        "FILE:6: listen.native is 7: allowed is a text",
        "--durability: journal.durability is 'no': allowed is 'memory', 'relaxed', 'full'",
        "FILE:9: limits.window is -3: allowed is a whole number from 1",
        "GODWIT_LOG__LEVEL: log.level is 'loud': allowed is 'debug', 'info', 'warning', 'error'",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[broker\n", "FILE:1: this is not valid TOML: Expected ']' at the end of a table declaration"),
        ("[broker]\nname = 'a/b'", "FILE:2: broker.name is 'a/b': it is the name of a folder, too"),
        ("[broker]\nname = ''", "FILE:2: broker.name is '': allowed is a text that is not empty"),
        ("[broker]\nstrategy = 'spcf'", "FILE:2: broker.strategy is 'spcf': only the family 'graph' has it"),
        (
            "[broker]\nreduction = 'coverin'",
            "FILE:2: broker.reduction is 'coverin': allowed is ",  # and what tests have registered besides
        ),
        (
            "[broker]\nfamily = 'graph'\nstrategy = 'advertised'\nadvertisements = 'off'",
            "FILE:4: broker.advertisements is 'off': the strategy 'advertised' routes by them",
        ),
        (
            "[broker]\nfamily = 'graph'\nstrategy = 'advertised'\nmatching = 'hops'",
            "FILE:4: broker.matching is 'hops': the strategy 'advertised' matches at the source",
        ),
        ("[broker]\nexcess_max = 0.5", "FILE:2: broker.excess_max is 0.5: only the reduction 'merging'"),
        ("[broker]\nmatching = 'hops'", "FILE:2: broker.matching is 'hops': only the family 'graph' has it"),
        ("[listen]\nnative = 'here'", "FILE:2: listen.native is 'here': allowed is host:port"),
        (
            "[listen]\nnative = '127.0.0.1:99999'",
            (
                "FILE:2: listen.native is '127.0.0.1:99999': allowed is host:port, as in 127.0.0.1:7077, "
                "with a port from 0 (any free one) to 65535, or '' for none"
            ),
        ),
        (
            "[listen]\nmqtt = '127.0.0.1:7077'",
            "FILE:2: listen.mqtt is '127.0.0.1:7077': listen.native has that address",
        ),
        ("[neighbours]\nb2 = 'h:0'", "FILE:2: neighbours.b2 is 'h:0': allowed is host:port"),
        ("[neighbours]\nb2 = { adress = 'h:1' }", "FILE:2: neighbours.b2.adress is not known (did you mean address?)"),
        ("[neighbours]\nb2 = 7", "FILE:2: neighbours.b2 is 7: allowed is a text or a table with address, cost"),
        ("[neighbours]\nb1 = 'h:1'", "FILE:2: neighbours.b1: b1 is this broker itself"),
        ("[security]\nusers = 'none'", "FILE:2: security.users: none cannot be read: No such file or directory"),
        ("[tls]\nclient_certificates = 'required'", "FILE:2: tls.client_certificates is 'required': it needs"),
        ("[links]\ntls = true", "FILE:2: links.tls is true: it needs tls.certificate"),
        ("[limits]\nwindow = 10\nqueue_events_max = 5", "FILE:2: limits.window is 10: allowed is at most"),
        ("[places]\nlocation = 'grid 3'", "FILE:2: places.location is 'grid 3': no movement graph"),
        ("[places]\nlocation = 'none.toml'", "FILE:2: places.location: none.toml cannot be read: No such file"),
    ],
)
def test_a_fault_names_the_line_and_what_is_allowed(tmp_path: Path, text: str, fault: str) -> None:
    [found] = faults_of(text, tmp_path)
    assert found.startswith(fault)


def test_an_unknown_variable_is_a_fault(tmp_path: Path) -> None:
    [section] = faults_of("", tmp_path, {"GODWIT_BROKR__NAME": "x"})
    assert section.startswith("GODWIT_BROKR__NAME: brokr is not known (did you mean broker?)")
    [key] = faults_of("", tmp_path, {"GODWIT_BROKER__NAM": "x"})
    assert key.startswith("GODWIT_BROKER__NAM: broker.nam is not known (did you mean name?)")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read: No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        load(tmp_path / "latin.toml")


@pytest.mark.parametrize("text", ["", ":1", "a", "a:", "a:b", "a:65536", "::1:70", "a:-1", "a:\u0663"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="is not an address: it must be host:port"):
        address_of(text)


def test_an_address_is_a_host_and_a_port() -> None:
    assert address_of("localhost:0") == Address("localhost", 0)
    assert address_of("[::1]:7077") == Address("::1", 7077)


# ---------------------------------------------------------------- the whole of it


def test_what_is_printed_is_read_as_the_same(tmp_path: Path) -> None:
    file = tmp_path / "godwit.toml"
    file.write_text(
        "[broker]\nname = 'b\"1'\n"
        "[neighbours]\n'b 2' = { address = 'h:1', cost = 2 }\n"
        "[places]\nspeed = 3\n[limits]\nsession_expiry_s = 'never'\n"
    )
    found = load(file)
    file.write_text(found.to_toml())
    assert load(file).settled == found.settled


@pytest.mark.parametrize(
    ("section", "machine", "besides"),
    [
        (LimitsSection, Limits, {"frame_bytes_max", *TrafficLimits.__struct_fields__, *EdgeLimits.__struct_fields__}),
        (LinksSection, LinkConfig, {"tls", "secret"}),
        (MqttSection, MqttSettings, set()),
        (BrokerSection, BrokerConfig, {"name", "movement_rule", "position", "area"}),
    ],
)
def test_every_setting_of_a_machine_can_be_made(
    section: type[msgspec.Struct], machine: type[msgspec.Struct], besides: set[str]
) -> None:
    elsewhere = {"asserted", "link", "limits", "expects_strangers", "overlay"} if machine is BrokerConfig else set()
    assert set(section.__struct_fields__) == (set(machine.__struct_fields__) - elsewhere) | besides


def test_every_reduction_can_be_chosen() -> None:
    for reduction in REDUCTIONS:
        assert load(None, {"GODWIT_BROKER__REDUCTION": reduction}).settled.broker.reduction == reduction


@pytest.mark.parametrize("origin", ["*", "app.example", "https://app.example/", "https://App.example", "https://"])
def test_an_origin_that_no_page_has_is_a_fault(tmp_path: Path, origin: str) -> None:
    [fault] = faults_of(f'[http]\norigins = ["https://a.example", "http://[::1]:80", "{origin}"]\n', tmp_path)
    assert fault.startswith(f"FILE:2: http.origins[2] is {origin!r}: allowed is scheme://host")


@pytest.mark.parametrize("name", ["", "a/b", ".b", "b\\n2", "b" * 257])
def test_a_neighbour_whom_no_broker_can_be_is_a_fault(tmp_path: Path, name: str) -> None:
    [fault] = faults_of(f'[neighbours]\n"{name}" = ""\n', tmp_path)
    assert "is the name of no broker" in fault


# ---------------------------------------------------------------- operators


MODULE = """
from godwit.languages import operator

@operator("is_{name}")
def is_{name}(value):
    return value == "{name}"
"""


def test_operators_are_loaded_from_the_modules_that_the_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "operators_of_ours.py").write_text(MODULE.format(name="ours"))
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "godwit.toml"
    file.write_text("[languages]\nmodules = ['operators_of_ours']\noperators = ['is_ours']\n")
    assert list(load(file).operators()) == ["is_ours"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("modules = ['no_such_module']", "modules[0] is 'no_such_module': the module cannot be loaded: ModuleNotFound"),
        ("modules = ['broken_operators']", "the module cannot be loaded: ZeroDivisionError"),
        ("operators = ['nobody_has_this']", "operators: there is no operator 'nobody_has_this': known are"),
    ],
)
def test_operators_that_cannot_be_had_are_faults_with_their_place(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_operators.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "godwit.toml"
    file.write_text(f"[languages]\n{text}\n")
    with pytest.raises(ConfigurationError) as caught:
        load(file).operators()
    assert f"{file}:2: languages." in str(caught.value)
    assert fault in str(caught.value)
