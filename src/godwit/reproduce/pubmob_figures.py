"""The figures of `pubmob`: what they have in common.

*Rules.*
1. An algorithm looks the same in all figures, whichever others are beside it.
2. Lines that may lie on each other become thinner from the first to the last, so that all are seen.
"""

from typing import Any

from msgspec import structs

from godwit.reproduce.claims import Setting
from godwit.reproduce.figures import Look, Series, lines

__all__ = ["LOOKS", "draw"]

LOOKS: dict[str, Look] = {
    "STANDARD": Look(colour="tab:blue", width=4.0, marker="o"),
    "PREFETCHING": Look(colour="tab:orange", width=3.3, marker="s"),
    "PROXY": Look(colour="tab:green", width=2.6, marker="D"),
    "DELAYED": Look(colour="tab:red", width=1.9, marker="^"),
    "PREFETCHING+DELAYED": Look(colour="tab:purple", width=1.2, marker="v"),
}
"""By algorithm."""

THIN = 0.9  # of a further line of an algorithm, which is dotted


def draw(setting: Setting, name: str, series: Series, **more: Any) -> None:
    """One figure, by the arguments of `figures.lines`. A line is called by its algorithm, and what else it shows."""
    looks: dict[str, Look] = {}
    for label in series:
        algorithm = label.partition(",")[0]
        look = LOOKS.get(algorithm)
        if look is not None:
            is_further = any(other.partition(",")[0] == algorithm for other in looks)
            looks[label] = structs.replace(look, width=THIN, dashes=":", colour="black") if is_further else look
    lines(setting.folder, name, series, looks=looks, seed=setting.seed, **more)
