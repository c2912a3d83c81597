"""The radio section of a scenario: devices of an ad hoc network, and how they move.

*Rules.*
1. Only an overlay of kind `radio` has it.
"""

from typing import Annotated, Literal

import msgspec

__all__ = ["Radio"]

Metres = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
SomeSeconds = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Radio(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that walk about in a square and hear each other when they are near. For an overlay of kind `radio`."""

    devices: Annotated[int, msgspec.Meta(ge=2, le=200)] = 12
    side_m: Metres = 1_000.0
    range_m: Metres = 300.0
    speed_mps: Metres = 10.0  # at most; each way has its own speed
    move_s: SomeSeconds = 20.0  # all walk for so long,
    rest_s: SomeSeconds = 40.0  # and then rest for so long, in turn
    lease_s: Annotated[float, msgspec.Meta(ge=6, le=1_000_000)] = 30.0
    meeting: Literal["merge", "coordinate"] = "merge"  # what event brokers do that meet
    loss: Probability = 0.0  # of a message over the air
    crashes_per_s: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0  # of devices, while events are published
    keeps_disk: bool = False  # a device that crashes has what it held when it starts again
    down_s: SomeSeconds = 5.0  # for so long a device that has crashed is down
