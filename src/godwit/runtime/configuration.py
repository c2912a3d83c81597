"""A broker's configuration: one TOML file, the environment and flags, checked as a whole before anything starts.

*Theory.* File, environment and flags are merged as plain data, with the origin of each value. Then the data is checked
against the structs of `config_sections.py`; conditions that types cannot express (addresses, files that must exist,
keys that need each other) are checked here.

*Rules.*
1. Flags override the environment, which overrides the file, which overrides the defaults: key by key, and in
   `neighbours`, `places` and `publishers.proxies` name by name.
2. No key is ignored, neither in the file nor in the environment: an unknown key is an error.
3. All errors are reported at once. Each names file and line, or variable, or flag; the key; and what is allowed.
4. A path in the file is relative to the file's folder, any other to the current folder.
5. A value in the environment is used as it is if the key is a text; otherwise it is parsed as a TOML value.
6. No key has a secret: secrets are in files that keys name. So a configuration may be shown.
"""

import json
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from godwit import settings
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import WINDOW, Limits
from godwit.broker.links import LinkConfig
from godwit.broker.reductions import reduction_fault, reductions
from godwit.errors import BadValue, ConfigurationError, GodwitError
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.languages.operators import Operator, operators_named
from godwit.mobility.extensions import attach_policy_names, component_names
from godwit.mobility.mined_proxies import mined_proxies
from godwit.mobility.movement_graphs import Drift, Movement, parse
from godwit.mobility.possible_values import Movements
from godwit.mobility.predictors import model_of
from godwit.mobility.publisher_presence import PROXIES_MAX, PublisherSettings
from godwit.mqtt.mqtt_effects import MqttSettings
from godwit.runtime.addresses import PORT_MAX, Address, address_of
from godwit.runtime.bridges.bridge_checks import bridge_faults
from godwit.runtime.bridges.bridge_sections import FILE_KEYS
from godwit.runtime.config_sections import BrokerSettings, Neighbour, PublishersSection
from godwit.runtime.dashboard_settings import dashboard_faults
from godwit.runtime.edge_tests import EdgeLimits
from godwit.runtime.rate_limits import TrafficLimits
from godwit.webhook_post import is_webhook

__all__ = ["Configuration", "MachineSettings", "Override", "address_of", "key_path", "load"]

PREFIX = "GODWIT_"
PARTS = "__"
NAMED = (("neighbours",), ("places",), ("publishers", "proxies"))  # tables whose keys are names that people give
FOLDERS: tuple[settings.Path, ...] = (("journal", "folder"),)
FILES: tuple[settings.Path, ...] = (
    ("tls", "certificate"),
    ("tls", "key"),
    ("tls", "authorities"),
    ("links", "secret"),
    ("security", "users"),
    ("security", "token_key"),
    ("publishers", "model"),
    ("publishers", "client_proxies"),
    ("dashboard", "tiles_file"),
)
MODEL_BYTES_MAX = 64 * 2**20  # enough for a million transitions between pairs of places
GRAPH_SUFFIXES = (".json", ".toml")
AT_LINE = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*A-Z]+")


class Override(NamedTuple):
    """A value from the environment or a flag: `origin` is the variable or flag."""

    origin: str
    path: settings.Path
    text: str


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a broker's machine."""

    name: str
    incarnation: int  # the incarnation: higher after each loss of the disk
    neighbours: dict[str, float]
    config: BrokerConfig
    places: dict[str, str | float]
    movement_rule: Literal["bound", "paper", "anything"]
    publishers: PublisherSettings = PublisherSettings()  # the value for older journals, which have no such key

    def movements(self) -> Movements:
        """The possible changes of clients' attributes."""
        return Movements({name: _movement(said) for name, said in self.places.items()}, rule=self.movement_rule)

    def changes(self, other: "MachineSettings") -> list[str]:
        """Descriptions of changes in `other` that cannot be applied to a machine made with these settings.
        (`broker_server.py`)"""
        found = [f"without the neighbour {name}" for name in self.neighbours if name not in other.neighbours]
        for name in BrokerConfig.__struct_fields__:
            before, after = getattr(self.config, name), getattr(other.config, name)
            if before != after and name not in ("limits", "expects_strangers"):
                shown = "links" if name == "link" else f"security.{name}" if name == "asserted" else f"broker.{name}"
                was = "" if name == "link" else f", which was {before!r}"
                found.append(f"{shown}{was}")
        if self.places != other.places:
            found.append("places")
        if self.movement_rule != other.movement_rule:
            found.append(f"broker.movement_rule, which was {self.movement_rule!r}")
        return found


class Configuration:
    """A valid configuration, and the origin of each value."""

    def __init__(self, settled: BrokerSettings, where: settings.Where, said: Callable[[settings.Path], bool]) -> None:
        self.settled = settled
        self.where = where
        self.is_said = said  # whether a value was set, or is a default

    # ------------------------------------------------------------ for the parts of a broker

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.settled.broker.name

    @property
    def folder(self) -> Path:
        """The folder of the journal."""
        return Path(self.settled.journal.folder or Path("godwit-data") / self.name)

    def neighbours(self) -> dict[str, Neighbour]:
        """Each neighbour by its name."""
        return {
            name: Neighbour(address=said) if isinstance(said, str) else said
            for name, said in self.settled.neighbours.items()
        }

    def broker_config(self) -> BrokerConfig:
        """Routing and bounds of the machine."""
        broker, links, limits = self.settled.broker, self.settled.links, self.settled.limits
        same = ("family", "reduction", "excess_max", "advertisements", "strategy", "matching", "matcher")
        further = ("open_filters", "contexts_max", "components", "attach_policies")
        return BrokerConfig(
            **{name: getattr(broker, name) for name in (*same, *further)},
            expects_strangers=True,
            asserted=self.settled.security.asserted,
            link=LinkConfig(**_fields_of(LinkConfig, links)),
            limits=Limits(**_fields_of(Limits, limits) | self._without_users()),
        )

    def _without_users(self) -> dict[str, Any]:
        """Limits that do not apply without users, unless they were set."""
        security = self.settled.security
        if security.users or security.token_key:
            return {}
        unset = {"user_share": 1.0, "user_bytes_max": None, "user_filter_bytes_max": None}
        return {name: value for name, value in unset.items() if not self.is_said(("limits", name))}

    def mqtt_settings(self) -> MqttSettings:
        """What MQTT clients are offered."""
        return MqttSettings(**_fields_of(MqttSettings, self.settled.mqtt))

    def traffic(self) -> TrafficLimits:
        """Bounds on what comes over connections."""
        return TrafficLimits(**_fields_of(TrafficLimits, self.settled.limits))

    def edge_limits(self) -> EdgeLimits:
        """Bounds on the tests that run for thin clients."""
        return EdgeLimits(**_fields_of(EdgeLimits, self.settled.limits))

    def operators(self) -> Mapping[str, Operator]:
        """Load the modules of the operators that queries of thin clients may use. ConfigurationError if that fails."""
        said, where = self.settled.languages, self.where
        for place, module in enumerate(said.modules):
            try:
                import_module(module)
            except Exception as error:  # whatever a module of somebody else raises
                at, why = where(("languages", "modules", place)), f"{type(error).__name__}: {error}"
                raise ConfigurationError(f"{at} is {module!r}: the module cannot be loaded: {why}") from error
        try:
            return operators_named(said.operators)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where(('languages', 'operators'))}: {error}") from None

    def made(self, incarnation: int) -> "MachineSettings":
        """The settings of the machine."""
        return MachineSettings(
            name=self.name,
            incarnation=incarnation,
            neighbours={name: neighbour.cost for name, neighbour in self.neighbours().items()},
            config=self.broker_config(),
            places={name: _ground(said) for name, said in self.settled.places.items()},
            movement_rule=self.settled.broker.movement_rule,
            publishers=_moving(self.settled.publishers, self.name),
        )

    def address(self, listener: str) -> Address | None:
        """The address of a listener; None if it is off."""
        text: str = getattr(self.settled.listen, listener)
        return address_of(text) if text else None

    def to_toml(self) -> str:
        """The configuration as TOML, including defaults."""
        return _toml(msgspec.to_builtins(self.settled))


def _fields_of(kind: type[msgspec.Struct], section: msgspec.Struct) -> dict[str, Any]:
    """The fields of a machine's settings from a section."""
    said = {name: getattr(section, name) for name in kind.__struct_fields__ if hasattr(section, name)}
    return {name: None if value == "never" else value for name, value in said.items()}


def _ground(said: str | float) -> str | float:
    """The value of a place, with the text of the file if it names one."""
    is_file = isinstance(said, str) and said.endswith(GRAPH_SUFFIXES)
    return Path(str(said)).read_text(encoding="utf-8") if is_file else said


def _movement(said: str | float) -> Movement:
    return parse(said) if isinstance(said, str) else Drift(said)


def _moving(said: PublishersSection, here: str) -> PublisherSettings:
    """The settings for mobile publishers, with the predictions of the model file for this broker. GodwitError if it
    is invalid."""
    model = ""
    if said.model:
        model = model_of(_mined(said.model), said.model).seen_from(here).to_text()
    own = mined_proxies(_mined(said.client_proxies), said.client_proxies) if said.client_proxies else {}
    return PublisherSettings(said.delay_s, said.prefetch_s, said.lease_s, said.proxies, model, own)


def _mined(path: str) -> str:
    """The text of a file that the pipeline has mined."""
    with Path(path).open("rb") as file:
        data = file.read(MODEL_BYTES_MAX + 1)
    if len(data) > MODEL_BYTES_MAX:
        raise BadValue(f"{path} is too long: allowed are {MODEL_BYTES_MAX:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadValue(f"{path} is not UTF-8") from None


# ---------------------------------------------------------------- reading


def load(
    file: str | Path | None = None, environment: Mapping[str, str] | None = None, flags: Iterable[Override] = ()
) -> Configuration:
    """The configuration of a broker. ConfigurationError lists all errors."""
    text = "" if file is None else _read(Path(file))
    data = {} if file is None else _parsed(text, file)
    if file is not None:
        _rebase(data, Path(file).parent)
    origins: dict[settings.Path, str] = {}

    def where(path: settings.Path) -> str:
        key = settings.key_text(path)
        for length in range(len(path), 0, -1):
            if path[:length] in origins:
                return f"{origins[path[:length]]}: {key}"
        line = settings.line_of(text, path)
        below = [origin for known, origin in origins.items() if known[: len(path)] == path]
        if line is None and below:
            return f"{below[0]}: {key}"
        return key if file is None else f"{file}:{line}: {key}" if line else f"{file}: {key}"

    def is_said(path: settings.Path) -> bool:
        held: Any = data
        for part in path:
            if not isinstance(held, dict) or part not in held:
                return False
            held = held[part]
        return True

    for change in (*_environment(environment or {}), *flags):
        _put(data, change.path, _value(change.text, change.path))
        origins[change.path] = change.origin
    found = list(settings.faults(BrokerSettings, data, where))
    if not found:
        settled = msgspec.convert(data, BrokerSettings)
        found = list(_meaning(settled, where))
    if found:
        raise ConfigurationError(*found)
    return Configuration(settled, where, is_said)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8") from None


def _parsed(text: str, file: str | Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message = str(error)
        at = AT_LINE.search(message)
        line = f":{at['line']}" if at else ""
        raise ConfigurationError(f"{file}{line}: this is not valid TOML: {AT_LINE.sub('', message)}") from None


def _rebase(data: dict[str, Any], folder: Path) -> None:
    """Resolve paths of a file relative to its folder. (rule 4)"""
    for path in (*FILES, *FOLDERS):
        held: Any = data
        for part in path[:-1]:
            held = held.get(part) if isinstance(held, dict) else None
        if isinstance(held, dict) and isinstance(said := held.get(str(path[-1])), str) and said:
            held[path[-1]] = str(folder / said)
    bridges = data.get("bridge")
    for bridge in bridges if isinstance(bridges, list) else ():
        for key in FILE_KEYS:
            if isinstance(bridge, dict) and isinstance(said := bridge.get(key), str) and said:
                bridge[key] = str(folder / said)
    places = data.get("places")
    if isinstance(places, dict):
        for name, said in places.items():
            if isinstance(said, str) and said.endswith(GRAPH_SUFFIXES):
                places[name] = str(folder / said)


def _environment(environment: Mapping[str, str]) -> Iterator[Override]:
    """The environment variables of Godwit's configuration: those with two underscores."""
    for variable, text in environment.items():
        if variable.startswith(PREFIX) and PARTS in variable:
            parts = variable.removeprefix(PREFIX).split(PARTS)
            small = tuple(part.lower() for part in parts)
            known = next((named for named in NAMED if small[: len(named)] == named), small)
            yield Override(variable, (*known, *parts[len(known) :]), text)


def key_path(key: str) -> settings.Path:
    """The path of a dotted key; user-defined names may contain dots."""
    for named in NAMED:
        table = f"{'.'.join(named)}."
        if key.startswith(table):
            return (*named, key.removeprefix(table))
    return tuple(key.split("."))


def _put(data: dict[str, Any], path: settings.Path, value: Any) -> None:
    held: Any = data
    for part in path[:-1]:
        if not isinstance(held.get(part), dict):
            held[part] = {}
        held = held[part]
    held[path[-1]] = value


def _value(text: str, path: settings.Path) -> Any:
    """Convert a text of the environment or a flag to the type of its key. (rule 5)"""
    choices = _wanted(path)
    try:
        parsed: Any = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        parsed = text
    candidates = (parsed, text) if text.lstrip().startswith(("{", "[")) else (text, parsed)
    return next((each for each in candidates if any(settings.has_form(each, one) for one in choices)), parsed)


def _wanted(path: settings.Path) -> tuple[Any, ...]:
    """The allowed types of a path; empty if there is no such key."""
    choices: tuple[Any, ...] = (BrokerSettings,)
    for part in path:
        structs = [each for each in choices if isinstance(each, type) and issubclass(each, msgspec.Struct)]
        tables = [each for each in choices if typing.get_origin(each) is dict]
        hint = typing.get_type_hints(structs[0], include_extras=True).get(str(part)) if structs else None
        if tables:
            hint = typing.get_args(tables[0])[1]
        if hint is None:
            return ()
        choices = typing.get_args(hint) if hint.__class__ is not type and _is_union(hint) else (hint,)
    return choices


def _is_union(hint: Any) -> bool:
    import types

    return typing.get_origin(hint) in (typing.Union, types.UnionType)


# ---------------------------------------------------------------- what types cannot say


def _meaning(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    """Errors of a configuration whose values all have the right types."""
    for check in CHECKS:
        yield from check(settled, where)


def _broker_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    broker = settled.broker
    if not _is_broker_name(broker.name):
        yield (
            f"{where(('broker', 'name'))} is {broker.name!r}: it is the name of a folder, too; allowed are up to "
            f"{NAME_LENGTH_MAX} characters, no slash or control character, and no dot in front"
        )
    if ":" in broker.reduction and (fault := reduction_fault(broker.reduction)):
        yield f"{where(('broker', 'reduction'))} {fault}"
    elif ":" not in broker.reduction and broker.reduction not in (known := reductions()):
        at, near = where(("broker", "reduction")), settings.nearest(broker.reduction, known)
        yield f"{at} is {broker.reduction!r}: allowed is {', '.join(map(repr, known))}{near}"
    for key, listed, known in (
        ("components", broker.components, component_names()),
        ("attach_policies", broker.attach_policies, attach_policy_names()),
    ):
        for number, name in enumerate(listed):
            if name not in known:
                allowed = ", ".join(map(repr, known)) or "nothing, since no installed package adds any"
                near = settings.nearest(name, known)
                yield f"{where(('broker', key, number))} is {name!r}: allowed is {allowed}{near}"
    if broker.family != "graph":
        for key, value, default in (("strategy", broker.strategy, "gsf"), ("matching", broker.matching, "source")):
            if value != default:
                yield (
                    f"{where(('broker', key))} is {value!r}: only the family 'graph' has it; allowed is {default!r}, "
                    "or broker.family = 'graph'"
                )
    if broker.family == "graph" and broker.strategy == "advertised" and broker.advertisements == "off":
        at = where(("broker", "advertisements"))
        yield f"{at} is 'off': the strategy 'advertised' routes by them; allowed is 'required' or 'optional'"
    if (broker.family, broker.strategy, broker.matching) == ("graph", "advertised", "hops"):
        at = where(("broker", "matching"))
        yield f"{at} is 'hops': the strategy 'advertised' matches at the source; allowed is 'source'"
    if broker.excess_max and broker.reduction != "merging":
        at = where(("broker", "excess_max"))
        yield f"{at} is {broker.excess_max}: only the reduction 'merging' has an excess; allowed is 0"
    if WINDOW != settled.limits.window > settled.limits.queue_events_max:
        yield (
            f"{where(('limits', 'window'))} is {settled.limits.window}: allowed is at most limits.queue_events_max, "
            f"which is {settled.limits.queue_events_max}"
        )


def _is_broker_name(name: str) -> bool:
    return 0 < len(name) <= NAME_LENGTH_MAX and name.isprintable() and "/" not in name and not name.startswith(".")


def _address_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    taken: dict[Address, str] = {}
    for listener in settled.listen.__struct_fields__:
        text, at = getattr(settled.listen, listener), where(("listen", listener))
        if not text:
            continue
        try:
            address = address_of(text)
        except BadValue:
            ports = f"with a port from 0 (any free one) to {PORT_MAX}"
            yield f"{at} is {text!r}: allowed is host:port, as in 127.0.0.1:7077, {ports}, or '' for none"
            continue
        if address.port and address in taken:
            yield f"{at} is {text!r}: listen.{taken[address]} has that address already"
        taken[address] = listener
    for name, said in settled.neighbours.items():
        address_text = said if isinstance(said, str) else said.address
        if name == settled.broker.name:
            yield f"{where(('neighbours', name))}: {name} is this broker itself; allowed are the names of others"
        if not _is_broker_name(name):
            at = where(("neighbours", name))
            yield f"{at}: {name!r} is the name of no broker; allowed is what broker.name can be"
        try:
            if address_text and not address_of(address_text).port:
                raise BadValue(address_text)
        except BadValue:
            yield (
                f"{where(('neighbours', name))} is {address_text!r}: allowed is host:port, as in 10.0.0.2:7077, or '' "
                "for a neighbour that connects to this broker"
            )


def _origin_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    """Reject texts that browsers never send as Origin: they would match nothing, silently."""
    for place, origin in enumerate(settled.http.origins):
        if not ORIGIN.fullmatch(origin):
            yield (
                f"{where(('http', 'origins', place))} is {origin!r}: allowed is scheme://host or scheme://host:port, "
                "in small letters and without a path, as in https://app.example"
            )


def _file_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    for path in FILES:
        held: Any = settled
        for part in path:
            held = getattr(held, str(part))
        if held:
            try:
                with Path(held).open("rb"):
                    pass
            except OSError as error:
                yield f"{where(path)}: {held} cannot be read: {error.strerror}"


def _tls_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    tls, links = settled.tls, settled.links
    if tls.key and not tls.certificate:
        yield f"{where(('tls', 'key'))} needs tls.certificate, too"
    if tls.client_certificates != "none" and not (tls.certificate and tls.authorities):
        yield (
            f"{where(('tls', 'client_certificates'))} is {tls.client_certificates!r}: it needs tls.certificate "
            "and tls.authorities; allowed without them is 'none'"
        )
    if links.tls and not (tls.certificate and tls.authorities):
        yield (
            f"{where(('links', 'tls'))} is true: it needs tls.certificate, which shows neighbours who this broker is, "
            "and tls.authorities, whose certificates it trusts"
        )


def _place_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    for name, said in settled.places.items():
        try:
            _movement(_ground(said))
        except OSError as error:
            yield f"{where(('places', name))}: {said} cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            yield f"{where(('places', name))}: {said} is not UTF-8"
        except BadValue as error:
            yield f"{where(('places', name))} is {said!r}: {error}"


def _publisher_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    for origin, proxies in settled.publishers.proxies.items():
        at = where(("publishers", "proxies", origin))
        for name in (origin, *proxies):
            if not _is_broker_name(name):
                yield f"{at}: {name!r} is the name of no broker; allowed is what broker.name can be"
        if len(set(proxies)) < len(proxies) or len(proxies) > PROXIES_MAX:
            yield f"{at} is {list(proxies)!r}: allowed are up to {PROXIES_MAX} brokers, each once, the nearest first"
    for key, other in (("model", "client_proxies"), ("client_proxies", "model")):
        try:
            _moving(msgspec.structs.replace(settled.publishers, **{other: ""}), settled.broker.name)
        except OSError:  # `_file_faults` reports it
            continue
        except GodwitError as error:
            yield f"{where(('publishers', key))}: {error}"


def _bridge_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    return bridge_faults(settled.bridge, where)


def _telemetry_faults(settled: BrokerSettings, where: settings.Where) -> Iterator[str]:
    endpoint, at = settled.telemetry.endpoint, where(("telemetry", "endpoint"))
    if endpoint and not is_webhook(endpoint):
        yield f"{at} is {endpoint!r}: allowed is a URL, as in http://127.0.0.1:4318/v1/traces"
    elif endpoint and find_spec("opentelemetry") is None:
        yield f"{at}: it needs opentelemetry-sdk, which is not installed: pip install godwit[telemetry]"


CHECKS = (
    _broker_faults,
    _address_faults,
    _origin_faults,
    _file_faults,
    _tls_faults,
    _place_faults,
    _publisher_faults,
    dashboard_faults,
    _bridge_faults,
    _telemetry_faults,
)


# ---------------------------------------------------------------- writing


def _toml(data: dict[str, Any], path: settings.Path = ()) -> str:
    """Plain data as TOML, section by section."""
    plain = {key: value for key, value in data.items() if not isinstance(value, dict) or path in NAMED}
    shown = plain if path else {key: value for key, value in plain.items() if value}  # an array of tables may be empty
    lines = [f"{_key(key)} = {_text((*path, key), value)}" for key, value in shown.items()]
    heading = [f"[{'.'.join(_key(str(part)) for part in path)}]"] if path else []
    parts = ["\n".join([*heading, *lines])]
    parts += [_toml(value, (*path, key)).rstrip("\n") for key, value in data.items() if key not in plain]
    return "\n\n".join(part for part in parts if part) + "\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _text(path: settings.Path, value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_text((*path, key), each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text((*path, place), each) for place, each in enumerate(value))}]"
    return json.dumps(value, ensure_ascii=False)
