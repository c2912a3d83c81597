"""A Spark program to be killed: events of a running broker, by way of a log, to another log."""

import sys

from godwit.pipeline import spark_session
from godwit.pipeline.spark_source import register


def main(broker: str, log: str, out: str, checkpoint: str) -> None:
    spark = spark_session.start(
        "local[2]", "godwit-driver", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    )
    register(spark)
    options = {"broker": broker, "filter": "n >= 0", "name": "spark", "rows_per_batch": "20", "attributes": "n int"}
    events = spark.readStream.format("godwit").options(**options).load(log)
    query = events.writeStream.format("godwit").option("checkpointLocation", checkpoint).start(out)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
