"""The collector of garbage rests while an experiment runs or measures.

*Theory.* A run keeps nearly all that it makes until it ends: journals, tables, the ledger. The collector looks through
all of that again and again, which is a tenth to a fifth of the processor time of a run, and finds little. What one run
leaves is collected before the next.

*Rules.*
1. A context inside another changes nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_garbage"]


@contextmanager
def no_garbage() -> Iterator[None]:
    """In this context the collector of garbage rests, if it does not already."""
    if not gc.isenabled():  # (rule 1)
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
