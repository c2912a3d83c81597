"""Evaluation of a placement of brokers: the share of positions in range, and the rate of handovers.

*Theory.* A client is at the nearest broker in range (`cells.Brokers`). So visits and transitions are mined for brokers
as for cells, with the same files as a result; this module computes the further figures of a placement. Only observed
handovers are counted: a broker that is passed between two fixes is not noticed.

*Rules.*
1. Shares refer to used fixes: those that cleaning has left out do not count.
2. Hours are the time in which clients were observed: gaps between trips do not count.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["cells_to_brokers", "coverage"]


def coverage(fixes: "DataFrame", visits: "DataFrame") -> dict[str, Any]:
    """Shares, hours and handovers, from fixes with brokers as places and their visits."""
    from pyspark.sql import functions as fn

    reached = fixes.agg(
        fn.count("*").alias("fixes"),
        fn.count("place").alias("reached"),
        fn.sum("elapsed_s").alias("observed_s"),
    ).collect()[0]
    by_broker = {
        row["place"]: row["count"] for row in fixes.where("place is not null").groupBy("place").count().collect()
    }
    handovers = visits.where("to is not null").count()
    hours = (reached["observed_s"] or 0.0) / 3_600
    number = max(reached["fixes"], 1)
    return {
        "fixes": reached["fixes"],
        "covered": round(reached["reached"] / number, 4),
        "observed_hours": round(hours, 1),
        "handovers": handovers,
        "handovers_per_client_hour": round(handovers / hours, 3) if hours else 0.0,
        "share_by_broker": {name: round(count / number, 4) for name, count in sorted(by_broker.items())},
    }


def cells_to_brokers(fixes: "DataFrame") -> "DataFrame":
    """The number of fixes by `cell` and `broker` (null: none in range)."""
    from pyspark.sql import functions as fn

    return fixes.groupBy("cell", fn.col("place").alias("broker")).agg(fn.count("*").alias("fixes"))
