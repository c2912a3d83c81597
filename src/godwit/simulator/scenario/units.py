"""Types of scenario keys: numbers within bounds, by their unit.

*Rules.*
1. Every number of a scenario has a lower and an upper bound.
"""

from typing import Annotated

import msgspec

__all__ = [
    "Count",
    "Kilobits",
    "Least",
    "Milliseconds",
    "PerSecond",
    "Probability",
    "Seconds",
    "SomeSeconds",
    "Text",
]

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Least = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
SomeSeconds = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=60_000)]
Kilobits = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
PerSecond = Annotated[float, msgspec.Meta(ge=0, le=10_000)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
