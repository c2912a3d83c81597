"""Figures: one function for each form that the papers' figures have, drawn as PNG and as SVG.

*Rules.*
1. The same data give the same SVG, byte for byte.
2. No window is opened: figures go to files only.
3. Titles and captions are broken into lines that fit. The legend stands beside the axes, never on the data.
4. An axis of logarithms has plain numbers, and room for each of them.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import msgspec

__all__ = ["Area", "Look", "Series", "lines", "points"]

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
DASHES = ("-", "--", "-.", ":")  # one set of colours each
COLOURS = 10
LEGEND_INCHES = 1.9  # the width that a legend takes beside the axes
NAME_WIDTH = 26  # letters of a name in the legend, in a line
TICKS_MAX = 10  # at the points themselves; with more, at round numbers
DECADES_FEW = 2.5  # of an axis of logarithms, up to which 2 and 5 have room beside 1
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


class Area(msgspec.Struct, frozen=True):
    """A rectangle that is marked in a figure."""

    label: str
    left: float
    right: float
    bottom: float
    top: float


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
    from matplotlib.ticker import MaxNLocator

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        if level is not None:
            axes.axhline(level, color="black", linewidth=0.8, linestyle=":")
        few = len(series) <= LEGEND_USUAL
        for number, (label, points) in enumerate(series.items()):
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            drawstyle = "steps-post" if steps else "default"
            axes.plot(xs, ys, label=label, drawstyle=drawstyle, **_look(number, label, len(points), looks, few))
        axes.set(title=fill(title, TITLE_WIDTH), xlabel=x, ylabel=y)
        places = sorted({point[0] for points in series.values() for point in points})
        if x_log:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis)
        elif len(places) <= TICKS_MAX:
            axes.set_xticks(_apart(places))
        elif all(float(place).is_integer() for place in places):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        if y_log:
            axes.set_yscale("log")
            _plain_numbers(axes.yaxis)
        if x_range is not None:
            axes.set_xlim(*x_range)
        axes.margins(y=0.08)
        if y_range is not None:
            axes.set_ylim(*y_range)
        if len(series) > 1:
            size = None if few else 7.0
            handles, names = axes.get_legend_handles_labels()
            figure.legend(
                handles, [fill(each, NAME_WIDTH) for each in names], loc="outside right upper", frameon=False,
                handlelength=3.2, fontsize=size,
            )  # fmt: skip
            figure.set_size_inches(figure.get_figwidth() + LEGEND_INCHES, figure.get_figheight())
        if caption:
            figure.supxlabel(fill(caption, CAPTION_WIDTH), fontsize=6.5, color="0.3")
        folder.mkdir(parents=True, exist_ok=True)
        png, svg = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _look(number: int, label: str, points: int, looks: Mapping[str, Look] | None, few: bool) -> dict[str, Any]:
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
        "linestyle": DASHES[number // COLOURS % len(DASHES)],
        "linewidth": max(4.0 - 0.7 * number, 0.8) if few else 1.2,
        "marker": MARKERS[number % len(MARKERS)] if points <= 40 else None,
        "markersize": max(8.0 - number, 3.0) if few else 4.0,
        "markerfacecolor": "none",
    }


def _plain_numbers(axis: Any) -> None:
    """Numbers at 1, 2 and 5 of each power of ten, or at the powers alone where there are many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low) if low > 0 else 0.0
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades <= DECADES_FEW else (1.0,), numticks=TICKS_MAX))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _apart(places: list[float]) -> list[float]:
    """Of places on an axis those that have room for a number."""
    found: list[float] = []
    gap = TICKS_GAP * (places[-1] - places[0]) if places else 0.0
    for place in places:
        if not found or place - found[-1] >= gap:
            found.append(place)
    return found


def points(
    folder: Path,
    name: str,
    series: Series,
    *,
    title: str,
    x: str,
    y: str,
    area: Area,
    y_near_zero: float,
) -> tuple[Path, Path]:
    """Points, and the area in which they were expected. The PNG and the SVG.

    The y axis is linear up to `y_near_zero` and logarithmic above it.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FuncFormatter

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        corner, width, height = (area.left, area.bottom), area.right - area.left, area.top - area.bottom
        axes.add_patch(Rectangle(corner, width, height, color="tab:green", alpha=0.25, label=area.label))
        for number, (label, places) in enumerate(series.items()):
            xs, ys = [point[0] for point in places], [point[1] for point in places]
            axes.plot(xs, ys, MARKERS[number], label=label, markersize=4.5, alpha=0.7, clip_on=False)
        axes.set(title=fill(title, TITLE_WIDTH), xlabel=x, ylabel=y)
        axes.set_yscale("symlog", linthresh=y_near_zero)
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:.1%}" if value < 0.1 else f"{value:.0%}")
        )
        axes.set_ylim(0.0, 1.0)
        axes.set_xlim(left=0.0)
        figure.legend(loc="outside right upper", frameon=False)
        figure.set_size_inches(figure.get_figwidth() + LEGEND_INCHES, figure.get_figheight())
        folder.mkdir(parents=True, exist_ok=True)
        png, svg = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg
