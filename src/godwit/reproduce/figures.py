"""Figures: one function for each form that the papers' figures have, drawn as PNG and as SVG.

*Rules.*
1. The same data give the same SVG, byte for byte.
2. No window is opened: figures go to files only.
3. Titles and captions are wrapped. The legend is beside the axes, never on the data.
4. A logarithmic axis has plain numbers that do not overlap.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import msgspec

__all__ = [
    "DRAWING_FORMAT",
    "DRAWING_SUFFIX",
    "Area",
    "Drawing",
    "Look",
    "PaperValue",
    "Series",
    "draw",
    "lines",
    "points",
    "write_drawing",
]

DRAWING_FORMAT = 1  # of a drawing that is kept as JSON
DRAWING_SUFFIX = ".drawing.json"

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
MARKED_MAX = 40  # points of a line; with more they are not marked
LEGEND_INCHES = 1.9  # the width that a legend takes beside the axes
NAME_WIDTH = 26  # letters of a name in the legend, in a line
TICKS_MAX = 10  # at the points themselves; with more, at round numbers
DECADES_FEW = 2.5  # of an axis of logarithms, up to which 2 and 5 have room beside 1
LOG_TICKS_MAX = 6  # the same, of an axis of logarithms
TICKS_GAP = 0.035  # of the axis, below which two of them would run into each other
LEGEND_USUAL = 5  # lines; with more the names are smaller
PAPER_COLOURS = ("black", "0.45")
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


class PaperValue(msgspec.Struct, frozen=True):
    """A value from the text of a paper: a point, or a line if only one coordinate is given."""

    label: str
    x: float | None = None
    y: float | None = None


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a line chart."""

    series: dict[str, tuple[tuple[float, float], ...]]
    title: str
    x: str
    y: str
    x_log: bool = False
    y_log: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float | None] | None = None
    steps: bool = False
    caption: str = ""
    looks: dict[str, Look] = {}
    level: float | None = None
    paper: tuple[PaperValue, ...] = ()
    seeds: tuple[int, ...] = ()
    bands: dict[str, tuple[tuple[float, float], ...]] = {}  # by name, the least and the most at each point
    format: int = DRAWING_FORMAT

    @property
    def said(self) -> str:
        """The caption."""
        if len(self.seeds) > 1:
            seeds = f"Mean of {len(self.seeds)} seeds; a band goes from the least to the most of them."
        else:
            seeds = f"Seed {self.seeds[0]}." if self.seeds else ""
        return f"{self.caption} {seeds}".strip()


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
    paper: Sequence[PaperValue] = (),
    seed: int | None = None,
) -> tuple[Path, Path]:
    """Lines through points, marked unless there are many; `steps` for distributions. The PNG and the SVG.

    Later lines are on top of earlier ones. `looks` has the style of lines by name, `level` draws a horizontal line,
    `paper` has values from the paper's text, and `caption` is below the figure. With a seed, the drawing is also stored
    as JSON, so that those of several seeds can be combined (`seed_figures.py`).
    """
    drawing = Drawing(
        series={label: _finite(points) for label, points in series.items()},
        title=title,
        x=x,
        y=y,
        x_log=x_log,
        y_log=y_log,
        x_range=x_range,
        y_range=y_range,
        steps=steps,
        caption=caption,
        looks=dict(looks) if looks else {},
        level=level,
        paper=tuple(paper),
        seeds=() if seed is None else (seed,),
    )
    files = draw(folder, name, drawing)
    if seed is not None:
        write_drawing(folder, name, drawing)
    return files


def write_drawing(folder: Path, name: str, drawing: Drawing) -> Path:
    """Keep a drawing as JSON."""
    path = folder / f"{name}{DRAWING_SUFFIX}"
    path.write_bytes(msgspec.json.encode(drawing) + b"\n")
    return path


def _finite(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Points without a missing value, where nothing was delivered."""
    return tuple((float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y))


def draw(folder: Path, name: str, drawing: Drawing) -> tuple[Path, Path]:
    """Draw it. The PNG and the SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    series = drawing.series
    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        if drawing.level is not None:
            axes.axhline(drawing.level, color="black", linewidth=0.8, linestyle=":")
        few = len(series) <= LEGEND_USUAL
        for number, (label, points) in enumerate(series.items()):
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            drawstyle = "steps-post" if drawing.steps else "default"
            look = _look(number, label, len(points), drawing.looks, few)
            (line,) = axes.plot(xs, ys, label=label, drawstyle=drawstyle, **look)
            _add_band(axes, drawing, label, line.get_color())
        _add_paper_values(axes, drawing.paper)
        axes.set(title=fill(drawing.title, TITLE_WIDTH), xlabel=drawing.x, ylabel=drawing.y)
        _scale_axes(axes, drawing)
        if len(series) + len(drawing.paper) > 1:
            size = None if few else 7.0
            handles, names = axes.get_legend_handles_labels()
            figure.legend(
                handles, [fill(each, NAME_WIDTH) for each in names], loc="outside right upper", frameon=False,
                handlelength=3.2, fontsize=size,
            )  # fmt: skip
            figure.set_size_inches(figure.get_figwidth() + LEGEND_INCHES, figure.get_figheight())
        if said := drawing.said:
            figure.supxlabel(fill(said, CAPTION_WIDTH), fontsize=6.5, color="0.3")
        folder.mkdir(parents=True, exist_ok=True)
        png, svg = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _add_band(axes: Any, drawing: Drawing, label: str, colour: Any) -> None:
    """Draw a band from the minimum to the maximum of all seeds: of times in a distribution, else of values."""
    band = drawing.bands.get(label)
    if band is None:
        return
    low, high = [each[0] for each in band], [each[1] for each in band]
    points = drawing.series[label]
    if drawing.steps:
        axes.fill_betweenx([point[1] for point in points], low, high, color=colour, alpha=0.2, linewidth=0)
    else:
        axes.fill_between([point[0] for point in points], low, high, color=colour, alpha=0.2, linewidth=0)


def _add_paper_values(axes: Any, paper: Sequence[PaperValue]) -> None:
    for number, value in enumerate(paper):
        style = {"color": PAPER_COLOURS[number % len(PAPER_COLOURS)], "label": f"paper: {value.label}", "zorder": 9}
        if value.x is not None and value.y is not None:
            axes.plot([value.x], [value.y], "*", markersize=11, markeredgecolor="white", **style)
        elif value.x is not None:
            axes.axvline(value.x, linewidth=1.3, linestyle=(0, (1, 1)), **style)
        elif value.y is not None:
            axes.axhline(value.y, linewidth=1.3, linestyle=(0, (1, 1)), **style)


def _scale_axes(axes: Any, drawing: Drawing) -> None:
    from matplotlib.ticker import MaxNLocator

    places = sorted({point[0] for points in drawing.series.values() for point in points})
    if drawing.x_log:
        axes.set_xscale("log")
        _plain_numbers(axes.xaxis)
        if len(places) <= LOG_TICKS_MAX:
            axes.set_xticks(places)
    elif len(places) <= TICKS_MAX:
        axes.set_xticks(_apart(places))
    elif all(float(place).is_integer() for place in places):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    if drawing.y_log:
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
    if drawing.x_range is not None:
        axes.set_xlim(*drawing.x_range)
    axes.margins(y=0.08)
    if drawing.y_range is not None:
        axes.set_ylim(*drawing.y_range)


def _look(number: int, label: str, points: int, looks: Mapping[str, Look] | None, few: bool) -> dict[str, Any]:
    look = (looks or {}).get(label)
    if look is not None:
        return {
            "color": look.colour,
            "linewidth": look.width,
            "linestyle": look.dashes,
            "marker": look.marker if points <= MARKED_MAX else None,
            "markersize": 4.0 + look.width / 2,
            "markerfacecolor": "white",
        }
    return {  # lower layers show at the edges
        "linestyle": DASHES[number // COLOURS % len(DASHES)],
        "linewidth": max(4.0 - 0.7 * number, 0.8) if few else 1.2,
        "marker": MARKERS[number % len(MARKERS)] if points <= MARKED_MAX else None,
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
    """The positions on an axis with room for a number."""
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
    y_near_zero: float | None = None,
) -> tuple[Path, Path]:
    """Points, and the area in which they were expected. The PNG and the SVG.

    The y axis is logarithmic. With `y_near_zero` it shows shares, and is linear up to there.
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
        if y_near_zero is None:
            axes.set_yscale("log")
            _plain_numbers(axes.yaxis)
        else:
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
