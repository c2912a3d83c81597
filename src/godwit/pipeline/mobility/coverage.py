"""What a placement of brokers would do: which share of positions it reaches, and how often clients change brokers.

*Theory.* A client is at the nearest broker that reaches it (`cells.Brokers`). So visits and transitions are mined for
brokers as for cells, and with the same files as a result; here is what is asked of a placement besides. Handovers are
counted as they were seen: a broker that is passed between two fixes is not noticed.

*Rules.*
1. Shares are of used fixes: what cleaning has left out is neither reached nor missed.
2. An hour is one that a client was observed: gaps between trips do not count.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["cells_to_brokers", "coverage"]


def coverage(fixes: "DataFrame", visits: "DataFrame") -> dict[str, Any]:
    """From fixes that are placed at brokers and the visits made of them: shares, hours and handovers."""
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
    """By `cell` and `broker` (null where none reaches), how many fixes there are, of fixes that have a `cell` too."""
    from pyspark.sql import functions as fn

    return fixes.groupBy("cell", fn.col("place").alias("broker")).agg(fn.count("*").alias("fixes"))
