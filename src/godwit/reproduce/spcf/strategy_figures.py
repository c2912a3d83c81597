"""The figures of `spcf`: what they have in common.

*Rules.*
1. A strategy looks the same in all figures. SPCF, which the paper is about, is the boldest and lies on top; what is
   matched at the source has the colour of its strategy, dashed.
2. Every figure says under it how large the network was, with which seed it was drawn, and what else must be known.
"""

from collections.abc import Mapping, Sequence

from godwit.reproduce.claims import Setting
from godwit.reproduce.figures import Look, PaperValue, Series, lines
from godwit.reproduce.spcf.scale import Scale

__all__ = ["LOOKS", "SELECTIVITY", "draw", "percent"]

SELECTIVITY = "selectivity of context filters (% of clients)"

RED, BLUE, GREY = "#c8102e", "#2f6db5", "#6b6b6b"
LOOKS: dict[str, Look] = {
    "ASF": Look(colour=GREY, width=1.6, marker="s"),
    "GSF": Look(colour=BLUE, width=1.6, marker="D"),
    "GSF at source": Look(colour=BLUE, width=1.6, marker="v", dashes="--"),
    "SPCF at source": Look(colour=RED, width=2.0, marker="^", dashes="--"),
    "SPCF": Look(colour=RED, width=3.2, marker="o"),
}
"""By strategy, from what lies beneath to what lies on top."""


def percent(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points whose x was a share."""
    return [(round(100 * x, 6), y) for x, y in points]


def draw(
    setting: Setting,
    scale: Scale,
    name: str,
    series: Series,
    *,
    title: str,
    x: str,
    y: str,
    said: str = "",
    looks: Mapping[str, Look] | None = None,
    logarithmic: str = "",
    level: float | None = None,
    paper: Sequence[PaperValue] = (),
) -> None:
    """One figure; `said` goes under it, and `logarithmic` names the axes that are."""
    chosen = LOOKS if looks is None else looks
    drawn = {label: points for label, points in series.items() if label not in chosen}
    drawn |= {label: series[label] for label in chosen if label in series}
    caption = f"{'Full' if setting.full else 'Quick'} run: {scale}."
    lines(
        setting.folder,
        name,
        drawn,
        title=title,
        x=x,
        y=y,
        x_log="x" in logarithmic,
        y_log="y" in logarithmic,
        y_range=None if "y" in logarithmic else (0.0, None),
        caption=f"{caption} {said}".strip(),
        looks=chosen,
        level=level,
        paper=paper,
        seed=setting.seed,
    )
