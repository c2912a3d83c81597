"""Two plots: the movement graph, and the accuracy of prediction. Importing this module needs matplotlib."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

__all__ = ["accuracy", "movement"]

STEPS_SHOWN = 5_000  # the most frequent
SHARE_SHOWN = 0.99  # share of steps that determines the extent of the map: outliers would shrink the rest
DPI = 150
NAMED_MAX = 60  # number of places up to which names are drawn
NAME_LETTERS_MAX = 12  # longer ones are cells, not brokers


def movement(file: Path, graph: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """The movement graph as a map: an edge for each step, the more frequent the darker and wider."""
    at = graph["places"]
    shown = sorted(steps, key=lambda row: -row["count"])[:STEPS_SHOWN]
    counts = np.array([row["count"] for row in shown], dtype=np.float64)
    lines = np.array([[at[row["place"]], at[row["to"]]] for row in shown])
    strength = np.log1p(counts) / np.log1p(counts.max())
    figure = Figure(figsize=(6.5, 6.5), layout="constrained")
    axes = figure.add_subplot()
    edges = LineCollection(list(lines[::-1]), linewidths=0.2 + 2.2 * strength[::-1] ** 2, cmap="viridis_r")
    edges.set_array(counts[::-1])
    edges.set_norm("log")
    axes.add_collection(edges)
    weights = np.repeat(counts, 2)
    for direction, limits in ((0, axes.set_xlim), (1, axes.set_ylim)):
        low, high = _span(lines[:, :, direction].reshape(-1), weights)
        margin = (high - low) * 0.04 or 0.01
        limits(low - margin, high + margin)
    _name_places(axes, at)
    axes.set_aspect(1 / np.cos(np.radians(np.average(lines[:, 0, 1], weights=counts))))
    axes.set(title=f"Steps between {len(at):,} places", xlabel="longitude", ylabel="latitude")
    axes.locator_params(axis="x", nbins=5)
    figure.colorbar(edges, ax=axes, shrink=0.7, label="observations of the step", format="{x:,.0f}")
    _save(figure, file)


def _name_places(axes: Any, at: dict[str, Any]) -> None:
    """Draw the names of places, if they are few and short, as those of brokers are."""
    if len(at) > NAMED_MAX or any(len(name) > NAME_LETTERS_MAX for name in at):
        return
    for name, (lon, lat) in at.items():
        axes.plot([lon], [lat], "o", color="black", markersize=3.0)
        axes.annotate(
            name, (lon, lat), xytext=(3, 3), textcoords="offset points", fontsize=7, annotation_clip=True,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.7, "linewidth": 0},
        )  # fmt: skip


def _span(degrees: Any, weights: Any) -> tuple[float, float]:
    """The interval with `SHARE_SHOWN` of the weight."""
    order = np.argsort(degrees)
    share = np.cumsum(weights[order]) / weights.sum()
    low, high = np.searchsorted(share, [(1 - SHARE_SHOWN) / 2, (1 + SHARE_SHOWN) / 2])
    return float(degrees[order][low]), float(degrees[order][min(high, len(order) - 1)])


def accuracy(file: Path, found: dict[str, Any]) -> None:
    """The share of steps whose place was the first prediction of each model, or among the first three."""
    models = found["models"]
    names = list(models)[::-1]
    rows = np.arange(len(names))
    figure = Figure(figsize=(6.5, 1.2 + 0.6 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for name, offset, label, colour in (
        ("top_3", -0.19, "among the first three predictions", "#9ecae1"),
        ("top_1", 0.19, "first prediction", "#08519c"),
    ):
        bars = axes.barh(rows + offset, [100 * models[model][name] for model in names], 0.38, label=label, color=colour)
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axes.set_yticks(rows, names)
    axes.set(xlim=(0, 105), xlabel=f"correct predictions, % of {models[names[0]]['transitions']:,} later steps")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    _save(figure, file)


def _save(figure: Figure, file: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(file, dpi=DPI)
