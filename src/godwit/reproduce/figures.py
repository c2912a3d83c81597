"""Figures: one function for each form that the papers' figures have, drawn as PNG and as SVG.

*Rules.*
1. The same data give the same SVG, byte for byte.
2. No window is opened: figures go to files only.
3. Titles and captions are broken into lines that fit.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import msgspec

__all__ = ["Look", "Series", "lines"]

STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10.0,
    "figure.dpi": 150,
    "figure.figsize": (6.0, 3.8),
    "font.size": 9.0,
    "grid.alpha": 0.3,
    "svg.hashsalt": "godwit",
}
MARKERS = "osD^vPX*"
TICKS_MAX = 10  # at the points themselves; with more, at round numbers
TICKS_GAP = 0.035  # of the axis, below which two of them would run into each other
LEGEND_USUAL = 5  # lines; with more the names are smaller
TITLE_WIDTH, CAPTION_WIDTH = 62, 112  # letters

Series = Mapping[str, Sequence[tuple[float, float]]]
"""By name in the legend, the points (x, y)."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How one line is drawn."""

    colour: str
    width: float = 1.6
    marker: str | None = None
    dashes: str = "-"


def lines(
    folder: Path,
    name: str,
    series: Series,
    *,
    title: str,
    x: str,
    y: str,
    y_log: bool = False,
    x_log: bool = False,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float | None] | None = None,
    steps: bool = False,
    caption: str = "",
    looks: Mapping[str, Look] | None = None,
    level: float | None = None,
) -> tuple[Path, Path]:
    """Lines through points, marked unless there are many; `steps` for distributions. The PNG and the SVG.

    Later lines lie on top of earlier ones. `looks` says by name how a line is drawn, `level` draws a thin line across,
    and `caption` stands small under it all.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        if level is not None:
            axes.axhline(level, color="black", linewidth=0.8, linestyle=":")
        for number, (label, points) in enumerate(series.items()):
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            drawstyle = "steps-post" if steps else "default"
            axes.plot(xs, ys, label=label, drawstyle=drawstyle, **_look(number, label, len(points), looks))
        axes.set(title=fill(title, TITLE_WIDTH), xlabel=x, ylabel=y)
        places = sorted({point[0] for points in series.values() for point in points})
        if x_log:
            axes.set_xscale("log")
        elif len(places) <= TICKS_MAX:
            axes.set_xticks(_apart(places))
        elif all(float(place).is_integer() for place in places):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        if y_log:
            axes.set_yscale("log")
            if level is not None:  # ratios: plain numbers
                axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
                axes.yaxis.set_minor_formatter(NullFormatter())
        if x_range is not None:
            axes.set_xlim(*x_range)
        axes.margins(y=0.08)
        if y_range is not None:
            axes.set_ylim(*y_range)
        if len(series) > 1:
            axes.legend(framealpha=0.8, handlelength=3.2, fontsize=None if len(series) <= LEGEND_USUAL else 7.0)
        if caption:
            figure.supxlabel(fill(caption, CAPTION_WIDTH), fontsize=6.5, color="0.3")
        folder.mkdir(parents=True, exist_ok=True)
        png, svg = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _look(number: int, label: str, points: int, looks: Mapping[str, Look] | None) -> dict[str, Any]:
    look = (looks or {}).get(label)
    if look is not None:
        return {
            "color": look.colour,
            "linewidth": look.width,
            "linestyle": look.dashes,
            "marker": look.marker,
            "markersize": 4.0 + look.width / 2,
            "markerfacecolor": "white",
        }
    return {  # what lies beneath shows at the edges
        "linewidth": max(4.0 - 0.7 * number, 0.8),
        "marker": MARKERS[number % len(MARKERS)] if points <= 40 else None,
        "markersize": max(8.0 - number, 3.0),
        "markerfacecolor": "none",
    }


def _apart(places: list[float]) -> list[float]:
    """Of places on an axis those that have room for a number."""
    found: list[float] = []
    gap = TICKS_GAP * (places[-1] - places[0]) if places else 0.0
    for place in places:
        if not found or place - found[-1] >= gap:
            found.append(place)
    return found
