"""The network section of a scenario: which brokers and links there are, and how clients reach them.

*Theory.* An overlay is of one kind, and each kind has its own parameters (`PARAMETERS`). `overlay_of` builds it.

*Rules.*
1. A key that belongs to another kind of overlay is refused, not ignored.
"""

from pathlib import Path
from random import Random
from typing import Annotated, Literal

import msgspec

from godwit.simulator import topologies
from godwit.simulator.scenario.units import Kilobits, Least, Milliseconds, Text
from godwit.simulator.topologies import Overlay

__all__ = ["PARAMETERS", "OverlaySpec", "built_overlay", "parameters_of_other_kinds"]

Brokers = Annotated[int, msgspec.Meta(ge=1, le=topologies.BROKERS_MAX)]


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
    processing_ms: Milliseconds = 0.0  # that a broker takes for each message, one after the other
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


def built_overlay(spec: OverlaySpec, rng: Random) -> Overlay:
    """The network that the section describes; only random kinds draw from `rng`."""
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


def parameters_of_other_kinds(kind: object) -> list[str]:
    """The parameters of other kinds of overlays that this kind does not have."""
    own = PARAMETERS.get(kind, ()) if isinstance(kind, str) else ()
    return [name for name in ("brokers", "height", "degree", "file") if name not in own]
