"""Errors of Godwit in a worker of Spark: their sentence is reported without the stack trace of the worker.

Spark writes the whole trace of a data source's exception into the message of its own exception, and the cause comes
last. A worker with `SPARK_HIDE_TRACEBACK` in its environment writes the exception alone. The variable is set when the
error is raised: such a worker then ends, so the errors of other code keep their traces. (Decision 640)
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from godwit.errors import GodwitError

__all__ = ["sentence_first"]

HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def sentence_first() -> Iterator[None]:
    """Around code of a data source, also as a decorator: report an error of Godwit without the trace."""
    try:
        yield
    except GodwitError:
        if _is_worker():
            os.environ[HIDE] = "1"
        raise


def _is_worker() -> bool:
    """Whether this is a process of PySpark, which is started as `python -m pyspark.…`."""
    module = getattr(sys.modules.get("__main__"), "__spec__", None)
    return module is not None and module.name.startswith("pyspark.")
