"""Checks of the roaming section that need the overlay or the files that it names.

*Rules.*
1. What cannot be run, or would take more moves or scans than a run can hold, is refused before it begins.
"""

from collections.abc import Callable
from pathlib import Path

from godwit.errors import ScenarioError
from godwit.settings import Where
from godwit.simulator.base_stations import SCAN_INTERVAL_S, broker_positions
from godwit.simulator.movement_models import movement_graph
from godwit.simulator.scenario.roaming_section import MOVES_MAX, Roaming
from godwit.simulator.topologies import Overlay
from godwit.simulator.tracks import Plane, Rectangle

__all__ = ["check_movement", "check_positions"]

LOOKS_MAX = 20_000_000  # for brokers, of all clients in a run

Fault = Callable[[str, str], ScenarioError]
"""The error for a key of `clients.roaming`, with a text."""


def check_movement(
    roaming: Roaming, overlay: Overlay, places: tuple[str, ...], movers: int, lasts_s: float, where: Where
) -> None:
    """Raise `ScenarioError` unless that many clients can move like this between these brokers for so long."""

    def fault(key: str, text: str) -> ScenarioError:
        return ScenarioError(f"{where(('clients', 'roaming', key))} {text}")

    is_read = roaming.model == "trace" or (roaming.model == "walk" and roaming.graph == "file")
    if roaming.file is not None and not is_read:
        raise fault("file", f"is {roaming.file!r}: only the model 'trace', and 'walk' with graph = 'file', read one")
    moves = 0.0
    match roaming.model:
        case "walk":
            _check_walk(roaming, overlay, places, fault)
            moves = lasts_s / (roaming.dwell_s + roaming.away_s)
        case "waypoint":
            if not roaming.speeds_kmh:
                raise fault("speeds_kmh", "is empty: allowed is at least one speed")
            _check_stations(roaming, movers, lasts_s, fault)
            moves = lasts_s * max(roaming.speeds_kmh) / (roaming.area_km * 3_600)
        case "trace":
            _check_trace(roaming, fault)
            _check_stations(roaming, movers, lasts_s, fault)
    if movers * moves > MOVES_MAX:
        raise fault("model", f"lets {movers:,} clients move more than {MOVES_MAX:,} times in {lasts_s:g} s")


def check_positions(file: str, overlay: Overlay, where: Where) -> None:
    """Raise `ScenarioError` unless a file says where brokers of an overlay stand."""
    at = where(("overlay", "positions"))
    if not Path(file).is_file():
        raise ScenarioError(f"{at} is {file!r}: no such file; expected a CSV file with columns broker, lon and lat")
    try:
        Plane(Rectangle.around(broker_positions(file, overlay).values()))
    except ScenarioError as error:
        raise ScenarioError(f"{at}: {error}") from None


def _check_stations(roaming: Roaming, movers: int, lasts_s: float, fault: Fault) -> None:
    if roaming.margin_m >= roaming.range_m:
        raise fault("margin_m", f"is {roaming.margin_m:g}: allowed is less than range_m, {roaming.range_m:g}")
    if movers * lasts_s / SCAN_INTERVAL_S > LOOKS_MAX:
        raise fault("model", f"lets {movers:,} clients look for brokers more than {LOOKS_MAX:,} times")


def _check_walk(roaming: Roaming, overlay: Overlay, places: tuple[str, ...], fault: Fault) -> None:
    if len(places) < 2:
        raise fault(
            "model", f"is 'walk': there must be at least 2 brokers that clients are placed at, not {len(places)}"
        )
    if roaming.graph == "file" and (roaming.file is None or not Path(roaming.file).is_file()):
        raise fault("file", f"is {roaming.file!r}: it must be a file, for a movement graph from a file")
    try:
        movement_graph(roaming, overlay, places)
    except ScenarioError as error:
        raise fault("file", f"is not a movement graph: {error}") from None


def _check_trace(roaming: Roaming, fault: Fault) -> None:
    if roaming.file is None or not Path(roaming.file).is_file():
        raise fault("file", f"is {roaming.file!r}: it must be a file of positions, for the model 'trace'")
    if Path(roaming.file).suffix not in (".csv", ".parquet"):
        raise fault("file", f"is {roaming.file!r}: allowed is a file that ends in .csv or .parquet")
