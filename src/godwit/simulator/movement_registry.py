"""Movement models by name: built-in ones, those of installed packages, and `module:function`.

*Rules.*
1. A model is a function of the roaming section, the movement space and the first brokers of the clients. It returns an
   itinerary for each client, before anything runs.
2. It draws only from `space.rng(client)`, so that the same seed gives the same movement.
"""

from collections.abc import Callable, Mapping
from typing import Any

from godwit.registry import Registry

__all__ = ["MOVEMENT_MODELS", "MakeItineraries"]

MakeItineraries = Callable[[Any, Any, Mapping[str, str]], Mapping[str, Any]]

MOVEMENT_MODELS: Registry[MakeItineraries] = Registry("movement model", "godwit.movement_models", by_module=True)
MOVEMENT_MODELS.expect("godwit.simulator.movement_models", "random", "line", "walk", "waypoint", "trace")
