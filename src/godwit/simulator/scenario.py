"""Scenarios: all that a simulated run depends on besides its seed, read from TOML and checked before anything runs.

*Theory.* A scenario is a frozen struct of structs; `docs/guides/simulate.md` explains each key. A run has three parts:

    0 ........ warmup_s ................ warmup_s + duration_s ................ + settle_s
    clients come, advertise,     publishers publish; churn and faults        nobody publishes, no fault is
    subscribe; all settles       (faults only until `until_s`)               injected; then everyone leaves

*Rules.*
1. `load`, `named` and `with_changes` give only scenarios that `check` lets through; `draw` draws no others.
2. A fault of a scenario is a `ScenarioError` that names file, line where it is known, key and what is allowed.
3. Keys carry their unit: `_s`, `_ms`, `_kbps`, `_per_s`.
"""

import tomllib
from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import msgspec

from godwit import settings
from godwit.broker.messages import QueueRules
from godwit.errors import ScenarioError
from godwit.simulator import topologies
from godwit.simulator.context_settings import Contexts, check_contexts, check_routing
from godwit.simulator.fire_settings import Fire, check_fire
from godwit.simulator.idle_settings import check_idle, let_go
from godwit.simulator.radio_settings import Radio
from godwit.simulator.roaming_checks import check_movement, check_positions
from godwit.simulator.roaming_settings import Probes, Roaming, check_mode, check_roaming
from godwit.simulator.topologies import Overlay
from godwit.simulator.walking_settings import FILE_SUFFIXES, Walking, ground_of
from godwit.simulator.workloads import WorkloadSpec

__all__ = [
    "Churn",
    "Clients",
    "Contexts",
    "Disconnections",
    "Expectations",
    "Faults",
    "Fire",
    "OverlaySpec",
    "Planned",
    "Probes",
    "Radio",
    "Rate",
    "Roaming",
    "Routing",
    "Run",
    "Scenario",
    "Sessions",
    "Walking",
    "check",
    "load",
    "named",
    "names",
    "overlay_of",
    "places_of",
    "with_changes",
]

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Least = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Brokers = Annotated[int, msgspec.Meta(ge=1, le=topologies.BROKERS_MAX)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
SomeSeconds = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=60_000)]
Kilobits = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
PerSecond = Annotated[float, msgspec.Meta(ge=0, le=10_000)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
NO_ASF = msgspec.Meta(description="ASF is the family 'tree' with routing.advertisements 'off'")

FILES = (
    ("overlay", "file"),
    ("overlay", "positions"),
    ("clients", "roaming", "file"),
    ("clients", "roaming", "publishers", "model_file"),
    ("workload", "subscriptions_file"),
    ("workload", "events_file"),
)
"""Keys that name files beside the scenario."""

SUFFIX = ".toml"
NOTHING = "none"  # as a value of --set: take the key away


class OverlaySpec(msgspec.Struct, frozen=True, kw_only=True):
    """The network of brokers, and how clients reach it. Without a bandwidth, size does not matter."""

    kind: Literal["single", "line", "star", "balanced_tree", "random_tree", "random_graph", "file", "radio"]
    brokers: Brokers | None = None
    height: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    degree: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    file: Text | None = None
    positions: Text | None = None  # a file that says where brokers stand, for clients that move in the plane
    latency_ms: Milliseconds = 10.0
    bandwidth_kbps: Kilobits | None = None
    client_latency_ms: Milliseconds = 10.0
    client_bandwidth_kbps: Kilobits | None = None
    control_bytes: Least | None = None  # of every message of control; without it, what it would take on a wire
    event_bytes: Least | None = None  # likewise of every message that bears an event
    disk_sync_ms: Milliseconds = 0.0  # from an input to its effects, while the journal is written


PARAMETERS = {
    "single": (),
    "line": ("brokers",),
    "star": ("brokers",),
    "balanced_tree": ("height", "degree"),
    "random_tree": ("brokers",),
    "random_graph": ("brokers", "degree"),
    "file": ("file",),
    "radio": (),
}
"""By kind of overlay, the keys it needs; the other kinds' keys are not allowed."""


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """How brokers route. A centralized architecture is an overlay of one broker. [mobile §3]"""

    family: Literal["tree", "graph"] = "tree"
    reduction: Literal["flooding", "simple", "identity", "covering", "merging"] = "covering"  # tree family
    excess_max: Probability = 0.0  # merging: which share of a merged filter nobody may want; 0 is perfect merging
    advertisements: Literal["required", "optional", "off"] = "optional"  # tree family
    strategy: Annotated[Literal["gsf", "spcf"], NO_ASF] = (
        "gsf"  # graph family: who hears of a subscription [spcf §3.1, §4]
    )
    matching: Literal["source", "hops"] = "source"  # graph family: where events are matched; hops: [spcf] by the letter
    contexts_max: Least = 64  # spcf: contexts of its clients that a broker tells of before it sums them up
    quenching: bool = False  # sources hold the merged OR of all subscriptions [mobile §3.2]


class Disconnections(msgspec.Struct, frozen=True, kw_only=True):
    """Clients that go away without a word, and come back to the same broker."""

    who: Literal["subscribers", "publishers", "all"] = "all"
    per_s: PerSecond = 0.0  # over all of them together
    lasts_s: SomeSeconds = 3.0  # on average


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """Who is there, where, and how much they say."""

    publishers: Count = 1
    subscribers: Count = 1
    subscriptions: Count = 1  # of each subscriber
    placement: Literal["leaves", "anywhere"] = "anywhere"
    publish_per_s: PerSecond = 1.0  # of each publisher
    events: Count | None = None  # of each publisher; without it, it publishes for the whole duration
    payload_bytes: Count = 0
    buffer_events_max: Least = 1_000  # that a publisher keeps while it is away
    disconnections: Disconnections = Disconnections()
    roaming: Roaming = Roaming()
    walking: Walking = Walking()
    probes: Probes = Probes()


class Churn(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of subscriptions and advertisements, over all clients together: in bursts, with quiet times between."""

    subscribe_per_s: PerSecond = 0.0  # while a burst lasts
    unsubscribe_per_s: PerSecond = 0.0
    replace_per_s: PerSecond = 0.0
    advertise_per_s: PerSecond = 0.0  # an advertisement is withdrawn, made or replaced by a wider one
    burst_s: SomeSeconds = 1.0
    pause_s: SomeSeconds = 3.0


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that comes at random: how often over the whole network, and for how long on average."""

    per_s: PerSecond
    lasts_s: SomeSeconds = 1.0


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A fault at a given time and place: a broker, or both ends of a link (one way: from the first to the second)."""

    at_s: Seconds
    where: tuple[Text, ...]
    lasts_s: SomeSeconds = 1.0


Plan = Rate | tuple[Planned, ...] | None


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong. The first three befall single frames between brokers, the others links and nodes for a time."""

    link_loss: Probability = 0.0  # a frame is lost
    duplicate: Probability = 0.0  # a frame comes twice
    delay: Probability = 0.0  # a frame comes late, perhaps after younger ones
    delay_ms_max: Milliseconds = 200.0
    link_break: Plan = None  # a connection breaks, with what is under way, and returns
    partition_one_way: Plan = None  # frames in one direction are lost, and nobody is told
    crash: Plan = None  # a broker stops, and comes back with what its disk holds
    crash_diskless: Plan = None  # a broker stops, and comes back with nothing
    slow_node: Plan = None
    slow_ms: Milliseconds = 50.0  # what a slow node takes longer for each message
    clock_skew_s: Seconds = 0.0  # each node's clock is wrong by up to this, fast or slow
    until_s: Seconds | None = None  # the last moment of a fault; without it, the end of publishing


BROKER_FAULTS = ("crash", "crash_diskless", "slow_node")
LINK_FAULTS = ("link_break", "partition_one_way")
PLANNED_FAULTS = (*LINK_FAULTS, *BROKER_FAULTS)


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """What subscriptions ask of their session: queue rules [mobile §4.3] and times of expiry."""

    age_s_max: SomeSeconds | None = None
    newest_per: Text | None = None
    high_water: Text | None = None
    count_max: Least | None = None
    bytes_max: Least | None = None
    importance: Text | None = None
    subscription_expires_s: SomeSeconds | None = None  # after it was made
    event_expires_s: SomeSeconds | None = None  # after it was published

    def rules(self) -> QueueRules | None:
        """The queue rules as a subscription carries them; None when there is none."""
        rules = QueueRules(
            self.age_s_max, self.newest_per, self.high_water, self.count_max, self.bytes_max, self.importance
        )
        return None if rules == QueueRules() else rules


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """What else must hold at the end, besides the laws, which always must."""

    delivered_min: Count = 0
    messages_max: Least | None = None
    table_entries_max: Least | None = None
    latency_p99_ms_max: SomeSeconds | None = None
    purged_max: Count | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How long its parts last, and what is expected of it."""

    warmup_s: Seconds = 5.0
    duration_s: SomeSeconds = 10.0
    settle_s: Seconds = 30.0
    judge: bool = True  # hold everything against the laws; without it a run is faster, and its summary knows less
    leave: bool = True  # at the end everyone leaves, and the tables must be empty
    expectations: Expectations = Expectations()


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run depends on besides its seed."""

    name: Text
    description: str = ""
    overlay: OverlaySpec
    radio: Radio = Radio()
    routing: Routing = Routing()
    clients: Clients = Clients()
    workload: WorkloadSpec = WorkloadSpec()
    contexts: Contexts = Contexts()
    fire: Fire = Fire()
    churn: Churn = Churn()
    faults: Faults = Faults()
    sessions: Sessions = Sessions()
    run: Run = Run()

    @property
    def publishing_ends_s(self) -> float:
        """The end of publishing."""
        return self.run.warmup_s + self.run.duration_s

    @property
    def faults_end_s(self) -> float:
        """The last moment of a fault."""
        return self.publishing_ends_s if self.faults.until_s is None else self.faults.until_s

    @property
    def ends_s(self) -> float:
        """The end of the settling, when everyone leaves."""
        return self.publishing_ends_s + self.run.settle_s


def overlay_of(scenario: Scenario, rng: Random) -> Overlay:
    """The network of a scenario; `rng` is used by random kinds only."""
    spec = scenario.overlay
    latency_s = spec.latency_ms / 1_000
    bandwidth_bps = None if spec.bandwidth_kbps is None else spec.bandwidth_kbps * 1_000
    brokers, height, degree = spec.brokers or 1, spec.height or 1, spec.degree or 1
    match spec.kind:
        case "star":
            return topologies.star(brokers, latency_s=latency_s, bandwidth_bps=bandwidth_bps)
        case "balanced_tree":
            return topologies.balanced_tree(height, degree, latency_s=latency_s, bandwidth_bps=bandwidth_bps)
        case "random_tree":
            return topologies.random_tree(brokers, rng, latency_s=latency_s, bandwidth_bps=bandwidth_bps)
        case "random_graph":
            return topologies.random_graph(brokers, degree, rng, latency_s=latency_s, bandwidth_bps=bandwidth_bps)
        case "file":
            return topologies.from_file(Path(spec.file or ""), latency_s=latency_s, bandwidth_bps=bandwidth_bps)
    return topologies.line(brokers, latency_s=latency_s, bandwidth_bps=bandwidth_bps)  # a single one is a line of one


def places_of(scenario: Scenario, overlay: Overlay) -> tuple[str, ...]:
    """The brokers that clients are placed at, in the order of the overlay."""
    return topologies.leaves(overlay) if scenario.clients.placement == "leaves" else overlay.brokers


# ---------------------------------------------------------------- reading


def load(path: str | Path, changes: Iterable[str] = ()) -> Scenario:
    """The scenario of a TOML file, with changes as in `with_changes`. Files that it names are looked for beside it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
    changes = list(changes)
    scenario = _read(text, str(path), path.stem, path.parent, is_final=not changes)
    return with_changes(scenario, changes) if changes else scenario


def names() -> dict[str, str]:
    """The scenarios that come with Godwit, by name, and what each is about."""
    return {name: named(name).description for name in sorted(_shipped())}


def named(name: str) -> Scenario:
    """A scenario that comes with Godwit."""
    shipped = _shipped()
    if name not in shipped:
        raise ScenarioError(
            f"there is no scenario {name!r}{settings.nearest(name, shipped)}; "
            f"allowed are {', '.join(sorted(shipped))}, or a file that ends in {SUFFIX}"
        )
    return _read(shipped[name], f"{name}{SUFFIX}", name, Path(str(_folder())))


def with_changes(scenario: Scenario, changes: Iterable[str]) -> Scenario:
    """The scenario with some keys set, each as `key.path=value`; the value is TOML, and a bare word is a text.

    The value `none` takes a key away. A change of `overlay.kind` takes away the keys of the old kind, and a change that
    leaves other keys of its table without effect takes these away.
    """
    data = _plain(scenario)
    set_by: dict[settings.Path, str] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        path = tuple(part.strip() for part in key.split("."))
        if not equals or not all(path):
            raise ScenarioError(f"--set {change}: allowed is key.path=value, such as clients.publishers=20")
        _set(data, path, _value(text.strip()), change)
        set_by[path] = change
        if path == ("overlay", "kind"):
            for name in _parameters_of_others(data["overlay"].get("kind")):
                if ("overlay", name) not in set_by:
                    data["overlay"].pop(name, None)

    def where(path: settings.Path) -> str:
        change = next((set_by[path[:n]] for n in range(len(path), 0, -1) if path[:n] in set_by), None)
        return f"{scenario.name if change is None else f'--set {change}'}: {settings.key_text(path)}"

    changed = settings.checked(Scenario, data, where)
    if let_go(changed, data, set_by):
        changed = settings.checked(Scenario, data, where)
    _check(changed, where)
    return changed


def check(scenario: Scenario) -> None:
    """Raise `ScenarioError` unless the scenario can be run."""
    _check(scenario, lambda path: f"{scenario.name}: {settings.key_text(path)}")


def _parameters_of_others(kind: Any) -> list[str]:
    """The parameters of other kinds of overlays that this kind does not have."""
    own = PARAMETERS.get(kind, ()) if isinstance(kind, str) else ()
    return [name for name in ("brokers", "height", "degree", "file") if name not in own]


def _folder() -> Traversable:
    return resources.files("godwit.simulator") / "scenarios"


def _shipped() -> dict[str, str]:
    return {
        each.name.removesuffix(SUFFIX): each.read_text(encoding="utf-8")
        for each in _folder().iterdir()
        if each.name.endswith(SUFFIX)
    }


def _read(text: str, file: str, name: str, folder: Path, *, is_final: bool = True) -> Scenario:
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for an int of 5,000 digits, and for 5,000 brackets
        raise ScenarioError(f"{file}: {error}") from None

    def where(path: settings.Path) -> str:
        line = settings.line_of(text, path)
        return f"{file}{f':{line}' if line else ''}: {settings.key_text(path)}"

    data = {"name": name, **data}
    for *tables, key in FILES:
        held: Any = data
        for table in tables:
            held = held.get(table) if isinstance(held, dict) else None
        if isinstance(held, dict) and isinstance(held.get(key), str) and held[key]:
            held[key] = str(folder / held[key])
    clients = data.get("clients")
    walking = clients.get("walking") if isinstance(clients, dict) else None
    if isinstance(walking, dict) and str(walking.get("graph", "")).endswith(FILE_SUFFIXES):
        walking["graph"] = str(folder / walking["graph"])
    scenario = settings.checked(Scenario, data, where)
    if is_final:
        _check(scenario, where)
    return scenario


def _plain(scenario: Scenario) -> dict[str, Any]:
    """The scenario as it would stand in a file: without keys that have no value."""

    def without_none(held: Any) -> Any:
        if isinstance(held, dict):
            return {key: without_none(value) for key, value in held.items() if value is not None}
        return [without_none(value) for value in held] if isinstance(held, list | tuple) else held

    found: dict[str, Any] = without_none(msgspec.to_builtins(scenario))
    return found


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _set(data: dict[str, Any], path: tuple[str, ...], value: Any, change: str) -> None:
    table: Any = data
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ScenarioError(f"--set {change}: {part} holds no keys")
    if value == NOTHING:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = value


# ---------------------------------------------------------------- what no single key can tell


def _check(scenario: Scenario, where: settings.Where) -> None:
    _check_overlay(scenario, where)
    _check_radio(scenario, where)
    check_contexts(scenario.contexts, where)
    check_fire(scenario.fire, scenario.run.duration_s, where)
    routing, faults, workload = scenario.routing, scenario.faults, scenario.workload
    check_routing(
        routing.family,
        routing.strategy,
        routing.matching,
        lose_disks=faults.crash_diskless is not None,
        roams=scenario.clients.roaming.is_on,
        where=where,
    )
    check_idle(scenario, where)
    if routing.excess_max > 0 and routing.reduction != "merging":
        raise ScenarioError(
            f"{where(('routing', 'excess_max'))} is {routing.excess_max}: only merging lets in an excess"
        )
    if faults.until_s is not None and faults.until_s > scenario.publishing_ends_s:
        raise ScenarioError(
            f"{where(('faults', 'until_s'))} is {faults.until_s}: faults end with publishing at the latest, "
            f"at {scenario.publishing_ends_s:g} s (run.warmup_s + run.duration_s)"
        )
    if workload.predicates > workload.attributes:
        raise ScenarioError(
            f"{where(('workload', 'predicates'))} is {workload.predicates}: "
            f"allowed is a whole number from 1 to {workload.attributes}, which is workload.attributes"
        )
    if (workload.kind == "places") != bool(scenario.clients.walking.graph):
        raise ScenarioError(
            f"{where(('workload', 'kind'))} is {workload.kind!r}: 'places' and clients.walking.graph need each other"
        )
    try:
        ground_of(scenario.clients.walking)
    except ScenarioError as error:
        raise ScenarioError(f"{where(('clients', 'walking', 'graph'))}: {error}") from None
    for key in ("subscriptions_file", "events_file"):
        file = getattr(workload, key)
        if workload.kind == "files" and not Path(file).is_file():
            raise ScenarioError(f"{where(('workload', key))} is {file!r}: it must be a file, for a workload of files")


def _check_radio(scenario: Scenario, where: settings.Where) -> None:
    """Devices have one event broker an island, and what befalls them is that they move."""
    if scenario.overlay.kind != "radio":
        if scenario.radio != Radio():
            raise ScenarioError(f"{where(('radio',))} is set: only an overlay of kind 'radio' has devices")
        return
    for key, value, default in (
        ("routing", scenario.routing, Routing()),
        ("contexts", scenario.contexts, Contexts()),
        ("fire", scenario.fire, Fire()),
        ("churn", scenario.churn, Churn()),
        ("faults", scenario.faults, Faults()),
        ("sessions", scenario.sessions, Sessions()),
    ):
        if value != default:
            raise ScenarioError(f"{where((key,))} is set: an overlay of kind 'radio' has none of it")
    for key in ("publishers", "subscribers"):
        count = getattr(scenario.clients, key)
        if count > scenario.radio.devices:
            raise ScenarioError(f"{where(('clients', key))} is {count}: allowed is radio.devices at most")
    for key in ("disconnections", "roaming"):
        if getattr(scenario.clients, key).per_s:
            raise ScenarioError(f"{where(('clients', key))} is set: devices move by the keys of radio")
    if scenario.clients.publishers and not scenario.clients.publish_per_s:
        raise ScenarioError(
            f"{where(('clients', 'publish_per_s'))} is 0: it must be above 0 where there are publishers"
        )


def _check_overlay(scenario: Scenario, where: settings.Where) -> None:
    spec = scenario.overlay
    needed = PARAMETERS[spec.kind]
    for key in ("brokers", "height", "degree", "file"):
        is_set = getattr(spec, key) is not None
        if key in needed and not is_set:
            raise ScenarioError(
                f"{where(('overlay', key))} is missing: a {spec.kind} overlay needs {' and '.join(needed)}"
            )
        if is_set and key not in needed:
            allowed = f"only {' and '.join(needed)}" if needed else "none of brokers, height, degree and file"
            raise ScenarioError(f"{where(('overlay', key))} is set: a {spec.kind} overlay has {allowed}")
    try:
        overlay = overlay_of(scenario, Random(0))
    except ScenarioError as error:
        raise ScenarioError(f"{where(('overlay',))}: {error}") from None
    parts = topologies.components(overlay)
    if len(parts) > 1:
        raise ScenarioError(
            f"{where(('overlay',))} falls into {len(parts)} parts: no way leads from {parts[0][0]} to {parts[1][0]}"
        )
    if scenario.routing.family == "tree" and not topologies.is_tree(overlay):
        raise ScenarioError(
            f"{where(('routing', 'family'))} is 'tree', but the overlay has a cycle: "
            "allowed are an overlay without cycles, or the family 'graph'"
        )
    _check_plans(scenario, overlay, where)
    clients = scenario.clients
    movers = clients.publishers * (clients.roaming.who != "subscribers")
    movers += clients.subscribers * (clients.roaming.who != "publishers")
    lose_disks = scenario.faults.crash_diskless is not None
    family, settle_s = scenario.routing.family, scenario.run.settle_s
    check_mode(clients.roaming, family, lose_disks=lose_disks, settle_s=settle_s, where=where)
    check_roaming(clients.roaming, places_of(scenario, overlay), movers, scenario.run.duration_s, where)
    check_movement(clients.roaming, overlay, places_of(scenario, overlay), movers, scenario.run.duration_s, where)
    if scenario.overlay.positions is not None:
        check_positions(scenario.overlay.positions, overlay, where)


def _check_plans(scenario: Scenario, overlay: Overlay, where: settings.Where) -> None:
    """Planned faults name brokers and links that there are."""
    ends = {frozenset((link.a, link.b)) for link in overlay.links}
    for kind in PLANNED_FAULTS:
        plan = getattr(scenario.faults, kind)
        for place, planned in enumerate(plan if isinstance(plan, tuple) else ()):
            at = where(("faults", kind, place, "where"))
            for broker in planned.where:
                if broker not in overlay.brokers:
                    near = settings.nearest(broker, overlay.brokers)
                    raise ScenarioError(f"{at} is {list(planned.where)}: there is no broker {broker!r}{near}")
            if kind in LINK_FAULTS and scenario.overlay.kind.startswith("random"):
                raise ScenarioError(f"{at} is set: the links of a random overlay differ from seed to seed, give a rate")
            if kind in LINK_FAULTS and frozenset(planned.where) not in ends:
                raise ScenarioError(f"{at} is {list(planned.where)}: allowed are the two ends of a link")
            if kind in BROKER_FAULTS and len(planned.where) != 1:
                raise ScenarioError(f"{at} is {list(planned.where)}: allowed is one broker")
            if planned.at_s > scenario.faults_end_s:
                raise ScenarioError(
                    f"{where(('faults', kind, place, 'at_s'))} is {planned.at_s}: "
                    f"faults end at {scenario.faults_end_s:g} s"
                )
