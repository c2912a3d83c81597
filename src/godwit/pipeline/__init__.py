"""The data pipeline: archives and streams of events, movement and runs, on Spark.

Every step is a function from DataFrames to DataFrames; `session.start` makes a quiet session, and any other will do.
Modules are loaded when they are first named, so that nobody pays for Spark who does not use it.
"""

__all__: list[str] = []
