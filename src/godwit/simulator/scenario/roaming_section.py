"""The roaming section of a scenario: clients that move from broker to broker, and in which mode.

*Rules.*
1. A mode is allowed only where its promises (`mobility/modes.py`) hold under the faults of the scenario.
2. Modes are those of every broker and the attach policies that are registered or installed (`mobility/extensions.py`).
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from godwit.errors import ScenarioError
from godwit.mobility.extensions import mode_names, mode_of
from godwit.mobility.modes import NOTHING
from godwit.mobility.predictors import PREDICTORS
from godwit.settings import Where
from godwit.simulator.movement_registry import MOVEMENT_MODELS
from godwit.simulator.scenario.extension_names import check_name
from godwit.simulator.topologies import BROKERS_MAX

__all__ = ["MOVES_MAX", "Probes", "PublisherMoves", "Roaming", "check_mode", "check_roaming"]

PerSecond = Annotated[float, msgspec.Meta(ge=0, le=10_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Kilometres = Annotated[float, msgspec.Meta(ge=0.001, le=500)]
Metres = Annotated[float, msgspec.Meta(ge=0, le=100_000)]
SomeMetres = Annotated[float, msgspec.Meta(ge=1, le=100_000)]
SomeSeconds = Annotated[float, msgspec.Meta(ge=0.001, le=1_000_000)]
Factor = Annotated[float, msgspec.Meta(ge=0.001, le=100_000)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Speed = Annotated[float, msgspec.Meta(gt=0, le=10_000)]
Cells = Annotated[int, msgspec.Meta(ge=1, le=BROKERS_MAX)]
MoreCells = Annotated[int, msgspec.Meta(ge=0, le=BROKERS_MAX)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Who = Literal["subscribers", "publishers"]

MOVES_MAX = 1_000_000  # of all clients in a run; they are computed before it begins


class PublisherMoves(msgspec.Struct, frozen=True, kw_only=True):
    """What the modes for publishers need [pubmob §4.1]; `mobility/publisher_presence.py` says what they do with it."""

    delay_s: Seconds = 10.0  # delayed: how long the last broker goes on
    proxies: Annotated[int, msgspec.Meta(ge=1, le=BROKERS_MAX)] = 5  # proxy: so many along the street
    prefetch_s: Seconds = 30.0  # prefetching: how long a broker waits for who does not come
    predictor: Text = "perfect"  # prefetching: perfect, model, or one of `mobility.predictors.PREDICTORS`
    model_file: str = ""  # a movement model (mobility/predictors.py)
    wrong_rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0  # how often the predictor is made to be wrong


class Probes(msgspec.Struct, frozen=True, kw_only=True):
    """Events that a publisher publishes each time it has connected, to see when its tree stands [pubmob §4.1]."""

    count: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0  # 0: none
    first_ms: Annotated[float, msgspec.Meta(ge=0, le=600_000)] = 200.0  # after it has connected
    every_ms: Annotated[float, msgspec.Meta(gt=0, le=600_000)] = 200.0
    from_s: Seconds = 0.0  # of the run: who connects before that publishes none


class Roaming(msgspec.Struct, frozen=True, kw_only=True):
    """Clients that attach to another broker without notice to the one before."""

    model: Text = "random"  # how they move: one of `movement_registry.MOVEMENT_MODELS`
    who: Literal["subscribers", "publishers", "all"] = "all"
    per_s: PerSecond = 0.0  # random: moves, over all of them together
    away_s: Seconds = 1.0  # out of reach between two brokers; random: on average, and 0 is at once
    subscriber_mode: Text = "relocate"  # (mobility/modes.py, or an attach policy from outside)
    announced: Probability = 1.0  # share of moves of explicit and naive subscribers that they announce
    session_s: SomeSeconds | None = (
        None  # naive, explicit: how long a broker keeps the session of who is away; or a day
    )
    publisher_mode: Text = "relocate"
    publishers: PublisherMoves = PublisherMoves()
    cell_km: Kilometres = 0.5  # line: the part of the street that each broker serves [pubmob §4.1]
    speeds_kmh: tuple[Speed, ...] = (5.0, 50.0, 100.0)  # line: each client has one of them; waypoint: a range
    phase_s: Seconds | None = None  # line: all cross their first border within this time; without it, as they come
    confined_to: Cells | None = None  # line: cells around the first one that a client keeps to [pubmob §4.3]
    overshoot: MoreCells = 0  # line: δ, how many cells it goes past these on either side [pubmob §4.3]
    turns: Probability = 0.0  # line: how likely a client turns round after a move; 0.5 makes it a random walk
    graph: Literal["line", "grid", "overlay", "file"] = "line"  # walk: which brokers one step leads to
    dwell_s: SomeSeconds = 10.0  # walk: at each broker, on average
    dwell: Literal["exponential", "uniform", "fixed"] = "exponential"  # walk: how that is spread
    file: Text | None = None  # walk: of the movement graph; trace: of positions
    stations: Literal["grid", "drawn"] = "grid"  # waypoint, trace: where brokers stand, unless overlay.positions says
    range_m: SomeMetres = 300.0  # waypoint, trace: how far brokers reach
    margin_m: Metres = 30.0  # waypoint, trace: by how much another broker must be nearer
    area_km: Kilometres = 2.0  # waypoint: the side of the square, unless overlay.positions says where brokers stand
    pause_s: Seconds = 0.0  # waypoint: at each waypoint up to this
    speedup: Factor = 1.0  # trace: seconds of the file in a second of the run
    gap_s: Seconds = 300.0  # trace: seconds of the file between two positions; if more, out of reach meanwhile
    speed_max_kmh: Speed = 200.0  # trace: a position that nobody could get to or away from so fast is left out

    @property
    def is_on(self) -> bool:
        """Whether anyone moves."""
        return self.model != "random" or self.per_s > 0


def check_mode(roaming: Roaming, family: str, *, lose_disks: bool, settle_s: float, where: Where) -> None:
    """Raise `ScenarioError` unless the modes are known, and that of subscribers is promised to keep the laws there."""
    mode, session_s = roaming.subscriber_mode, roaming.session_s
    key, time = (where(("clients", "roaming", each)) for each in ("subscriber_mode", "session_s"))
    _check_mode_of("subscribers", mode, key)
    _check_mode_of("publishers", roaming.publisher_mode, where(("clients", "roaming", "publisher_mode")))
    promised = mode_of(mode)
    if session_s is not None and promised.complete:
        weaker = ", ".join(repr(name) for name in _modes_for("subscribers") if not mode_of(name).complete)
        raise ScenarioError(
            f"{time} is {session_s:g}: who stays away for longer loses what waited, and the subscriber_mode {mode!r} "
            f"promises that nothing is lost; allowed are {weaker}, or no session_s"
        )
    if not roaming.is_on or roaming.who == "publishers":
        return
    if promised.leaves != NOTHING and (session_s is None or session_s >= settle_s):
        said = "is missing" if session_s is None else f"is {session_s:g}"
        raise ScenarioError(
            f"{time} {said}: the subscriber_mode {mode!r} leaves sessions behind that only time ends; "
            f"allowed is less than run.settle_s, {settle_s:g}"
        )
    if mode in ("carry", "junction") and family != "tree":
        raise ScenarioError(f"{key} is {mode!r}: it is for the tree family only, so far")
    if mode != "relocate" and lose_disks:
        raise ScenarioError(f"{key} is {mode!r}: only 'relocate' keeps the laws while brokers lose their disks")


def _check_mode_of(who: Who, mode: str, where: str) -> None:
    if mode not in mode_names() or not mode_of(mode).suits(who):  # what is installed is loaded only if it is named
        check_name(mode, _modes_for(who), where)


def _modes_for(who: Who) -> list[str]:
    return [name for name in mode_names() if mode_of(name).suits(who)]


def check_roaming(roaming: Roaming, places: tuple[str, ...], movers: int, lasts_s: float, where: Where) -> None:
    """Raise `ScenarioError` unless that many clients can move like this between these brokers for so long."""

    def fault(key: str, text: str) -> ScenarioError:
        return ScenarioError(f"{where(('clients', 'roaming', *key.split('.')))} {text}")

    publishers = roaming.publishers
    if ":" not in publishers.predictor:
        check_name(publishers.predictor, PREDICTORS.names(), where(("clients", "roaming", "publishers", "predictor")))
    elif wrong := PREDICTORS.fault(publishers.predictor):
        raise fault("publishers.predictor", wrong)
    if ":" not in roaming.model:
        check_name(roaming.model, MOVEMENT_MODELS.names(), where(("clients", "roaming", "model")))
    elif wrong := MOVEMENT_MODELS.fault(roaming.model):
        raise fault("model", wrong)
    if publishers.predictor == "model" and not Path(publishers.model_file).is_file():
        raise fault(
            "publishers.model_file", f"is {publishers.model_file!r}: it must be a file, for a predictor of 'model'"
        )
    if roaming.model == "random":
        return

    if roaming.per_s > 0:
        raise fault("per_s", f"is {roaming.per_s:g}: only the model 'random' has a rate of moves")
    if roaming.model != "line":
        return  # movement_checks.py
    if len(places) < 2:
        raise fault(
            "model", f"is 'line': a street needs at least 2 brokers that clients are placed at, not {len(places)}"
        )
    if not roaming.speeds_kmh:
        raise fault("speeds_kmh", "is empty: allowed is at least one speed")
    if roaming.overshoot and roaming.confined_to is None:
        raise fault("overshoot", f"is {roaming.overshoot}: it extends confined_to, which is missing")
    lap_s = roaming.cell_km * 3_600 / max(roaming.speeds_kmh)
    if roaming.away_s >= lap_s:
        raise fault(
            "away_s",
            f"is {roaming.away_s:g}: the fastest client crosses a cell in {lap_s:g} s; allowed is less than that",
        )
    if movers * lasts_s / lap_s > MOVES_MAX:
        raise fault("speeds_kmh", f"lets {movers:,} clients move more than {MOVES_MAX:,} times in {lasts_s:g} s")
