"""The walking section of a scenario: clients that walk over a movement graph, and filters that refer to their place.

*Rules.*
1. A graph that is a file is read when the scenario is checked, so that its errors name the key.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from godwit.errors import BadValue, ScenarioError
from godwit.mobility.movement_graphs import MovementGraph, parse

__all__ = ["FILE_SUFFIXES", "Walking", "ground_of"]

SomeSeconds = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
FILE_SUFFIXES = (".json", ".toml")


class Walking(msgspec.Struct, frozen=True, kw_only=True):
    """Subscribers that walk over a movement graph, and whose filters refer to where they are. [rebeca §5]"""

    graph: str = ""  # "line 16", "grid 8x8", or a file; without it nobody walks
    dwell_s: SomeSeconds = 1.0  # at each place, at least
    linger_s: Seconds = 0.0  # longer than that, on average
    declared: bool = True  # they say how long they stay at least; otherwise brokers find out
    rule: Literal["bound", "paper", "anything"] = "bound"  # how many steps brokers allow for


def ground_of(walking: Walking) -> MovementGraph | None:
    """The movement graph that a scenario names, from its file if it is one."""
    if not walking.graph:
        return None
    text = walking.graph
    try:
        if text.endswith(FILE_SUFFIXES):
            text = Path(text).read_text(encoding="utf-8")
        return parse(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{walking.graph}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
    except BadValue as error:
        raise ScenarioError(str(error)) from None
