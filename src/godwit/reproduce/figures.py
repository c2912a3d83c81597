"""Figures: one function for each form that the papers' figures have, drawn as PNG and as SVG.

*Rules.*
1. The same data give the same SVG, byte for byte.
2. No window is opened: figures go to files only.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["lines"]

STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 150,
    "figure.figsize": (6.0, 3.8),
    "font.size": 9.0,
    "grid.alpha": 0.3,
    "svg.hashsalt": "godwit",
}
MARKERS = "osD^vPX*"
TICKS_MAX = 10  # at the points themselves; with more, at round numbers

Series = Mapping[str, Sequence[tuple[float, float]]]
"""By name in the legend, the points (x, y)."""


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
) -> tuple[Path, Path]:
    """Lines through points, marked unless there are many; `steps` for distributions. The PNG and the SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        for number, (label, points) in enumerate(series.items()):
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            marker = MARKERS[number % len(MARKERS)] if len(points) <= 40 else None
            drawstyle = "steps-post" if steps else "default"
            width, size = max(4.0 - 0.7 * number, 0.8), max(8.0 - number, 3.0)  # what lies beneath shows at the edges
            style: Any = {"marker": marker, "markersize": size, "markerfacecolor": "none", "drawstyle": drawstyle}
            axes.plot(xs, ys, label=label, linewidth=width, **style)
        axes.set(title=title, xlabel=x, ylabel=y)
        places = sorted({point[0] for points in series.values() for point in points})
        if x_log:
            axes.set_xscale("log")
        elif len(places) <= TICKS_MAX:
            axes.set_xticks(places)
        elif all(float(place).is_integer() for place in places):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        if y_log:
            axes.set_yscale("log")
        if x_range is not None:
            axes.set_xlim(*x_range)
        axes.margins(y=0.08)
        if y_range is not None:
            axes.set_ylim(*y_range)
        if len(series) > 1:
            axes.legend(framealpha=0.8)
        folder.mkdir(parents=True, exist_ok=True)
        png, svg = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg
