"""[mobile §4.3]: what a hand-off of the session as a step of the radio's hand-off could save.

*Theory.* A base station that is a broker would learn from the radio that a client is coming, before the client is
connected, and could fetch its session while the radio is silent. Without that, a client waits for its session from its
connection to the new broker on. A transfer that begins as soon as the radio falls silent saves as much of that wait as
the silence lasts, and no more than all of it.

*Rules.*
1. Waits are computed by Spark from the traces, from `relocating` to `relocated` of the same client at the same broker.
   A client that has gone on before its session came is left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from godwit.reproduce.figures import lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["draw_radio_handoff", "session_waits", "wait_left"]

SILENT_S = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)


def session_waits(trace: "DataFrame") -> dict[str, list[float]]:
    """By run, how long each client waited for its session, in seconds, the shortest first."""
    steps = trace.where("kind in ('relocating', 'relocated')").select("run", "node", "peer", "kind", "at", "place")
    of_client = Window.partitionBy("run", "peer").orderBy("place")
    for name in ("kind", "node", "at"):
        steps = steps.withColumn(f"next_{name}", fn.lead(name).over(of_client))
    arrived = steps.where("kind = 'relocating' and next_kind = 'relocated' and next_node = node")
    found: dict[str, list[float]] = {}
    for row in arrived.select("run", (fn.col("next_at") - fn.col("at")).alias("wait")).orderBy("run", "wait").collect():
        found.setdefault(row.run, []).append(row.wait)
    return found


def wait_left(waits: Sequence[float], silent_s: float) -> float:
    """The mean of the waits if each transfer begins this much earlier."""
    return fmean(max(wait - silent_s, 0.0) for wait in waits)


def draw_radio_handoff(folder: Path, seed: int, waits: Mapping[str, Sequence[float]], brokers: int) -> str:
    """Draw what is left of the wait by the silence of the radio, for each mode; and the same in words."""
    series = {mode: [(1_000 * silent, wait_left(each, silent)) for silent in SILENT_S] for mode, each in waits.items()}
    lines(
        folder,
        "radio_handoff",
        series,
        title=f"Wait for the session if it leaves when the radio falls silent, {brokers} brokers [mobile §4.3]",
        x="radio silent for (ms)",
        y="mean wait after the connection (s)",
        y_range=(0.0, None),
        seed=seed,
    )
    told = "; ".join(f"{mode} {', '.join(f'{left:.2f} s' for _, left in points)}" for mode, points in series.items())
    silences = ", ".join(f"{1_000 * silent:.0f}" for silent in SILENT_S)
    return (
        f"A hand-off that is a step of the radio's would leave of the mean wait for the session, with a silence of "
        f"{silences} ms: {told}."
    )
