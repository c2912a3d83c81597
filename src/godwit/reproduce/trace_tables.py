"""The traces of an experiment as one table, and queries that several papers use."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from godwit.mobility import move_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CONTROL", "counted", "given", "read"]

CONTROL: tuple[str, ...] = (
    *("Advertise", "Unadvertise", "Subscribe", "Unsubscribe"),
    *(name for name in move_messages.__all__ if name not in ("ReachableBrokers", "MoveOut", "TrimConnectionLog")),
)
"""Messages between brokers that build, take down and move trees and sessions; events and acknowledgements are none, nor
what brokers say to get acquainted. In the graph family they travel in packets, whose rows do not name them."""

ID = ("publisher", "sequence")


def read(spark: "SparkSession", folders: Mapping[str, Path]) -> "DataFrame":
    """The traces in these folders, with what each run is called here; all of it is measured."""
    from godwit.pipeline import analytics
    from godwit.trace import FILE

    return analytics.read(spark, [analytics.TraceSource(folder / FILE, run) for run, folder in folders.items()])


def given(trace: "DataFrame") -> "DataFrame":
    """By run, which client was given which event, once or more."""
    return trace.where("kind = 'delivered'").select("run", "node", *ID).distinct()


def counted(trace: "DataFrame") -> dict[str, dict[str, int]]:
    """By run, how many rows of each kind there are."""
    from godwit.pipeline import analytics

    found: dict[str, dict[str, int]] = {}
    for row in analytics.kinds(trace).collect():
        found.setdefault(row.run, {})[row.kind] = row.rows
    return found
