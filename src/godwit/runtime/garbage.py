"""How often Python looks for garbage: seldom, for a broker makes next to none that it must look for.

*Theory.* What goes out of use is freed at once by counting references. Python's collector looks for the rest, which is
objects that hold on to each other, whenever 700 objects have come that are still there; and its longest search looks at
every object of the process. The machines make no such objects, and a broker with 100,000 subscriptions has millions of
others to be looked at in vain: a third of the broker's work, and pauses of half a second.

*Rules.*
1. A search of the young begins when `YOUNG_MAX` objects have come; a search of all when 50 times as many have, and the
   process has grown by a quarter since the last one.
2. What is there when this is called is not looked at again: imported modules, tables of the language.
"""

import gc

__all__ = ["tend_garbage"]

YOUNG_MAX = 50_000  # a search of so many takes about a millisecond
YOUNG_SEARCHES = 10
MIDDLE_SEARCHES = 5


def tend_garbage() -> None:
    """Set the collector for a process that serves. To be called once, at its start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, YOUNG_SEARCHES, MIDDLE_SEARCHES)
