"""The sections of a broker's configuration: every key, its allowed values and its default.

*Rules.*
1. These structs are the only description of the configuration. `configuration.py` reads and checks by them, and a test
   fails when `docs/reference/configuration.md` does not explain a key or shows another default.
2. Keys carry their unit: `_s`, `_bytes`, `_per_s`. A key that names a file holds a path; "" is none.
3. For settings of a machine, the section has a field for each, with the machine's default.
"""

from typing import Annotated, Literal

import msgspec

from godwit.broker.limits import Limits
from godwit.broker.links import LinkConfig
from godwit.broker.spcf import CONTEXTS_MAX
from godwit.mobility.publisher_presence import PublisherSettings
from godwit.mqtt.mqtt_effects import MqttSettings
from godwit.runtime.bridges.bridge_sections import BridgeSection
from godwit.runtime.edge_tests import EdgeLimits
from godwit.runtime.journal import Durability
from godwit.runtime.rate_limits import TrafficLimits
from godwit.runtime.wire import FRAME_BYTES_MAX

__all__ = [
    "BrokerSection",
    "BrokerSettings",
    "DashboardSection",
    "HttpSection",
    "JournalSection",
    "LanguagesSection",
    "LimitsSection",
    "LinksSection",
    "ListenSection",
    "LogSection",
    "MqttSection",
    "Neighbour",
    "PublishersSection",
    "SecuritySection",
    "TelemetrySection",
    "TlsSection",
]

_LIMITS, _LINK, _MQTT, _TRAFFIC = Limits(), LinkConfig(), MqttSettings(), TrafficLimits()
_MOVING = PublisherSettings()
_EDGE = EdgeLimits()
YEAR_S = 31_536_000

Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
SomeSeconds = Annotated[float, msgspec.Meta(gt=0)]
Cost = Annotated[float, msgspec.Meta(gt=0)]
Listener = Literal["native", "mqtt", "http"]


class BrokerSection(msgspec.Struct, frozen=True, kw_only=True):
    """The name of the broker, and its routing. All brokers of a network route alike."""

    name: Text = "b1"
    family: Literal["tree", "graph"] = "tree"
    reduction: Text = "covering"  # one of `broker.reductions.reductions()`, which packages may add to
    excess_max: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    open_filters: Literal["each", "united"] = "united"
    advertisements: Literal["required", "optional", "off"] = "optional"
    strategy: Literal["gsf", "spcf", "advertised"] = "gsf"
    matching: Literal["source", "hops"] = "source"
    matcher: Literal["index", "bdd"] = "index"
    contexts_max: Count = CONTEXTS_MAX
    movement_rule: Literal["bound", "paper", "anything"] = "bound"
    components: tuple[Text, ...] = ()
    attach_policies: tuple[Text, ...] = ()
    position: str = ""  # point(lon, lat): the position of the broker
    area: str = ""  # circle(…), box(…) or polygon(…): the area that it serves


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """A broker with which this one has a link."""

    address: str = ""
    cost: Cost = 1.0


class ListenSection(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of listeners: host:port, or "" for none."""

    native: str = "127.0.0.1:7077"
    mqtt: str = "127.0.0.1:1883"
    http: str = "127.0.0.1:7080"


class JournalSection(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of the broker."""

    folder: str = ""  # "": godwit-data/NAME
    durability: Durability = "relaxed"


class TlsSection(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's certificate, and the authorities that it trusts."""

    certificate: str = ""
    key: str = ""
    authorities: str = ""
    client_certificates: Literal["none", "optional", "required"] = "none"
    listeners: tuple[Listener, ...] = ("native", "mqtt", "http")


class LinksSection(msgspec.Struct, frozen=True, kw_only=True):
    """Authentication of neighbours, and the times and bounds of links."""

    tls: bool = False
    secret: str = ""  # a file
    ack_s: Seconds = _LINK.ack_s
    resend_s: SomeSeconds = _LINK.resend_s
    resend_s_max: SomeSeconds = _LINK.resend_s_max
    window: Count = _LINK.window
    outbox_max: Count = _LINK.outbox_max
    outbox_bytes_max: Count = _LINK.outbox_bytes_max
    dead_after_s: SomeSeconds | Literal["never"] = "never"


class SecuritySection(msgspec.Struct, frozen=True, kw_only=True):
    """Authentication of clients, and the treatment of requests that are not granted."""

    anonymous: Literal["local", "never"] = "local"
    users: str = ""
    token_key: str = ""
    token_algorithms: tuple[Text, ...] = ()
    token_issuer: str = ""
    token_audience: str = ""
    beyond_grants: Literal["refuse", "narrow"] = "refuse"
    asserted: tuple[Text, ...] = ()


class LimitsSection(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what clients and peers can make the broker store."""

    sessions_max: Count = _LIMITS.sessions_max
    subscriptions_max: Count = _LIMITS.subscriptions_max
    advertisements_max: Count = _LIMITS.advertisements_max
    filter_literals_max: Count = _LIMITS.filter_literals_max
    window: Count = _LIMITS.window
    queue_events_max: Count = _LIMITS.queue_events_max
    queue_bytes_max: Count = _LIMITS.queue_bytes_max
    session_expiry_s: SomeSeconds | Literal["never"] = _LIMITS.session_expiry_s or "never"
    notes_max: Count = _LIMITS.notes_max
    note_bytes_max: Count = _LIMITS.note_bytes_max
    seen_window: Count = _LIMITS.seen_window
    seen_publishers_max: Count = _LIMITS.seen_publishers_max
    retained_max: Count = _LIMITS.retained_max
    retained_bytes_max: Count = _LIMITS.retained_bytes_max
    notes_bytes_max: Count = _LIMITS.notes_bytes_max
    user_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    user_bytes_max: Count | Literal["never"] = 256 * 2**20
    user_filter_bytes_max: Count | Literal["never"] = 24 * 2**20
    frame_bytes_max: Annotated[int, msgspec.Meta(ge=1_024)] = FRAME_BYTES_MAX
    connections_max: Count = _TRAFFIC.connections_max
    connections_per_host_max: Count = _TRAFFIC.connections_per_host_max
    connections_per_user_max: Count = _TRAFFIC.connections_per_user_max
    intro_bytes_max: Annotated[int, msgspec.Meta(ge=1_024)] = _TRAFFIC.intro_bytes_max
    messages_per_s: Annotated[float, msgspec.Meta(ge=0)] = _TRAFFIC.messages_per_s
    messages_burst: Count = _TRAFFIC.messages_burst
    work_per_s: Annotated[float, msgspec.Meta(ge=0)] = _TRAFFIC.work_per_s
    work_burst: Count = _TRAFFIC.work_burst
    bytes_per_s: Annotated[float, msgspec.Meta(ge=0)] = _TRAFFIC.bytes_per_s
    bytes_burst: Count = _TRAFFIC.bytes_burst
    partial_bytes_max: Annotated[int, msgspec.Meta(ge=65_536)] = _TRAFFIC.partial_bytes_max
    memory_bytes_max: Annotated[int, msgspec.Meta(ge=2**20)] = _TRAFFIC.memory_bytes_max
    frame_s: SomeSeconds = _TRAFFIC.frame_s
    test_steps_max: Count = _EDGE.test_steps_max
    test_ms_per_s: Annotated[float, msgspec.Meta(gt=0, le=1_000)] = _EDGE.test_ms_per_s
    test_document_bytes_max: Annotated[int, msgspec.Meta(ge=1_024, le=2**20)] = _EDGE.test_document_bytes_max


class MqttSection(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for MQTT clients."""

    receive_maximum: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = _MQTT.receive_maximum
    received_max: Annotated[int, msgspec.Meta(ge=1, le=3_000)] = _MQTT.received_max
    topic_alias_maximum: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = _MQTT.topic_alias_maximum
    maximum_packet_size: Annotated[int, msgspec.Meta(ge=1_024, le=268_435_460)] = _MQTT.maximum_packet_size
    in_flight_max: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = _MQTT.in_flight_max
    topic_aliases_out_max: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = _MQTT.topic_aliases_out_max
    unread_bytes_max: Annotated[int, msgspec.Meta(ge=1_024)] = _MQTT.unread_bytes_max
    queue_max: Count = _MQTT.queue_max
    packets_before_connack_max: Count = _MQTT.packets_before_connack_max
    subscriptions_max: Count = _MQTT.subscriptions_max
    keep_alive_max_s: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = _MQTT.keep_alive_max_s
    session_expiry_max_s: Annotated[int, msgspec.Meta(ge=0, le=4_294_967_295)] = _MQTT.session_expiry_max_s
    sys_interval_s: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = _MQTT.sys_interval_s
    reason_strings: bool = _MQTT.reason_strings


class HttpSection(msgspec.Struct, frozen=True, kw_only=True):
    """HTTP and WebSocket."""

    origins: tuple[Text, ...] = ()
    connections_max: Count = 1_000
    body_bytes_max: Annotated[int, msgspec.Meta(ge=1_024)] = 16 * 2**20


class DashboardSection(msgspec.Struct, frozen=True, kw_only=True):
    """The background of the map."""

    tiles_url: str = ""
    tiles_file: str = ""
    tiles_attribution: str = ""


class LanguagesSection(msgspec.Struct, frozen=True, kw_only=True):
    """Operators that queries of thin clients may use: the modules that define them, and their names."""

    modules: tuple[Text, ...] = ()
    operators: tuple[Text, ...] = ()


class LogSection(msgspec.Struct, frozen=True, kw_only=True):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"


class TelemetrySection(msgspec.Struct, frozen=True, kw_only=True):
    """Traces of events and relocations, for OpenTelemetry."""

    endpoint: str = ""  # "": none
    sample_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    service_name: Text = "godwit"


class PublishersSection(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for mobile publishers. They should be the same for all brokers of a network."""

    delay_s: Annotated[float, msgspec.Meta(ge=0, le=YEAR_S)] = _MOVING.delay_s
    prefetch_s: Annotated[float, msgspec.Meta(ge=0, le=YEAR_S)] = _MOVING.prefetch_s
    lease_s: Annotated[float, msgspec.Meta(ge=1, le=YEAR_S)] = _MOVING.lease_s
    proxies: dict[str, tuple[Text, ...]] = {}
    model: str = ""  # a file
    client_proxies: str = ""  # a file with the proxies of each client, as the pipeline mines them


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration of a broker."""

    broker: BrokerSection = BrokerSection()
    neighbours: dict[str, str | Neighbour] = {}
    listen: ListenSection = ListenSection()
    journal: JournalSection = JournalSection()
    tls: TlsSection = TlsSection()
    links: LinksSection = LinksSection()
    security: SecuritySection = SecuritySection()
    limits: LimitsSection = LimitsSection()
    mqtt: MqttSection = MqttSection()
    http: HttpSection = HttpSection()
    dashboard: DashboardSection = DashboardSection()
    languages: LanguagesSection = LanguagesSection()
    log: LogSection = LogSection()
    telemetry: TelemetrySection = TelemetrySection()
    places: dict[str, str | Annotated[float, msgspec.Meta(ge=0)]] = {}
    publishers: PublishersSection = PublishersSection()
    bridge: tuple[BridgeSection, ...] = ()
