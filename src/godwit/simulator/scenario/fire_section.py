"""The fire section of a scenario: a building whose devices look out for fire. [spcf §2]

*Rules.*
1. Without floors there is no building, and no other key may be set.
"""

from typing import Annotated, Literal

import msgspec

from godwit.errors import ScenarioError
from godwit.settings import Where

__all__ = ["Fire", "check_fire"]

Count = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
Metres = Annotated[float, msgspec.Meta(gt=0, le=100_000)]


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """A building with smoke detectors, sprinklers, light signals and a planner. [spcf §2, Tables 1, 2]"""

    floors: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0  # 0: there is no building
    width_m: Metres = 200.0  # from west to east
    depth_m: Metres = 60.0
    detectors: Count = 8  # of each floor
    sprinklers: Count = 20
    signals: Count = 10
    carried: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0  # share of detectors and signals that are carried about
    reach_m: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 30.0  # of a fire, along both axes
    fires: Count = 5
    every_s: Annotated[float, msgspec.Meta(gt=0, le=100_000)] = 5.0
    interface: Literal["context", "traditional"] = "context"  # where detectors say where they are: Table 2 or 1

    @property
    def is_on(self) -> bool:
        """Whether there is a building."""
        return self.floors > 0


def check_fire(fire: Fire, duration_s: float, where: Where) -> None:
    """Raise `ScenarioError` unless the building can burn as often as that in so long a time."""
    if not fire.is_on:
        return
    if fire.fires and not fire.detectors:
        raise ScenarioError(f"{where(('fire', 'detectors'))} is 0: without a detector no fire is reported")
    if fire.fires * fire.every_s > duration_s:
        raise ScenarioError(
            f"{where(('fire', 'fires'))} is {fire.fires}, one every {fire.every_s:g} s: "
            f"allowed are as many as run.duration_s has room for, {int(duration_s / fire.every_s)}"
        )
