"""The data pipeline on Spark: archives and streams of events, movements, and traces of runs.

Every step is a function from DataFrames to DataFrames; `session.start` makes a quiet session, and any other session
works, too. Modules are imported when they are first used, so that other programs do not load Spark.
"""

__all__: list[str] = []
